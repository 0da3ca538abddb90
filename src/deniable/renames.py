"""Names that changed since the last release.

An old name is still read, with a :class:`RenamedWarning` that says the new one; the command line
prints it as one line on standard error. The next release removes the table's contents.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

__all__ = [
    "CLASSES",
    "COMMANDS",
    "EXPORTS",
    "NAMES",
    "OPTIONS",
    "RenamedWarning",
    "current_command_line",
    "current_export",
    "current_names",
    "reads_old_names",
]

_Thing = TypeVar("_Thing", bound=Callable[..., Any])

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

COMMANDS: Mapping[str, str] = {"vault share": "vault grant", "vault unshare": "vault withdraw"}
"""Commands, by the first words of a command line."""

_DESIGN = {"people": "population", "share": "proportion", "runs": "trials", "until": "end"}

NAMES: Mapping[str, Mapping[str, str]] = {
    "Budget": {"error": "margin", "wish": "target"},
    "DesignRequest": _DESIGN,
    "Draft": {"until": "end", "error": "margin"},
    "GridPoint": {"smallest_share": "smallest_proportion"},
    "Mechanism.expected_errors": {"shares": "proportions"},
    "Mechanism.stderr": {"share": "proportion"},
    "ModelComparison": {"repetitions": "trials"},
    "Plan": {"share": "proportion", "smallest_share": "smallest_proportion"},
    "Plan.stderr": {"share": "proportion"},
    "PlanRequest": {"share": "proportion", "memoized": "memoize"},
    "PlannedQuestion": {"share": "proportion"},
    "Question": {"share": "proportion"},
    "Table": {"share": "proportion"},
    "TableInfo": {"shared": "granted", "unshared": "withheld"},
    "Vault": {"share": "grant", "shares": "grants", "unshare": "withdraw"},
    "Window": {"wish": "margin", "error": "half_width"},
    "compare_models": {"repetitions": "trials"},
    "compare_protocols": {"shares": "proportions", "users": "population", "runs": "trials"},
    "crowd_delta": {"people": "population"},
    "crowd_epsilon": {"people": "population"},
    "detectable_difference": {"share": "proportion"},
    "exact_crowd_delta": {"people": "population"},
    "plan": {"share": "proportion", "memoized": "memoize"},
    "proportion_errors": {"shares": "proportions"},
    "two_group_sample_size": {"share": "proportion"},
}
"""Keywords of functions; keywords, attributes and methods of classes, which are also the keys of
their documents, tables in TOML and requests over HTTP."""


CLASSES: Mapping[str, str] = {"ShareLaw": "ProportionLaw"}
"""Classes that documents name."""

EXPORTS: Mapping[str, str] = {"NotSharedError": "NotGrantedError"}
"""Names that `import deniable` and its modules gave."""


class RenamedWarning(DeprecationWarning):
    """Something was given under a name that the next release will not know."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"{old} is now called {new}; the next release will not read the old name")


def current_command_line(words: Sequence[str]) -> list[str]:
    """The words of a command line, with the current names of its command and options.

    What follows ``--`` is left alone.
    """
    line = list(words)
    for command, current in COMMANDS.items():
        if line[: len(command.split())] == command.split():
            warnings.warn(RenamedWarning(command, current), stacklevel=2)
            line[: len(command.split())] = current.split()
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


def current_export(module: str, name: str) -> str:
    """The current name of what a module was asked for; AttributeError if there is none."""
    if name not in EXPORTS:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(RenamedWarning(name, EXPORTS[name]), stacklevel=3)
    return EXPORTS[name]


def current_names(
    of: str, given: Mapping[str, Any], warn: bool = True, stacklevel: int = 3
) -> dict[str, Any]:
    """Arguments, or the keys of a document, under their current names.

    `warn` is off for documents that a program wrote. Where old and new name are both given, the old
    one is left for its reader to refuse.
    """
    renamed, current = NAMES.get(of, {}), dict(given)
    for old, new in renamed.items():
        if old in current and new not in current:
            if warn:
                warnings.warn(RenamedWarning(old, new), stacklevel=stacklevel)
            current[new] = current.pop(old)
    return current


def reads_old_names(thing: _Thing) -> _Thing:
    """A function that takes its old keywords, or a class with its old keywords and attributes."""
    name = thing.__qualname__
    if isinstance(thing, type):
        for old, new in NAMES[name].items():
            setattr(thing, old, _old_attribute(old, new))
        kind: Any = thing
        if not kind.__init__.__qualname__.startswith(f"{name}."):
            return thing
        kind.__init__ = _renaming(kind.__init__, name)
        return thing
    renamed: Any = _renaming(thing, name)
    return renamed  # type: ignore[no-any-return]


def _renaming(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = current_names(name, kwargs)
        return function(*args, **kwargs)

    return call


def _old_attribute(old: str, new: str) -> property:
    def read(self: Any) -> Any:
        warnings.warn(RenamedWarning(old, new), stacklevel=2)
        return getattr(self, new)

    return property(read, doc=f"`{new}`, under the name that the next release will not know.")
