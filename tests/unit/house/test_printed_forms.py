"""Everything that prints how far a figure may be off is listed here, with the test that measures it.

Two walks find what there is: over every class of results, and over every file of the source. What
is not listed fails, so that no printed form comes without a measurement or a reason.
"""

from __future__ import annotations

import ast
import itertools
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.graphs.statistic import GraphStatistic
from toolkit.displayed import classes, examples

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "deniable"

INTERVALS = {
    "AgreementTest": """statistical/test_designs.py
        test_agreement_is_rejected_as_often_as_claimed_and_disagreement_as_often_as_planned""",
    "CandidateEstimate": "unit/estimation/test_candidates.py test_intervals_cover_what_they_claim",
    "Comparison": """statistical/test_pooling.py
        test_comparing_equal_groups_rejects_5_percent_of_the_time""",
    "CuratorRelease": """unit/graphs/test_graphs_curator.py
        test_releases_are_off_by_no_more_than_they_say""",
    "DegreeDistribution": """statistical/test_graphs.py
        test_limits_of_the_degree_distribution_hold_it_at_least_as_often_as_they_say""",
    "DesignEstimate": """unit/house/test_printed_intervals.py
        test_a_design_prints_limits_that_cover_as_often_as_it_says""",
    "Estimate": """unit/house/test_printed_intervals.py
        test_an_estimate_prints_limits_that_cover_as_often_as_it_says""",
    "GraphEstimate": """statistical/test_graphs.py
        test_intervals_of_one_round_cover_what_they_claim_and_estimates_are_unbiased""",
    "GraphStatistic": """statistical/test_graphs.py
        test_triangles_and_wedges_have_intervals_where_few_coins_flip""",
    "Grouped": """statistical/test_curator_noise.py
        test_intervals_of_numbers_cover_95_percent""",
    "Histogram": """statistical/test_curator_noise.py
        test_intervals_of_proportions_cover_at_least_95_percent""",
    "ImputedStatistic": """unit/estimation/test_imputation.py
        test_proportions_and_effects_from_imputed_answers_are_unbiased_and_covered""",
    "LinearRegression": """statistical/test_analysis.py
        test_linear_regressions_and_correlations_cover""",
    "PrevalencePosterior": """unit/estimation/surveys/test_prevalence_posterior.py
        test_credible_intervals_hold_the_truth_as_often_as_they_say_over_the_prior""",
    "Regression": """statistical/test_analysis.py
        test_a_randomized_outcome_is_explained_with_intervals_that_cover""",
    "Release": "statistical/test_curator_noise.py test_intervals_of_numbers_cover_95_percent",
    "ReleasedHistogram": """unit/release/test_release_private.py
        test_intervals_of_counts_cover_as_often_as_they_say_for_every_truth""",
    "Statistic": """statistical/test_derived.py
        test_an_entropy_is_covered_near_its_maximum_and_far_from_it""",
    "Survey": """statistical/test_coverage.py
        test_intervals_cover_95_percent_from_100_reports_on""",
    "Table": """statistical/test_questionnaires.py
        test_every_question_is_estimated_without_bias_and_with_intervals_that_cover""",
    "Window": "statistical/test_memoized_life.py test_a_window_over_six_epochs_covers_what_it_says",
}
"""Results with limits of what is not known, and what measures how often they hold it."""
EXPECTED = {
    "DesignComparison": """unit/planning/test_study.py
        test_the_people_needed_give_the_margin_in_simulation""",
    "GraphPlan": """statistical/test_graphs.py
        test_two_rounds_are_ahead_of_one_where_the_plan_says_so_and_behind_where_it_does_not""",
    "Plan": "unit/planning/test_plan.py test_the_promised_error_comes_out_of_a_simulation",
    "Preview": "statistical/test_curator_noise.py test_intervals_of_numbers_cover_95_percent",
    "QuestionnairePlan": """statistical/test_questionnaires.py
        test_every_question_is_estimated_without_bias_and_with_intervals_that_cover""",
}
"""Plans, which print the ± to expect, and what compares it with estimates."""
NO_INTERVALS = {
    "Audit": "a bar from what was shown to what is claimed",
    "ModelComparison": "the spread of simulated errors, beside how often intervals covered",
    "ProtocolComparison": "two standard errors of a simulated mean, and said to be those",
    "Rehearsal": "how far simulation may be off; it counts how often intervals covered",
}
"""Results that draw whiskers or print a ± that are no intervals of what was asked."""

