"""Randomize a file of answers in constant memory, and what all readers of survey files share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

from deniable.checksums import sealed_text
from deniable.errors import (
    AnswerError,
    ParameterError,
    ReportFormatError,
    SurveyError,
    SurveyWarning,
)
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.multiple_choice import MultipleChoice
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.mechanisms.values import ValueReports
from deniable.randomness import Source, system_source
from deniable.survey.columns import write_questionnaire
from deniable.survey.reading import CheckHeader, Chunk, check_file, read_chunks
from deniable.survey.record import (
    MARK,
    check_earlier,
    record_randomization,
    refuse_described,
    refuse_marked,
)
from deniable.survey.row_order import in_random_order
from deniable.survey.spelling import MISSING_LABEL, is_blank, is_missing
from deniable.survey.texts import cells_to_values, reports_to_cells
from deniable.survey.writing import table_writer
from deniable.table_file import STANDARD_STREAM, TableFormat

__all__ = [
    "Missing",
    "Paths",
    "Progress",
    "check_missing",
    "check_paths",
    "columns_file",
    "complete_chunks",
    "randomize_file",
    "refuse_existing",
    "row_named",
    "tell_dropped",
]

Progress = Callable[[float], None]
Paths = Path | str | Sequence[Path | str]
"""One file or several; `-` is standard input."""
Missing = Literal["refuse", "drop", "label"]
"""What happens to a missing value: the file is refused, the row is dropped, or the value is the
label "missing"."""


def columns_file(path: Path) -> Path:
    """The default file for the mechanisms of a file's columns: beside it, with .toml added to its
    name."""
    return path.with_name(path.name + ".toml")


def check_paths(given: Paths) -> list[Path]:
    """The files, checked to exist and to be distinct."""
    paths = [Path(given)] if isinstance(given, Path | str) else [Path(path) for path in given]
    if not paths:
        raise SurveyError("there is no file to read")
    for path in paths:
        check_file(path)
        if sum(_same(path, other) for other in paths) > 1:
            raise SurveyError(f"{path} is given twice: its people would be counted twice")
    return paths


def _same(one: Path, other: Path) -> bool:
    return one == other or (
        STANDARD_STREAM not in (one, other)
        and one.exists()
        and other.exists()
        and one.samefile(other)
    )


def check_missing(missing: Missing, mechanisms: Mapping[str, Mechanism]) -> None:
    """Refuse an unknown rule, and a column without a label for missing values if one is needed."""
    if missing not in get_args(Missing):
        raise ParameterError("missing", missing, f"must be one of {', '.join(get_args(Missing))}")
    for name, mechanism in mechanisms.items():
        if missing == "label" and MISSING_LABEL not in mechanism.labels:
            raise SurveyError(
                f"column {name!r}: for missing values to be a label, {MISSING_LABEL!r} must be one"
                " of its labels"
            )


def complete_chunks(
    paths: Sequence[Path],
    mechanisms: Mapping[str, Mechanism],
    keep: Sequence[str],
    missing: Missing,
    layout: TableFormat | None,
    progress: Progress | None,
    check_header: CheckHeader | None = None,
) -> Iterator[tuple[Path, Chunk, int]]:
    """Each chunk of each file after what `missing` does to it, with its file and how many of its
    rows were dropped."""
    for number, path in enumerate(paths):

        def part_read(part: float, before: int = number) -> None:
            if progress:
                progress((before + part) / len(paths))

        for chunk in read_chunks(path, [*mechanisms, *keep], part_read, layout, check_header):
            if missing == "refuse":
                yield path, chunk, 0
                continue
            gaps = {
                name: _gaps(mechanism, chunk.columns[name])
                for name, mechanism in mechanisms.items()
            }
            if missing == "drop":
                left_out = set().union(*gaps.values())
                yield path, chunk.without(left_out) if left_out else chunk, len(left_out)
                continue
            for name, positions in gaps.items():
                for position in positions:
                    chunk.columns[name][position] = MISSING_LABEL
            yield path, chunk, 0


def _gaps(mechanism: Mechanism, cells: Sequence[Any]) -> set[int]:
    # Where any text is an answer, "none" is one too.
    texts = [str(label) for label in mechanism.labels] if mechanism.labels else None
    chosen = isinstance(mechanism, MultipleChoice)  # for which an empty cell is an answer
    return {
        position
        for position, cell in enumerate(cells)
        if is_missing(cell, texts) and not (chosen and is_blank(cell))
    }


def tell_dropped(paths: Sequence[Path], rows: int, dropped: int) -> None:
    """Warn about dropped rows, and refuse files with no rows left."""
    where = ", ".join(map(str, paths))
    if not rows:
        raise SurveyError(f"{where}: every row has a missing value, so none is left")
    if dropped:
        warnings.warn(
            f"{dropped:,} of {rows + dropped:,} rows of {where} have a missing value and were"
            " dropped: the result describes those who answered, and it is not hidden who did not"
            " answer",
            SurveyWarning,
            stacklevel=3,
        )


def randomize_file(
    path: Paths,
    output: Path | str,
    mechanisms: Mapping[str, Mechanism] | Questionnaire,
    *,
    keep: Sequence[str] = (),
    keep_order: bool = False,
    overwrite: bool = False,
    again: bool = False,
    prepare: Mapping[str, Callable[[list[Any]], Sequence[Any]]] | None = None,
    source: Source | None = None,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a file with the named columns of one or several files randomized, and a record of how;
    returns its rows.

    Other columns are left out unless `keep` names them, because they are true data. Either
    everything is written or nothing. Rows come out in random order, because their order in the file
    could identify people; `keep_order` leaves it as it is. With a
    :class:`~deniable.mechanisms.questionnaire.Questionnaire`, each person answers some of the
    columns; the cells of the others are empty, or hold fake data. `prepare` is applied to a
    column's cells before they are randomized, for example to put them into buckets. With `-` as the
    output, the rows go to standard output, and how they were randomized is not written.

    Nothing is randomized twice unless `again`: neither a file of reports, whose estimates would be
    wrong (it has the column `randomized_by_deniable`, or a description beside it), nor answers of
    which another file was made before, because the losses add up (according to the record beside
    the answers; with `again`, a SurveyWarning says so).
    """
    paths, output = check_paths(path), Path(output)
    if not mechanisms:
        raise SurveyError("there is no column to randomize")
    questionnaire = (
        mechanisms if isinstance(mechanisms, Questionnaire) else Questionnaire(mechanisms)
    )
    mechanisms = questionnaire.mechanisms
    keep = [name for name in keep if name != MARK]  # which every output has
    for name in set(keep) & set(mechanisms):
        raise SurveyError(f"column {name!r} is to be randomized, so it cannot be kept unchanged")
    check_missing(missing, mechanisms)
    described = write_questionnaire(questionnaire)
    losses = {name: questionnaire.answer_epsilon(name) for name in mechanisms}
    for file in paths:
        refuse_existing(file, output, overwrite)
        if not again:
            refuse_described(file, columns_file(file), mechanisms)
        check_earlier(file, losses, again)
    rows = dropped = 0
    check_header = None if again else refuse_marked
    names = [*mechanisms, *keep, MARK]
    with ExitStack() as stack:
        labels = {
            name: mechanism.report_domain.labels
            for name, mechanism in mechanisms.items()
            if isinstance(mechanism, ValueReports)
        }
        write = stack.enter_context(table_writer(output, names, labels))
        if not keep_order:
            write = stack.enter_context(in_random_order(write, names, source or system_source()))
        for file, chunk, left_out in complete_chunks(
            paths, mechanisms, keep, missing, layout, progress, check_header
        ):
            rows += len(chunk)
            dropped += left_out
            if not len(chunk):
                continue
            randomized = _randomized(questionnaire, file, chunk, prepare or {}, source)
            write(
                randomized | {name: chunk.columns[name] for name in keep} | {MARK: [1] * len(chunk)}
            )
        tell_dropped(paths, rows, dropped)
        for file in paths:  # before the output exists: what is published is always on record
            record_randomization(file, output, losses)
    if output != STANDARD_STREAM:
        columns_file(output).write_text(sealed_text(described), encoding="utf-8")
    return rows


