"""Designs from the text of a command-line option, NAME:PARAMETER=VALUE,…, and designs in words."""

from __future__ import annotations

import re
from inspect import isabstract
from typing import Any

from deniable.errors import ParameterError
from deniable.mechanisms import designs

__all__ = ["design_from_text", "in_words", "mechanism_in_words"]

_WHOLE = {"draws", "items"}
_FLOATS = {"epsilon"}
_PEOPLE = {"Warner", "Kuk", "Mangat"}


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


def in_words(shown: str) -> str:
    """A design, or the name of a mechanism, for people who read no Python.

    >>> in_words("ForcedResponse(p='3/4', yes='1/8')"), in_words("Crosswise(p='1/6') with an anchor")
    ('forced response (p = 3/4, yes = 1/8)', 'crosswise (p = 1/6) with an anchor')
    >>> in_words("DirectEncoding"), in_words("Kuk(p1='4/5', p2='3/10', draws=5)")
    ('direct encoding', 'Kuk (p1 = 4/5, p2 = 3/10, draws = 5)')
    """
    name, bracket, rest = shown.partition("(")
    words = name if name in _PEOPLE else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return words + (f" ({rest}" if bracket else "").replace("=", " = ").replace("'", "")


def mechanism_in_words(mechanism: Any) -> str:
    """What a column was randomized with, without its epsilon and the names of its labels.

    >>> from deniable import BinaryResponse, Crosswise, DirectEncoding
    >>> mechanism_in_words(DirectEncoding(["Oslo", "Paris", "Rome"], 2.0))
    'direct encoding of 3 labels'
    >>> mechanism_in_words(BinaryResponse(0.5, 0.25)), mechanism_in_words(Crosswise(1 / 6))
    ('binary response (p = 0.5, q = 0.25)', 'crosswise (p = 1/6)')
    """
    parameters = mechanism.parameters()
    of = f" of {len(mechanism.labels):,} labels" if "values" in parameters else ""
    settings = [
        f"{name} = {value}"
        for name, value in parameters.items()
        if name not in {"values", "epsilon"} and isinstance(value, str | int | float)
    ]
    return in_words(type(mechanism).__name__) + of + (f" ({', '.join(settings)})" * bool(settings))


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
