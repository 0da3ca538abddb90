"""A paper's experiment: its settings as data, one function, and the comparisons with what the paper
says.

Verdicts are computed. A number agrees with the paper's if they differ by no more than the
tolerance: the simulation error of both sides and the rounding of the printed digits. Where we
deliberately compute something else, the paper's own formula is evaluated too: the difference is
explained if that gives the paper's number. A paper's verbal statement is tested as a condition.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.display import spreadsheet_cell
from deniable.errors import ParameterError, SurveyError
from deniable.randomness import Source, seeded_source

__all__ = [
    "Claim",
    "Compared",
    "Context",
    "Experiment",
    "ExperimentOutcome",
    "Finding",
    "Series",
    "plot_lines",
]

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Compared:
    """A number from the paper compared with ours.

    >>> Compared("epsilon", 1.0986, 1.0986123, 5e-5).verdict
    'agrees'
    >>> Compared("epsilon", 1.41, 1.127, 0.005, "the paper adds 1 within the logarithm", by_paper=1.4085).verdict
    'explained'
    """

    name: str
    paper: float
    ours: float
    tolerance: float
    """The largest difference that rounding and simulation allow for."""
    note: str = ""
    by_paper: float | None = None
    """What the paper's own formula gives, where ours deliberately differs."""

    @property
    def verdict(self) -> str:
        """'agrees', 'explained' or 'differs'."""
        if abs(self.ours - self.paper) <= self.tolerance:
            return "agrees"
        if self.by_paper is not None and abs(self.by_paper - self.paper) <= self.tolerance:
            return "explained"
        return "differs"

    @property
    def row(self) -> tuple[str, str, str, str, str, str]:
        """Name, paper, ours, difference, verdict, note."""
        return (
            self.name,
            _short(self.paper),
            _short(self.ours),
            _short(self.ours - self.paper),
            self.verdict,
            self.note,
        )


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or ours where the paper makes none, and whether it holds in what
    was computed."""

    text: str
    holds: bool
    evidence: str = ""
    """The figures that decide it."""
    note: str = ""
    """Why it does not hold, if it does not."""

    @property
    def verdict(self) -> str:
        """'holds' or 'does not hold'."""
        return "holds" if self.holds else "does not hold"

    @property
    def row(self) -> tuple[str, str, str, str, str, str]:
        """Name, paper, ours, difference, verdict, note."""
        return self.text, "", self.evidence, "", self.verdict, self.note


Finding = Compared | Claim


@dataclass(frozen=True)
class ExperimentOutcome:
    """What an experiment found."""

    findings: tuple[Finding, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    """The numbers behind the picture, as they are written to the CSV file."""
    draw: Callable[[Any], None]
    """Draws the picture on an empty matplotlib figure."""

    def count(self, *verdicts: str) -> int:
        """How many findings have one of these verdicts."""
        return sum(finding.verdict in verdicts for finding in self.findings)

    @property
    def verdict(self) -> str:
        """A summary of all findings, in a few words."""
        good, explained = self.count("agrees", "holds"), self.count("explained")
        bad = len(self.findings) - good - explained
        parts = [(good, "agree"), (explained, "explained"), (bad, "differ")]
        return ", ".join(f"{n} {word}" for n, word in parts if n) or "nothing to compare"


@dataclass(frozen=True)
class Context:
    """The inputs of a run."""

    seed: int = 1
    data: Path | None = None
    progress: Progress | None = None

    def random(self, *salt: int) -> np.random.Generator:
        """Random numbers for the data and for simulations of whole crowds."""
        # The number of salts is included because NumPy treats seeds that differ only in trailing
        # zeros as equal.
        return np.random.default_rng([self.seed, len(salt), *salt])

    def source(self, salt: int = 0) -> Source:
        """Coins for mechanisms."""
        return seeded_source(1000 * self.seed + salt)

    def done(self, part: float) -> None:
        """Report progress."""
        if self.progress:
            self.progress(min(part, 1.0))


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    name: str
    """Its name on the command line, such as `quoc-table-1`."""
    paper: str
    title: str
    run: Callable[[SimpleNamespace, Context], ExperimentOutcome]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The paper's settings, by name."""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """The settings that a quick run changes."""
    reads: str = ""
    """What `--data` accepts, where it is accepted."""

    def __call__(self, context: Context | None = None, *, quick: bool = False) -> ExperimentOutcome:
        """Run it."""
        context = context or Context()
        if context.data is not None and not self.reads:
            raise ParameterError(
                "data", str(context.data), f"must be left out: {self.name} reads no file"
            )
        outcome = self.run(
            SimpleNamespace(**{**self.settings, **(self.quick if quick else {})}), context
        )
        context.done(1.0)
        return outcome

    def write(self, outcome: ExperimentOutcome, folder: Path) -> list[Path]:
        """The CSV file and the pictures."""
        from deniable.display import pyplot  # noqa: PLC0415 - slow to import

        paths = [folder / f"{self.name}.{ending}" for ending in ("csv", "svg", "png")]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with paths[0].open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerows(
                    [spreadsheet_cell(cell) for cell in row]
                    for row in (outcome.header, *outcome.rows)
                )
            figure = pyplot().figure(figsize=(8, 4.2), layout="constrained")
            outcome.draw(figure)
            for path in paths[1:]:
                figure.savefig(
                    path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None
                )
            pyplot().close(figure)
        except OSError as error:
            raise SurveyError(f"{folder} cannot be written to: {error.strerror}") from None
        return paths


@dataclass(frozen=True)
class Series:
    """A line of a plot."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "-"


def plot_lines(
    ax: Any,
    series: Sequence[Series],
    x: str,
    y: str,
    *,
    title: str = "",
    log: str = "",
    legend: bool = True,
) -> None:
    """Lines with markers, dashed ones without; `log` names the axes with a logarithmic scale."""
    for line in series:
        marker = "" if line.style in {"--", ":"} else "o"
        colour = "0.35" if line.style in {"--", ":"} else None
        ax.plot(
            line.x,
            line.y,
            line.style,
            marker=marker,
            markersize=3.5,
            linewidth=1.4,
            label=line.name,
            color=colour,
        )
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if title:
        ax.set_title(title, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    if legend and len(series) > 1:
        ax.legend(fontsize=8, frameon=False)


def _short(number: float) -> str:
    if not math.isfinite(number):
        return f"{number:g}"
    if number and abs(number) < 1e-3:
        return f"{number:.2e}"
    return f"{number:,.4g}" if abs(number) < 10_000 else f"{number:,.0f}"
