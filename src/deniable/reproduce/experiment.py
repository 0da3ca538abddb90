"""A paper's experiment: what the paper prints, our settings, and three functions: one measures, one
judges the figures, one draws them.

Measuring and judging are apart so that a wrong figure, ours or the paper's, can be planted between
them: a test does that to every experiment, and sees the verdict change. It also lets the page be
made from a kept run.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.display import spreadsheet_cell
from deniable.errors import ParameterError, SurveyError
from deniable.randomness import Source, seeded_source
from deniable.reproduce.verdicts import Claim, Compared, Finding, summary

__all__ = [
    "Claim",
    "Compared",
    "Context",
    "Experiment",
    "ExperimentOutcome",
    "Finding",
    "Measured",
]

Progress = Callable[[float], None]
Row = tuple[Any, ...]
Printed = Mapping[str, str]
"""What a paper prints, by the name of the figure."""


@dataclass(frozen=True)
class Measured:
    """The figures of a run."""

    header: tuple[str, ...]
    rows: tuple[Row, ...]
    """The numbers behind the picture, as they are written to the CSV file."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Single numbers beside the rows."""

    def column(self, name: str) -> list[Any]:
        """One column of the rows."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def where(self, **values: Any) -> Measured:
        """The rows with these values in the named columns."""
        places = {self.header.index(name): value for name, value in values.items()}
        kept = (
            row for row in self.rows if all(row[place] == value for place, value in places.items())
        )
        return Measured(self.header, tuple(kept), self.figures)


Judge = Callable[[SimpleNamespace, Measured, Printed], tuple[Finding, ...]]
Draw = Callable[[Any, SimpleNamespace, Measured, Printed], None]


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
class ExperimentOutcome:
    """What an experiment found, with the settings it ran with."""

    experiment: Experiment
    settings: Mapping[str, Any]
    measured: Measured

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdicts, computed from the figures."""
        return self.experiment.findings(self.settings, self.measured)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The numbers behind the picture."""
        return self.measured.rows

    @property
    def verdict(self) -> str:
        """A summary of all findings, in a few words."""
        return summary(Counter(finding.verdict for finding in self.findings))

    def draw(self, figure: Any) -> None:
        """Draw the picture on an empty matplotlib figure."""
        experiment = self.experiment
        figure.suptitle(f"{experiment.paper}, {experiment.title}", fontsize=10)
        experiment.draw(figure, SimpleNamespace(**self.settings), self.measured, experiment.printed)


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    name: str
    """Its name on the command line, such as `quoc-table-1`."""
    paper: str
    title: str
    measure: Callable[[SimpleNamespace, Context], Measured]
    judge: Judge
    draw: Draw
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The paper's settings, by name."""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """The settings that a quick run changes."""
    printed: Printed = field(default_factory=dict)
    """The paper's figures, by name, as they are printed."""
    reads: str = ""
    """What `--data` accepts, where it is accepted."""
    timed: bool = False
    """Whether it measures times, which depend on the machine."""
    seeded: bool = True
    """Whether the same seed gives the same figures: not for times, nor for OpenDP's noise."""

    def __call__(self, context: Context | None = None, *, quick: bool = False) -> ExperimentOutcome:
        """Run it."""
        context = context or Context()
        if context.data is not None and not self.reads:
            raise ParameterError(
                "data", str(context.data), f"must be left out: {self.name} reads no file"
            )
        settings = self.settings_of(quick)
        measured = self.measure(SimpleNamespace(**settings), context)
        context.done(1.0)
        return ExperimentOutcome(self, settings, measured)

    def settings_of(self, quick: bool) -> dict[str, Any]:
        """The settings of a full or of a quick run."""
        return {**self.settings, **(self.quick if quick else {})}

    def findings(
        self, settings: Mapping[str, Any], measured: Measured, printed: Printed | None = None
    ) -> tuple[Finding, ...]:
        """The verdicts on these figures, beside the paper's or other printed ones."""
        theirs = self.printed if printed is None else printed
        return self.judge(SimpleNamespace(**settings), measured, theirs)

    def write(self, outcome: ExperimentOutcome, folder: Path) -> list[Path]:
        """The CSV file and the pictures."""
        paths = [folder / f"{self.name}.{ending}" for ending in ("csv", "svg", "png")]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with paths[0].open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerows(
                    [spreadsheet_cell(cell) for cell in row]
                    for row in (outcome.measured.header, *outcome.rows)
                )
            self.write_pictures(outcome, paths[1:])
        except OSError as error:
            raise SurveyError(f"{folder} cannot be written to: {error.strerror}") from None
        return paths

    @staticmethod
    def write_pictures(outcome: ExperimentOutcome, paths: list[Path]) -> None:
        """The picture in each of these files, by their endings."""
        from deniable.display import pyplot  # noqa: PLC0415 - slow to import

        figure = pyplot().figure(figsize=(8, 4.4), layout="constrained")
        outcome.draw(figure)
        for path in paths:
            figure.savefig(
                path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None
            )
        pyplot().close(figure)
