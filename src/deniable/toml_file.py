"""TOML files, read in one way: an error names the file, the line, the key, the value and what would
be accepted."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from deniable.checksums import is_intact
from deniable.errors import ParameterError, SettingsError

__all__ = ["TomlFile", "line_of"]

_T = TypeVar("_T")
_LARGEST = 1 << 20
_TOO_DEEP = "nests too deeply to be read"
_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\- ]+?)\s*\]\]?\s*(?:#.*)?")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_\-]+)\s*=")
_STEP = re.compile(r"([A-Za-z0-9_\-]+)((?:\[\d+\])*)")

_DOTTED = re.compile(r"""(?<![\w\-])(?:(?:[\w\-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
"""A key of a hundred parts, which nobody writes: the parser takes time that grows with the square
of their number."""


class Refusal(Protocol):
    """Makes an error from a key, its value and a rule, or a whole sentence, and the file and line
    it is about."""

    def __call__(
        self,
        name: str,
        value: object,
        rule: str,
        file: str,
        line: int | None = None,
        *,
        message: str = "",
    ) -> Exception: ...


@dataclass(frozen=True)
class TomlFile:
    """A TOML text with its tree, and the error class for mistakes in it."""

    name: str
    text: str
    tree: dict[str, Any]
    refusal: Refusal = SettingsError

    @classmethod
    def read(cls, path: str | Path, refusal: Refusal = SettingsError) -> TomlFile:
        """The file at a path."""
        path = Path(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise refusal(
                "file", str(path), f"cannot be read: {error.strerror}", path.name, None
            ) from None
        if len(content) > _LARGEST:
            raise refusal(
                "file", f"{len(content)} bytes", f"must hold at most {_LARGEST}", path.name, None
            )
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise refusal("file", str(path), "must be TOML in UTF-8", path.name, None) from None
        return cls.parse(text, path.name, refusal)

    @classmethod
    def parse(cls, text: str, name: str, refusal: Refusal = SettingsError) -> TomlFile:
        """The file with this text; `name` is what errors call it."""
        if not is_intact(text):
            raise refusal(
                "file",
                name,
                "does not fit its check sum: it is damaged, or was edited (then delete that line)",
                name,
                None,
            )
        if _DOTTED.search(text):
            raise refusal("file", name, _TOO_DEEP, name, None)
        try:
            return cls(name, text, tomllib.loads(text), refusal)
        except tomllib.TOMLDecodeError as error:
            message, _, place = str(error).partition(" (at ")
            found = re.match(r"line (\d+)", place)
            line = int(found[1]) if found else len(text.splitlines())
            raise refusal("file", name, f"is not TOML: {message}", name, line) from None
        except RecursionError:
            raise refusal("file", name, _TOO_DEEP, name, None) from None

    def made(self, make: Callable[[dict[str, Any]], _T]) -> _T:
        """The object built from the tree. A parameter that breaks its rule is refused with its
        line."""
        try:
            with self.located():
                return make(self.tree)
        except RecursionError:
            raise self.refusal("file", self.name, _TOO_DEEP, self.name, None) from None

    @contextmanager
    def located(self) -> Iterator[None]:
        """A parameter that breaks its rule inside is refused with the file and the line on which it
        stands."""
        try:
            yield
        except ParameterError as error:
            line = line_of(self.text, error.name)
            raise self.refusal(
                error.name, error.value, error.rule, self.name, line, message=error.message
            ) from None


def line_of(text: str, name: str) -> int | None:
    """The line of a TOML text on which a key such as `columns[1].buckets` is set, or of the table
    it would be in.

    >>> line_of('id = "x"\\n[schedule]\\nevery = 3', "schedule.every")
    3
    """
    wanted: list[str | int] = []
    for key, indices in _STEP.findall(name):
        wanted.append(key)
        wanted.extend(int(i) for i in re.findall(r"\d+", indices))
    table: list[str | int] = []
    seen: dict[str, int] = {}
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        assignment = _ASSIGNMENT.match(line)
        if header:
            table = [part.strip() for part in header[2].split(".")]
            if header[1] == "[[":
                seen[header[2]] = seen.get(header[2], -1) + 1
                table.append(seen[header[2]])
            path = table
        elif assignment:
            path = [*table, assignment[1]]
        else:
            continue
        if len(path) > best[0] and wanted[: len(path)] == path:
            best = len(path), number
        # the first of several tables, or of a table's parts
        elif len(wanted) > best[0] and path[: len(wanted)] == wanted:
            best = len(wanted), number
    return best[1]
