"""The coverage laboratory: exact where two counts are all there is, and able to see a wrong
interval."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from deniable import (
    DirectEncoding,
    DirectQuestion,
    LocalHashing,
    Mechanism,
    OptimizedUnary,
    SubsetSelection,
    Warner,
)
from deniable.audit.rehearsal.coverage import coverage_of
from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.mechanisms.registry import mechanism_by_name

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import held_out_coverage as held_out  # type: ignore[import-not-found]


def test_two_counts_are_enumerated_by_their_exact_law() -> None:
    design, n, pi = Warner(0.7), 120, 0.1
    found = coverage_of(design, n, pi)
    rate, covered = design.rates(pi)[1], 0.0
    for yes in range(n + 1):
        low, high = design.estimate_counts([n - yes, yes]).interval()[0]
        covered += stats.binom.pmf(yes, n, rate) * (low <= pi <= high)
    assert found.exact
    assert found.plain == pytest.approx(covered, abs=1e-9)
    assert found.plain_part == pytest.approx(1)


def test_surveys_that_are_drawn_agree_with_those_that_are_enumerated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4,000 surveys: four standard errors of 95 % are 1.4 points (false alarm 6e-5)."""
    exact = coverage_of(DirectEncoding(2, 1.5), 150, 0.2)
    monkeypatch.setattr("deniable.audit.rehearsal.coverage._MOST_ENUMERATED", 1)
    drawn = coverage_of(DirectEncoding(2, 1.5), 150, 0.2, trials=4_000)
    assert (exact.exact, drawn.exact) == (True, False)
    assert exact.plain is not None
    assert drawn.plain == pytest.approx(exact.plain, abs=0.014)


def test_an_interval_that_covers_too_little_is_seen() -> None:
    """Wald's of a direct question of 1 %, n = 500: 87.1 % by the exact law of another program."""

    class WaldQuestion(DirectQuestion):
        def estimate_counts(self, *counts: Any, **options: Any) -> Any:
            found = super().estimate_counts(*counts, **options)
            return _Wald(found.values[0], found.stderr[0])

    class _Wald:
        def __init__(self, value: float, stderr: float) -> None:
            self.limits = np.array([[value - 1.96 * stderr, value + 1.96 * stderr]])

        def interval(self, confidence: float) -> np.ndarray:
            return self.limits

        def covers_more(self, confidence: float) -> np.ndarray:
            return np.array([False])

    found = coverage_of(WaldQuestion(), 500, 0.01)
    assert found.plain == pytest.approx(0.871, abs=0.005)
    assert not held_out.is_right(found)
    assert held_out.is_right(replace(found, plain=0.95))


def test_a_sample_of_the_held_out_settings_covers_as_said() -> None:
    """20 of the 500 that `.ci/long coverage` runs; four drawn ones, each a false alarm in 5e-4."""
    found = list(held_out.held_out(20, seed=2026))
    assert all(map(held_out.is_right, found)), [
        each for each in found if not held_out.is_right(each)
    ]
    assert sum(each.exact for each in found) == 16


@pytest.mark.parametrize(
    "setting",
    [each for each in held_out.LISTED if each[1] <= 200 and not isinstance(each[0], LocalHashing)],
    ids=str,
)
def test_settings_in_which_intervals_once_covered_too_little_are_inside_their_claim(
    setting: Any,
) -> None:
    """The larger and slower ones run in `.ci/long coverage`. Drawn: false alarm 5e-4 each."""
    subject, n_reports, proportion = setting
    assert held_out.is_right(coverage_of(subject, n_reports, proportion, trials=1_000))


@pytest.mark.parametrize("mechanism", [SubsetSelection(4, 1.5), OptimizedUnary(4, 1.5)], ids=repr)
def test_reports_of_several_bits_are_drawn_by_the_mechanism(mechanism: Mechanism) -> None:
    """1,000 surveys: 3.5 standard errors of 95 % are 2.4 points (false alarm 5e-4)."""
    found = coverage_of(mechanism, 300, 0.2, trials=1_000)
    assert not found.exact
    assert found.plain is not None
    assert 0.935 - 0.024 < found.plain < 0.97 + 0.024


def test_what_has_no_labels_is_refused() -> None:
    with pytest.raises(ParameterError, match="must have at least two labels"):
        coverage_of(mechanism_by_name("Rappor", 1.0, 8), 100, 0.2)


def test_the_command_prints_a_table_and_draws_a_heat_map(tmp_path: Path) -> None:
    picture = tmp_path / "coverage.png"
    options = ["--n-reports", "60", "--proportion", "0.1", "--proportion", "0.5", "--plot", picture]
    ran = CliRunner().invoke(cli, ["coverage", "Warner:p=0.7", *map(str, options)])
    assert ran.exit_code == 0, ran.output
    assert ran.output.count("exact") == 2
    assert picture.read_bytes().startswith(b"\x89PNG")
