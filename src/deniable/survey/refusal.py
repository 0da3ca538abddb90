"""How a mistake in a file that describes a survey is told."""

from __future__ import annotations

from deniable.errors import SurveyError

__all__ = ["survey_refusal"]


def survey_refusal(
    name: str, value: object, rule: str, file: str, line: int | None = None, *, message: str = ""
) -> SurveyError:
    """The error about an entry of a file that describes a survey."""
    place = f"{file}, line {line}" if line else file
    said = message or (rule if name == "file" else f"{name} = {value!r} {rule}")
    return SurveyError(f"{place}: {said}")
