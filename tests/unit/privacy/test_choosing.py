"""The epsilon that is chosen, beside what Bayes and expected costs give for a real channel."""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner

from deniable import DirectEncoding
from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.privacy import belief_epsilon, payment_epsilon


def posterior(prior: float, epsilon: float) -> float:
    """The largest belief after a report of a randomized yes or no, by Bayes."""
    channel = DirectEncoding(2, epsilon).channel()
    return max(float(row[1] * prior / (row[1] * prior + row[0] * (1 - prior))) for row in channel)


@pytest.mark.parametrize(("prior", "belief"), [(0.01, 0.02), (0.1, 0.25), (0.5, 0.9), (0.3, 0.31)])
def test_the_belief_after_a_report_is_the_stated_one_and_never_above(
    prior: float, belief: float
) -> None:
    epsilon = belief_epsilon(prior, belief)
    assert posterior(prior, epsilon) <= belief + 1e-12
    assert posterior(prior, epsilon) == pytest.approx(belief, rel=1e-9)
    assert posterior(prior, 1.01 * epsilon) > belief


@pytest.mark.parametrize(
    ("harm", "chance", "payment"), [(1000, 0.001, 1.0), (50, 0.2, 3.0), (1e6, 1e-5, 0.1)]
)
def test_a_payment_is_what_the_risk_costs_in_the_worst_case(
    harm: float, chance: float, payment: float
) -> None:
    epsilon = payment_epsilon(harm, chance, payment)
    extra = math.exp(epsilon) * chance * harm - chance * harm
    assert extra == pytest.approx(payment, rel=1e-9)
    assert extra <= payment * (1 + 1e-12)


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: belief_epsilon(0.5, 0.4), "must be above prior"),
        (lambda: belief_epsilon(0.0, 0.4), "strictly between 0 and 1"),
        (lambda: belief_epsilon(0.1, 1.0), "strictly between 0 and 1"),
        (lambda: payment_epsilon(0.0, 0.1, 1.0), "harm"),
        (lambda: payment_epsilon(10.0, 0.0, 1.0), "probability"),
        (lambda: payment_epsilon(10.0, 0.1, -1.0), "payment"),
    ],
)
def test_what_cannot_be_chosen_is_refused(call: object, rule: str) -> None:
    with pytest.raises(ParameterError, match=rule):
        call()  # type: ignore[operator]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["privacy", "--choose", *arguments])
    return result.exit_code, result.output


def test_the_command_takes_the_smaller_one_and_splits_it_among_the_answers() -> None:
    belief = ("--prior", "0.1", "--belief", "0.25")
    cost = ("--harm", "1000", "--harm-probability", "0.001", "--payment", "1")
    code, output = run(*belief, *cost, "--answers", "4", "--json")
    assert code == 0, output
    found = {each["name"]: each["epsilon"] for each in json.loads(output)["figures"]}
    assert found["belief"] == belief_epsilon(0.1, 0.25)
    assert found["payment"] == payment_epsilon(1000, 0.001, 1)
    assert found["choose"] == pytest.approx(math.log(2) / 4, rel=1e-9)
    assert 4 * found["choose"] <= found["payment"]
    assert "worst cases" in run(*belief)[1]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((), "--choose needs --prior and --belief"),
        (("--prior", "0.1"), "--prior and --belief must be given together"),
        (("--harm", "1"), "--harm, --harm-probability and --payment must be given together"),
    ],
)
def test_half_a_rule_is_refused(arguments: tuple[str, ...], rule: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert rule in output
