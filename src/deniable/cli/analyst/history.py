"""`deniable history`: new questions to stored reports, over any period and cut."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from deniable.aggregator.history.request import CUTS
from deniable.analyst.analyst import Analyst
from deniable.analyst.past_answer import COLUMNS, DIFFERENCES, PastAnswer
from deniable.cli.analyst.connecting import aggregator_options, connect
from deniable.cli.analyst.history_view import history_parts
from deniable.cli.helping import command
from deniable.cli.output import Rows, as_json, emit, output_options, progress_bar
from deniable.cli.tables import TextTable
from deniable.errors import ParameterError

__all__ = ["history"]


@dataclasses.dataclass(frozen=True)
class _Export:
    """Where to write, and which rows."""

    path: Path | None
    sql: str | None


@command()
@click.argument("query_id", metavar="QUERY")
@aggregator_options
@click.option(
    "--start",
    "start",
    help="Start of the period (ISO 8601, UTC) [default: the first stored report].",
)
@click.option("--end", help="End of the period, exclusive [default: the last stored report].")
@click.option(
    "--fraction",
    type=float,
    help="Read only this fraction of the reports, chosen at random (above 0, at most 1).",
)
@click.option("--seconds", type=float, help="Read for about this many seconds.")
@click.option(
    "--margin",
    type=float,
    help=(
        "Read only as many reports as needed for every interval to be at most ± this, such as 0.01."
    ),
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="How often intervals cover the truth.",
)
@click.option(
    "--simultaneous",
    is_flag=True,
    help="Make the intervals simultaneous: all cover the truth together.",
)
@click.option(
    "--merge",
    multiple=True,
    help=(
        "A coarser bucket: a range such as '[0,5)', or name=label|label. Repeatable. Or a number:"
        " merge that many neighbours into one."
    ),
)
@click.option(
    "--by", type=click.Choice(CUTS), help="Split the period into parts; by day, with the trend."
)
@click.option("--marginal", help="With composite buckets: the column to show.")
@click.option(
    "--given", help="With composite buckets: show the other columns given each label of this one."
)
@click.option("--against-start", "against_from", help="Start of a second period to compare with.")
@click.option("--against-end", "against_to", help="End of the second period, exclusive.")
@click.option(
    "--panes",
    is_flag=True,
    help="Use the counts of each epoch instead of the reports: faster, with the same result.",
)
@click.option(
    "--sql",
    help=(
        "Run this SQL over the views `panes` and `estimates` of the period, and show or export its"
        " rows."
    ),
)
@click.option(
    "--output",
    "export",
    type=click.Path(path_type=Path),
    help="Write the rows to this file: .csv, .parquet, .arrow or .json.",
)
@click.option(
    "--delete", is_flag=True, help="Delete all stored reports of QUERY, and print the receipt."
)
@click.option("--yes", is_flag=True, help="With --delete, do not ask for confirmation.")
@click.option(
    "--receipts", is_flag=True, help="Print the receipts of all deletions of QUERY's reports."
)
@output_options
def history(
    query_id: str,
    url: str,
    token_file: Path | None,
    delete: bool,
    yes: bool,
    receipts: bool,
    sql: str | None,
    export: Path | None,
    **asked: Any,
) -> None:
    """Query stored reports again, for any period and cut of QUERY. Nobody answers again, and
    nobody's epsilon grows."""
    with connect(url, token_file) as analyst:
        if delete:
            _delete(analyst, query_id, yes)
        elif receipts:
            found = analyst.deletion_receipts(query_id)
            emit(found, as_json(found))
        else:
            answer = _ask(analyst, query_id, asked)
            if sql is not None or export is not None:
                _export(analyst, query_id, answer, asked, _Export(export, sql))
            else:
                changes = list(answer.difference_rows())
                rows: Rows = (DIFFERENCES, changes) if changes else (COLUMNS, list(answer.rows()))
                emit(answer.to_dict(), lambda: history_parts(answer), rows)


def _ask(analyst: Analyst, query_id: str, asked: dict[str, Any]) -> PastAnswer:
    chosen = dict(asked)
    against = (chosen.pop("against_from"), chosen.pop("against_to"))
    if (against[0] is None) != (against[1] is None):
        missing = "--against-start" if against[0] is None else "--against-end"
        raise click.UsageError(f"{missing} is missing: a second period has a start and an end")
    source = "panes" if chosen.pop("panes") else "reports"
    with progress_bar(f"Reading the history of {query_id}") as progress:
        return analyst.history(
            query_id,
            against=None if against[0] is None else against,
            source=source,
            progress=progress,
            **chosen,
        )


def _delete(analyst: Analyst, query_id: str, sure: bool) -> None:
    found = analyst.history_extent(query_id)
    if not sure:
        click.confirm(
            f"Delete {found['n_reports']:,} stored reports of {query_id}? This cannot be undone.",
            abort=True,
            err=True,
        )
    receipt = analyst.delete_history(query_id)
    emit(receipt, as_json(receipt))


def _export(
    analyst: Analyst, query_id: str, answer: PastAnswer, asked: dict[str, Any], export: _Export
) -> None:
    from deniable.analyst.history_sql import FORMATS, run_sql, write_table  # noqa: PLC0415 - an extra

    if export.path is not None and export.path.suffix.lower() not in FORMATS:
        raise ParameterError(
            "--output", str(export.path), f"must end in one of {', '.join(FORMATS)}"
        )
    if export.sql is None:
        table = answer.to_arrow()
    else:
        with analyst.sql(query_id, asked["start"], asked["end"], answer) as views:
            table = run_sql(views, export.sql)
    if export.path is not None:
        write_table(table, export.path)
        written = {"file": str(export.path), "rows": table.num_rows}
        emit(written, f"Wrote {table.num_rows:,} rows to {export.path}.")
        return
    rows = [list(row.values()) for row in table.to_pylist()]
    shown = TextTable(table.column_names, [[_text(value) for value in row] for row in rows])
    emit(table.to_pylist(), shown, (table.column_names, rows))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
