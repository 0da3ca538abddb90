"""Single options of multiple-choice columns, named as in ``news[web]``: each is a yes/no question
of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deniable.errors import (
    SurveyError,
    UnknownLabelError,
)
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.multiple_choice import MultipleChoice
from deniable.survey.spelling import spell

__all__ = ["named_options", "refuse_whole", "table_columns"]

_OPTION = re.compile(r"(.+)\[(.+)\]")


def named_options(
    names: Iterable[str], mechanisms: Mapping[str, Mechanism]
) -> dict[str, tuple[str, Any]]:
    """The names that mean one option of a multiple-choice column: the column and the label of
    each."""
    found = {}
    for name in names:
        parts = _OPTION.fullmatch(name)
        if (
            name in mechanisms
            or parts is None
            or not isinstance(mechanisms.get(parts[1]), MultipleChoice)
        ):
            continue
        column, text = parts.groups()
        labels = mechanisms[column].labels
        try:
            found[name] = (column, spell(labels, [text])[0])
        except UnknownLabelError:
            raise SurveyError(
                f"{name!r}: the options of column {column!r} are {', '.join(map(str, labels))}"
            ) from None
    return found


def refuse_whole(name: str, mechanism: Mechanism | None) -> None:
    """Refuse a multiple-choice column where each person must have one answer, and name an option
    that would do."""
    if isinstance(mechanism, MultipleChoice):
        raise SurveyError(
            f"column {name!r} is multiple choice, so people have no single answer: name one option,"
            f" such as '{name}[{mechanism.labels[0]}]'"
        )


def table_columns(
    tables: Sequence[Sequence[str]],
    conditional: Sequence[tuple[Sequence[str], Sequence[str]]],
    known: Mapping[str, Mechanism],
) -> set[str]:
    """The columns whose reports tables need row by row; for an option, the column that it belongs
    to."""
    axes = {name for table in tables for name in table} | {
        name for pair in conditional for part in pair for name in part
    }
    options = named_options(axes, known)
    return {options[name][0] if name in options else name for name in axes}
