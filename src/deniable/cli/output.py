"""What commands share: how results are printed, and the progress bar.

Everything printed goes through :func:`say` or :func:`make_console`, because texts come from query files, labels and other
people's services, and terminals obey control characters. These are shown as JSON escapes, `\\u001b`, so that JSON output stays
JSON.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deniable.display import loss_text, spreadsheet_cell
from deniable.errors import DeniableError, SurveyError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "as_csv",
    "as_json",
    "confidence_option",
    "loss_text",
    "make_console",
    "output_options",
    "plain",
    "progress_bar",
    "save_figure",
    "say",
    "shown_warnings",
    "warn_without_history",
    "write_new",
]

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that control a terminal, break a line or change the reading direction, except tab and newline."""


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
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(plain(segment.text), segment.style)

    return PlainConsole(**options)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--json` and `--csv`."""
    command = click.option("--csv", "as_csv_", is_flag=True, help="Print comma-separated values.")(command)
    return click.option("--json", "as_json_", is_flag=True, help="Print one JSON object.")(command)


def confidence_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--confidence` of commands that print intervals."""
    text = "What the intervals of --json and --csv cover."
    return click.option("--confidence", type=float, default=0.95, show_default=True, help=text)(command)


def as_json(content: Any) -> str:
    """One JSON object."""
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
    """Print warnings of this kind on standard error when the work is done: each once, one line each; none if it failed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"deniable: warning: {plain(text, lines=False)}.", err=True)


def warn_without_history() -> None:
    """Say on standard error that reports are not kept, if PyArrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        say("deniable: history is off because PyArrow is not installed: pip install 'deniable[history]'", err=True)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None] | None]:
    """A progress bar on standard error if it is a terminal; yields the function to call with the finished fraction, or None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
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
