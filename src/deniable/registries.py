"""Classes that documents name: which class a name means, also if another package defines one of
that name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from deniable.renames import CLASSES

__all__ = ["Registry", "is_own"]

_Kind = TypeVar("_Kind", bound=type)
_PACKAGE = __name__.partition(".")[0]


def is_own(kind: type) -> bool:
    """Whether a class is one of this package's."""
    return kind.__module__.partition(".")[0] == _PACKAGE


class Registry(Generic[_Kind]):
    """Classes by name: those of this package by their own, all others by module and name.

    So no class that is defined elsewhere takes the place of one of ours. Earlier releases wrote the
    bare name of every class; it is still read, unless several classes from elsewhere have it.

    >>> registry: Registry[type] = Registry()
    >>> class Estimate:
    ...     __module__ = "acme.laws"
    >>> registry.add(Estimate)
    >>> list(registry), registry.get("Estimate") is registry.get("acme.laws.Estimate") is Estimate
    (['acme.laws.Estimate'], True)
    """

    def __init__(self) -> None:
        self._kinds: dict[str, _Kind] = {}

    @staticmethod
    def name_of(kind: type) -> str:
        """The name under which documents know a class."""
        return kind.__qualname__ if is_own(kind) else f"{kind.__module__}.{kind.__qualname__}"

    def add(self, kind: _Kind) -> None:
        """Make a class known. Two of one name within this package are a mistake in it."""
        name = self.name_of(kind)
        known = self._kinds.get(name)
        if known is not None and known.__module__ != kind.__module__:
            raise TypeError(f"{name} is defined in {known.__module__} and in {kind.__module__}")
        self._kinds[name] = kind

    def get(self, name: object) -> _Kind | None:
        """The class of that name, or None."""
        if not isinstance(name, str):
            return None
        name = CLASSES.get(name, name)
        if name in self._kinds:
            return self._kinds[name]
        found = [kind for kind in self._kinds.values() if kind.__name__ == name]
        return found[0] if len(found) == 1 else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def items(self) -> Iterator[tuple[str, _Kind]]:
        """Names and classes, in the order in which the classes were defined."""
        return iter(self._kinds.items())