PLANNED = "half of the interval to expect, as the planner computes it"
SPREAD = "the spread of figures of the papers, named beside it"
SERVED = "half of an interval as results have it, or the target"
HALF_WIDTHS = {
    "aggregator/history/period_counts.py": SERVED,
    "aggregator/windows/assembling.py": SERVED,
    "audit/rehearsal/wording.py": "the error of the simulation itself",
    "cli/analyst/poll_trial.py": PLANNED,
    "cli/analyst/query.py": SERVED,
    "cli/demonstration/demo_adaptive.py": SERVED,
    "cli/researcher/plan.py": PLANNED,
    "console/design_plans.py": PLANNED,
    "console/static/js/ask.js": PLANNED,
    "console/static/js/design.js": PLANNED,
    "console/static/js/facts.js": SERVED,
    "console/static/js/preview.js": PLANNED,
    "console/static/js/toy.js": PLANNED,
    "curator/results.py": "the error to expect, by the exact law of the noise",
    "graphs/baselines.py": "the noise of a curator, by its exact law",
    "graphs/plan.py": PLANNED,
    "planning/feedback.py": PLANNED,
    "planning/nearest.py": PLANNED,
    "planning/questionnaire_plan.py": PLANNED,
    "planning/rendering.py": PLANNED,
    "planning/study.py": PLANNED,
    "poll/paper/words.py": PLANNED,
    "poll/static/js/en.js": SERVED,
    "poll/static/lang/ar.js": SERVED,
    "poll/static/lang/de.js": SERVED,
    "reproduce/model_comparison.py": "the error of the simulation itself",
    "reproduce/papers/galanis_histograms.py": SPREAD,
    "reproduce/papers/lavengood_tweets.py": SPREAD,
    "reproduce/papers/quoc.py": SPREAD,
    "reproduce/papers/quoc_history.py": SPREAD,
    "reproduce/papers/quoc_scale.py": SPREAD,
    "reproduce/verdicts.py": SPREAD,
    "sizing/query_planning.py": PLANNED,
    "survey/questions_file.py": PLANNED,
}
"""Files that write a number behind ±, and which."""
LIMITS = "the limits of a result above"
WHISKERS = {
    "audit/findings.py": NO_INTERVALS["Audit"],
    "audit/rehearsal/rehearsal.py": NO_INTERVALS["Rehearsal"],
    "cli/analyst/history_view.py": "intervals as the history serves them",
    "cli/researcher/compare.py": NO_INTERVALS["ProtocolComparison"],
    "curator/results.py": LIMITS,
    "estimation/comparison.py": LIMITS,
    "estimation/estimate_text.py": LIMITS,
    "estimation/regression/imputation.py": LIMITS,
    "estimation/regression/result.py": LIMITS,
    "estimation/surveys/agreement.py": LIMITS,
    "estimation/surveys/design_estimate.py": LIMITS,
    "estimation/surveys/prevalence_posterior.py": LIMITS,
    "estimation/tables/statistic.py": LIMITS,
    "estimation/tables/table_text.py": LIMITS,
    "graphs/baselines.py": LIMITS,
    "graphs/degrees.py": LIMITS,
    "reproduce/protocols.py": NO_INTERVALS["ProtocolComparison"],
}
"""Files that draw limits, in terminals, pages and pictures, and which."""


def shows_limits(example: Any) -> bool:
    """Whether a result prints, draws or tabulates how far a figure may be off."""
    shown = example._display()
    whiskers = any(bar.low is not None for bar in shown.bars)
    return "±" in f"{example}{shown.to_html()}" or whiskers or {"low", "high"} <= set(shown.columns)


@pytest.mark.slow
def test_every_result_that_shows_limits_is_measured_or_says_that_they_are_none() -> None:
    showing = {kind.__name__ for kind in classes() if shows_limits(examples()[kind])}
    assert showing == set(INTERVALS) | set(EXPECTED) | set(NO_INTERVALS)


