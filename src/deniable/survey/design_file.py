"""Counts of survey designs in a TOML file: what was asked with dice, cards, birthdays or lists, and
what was counted.

[questions.used]
design = "ExtendedCrosswise:p=1/6"
same = [310, 102]
n = [400, 400]

[questions.family]
design = "ItemCount:items=3"
control = [8, 132, 222, 227]
treated = [19, 123, 229, 219, 34]
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError, SurveyError
from deniable.estimation.surveys.design_estimate import DesignEstimate
from deniable.mechanisms.designs.text import design_from_text
from deniable.survey.refusal import survey_refusal
from deniable.toml_file import TomlFile

__all__ = ["estimate_designs", "read_design_estimates"]

# those with arguments of their own first: a design with any number of answers takes any count
_METHODS = (
    "estimate_with_anchor",
    "estimate_with_direct",
    "estimate_two_lists",
    "estimate_moments",
    "estimate_counts",
    "estimate",
)


def read_design_estimates(path: Path | str) -> dict[str, DesignEstimate]:
    """The estimate of every question of a TOML file, by its name."""
    file = TomlFile.read(path, survey_refusal)
    questions = file.tree.get("questions")
    if not isinstance(questions, dict) or not questions:
        raise SurveyError(
            f"{path} must have one table [questions.NAME] per question, with its design and its"
            " counts"
        )
    return estimate_designs(questions, str(path))


def estimate_designs(
    questions: Mapping[str, Any], where: str = "questions"
) -> dict[str, DesignEstimate]:
    """The same from mappings: a `design` as text, and the arguments of the design's method that
    takes these counts."""
    found = {}
    for name, given in questions.items():
        place = f"{where}: questions.{name}"
        if not isinstance(given, Mapping) or not isinstance(given.get("design"), str):
            raise SurveyError(f'{place} must have a design, such as design = "Crosswise:p=1/6"')
        counts = {key: value for key, value in given.items() if key not in {"design", "text"}}
        try:
            found[name] = _estimate(design_from_text(given["design"]), counts, place)
        except ParameterError as error:
            raise SurveyError(f"{place}: {error}") from None
    return found


def _estimate(design: Any, counts: Mapping[str, Any], place: str) -> DesignEstimate:
    """By the first method of the design that takes exactly these arguments."""
    taken = []
    for name in _METHODS:
        method = getattr(design, name, None)
        if method is None:
            continue
        parameters = inspect.signature(method).parameters
        named = [key for key, one in parameters.items() if one.kind is not one.VAR_KEYWORD]
        needed = {key for key in named if parameters[key].default is parameters[key].empty}
        free = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        taken.append(
            " with ".join([name, ", ".join(named) + (", and a count per answer" if free else "")])
        )
        if needed <= set(counts) and (free or set(counts) <= set(named)):
            found: DesignEstimate = method(**counts)
            return found
    raise SurveyError(
        f"{place}: {', '.join(counts) or 'nothing'} does not fit {design}, which has"
        f" {'; '.join(taken)}"
    )
