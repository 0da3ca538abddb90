"""Multiple choice, and questionnaires of which each person answers some questions: exact laws,
losses and estimators."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from deniable import (
    DirectEncoding,
    Mechanism,
    MultipleChoice,
    OptimizedUnary,
    Reports,
    SquareWave,
    every_path,
    seeded_source,
)
from deniable.errors import AnswerError, ParameterError
from deniable.mechanisms.exact import log_ratio
from deniable.mechanisms.protocols.unary import SymmetricUnary, UnaryEncoding
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.mechanisms.registry import from_dict

Law = dict[Any, Fraction]


# --- multiple choice


def answers(k: int, most: int) -> list[list[int]]:
    return [list(chosen) for size in range(most + 1) for chosen in combinations(range(k), size)]


def choice_law(mechanism: MultipleChoice, answer: list[int]) -> Law:
    law: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    for probability, data in every_path(lambda source: mechanism.privatize([answer], source).data):
        law[data.tobytes()] += probability
    return law


@pytest.mark.parametrize(("k", "most"), [(2, 1), (3, 1), (3, 2), (4, 2), (4, 4)])
def test_the_loss_of_multiple_choice_is_that_of_its_worst_pair_of_answers(
    k: int, most: int
) -> None:
    mechanism = MultipleChoice(k, 1.5, most=most)
    laws = [choice_law(mechanism, answer) for answer in answers(k, most)]
    assert all(sum(law.values()) == 1 for law in laws)
    worst = max(
        Fraction(max(law[row] for law in laws), min(law[row] for law in laws)) for row in laws[0]
    )
    assert log_ratio(worst) == pytest.approx(mechanism.epsilon, rel=1e-15)
    assert mechanism.epsilon <= 1.5
    assert mechanism.epsilon == pytest.approx(1.5, rel=1e-15)


@pytest.mark.parametrize(("k", "most"), [(3, 2), (4, 4)])
def test_multiple_choice_is_unbiased_whatever_was_chosen(k: int, most: int) -> None:
    mechanism = MultipleChoice(k, 2.0, most=most)
    for answer in answers(k, most):
        expected = np.zeros(k)
        for row, probability in choice_law(mechanism, answer).items():
            data = np.frombuffer(row, dtype=np.uint8).reshape(1, -1)
            expected += float(probability) * mechanism.solve(mechanism.count(data), 1)[0]
        np.testing.assert_allclose(expected, np.isin(np.arange(k), answer), atol=1e-12)


def test_what_two_labels_share_is_in_the_covariance() -> None:
    mechanism = MultipleChoice(["bread", "butter", "jam"], 12.0)
    # bread and butter always go together
    people = [["bread", "butter"]] * 500 + [[]] * 500 + [["jam"]] * 1000
    estimate = mechanism.estimate(mechanism.privatize(people, seeded_source(1)))
    assert estimate.covariance is not None
    spread = np.sqrt(np.diagonal(estimate.covariance))
    correlation = estimate.covariance / np.outer(spread, spread)
    a, b = mechanism.channel()
    seen = 0.25 * 0.75 / (0.25 * 0.75 + b * (1 - b) / (a - b) ** 2)  # 1, but for the coins
    # The standard error of a correlation r from n people is (1 - r^2)/sqrt(n) at most 1/sqrt(2000):
    # five of them.
    assert correlation[0, 1] == pytest.approx(seen, abs=5 / math.sqrt(2000))
    assert correlation[0, 2] == pytest.approx(
        -0.25 * 0.5 / math.sqrt(0.25 * 0.75 * 0.5 * 0.5) * seen, abs=5 / math.sqrt(2000)
    )


def test_shares_of_multiple_choice_are_not_made_to_sum_to_one() -> None:
    mechanism = MultipleChoice(3, 9.0)
    estimate = mechanism.estimate(mechanism.privatize([[0, 1, 2]] * 200, seeded_source(1)))
    assert not estimate.exclusive
    for use in (estimate.projected, lambda: estimate.consistent("norm")):
        with pytest.raises(ParameterError, match="a person may have several"):
            use()
    from deniable import Table  # noqa: PLC0415

    with pytest.raises(ParameterError, match="no table of them sums to 1"):
        Table.of(estimate)


def test_a_tally_of_multiple_choice_adds_up_and_goes_through_bytes() -> None:
    mechanism = MultipleChoice(["a", "b", "c"], 2.0, most=2)
    reports = mechanism.privatize([["a", "b"], [], "c"] * 50, seeded_source(1))
    parts = mechanism.tally().update(reports[:70]).merge(mechanism.tally().update(reports[70:]))
    assert parts == mechanism.tally().update(reports)
    assert type(parts).from_bytes(parts.to_bytes()) == parts
    assert Reports.from_bytes(reports.to_bytes()) == reports
    assert from_dict(mechanism.to_dict()) == mechanism


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        ([["a", "b", "c"]], "chooses more than 2 labels"),
        ([["a", "secret"]], "is not one of the 3 labels"),
        (["secret"], "neither one of the 3 labels"),
        ([None], "empty list if nothing was chosen"),
        ([[["a"]]], "is not one of the 3 labels"),
    ],
)
def test_an_answer_that_cannot_be_is_refused_without_showing_it(answer: Any, rule: str) -> None:
    mechanism = MultipleChoice(["a", "b", "c"], 2.0, most=2)
    with pytest.raises(AnswerError, match=rule) as refused:
        mechanism.privatize(answer)
    assert "secret" not in str(refused.value)


# --- questionnaires


def row_law(survey: Questionnaire, answer: tuple[int, ...]) -> Law:
    """P(row | answers), by walking every path; an answer that was not asked is None."""

    def experiment(source: Any) -> tuple[bytes | None, ...]:
        drawn = survey.privatize(
            {name: [value] for name, value in zip(survey.names, answer, strict=True)}, source
        )
        return tuple(
            part.reports.data.tobytes() if len(part.reports) else None for part in drawn.values()
        )

    law: defaultdict[Any, Fraction] = defaultdict(Fraction)
    for probability, row in every_path(experiment):
        law[row] += probability
    return dict(law)


@cache
def all_laws(case: str) -> dict[tuple[int, ...], Law]:
    survey = SURVEYS[case]
    sizes = [len(mechanism.labels) for mechanism in survey.mechanisms.values()]
    return {answer: row_law(survey, answer) for answer in product(*map(range, sizes))}


def worst(laws: dict[tuple[int, ...], Law], pairs: Any) -> float:
    ratio = max(laws[one][row] / laws[other][row] for one, other in pairs for row in laws[one])
    return log_ratio(ratio)


SURVEYS = {
    "all": Questionnaire({"a": DirectEncoding(2, 0.5), "b": DirectEncoding(3, 1.0)}),
    "one of two": Questionnaire({"a": DirectEncoding(2, 1.5), "b": DirectEncoding(3, 1.0)}, ask=1),
    "one of two, weighted": Questionnaire(
        {"a": DirectEncoding(2, 1.5), "b": DirectEncoding(3, 1.0)}, ask=1, weights={"a": 3, "b": 1}
    ),
    "two of three": Questionnaire(
        {"a": DirectEncoding(2, 0.5), "b": DirectEncoding(2, 1.0), "c": DirectEncoding(2, 0.75)},
        ask=2,
    ),
    "fakes": Questionnaire({"a": DirectEncoding(2, 1.0), "b": DirectEncoding(3, 1.0)}, fake=True),
    "fakes, weighted": Questionnaire(
        {"a": DirectEncoding(2, 1.0), "b": DirectEncoding(3, 2.0)},
        fake=True,
        weights={"a": 1, "b": 2},
    ),
    "unary fakes": Questionnaire(
        {"a": OptimizedUnary(2, 1.0), "b": SymmetricUnary(2, 1.5)}, fake=True
    ),
    "mixed fakes": Questionnaire(
        {"a": OptimizedUnary(2, 1.0), "b": DirectEncoding(3, 1.0)}, fake=True
    ),
}


@pytest.mark.parametrize("case", SURVEYS)
def test_the_loss_of_a_row_and_of_one_answer_are_exact(case: str) -> None:
    survey = SURVEYS[case]
    laws = all_laws(case)
    assert all(sum(law.values()) == 1 for law in laws.values())
    pairs = list(product(laws, laws))
    # Of sums of losses, each is rounded up to a double on its own.
    assert worst(laws, pairs) == pytest.approx(survey.epsilon, rel=1e-14)
    for place, name in enumerate(survey.names):
        one_apart = [
            (one, other)
            for one, other in pairs
            if all(
                (x == y) == (at != place) for at, (x, y) in enumerate(zip(one, other, strict=True))
            )
        ]
        assert worst(laws, one_apart) == pytest.approx(survey.answer_epsilon(name), rel=1e-14)


@pytest.mark.parametrize("case", SURVEYS)
def test_the_estimate_of_every_question_is_unbiased_whatever_the_answers_are(case: str) -> None:
    survey = SURVEYS[case]
    for answer, law in all_laws(case).items():
        for place, name in enumerate(survey.names):
            mechanism, channel = survey.mechanisms[name], survey.estimator(name)
            given = {row[place]: Fraction(0) for row in law if row[place] is not None}
            for row, probability in law.items():
                if row[place] is not None:
                    given[row[place]] += probability
            assert sum(given.values()) == pytest.approx(
                1 if survey.fake else survey.inclusion(name), rel=1e-15
            )
            expected = np.zeros(len(mechanism.labels))
            dtype, shape = mechanism.layout
            for data, probability in given.items():
                report = np.frombuffer(data, dtype=dtype).reshape(1, *shape)
                share = float(probability / sum(given.values()))
                expected += share * channel.solve(channel.count(report), 1)[0]
            np.testing.assert_allclose(
                expected, np.eye(len(mechanism.labels))[answer[place]], atol=1e-9
            )


def test_the_amplified_epsilon_of_the_paper_is_that_of_one_answer_and_not_of_the_row() -> None:
    for d, epsilon in ((2, 1.0), (5, 1.0), (10, 4.0)):
        for make in (lambda e: DirectEncoding(7, e), lambda e: OptimizedUnary(7, e)):
            survey = Questionnaire({f"q{i}": make(epsilon) for i in range(d)}, fake=True)
            amplified = math.log(
                1 + math.expm1(epsilon) / d
            )  # Arcolezi et al. 2021: epsilon' = ln(d (e^epsilon - 1) + 1), inverted
            assert survey.answer_epsilon("q0") == pytest.approx(amplified, rel=1e-12)
            assert survey.epsilon == pytest.approx(epsilon, rel=1e-12)
            assert survey.epsilon <= epsilon


def test_each_person_answers_as_many_questions_as_are_asked_whatever_the_answers_are() -> None:
    mechanisms: dict[str, Mechanism] = {f"q{i}": DirectEncoding(2, 1.0) for i in range(6)}
    survey = Questionnaire(mechanisms, ask=2)
    asked = survey.choose(30_000, seeded_source(1))
    assert set(asked.sum(axis=1)) == {2}
    # Each of the 15 pairs 2,000 times on average: six standard deviations, of which a false alarm
    # is rarer than 1e-7.
    pairs = np.unique(asked, axis=0, return_counts=True)[1]
    assert len(pairs) == 15
    assert np.abs(pairs - 2000).max() < 6 * math.sqrt(2000)


def test_all_answers_are_checked_those_that_are_not_asked_too() -> None:
    survey = Questionnaire(
        {"a": DirectEncoding(2, 1.0), "b": DirectEncoding(2, 1.0)},
        ask=1,
        weights={"a": 1e9, "b": 1e-9},
    )
    with pytest.raises(AnswerError):
        survey.privatize({"a": [0] * 10, "b": [0] * 9 + [2]}, seeded_source(1))


def test_a_diluted_channel_has_the_form_of_its_mechanism() -> None:
    survey = Questionnaire(
        {"a": DirectEncoding(4, 2.0), "b": OptimizedUnary(3, 1.0)},
        fake=True,
        weights={"a": 1, "b": 3},
    )
    direct = DirectEncoding(4, 2.0).channel()
    np.testing.assert_allclose(survey.estimator("a").channel(), direct / 4 + 3 / 16, rtol=1e-12)
    unary = survey.estimator("b")
    assert isinstance(unary, UnaryEncoding)
    a, b = OptimizedUnary(3, 1.0).channel()
    assert unary.channel() == pytest.approx((0.75 * a + 0.25 * b, b))


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"mechanisms": {}}, "at least one question"),
        ({"ask": 3}, "ask = 3 must be a whole number from 1 to 2"),
        ({"ask": 2, "weights": {"a": 1, "b": 1}}, "need ask = 1"),
        ({"ask": 1, "weights": {"a": 1}}, "must be given for a, b"),
        ({"ask": 1, "weights": {"a": 1, "b": 0}}, "must be finite and above 0"),
        ({"fake": True, "ask": 2}, "must be 1 with fake data"),
        ({"fake": True, "mechanisms": {"a": DirectEncoding(2, 1.0)}}, "at least two questions"),
        (
            {"fake": True, "mechanisms": {"a": DirectEncoding(2, 1.0), "b": SquareWave(1.0, 4)}},
            "has no fake answers",
        ),
        (
            {
                "fake": True,
                "mechanisms": {"a": DirectEncoding(2, 1.0), "b": MultipleChoice(3, 1.0)},
            },
            "has no fake answers",
        ),
    ],
)
def test_a_questionnaire_that_cannot_be_is_refused(arguments: dict[str, Any], rule: str) -> None:
    mechanisms = {"a": DirectEncoding(2, 1.0), "b": DirectEncoding(3, 1.0)}
    with pytest.raises(ParameterError, match=rule):
        Questionnaire(**({"mechanisms": mechanisms} | arguments))
