"""`deniable results`: a query's windows, past and future."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from deniable.aggregator.windows import Window
from deniable.analyst.analyst import Analyst
from deniable.cli.connecting import aggregator_options, connect
from deniable.cli.output import as_csv, as_json, output_options, say
from deniable.errors import DeniableError, ParameterError
from deniable.queries.times import iso_time, moment, with_times

__all__ = ["results"]

_COLUMNS = ["window", "start", "end", "condition", "n", "label", "estimate", "stderr", "low", "high", "revision", "final"]


@click.command()
@click.argument("query_id", metavar="QUERY")
@aggregator_options
@click.option("--follow", is_flag=True, help="Print every window as it closes, until Ctrl-C.")
@click.option("--from", "start", help="Windows that begin at this time (ISO 8601, UTC) or later.")
@click.option("--to", "end", help="Windows that begin before this time.")
@click.option("--all", "wants_all", is_flag=True, help="All windows, oldest first, instead of the newest.")
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="How often intervals cover the truth.",
)
@click.option("--plot", "plot_file", type=click.Path(path_type=Path), help="Plot the newest window to this file (PNG, SVG, PDF).")
@click.option("--table", "wants_table", is_flag=True, help="Show the newest window as a joint table of the query's columns.")
@click.option(
    "--conditional", metavar="'OF|GIVEN'", help="Show its conditional table, such as 'next|current'; separate names with commas."
)
@output_options
def results(
    query_id: str,
    url: str,
    token_file: Path | None,
    follow: bool,
    start: str | None,
    end: str | None,
    wants_all: bool,
    confidence: float,
    plot_file: Path | None,
    wants_table: bool,
    conditional: str | None,
    as_json_: bool,
    as_csv_: bool,
) -> None:
    """Show the windows of the published query with the id QUERY: the newest, those of a period, or each as it closes.

    With --follow, --json prints one object per line.
    """
    if plot_file is not None and follow:
        raise ParameterError("--plot", str(plot_file), "cannot be combined with --follow: it draws one window")
    tabular = wants_table or conditional is not None
    if tabular and (follow or plot_file is not None or as_csv_):
        raise ParameterError("--table", conditional, "or --conditional cannot be combined with --follow, --plot or --csv")
    with connect(url, token_file) as analyst:
        found = _windows(analyst, query_id, follow, start, end, wants_all)
        if follow:
            _print_each(found, confidence, as_json_, as_csv_)
            return
        windows = list(found)
    if not windows:
        raise DeniableError(f"Query {query_id!r} has no windows there yet.")
    if tabular:
        _print_table(windows[-1], conditional, confidence, as_json_)
    elif plot_file is not None:
        _plot(windows[-1], plot_file, confidence)
    elif as_json_:
        say(as_json([_document(window, confidence) for window in windows]))
    else:
        _print_each(windows, confidence, False, as_csv_)


def _windows(
    analyst: Analyst, query_id: str, follow: bool, start: str | None, end: str | None, wants_all: bool
) -> Iterator[Window]:
    first = None if start is None else moment("--from", start)
    last = None if end is None else moment("--to", end)
    if follow:
        after = 0 if wants_all or first is not None else None
        yield from (w for w in analyst.follow(query_id, after) if w.start >= (first or 0) and (last is None or w.start < last))
    elif wants_all or first is not None or last is not None:
        yield from analyst.range(query_id, first, last)
    else:
        newest = analyst.latest(query_id)
        if newest is not None:
            yield newest


def _print_table(window: Window, conditional: str | None, confidence: float, as_json_: bool) -> None:
    of, given = None, None
    if conditional is not None:
        left, bar, right = conditional.partition("|")
        if not bar or not left.strip() or not right.strip():
            raise ParameterError("--conditional", conditional, "must be written as 'OF|GIVEN', such as 'next|current'")
        of, given = ([name.strip() for name in side.split(",")] for side in (left, right))
    table = window.table(of, given)
    say(as_json(table.to_dict(confidence)) if as_json_ else str(table))


def _print_each(windows: Iterable[Window], confidence: float, as_json_: bool, as_csv_: bool) -> None:
    if as_csv_:
        say(",".join(_COLUMNS))
    for window in windows:
        if as_json_:
            say(json.dumps(_document(window, confidence), ensure_ascii=False))
        elif as_csv_:
            rows = list(_rows(window, confidence))
            if rows:
                say(as_csv(_COLUMNS, rows).partition("\n")[2])
        else:
            say(f"{window}\n")


def _document(window: Window, confidence: float) -> dict[str, Any]:
    return with_times(window.to_dict(confidence), "start", "end")


def _rows(window: Window, confidence: float) -> Iterator[list[Any]]:
    if window.estimate is None:
        return
    estimate = window.estimate
    limits = estimate.interval(confidence)
    for label, share, stderr, (low, high) in zip(estimate.labels, estimate.proportions, estimate.stderr, limits, strict=True):
        place = [window.index, iso_time(window.start), iso_time(window.end), window.condition, window.n]
        yield [*place, label, share, stderr, low, high, window.revision, window.final]


def _plot(window: Window, path: Path, confidence: float) -> None:
    if window.estimate is None:
        raise DeniableError(f"The newest window has no estimate: {window.condition}, {window.n:,} answers.")
    axes = window.estimate.plot(confidence=confidence)
    try:
        axes.figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ParameterError("--plot", str(path), f"cannot be written: {error}") from None
    say(f"Plotted window {window.index} to {path}.")
