"""`deniable query plan`, and what `deniable query check` says about budgets."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from deniable.cli.analyst.connecting import connect
from deniable.cli.durations import time_option
from deniable.cli.helping import command
from deniable.cli.output import emit, output_options
from deniable.cli.researcher.plan import number
from deniable.client.policy import DEFAULT_CEILING, DEFAULT_LIMITS
from deniable.errors import DeniableError, InfeasiblePlanError, ParameterError, QueryFileError
from deniable.queries.files import query_of_tree
from deniable.queries.lasting import silence, spending_words
from deniable.queries.query import Query
from deniable.queries.releasing import release_words
from deniable.sizing.figures import Prices, SizingFigures, read_figures
from deniable.sizing.query_costs import Assessment, Costs, assess
from deniable.sizing.query_planning import STEPS, drafted, initialize
from deniable.toml_file import TomlFile

__all__ = ["budget_words", "check_budgets", "cost_options", "costs_of", "plan_command"]

_UNITS = {
    "epsilon": "expected lifetime local epsilon",
    "epsilon_per_answer": "local epsilon per answer",
    "sampled": "lifetime sampled epsilon",
    "sampled_per_answer": "sampled epsilon per answer",
    "zero_knowledge": "lifetime zero-knowledge epsilon",
    "zero_knowledge_per_answer": "zero-knowledge epsilon per answer",
    "answers_per_second": "peak answers per second",
    "bytes_per_day": "bytes per device per day",
    "latency": "seconds from a window's end to its result",
    "money_per_month": "cost per month",
    "margin": "± of a window, at 95 %",
}

_TIMES = {
    "grace": "How long the proxies keep an epoch open after its end.",
    "poll": "Time between two rounds of a device.",
    "within": "Time within which a device sends its answer; 0 for at once.",
    "early": "Time to the first result of a query that waits for late answers.",
}
"""The settings of the system on which a result's latency depends."""


def cost_options(command: Any) -> Any:
    """How many people there are, and what running the system costs."""
    options: tuple[Callable[[Any], Any], ...] = (
        click.option(
            "--population",
            "people",
            type=number,
            help="People whose devices may answer [default: the query's population].",
        ),
        click.option(
            "--participation",
            type=float,
            default=1.0,
            show_default=True,
            help="Fraction of people reachable in an epoch.",
        ),
        *(time_option(name, text, getattr(Costs, name)) for name, text in _TIMES.items()),
        click.option(
            "--figures",
            "figures_file",
            type=click.Path(path_type=Path),
            help="Your own measurements, as TOML (see deniable size).",
        ),
        click.option(
            "--aggregator",
            "url",
            envvar="DENIABLE_AGGREGATOR",
            help="Use this aggregator's own measurements.",
        ),
        click.option(
            "--token-file",
            type=click.Path(path_type=Path),
            envvar="DENIABLE_TOKEN_FILE",
            help="The file with your token for the aggregator.",
        ),
        click.option(
            "--price-storage",
            type=float,
            default=Prices.storage,
            show_default=True,
            help="Price of a terabyte for a month.",
        ),
        click.option(
            "--price-egress",
            type=float,
            default=Prices.egress,
            show_default=True,
            help="Price of a gigabyte sent by a proxy.",
        ),
        click.option(
            "--price-core",
            type=float,
            default=Prices.core,
            show_default=True,
            help="Price of a core for an hour.",
        ),
    )
    for option in options:
        command = option(command)
    return command


def costs_of(query: Query, given: dict[str, Any]) -> Costs | None:
    """The costs given by the options; None if the number of people is not known."""
    people = given["people"] if given["people"] is not None else query.population
    if people is None:
        return None
    if people != int(people) or people < 1:
        raise ParameterError("--population", people, "must be a whole number of at least 1")
    if not 0 < given["participation"] <= 1:
        raise ParameterError(
            "--participation", given["participation"], "must be above 0 and at most 1"
        )
    figures = (
        SizingFigures() if given["figures_file"] is None else read_figures(given["figures_file"])
    )
    if given["url"]:
        with connect(given["url"], given["token_file"]) as analyst:
            measured = analyst.capacity().get(query.size_class or 0)
        if measured is not None:
            figures = SizingFigures(
                **{
                    **{name: getattr(figures, name) for name in SizingFigures.names()},
                    "embedded": measured,
                }
            )
    prices = Prices(given["price_storage"], given["price_egress"], given["price_core"])
    times = {name: given[name] for name in _TIMES}
    return Costs(int(people), figures, prices, given["participation"], **times)


def budget_words(query: Query, costs: Costs | None) -> list[str]:
    """What a query's parameters cost beside its budgets, and when devices would fall silent, as
    lines of text."""
    lines = []
    if costs is not None:
        lines = [f"{_UNITS[each.name]}: {_reached(each)}" for each in assess(query, costs)]
        late = costs.late(query)
        if late:
            lines.append(
                f"{100 * late:.3g} % of the answers come after the proxies have closed their epoch,"
                " and are lost: --grace must be at least as long as --poll."
            )
        if query.population is None:
            lines += release_words(query, costs.people * costs.participation)
    elif query.budget.target is not None:
        lines = ["The error is not known: state the query's population, or give --population."]
    usual = silence(
        query,
        [
            (float(limit.epsilon), limit.period, f"a person's usual limit, {limit},")
            for limit in DEFAULT_LIMITS
        ],
    )
    if usual is not None:
        lines.append(f"With a device's default settings: {usual}.")
    envelope = query.envelope
    if envelope is not None and envelope.epsilon_per_answer > DEFAULT_CEILING:
        lines.append(
            f"With a device's default settings, an answer may cost at most {DEFAULT_CEILING:g}, and"
            f" the envelope allows the controller {envelope.epsilon_per_answer:g}: devices refuse"
            " versions above their ceiling."
        )
    return lines


