"""What holds for every decoder and any bytes, and the inputs that are kept."""

from __future__ import annotations

import importlib
import json
import pkgutil
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from deniable.errors import DeniableError

__all__ = ["CORPUS", "Target", "judge", "kept", "load", "mutations", "names", "write_kept"]

CORPUS = Path(__file__).parent / "corpus"
LONGEST_LINE = 4000
MOST_SECONDS = 5.0
_MOST_KEPT = 12_000
"""Bytes of what is kept of one target."""


class Target(Protocol):
    """A module of `targets`."""

    WEIGHT: int
    """Its part of the executions of a long run, in proportion to the others'."""
    LONGEST: int
    """Bytes of an input."""
    DICTIONARY: Sequence[bytes]
    """Words of the format that mutations put in."""

    def seeds(self) -> list[bytes]:
        """Inputs to begin with."""
        ...

    def check(self, data: bytes) -> None:
        """Decode; raises a `DeniableError` for what is refused, and an `AssertionError` for what
        should have been."""
        ...


def names() -> list[str]:
    """All targets."""
    from fuzz import targets  # noqa: PLC0415 - after the import hook, where there is one

    return sorted(module.name for module in pkgutil.iter_modules(targets.__path__))


def load(name: str) -> Target:
    """A target by its name."""
    return cast("Target", importlib.import_module(f"fuzz.targets.{name}"))


def judge(check: Callable[[bytes], None], data: bytes) -> bool:
    """Whether the input was accepted. Any error outside the tree, too much time or a message that
    is no line escapes."""
    began = time.process_time()
    try:
        check(data)
        accepted = True
    except DeniableError as error:
        line = str(error)
        assert line, f"{type(error).__name__} says nothing"
        assert len(line) <= LONGEST_LINE, f"{type(error).__name__} has {len(line)} characters"
        accepted = False
    seconds = time.process_time() - began
    assert seconds < MOST_SECONDS, f"took {seconds:.1f} s"
    return accepted


def kept(name: str) -> list[bytes]:
    """The inputs of a target that are kept: its seeds, and what reached code that none before it
    did."""
    path = CORPUS / f"{name}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return [*load(name).seeds(), *(_decoded(entry) for entry in found)]


def write_kept(name: str, inputs: Sequence[bytes]) -> None:
    """Keep inputs, beside the seeds and the shortest first: as texts where they are text, else in
    hexadecimal digits."""
    seeds = set(load(name).seeds())
    lines: list[str] = []
    for each in sorted(set(inputs) - seeds, key=lambda each: (len(each), each)):
        lines.append(json.dumps(_encoded(each)))
        if sum(map(len, lines)) > _MOST_KEPT:
            lines.pop()
            break
    if not lines:
        return
    CORPUS.mkdir(exist_ok=True)
    (CORPUS / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def _encoded(data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return (
        text
        if text.isprintable() or sum(map(str.isprintable, text)) > 0.9 * len(text)
        else {"hex": data.hex()}
    )


def _decoded(entry: Any) -> bytes:
    return entry.encode() if isinstance(entry, str) else bytes.fromhex(entry["hex"])


def mutations(
    inputs: Sequence[bytes], words: Sequence[bytes], n: int, longest: int, seed: int
) -> Iterator[bytes]:
    """Inputs changed in a few places, the same ones for the same seed: for where no coverage
    guides."""
    chance = random.Random(seed)  # noqa: S311 - the same mutations every time
    for _ in range(n):
        data = bytearray(chance.choice(inputs))
        for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
            at = chance.randrange(len(data) + 1)
            how = chance.randrange(7)
            if how == 0 and at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            elif how == 1 and at < len(data):
                data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            elif how == 2:
                del data[at : at + chance.choice((1, 2, 8, 64))]
            elif how == 3:
                data[at:at] = bytes(
                    chance.choice((0, 0xFF, chance.randrange(256)))
                    for _ in range(chance.choice((1, 4, 8)))
                )
            elif how == 4 and words:
                data[at:at] = chance.choice(words)
            elif how == 5:
                other = chance.choice(inputs)
                start = chance.randrange(len(other) + 1)
                data[at : at + chance.choice((0, 8, 64))] = other[
                    start : start + chance.choice((1, 8, 64))
                ]
            else:
                start = chance.randrange(len(data) + 1)
                data[at:at] = data[start : start + chance.choice((1, 8, 64))]
        yield bytes(data[:longest])
