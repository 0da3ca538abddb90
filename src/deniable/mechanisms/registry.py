"""Every mechanism by its name: ours, and those that other packages offer by entry point."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from importlib.metadata import entry_points
from inspect import isabstract, signature
from typing import Any

import deniable.mechanisms
from deniable.checks import check_epsilon, whole
from deniable.errors import DeniableError, ParameterError, ReportFormatError
from deniable.mechanisms.mechanism import Mechanism
from deniable.registries import is_own

__all__ = [
    "GROUP",
    "PluginWarning",
    "from_dict",
    "known_mechanisms",
    "mechanism_by_name",
    "mechanisms_by_epsilon",
]

GROUP = "deniable.mechanisms"
"""The group of entry points; each is a subclass of :class:`Mechanism`."""


class PluginWarning(UserWarning):
    """A mechanism of another package cannot be used, and is left out."""


@cache
def _import_protocols() -> None:
    """Import every module of this package and its inner rooms, which registers its protocol."""
    for module in pkgutil.walk_packages(deniable.mechanisms.__path__, "deniable.mechanisms."):
        importlib.import_module(module.name)


@cache
def _import_plugins() -> tuple[type[Mechanism], ...]:
    """Import the mechanisms of other packages; one that fails is left out with a warning."""
    found = []
    for point in entry_points(group=GROUP):
        try:
            kind = point.load()
        # whatever a foreign module raises must not end what it has no part in
        except Exception as error:
            text = (
                f"the mechanism {point.value!r} cannot be loaded: {type(error).__name__}: {error}"
            )
            warnings.warn(text, PluginWarning, stacklevel=3)
            continue
        if isinstance(kind, type) and issubclass(kind, Mechanism):
            found.append(kind)
        else:
            text = f"the entry point {point.value!r} in {GROUP} is not a subclass of Mechanism"
            warnings.warn(text, PluginWarning, stacklevel=3)
    return tuple(found)


def known_mechanisms() -> dict[str, type[Mechanism]]:
    """All mechanisms by their names: ours by class, others by module and class."""
    _import_protocols()
    _import_plugins()
    return {name: kind for name, kind in Mechanism._registry.items() if not isabstract(kind)}


def _find(name: object) -> type[Mechanism] | None:
    """The mechanism of that name; other packages are imported only if it is none of ours."""
    _import_protocols()
    if Mechanism._registry.get(name) is None:
        _import_plugins()
    kind = Mechanism._registry.get(name)
    return None if kind is None or isabstract(kind) else kind


def mechanisms_by_epsilon() -> dict[str, type[Mechanism]]:
    """The mechanisms that :meth:`Mechanism.from_epsilon` builds, in the order of their names.

    Ours and those that packages offer; not a class that a program has only defined for itself.
    """
    offered = [
        (name, kind)
        for name, kind in known_mechanisms().items()
        if is_own(kind) or kind in _import_plugins()
    ]
    return {name: kind for name, kind in sorted(offered) if _takes_epsilon(kind)}


def _takes_epsilon(kind: type[Mechanism]) -> bool:
    if not kind.exclusive:  # its answers are sets of labels, so it cannot stand beside the others
        return False
    inherited = kind.from_epsilon.__func__ is Mechanism.from_epsilon.__func__  # type: ignore[attr-defined]
    return not inherited or {"values", "epsilon"} <= set(signature(kind).parameters)


def mechanism_by_name(name: str, epsilon: float, values: int) -> Mechanism:
    """The mechanism of that name whose report loses at most about `epsilon`, over `values` values.

    >>> mechanism_by_name("DirectEncoding", 1.0, 4)
    DirectEncoding(values=4, epsilon=1.0)
    """
    kind = _find(name)
    if kind is None or not _takes_epsilon(kind):
        raise ParameterError(
            "mechanism", name, f"must be one of {', '.join(mechanisms_by_epsilon())}"
        )
    check_epsilon(epsilon)
    return kind.from_epsilon(epsilon, values=whole("values", values, 2, 1 << 24))


def from_dict(description: Any) -> Mechanism:
    """The mechanism that :meth:`Mechanism.to_dict` described.

    >>> from deniable import DirectEncoding
    >>> from_dict(DirectEncoding(4, 1.0).to_dict()) == DirectEncoding(4, 1.0)
    True
    """
    if not isinstance(description, dict) or "mechanism" not in description:
        raise ReportFormatError("a mechanism's description is an object with the key 'mechanism'")
    parameters = dict(description)
    name = parameters.pop("mechanism")
    kind = _find(name)
    if kind is None:
        known = ", ".join(sorted(known_mechanisms()))
        raise ReportFormatError(f"mechanism = {name!r} is not one this library knows: {known}")
    # `k` is the name of `values` in files of earlier versions
    if "k" in parameters and "values" in getattr(kind, "__dataclass_fields__", {}):
        parameters.setdefault("values", parameters.pop("k"))
    try:
        return kind(**parameters)
    except TypeError as error:
        raise ReportFormatError(f"the parameters do not fit {name}: {error}") from None
    except DeniableError as error:
        raise ReportFormatError(f"the parameters of {name} are not usable: {error}") from error
