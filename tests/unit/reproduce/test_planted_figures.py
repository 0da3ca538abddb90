"""A verdict that cannot fail is a defect: wrong figures are planted into each experiment's data,
ours and the paper's, and the verdicts must change.

The figures are those of the kept runs, so that nothing is measured here. Ours are changed column by
column, cell by cell and figure by figure; the paper's one by one. Every finding must have a planted
figure that changes its verdict, and every printed figure must change some finding.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deniable.reproduce.catalogue import EXPERIMENTS
from deniable.reproduce.experiment import Compared, Experiment, Measured
from deniable.reproduce.kept import KeptRun
from deniable.reproduce.verdicts import VERDICTS, Claim, printed_number

KEPT = Path(__file__).parents[3] / "docs" / "reproduction"
FACTORS = (1e-6, 0.01, 0.2, 0.5, 0.9, 1.1, 2.0, 5.0, 100.0, 1e6)


def numeric(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def put(measured: Measured, cells: dict[tuple[int, int], Any]) -> Measured:
    rows = tuple(
        tuple(cells.get((i, j), value) for j, value in enumerate(row))
        for i, row in enumerate(measured.rows)
    )
    return replace(measured, rows=rows)


def column_set(measured: Measured, name: str, values: list[float]) -> Measured:
    place = measured.header.index(name)
    return put(measured, {(i, place): value for i, value in enumerate(values)})


# What would make a claim hold that no single wrong figure can.
COUNTEREXAMPLES: dict[str, Callable[[Measured], Measured]] = {
    "quoc-figure-4b": lambda m: column_set(
        m,
        "both by theory",
        [each + m.figures["response by theory"] for each in m.column("sampling by theory")],
    ),
    "quoc-figure-5b": lambda m: column_set(
        m, "answers/s", [1e9 / each for each in m.column("bytes of a share")]
    ),
    "wang-figure-2": lambda m: column_set(m, "laplace", [300 * x for x in m.column("response")]),
}


def planted(measured: Measured, more: set[float]) -> Iterator[Measured]:
    """The figures with one of them wrong, or one column, or one column of some rows. `more` are the
    factors that would make ours the paper's."""
    factors = (*FACTORS, *more)
    for name, value in measured.figures.items():
        for factor in factors:
            yield replace(measured, figures={**measured.figures, name: value * factor})
    columns = {
        j: [i for i, row in enumerate(measured.rows) if numeric(row[j])]
        for j in range(len(measured.header))
    }
    for (j, places), factor in itertools.product(columns.items(), factors):
        yield put(measured, {(i, j): measured.rows[i][j] * factor for i in places})
    for j, places in columns.items():
        values = [measured.rows[i][j] for i in places]
        level = [sum(values) / len(values)] * len(values) if values else []
        for order in (values[::-1], sorted(values), sorted(values)[::-1], level):
            yield put(measured, {(i, j): v for i, v in zip(places, order, strict=True)})
    # rows of one kind: those that share a label or a parameter
    for j, places in columns.items():
        for key in range(len(measured.header)):
            if key != j:
                for label in {measured.rows[i][key] for i in places}:
                    chosen = [i for i in places if measured.rows[i][key] == label]
                    if len(chosen) < len(places):
                        for factor in (1e-6, 0.01, 100.0, 1e6, *more):
                            yield put(
                                measured, {(i, j): measured.rows[i][j] * factor for i in chosen}
                            )


def verdicts(experiment: Experiment, run: KeptRun, measured: Measured, **more: Any) -> list[str]:
    try:
        findings = experiment.findings(run.settings, measured, **more)
        return [finding.verdict for finding in findings]
    except (ValueError, ZeroDivisionError, KeyError, IndexError, StopIteration, OverflowError):
        return []  # figures so wrong that nothing can be said about them


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_figure_of_ours_changes_every_verdict(name: str) -> None:
    experiment, run = EXPERIMENTS[name], KeptRun.read(KEPT / f"{name}.json")
    findings = experiment.findings(run.settings, run.measured)
    before = [finding.verdict for finding in findings]
    assert before
    assert set(before) <= set(VERDICTS)
    # What was not measured, was fitted, or is about printed figures alone does not depend on ours.
    left = {
        place
        for place, finding in enumerate(findings)
        if finding.verdict not in {"not measured", "fitted"}
        and "rinted" not in (finding.text if isinstance(finding, Claim) else finding.name)
        and "speedup over SplitX" not in finding.row[0]
    }
    compared = (each for each in findings if isinstance(each, Compared))
    more = {printed_number(each.paper)[0] / each.found for each in compared if each.found}
    special = COUNTEREXAMPLES.get(name)
    extra = [] if special is None else [special(run.measured)]
    for wrong in itertools.chain(extra, planted(run.measured, more)):
        if not left:
            break
        after = verdicts(experiment, run, wrong)
        if len(after) == len(before):
            left -= {place for place in left if after[place] != before[place]}
    assert not left, [findings[place].row for place in left]


@pytest.mark.parametrize("name", [name for name, each in EXPERIMENTS.items() if each.printed])
def test_a_wrong_figure_of_the_paper_changes_a_verdict(name: str) -> None:
    experiment, run = EXPERIMENTS[name], KeptRun.read(KEPT / f"{name}.json")
    findings = experiment.findings(run.settings, run.measured)
    before = [finding.verdict for finding in findings]
    silent = {
        finding.paper
        for finding in findings
        if isinstance(finding, Compared) and finding.verdict in {"fitted", "not measured"}
    }
    for figure, text in experiment.printed.items():
        value, _ = printed_number(text)
        found = [
            each.found for each in findings if isinstance(each, Compared) and each.found is not None
        ]
        others = (printed_number(each)[0] for each in experiment.printed.values())
        wrongs = [*(value * factor for factor in FACTORS), *found, *others]
        changed = any(
            verdicts(experiment, run, run.measured, printed={**experiment.printed, figure: wrong})
            != before
            for wrong in (f"{number:.12f}" for number in wrongs if math.isfinite(number))
        )
        assert changed or text in silent, f"{figure} = {text} decides nothing"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_finding_that_does_not_hold_says_why(name: str) -> None:
    run = KeptRun.read(KEPT / f"{name}.json")
    for finding in run.outcome(EXPERIMENTS[name]).findings:
        if isinstance(finding, Claim) and finding.verdict == "does not hold":
            assert finding.note, finding.text
