"""What commands share: how results are printed, and the progress bar.

Results go out through :func:`emit`, as text, JSON or CSV; other messages through :func:`say`; live
views through :func:`make_console`. All of them show control characters as JSON escapes, `\\u001b`,
because texts come from query files, labels and other people's services, and terminals obey control
characters. JSON output stays JSON.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from deniable.cli.tables import Piece, TextTable, display_parts, wrap_line
from deniable.display import Display, loss_text, spreadsheet_cell
from deniable.errors import DeniableError, SurveyError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "as_csv",
    "as_json",
    "confidence_option",
    "emit",
    "flat_rows",
    "loss_text",
    "make_console",
    "output_format",
    "output_options",
    "plain",
    "progress_bar",
    "save_figure",
    "say",
    "show",
    "show_display",
    "shown_warnings",
    "terminal_width",
    "warn_without_history",
    "write_new",
]

_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that control a terminal, break a line or change the reading direction, except tab and
newline."""


def plain(text: str, lines: bool = True) -> str:
    """The text, with control characters made visible; without `lines`, newlines too.

    >>> print(plain("City\\x1b[2J of\\u202e nope"))
    City\\u001b[2J of\\u202e nope
    """
    shown = _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return shown if lines else shown.replace("\n", "\\n")


def say(text: object = "", err: bool = False) -> None:
    """Print a line (or several) for a person or a program to read."""
    click.echo(plain(str(text)), err=err)


def make_console(**options: Any) -> Console:
    """A console for tables and live views that shows control characters instead of obeying them."""
    from rich.console import Console, ConsoleOptions, RenderableType  # noqa: PLC0415 - slow to import, and only for people
    from rich.segment import Segment  # noqa: PLC0415

    class PlainConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(plain(segment.text), segment.style)

    return PlainConsole(**options)


