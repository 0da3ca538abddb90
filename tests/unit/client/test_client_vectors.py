"""The specification of a client: vectors that the library makes, and a client written from
docs/wire.md alone agrees with."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from deniable.client.portable import PortableSource
from toolkit.references import client_vectors, reference_client, reference_mechanisms
from toolkit.references.reference_client import ReferenceDevice
from toolkit.references.reference_mechanisms import ONE

VECTORS: dict[str, Any] = json.loads(client_vectors.VECTORS.read_text())


def differences(make: Callable[[dict[str, Any]], ReferenceDevice]) -> list[str]:
    """The cases in which a client differs from the vectors, in any field or in how many random
    bytes it used."""
    out = []
    for case in VECTORS["cases"]:
        device = make(case)
        for step in case["steps"]:
            try:
                made = device.answer(step, VECTORS["queries"][step["query"]])
            except (EOFError, LookupError):
                made = {"used": -1}
            same = all(made.get(name) == value for name, value in step["expect"].items())
            if not same or made["used"] != len(step["random"]) // 2:
                out.append(f"{case['group']}: {case['name']}")
    return out


def reference(case: dict[str, Any]) -> ReferenceDevice:
    policy = {**case["policy"], "proxies": VECTORS["proxies"]}
    return ReferenceDevice(policy, VECTORS["ring"], bytes.fromhex(VECTORS["secret"]))


@pytest.mark.slow
def test_the_library_makes_these_vectors() -> None:
    assert client_vectors.make() == VECTORS


def test_a_client_written_from_the_page_alone_makes_every_byte_of_them() -> None:
    assert differences(reference) == []


def test_that_client_knows_nothing_of_the_library() -> None:
    for module in (reference_client, reference_mechanisms):
        tree = ast.parse(Path(str(module.__file__)).read_text())
        imported = [
            node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        ]
        imported += [
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import)
            for name in node.names
        ]
        assert not [name for name in imported if name.startswith("deniable")]


def test_the_vectors_fit_their_schema_and_cover_every_group_and_outcome() -> None:
    schema = json.loads(client_vectors.SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(VECTORS, schema)
    outcomes = Counter(
        step["expect"]["outcome"] for case in VECTORS["cases"] for step in case["steps"]
    )
    assert sum(outcomes.values()) >= 300
    assert set(outcomes) == {"answered", "sampled out", "refused", "again", "waiting"}
    reasons = {step["expect"].get("reason") for case in VECTORS["cases"] for step in case["steps"]}
    assert len(reasons) >= 13


# --- mistakes that a port makes: each is found


def _most_significant_first(bits: list[int]) -> bytes:
    return bytes(
        sum(bit << (7 - i) for i, bit in enumerate(bits[at : at + 8]))
        for at in range(0, len(bits), 8)
    )


def _big_endian(self: reference_mechanisms.Words) -> int:
    self.at += 8
    return (
        int.from_bytes(self.script[self.at - 8 : self.at], "big")
        if self.at <= len(self.script)
        else ONE - 1
    )


def _biased(self: reference_mechanisms.Words, bound: int) -> int:
    return self.word() % bound


MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "bits from the most significant on": (reference_mechanisms, "pack", _most_significant_first),
    "words in network order": (reference_mechanisms.Words, "word", _big_endian),
    "coins that include their threshold's other side": (
        reference_mechanisms.Words,
        "coin",
        lambda self, threshold: int(self.word() > threshold),
    ),
    "whole numbers by remainder": (reference_mechanisms.Words, "below", _biased),
    "probabilities rounded to the nearest": (
        reference_mechanisms,
        "up",
        reference_mechanisms.nearest,
    ),
    "no data left out": (reference_client, "bucket_of", lambda columns, row: 0),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_port_with_a_mistake_differs_from_the_vectors(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*MISTAKES[mistake])
    found = differences(reference)
    assert found, mistake


def test_draws_of_the_specification_follow_their_laws() -> None:
    """Every word of a source of few bits: a coin of t/2**64 is 1 for exactly the words below t."""
    words = [word << 60 for word in range(16)]  # sixteen words, evenly spread
    script = b"".join(word.to_bytes(8, "little") for word in words)
    assert PortableSource(script).coins(5 << 60, 16).tolist() == [1] * 5 + [0] * 11
    assert Counter(PortableSource(script).below(4, 16).tolist()) == dict.fromkeys(range(4), 4)
    sets = Counter()  # type: ignore[var-annotated]
    # uniform for bounds 4, 3, 2 and 1 at once
    spread = [((2 * i + 1) << 63) // 12 for i in range(12)]
    for a in spread:
        for b in spread:
            for c in spread:
                script = b"".join(word.to_bytes(8, "little") for word in (a, b, c, 0))
                sets[PortableSource(script).subsets(1, 4, 2).tobytes()] += 1
    assert len(sets) == 6
    assert set(sets.values()) == {12**3 // 6}
