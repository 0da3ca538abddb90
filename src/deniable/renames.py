"""Names that changed since the last release.

An old name is still read, with a :class:`RenamedWarning` that says the new one; the command line
prints it as one line on standard error. The next release removes the table's contents.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

__all__ = ["OPTIONS", "RenamedWarning", "current_command_line"]

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "aggregator audit": {"--since": "--start"},
    "audit": {"--n": "--n-reports"},
    "compare": {"--users": "--population", "--runs": "--trials"},
    "demo": {"--clients": "--population"},
    "history": {
        "--from": "--start",
        "--to": "--end",
        "--against-from": "--against-start",
        "--against-to": "--against-end",
        "--export": "--output",
    },
    "models": {"--repetitions": "--trials"},
    "plan": {"--share": "--proportion", "--memoized": "--memoize"},
    "power": {"--n": "--n-reports"},
    "privacy": {"--people": "--population"},
    "proxy audit": {"--since": "--start"},
    "query check": {"--people": "--population"},
    "query plan": {"--people": "--population", "--out": "--output"},
    "query sign": {"--out": "--output"},
    "rehearse": {"--people": "--population"},
    "reproduce": {"--out": "--output"},
    "results": {"--from": "--start", "--to": "--end"},
    "ring add": {"--from": "--start", "--until": "--end"},
    "size": {"--clients": "--population"},
}
"""Options, by the first words of a command line."""


class RenamedWarning(DeprecationWarning):
    """Something was given under a name that the next release will not know."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"{old} is now called {new}; the next release will not read the old name")


def current_command_line(words: Sequence[str]) -> list[str]:
    """The words of a command line, with the current names of its options.

    What follows ``--`` is left alone.
    """
    line = list(words)
    end = line.index("--") if "--" in line else len(line)
    for path, options in OPTIONS.items():
        first = len(path.split())
        if line[:first] == path.split():
            for at in range(first, end):
                old, equals, value = line[at].partition("=")
                if old in options:
                    warnings.warn(RenamedWarning(old, options[old]), stacklevel=2)
                    line[at] = options[old] + equals + value
    return line
