"""What the errors of this library share: the root of their tree, and how they name a parameter.
All of them are in :mod:`deniable.errors`."""

from __future__ import annotations

from typing import Any

__all__ = ["DeniableError", "ParameterError"]


class DeniableError(Exception):
    """Base class of every error of this library. A copy, as one that comes from another process,
    has all attributes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[DeniableError], args: tuple[object, ...], attributes: dict[str, Any]
) -> DeniableError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class ParameterError(DeniableError, ValueError):
    """A parameter breaks its rule. `message` is the whole sentence where "name = value rule" does
    not make one.

    >>> ParameterError("p", 1.2, "must lie strictly between 0 and 1")
    ParameterError('p = 1.2 must lie strictly between 0 and 1')
    >>> ParameterError("prior", [0.5, 0.6], message="sum(prior) = 1.1 must be 1")
    ParameterError('sum(prior) = 1.1 must be 1')
    """

    def __init__(self, name: str, value: object, rule: str = "", *, message: str = "") -> None:
        self.name, self.value, self.rule, self.message = name, value, rule, message
        super().__init__(message or f"{name} = {value!r} {rule}")

    def named(self, name: str) -> ParameterError:
        """The same, under the name that the parameter has where it was given."""
        return ParameterError(name, self.value, self.rule, message=self.message)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"


class _InvalidEntryError(DeniableError, ValueError):
    """A file has an invalid entry. The message names the file, the key, the value, the rule and, if
    known, the line.

    As in :class:`ParameterError`, `message` is a whole sentence instead of key, value and rule.
    """

    def __init__(
        self,
        name: str,
        value: object,
        rule: str,
        file: str,
        line: int | None = None,
        *,
        message: str = "",
    ) -> None:
        self.name, self.value, self.rule, self.message = name, value, rule, message
        self.file, self.line = file, line
        where = f"{file}, line {line}" if line else file
        super().__init__(f"{where}: {message or f'{name} = {_shortened(value)} {rule}'}")
