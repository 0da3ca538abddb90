"""What commands have in common: how results are printed, and the bar that shows that something is going on."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

__all__ = ["as_csv", "as_json", "loss_text", "output_options", "progress_bar"]


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--json` and `--csv`."""
    command = click.option("--csv", "as_csv_", is_flag=True, help="Print comma-separated values.")(command)
    return click.option("--json", "as_json_", is_flag=True, help="Print one JSON object.")(command)


def as_json(content: Any) -> str:
    """One JSON object."""
    return json.dumps(content, ensure_ascii=False, indent=2, default=str)


def as_csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Comma-separated values, with a header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def loss_text(epsilon: float) -> str:
    """An epsilon with four digits, rounded up: what is printed is never below the loss.

    >>> loss_text(0.00529107), loss_text(1.0), loss_text(0.0)
    ('0.005292', '1', '0')
    """
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    digits = 3 - math.floor(math.log10(epsilon))
    return f"{math.ceil(round(epsilon * 10**digits, 6)) / 10**digits:.4g}"


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[float], None] | None]:
    """A bar on standard error while the work goes on, if a person is looking; yields what to tell the finished share."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only where a person is looking
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda share: progress.update(task, completed=share)
