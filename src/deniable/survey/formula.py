"""Formulas such as ``used ~ age + region + age:region``: which column is explained, and by what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import SurveyError
from deniable.survey.spelling import cell_text

__all__ = ["Formula", "code_terms", "parse_formula"]

_Floats = NDArray[np.float64]
_TOKEN = re.compile(r"\s*(`[^`]+`|[^\s`~+*:\-]+|[~+*:\-])")
_MOST_LEVELS = 50


@dataclass(frozen=True)
class Formula:
    """The outcome's column, and the terms: each is one column, or several whose product is
    meant."""

    outcome: str
    terms: tuple[tuple[str, ...], ...]
    intercept: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Every named column, the outcome first, without repetition."""
        return tuple(dict.fromkeys([self.outcome, *(name for term in self.terms for name in term)]))


def parse_formula(text: str) -> Formula:
    """A formula such as "used ~ age + region".

    ``a:b`` is the product of two columns, ``a*b`` both columns and their product; ``+ 0`` or ``-
    1`` leaves out the intercept.

    Names with spaces or punctuation go in backticks.

    >>> parse_formula("used ~ age*`left right`").terms
    (('age',), ('left right',), ('age', 'left right'))
    """
    tokens = _TOKEN.findall(text)
    if "".join(tokens).replace(" ", "") != text.replace(" ", ""):
        raise SurveyError(
            f"formula {text!r} cannot be read: put names with spaces or punctuation in backticks"
        )
    if tokens.count("~") != 1 or len(tokens) < 3 or tokens[1] != "~":
        raise SurveyError(f"formula {text!r} must have the form OUTCOME ~ A + B")
    if "-" in tokens:
        if tokens.count("-") > 1 or tokens[-2:] != ["-", "1"]:
            raise SurveyError(
                f"formula {text!r} subtracts a term, but only the intercept can be left out: - 1,"
                " or + 0"
            )
        tokens[-2:] = ["+", "0"] if len(tokens) > 4 else ["0"]
    intercept = True
    terms: list[tuple[str, ...]] = []
    for part in _split(tokens[2:], "+", text):
        if part in (["1"], ["0"]):
            intercept = part == ["1"]
            continue
        factors = [
            [_name(name, text) for name in _alternate(group, ":", text)]
            for group in _split(part, "*", text)
        ]
        for size in range(1, len(factors) + 1):
            for chosen in combinations(factors, size):
                names = tuple(dict.fromkeys(name for one in chosen for name in one))
                if names not in terms:
                    terms.append(names)
    terms.sort(key=len)
    outcome = _name(tokens[0], text)
    if any(outcome in term for term in terms):
        raise SurveyError(f"formula {text!r} has {outcome!r} on both sides")
    return Formula(outcome, tuple(terms), intercept)


def _split(tokens: Sequence[str], sign: str, text: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == sign:
            parts.append([])
        else:
            parts[-1].append(token)
    if not all(parts):
        raise SurveyError(f"formula {text!r} has a {sign!r} with nothing beside it")
    return parts


def _alternate(tokens: Sequence[str], sign: str, text: str) -> list[str]:
    names = _split(tokens, sign, text)
    if any(len(name) != 1 for name in names):
        raise SurveyError(f"formula {text!r} has two names with no sign between them")
    return [name[0] for name in names]


def _name(token: str, text: str) -> str:
    if token in {"~", "+", "*", ":", "-"}:
        raise SurveyError(f"formula {text!r} has a {token!r} where a column is expected")
    return token.strip("`")


def code_terms(
    terms: Sequence[tuple[str, ...]],
    cells: Mapping[str, Sequence[Any]],
    categories: Sequence[str] = (),
) -> tuple[list[str], _Floats]:
    """Numbers as they are, and an indicator of each category but the first, in order; products of
    them for products of columns.

    A column has categories if any of its cells is not a number, or if `categories` names it.
    """
    coded = {
        name: _coded(name, cells[name], name in categories)
        for name in dict.fromkeys(n for term in terms for n in term)
    }
    names: list[str] = []
    columns: list[_Floats] = []
    for term in terms:
        for parts in product(*(coded[name] for name in term)):
            names.append(":".join(name for name, _ in parts))
            columns.append(np.prod([column for _, column in parts], axis=0))
    rows = len(next(iter(cells.values()))) if cells else 0
    return names, np.column_stack(columns) if columns else np.zeros((rows, 0))


def _coded(name: str, cells: Sequence[Any], category: bool) -> list[tuple[str, _Floats]]:
    if not category:
        try:
            return [(name, np.array([float(cell) for cell in cells]))]
        except (TypeError, ValueError):
            pass
    texts = np.array([cell_text(cell) for cell in cells])
    levels = np.unique(texts).tolist()
    if not 2 <= len(levels) <= _MOST_LEVELS:
        raise SurveyError(
            f"column {name!r} has {len(levels)} different texts: categories must be 2 to"
            f" {_MOST_LEVELS}"
        )
    return [(f"{name}[{level}]", (texts == level).astype(np.float64)) for level in levels[1:]]
