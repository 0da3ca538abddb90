"""Which label a cell spells: yes, true, 1 and 1.0 are alike, a date is its ISO text, and some cells
mean "missing"."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Sequence
from typing import Any

from deniable.errors import MissingAnswerError, UnknownLabelError
from deniable.mechanisms.domain import TRUTH, listed

__all__ = [
    "MISSING_LABEL",
    "SEPARATORS",
    "cell_text",
    "is_blank",
    "is_missing",
    "spell",
    "spell_choices",
]

SEPARATORS = (";", "|", "\n", ",", " ")
"""What may separate the labels that a person chose, where one may choose several."""

MISSING_LABEL = "missing"
"""The label that `--missing label` gives to an empty cell."""
_MISSING_TEXTS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none"})
# No leading zeros: 007 is a code, and not the number 7.
_WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0*)?")


def cell_text(cell: Any) -> str:
    """A cell as text: without spaces around it, a date in ISO form, and a whole number without a
    decimal point.

    >>> cell_text(" Oslo "), cell_text(datetime.datetime(2026, 3, 1)), cell_text(2.0), cell_text("2.0")
    ('Oslo', '2026-03-01', '2', '2')
    """
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time.min:
        cell = cell.date()  # Excel has no dates without a time
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    text = str(cell).strip()
    whole = _WHOLE_NUMBER.fullmatch(text)
    return whole[1] if whole else text


def is_missing(cell: Any, labels: Collection[str] | None = ()) -> bool:
    """Whether a cell means "missing": empty, null, NaN, or a text such as NA unless that is one of
    the labels.

    If `labels` is None, any text is a label.
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return True
    if not isinstance(cell, str):
        return False
    text = cell.strip()
    return not text or (
        labels is not None and text.lower() in _MISSING_TEXTS and text not in labels
    )


def is_blank(cell: Any) -> bool:
    """Whether a cell is empty: what a question that was not asked, or of which nothing was chosen,
    looks like."""
    return (
        cell is None
        or (isinstance(cell, float) and math.isnan(cell))
        or (isinstance(cell, str) and not cell.strip())
    )


def spell_choices(labels: Sequence[Any], cells: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The labels that each cell names, separated by semicolon, bar, comma, line end or (as ODK
    does) space; an empty cell names none.

    A label may itself contain one of these: the first separator that splits the cell into labels
    counts.

    >>> spell_choices(["web", "radio", "books, papers"], ["web; radio", "books, papers", "", "radio,web"])
    [('web', 'radio'), ('books, papers',), (), ('radio', 'web')]
    """
    found: dict[Any, tuple[Any, ...]] = {}
    values = []
    for position, cell in enumerate(cells):
        if is_blank(cell):
            values.append(())
            continue
        key = tuple(cell) if isinstance(cell, list) else cell  # Parquet has lists
        if key not in found:
            found[key] = _choices(labels, cell, position)
        values.append(found[key])
    return values


def _choices(labels: Sequence[Any], cell: Any, position: int) -> tuple[Any, ...]:
    splits: list[list[Any]] = [list(cell)] if isinstance(cell, list | tuple) else [[cell]]
    if isinstance(cell, str):
        splits += [
            [part for part in cell.split(separator) if part.strip()]
            for separator in SEPARATORS
            if separator in cell
        ]
    for parts in splits:
        try:
            return tuple(dict.fromkeys(spell(labels, parts)))
        except (MissingAnswerError, UnknownLabelError):
            continue
    if is_missing(cell):
        raise MissingAnswerError(
            position, "is missing; an empty cell is an answer without any label"
        )
    raise UnknownLabelError(position, f"does not consist of the {listed(labels)}")


def spell(labels: Sequence[Any], cells: Sequence[Any]) -> list[Any]:
    """The label of each cell; MissingAnswerError or UnknownLabelError with the position of the
    first cell that spells none.

    >>> spell(["no", "yes"], ["yes", "TRUE", "1.0", 0, False])
    ['yes', 'yes', 'yes', 'no', 'no']
    """
    exact = {str(label): label for label in labels}
    alike = _forms(labels)
    found: dict[Any, Any] = {}
    values = []
    for position, cell in enumerate(cells):
        key = (type(cell), cell)  # 1 and True are equal, and may be two labels
        try:
            known = key in found
        except TypeError:
            raise UnknownLabelError(position, f"is not one of the {listed(labels)}") from None
        if not known:
            form = cell_text(cell)
            if str(cell) in exact:
                found[key] = exact[str(cell)]
            elif form in alike:
                found[key] = alike[form]
            elif form.lower() in TRUTH and TRUTH[form.lower()] in alike:
                found[key] = alike[TRUTH[form.lower()]]
            elif is_missing(cell):
                raise MissingAnswerError(position, "is missing (empty or null)")
            else:
                raise UnknownLabelError(position, f"is not one of the {listed(labels)}")
        values.append(found[key])
    return values


def _forms(labels: Sequence[Any]) -> dict[str | bool, Any]:
    """The labels by their texts, except texts that two of them share; yes and no also by their
    truth value."""
    forms: dict[str | bool, Any] = {}
    texts = [cell_text(label) for label in labels]
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    forms.update(
        (text, label) for text, label in zip(texts, labels, strict=True) if counts[text] == 1
    )
    answers = [(TRUTH.get(text.lower()), label) for text, label in zip(texts, labels, strict=True)]
    # A third label, such as "don't know", leaves the other two what they are.
    for truth in (True, False):
        same = [label for answer, label in answers if answer is truth]
        other = [label for answer, label in answers if answer is not None and answer is not truth]
        if len(same) == 1 and len(other) == 1:
            forms[truth] = same[0]
    return forms
