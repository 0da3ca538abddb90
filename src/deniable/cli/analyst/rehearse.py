"""`deniable rehearse`: a query on simulated people, with everything that may go wrong."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from deniable.audit.rehearsal.rehearsal import Rehearsal, rehearse
from deniable.audit.rehearsal.scenarios import SCENARIOS
from deniable.audit.rehearsal.wording import heading_lines, scenario_findings, scenario_rows
from deniable.cli.analyst.query_file import load_query
from deniable.cli.helping import command
from deniable.cli.output import Part, emit, output_options, progress_bar
from deniable.cli.researcher.plan import number
from deniable.cli.tables import TextTable
from deniable.errors import ParameterError

__all__ = ["rehearse_query"]

_FAILS = 1
"""The exit code of a check that did not hold."""


@command("rehearse")
@click.argument("query", type=click.Path(path_type=Path))
@click.option(
    "--population",
    "people",
    type=number,
    help="How many to simulate [default: the query's population, at most 10,000].",
)
@click.option(
    "--windows",
    type=number,
    default=16,
    show_default=True,
    help="How many windows to simulate per scenario.",
)
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    help=f"May be repeated [default: all]: {', '.join(SCENARIOS)}.",
)
@click.option(
    "--proportions",
    metavar="P,P,…|FILE",
    help=(
        "What is assumed to be true: a proportion for each label, or a TOML file of label ="
        " proportion [default: 1/rank]."
    ),
)
@click.option(
    "--liars",
    type=float,
    default=0.05,
    show_default=True,
    help="The part of the people who lie, where some do.",
)
@click.option(
    "--seed",
    type=number,
    default=2013,
    show_default=True,
    help="Seed of the people and of all coins.",
)
@output_options
def rehearse_query(
    query: Path,
    people: int | None,
    windows: int,
    scenarios: tuple[str, ...],
    proportions: str | None,
    liars: float,
    seed: int,
) -> None:
    """Rehearse QUERY on simulated people: dead and slow proxies, replays, lost replies, wrong
    clocks, churn, late phones, liars.

    Devices, proxies and aggregator are the deployed code, on a simulated clock; nobody is asked and
    no port is opened. QUERY is a TOML file or a signed one. Exit code 1 if answers are counted
    twice or silently lost, or if the ± does not hold.
    """
    found, _ = load_query(query)
    with progress_bar(f"rehearsing {found.id}") as progress:
        rehearsal = rehearse(
            found,
            people=people,
            windows=windows,
            scenarios=scenarios,
            proportions=None if proportions is None else _proportions(proportions),
            liars=liars,
            seed=seed,
            progress=progress,
        )
    emit({"holds": rehearsal.holds, **rehearsal.to_dict()}, lambda: _parts(rehearsal))
    if not rehearsal.holds:
        raise click.exceptions.Exit(_FAILS)


def _parts(rehearsal: Rehearsal) -> list[Part]:
    """The table of all scenarios, and below it what each of them would mean."""
    headings, *rows = scenario_rows(rehearsal)
    right = [0 < place < len(headings) - 1 for place in range(len(headings))]
    parts: list[Part] = [*heading_lines(rehearsal), "", TextTable(headings, rows, right)]
    for outcome in rehearsal.outcomes:
        parts += ["", f"{outcome.name}: {outcome.happens}"]
        parts.append(
            TextTable(
                ("", ""), scenario_findings(outcome, rehearsal.windows), [False, False], indent=2
            )
        )
    return parts


def _proportions(given: str) -> Mapping[str, float] | Sequence[float]:
    """Numbers separated by commas, or read from a file."""
    parts = given.split(",")
    if all(_is_number(part) for part in parts):
        return [float(part) for part in parts]
    path = Path(given)
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        rule = f"must be numbers separated by commas, or a readable file ({error.strerror})"
        raise ParameterError("proportions", given, rule) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError("proportions", given, f"is not a TOML file: {error}") from None
    for label, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ParameterError(f"proportions[{label!r}]", value, "must be a number")
    return table


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
