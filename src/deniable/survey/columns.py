"""Which column of a file has reports of which mechanism: as TOML, or as the text of an option.

[columns.smokes]
mechanism = "BinaryResponse"
p = 0.5
q = 0.5

[columns.city]
mechanism = "DirectEncoding"
values = ["Oslo", "Paris", "Rome"]
epsilon = 1.0

Where people do not answer all questions, a table [questionnaire] says how many (`ask`), how often
each is drawn (`weights`), or that the others are answered with fake data (`fake`).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError, ReportFormatError, SurveyError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.mechanisms.registry import from_dict
from deniable.survey.refusal import survey_refusal
from deniable.survey.spelling import cell_text
from deniable.toml_file import TomlFile

__all__ = [
    "parse_column",
    "parse_columns",
    "read_columns",
    "read_questionnaire",
    "write_columns",
    "write_questionnaire",
]

_RULE = ("ask", "weights", "fake")


def read_columns(path: Path | str) -> dict[str, Mechanism]:
    """The mechanism of each column, from a TOML file."""
    return dict(read_questionnaire(path).mechanisms)


def read_questionnaire(path: Path | str) -> Questionnaire:
    """The mechanism of each column and which of them each person answers, from a TOML file."""
    file = TomlFile.read(path, survey_refusal)
    columns = file.tree.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise SurveyError(f"{path} must have one table [columns.NAME] per column")
    mechanisms = {
        name: _mechanism(f"{path}: columns.{name}", _without_dates(description))
        for name, description in columns.items()
    }
    rule = file.tree.get("questionnaire", {})
    if not isinstance(rule, dict) or set(rule) - set(_RULE):
        raise SurveyError(f"{path}: [questionnaire] must be a table with only {', '.join(_RULE)}")
    if not isinstance(rule.get("fake", False), bool) or not isinstance(
        rule.get("weights", {}), dict
    ):
        raise SurveyError(
            f"{path}: in [questionnaire], fake must be true or false, and weights a table with a"
            " number per column"
        )
    try:
        return Questionnaire(mechanisms, **rule)
    except ParameterError as error:
        raise SurveyError(f"{path}: questionnaire: {error}") from None


def parse_column(text: str) -> tuple[str, Mechanism]:
    """A column and its mechanism from `NAME=MECHANISM:PARAMETER=VALUE,…`, labels separated by `|`.

    >>> parse_column("city=DirectEncoding:values=Oslo|Paris|Rome,epsilon=1")
    ('city', DirectEncoding(values=['Oslo', 'Paris', 'Rome'], epsilon=1.0))
    """
    name, equals, rest = text.partition("=")
    kind, _, arguments = rest.partition(":")
    if not (name and equals and kind):
        raise SurveyError(f"{text!r} must have the form NAME=MECHANISM:PARAMETER=VALUE,…")
    description: dict[str, Any] = {"mechanism": kind}
    for argument in filter(None, arguments.split(",")):
        parameter, equals, value = argument.partition("=")
        if not equals:
            # what comes before it is a value, so a comma has split it
            if "=" in arguments.partition(argument)[0]:
                raise SurveyError(
                    f"column {name!r}: a comma separates parameters, so {argument.strip()!r} is not"
                    " part of a label: put labels with commas into a TOML file (--mechanisms)"
                )
            raise SurveyError(f"{argument!r} in {text!r} must have the form PARAMETER=VALUE")
        description[parameter.strip()] = (
            [_value(v) for v in value.split("|")] if "|" in value else _flag_or_value(value)
        )
    return name, _mechanism(name, description)


def parse_columns(texts: Iterable[str]) -> dict[str, Mechanism]:
    """The mechanism of each column, from texts of the form that :func:`parse_column` reads; each
    column once."""
    mechanisms: dict[str, Mechanism] = {}
    for text in texts:
        name, mechanism = parse_column(text)
        if name in mechanisms:
            raise SurveyError(f"column {name!r} is given twice: a column has one mechanism")
        mechanisms[name] = mechanism
    return mechanisms


def write_columns(mechanisms: Mapping[str, Mechanism]) -> str:
    """The TOML that :func:`read_columns` reads."""
    lines: list[str] = []
    for name, mechanism in mechanisms.items():
        lines.append(f"[columns.{json.dumps(name, ensure_ascii=False)}]")
        described = {key: value for key, value in mechanism.to_dict().items() if value is not None}
        try:
            lines += [
                f"{key} = {json.dumps(value, ensure_ascii=False)}"
                for key, value in described.items()
            ]
        except TypeError:
            raise SurveyError(
                f"column {name!r}: labels must be texts, numbers or booleans to be written to a"
                " file"
            ) from None
        lines.append("")
    return "\n".join(lines)


def write_questionnaire(questionnaire: Questionnaire) -> str:
    """The TOML that :func:`read_questionnaire` reads."""
    lines = []
    rule = questionnaire.rule()
    if rule:
        lines.append("[questionnaire]")
        weights = rule.pop("weights", None)
        lines += [f"{key} = {json.dumps(value)}" for key, value in rule.items()]
        if weights is not None:
            parts = ", ".join(
                f"{json.dumps(name, ensure_ascii=False)} = {float(weight)!r}"
                for name, weight in weights.items()
            )
            lines.append(f"weights = {{ {parts} }}")
        lines.append("")
    return "\n".join(lines) + ("\n" if lines else "") + write_columns(questionnaire.mechanisms)


def _without_dates(value: Any) -> Any:
    """Labels that TOML reads as dates become the texts used in a file."""
    if isinstance(value, dict):
        return {key: _without_dates(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_dates(part) for part in value]
    return cell_text(value) if isinstance(value, datetime.date | datetime.time) else value


def _mechanism(where: str, description: Any) -> Mechanism:
    try:
        return from_dict(description)
    except ReportFormatError as error:
        raise SurveyError(f"{where}: {error}") from None


def _flag_or_value(text: str) -> Any:
    """A parameter may be true or false, as in TOML; labels, of which there are several, may not."""
    return {"true": True, "false": False}.get(text.strip().lower(), _value(text))


def _value(text: str) -> Any:
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