def _randomized(
    questionnaire: Questionnaire,
    file: Path,
    chunk: Chunk,
    prepare: Mapping[str, Callable[[list[Any]], Sequence[Any]]],
    source: Source | None,
) -> dict[str, list[Any]]:
    """The cells of each column, randomized; None where a person was not asked."""
    source = source or system_source()
    asked = questionnaire.choose(len(chunk), source)
    randomized = {}
    for name, mechanism in questionnaire.mechanisms.items():
        with row_named(file, chunk, name):
            cells = chunk.columns[name]
            if name in prepare:
                cells = list(prepare[name](cells))
            answered = questionnaire.answer(name, cells_to_values(mechanism, cells), asked, source)
        written = iter(reports_to_cells(answered.reports))
        given = [True] * len(chunk) if answered.asked is None else answered.asked.tolist()
        randomized[name] = [next(written) if answers else None for answers in given]
    return randomized


def refuse_existing(path: Path, output: Path, overwrite: bool) -> None:
    """Refuse an output that exists, or whose description does, unless it may be overwritten; never
    overwrite what is read."""
    if output == STANDARD_STREAM:
        return
    for target in (output, columns_file(output)):
        if target.exists() and (not overwrite or _same(target, path)):
            raise SurveyError(f"{target} exists already")


@contextmanager
def row_named(path: Path, chunk: Chunk, column: str) -> Iterator[None]:
    """Turn errors with a position in the chunk into errors with the row of the file. They never
    contain a value."""
    try:
        yield
    except (AnswerError, ReportFormatError) as error:
        where = (
            f"rows from {chunk.first_row}"
            if error.position is None
            else f"row {chunk.row(error.position)}"
        )
        raise SurveyError(f"{path}, {where}, column {column!r}: the value {error.rule}") from None
