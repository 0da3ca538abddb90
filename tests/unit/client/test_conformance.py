"""`deniable client conformance`: a port is compared with the vectors, and told where it differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.client.encoding import randomize
from deniable.mechanisms.reports import Reports
from deniable.queries.files import read_query
from deniable.randomness import seeded_source
from toolkit.references.client_vectors import VECTORS

TESTS = Path(__file__).parents[2]
PORT = """
import json, sys
from toolkit.references import reference_mechanisms
from toolkit.references.reference_client import ReferenceDevice
{mistake}
for line in sys.stdin:
    step = json.loads(line)
    if step["fresh"]:
        device = ReferenceDevice(step["policy"], step["ring"], bytes.fromhex(step["secret"]))
    print(json.dumps(device.answer(step, step["query"])), flush=True)
"""
BACKWARDS = """
def pack(bits):
    return bytes(sum(bit << (7 - i) for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8))
reference_mechanisms.pack = pack
"""


def run(tmp_path: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "port.py").write_text(program)
    command = [
        sys.executable,
        "-m",
        "deniable",
        "client",
        "conformance",
        *options,
        str(VECTORS),
        "--",
    ]
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    environment = {**os.environ, "PYTHONPATH": paths}
    command += [sys.executable, str(tmp_path / "port.py")]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)  # noqa: S603 - our own


def test_a_port_that_follows_the_page_agrees_in_every_step(tmp_path: Path) -> None:
    done = run(tmp_path, PORT.format(mistake=""))
    n_steps = sum(len(case["steps"]) for case in json.loads(VECTORS.read_text())["cases"])
    assert (done.stdout, done.stderr, done.returncode) == (
        f"{n_steps} of {n_steps} steps agree.\n",
        "",
        0,
    )


def test_a_port_that_packs_bits_from_the_wrong_end_is_told_so(tmp_path: Path) -> None:
    done = run(tmp_path, PORT.format(mistake=BACKWARDS), "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert len(said["different"]) > 100
    first = said["different"][0]
    assert first["case"].startswith('mechanisms: {"name": "TwoCoin"')
    assert first["fields"] == ["shares", "messages", "reports"]


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("print('hello')", "printed a line that is not a JSON object"),
        ("pass", "ended without a line"),
    ],
)
def test_a_port_that_cannot_be_compared_gets_one_line(
    tmp_path: Path, program: str, says: str
) -> None:
    done = run(tmp_path, program)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_that_holds_no_vectors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{}")
    done = CliRunner().invoke(
        cli, ["client", "conformance", str(tmp_path / "no.json"), "--", "true"]
    )
    assert done.exit_code == 2
    assert "client_version = 1" in done.output


def test_a_window_of_the_self_test_shows_bits_in_the_wrong_order(tmp_path: Path) -> None:
    """The truth is bucket 5 of 13. With each byte turned round it looks like bucket 2, and is never
    near bucket 5."""
    done = CliRunner().invoke(
        cli, ["query", "new", str(tmp_path / "test.toml"), "--self-test", "--id", "self-test"]
    )
    assert done.exit_code == 0, done.output
    query = read_query(tmp_path / "test.toml")
    assert query.buckets.index([5.5]) == 5
    mechanism = query.mechanism
    bits = randomize(query, np.full(20_000, 5), seeded_source(1))
    right = mechanism.estimate(Reports(mechanism, bits))
    assert right.proportions[5] == pytest.approx(1, abs=6 * right.stderr[5])
    turned = np.packbits(np.unpackbits(bits, axis=1, bitorder="little"), axis=1, bitorder="big")
    turned[:, -1] &= (1 << 13 % 8) - 1
    wrong = mechanism.estimate(Reports(mechanism, turned))
    assert wrong.proportions[5] < 0.1
    assert wrong.proportions[2] == pytest.approx(1, abs=6 * wrong.stderr[2])
