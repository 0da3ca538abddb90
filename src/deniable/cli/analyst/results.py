"""`deniable results`: a query's windows, past and future."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from deniable.aggregator.windows.window import Window
from deniable.analyst.analyst import Analyst
from deniable.cli.analyst.connecting import aggregator_options, connect
from deniable.cli.helping import command
from deniable.cli.output import Part, as_csv, emit, output_format, output_options, say, show_display
from deniable.errors import DeniableError, ParameterError
from deniable.queries.times import iso_time, moment, with_times

__all__ = ["results"]

_COLUMNS = [
    "window",
    "start",
    "end",
    "condition",
    "n",
    "label",
    "estimate",
    "stderr",
    "low",
    "high",
    "revision",
    "final",
]


@command()
@click.argument("query_id", metavar="QUERY")
@aggregator_options
@click.option("--follow", is_flag=True, help="Print every window as it closes, until Ctrl-C.")
@click.option("--start", help="Windows that begin at this time (ISO 8601, UTC) or later.")
@click.option("--end", help="Windows that begin before this time.")
@click.option(
    "--all", "wants_all", is_flag=True, help="All windows, oldest first, instead of the newest."
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="How often intervals cover the truth.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(path_type=Path),
    help="Plot the newest window to this file (PNG, SVG, PDF).",
)
@click.option(
    "--table",
    "wants_table",
    is_flag=True,
    help="Show the newest window as a joint table of the query's columns.",
)
@click.option(
    "--conditional",
    metavar="'OF|GIVEN'",
    help="Show its conditional table, such as 'next|current'; separate names with commas.",
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
) -> None:
    """Show the windows of the published query with the id QUERY: the newest, those of a period, or
    each as it closes.

    With --follow, --json prints one object per line.
    """
    if plot_file is not None and follow:
        raise ParameterError(
            "--plot", str(plot_file), "cannot be combined with --follow: it draws one window"
        )
    tabular = wants_table or conditional is not None
    if tabular and (follow or plot_file is not None):
        raise click.UsageError(
            "--table and --conditional cannot be combined with --follow or --plot"
        )
    with connect(url, token_file) as analyst:
        found = _windows(analyst, query_id, follow, start, end, wants_all)
        if follow:
            _print_each(found, confidence)
            return
        windows = list(found)
    if not windows:
        raise DeniableError(f"query {query_id!r} has no windows there yet")
    if tabular:
        _print_table(windows[-1], conditional, confidence)
    elif plot_file is not None:
        _plot(windows[-1], plot_file, confidence)
    else:
        emit(
            [_document(window, confidence) for window in windows],
            lambda: [part for window in windows for part in _shown(window, confidence)],
            lambda: (_COLUMNS, [row for window in windows for row in _rows(window, confidence)]),
        )


def _windows(
    analyst: Analyst,
    query_id: str,
    follow: bool,
    start: str | None,
    end: str | None,
    wants_all: bool,
) -> Iterator[Window]:
    first = None if start is None else moment("--start", start)
    last = None if end is None else moment("--end", end)
    if follow:
        after = 0 if wants_all or first is not None else None
        yield from (
            w
            for w in analyst.follow(query_id, after, _say_overdue)
            if w.start >= (first or 0) and (last is None or w.start < last)
        )
    elif wants_all or first is not None or last is not None:
        yield from analyst.range(query_id, first, last)
    else:
        newest = analyst.latest(query_id)
        if newest is not None:
            yield newest


def _say_overdue(document: dict[str, Any] | None) -> None:
    """Say on the error stream that a window should have come by now: what is printed stays
    results alone."""
    if document is None:
        click.echo("No window is overdue any more.", err=True)
        return
    late = ", ".join(document["proxies"])
    why = f": no end of epoch from {late}" if late else ""
    click.echo(
        f"Overdue since {document['since_time']}: window {document['index']}, which ended at"
        f" {document['end_time']}{why}.",
        err=True,
    )


def _print_table(window: Window, conditional: str | None, confidence: float) -> None:
    of, given = None, None
    if conditional is not None:
        left, bar, right = conditional.partition("|")
        if not bar or not left.strip() or not right.strip():
            raise ParameterError(
                "--conditional",
                conditional,
                "must be written as 'OF|GIVEN', such as 'next|current'",
            )
        of, given = ([name.strip() for name in side.split(",")] for side in (left, right))
    table = window.table(of, given)
    shown = table._display(confidence)
    emit(table.to_dict(confidence), lambda: show_display(shown), (shown.columns, shown.rows))


def _print_each(windows: Iterable[Window], confidence: float) -> None:
    """Print windows as they come; the header of CSV once."""
    as_rows = output_format() == "csv"
    if as_rows:
        say(",".join(_COLUMNS))
    for window in windows:
        rows = list(_rows(window, confidence)) if as_rows else []
        if rows:
            say(as_csv(_COLUMNS, rows).partition("\n")[2])
        elif not as_rows:
            emit(_document(window, confidence), _shown(window, confidence), line=True)


def _shown(window: Window, confidence: float) -> list[Part]:
    if window.estimate is None:
        return [str(window), ""]
    table = show_display(window.estimate._display(confidence))
    return [window.headline, *table, *window.remarks, ""]


def _document(window: Window, confidence: float) -> dict[str, Any]:
    return with_times(window.to_dict(confidence), "start", "end")


def _rows(window: Window, confidence: float) -> Iterator[list[Any]]:
    if window.estimate is None:
        return
    estimate = window.estimate
    limits = estimate.interval(confidence)
    for label, proportion, stderr, (low, high) in zip(
        estimate.labels, estimate.proportions, estimate.stderr, limits, strict=True
    ):
        place = [
            window.index,
            iso_time(window.start),
            iso_time(window.end),
            window.condition,
            window.n,
        ]
        yield [*place, label, proportion, stderr, low, high, window.revision, window.final]


def _plot(window: Window, path: Path, confidence: float) -> None:
    if window.estimate is None:
        raise DeniableError(
            f"The newest window has no estimate: {window.condition}, {window.n:,} answers."
        )
    axes = window.estimate.plot(confidence=confidence)
    try:
        axes.figure.savefig(path)
    except (OSError, ValueError) as error:
        raise ParameterError("--plot", str(path), f"cannot be written: {error}") from None
    say(f"Plotted window {window.index} to {path}.")