OutputFormat = Literal["text", "json", "csv"]
Part = str | TextTable
"""What a person reads: paragraphs and tables."""
_FORMAT = "deniable.output_format"


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--json` and `--csv`, the same on every command that prints a result;
    :func:`emit` obeys them."""

    def choose(name: OutputFormat) -> Callable[[click.Context, click.Parameter, bool], None]:
        def chosen(context: click.Context, _: click.Parameter, given: bool) -> None:
            if given and context.meta.get(_FORMAT, name) != name:
                raise click.UsageError("--json and --csv cannot be combined")
            if given:
                context.meta[_FORMAT] = name

        return chosen

    for name, text in (("csv", "Print comma-separated values."), ("json", "Print JSON.")):
        option = click.option(
            f"--{name}",
            is_flag=True,
            expose_value=False,
            callback=choose(name),  # type: ignore[arg-type]
            help=text,
        )
        command = option(command)
    return command


def output_format() -> OutputFormat:
    """How the running command is to print its result."""
    context = click.get_current_context(silent=True)
    return "text" if context is None else context.meta.get(_FORMAT, "text")


def emit(
    document: Any,
    shown: object | Callable[[], object],
    rows: Rows | Callable[[], Rows] | None = None,
    *,
    line: bool = False,
) -> None:
    """Print a result the way the options ask for: the only way out for results.

    `document` is the JSON, on a single line with `line`, for results that follow each other.
    `shown` is what a person reads: a text, a table, or a list of both. `rows` are a header and the
    rows below it; without them, CSV has a row per element of a list, or per value of an object.
    What is costly to make is passed as a function.
    """
    form = output_format()
    if form == "json":
        say(json.dumps(document, ensure_ascii=False, default=str) if line else as_json(document))
    elif form == "csv":
        header, body = rows() if callable(rows) else rows or flat_rows(document)
        say(as_csv(header, body))
    else:
        show(shown() if callable(shown) else shown)


Rows = tuple[Sequence[str], Sequence[Sequence[Any]]]


def flat_rows(document: Any) -> Rows:
    """A table of a JSON document: a row per object of a list, otherwise a row per value, with the
    path to it.

    >>> flat_rows([{"id": "a", "n": 1}, {"id": "b", "n": 2}])
    (['id', 'n'], [['a', 1], ['b', 2]])
    >>> flat_rows({"holds": True, "budget": {"left": 0.5}})
    (['name', 'value'], [['holds', True], ['budget.left', 0.5]])
    """
    if isinstance(document, list) and all(isinstance(each, dict) for each in document):
        header = list(dict.fromkeys(name for each in document for name in each))
        return header, [[_flat_cell(each.get(name)) for name in header] for each in document]
    return ["name", "value"], [[path, value] for path, value in _leaves(document)]


def _flat_cell(value: Any) -> Any:
    return (
        json.dumps(value, ensure_ascii=False, default=str)
        if isinstance(value, dict | list)
        else value
    )


def _leaves(document: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    inner = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else None
    )
    if inner is None:
        yield path, document
        return
    for name, value in inner:
        yield from _leaves(value, f"{path}.{name}" if path else str(name))


def terminal_width() -> int | None:
    """The columns that a person has; None for a file or a pipe, where lines stay whole."""
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()):
        return None
    return max(20, shutil.get_terminal_size().columns)


def show(shown: object) -> None:
    """Print texts and tables for a person: wrapped at words to the width of the terminal, in colour
    if it has any."""
    width = terminal_width()
    for part in shown if isinstance(shown, list | tuple) else [shown]:
        if isinstance(part, TextTable):
            for pieces in part.lines(width):
                click.echo("".join(_painted(piece) for piece in pieces))
            continue
        for text in plain(str(part)).split("\n"):
            for wrapped in [text] if width is None else wrap_line(text, width):
                click.echo(wrapped)


def _painted(piece: Piece) -> str:
    text = plain(piece.text)
    if (
        not (piece.style and sys.stdout.isatty())
        or os.environ.get("NO_COLOR")
        or os.environ.get("TERM") == "dumb"
    ):
        return text
    if piece.style in ("bold", "dim"):
        return click.style(text, **{piece.style: True})
    return click.style(text, fg=piece.style)


def show_display(shown: Display, title: str = "") -> list[Part]:
    """A result's table, its bars and its notes, for :func:`emit`."""
    return display_parts(shown, terminal_width(), title)


def confidence_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--confidence` of commands that print intervals."""
    text = "How often the intervals cover the truth."
    return click.option("--confidence", type=float, default=0.95, show_default=True, help=text)(
        command
    )


def as_json(content: Any) -> str:
    """One JSON document."""
    return json.dumps(content, ensure_ascii=False, indent=2, default=str)


def as_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Comma-separated values, with a header. No cell is a formula: spreadsheets would run it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([spreadsheet_cell(cell) for cell in row] for row in (header, *rows))
    return text.getvalue().rstrip("\n")


def save_figure(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, in the format given by the file's extension."""
    try:
        figure.savefig(path)
    except OSError as error:
        raise SurveyError(f"{path} cannot be written: {error.strerror}") from None
    except ValueError as error:  # an ending that matplotlib has no format for
        raise SurveyError(f"{path} cannot be drawn: {error}") from None


@contextmanager
def shown_warnings(category: type[Warning]) -> Iterator[None]:
    """Print warnings of this kind on standard error when the work is done: each once, one line
    each; none if it failed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"deniable: warning: {plain(text, lines=False)}.", err=True)


def warn_without_history() -> None:
    """Say on standard error that reports are not kept, if PyArrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        say(
            "deniable: history is off because PyArrow is not installed: pip install"
            " 'deniable[history]'",
            err=True,
        )


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None] | None]:
    """A progress bar on standard error if it is a terminal; yields the function to call with the
    finished fraction, or None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=make_console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)


def write_new(path: Path, content: str, refusal: type[DeniableError]) -> None:
    """Write a file that must not exist yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise refusal(f"{path} already exists and is not overwritten") from None
    except OSError as error:
        raise refusal(f"{path} cannot be written: {error.strerror}") from None
