"""A run whose figures are kept in a file, so that its page can be made again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable.errors import SurveyError
from deniable.reproduce.experiment import Experiment, ExperimentOutcome, Measured

__all__ = ["KeptRun"]

_BUSY = 0.75
"""Processes that wanted to run, by core, above which a machine is called busy."""


@dataclass(frozen=True)
class KeptRun:
    """The settings and figures of a run, and the machine it ran on."""

    settings: Mapping[str, Any]
    measured: Measured
    seed: int
    cores: int
    load: float
    """Processes that wanted to run when it began, a minute's mean."""

    @classmethod
    def of(cls, outcome: ExperimentOutcome, seed: int, load: float) -> KeptRun:
        """The run with this outcome."""
        cores = len(os.sched_getaffinity(0))
        return cls(outcome.settings, outcome.measured, seed, cores, round(load, 1))

    @classmethod
    def read(cls, path: Path) -> KeptRun:
        """What :meth:`write` wrote."""
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            measured = Measured(
                tuple(kept["header"]), tuple(tuple(row) for row in kept["rows"]), kept["figures"]
            )
            settings = {name: _frozen(value) for name, value in kept["settings"].items()}
            return cls(settings, measured, kept["seed"], kept["cores"], kept["load"])
        except OSError as error:
            raise SurveyError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise SurveyError(f"{path} is not a kept run") from None

    def write(self, path: Path) -> None:
        """Keep the run in this file."""
        rows = ",\n  ".join(json.dumps(row) for row in self.measured.rows)
        head = {
            "seed": self.seed,
            "cores": self.cores,
            "load": self.load,
            "settings": self.settings,
            "figures": self.measured.figures,
            "header": self.measured.header,
        }
        body = json.dumps(head, indent=1)[:-2]
        path.write_text(f'{body},\n "rows": [\n  {rows}\n ]\n}}\n', encoding="utf-8")

    def outcome(self, experiment: Experiment) -> ExperimentOutcome:
        """What the run found, judged as the experiment judges now."""
        return ExperimentOutcome(experiment, self.settings, self.measured)

    def machine(self) -> str:
        """The machine, in a sentence for the page."""
        busy = "a busy machine" if self.load > _BUSY * self.cores else "an idle machine"
        return (
            f"Timed on {busy} with {self.cores} cores: {self.load:g} processes wanted to run when"
            " it began."
        )


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
