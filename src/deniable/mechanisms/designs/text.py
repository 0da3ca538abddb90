"""Designs from the text of a command-line option: NAME:PARAMETER=VALUE,…"""

from __future__ import annotations

from inspect import isabstract
from typing import Any

from deniable.errors import ParameterError
from deniable.mechanisms import designs

__all__ = ["design_from_text"]

_WHOLE = {"draws", "items"}
_FLOATS = {"epsilon"}


def design_from_text(text: str) -> Any:
    """A design by its name and parameters; cards are separated by `|`.

    >>> design_from_text("Kuk:p1=4/5,p2=3/10,draws=5")
    Kuk(p1='4/5', p2='3/10', draws=5)
    >>> design_from_text("Scrambling:multiplier=0.5|1|1.5").multiplier.mean
    1.0
    """
    name, _, arguments = text.partition(":")
    kinds = {
        kind: getattr(designs, kind)
        for kind in designs.__all__
        if not isabstract(getattr(designs, kind))
    }
    if name not in kinds:
        raise ParameterError("design", text, f"must begin with one of {', '.join(sorted(kinds))}")
    given: dict[str, Any] = {}
    for argument in filter(None, arguments.split(",")):
        parameter, equals, value = (part.strip() for part in argument.partition("="))
        if not (parameter and equals and value):
            raise ParameterError(
                "design", text, f"holds {argument!r}, which must have the form PARAMETER=VALUE"
            )
        given[parameter] = _value(text, parameter, value)
    try:
        return kinds[name](**given)
    except TypeError:
        fields = ", ".join(field for field in kinds[name].__dataclass_fields__)
        raise ParameterError(
            "design", text, f"does not fit {name}, whose parameters are {fields}"
        ) from None


def _value(text: str, parameter: str, value: str) -> Any:
    try:
        if parameter in _WHOLE:
            return int(value)
        if parameter in _FLOATS:
            return float(value)
        return [float(card) for card in value.split("|")] if "|" in value else value
    except ValueError:
        raise ParameterError(
            "design", text, f"holds {parameter}={value}, which is not a number"
        ) from None
