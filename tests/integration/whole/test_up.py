"""`deniable up`: one file, first simulated, then as services with TLS on two "hosts", with real
devices."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.client.device import Device
from deniable.client.http_transport import HttpTransport
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.local.people import make_vaults
from deniable.local.services import free_ports
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from toolkit.servers.certificates import self_signed

SOURCE = Path(__file__).parents[3] / "src"
N_PEOPLE = 24


def write_files(folder: Path) -> list[int]:
    """A query, a key, certificates, a table, and the one file that names them all."""
    ports = free_ports(3)
    now = int(time.time())
    proxies = ", ".join(f'"https://127.0.0.1:{port}"' for port in ports[:2])
    text = f"""
id = "colour"
analyst = "City of Exampleton"
sql = "SELECT colour FROM walls"
proxies = [{proxies}]
minimum_cohort = 5
schedule = {{ origin = {now}, expires = {now + 600}, every = 3, window = 3, slide = 3 }}
mechanism = {{ name = "DirectEncoding", epsilon = 40.0 }}
[[columns]]
name = "colour"
buckets = ["red", "green"]
other = true
"""  # noqa: S608 - no input
    (folder / "query.toml").write_text(text)
    key = AnalystKey.generate("City of Exampleton")
    key.save(folder / "city.key")
    key.public.save(folder / "city.key.pub")
    for name in ("one", "two", "aggregator"):
        self_signed(folder, name)
    (folder / "trusted.pem").write_text(
        "".join((folder / f"{name}.pem").read_text() for name in ("one", "two", "aggregator"))
    )
    colours = ["red", "green", "blue", "red"]
    rows = [f"{person},{colours[person % 4]}" for person in range(N_PEOPLE)]
    (folder / "walls.csv").write_text("\n".join(["person,colour", *rows, ""]))
    tables = [
        f'[[services.proxies]]\nname = "{name}"\nport = {port}\ncertificate = "{name}.pem"\nkey ='
        f' "{name}.key"\ntoken_file = "{name}.token"\nintake = {{ grace = "6 s", deadline = "1 s"'
        " }\n"
        for name, port in zip(("one", "two"), ports, strict=False)
    ]
    (folder / "up.toml").write_text(
        'mode = "simulation"\nquery = "query.toml"\n[data]\ntable = "walls.csv"\nowner = "person"\n'
        '[services]\nkeys = ["city.key.pub"]\nanalyst_key = "city.key"\n'
        + "".join(tables)
        + f'[services.aggregator]\nport = {ports[2]}\ncertificate = "aggregator.pem"\nkey ='
        ' "aggregator.key"\n'
    )
    return ports


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "SSL_CERT_FILE": str(folder / "trusted.pem"),
        "PYTHONUNBUFFERED": "1",
    }
    command = [
        sys.executable,
        "-c",
        "from deniable.cli import main; main()",
        "up",
        str(folder / "up.toml"),
        *arguments,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)  # noqa: S603 - our own command
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=40)
    assert process.returncode == 0


def test_a_simulation_of_ones_own_table_estimates_its_truth(tmp_path: Path) -> None:
    write_files(tmp_path)
    before = sorted(tmp_path.iterdir())
    result = CliRunner().invoke(cli, ["up", str(tmp_path / "up.toml"), "--seconds", "4", "--json"])
    assert result.exit_code == 0, result.output
    out = json.loads(result.stdout)
    assert out["windows"]
    for window in out["windows"]:
        assert window["truth"] == [0.5, 0.25, 0.25]
        assert window["conservation"]["balanced"] is True
    best = max(out["windows"], key=lambda window: window["n"])
    assert best["n"] == N_PEOPLE  # no sampling: all answer, and there is next to no noise
    assert best["estimate"] == pytest.approx([0.5, 0.25, 0.25], abs=1e-9)
    assert sorted(tmp_path.iterdir()) == before


def test_the_same_file_runs_services_with_tls_on_two_hosts_for_real_devices(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    ports = write_files(first)
    shutil.copytree(first, second)
    with running(first, "--mode", "services", "--start", "one") as one:
        assert one.stdout is not None
        assert one.stdout.readline().startswith(f"one at https://127.0.0.1:{ports[0]}")
        # what the operators of the two hosts have to exchange
        shutil.copy(first / "one.token", second / "one.token")
        with running(
            second, "--mode", "services", "--start", "two", "--start", "aggregator"
        ) as two:
            assert two.stdout is not None
            for line in two.stdout:
                if line.startswith("Published "):
                    break
            else:
                pytest.fail("it ended before the query was published")
            window = next(answered_by_devices(tmp_path, first, second, ports, two))
            assert "colour, window" in window
            figures = {
                label: float(figure)
                for label, figure, *_ in (two.stdout.readline().split() for _ in range(3))
            }
    assert figures == {"red": 50.0, "green": 25.0, "other": 25.0}


def answered_by_devices(
    tmp_path: Path, first: Path, second: Path, ports: list[int], two: subprocess.Popen[str]
) -> Iterator[str]:
    """Let every person's device answer once, and give the lines of the windows that have an
    estimate."""
    tokens = []
    for folder, name in ((first, "one"), (second, "two")):
        add = [
            "proxy",
            "token",
            "add",
            str(folder / "services" / f"{name}.toml"),
            "--count",
            str(N_PEOPLE),
        ]
        made = CliRunner().invoke(cli, add)
        assert made.exit_code == 0, made.output
        tokens.append(made.stdout.split())
    ring = KeyRing.load(second / "services" / "ring.json")
    colours = ["red", "green", "blue", "red"]
    rows = [[(colours[person % 4],)] for person in range(N_PEOPLE)]
    vaults = make_vaults(tmp_path / "vaults", "walls", {"colour": "TEXT"}, rows, ["colour"])
    names = [f"https://127.0.0.1:{port}" for port in ports[:2]]
    client = httpx.Client(
        verify=ssl.create_default_context(cafile=str(first / "trusted.pem")), timeout=20
    )
    deadline = time.monotonic() + 30
    # until both relay the query
    while not all(client.get(f"{name}/v1/queries").json() for name in names):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with HttpTransport(client=client) as transport:
        now = int(time.time())  # the same for all, so that they answer for the same epoch
        for i, (vault, *own) in enumerate(zip(vaults, *tokens, strict=True)):
            policy = Policy(
                ring,
                dict(zip(names, own, strict=True)),
                epsilon_per_answer=41,
                limits=(),
                upload_within=0,
            )
            device = Device(
                vault, policy, Store(tmp_path / f"{i}.client", durable=False), isolated=False
            )
            receipts, uploaded = device.once(transport, now)
            assert [receipt.outcome for receipt in receipts] == ["answered"], receipts
            assert (uploaded.sent, uploaded.problems) == (2, ())
    assert two.stdout is not None
    for line in two.stdout:
        if "no estimate" not in line:
            yield line
