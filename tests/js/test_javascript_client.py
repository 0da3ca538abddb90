"""The JavaScript client, clients/js: on all vectors, on generated cases, with mistakes planted into
it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deniable.queries.signed.signing import SignedQuery
from toolkit.references import port_vectors
from toolkit.references.client_vectors import Rows
from toolkit.references.generated_cases import cases
from toolkit.references.port_vectors import PortDevice
from toolkit.references.reference_client import ReferenceDevice

CLIENT = Path(__file__).parents[2] / "clients" / "js"
VECTORS = Path(__file__).parents[1] / "vectors"
LONG = os.environ.get("DENIABLE_LONG") == "1"
NODE = shutil.which("node") or "node"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
]


def node(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own files
        [NODE, *arguments], cwd=CLIENT, capture_output=True, text=True, check=False, **options
    )


def test_its_own_tests_pass() -> None:
    # by name: the folder also has programs that the other tests start, which wait for their input
    tests = sorted(str(path.relative_to(CLIENT)) for path in (CLIENT / "test").glob("*.test.*"))
    said = node("--test", *tests, stdin=subprocess.DEVNULL, timeout=300)
    assert said.returncode == 0, said.stdout[-4000:]
    assert "# fail 0" in said.stdout


@pytest.mark.parametrize("name", ["client", "client-ask", "client-ports"])
def test_the_conformance_command_finds_no_difference(name: str) -> None:
    from deniable.client.conformance import compare, read_vectors  # noqa: PLC0415 - the command's own parts

    vectors = read_vectors(VECTORS / f"{name}-v1.json")
    results = list(compare(vectors, [NODE, str(CLIENT / "bin" / "conformance.js")]))
    assert [str(difference) for _, difference in results if difference is not None] == []
    assert len(results) == sum(len(case["steps"]) for case in vectors["cases"])


def test_the_port_vectors_are_what_the_library_does() -> None:
    assert json.loads(port_vectors.VECTORS.read_text(encoding="utf-8")) == json.loads(
        json.dumps(port_vectors.make())
    )


def test_the_reference_agrees_with_the_port_vectors() -> None:
    vectors = json.loads(port_vectors.VECTORS.read_text(encoding="utf-8"))
    checked = 0
    for case in vectors["cases"]:
        # rules of queries, which the reference takes from the signature
        if case["group"] == "forms":
            continue
        policy = {**case["policy"], "proxies": vectors["proxies"]}
        device = ReferenceDevice(policy, vectors["ring"], bytes.fromhex(vectors["secret"]))
        for i, step in enumerate(case["steps"]):
            said = device.answer(step, vectors["queries"][step["query"]])
            wrong = [name for name, value in step["expect"].items() if said.get(name) != value]
            assert not wrong, f"{case['group']}: {case['name']}, step {i}: {wrong}"
            checked += 1
    assert checked > 400


FIELDS = ("outcome", "reason", "epoch", "cost", "reports", "messages", "shares")


class ThreeDevices:
    """The JavaScript client, the library's own device and the reference, asked the same."""

    def __init__(self, folder: Path, rows: Rows) -> None:
        self.folder, self.rows, self.stores = folder, rows, 0
        self.process = subprocess.Popen(  # noqa: S603 - our own files
            [NODE, str(CLIENT / "bin" / "conformance.js")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answers(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        """What each makes of it."""
        sql = SignedQuery.from_bytes(question["query"].encode()).unverified().sql
        question = {**question, "rows": self.rows.show(question["rows"], sql)}
        if question["fresh"]:
            settings = {
                name: value
                for name, value in question["policy"].items()
                if name not in ("slot", "proxies")
            }
            self.stores += 1
            self.device = PortDevice(self.rows, self.folder / f"{self.stores}.store", settings)
            self.reference = ReferenceDevice(
                question["policy"], question["ring"], bytes.fromhex(question["secret"])
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        found = [
            json.loads(self.process.stdout.readline()),
            self.device.answer(
                question["query"].encode(), question["now"], bytes.fromhex(question["random"])
            ),
            self.reference.answer(question, question["query"]),
        ]
        return [{name: each.get(name) for name in FIELDS} for each in found]

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def test_both_clients_and_the_reference_agree_on_generated_cases(tmp_path: Path) -> None:
    n = 10_000 if LONG else 300
    outcomes: Counter[str] = Counter()
    with closing(Rows(tmp_path)) as rows, closing(ThreeDevices(tmp_path, rows)) as devices:
        for question in cases(n, seed=20261118):
            javascript, library, reference = devices.answers(question)
            asked = (question["query"], question["rows"], question["now"])
            assert javascript == library == reference, asked
            outcomes[reference["outcome"]] += 1
    assert outcomes["answered"] > n / 2
    assert {"sampled out", "refused"} <= set(outcomes)


def test_planted_mistakes_are_caught() -> None:
    said = node("mutation/run.js", *([] if LONG else ["--every", "24"]))
    assert said.returncode == 0, said.stdout[-4000:]
    assert " 0 not as listed" in said.stdout


LARGEST_BUNDLE = 20_480
"""Bytes of the whole client without SQL, gzipped."""


def bundled(output: Path, *entry: str) -> str:
    """The line that the bundle script prints."""
    said = node("minify.mjs", str(output), *entry)
    assert said.returncode == 0, said.stderr[-2000:]
    return said.stdout


@pytest.mark.skipif("DENIABLE_NODE" not in os.environ, reason="DENIABLE_NODE is not set")
def test_the_minified_client_is_small() -> None:
    with tempfile.TemporaryDirectory() as folder:
        line = bundled(Path(folder, "client.js"))
    assert int(line.split(" gzipped")[0].rsplit(" ", 1)[1]) <= LARGEST_BUNDLE


@pytest.mark.skipif("DENIABLE_NODE" not in os.environ, reason="DENIABLE_NODE is not set")
def test_the_minified_client_passes_the_same_tests(tmp_path: Path) -> None:
    # two folders deep, as the vectors and modules are found from there
    tests = tmp_path / "clients" / "js" / "test"
    tests.mkdir(parents=True)
    (tmp_path / "tests").symlink_to(VECTORS.parent)
    (tmp_path / "clients" / "js" / "src").symlink_to(CLIENT / "src")
    for name in ("client", "vectors"):
        bundled(tests / f"{name}.test.mjs", f"test/{name}.test.js")
    said = node("--test", *map(str, tests.iterdir()), stdin=subprocess.DEVNULL, timeout=300)
    assert said.returncode == 0, said.stdout[-4000:]
    assert "# fail 0" in said.stdout


def test_every_reason_of_a_refusal_is_documented() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (CLIENT / "src").rglob("*.js")]
    constants = {
        name: text
        for source in sources
        for name, text in re.findall(r'^const ([A-Z_]+) = "([^"]+)";', source, re.MULTILINE)
    }
    given = {
        argument
        for source in sources
        for argument in re.findall(r'(?:new Refusal|stop)\(("[^"]+"|[A-Z_]+)[,)]', source)
    }
    reasons = {constants[each] if each in constants else each.strip('"') for each in given}
    page = (CLIENT.parents[1] / "docs" / "javascript.md").read_text(encoding="utf-8")
    section = page.split("## Why a query is refused")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = [name for row in rows for name in re.findall("`([^`]+)`", row)]
    # of a ternary, which the search does not see
    assert sorted(reasons | {"unusable query", "outside the envelope"}) == sorted(documented)
