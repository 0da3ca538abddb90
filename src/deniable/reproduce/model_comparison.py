"""The errors of one column in the local model, at a curator and in a release, side by side."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.curator.protection import Neighbours
from deniable.display import Bar, Display, draw_bars
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.renames import reads_old_names
from deniable.results import Result, fields_of

__all__ = ["TRUST", "ModelComparison", "ModelErrors"]


_Floats = NDArray[np.float64]

TRUST = {
    "local": "Nobody has to be trusted: each person randomizes their own answer before it is sent.",
    "curator": "One party is trusted with every true answer for as long as questions are asked.",
    "release": (
        "One party is trusted with every true answer until the table is published, and can then"
        " delete them."
    ),
}


@dataclass(frozen=True, eq=False)
class ModelErrors(Result):
    """How one model performs: one estimate as it would be seen, and the errors of many. Errors are
    of proportions, one per label."""

    model: str
    mechanism: str
    epsilon: float
    """The most each person loses, for the neighbours of the comparison."""
    delta: float
    report_bytes: int
    """What each person sends: a randomized report, or the true answer."""
    estimate: Estimate
    """The first repetition."""
    theory: _Floats
    """Root mean squared error of each label by theory, without simulation."""
    stated: _Floats
    """Standard error of each label as the estimates report it: the root of the mean variance."""
    measured: _Floats
    """Root mean squared error of each label over the trials."""
    error: float
    """Root mean squared error over all labels and trials."""
    error_stderr: float
    """The simulation error of `error`."""
    largest: float
    """The error of the worst label, on average."""
    coverage: float
    """How often a 95 % interval contained the truth."""

    @property
    def trust(self) -> str:
        """Who has to be trusted with what."""
        return TRUST[self.model]

    @property
    def theory_error(self) -> float:
        """Root mean squared error over all labels, by theory."""
        return _root_mean(self.theory)

    @property
    def stated_error(self) -> float:
        """The same, from the reported standard errors."""
        return _root_mean(self.stated)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with what follows from it."""
        more = {
            "trust": self.trust,
            "theory_error": self.theory_error,
            "stated_error": self.stated_error,
        }
        return {**fields_of(self), **more}


@reads_old_names
@dataclass(frozen=True, eq=False)
class ModelComparison(Result):
    """The three models side by side. Computed from the true answers, so not private."""

    column: str
    labels: tuple[Hashable, ...]
    truth: _Floats
    n: int
    epsilon: float
    delta: float
    neighbours: Neighbours
    trials: int
    seed: int | str
    models: tuple[ModelErrors, ...]
    """Local, curator, release."""

    def __getitem__(self, model: str) -> ModelErrors:
        for found in self.models:
            if found.model == model:
                return found
        raise ParameterError("model", model, f"must be one of {', '.join(TRUST)}")

    def _display(self, confidence: float = 0.95) -> Display:
        columns = (
            "model",
            "mechanism",
            "error",
            "theory",
            "stated",
            "worst label",
            "covered",
            "bytes",
        )
        rows = [
            (
                m.model,
                m.mechanism,
                m.error,
                m.theory_error,
                m.stated_error,
                m.largest,
                m.coverage,
                m.report_bytes,
            )
            for m in self.models
        ]
        bars = [Bar(m.model, 100 * m.error) for m in self.models]
        return Display(
            columns, rows, tuple(str(self).splitlines()[-2:]), bars, "error (percentage points)"
        )

    def plot(self, ax: Any = None, *, confidence: float = 0.95) -> Any:
        """Draw one estimate of each model with its intervals, and the errors next to theory;
        returns the matplotlib figure.

        With `ax`, draw the errors of the models there, and return it.
        """
        if ax is not None:
            return draw_bars(self._display(confidence), ax)
        from deniable.reproduce.models_plot import draw_models  # noqa: PLC0415 - an extra

        return draw_models(self)

    def __str__(self) -> str:
        header = [
            "model",
            "mechanism",
            "error",
            "theory",
            "stated",
            "worst label",
            "covered",
            "bytes",
        ]
        rows = [header, *(_row(model) for model in self.models)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
        table = [
            "  ".join(
                [*map(str.ljust, row[:2], widths[:2]), *map(str.rjust, row[2:], widths[2:])]
            ).rstrip()
            for row in rows
        ]
        promise = (
            "what a person says"
            if self.neighbours == "replace-one"
            else "that a person is there (local: what they say)"
        )
        return "\n".join(
            [
                (
                    f"{self.column}: {self.n:,} people, {len(self.labels)} labels; epsilon"
                    f" {self.epsilon:.4g} hides {promise}; release: delta {self.delta:.2g}"
                ),
                *table,
                *(f"{model.model}: {model.trust}" for model in self.models),
                (
                    "Errors of a proportion, in percentage points: root mean square over labels"
                    f" and {self.trials} trials."
                ),
                (
                    "This looked at the true answers: it is for choosing a model, and must not be"
                    " published as private."
                ),
            ]
        )

    def __repr__(self) -> str:
        return (
            f"<ModelComparison of {len(self.labels)} labels, {self.n:,} people, {self.trials}"
            " trials>"
        )


def _row(model: ModelErrors) -> list[str]:
    points = [
        f"{100 * error:.3g}" for error in (model.theory_error, model.stated_error, model.largest)
    ]
    measured = f"{100 * model.error:.3g} ± {100 * 1.96 * model.error_stderr:.1g}"
    return [
        model.model,
        model.mechanism,
        measured,
        *points,
        f"{100 * model.coverage:.1f} %",
        str(model.report_bytes),
    ]


def _root_mean(errors: _Floats) -> float:
    return math.sqrt(float((errors**2).mean()))
