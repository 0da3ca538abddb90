"""The client of the standard library, clients/lite: vectors, signatures, and consent."""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable import AnalystKey, Column, Query, Schedule, sign
from deniable.client.conformance import compare, read_vectors

FOLDER = Path(__file__).parents[2] / "clients" / "lite"
FILE = FOLDER / "deniable_lite.py"
VECTORS = Path(__file__).parents[1] / "vectors"
ORIGIN, WEEK = 1_767_225_600, 7 * 86_400
PROXIES = ["https://one.example", "https://two.example"]
ORDER = 2**252 + 27742317777372353535851937790883648493


def load() -> Any:
    spec = importlib.util.spec_from_file_location("deniable_lite", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lite = load()


@pytest.mark.parametrize("name", ["client-ask"])
def test_the_conformance_command_finds_no_difference(name: str) -> None:
    check_conformance(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["client", "client-ports"])
def test_the_conformance_command_finds_no_difference_in_the_long_vectors(name: str) -> None:
    check_conformance(name)


def check_conformance(name: str) -> None:
    vectors = read_vectors(VECTORS / f"{name}-v1.json")
    results = list(compare(vectors, [sys.executable, "-S", str(FOLDER / "conformance.py")]))
    assert [str(difference) for _, difference in results if difference is not None] == []
    assert len(results) == sum(len(case["steps"]) for case in vectors["cases"])


def refusal(ring: list[dict[str, Any]], signed: str, now: int) -> str:
    try:
        query = lite.authenticate(lite.Ring(ring), signed, now)
    except lite.Refusal as refused:
        return str(refused.reason)
    return "expired query" if now >= query.given["schedule"]["expires"] else ""


def key_of(public: str, owner: str) -> list[dict[str, Any]]:
    return [
        {"owner": owner, "public": public, "valid_from": 0, "valid_until": 2**40, "revoked": False}
    ]


def test_queries_and_versions_are_accepted_and_refused_as_the_vectors_say() -> None:
    owner = "City of Exampleton"
    queries = json.loads((VECTORS / "query-v1.json").read_text(encoding="utf-8"))
    for each in queries["good"]:
        query = lite.Query(each["content"])
        assert query.digest.hex() == each["digest"]
        assert query.channel_tag()[::-1].hex() == each["channel_tag"]
        assert query.buckets.labels == each["labels"]
        assert query.mechanism.bytes == each["report_bytes"]
    for each in queries["bad"]:
        fields = {"format": "deniable signed query 1", "query": each["content"]}
        signed = json.dumps({**fields, "key": each["key"], "signature": each["signature"]})
        found = refusal(key_of(each["public"], owner), signed, queries["now"])
        assert found == each["reason"], each["name"]
    versions = json.loads((VECTORS / "version-v1.json").read_text(encoding="utf-8"))
    for each in versions["good"] + versions["bad"]:
        ring = key_of(each["public"], owner)
        found = refusal(ring, json.dumps(each["signed"]), versions["now"])
        assert found == each.get("reason", ""), each["name"]
    asked = json.loads((VECTORS / "query-ask-v1.json").read_text(encoding="utf-8"))
    for each in asked["good"] + asked["bad"]:
        found = refusal(key_of(asked["public"], "City"), each["signed"], asked["now"])
        assert found == each.get("reason", ""), each["name"]


def test_signatures_are_judged_as_cryptography_judges_them() -> None:
    # RFC 8032, section 7.1, test 2
    public = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    good = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert lite.verify(public, good, b"\x72")
    for i in range(4):
        private = Ed25519PrivateKey.generate()
        key, content = private.public_key().public_bytes_raw(), b"message %d" % i
        signature = private.sign(content)
        assert lite.verify(key, signature, content)
        s = int.from_bytes(signature[32:], "little")
        beyond = signature[:32] + (s + ORDER).to_bytes(
            32, "little"
        )  # the same number modulo the order
        flipped = bytes([signature[0] ^ 1]) + signature[1:]
        for bad in (beyond, flipped, signature[:63], bytes(64)):
            assert not lite.verify(key, bad, content)
        assert not lite.verify(key, signature, content + b"!")
        assert not lite.verify(b"\xff" * 32, signature, content)


def test_it_imports_the_standard_library_alone_and_is_python_3_9() -> None:
    tree = ast.parse(FILE.read_text(encoding="utf-8"), feature_version=(3, 9))
    named = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [a.name for a in node.names]
        )
    }
    late = {
        word.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "map"
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
        for word in part.value.split()
        if any(isinstance(a, ast.Name) and a.id == "_Late" for a in node.args)
    }
    assert "sqlite3" in late
    assert named | late <= set(sys.stdlib_module_names)


