"""Propose mechanisms for the columns of a survey, from a dictionary of its labels or from a pilot
file."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deniable.checks import check_epsilon, whole
from deniable.errors import SurveyError
from deniable.mechanisms.domain import TRUTH
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.multiple_choice import MultipleChoice
from deniable.mechanisms.protocols.unary import OptimizedUnary
from deniable.mechanisms.protocols.waves.square_wave import SquareWave
from deniable.survey.columns import write_columns
from deniable.survey.documents.xlsform import FormQuestion, read_form
from deniable.survey.reading import read_chunks
from deniable.survey.spelling import MISSING_LABEL, cell_text, is_missing
from deniable.table_file import TableFormat

__all__ = ["propose_columns", "read_dictionary"]

_MOST_LABELS = 50
_BINS = 64
_HEADINGS = {
    "column": ("column", "variable", "name", "question"),
    "value": ("value", "code", "answer"),
    "text": ("label", "text", "meaning"),
}


@dataclass
class _Seen:
    """The cells of a column of a pilot file."""

    counts: Counter[str] = field(default_factory=Counter)
    parts: Counter[str] = field(default_factory=Counter)
    """The labels of cells that hold several of them."""
    most_parts: int = 1
    missing: int = 0
    whole: bool = True
    numbers: int = 0
    low: float = math.inf
    high: float = -math.inf

    def add(self, cells: Sequence[Any]) -> None:
        for cell in cells:
            if is_missing(cell):
                self.missing += 1
                continue
            text = cell_text(cell)
            self.counts[text] += 1
            several = [part.strip() for part in re.split(r"[;|]", text) if part.strip()]
            self.parts.update(set(several))
            self.most_parts = max(self.most_parts, len(set(several)))
            number = _number(text)
            if number is not None:
                self.numbers += 1
                self.low, self.high = min(self.low, number), max(self.high, number)
                self.whole = self.whole and number == round(number)


@dataclass(frozen=True)
class _Proposal:
    """The labels of a column, or the range of its numbers, with notes for the person who checks
    it."""

    labels: list[str]
    notes: list[str]
    interval: tuple[float, float] | None = None
    integers: bool = False
    several: bool = False

    def mechanism(self, epsilon: float) -> Mechanism:
        if self.several:
            return MultipleChoice(self.labels, epsilon)
        if self.interval and self.integers:
            low, high, bins = _whole_bins(*self.interval)
            return SquareWave(epsilon, bins=bins, low=low, high=high, integers=True)
        if self.interval:
            return SquareWave(epsilon, bins=_BINS, low=self.interval[0], high=self.interval[1])
        # Direct encoding has the smaller variance up to about 3 exp(epsilon) + 2 labels (Wang et
        # al. 2017).
        few = len(self.labels) < 3 * math.exp(epsilon) + 2
        return DirectEncoding(self.labels, epsilon) if few else OptimizedUnary(self.labels, epsilon)


def read_dictionary(path: Path, layout: TableFormat | None = None) -> dict[str, dict[str, str]]:
    """The labels of each column with what they mean, from a table with one row per label."""
    labels: dict[str, dict[str, str]] = {}
    for chunk in read_chunks(path, None, None, layout):
        folded = {name.strip().lower(): cells for name, cells in chunk.columns.items()}
        found = {
            part: next((folded[name] for name in names if name in folded), None)
            for part, names in _HEADINGS.items()
        }
        columns, values = found["column"], found["value"]
        if columns is None:
            raise SurveyError(
                f"{path}: a dictionary names the column in one of its columns"
                f" {', '.join(_HEADINGS['column'])}"
            )
        values = values if values is not None else found["text"]
        if values is None:
            raise SurveyError(
                f"{path}: a dictionary has the label in one of its columns"
                f" {', '.join(_HEADINGS['value'])}"
            )
        texts = found["text"] or values
        for position, (column, value, text) in enumerate(zip(columns, values, texts, strict=True)):
            if is_missing(column) or value is None or cell_text(value) == "":
                raise SurveyError(
                    f"{path}, row {chunk.row(position)}: the column or the label is missing"
                )
            known = labels.setdefault(cell_text(column), {})
            if cell_text(value) in known:
                raise SurveyError(
                    f"{path}, row {chunk.row(position)}: the label is given twice for column"
                    f" {cell_text(column)!r}"
                )
            known[cell_text(value)] = "" if text is None else cell_text(text)
    return labels


def propose_columns(
    epsilon: float,
    *,
    pilot: Path | None = None,
    dictionary: Path | None = None,
    at_least: int = 3,
    layout: TableFormat | None = None,
) -> str:
    """A TOML file of mechanisms to be checked by a person; `epsilon` is that of a whole row, split
    equally among its columns.

    The dictionary's labels take precedence; other columns come from the pilot file: its numbers,
    and labels that at least `at_least` people gave. A label that few gave could identify them, and
    the file of mechanisms is public.
    """
    check_epsilon(epsilon)
    whole("at_least", at_least, 1)
    if pilot is None and dictionary is None:
        raise SurveyError("a template needs a pilot file, a dictionary or both")
    form = read_form(dictionary) if dictionary and not (layout and layout.sheet) else None
    given: Mapping[str, Any] = form or {}
    if dictionary and form is None:
        given = read_dictionary(dictionary, layout)
    seen = _read_pilot(pilot, layout) if pilot else {}
    for name in given:
        if seen and name not in seen:
            raise SurveyError(f"{pilot} has no column {name!r}, which {dictionary} describes")
    proposals: dict[str, _Proposal] = {}
    left_out: list[str] = []
    for name in seen or given:
        proposal = (
            _described(given[name], seen.get(name))
            if name in given
            else _from_pilot(seen[name], at_least)
        )
        if isinstance(proposal, _Proposal):
            proposals[name] = proposal
        else:
            left_out.append(f"# {json.dumps(name, ensure_ascii=False)} is left out: {proposal}.")
    if not proposals:
        raise SurveyError(
            f"{pilot}: no column has numbers, or labels that at least {at_least} people gave"
        )
    lines = [
        (
            "# Check every line: the labels and ranges must be all that people may answer, not only"
            " what a pilot happened to show."
        ),
        (
            f"# epsilon {epsilon:.4g} for a whole row, in equal parts for its {len(proposals)}"
            " columns."
        ),
        *left_out,
        "",
    ]
    for name, proposal in proposals.items():
        lines += [f"# {note}" for note in proposal.notes]
        lines.append(write_columns({name: proposal.mechanism(epsilon / len(proposals))}))
    return "\n".join(lines)


def _read_pilot(path: Path, layout: TableFormat | None) -> dict[str, _Seen]:
    seen: dict[str, _Seen] = {}
    for chunk in read_chunks(path, None, None, layout):
        for name, cells in chunk.columns.items():
            seen.setdefault(name, _Seen()).add(cells)
    return seen


def _described(given: Mapping[str, str] | FormQuestion, seen: _Seen | None) -> _Proposal:
    if not isinstance(given, FormQuestion):
        return _from_dictionary(given, seen)
    if given.limits:
        note = "The range is that of the form."
        return _Proposal([], [note], given.limits, integers=given.integers)
    if not given.several:
        return _from_dictionary(given.labels, seen)
    labels = _from_dictionary(given.labels, None)
    note = "Several labels: set most to how many the question allows, because fewer cost less."
    return _Proposal(labels.labels, [*labels.notes, note], several=True)


def _from_dictionary(labels: Mapping[str, str], seen: _Seen | None) -> _Proposal:
    meant = "; ".join(
        f"{value} = {text}" for value, text in labels.items() if text and text != value
    )
    note = f"Labels from the dictionary{': ' if meant else ''}{meant}.".replace("\n", " ").replace(
        "\r", " "
    )
    return _with_missing(_Proposal(list(labels), [note]), seen)


def _from_pilot(seen: _Seen, at_least: int) -> _Proposal | str:
    """What is proposed for a column, or why nothing is."""
    total = sum(seen.counts.values())
    if not total:
        return "it is empty in the pilot file"
    folded = {text.lower() for text in seen.counts}
    if folded <= set(TRUTH) and {TRUTH[text] for text in folded} == {True, False}:
        return _with_missing(
            _Proposal(
                ["no", "yes"], ["A yes or a no, in any spelling: yes, true, 1 and 1.0 are alike."]
            ),
            seen,
        )
    if seen.numbers == total and len(seen.counts) > _MOST_LABELS // 2:
        kind = "Whole numbers" if seen.whole else "Numbers"
        note = (
            f"{kind}: set low and high to what is possible; the pilot's own range is rounded"
            " outwards."
        )
        return _Proposal([], [note], _round_range(seen.low, seen.high), integers=seen.whole)
    chosen = sorted(text for text, count in seen.parts.items() if count >= at_least)
    if seen.most_parts > 1 and 2 <= len(chosen) <= _MOST_LABELS:
        note = (
            "Several labels in one cell: set most to how many the question allows, because fewer"
            " cost less."
        )
        # an empty cell is an answer without labels, and not missing
        return _Proposal(chosen, [note], several=True)
    frequent = sorted(text for text, count in seen.counts.items() if count >= at_least)
    if not 2 <= len(frequent) <= _MOST_LABELS:
        return (
            f"it has {len(frequent)} labels that at least {at_least} people gave; name its labels"
            " in a dictionary"
        )
    notes = ["Labels from the pilot file."]
    if rare := len(seen.counts) - len(frequent):
        notes.append(
            f"Left out because fewer than {at_least} people gave them, whom they could identify:"
            f" {rare} more."
        )
    return _with_missing(_Proposal(frequent, notes), seen)


def _with_missing(proposal: _Proposal, seen: _Seen | None) -> _Proposal:
    if seen and seen.missing and MISSING_LABEL not in proposal.labels:
        proposal.labels.append(MISSING_LABEL)
        proposal.notes.append(
            f'The pilot has missing values: "{MISSING_LABEL}" is a label, for --missing label.'
        )
    return proposal


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _round_range(low: float, high: float) -> tuple[float, float]:
    """The range rounded outwards to a tenth of the power of ten that holds its width: the extremes
    are the answers of two people."""
    step = 10.0 ** math.floor(math.log10(high - low))
    return math.floor(low / step) * step, (math.floor(high / step) + 1) * step


def _whole_bins(low: float, high: float) -> tuple[int, int, int]:
    """A range of whole numbers, its upper end moved so that bins of equal size fill it, and how
    many bins that are."""
    count = round(high) - round(low) + 1
    size = -(-count // _BINS)
    bins = -(-count // size)
    return round(low), round(low) + size * bins - 1, bins