@pytest.mark.parametrize("name", [*INTERVALS, *EXPECTED])
def test_what_measures_a_printed_form_is_there(name: str) -> None:
    file, function = (INTERVALS | EXPECTED)[name].split()
    assert function in _tests_of(ROOT / "tests" / file)


@cache
def _tests_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def claim(text: str) -> str:
    """What a text claims of its intervals."""
    return (
        "at least"
        if re.search(r"at least 95 %|95 % or more", text)
        else "as stated"
        if "95 %" in text
        else "nothing"
    )


def at_least(example: Any) -> bool | None:
    """What the result's own interval claims, if it has one claim."""
    if not hasattr(example, "covers_more"):
        return None
    said = np.unique(example.covers_more())
    return bool(said[0]) if said.size == 1 else None


@pytest.mark.parametrize("name", INTERVALS)
def test_text_and_page_claim_what_the_interval_does(name: str) -> None:
    (example,) = (examples()[kind] for kind in classes() if kind.__name__ == name)
    limits = example._display()
    if all(bar.low == bar.high for bar in limits.bars):
        return  # a release without noise
    texts = (str(example), limits.to_html())
    more = at_least(example)
    for text in texts:
        assert claim(text) != "nothing"
        assert more is None or claim(text) == ("at least" if more else "as stated")


@pytest.mark.parametrize(
    ("arguments", "coverage"),
    [
        ({}, "as stated"),
        ({"wide": True}, "at least"),
        ({"lost": 0.02}, "at least"),
        ({"exact": (40, 500, 0.9, 0.05, 1)}, "at least"),
        ({"bounds": (0.0, 500.0)}, "all possible"),
    ],
    ids=str,
)
def test_a_figure_of_a_graph_claims_the_same_alone_and_among_others(
    arguments: dict[str, Any], coverage: str
) -> None:
    """Alone it said "95 %" where the estimate that it is part of said "95 % or more"."""
    figure = GraphStatistic("triangles", 120.0, 10.0, n=50, **arguments)
    assert figure.coverage == coverage
    more = coverage != "as stated"
    assert figure.covers_more() == figure.to_dict()["covers_more"] == more
    for text in (str(figure), figure._display().to_html()):
        assert claim(text) == ("at least" if more else "as stated")
    if coverage != "all possible":
        assert ("or more" in figure.with_interval()) == more


# --- what the source writes and draws


def writes_half_widths(content: str) -> bool:
    """Whether a Python module has a text in which a figure follows ±."""
    return any(
        isinstance(text, ast.Constant)
        and re.search(r"± *(at most )?$", str(text.value))
        and isinstance(figure, ast.FormattedValue)
        for node in ast.walk(ast.parse(content))
        if isinstance(node, ast.JoinedStr)
        for text, figure in itertools.pairwise(node.values)
    )


def draws_limits(content: str) -> bool:
    """Whether a Python module makes a bar with ends."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Bar"
        and (
            len(node.args) > 2
            or any(isinstance(argument, ast.Starred) for argument in node.args)
            or {"low", "high"} & {word.arg for word in node.keywords}
        )
        for node in ast.walk(ast.parse(content))
    )


def sources(*kinds: str) -> dict[str, str]:
    return {
        path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8")
        for kind in kinds
        for path in SOURCE.rglob(f"*.{kind}")
    }


def test_every_file_that_writes_a_half_width_or_draws_limits_is_listed() -> None:
    python, pages = sources("py"), sources("js", "html")
    assert len(python) > 500
    assert len(pages) > 30
    writing = {file for file, text in python.items() if "±" in text and writes_half_widths(text)}
    writing |= {file for file, text in pages.items() if re.search(r"(±|\\u00b1) ?\$\{", text)}
    assert writing == set(HALF_WIDTHS)
    assert {f for f, text in python.items() if "Bar(" in text and draws_limits(text)} == set(
        WHISKERS
    )


def test_the_walk_sees_a_form_that_is_new() -> None:
    assert writes_half_widths('print(f"{value} ± {reach:.1f}")')
    assert writes_half_widths('print(f"± at most {reach}")')
    assert not writes_half_widths('print("the ± of a window", f"{value}")')
    assert draws_limits("Bar(name, value, *limits)")
    assert draws_limits("Bar(name, *value_and_limits)")
    assert draws_limits("Bar(name, value, low=1, high=2)")
    assert not draws_limits("Bar(name, value)")
