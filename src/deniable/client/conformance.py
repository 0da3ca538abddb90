"""Compares a port, a client in another language, with the vectors of this one: docs/wire.md, "Check
a port"."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from deniable.errors import ConformanceError

__all__ = ["VectorDifference", "compare", "read_vectors"]

_PATIENCE = 60.0  # seconds within which a port must exit after its input ends


@dataclass(frozen=True)
class VectorDifference:
    """A step in which a port differs from the vectors."""

    case: str
    step: int
    fields: tuple[str, ...]
    """What differs: names of a vector's `expect`."""

    def __str__(self) -> str:
        return f"{self.case}, step {self.step}: {', '.join(self.fields)}"


def read_vectors(path: Path) -> dict[str, Any]:
    """The vectors in a file of version 1."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConformanceError(
            f"{path} cannot be read as vectors: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not isinstance(found, dict) or found.get("client_version") != 1:
        raise ConformanceError(
            f"{path} has no client_version = 1: these are not the vectors of a client"
        )
    return found


def compare(
    vectors: Mapping[str, Any], command: Sequence[str]
) -> Iterator[tuple[int, VectorDifference | None]]:
    """Run a port on every step; yields how many steps are done, and the difference of the step if
    there is one."""
    try:
        process = subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - the user's own
    except OSError as error:
        raise ConformanceError(f"{command[0]} cannot be started: {error.strerror}") from None
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101 - both are pipes
    done = 0
    try:
        for case in vectors["cases"]:
            for number, step in enumerate(case["steps"]):
                said = _ask(
                    process.stdin,
                    process.stdout,
                    _question(vectors, case, number),
                    f"{case['name']}, step {number}",
                )
                wrong = tuple(
                    name for name, value in step["expect"].items() if said.get(name) != value
                )
                done += 1
                yield (
                    done,
                    (
                        VectorDifference(f"{case['group']}: {case['name']}", number, wrong)
                        if wrong
                        else None
                    ),
                )
        process.stdin.close()
        process.wait(_PATIENCE)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _question(vectors: Mapping[str, Any], case: Mapping[str, Any], number: int) -> bytes:
    step = case["steps"][number]
    question = {
        "fresh": number == 0,
        "policy": {**case["policy"], "proxies": vectors["proxies"]},
        "ring": vectors["ring"],
        "secret": vectors["secret"],
        "query": vectors["queries"][step["query"]],
        **{name: step[name] for name in ("now", "rows", "random")},
    }
    return json.dumps(question).encode() + b"\n"


def _ask(stdin: IO[bytes], stdout: IO[bytes], question: bytes, where: str) -> dict[str, Any]:
    try:
        stdin.write(question)
        stdin.flush()
        line = stdout.readline()
    except BrokenPipeError:
        line = b""
    try:
        said = json.loads(line) if line else None
    except ValueError:
        said = None
    if not isinstance(said, dict):
        what = "ended without a line" if not line else "printed a line that is not a JSON object"
        raise ConformanceError(f"the port {what} at {where}")
    return said
