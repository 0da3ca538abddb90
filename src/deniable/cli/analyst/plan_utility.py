"""`deniable plan --utility`: the best channel for what reports are worth."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import click

from deniable.cli.output import emit, write_new
from deniable.cli.tables import TextTable
from deniable.errors import PlanError, SurveyError

__all__ = ["plan_utility"]

_TAKEN = {"utility", "prior", "output", "epsilon"}


def plan_utility(path: Path, prior: str | None, output: Path | None, epsilon: float | None) -> None:
    """Find the channel whose reports are worth most, show it, and write it to a file."""
    from deniable.privacy.utility import best_channel  # noqa: PLC0415 - SciPy is slow to import

    context = click.get_current_context()
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is click.core.ParameterSource.COMMANDLINE and name not in _TAKEN:
            raise PlanError(f"--{name.replace('_', '-')} cannot be combined with --utility")
    if epsilon is None:
        raise PlanError("--utility needs --epsilon")
    values, reports, worth = _read(path)
    try:
        weights = None if prior is None else [float(part) for part in prior.split(",")]
    except ValueError:
        raise PlanError(f"--prior = {prior!r} must be proportions such as 0.5,0.3,0.2") from None
    best = best_channel(worth, epsilon, weights)
    rows = [
        [report, *(f"{x:.10g}" for x in row)]
        for report, row in zip(reports, best.matrix.tolist(), strict=True)
    ]
    if output is not None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([["report", *values], *rows])
        write_new(output, text.getvalue(), SurveyError)
    goal = "for the value that fares worst" if weights is None else "expected under the prior"
    shown = [[report, *(f"{float(x):.4f}" for x in row)] for report, *row in rows]
    emit(
        {
            "epsilon": best.epsilon,
            "utility": best.utility,
            "by_value": dict(zip(values, best.by_value.tolist(), strict=True)),
            "channel": dict(zip(reports, best.matrix.tolist(), strict=True)),
        },
        [
            TextTable(["report", *values], shown),
            f"Utility {best.utility:.6g}, {goal}; epsilon {best.epsilon:.6g}.",
            *([] if output is None else [f"Wrote {output}."]),
        ],
        (["report", *values], rows),
    )


def _read(path: Path) -> tuple[list[str], list[str], list[list[float]]]:
    """The values, the reports, and what each report is worth for each value."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row]
        worth = [[float(cell) for cell in row[1:]] for row in rows]
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise SurveyError(f"{path} is not a table of numbers: {error}") from None
    if any(len(row) != len(header) for row in rows):
        raise SurveyError(f"{path} has rows of different lengths")
    return header[1:], [row[0] for row in rows], worth
