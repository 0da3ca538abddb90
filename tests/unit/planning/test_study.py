"""Planning a study: designs compared at the same protection, sample sizes that hold in simulation,
invitations."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from deniable import (
    Crosswise,
    DirectEncoding,
    DirectQuestion,
    ExtendedCrosswise,
    regress,
    seeded_source,
)
from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.planning import compare_designs, people_to_invite, regression_sample_size


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_no_design_that_is_compared_loses_more_and_the_cheapest_come_first() -> None:
    for epsilon in (0.5, 1.5, 4.0):
        found = compare_designs(0.1, epsilon)
        protected = [need for need in found.designs if math.isfinite(need.epsilon)]
        assert len(protected) == 7
        assert all(
            0.98 * epsilon - 0.01 < need.epsilon <= epsilon * (1 + 1e-9) for need in protected
        )
        people = [need.people for need in protected]
        assert people == sorted(people)  # type: ignore[type-var]


def test_the_people_needed_give_the_margin_in_simulation() -> None:
    """4,000 surveys: the root mean squared error, with what denial takes away, is the margin over
    1.96, to 4 %."""
    found = compare_designs(0.2, 1.2, margin=0.05, denial=0.05)
    need = found["ExtendedCrosswise"]
    assert need.people is not None
    assert need.bias == pytest.approx(-0.01)
    design = ExtendedCrosswise(need.design.split("'")[1])
    half = need.people // 2
    rng = np.random.default_rng(1)
    same = rng.binomial(half, design.rates(0.19), (4_000, 2))
    values = ((same[:, 0] - same[:, 1]) / half + 2 * float(design.p) - 1) / (
        2 * (2 * float(design.p) - 1)
    )
    error = math.sqrt(float(((values - 0.2) ** 2).mean()))
    assert error == pytest.approx(0.05 / 1.959964, rel=0.04)


def test_denial_makes_a_direct_question_worthless_before_it_makes_a_design_so() -> None:
    found = compare_designs(0.1, 1.5, direct_denial=0.4)
    assert found["DirectQuestion"].people is None
    assert compare_designs(0.1, 1.5, direct_denial=0.05)["DirectQuestion"].people is not None
    assert "never enough" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("design", [DirectQuestion(), Crosswise(1 / 6)])
def test_the_sample_size_of_a_regression_has_the_power_that_was_asked_for(design: Any) -> None:
    """400 surveys: a power of 80 % has a standard error of 2 points; Wald tests of logits lose one
    or two."""
    n = regression_sample_size(design, 1.5, 0.3, power=0.8)
    rng, source, rejected = np.random.default_rng(2), seeded_source(2), 0
    for _ in range(400):
        x = rng.normal(size=n)
        truth = rng.random(n) < 1 / (1 + np.exp(-(math.log(0.3 / 0.7) + math.log(1.5) * x)))
        fit = regress(design, design.privatize(np.where(truth, "yes", "no"), source), x)
        rejected += fit.p_value[0, 1] < 0.05
    assert 0.73 < rejected / 400 < 0.87


def test_the_commands_print_tables_texts_and_invitations(tmp_path: Path) -> None:
    options = [
        "survey",
        "designs",
        "--prevalence",
        "0.1",
        "--epsilon",
        "1.5",
        "--direct-denial",
        "0.4",
    ]
    expected = compare_designs(0.1, 1.5, direct_denial=0.4)
    assert run(*options).output == f"{expected}\n"
    assert (
        json.loads(run(*options, "--json").output)["designs"][0]["people"]
        == expected.designs[0].people
    )
    assert run(*options, "--plot", tmp_path / "a.png").exit_code == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    asked = ["power", "Crosswise:p=1/4", "--value", "0.1", "--response", "0.4"]
    assert run(*asked).output.endswith("Invite 1,525 people.\n")
    text = run(*asked, "--preregistration").output
    for fact in (
        "Crosswise(p='1/4')",
        "pi = 0 ",
        "two-sided",
        "level of 5 %",
        "610 complete answers",
        "80.0 %",
        "1,525 people",
    ):
        assert fact in text
    assert json.loads(run(*asked, "--json").output)["invited"] == 1525


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare_designs(0, 1.0), "prevalence = 0 must lie strictly between 0 and 1"),
        (lambda: compare_designs(0.1, 1.0, margin=2), "margin = 2 must lie"),
        (lambda: compare_designs(0.1, 1.0, denial=1), "denial = 1 must be at least 0 and below 1"),
        (lambda: compare_designs(0.1, 1.0)["Nothing"], "design = 'Nothing' must be one of"),
        (
            lambda: regression_sample_size(Crosswise(1 / 6), 1, 0.3),
            "odds_ratio = 1 must be above 0 and differ from 1",
        ),
        (
            lambda: regression_sample_size(DirectEncoding(3, 1.0), 2, 0.3),
            "must randomize a yes/no question",
        ),
        (lambda: people_to_invite(100, 0), "response = 0 must be above 0"),
        (lambda: people_to_invite(100, 0.5, 1), "attrition = 1 must be at least 0 and below 1"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_rule(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
