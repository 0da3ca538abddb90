"""`deniable history`: new questions to stored reports, over any period and cut."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from deniable.aggregator.history.history_request import CUTS
from deniable.analyst.analyst import Analyst
from deniable.analyst.past_answer import COLUMNS, DIFFERENCES, PastAnswer
from deniable.cli.connecting import aggregator_options, connect
from deniable.cli.output import as_csv, as_json, output_options, progress_bar, say
from deniable.errors import ParameterError

__all__ = ["history"]


@dataclasses.dataclass(frozen=True)
class _Export:
    """Where to write, and which rows."""

    path: Path | None
    sql: str | None


@click.command()
@click.argument("query_id", metavar="QUERY")
@aggregator_options
@click.option("--from", "start", help="Start of the period (ISO 8601, UTC) [default: the first stored report].")
@click.option("--to", "end", help="End of the period, exclusive [default: the last stored report].")
@click.option("--fraction", type=float, help="Read only this fraction of the reports, chosen at random (above 0, at most 1).")
@click.option("--seconds", type=float, help="Read for about this many seconds.")
@click.option(
    "--margin", type=float, help="Read only as many reports as needed for every interval to be at most ± this, such as 0.01."
)
@click.option("--confidence", type=float, default=0.95, show_default=True, help="How often intervals cover the truth.")
@click.option("--simultaneous", is_flag=True, help="Make the intervals simultaneous: all cover the truth together.")
@click.option(
    "--merge",
    multiple=True,
    help="A coarser bucket: a range such as '[0,5)', or name=label|label. Repeatable. Or a number: merge that many "
    "neighbours into one.",
)
@click.option("--by", type=click.Choice(CUTS), help="Split the period into parts; by day, with the trend.")
@click.option("--marginal", help="With composite buckets: the column to show.")
@click.option("--given", help="With composite buckets: show the other columns given each label of this one.")
@click.option("--against-from", help="Start of a second period to compare with.")
@click.option("--against-to", help="End of the second period, exclusive.")
@click.option("--panes", is_flag=True, help="Use the counts of each epoch instead of the reports: faster, with the same result.")
@click.option("--sql", help="Run this SQL over the views `panes` and `estimates` of the period, and show or export its rows.")
@click.option("--export", type=click.Path(path_type=Path), help="Write the rows to this file: .csv, .parquet, .arrow or .json.")
@click.option("--delete", is_flag=True, help="Delete all stored reports of QUERY, and print the receipt.")
@click.option("--yes", is_flag=True, help="With --delete, do not ask for confirmation.")
@click.option("--receipts", is_flag=True, help="Print the receipts of all deletions of QUERY's reports.")
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
    as_json_: bool,
    as_csv_: bool,
    **asked: Any,
) -> None:
    """Query stored reports again, for any period and cut of QUERY. Nobody answers again, and nobody's epsilon grows."""
    with connect(url, token_file) as analyst:
        if delete:
            _delete(analyst, query_id, yes)
        elif receipts:
            say(as_json(analyst.deletion_receipts(query_id)))
        else:
            answer = _ask(analyst, query_id, asked)
            if sql is not None or export is not None:
                _export(analyst, query_id, answer, asked, _Export(export, sql), as_json_, as_csv_)
            elif as_json_:
                say(as_json(answer.to_dict()))
            elif as_csv_:
                rows = list(answer.difference_rows())
                say(as_csv(DIFFERENCES, rows) if rows else as_csv(COLUMNS, list(answer.rows())))
            else:
                say(str(answer))


def _ask(analyst: Analyst, query_id: str, asked: dict[str, Any]) -> PastAnswer:
    chosen = dict(asked)
    against = (chosen.pop("against_from"), chosen.pop("against_to"))
    if (against[0] is None) != (against[1] is None):
        missing = "--against-from" if against[0] is None else "--against-to"
        raise ParameterError(missing, None, "is missing: a second period has a beginning and an end")
    source = "panes" if chosen.pop("panes") else "reports"
    with progress_bar(f"Reading the history of {query_id}") as progress:
        return analyst.history(
            query_id, against=None if against[0] is None else against, source=source, progress=progress, **chosen
        )


def _delete(analyst: Analyst, query_id: str, sure: bool) -> None:
    found = analyst.history_extent(query_id)
    if not sure:
        click.confirm(f"Delete {found['n_reports']:,} stored reports of {query_id}? This cannot be undone.", abort=True, err=True)
    say(as_json(analyst.delete_history(query_id)))


def _export(
    analyst: Analyst, query_id: str, answer: PastAnswer, asked: dict[str, Any], export: _Export, as_json_: bool, as_csv_: bool
) -> None:
    from deniable.analyst.history_sql import FORMATS, run_sql, write_table  # noqa: PLC0415 - an extra

    if export.path is not None and export.path.suffix.lower() not in FORMATS:
        raise ParameterError("--export", str(export.path), f"must end in one of {', '.join(FORMATS)}")
    if export.sql is None:
        table = answer.to_arrow()
    else:
        with analyst.sql(query_id, asked["start"], asked["end"], answer) as views:
            table = run_sql(views, export.sql)
    if export.path is not None:
        write_table(table, export.path)
        say(f"Wrote {table.num_rows:,} rows to {export.path}.")
    elif as_json_:
        say(json.dumps(table.to_pylist(), default=str, ensure_ascii=False, indent=2))
    else:
        rows = [list(row.values()) for row in table.to_pylist()]
        say(as_csv(table.column_names, rows) if as_csv_ else _aligned(table.column_names, rows))


def _aligned(names: list[str], rows: list[list[Any]]) -> str:
    """A plain table, columns aligned."""
    texts = [names, *[[_text(value) for value in row] for row in rows]]
    widths = [max(len(row[i]) for row in texts) for i in range(len(names))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in texts)


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
