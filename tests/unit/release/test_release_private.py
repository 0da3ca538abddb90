"""Private releases: the search is paid for exactly, what is released is true and thresholded,
histograms cover."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable.errors import ParameterError, ReleaseError
from deniable.mechanisms import exact
from deniable.randomness import ONE, Source, seeded_source
from deniable.release import (
    Categories,
    CodedTable,
    DistinctDiversity,
    Guarantee,
    Hierarchy,
    Numbers,
    Released,
    TCloseness,
    histogram,
    release,
)
from deniable.release.classes import Cube
from deniable.release.histogram import count_limits
from deniable.release.lattice import allowed_levels, lattice
from deniable.release.private_search import STEPS, Scores, permute_and_flip, public_choice
from deniable.release.table import coded_attributes
from deniable.scripted_randomness import every_path
from toolkit.adults import HIERARCHIES, adults

F = Fraction
NAMES = list(HIERARCHIES)


def chosen_law(scores: list[int], numerator: int, bounds: list[int] | None = None) -> dict[int, F]:
    law: dict[int, F] = defaultdict(F)
    for probability, index in every_path(
        lambda source: permute_and_flip(bounds or scores, scores.__getitem__, numerator, source)
    ):
        law[index] += probability
    return law


def expected_law(scores: list[int], r: F) -> dict[int, F]:
    """For each order of the candidates: those before fail, and it does not."""
    chance = [r ** (max(scores) - score) for score in scores]
    law: dict[int, F] = defaultdict(F)
    for order in itertools.permutations(range(len(scores))):
        left = F(1, math.factorial(len(scores)))
        for index in order:
            law[index] += left * chance[index]
            left *= 1 - chance[index]
    return law


@pytest.mark.parametrize("scores", [[0, 0], [3, 1], [2, 0, 1], [1, 1, 0]])
def test_a_choice_follows_permute_and_flip_on_every_path(scores: list[int]) -> None:
    numerator = ONE // 3
    law = chosen_law(scores, numerator)
    assert law == expected_law(scores, F(numerator, ONE))
    assert sum(law.values()) == 1


def test_bounds_instead_of_scores_change_nothing_of_the_law() -> None:
    scores, numerator = [2, 0, 1], ONE // 5 * 2
    assert chosen_law(scores, numerator, bounds=[2, 1, 2]) == expected_law(
        scores, F(numerator, ONE)
    )


def test_a_row_more_changes_no_choice_by_more_than_the_loss_stated() -> None:
    """All scores of three candidates up to 3, and all ways in which a row more can raise them by up
    to 2."""
    numerator = exact.up(1 / exact.exp(F(1, 2)))
    r = F(numerator, ONE)
    worst = F(1)
    for scores in itertools.product(range(3), repeat=3):
        before = expected_law(list(scores), r)
        for raised in itertools.product(range(3), repeat=3):
            after = expected_law(
                [score + more for score, more in zip(scores, raised, strict=True)], r
            )
            worst = max(worst, *(max(after[i] / before[i], before[i] / after[i]) for i in range(3)))
    # Two steps: the bound is r^-2, it is attained up to a little, and no factor 2 in the exponent
    # is missing.
    assert r**-1 < worst <= r**-2


SMALL: dict[str, Hierarchy] = {"age": Numbers(0, 80, 10), "sex": Categories()}


def all_scores(
    table: dict[str, list[Any]], guarantee: Guarantee
) -> tuple[dict[tuple[int, ...], int], int, Scores]:
    coded = CodedTable.of(table, list(SMALL))
    attributes = coded_attributes(coded, SMALL)
    scores = Scores(Cube(coded, attributes), guarantee)
    nodes = [tuple(node) for node in lattice(allowed_levels(attributes, None)).tolist()]
    return {node: scores.look(node)[0] for node in nodes}, scores.sensitivity, scores


@pytest.mark.parametrize("seed", range(6))
def test_a_row_more_raises_every_score_by_no_more_than_the_sensitivity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    guarantee = Guarantee.of(2.0, 0.01)
    n = int(rng.integers(20, 120))
    table = {
        "age": rng.choice([12, 15, 33, 71], n).tolist(),
        "sex": rng.choice(["f", "m"], n).tolist(),
    }
    before, sensitivity, scores = all_scores(table, guarantee)
    largest = 0
    for age, sex in itertools.product([12, 33, 45], ["f", "m", "x"]):
        after, same, _ = all_scores(
            {"age": [*table["age"], age], "sex": [*table["sex"], sex]}, guarantee
        )
        assert same == sensitivity
        for node, score in before.items():
            assert 0 <= after[node] - score <= sensitivity
            assert 0 <= scores.steps(after[node]) - scores.steps(score) <= STEPS
            largest = max(largest, after[node] - score)
    assert largest > sensitivity / 20


def test_the_score_is_the_information_expected_to_be_released_by_the_definition() -> None:
    guarantee = Guarantee.of(1.0, 1e-4)
    table = adults(3000, 2)
    coded = CodedTable.of(table, NAMES)
    attributes = coded_attributes(coded, HIERARCHIES)
    scores = Scores(Cube(coded, attributes), guarantee)
    beta = float(guarantee.sampling)
    for levels in [(1, 0, 1, 1), (3, 0, 2, 0), (4, 1, 3, 2)]:
        groups = Counter(
            tuple(
                HIERARCHIES[name].label(table[name][i], level)
                for name, level in zip(NAMES, levels, strict=True)
            )
            for i in range(3000)
        )
        gain = {
            key: sum(
                1 - HIERARCHIES[name].loss(table[name][i], level)
                for name, level in zip(NAMES, levels, strict=True)
            )
            for i in range(3000)
            for key in [
                tuple(
                    HIERARCHIES[name].label(table[name][i], level)
                    for name, level in zip(NAMES, levels, strict=True)
                )
            ]
        }
        expected = sum(
            c * stats.binom.sf(guarantee.k - 1, c, beta) * gain[key] for key, c in groups.items()
        )
        # Probabilities are rounded down to 1/2**14, what labels keep to the nearest 1/2**16.
        short = expected - scores.look(levels)[0] / (1 << 30)
        assert -3000 * 4 / (1 << 17) <= short <= 3000 * 4 * (1 / (1 << 14) + 1 / (1 << 17))


@pytest.mark.parametrize("scale", [1.0, 0.3, 7.0])
def test_the_search_finds_the_highest_score_without_looking_everywhere(scale: float) -> None:
    guarantee = Guarantee.of(1.0, 1e-4)
    coded = CodedTable.of(adults(5000, 5), NAMES)
    attributes = coded_attributes(coded, HIERARCHIES)
    allowed = allowed_levels(attributes, None)
    nodes = lattice(allowed)
    scores = Scores(Cube(coded, attributes), guarantee, scale)
    found = scores.search(nodes)
    every = [scores.look(tuple(node))[0] for node in nodes.tolist()]
    assert found.best is not None
    assert found.best[0] == max(every)
    assert all(score <= bound for score, bound in zip(every, found.upper.tolist(), strict=True))
    assert len(found.looked_at) < len(nodes) / 2
    assert public_choice(Cube(coded, attributes), allowed, guarantee, scale) == tuple(
        nodes[int(np.argmax(every))].tolist()
    )


def test_a_search_takes_its_cost_from_epsilon_and_never_spends_more() -> None:
    made = release(
        adults(4000, 1), HIERARCHIES, 1.0, 1e-4, search_epsilon=0.1, source=seeded_source(3)
    )
    assert made.guarantee is not None
    assert made.guarantee.epsilon <= 0.9
    assert 0.0999 < made.search_epsilon <= 0.1
    assert made.epsilon <= 1.0
    assert Fraction(made.guarantee.epsilon) + Fraction(0.1) <= 1


def test_a_larger_budget_for_the_search_finds_better_levels() -> None:
    table = adults(6000, 8)

    def score(budget: float, seed: int) -> int:
        made = release(
            table,
            HIERARCHIES,
            1.0 + budget,
            1e-4,
            search_epsilon=budget,
            source=seeded_source(seed),
        )
        return scores.look(tuple(made.levels.values()))[0]

    coded = CodedTable.of(table, NAMES)
    scores = Scores(Cube(coded, coded_attributes(coded, HIERARCHIES)), Guarantee.of(1.0, 1e-4))
    little, much = ([score(budget, seed) for seed in range(12)] for budget in (1e-6, 1.0))
    # Seeds 0 to 11. A budget of nearly nothing chooses at random; one of 1 is within some steps of
    # the best.
    assert min(much) > 0.95 * max(much)
    assert np.mean(little) < 0.7 * np.mean(much)


def test_the_candidates_of_a_large_lattice_are_drawn_by_lot_and_not_by_the_data() -> None:
    options: dict[str, Any] = {"search_epsilon": 0.5, "candidates": 1}
    for seed in range(5):
        one, other = (
            release(
                adults(500, of), HIERARCHIES, 1.0, 1e-3, source=seeded_source(seed), **options
            ).levels
            for of in (1, 2)
        )
        assert one == other


def test_public_data_choose_the_levels_and_the_table_does_not() -> None:
    public = adults(4000, 1)
    chosen = [
        release(
            adults(4000, seed), HIERARCHIES, 1.0, 1e-4, public=public, source=seeded_source(seed)
        ).levels
        for seed in (2, 3)
    ]
    assert chosen[0] == chosen[1]
    fewer = release(
        adults(4000, 2),
        HIERARCHIES,
        1.0,
        1e-4,
        public=public,
        public_scale=0.02,
        source=seeded_source(2),
    ).levels
    assert sum(fewer.values()) > sum(chosen[0].values())


LEVELS = {"age": 3, "sex": 0, "education": 1, "marital": 1}


def test_what_is_released_are_true_generalised_rows_of_common_combinations() -> None:
    table = adults(5000, 6)
    made = release(table, HIERARCHIES, 1.0, 1e-4, levels=LEVELS, source=seeded_source(1))
    assert made.guarantee is not None
    original = Counter(
        zip(
            *(
                [HIERARCHIES[name].label(value, LEVELS[name]) for value in table[name]]
                for name in NAMES
            ),
            strict=True,
        )
    )
    released = Counter(zip(*made.rows().values(), strict=True))
    assert min(released.values()) >= made.guarantee.k
    assert all(count <= original[key] for key, count in released.items())
    assert 0 < made.n < 5000
    # Journalists look the classes up among everybody; prosecutors have the released rows alone.
    assert made.risk_after.prosecutor == 1 / min(released.values())
    assert made.risk_after.journalist == 1 / min(original[key] for key in released)
    assert made.risk_after.marketer == pytest.approx(
        sum(count / original[key] for key, count in released.items()) / made.n
    )
    assert made.loss.rows == pytest.approx(1 - made.n / 5000)
    rows = list(zip(*made.rows().values(), strict=True))
    assert rows == sorted(rows, key=lambda row: [str(label) for label in row])


def test_constraints_hold_for_what_is_released() -> None:
    constraints = [DistinctDiversity("marital", 2), TCloseness("marital", 0.35)]
    free = release(adults(5000, 6), HIERARCHIES, 1.0, 1e-4, levels=LEVELS, source=seeded_source(1))
    made = release(
        adults(5000, 6),
        HIERARCHIES,
        1.0,
        1e-4,
        levels=LEVELS,
        constraints=constraints,
        source=seeded_source(1),
    )
    assert 0 < made.n < free.n
    frame = made.to_frame()
    whole = frame["marital"].value_counts(normalize=True)
    for _, rows in frame.groupby(["age", "sex", "education"]):
        here = rows["marital"].value_counts(normalize=True)
        assert len(here) >= 2
        assert (here.reindex(whole.index, fill_value=0) - whole).abs().sum() / 2 <= 0.35 + 1e-12
    assert made.achieved[constraints[0]] >= 2
    assert made.achieved[constraints[1]] <= 0.35


def test_the_description_for_everybody_holds_nothing_that_was_not_paid_for() -> None:
    made = release(adults(3000, 6), HIERARCHIES, 1.0, 1e-4, levels=LEVELS, source=seeded_source(1))
    assert set(made.description()) == {
        "rows", "epsilon", "epsilon_search", "delta", "neighbours", "sampling", "threshold", "constraints", "levels"
    }  # fmt: skip
    assert made.description()["rows"] == made.n
    assert set(made.summary()) - set(made.description()) == {"achieved", "holder_only"}


def anything(**changes: Any) -> Released:
    arguments: dict[str, Any] = {
        "frame": adults(60, 1),
        "hierarchies": HIERARCHIES,
        "epsilon": 1.0,
        "delta": 1e-3,
    }
    return release(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "the level of age, sex, education, marital is open"),
        (
            {"levels": LEVELS, "search_epsilon": 0.1},
            "search_epsilon = 0.1 buys nothing if all levels are fixed",
        ),
        ({"search_epsilon": 1.0}, "search_epsilon = 1.0 must lie between 0 and epsilon = 1"),
        (
            {"search_epsilon": 0.1, "public": adults(9, 1)},
            "give public data or an epsilon for the search, not both",
        ),
        ({"search_epsilon": 0.1, "candidates": 0}, "candidates = 0 must be a whole number"),
        (
            {"public": adults(9, 1), "public_scale": 0},
            "public_scale = 0 must be finite and above 0",
        ),
        ({"levels": LEVELS, "epsilon": -1}, "epsilon = -1 must be finite and above 0"),
        ({"levels": LEVELS, "delta": 2}, "delta = 2 must lie strictly between 0 and 1"),
        (
            {"levels": LEVELS, "constraints": [DistinctDiversity("hours", 2)]},
            "column 'hours', which is not released",
        ),
        (
            {"levels": LEVELS, "person": "salary"},
            "column 'salary': a second row of the same person",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(changes: dict[str, Any], text: str) -> None:
    with pytest.raises((ReleaseError, ParameterError)) as error:
        anything(**changes)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_one_row_each_is_let_pass_and_the_column_that_says_so_is_left_out() -> None:
    table = {**adults(300, 1), "id": list(range(300))}
    made = release(
        table, HIERARCHIES, 1.0, 1e-3, levels=dict.fromkeys(NAMES, 2) | {"sex": 1}, person="id"
    )
    assert set(made.rows()) == set(NAMES)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_intervals_of_counts_cover_as_often_as_they_say_for_every_truth(confidence: float) -> None:
    """Exactly, from the law of the kept rows: dropped labels and those near the threshold
    included."""
    guarantee = Guarantee.of(1.0, 1e-5)
    beta, k = float(guarantee.sampling), guarantee.k
    most = 2000
    shown = np.array([0 if kept < k else kept for kept in range(most + 1)])
    limits = count_limits(shown, guarantee, confidence)
    coverage = []
    for truth in range(0, most, 3):
        law = stats.binom.pmf(np.arange(truth + 1), truth, beta)
        covered = (limits[: truth + 1, 0] <= truth) & (truth <= limits[: truth + 1, 1])
        coverage.append(law[covered].sum())
    assert min(coverage) >= confidence
    # Not by being too wide: where counts are large, they cover hardly more often than they say.
    assert np.mean(coverage[-100:]) < confidence + (1 - confidence) / 4 + 0.005


def test_a_histogram_is_unbiased_says_what_was_dropped_and_covers() -> None:
    table = CodedTable.of(
        {"city": ["Oslo"] * 3000 + ["Rome"] * 1900 + ["Bern"] * 95 + ["Lund"] * 5}, ["city"]
    )
    labels = ["Oslo", "Rome", "Bern", "Lund", "Ulm"]
    truth = np.array([3000, 1900, 95, 5, 0]) / 5000
    made = [
        histogram(table, "city", 1.0, 1e-5, labels=labels, source=seeded_source(seed))
        for seed in range(300)
    ]
    shares = np.array([one.proportions for one in made])
    errors = made[0].stderr[:2]
    # Seeds 0 to 299, five standard errors of a mean of 300: a false alarm once in a million.
    assert (np.abs(shares[:, :2].mean(axis=0) - truth[:2]) < 5 * errors / math.sqrt(300)).all()
    assert np.std(shares[:, 0]) == pytest.approx(errors[0], rel=0.2)
    inside = np.array(
        [
            (low <= truth[i]) & (truth[i] <= high)
            for one in made
            for i, (low, high) in enumerate(one.interval())
        ]
    )
    # 1,500 intervals that cover at least 95 %: below 93 % would be four standard errors away.
    assert inside.mean() > 0.93
    together = np.mean([
        all(low <= truth[i] <= high for i, (low, high) in enumerate(one.interval(simultaneous=True))) for one in made
    ])  # fmt: skip
    assert together > 0.91
    for one in made[:20]:
        assert set(one.dropped) >= {"Lund", "Ulm"}
        assert "Lund, Ulm" in str(one)
        low, high = one.interval()[3]
        assert (low, one.proportions[3]) == (0, 0)
        assert high > 32 / 5000
        assert (one.plus_minus() >= np.abs(one.interval().T - one.proportions) - 1e-15).all()
    assert made[0].to_dict()["dropped"] == list(made[0].dropped)
    assert made[0].to_dict()["threshold"] == 32


def test_a_histogram_names_only_what_it_may() -> None:
    table = {"city": ["Oslo"] * 3000 + ["hidden place"] * 3}
    made = histogram(table, "city", 1.0, 1e-5, source=seeded_source(1))
    assert made.labels == ("Oslo",)
    assert "hidden" not in str(made)
    assert "are not named" in str(made)
    with pytest.raises(ReleaseError) as error:
        histogram({"city": ["x"] * 9}, "city", 1.0, 1e-5)
    assert "no label of column 'city' has 32 kept rows" in str(error.value)
    with pytest.raises(ParameterError, match="population"):
        histogram(table, "city", 1.0, 1e-5, population=10)
    with pytest.raises(ParameterError, match="must be 'exact'"):
        made.interval(method="score")


def test_a_histogram_of_intervals_shows_all_of_its_level() -> None:
    ages = {"age": [15] * 500 + [75] * 500}
    made = histogram(
        ages, "age", 1.0, 1e-5, hierarchy=Numbers(0, 80, 20), level=1, source=seeded_source(2)
    )
    assert made.labels == ("<0", "[0, 20)", "[20, 40)", "[40, 60)", "[60, 80)", "≥80")
    assert made.dropped == ("<0", "[20, 40)", "[40, 60)", "≥80")


def test_the_source_decides_and_nothing_else() -> None:
    def run(source: Source) -> dict[str, list[Any]]:
        return release(
            adults(2000, 1), HIERARCHIES, 1.0, 1e-3, search_epsilon=0.2, source=source
        ).rows()

    assert run(seeded_source(1)) == run(seeded_source(1))
    assert run(seeded_source(1)) != run(seeded_source(2))
