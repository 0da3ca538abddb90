"""`deniable privacy`: what one answer, several, sampled or shuffled answers give away."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import click

from deniable import privacy as losses
from deniable.checks import check_count
from deniable.cli.helping import command
from deniable.cli.output import emit, flat_rows, loss_text, output_options
from deniable.cli.researcher.plan import number
from deniable.cli.researcher.privacy_choice import choice_options, choose
from deniable.cli.tables import TextTable
from deniable.errors import ParameterError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.registry import mechanism_by_name

__all__ = ["privacy"]


class Figure(NamedTuple):
    """One loss, and whom it protects against."""

    name: str
    epsilon: float
    meaning: str
    delta: float = 0.0
    crowd: int | None = None


@command()
@click.option("--epsilon", type=float, help="The local epsilon of one answer.")
@click.option(
    "--p", type=float, help="Two coins, instead of --epsilon: the probability of telling the truth."
)
@click.option("--q", type=float, help="Two coins: the probability that the second coin says yes.")
@click.option(
    "--ones",
    type=number,
    default=1,
    show_default=True,
    help="Two coins: buckets that one answer may be in.",
)
@click.option(
    "--bit",
    is_flag=True,
    help="Two coins: the answer is a single yes or no, not one of several buckets.",
)
@click.option(
    "--mechanism",
    "name",
    metavar="NAME",
    help="The mechanism that draws the answer, for the shuffled figure.",
)
@click.option(
    "--values",
    type=number,
    default=8,
    show_default=True,
    help="How many values the mechanism chooses from.",
)
@click.option("--sampling", type=float, help="The probability that a client answers at all.")
@click.option(
    "--population",
    "people",
    type=number,
    help="People who may answer: the crowd for which the sampled figure is stated.",
)
@click.option(
    "--answers",
    type=number,
    default=1,
    show_default=True,
    help="Answers about the same data, with fresh coins.",
)
@click.option("--reports", type=number, help="Reports that are shuffled together.")
@click.option(
    "--delta",
    type=float,
    default=1e-6,
    show_default=True,
    help="The probability with which the bound may fail.",
)
@click.option(
    "--one-pair",
    type=number,
    metavar="BUCKETS",
    help="Two coins: toss them once for an answer in so many buckets, not for each bit.",
)
@choice_options
@output_options
def privacy(**given: Any) -> None:
    """Compute what answers give away: local, sampled, zero-knowledge, composed and shuffled
    epsilon.

    Start from --epsilon, or from the two coins --p and --q. Every figure is an upper bound. The
    sampled figure depends on the size of the crowd, and is stated only with --population.

    With --choose, the epsilon is what is asked for: the largest that keeps a belief or is worth a
    payment.
    """
    if given["choose"]:
        choose(given)
        return
    mechanism, local = _local(given)
    one_pair = given["one_pair"] is not None
    figures = _one_pair(given, local) if one_pair else _figures(given, mechanism, local)
    rows = [(figure.name, loss_text(figure.epsilon), figure.meaning) for figure in figures]
    documents = [_plain(figure) for figure in figures]
    emit(
        {"figures": documents},
        TextTable(("", "epsilon", "what it bounds"), rows),
        flat_rows(documents),
    )


def _local(given: dict[str, Any]) -> tuple[Mechanism | None, float]:
    epsilon, p, q = given["epsilon"], given["p"], given["q"]
    if (epsilon is None) == (p is None and q is None) or (p is None) != (q is None):
        raise click.UsageError("give --epsilon, or both --p and --q")
    if given["name"] is not None and epsilon is None:
        raise ParameterError(
            "mechanism", given["name"], "is made from --epsilon, not from two coins"
        )
    if given["name"] is not None:
        mechanism = mechanism_by_name(
            given["name"], epsilon, check_count("values", given["values"])
        )
        return mechanism, mechanism.epsilon
    if epsilon is not None:
        return None, losses.repeated_epsilon(epsilon, 1)
    return None, (
        losses.bit_epsilon(p, q) if given["bit"] else losses.answer_epsilon(p, q, given["ones"])
    )


def _one_pair(given: dict[str, Any], per_bit: float) -> list[Figure]:
    """What one pair of coins for a whole answer gives away, beside coins for each bit."""
    if given["p"] is None:
        raise click.UsageError("--one-pair needs --p and --q")
    buckets, p, q = check_count("one_pair", given["one_pair"]), given["p"], given["q"]
    delta = losses.one_pair_delta(buckets, p, q, 0.0)
    return [
        Figure(
            "one pair",
            math.inf if delta else 0.0,
            "one answer: a report with a single 1 is sent by nobody in another bucket",
        ),
        Figure(
            "one pair, delta",
            0.0,
            f"except with probability {delta:g}, with which the report is the true answer",
            delta,
        ),
        Figure("coins per bit", per_bit, "the same coins, tossed for each bit, as devices do"),
    ]


def _figures(given: dict[str, Any], mechanism: Mechanism | None, local: float) -> list[Figure]:
    sampling, delta, answers = (
        given["sampling"],
        given["delta"],
        check_count("answers", given["answers"]),
    )
    reports = None if given["reports"] is None else check_count("reports", given["reports"])
    releases = losses.Releases(
        local if mechanism is None else mechanism, 1.0 if sampling is None else sampling
    )
    what = "one answer" if mechanism is None else f"one answer of {type(mechanism).__name__}"
    found = [Figure("local", local, f"{what}, against anyone who sees who sent it")]
    if sampling is not None:
        found += _sampled(given, releases)
        who = (
            "against someone who also knows a random sample of the others, up to a delta whose"
            " constant is not known"
        )
        found.append(Figure("zero-knowledge", releases.zero_knowledge, who))
    if answers > 1:
        found.append(
            Figure(
                "composed", losses.repeated_epsilon(local, answers), f"{answers} answers: the sum"
            )
        )
        least = losses.optimal_composition(local, answers, delta)
        found.append(
            Figure(
                "composed, delta",
                least,
                f"{answers} answers, except with probability {delta:g}",
                delta,
            )
        )
    if reports is not None:
        anyone = (
            f"against anyone who sees only {reports:,} shuffled reports, except with probability"
            f" {delta:g}"
        )
        if mechanism is None:
            worst = losses.shuffled_epsilon(local, reports, delta)
            found.append(
                Figure(
                    "shuffled",
                    worst,
                    f"{anyone}; for any mechanism (--mechanism gives the bound of one)",
                    delta,
                )
            )
        else:
            found.append(
                Figure("shuffled", losses.blanket_epsilon(mechanism, reports, delta), anyone, delta)
            )
    return found


def _sampled(given: dict[str, Any], releases: losses.Releases) -> list[Figure]:
    """The sampled figure, which is stated for a crowd or not at all."""
    if given["people"] is None:
        return []
    people, delta = check_count("people", given["people"]), given["delta"]
    who = (
        f"against anyone who cannot tell which of {people:,} people took part, except with"
        f" probability {delta:g}"
    )
    return [Figure("sampled", releases.sampled(people, delta).epsilon, who, delta, people)]


def _plain(figure: Figure) -> dict[str, Any]:
    epsilon = figure.epsilon if math.isfinite(figure.epsilon) else None
    crowd = {} if figure.crowd is None else {"crowd": figure.crowd}
    return {
        "name": figure.name,
        "epsilon": epsilon,
        "delta": figure.delta,
        **crowd,
        "meaning": figure.meaning,
    }
