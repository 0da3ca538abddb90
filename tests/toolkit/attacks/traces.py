"""Traces of a secret: in every encoding that a careless line of code might have written it, in
files and in process listings."""

from __future__ import annotations

import base64
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ProcessWatch", "encodings", "find_traces", "traces_in"]

_SHORTEST = 6
"""Bytes below which an encoding would be found by chance."""


def encodings(secret: bytes | str | float | int) -> dict[str, bytes]:
    """The bytes that stand for a secret, by the name of the encoding."""
    raw: dict[str, bytes] = {}
    if isinstance(secret, float):
        raw = {
            "double, little-endian": struct.pack("<d", secret),
            "double, big-endian": struct.pack(">d", secret),
        }
        raw["text"] = repr(secret).encode()
    elif isinstance(secret, int):
        raw = {f"integer, {order}-endian": secret.to_bytes(8, order) for order in ("little", "big")}
        raw["text"] = str(secret).encode()
    elif isinstance(secret, str):
        raw = {
            "text": secret.encode(),
            "text, UTF-16": secret.encode("utf-16-le"),
            "text, big-endian": secret.encode("utf-16-be"),
        }
    else:
        raw = {"bytes": secret, "bytes, reversed": secret[::-1]}
    found = dict(raw)
    for name, content in raw.items():
        found[f"{name}, hexadecimal"] = content.hex().encode()
        found[f"{name}, HEXADECIMAL"] = content.hex().upper().encode()
        for shift in range(3):
            found[f"{name}, base64 at {shift}"] = _base64_core(content, shift)
            found[f"{name}, base64 for URLs at {shift}"] = (
                _base64_core(content, shift).replace(b"+", b"-").replace(b"/", b"_")
            )
    return {name: content for name, content in found.items() if len(content) >= _SHORTEST}


def _base64_core(content: bytes, shift: int) -> bytes:
    """What depends on the secret alone in the base64 of a longer text in which it begins `shift`
    bytes into a group."""
    coded = base64.b64encode(bytes(shift) + content)
    first = (0, 2, 3)[shift]
    whole = (shift + len(content)) // 3 * 4
    return coded[first:whole]


def traces_in(
    content: bytes, secrets: Mapping[str, bytes | str | float | int]
) -> Iterator[tuple[str, str]]:
    """The secrets in some bytes, each with its encoding."""
    for name, secret in secrets.items():
        for encoding, form in encodings(secret).items():
            if form in content:
                yield name, encoding


def find_traces(
    folder: Path, secrets: Mapping[str, bytes | str | float | int]
) -> dict[str, dict[str, str]]:
    """For each secret the files under a folder that hold it, and how."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            for name, encoding in traces_in(path.read_bytes(), secrets):
                found.setdefault(name, {})[str(path.relative_to(folder))] = encoding
            for name, encoding in traces_in(str(path).encode(), secrets):
                found.setdefault(name, {})[f"the name of {path.relative_to(folder)}"] = encoding
    return found


@dataclass
class ProcessWatch:
    """What `ps` and `/proc` show of processes below one: command lines and environments."""

    root: int
    seen: dict[tuple[int, bytes], bytes] = field(default_factory=dict)
    """By process and command line: both texts together."""

    def look(self) -> None:
        """Look once at all processes that descend from the root."""
        for pid in self._descendants():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                self.seen[pid, command] = (
                    command + b"\n" + Path(f"/proc/{pid}/environ").read_bytes()
                )
            except OSError:
                continue  # it has ended meanwhile

    def _descendants(self) -> list[int]:
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                except (OSError, IndexError, ValueError):
                    continue
                children.setdefault(parent, []).append(int(entry.name))
        found, left = [], [self.root]
        while left:
            below = children.get(left.pop(), [])
            found += below
            left += below
        return found

    @contextmanager
    def watching(self, pause: float = 0.05) -> Iterator[None]:
        """Look again and again while the block runs."""
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                self.look()
                time.sleep(pause)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
