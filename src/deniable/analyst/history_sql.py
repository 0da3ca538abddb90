"""Ad-hoc SQL over what an analyst may see: counts of epochs and estimates, as views of DuckDB, and
files made of them.

Nothing here is closer to a person than randomized reports are: `panes` are counts of reports of
whole epochs, none of fewer answers than the query's minimum cohort.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deniable.aggregator.windows.window import Window
from deniable.analyst.past_answer import PastAnswer
from deniable.display import FORMULA, NUMBER, spreadsheet_cell
from deniable.errors import MissingExtraError, ParameterError, SurveyError

__all__ = ["FORMATS", "VIEWS", "open_views", "run_sql", "write_table"]

FORMATS = (".csv", ".parquet", ".arrow", ".json")
VIEWS = {
    "panes": (
        "query VARCHAR, version BIGINT, start_time TIMESTAMP, end_time TIMESTAMP, stratum VARCHAR,"
        " cell INTEGER, label VARCHAR, ones BIGINT, n BIGINT"
    ),
    "estimates": (
        "query VARCHAR, source VARCHAR, start_time TIMESTAMP, end_time TIMESTAMP, part VARCHAR,"
        " label VARCHAR, estimate DOUBLE, stderr DOUBLE, low DOUBLE, high DOUBLE, n BIGINT"
    ),
}
"""`panes`: of each epoch, stratum and cell of the mechanism how many reports count there, out of n;
`label` where a cell is a bucket. `estimates`: those of windows, and those of an answer from the
history."""


def open_views(
    counts: Mapping[str, Any],
    labels: list[str],
    windows: Iterable[Window] = (),
    answer: PastAnswer | None = None,
) -> Any:
    """A DuckDB connection, in memory, with the views `panes` and `estimates`. It reads and writes
    no files."""
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("duckdb", "history", "SQL over the history") from None
    connection = duckdb.connect(":memory:", config={"enable_external_access": False})
    for name, columns in VIEWS.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
    rows = list(_pane_rows(counts, labels))
    estimates = [*_window_rows(windows), *([] if answer is None else _answer_rows(answer))]
    for name, found in (("panes", rows), ("estimates", estimates)):
        if found:
            marks = ", ".join(
                "make_timestamp(?::BIGINT * 1000000)" if kind.split()[1] == "TIMESTAMP" else "?"
                for kind in VIEWS[name].split(", ")
            )
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", found)  # noqa: S608 - names of our own
    return connection


def _pane_rows(counts: Mapping[str, Any], labels: list[str]) -> Iterable[tuple[Any, ...]]:
    for pane in counts["panes"]:
        named = labels if len(labels) == len(pane["counts"]) else [None] * len(pane["counts"])
        for cell, (label, ones) in enumerate(zip(named, pane["counts"], strict=True)):
            place = (counts["query"], pane["serial"], pane["start"], pane["end"], pane["stratum"])
            yield (*place, cell, label, ones, pane["n"])


def _window_rows(windows: Iterable[Window]) -> Iterable[tuple[Any, ...]]:
    for window in windows:
        estimate = window.estimate
        if estimate is None:
            continue
        limits = estimate.interval()
        for label, value, stderr, (low, high) in zip(
            estimate.labels, estimate.proportions, estimate.stderr, limits, strict=True
        ):
            place = (window.query, "window", window.start, window.end, "all", str(label))
            yield (*place, float(value), float(stderr), float(low), float(high), window.n)


def _answer_rows(answer: PastAnswer) -> Iterable[tuple[Any, ...]]:
    start, end = answer.period
    for part, label, *figures in answer.rows():
        yield (answer.document["query"], "history", start, end, part, label, *figures)


def run_sql(connection: Any, sql: str) -> Any:
    """The result of a statement as a PyArrow table."""
    import duckdb  # noqa: PLC0415 - an extra

    try:
        return connection.sql(sql).to_arrow_table()
    except (duckdb.Error, AttributeError) as error:
        reason = (
            "it is not a query" if isinstance(error, AttributeError) else str(error).splitlines()[0]
        )
        raise ParameterError("--sql", sql[:80], f"cannot be run: {reason}") from None


def _without_formulas(table: Any) -> Any:
    """The table with texts that no spreadsheet runs
    (:func:`~deniable.display.spreadsheet_cell`)."""
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import compute  # noqa: PLC0415

    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            starts = compute.match_substring_regex(column, f"^{FORMULA}")
            unsafe = compute.and_not(starts, compute.match_substring_regex(column, f"^({NUMBER})$"))
            column = compute.if_else(  # noqa: PLW2901
                unsafe, compute.binary_join_element_wise("'", column, ""), column
            )
        columns.append(column)
    return pa.table(columns, names=[spreadsheet_cell(name) for name in table.column_names])


def write_table(table: Any, path: Path) -> None:
    """Write a PyArrow table to a file whose ending names the format."""
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise ParameterError("--output", str(path), f"must end in one of {', '.join(FORMATS)}")
    try:
        if kind == ".csv":
            from pyarrow import csv  # noqa: PLC0415 - an extra

            csv.write_csv(_without_formulas(table), path)
        elif kind == ".parquet":
            from pyarrow import parquet  # noqa: PLC0415

            parquet.write_table(table, path)
        elif kind == ".arrow":
            from pyarrow import feather  # noqa: PLC0415

            feather.write_feather(table, str(path), compression="uncompressed")
        else:
            import json  # noqa: PLC0415

            path.write_text(
                json.dumps(table.to_pylist(), default=str, ensure_ascii=False) + "\n",
                encoding="utf-8",
            )
    except OSError as error:
        raise SurveyError(f"{path} cannot be written: {error.strerror or error}") from None