def _reached(each: Assessment) -> str:
    if each.name == "margin":
        return f"{100 * each.reached:.3g} points; {100 * each.budget:.3g} is requested"
    return f"{each.reached:,.4g} of {each.budget:,.4g}"


def check_budgets(query: Query, costs: Costs | None) -> None:
    """Refuse budgets that the query's own parameters exceed, and name the nearest feasible ones."""
    broken = [] if costs is None else [each for each in assess(query, costs) if not each.met]
    if not broken or costs is None:
        return
    first = broken[0]
    name = (
        "relative_error"
        if first.name == "margin" and query.budget.relative_error is not None
        else first.name
    )
    stated = getattr(query.budget, name)
    problem = (
        f"budget.{name} = {stated:g} cannot be met with these parameters: {_UNITS[first.name]}"
        f" would be {first.reached:.4g}"
    )
    try:
        planned = initialize(query, costs)
    except InfeasiblePlanError as error:
        raise InfeasiblePlanError(
            f"{problem}, nor with others: {error.problem}", error.nearest
        ) from None
    except DeniableError:
        raise InfeasiblePlanError(problem, {f"budget.{name}": first.reached}) from None
    p, q = (planned.recipe[coin] for coin in ("p", "q"))
    raise InfeasiblePlanError(
        f"{problem}, but with sampling = {planned.sampling:g}, p = {p:g} and q = {q:g} all budgets"
        " are (deniable query plan)",
        {},
    )


@command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "out",
    type=click.Path(path_type=Path),
    help="Where to write the planned query [default: FILE itself].",
)
@cost_options
@output_options
def plan_command(file: Path, out: Path | None, **given: Any) -> None:
    """Plan the sampling and the coins of the query in FILE from its budgets, and write them into
    it.

    FILE may lack `sampling` and `[mechanism]`; existing ones are replaced. If the budgets cannot be
    met, the command fails and names the nearest ones that can be met.
    """
    source = TomlFile.read(file, QueryFileError)
    draft = source.made(lambda tree: query_of_tree(drafted(tree)))
    costs = costs_of(draft, given)
    if costs is None:
        raise ParameterError("population", None, "must be given in the query or with --population")
    planned = initialize(draft, costs, None if "instantaneous" in source.tree else STEPS)
    text = filled(source.text, planned)
    target = out or file
    # what is written can be read
    TomlFile.parse(text, target.name, QueryFileError).made(query_of_tree)
    try:
        fresh = target.with_name(f"{target.name}.new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(target)
    except OSError as error:
        raise QueryFileError(
            "file", str(target), f"cannot be written: {error.strerror}", target.name
        ) from None
    reached = {
        each.name: {"budget": each.budget, "reached": each.reached}
        for each in assess(planned, costs)
    }
    steps = {} if planned.instantaneous is None else {"instantaneous": planned.instantaneous}
    losses = {"epsilon_local": planned.epsilon_local, "epsilon_life": planned.releases.life.epsilon}
    coins = ", ".join(f"{name} = {planned.recipe[name]:g}" for name in ("p", "q"))
    if planned.instantaneous is not None:
        coins += ", then {p:g} and {q:g} in each report".format(**planned.instantaneous)
    said = f"Planned {planned.id}: sampling = {planned.sampling:g}, {coins}; wrote {target}."
    emit(
        {"sampling": planned.sampling, **planned.recipe, **steps, **losses, "budgets": reached},
        [
            said,
            *(f"  {line}" for line in (*spending_words(planned), *budget_words(planned, costs))),
        ],
    )


def filled(text: str, planned: Query) -> str:
    """The text of a query file with its parameters replaced; everything else stays as written."""
    lines = text.splitlines()
    kept: list[str] = []
    top_level = {"sampling", "mechanism", *(["instantaneous"] if planned.instantaneous else [])}
    table = ""
    for line in lines:
        header = re.fullmatch(r"\s*\[\[?\s*([\w.\-]+)\s*\]\]?\s*(#.*)?", line)
        table = header[1] if header else table
        key = re.match(r"\s*([\w\-]+)\s*=", line)
        replaced = key is not None and (
            (not table and key[1] in top_level) or (table == "strata" and key[1] == "sampling")
        )
        if table not in ("mechanism", "instantaneous") and not replaced:
            kept.append(line)
    first = next((i for i, line in enumerate(kept) if re.match(r"\s*\[", line)), len(kept))
    while first and not kept[first - 1].strip():
        first -= 1
    head = [*kept[:first], f"sampling = {planned.sampling!r}", ""]
    coins = [f"{name} = {value!r}" for name, value in planned.recipe.items() if name != "name"]
    tail = "\n".join(kept[first:]).strip("\n")
    if planned.instantaneous is not None:
        coins += [
            "",
            "[instantaneous]",
            *(f"{name} = {value!r}" for name, value in planned.instantaneous.items()),
        ]
    return (
        "\n".join([*head, *([tail, ""] if tail else []), "[mechanism]", 'name = "TwoCoin"', *coins])
        + "\n"
    )