class RecordingTransport:
    """Proxies that remember every request."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes]] = []

    def poll(self, proxy: str, now: int) -> tuple[list[str], float, list[str]]:
        self.seen.append(("poll", proxy, b""))
        return [], 0.0, []

    def enrol(self, proxy: str, body: dict[str, str]) -> str:
        self.seen.append(("enrol", proxy, b""))
        return "a token of a proxy"

    def send(self, proxy: str, token: str, body: bytes) -> None:
        self.seen.append(("send", proxy, body))


class Person:
    """A tool's user with a clock of their own."""

    def __init__(self, folder: Path, **environ: str) -> None:
        key = AnalystKey.generate("Tool makers")
        query = Query(
            id="versions",
            analyst="Tool makers",
            question="Which version do you use?",
            ask="value",
            value="app",
            sql="",
            columns=[Column("version", ["1.0", "2.0"], kind="text", other=True)],
            schedule=Schedule(ORIGIN, ORIGIN + 52 * WEEK, WEEK, WEEK, WEEK),
            proxies=PROXIES,
            mechanism={"name": "SymmetricUnary", "epsilon": 1.0},
        )
        ring = key_of(key.public.raw.hex(), "Tool makers")
        signed = sign(query, key).to_bytes().decode()
        config = {"ring": ring, "proxies": PROXIES, "queries": [signed], "values": {"app": {}}}
        self.time = ORIGIN + 100
        self.transport = RecordingTransport()
        self.telemetry = lite.Telemetry(
            "tool", config, str(folder / "data"), environ, lambda: self.time, background=False
        )
        self.telemetry.new_transport = lambda: self.transport
        self.folder = folder

    def weeks(self, n: int) -> None:
        for _ in range(n):
            self.time += WEEK
            for _ in range(2):
                self.telemetry.set("app", version="2.0")
                self.telemetry.flush()
                self.telemetry.round()
                self.time += 3600


def sends(person: Person) -> list[bytes]:
    return [body for kind, _, body in person.transport.seen if kind == "send"]


def test_someone_who_says_yes_answers_once_a_week_to_both_proxies(tmp_path: Path) -> None:
    person = Person(tmp_path)
    shown: list[str] = []
    assert person.telemetry.ask(lambda: "y\n", shown.append)
    text = "".join(shown)
    for words in ("Which version do you use?", "Once every week", "factor of 2.72", *PROXIES):
        assert words in text
    person.weeks(3)
    assert len(sends(person)) == 6
    assert {len(body) for body in sends(person)} == {80}
    assert "answered" in "".join(person.telemetry.receipts())


@pytest.mark.parametrize("reply", ["", "n\n", "what?\n"])
def test_nothing_is_recorded_or_sent_without_a_yes(tmp_path: Path, reply: str) -> None:
    person = Person(tmp_path)
    person.weeks(1)
    assert not (tmp_path / "data").exists()
    assert not person.telemetry.ask(lambda: reply, lambda _: None)
    person.weeks(2)
    assert person.transport.seen == []
    rows = person.telemetry.store.change(
        lambda db, _: db.execute("SELECT count(*) FROM recorded").fetchone()[0]
    )
    assert rows == 0
    asked: list[str] = []
    person.telemetry.ask(lambda: "y\n", asked.append)
    assert asked == [], "a person who said no was asked again"


@pytest.mark.parametrize(
    "environ", [{"DO_NOT_TRACK": "1"}, {"CI": "true"}, {"TOOL_TELEMETRY": "0"}]
)
def test_the_environment_counts_more_than_a_yes(tmp_path: Path, environ: dict[str, str]) -> None:
    person = Person(tmp_path, **environ)
    person.telemetry.on()
    person.weeks(2)
    assert person.transport.seen == []
    assert not person.telemetry.is_on()


def test_off_drops_what_waits_and_forget_deletes_the_file(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.telemetry.on()
    person.weeks(1)
    person.telemetry.off()
    before = len(person.transport.seen)
    person.weeks(2)
    assert len(person.transport.seen) == before
    person.telemetry.forget()
    assert list((tmp_path / "data").iterdir()) == []


def test_a_preview_shows_bytes_and_keeps_nothing(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.telemetry.on()
    person.telemetry.set("app", version="2.0")
    person.telemetry.flush()
    before = person.telemetry.store.change(lambda db, state: state)
    lines = person.telemetry.preview()
    assert sum(line.startswith("  POST ") for line in lines) == 2
    assert any(line.startswith("  the randomized report says: ") for line in lines)
    assert person.telemetry.store.change(lambda db, state: state) == before
    assert person.transport.seen == []


def test_a_home_that_cannot_be_written_is_no_yes(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be", encoding="utf-8")
    person = Person(tmp_path)
    assert not person.telemetry.ask(lambda: "y\n", lambda _: None)
    person.weeks(1)
    assert person.transport.seen == []


def test_what_a_device_sends_and_when_does_not_depend_on_the_data(tmp_path: Path) -> None:
    seen = []
    for version in ("1.0", "2.0", "unknown"):
        person = Person(tmp_path / version)
        person.telemetry.words = lambda: lite.Words(bytes(range(256)) * 64)
        person.telemetry.on()
        shapes: list[tuple[int, str, str, int]] = []
        for _ in range(6):
            person.telemetry.set("app", version=version)
            person.telemetry.flush()
            before = len(person.transport.seen)
            person.telemetry.round()
            # proxies are asked at once, by threads: their order within a round is the scheduler's
            shapes += sorted(
                (person.time, kind, proxy, len(body))
                for kind, proxy, body in person.transport.seen[before:]
            )
            person.time += WEEK // 2
        state = person.telemetry.store.change(lambda db, state: state)
        receipts = [(r["time"], r["outcome"], r["epsilon"]) for r in state["receipts"]]
        queue = [(s["proxy"], s["due"], s["expires"]) for s in state["queue"]]
        seen.append((shapes, receipts, queue))
    assert seen[0] == seen[1] == seen[2]
    assert any(kind == "send" for _, kind, _, _ in seen[0][0])
