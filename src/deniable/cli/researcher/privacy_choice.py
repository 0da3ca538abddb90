"""`deniable privacy --choose`: an epsilon from a belief, or from a harm and a payment."""

from __future__ import annotations

from typing import Any

import click

from deniable import privacy as losses
from deniable.checks import check_count
from deniable.cli.output import emit, flat_rows, loss_text
from deniable.cli.tables import TextTable

__all__ = ["choice_options", "choose"]

_OPTIONS = (
    ("--prior", "With --choose: what an attacker believes of a secret beforehand."),
    ("--belief", "With --choose: what the attacker may come to believe at most."),
    ("--harm", "With --choose: what a person loses if the harm happens."),
    ("--harm-probability", "With --choose: how probable the harm is for people not asked."),
    ("--payment", "With --choose: what a person is paid for taking part."),
)
_ASSUMPTIONS = (
    "Both are worst cases: an attacker who knows all else, and a report that says as much as it"
    " can.",
    "They bound all answers of a person together; other questions cost as much again.",
)


def choice_options(command: Any) -> Any:
    """The options of a choice."""
    for name, text in reversed(_OPTIONS):
        command = click.option(name, type=float, help=text)(command)
    flag = click.option(
        "--choose", is_flag=True, help="Choose an epsilon, from a belief or from a payment."
    )
    return flag(command)


def choose(given: dict[str, Any]) -> None:
    """Print the epsilons that the stated belief and payment allow, and the smaller one."""
    belief = given["prior"], given["belief"]
    cost = given["harm"], given["harm_probability"], given["payment"]
    for group, names in (
        (belief, "--prior and --belief"),
        (cost, "--harm, --harm-probability and --payment"),
    ):
        if None in group and any(each is not None for each in group):
            raise click.UsageError(f"{names} must be given together")
    if None in belief and None in cost:
        raise click.UsageError("--choose needs --prior and --belief, or --harm and --payment")
    found: list[tuple[str, float, str]] = []
    if None not in belief:
        meaning = f"nobody's belief of {belief[0]:g} grows beyond {belief[1]:g} (Lee and Clifton)"
        found.append(("belief", losses.belief_epsilon(*belief), meaning))
    if None not in cost:
        harm, chance, payment = cost
        meaning = (
            f"{payment:g} makes good for the risk of {harm:g} with probability {chance:g} (Hsu et"
            " al.)"
        )
        found.append(("payment", losses.payment_epsilon(harm, chance, payment), meaning))
    answers = check_count("answers", given["answers"])
    smallest = min(epsilon for _, epsilon, _ in found)
    part = losses.budget_per_answer(smallest, answers)
    meaning = "the smaller one" if answers == 1 else f"the smaller one, for each of {answers}"
    found.append(("choose", part, meaning))
    documents = [
        {"name": name, "epsilon": epsilon, "meaning": text} for name, epsilon, text in found
    ]
    rows = [(name, loss_text(epsilon), text) for name, epsilon, text in found]
    emit(
        {"figures": documents, "assumptions": list(_ASSUMPTIONS)},
        [TextTable(("", "epsilon", "what it means"), rows), *_ASSUMPTIONS],
        flat_rows(documents),
    )
