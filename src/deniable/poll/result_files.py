"""Results of a poll as a table: CSV, TSV, Parquet, Stata or SPSS, by the file's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deniable.aggregator.windows.window import Window
from deniable.errors import ServiceError
from deniable.poll.poll import Poll
from deniable.queries.times import iso_time
from deniable.survey.writing import table_writer

__all__ = ["result_columns", "write_results"]

_COLUMNS = (
    "question", "text", "answer", "proportion", "low", "high", "confidence", "answers",
    "epsilon", "window_end", "condition",
)  # fmt: skip


def result_columns(
    poll: Poll, windows: Sequence[Window | None], confidence: float = 0.95
) -> dict[str, list[Any]]:
    """A row for each answer to each question; a question whose results are withheld has none."""
    language = poll.languages[0]
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for question, window in zip(poll.questions, windows, strict=True):
        if window is None or window.estimate is None:
            continue
        estimate = window.estimate
        found = zip(
            question.options[language],
            estimate.proportions,
            estimate.interval(confidence),
            strict=True,
        )
        for answer, proportion, (low, high) in found:
            row = (
                question.id, question.text[language], answer, float(proportion), float(low),
                float(high), confidence, window.n, float(estimate.epsilon),
                iso_time(window.end), window.condition,
            )  # fmt: skip
            for name, value in zip(_COLUMNS, row, strict=True):
                columns[name].append(value)
    return columns


def write_results(path: Path, poll: Poll, windows: Sequence[Window | None]) -> int:
    """Write the newest windows of the poll's questions to a new file; returns how many rows."""
    columns = result_columns(poll, windows)
    if path.exists():
        raise ServiceError(f"{path} already exists and is not overwritten")
    rows = len(columns["answer"])
    if not rows:
        raise ServiceError(f"nothing to write: below {poll.minimum} answers nothing is shown")
    with table_writer(path, _COLUMNS) as write:
        write(columns)
    return rows
