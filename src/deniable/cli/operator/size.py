"""`deniable size`: from people and epochs to processes, partitions, brokers, bytes and money."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from deniable.cli.analyst.query_file import load_query
from deniable.cli.durations import time_option
from deniable.cli.helping import command
from deniable.cli.output import Part, emit, output_options
from deniable.cli.person.client import run as client_run
from deniable.cli.researcher.plan import number
from deniable.cli.tables import TextTable
from deniable.errors import ParameterError
from deniable.mechanisms.protocols.unary import UnaryEncoding
from deniable.queries.schedule import spoken_duration
from deniable.sizing.demand import Demand
from deniable.sizing.figures import Prices, SizingFigures, read_figures
from deniable.sizing.queueing import Run, Stations, simulate
from deniable.sizing.result import Sizing
from deniable.sizing.supply import ENGINES, LOGS
from deniable.sizing.supply import size as sized
from deniable.wire.sizes import smallest_class

__all__ = ["size"]

_POLL: Any = next(option.default for option in client_run.params if option.name == "every")


@command()
@click.argument(
    "query_file", metavar="[QUERY]", type=click.Path(dir_okay=False, path_type=Path), required=False
)
@click.option(
    "--population",
    "clients",
    type=number,
    required=True,
    help="How many people are asked; 1e6 is accepted.",
)
@time_option("every", "Epoch length [default: from QUERY, else 1 h].")
@click.option(
    "--sampling",
    type=float,
    help="Proportion of people who answer in an epoch [default: from QUERY, else 1].",
)
@click.option(
    "--proxies",
    type=int,
    help="Number of shares an answer is split into [default: from QUERY, else 2].",
)
@click.option(
    "--buckets", type=int, help="Number of buckets, one bit each [default: from QUERY, else 11]."
)
@click.option(
    "--report-bytes", type=int, help="Bytes per report, for other mechanisms (see deniable plan)."
)
@time_option("poll", "Time between two rounds of a device, each of which asks for queries.", _POLL)
@time_option("within", "Time within which a device sends its answer; 0 for at once.", Demand.within)
@click.option(
    "--collected",
    type=number,
    default=1,
    show_default=True,
    help="Shares per upload, with a collector.",
)
@time_option("grace", "How long proxies keep an epoch open after its end.", Demand.grace)
@time_option("retention", "How long shares stay in the log.", Demand.retention)
@time_option("history", "How long results are kept.", Demand.history)
@click.option(
    "--replication", type=int, default=3, show_default=True, help="Copies of the log in Kafka."
)
@click.option(
    "--front",
    is_flag=True,
    help=(
        "A front end before the proxies terminates TLS, keeps connections open and caches queries."
    ),
)
@click.option(
    "--log",
    type=click.Choice(LOGS),
    default="auto",
    show_default=True,
    help="Where shares are logged.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="Which engine counts them.",
)
@click.option(
    "--figures",
    "figures_file",
    type=click.Path(path_type=Path),
    help="Your own measurements, as TOML, with the names that --sources lists.",
)
@click.option(
    "--set", "changes", multiple=True, metavar="NAME=VALUE", help="Set one figure. Repeatable."
)
@click.option(
    "--price-storage",
    type=float,
    default=Prices.storage,
    show_default=True,
    help="Price of a terabyte for a month (example).",
)
@click.option(
    "--price-egress",
    type=float,
    default=Prices.egress,
    show_default=True,
    help="Price of a gigabyte sent by a proxy (example).",
)
@click.option(
    "--price-core",
    type=float,
    default=Prices.core,
    show_default=True,
    help="Price of a core for an hour (example).",
)
@click.option("--sources", is_flag=True, help="Also list each measured figure and its source.")
@output_options
def size(query_file: Path | None, sources: bool, **given: Any) -> None:
    """Estimate the resources a query needs, from the file QUERY (TOML or signed) or from options.

    Nearly everything is linear in the number of people: what matters is which resource runs out
    first, and what would relieve it.
    """
    figures = _figures(given["figures_file"], given["changes"])
    prices = Prices(given["price_storage"], given["price_egress"], given["price_core"])
    demand = _demand(query_file, given)
    made = sized(
        demand,
        figures,
        prices,
        front=given["front"],
        replication=given["replication"],
        log=given["log"],
        engine=given["engine"],
    )
    run = simulate(demand, Stations.of(made), made.cells, epochs=2)
    explained = {
        name: {"unit": unit, "source": source}
        for name, (unit, source) in SizingFigures.explain().items()
    }
    emit(
        {
            **made.to_dict(),
            "simulated": run.to_dict(),
            **({"sources": explained} if sources else {}),
        },
        lambda: _parts(made, run, sources),
    )


def _figures(file: Path | None, changes: tuple[str, ...]) -> SizingFigures:
    figures = SizingFigures() if file is None else read_figures(file)
    values = {name: getattr(figures, name) for name in SizingFigures.names()}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or name not in values:
            raise ParameterError(
                "set", change, f"must be NAME=VALUE with one of {', '.join(values)}"
            )
        try:
            values[name] = float(text)
        except ValueError:
            raise ParameterError(name, text, "must be a number") from None
    return SizingFigures(**values)


def _demand(query_file: Path | None, given: dict[str, Any]) -> Demand:
    others = {name: given[name] for name in ("poll", "within", "grace", "retention", "history")}
    for name in ("clients", "collected"):
        if not math.isfinite(given[name]) or given[name] != int(given[name]):
            raise ParameterError(name, given[name], "must be a whole number")
        others[name] = int(given[name])
    chosen = {
        name: given[name] for name in ("every", "sampling", "proxies") if given[name] is not None
    }
    if query_file is not None:
        shape = [
            name
            for name in ("every", "sampling", "proxies", "buckets", "report_bytes")
            if given[name] is not None
        ]
        if shape:
            raise ParameterError(
                shape[0],
                given[shape[0]],
                f"is already set by {query_file.name}: leave one of them out",
            )
        return Demand.of_query(load_query(query_file)[0], **others)
    buckets = 11 if given["buckets"] is None else given["buckets"]
    if given["report_bytes"] is not None:
        return Demand(
            size_class=smallest_class(given["report_bytes"]), buckets=buckets, **chosen, **others
        )
    if buckets < 2:
        raise ParameterError("buckets", buckets, "must be at least 2: a yes/no question has two")
    return Demand.of_mechanism(UnaryEncoding(buckets, 0.75, 0.25), **chosen, **others)


# --- for people


def _bytes(amount: float) -> str:
    """Three digits and a unit.

    >>> _bytes(1536), _bytes(2.5e12)
    ('1.54 kB', '2.5 TB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} PB"


def _rate(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def _parts(made: Sizing, run: Run, sources: bool) -> list[Part]:
    parts: list[Part] = []
    for title, facts in _facts(made, run).items():
        parts += [title, TextTable(("", ""), facts, [False, False], indent=2), ""]
    loads = [
        (
            each.name,
            f"{each.load:.3g}",
            f"{each.units:,}",
            f"{each.utilisation:.0%}",
            f"{made.clients_at_full(each):,.0f}",
        )
        for each in sorted(made.resources, key=lambda resource: -resource.load)
    ]
    first = made.bottleneck
    enough = "one is enough for now" if first.units == 1 else f"{first.units:,} are planned"
    parts += [
        "What runs out",
        TextTable(
            ("resource", "units needed", "planned", "peak use", "people per unit"), loads, indent=2
        ),
        f"First bottleneck: {first.name} ({enough}). What would relieve it: {first.relief}.",
    ]
    if sources:
        rows = [
            (name, f"{getattr(made.figures, name):,g}", unit, source)
            for name, (unit, source) in SizingFigures.explain().items()
        ]
        parts += [
            "",
            TextTable(("figure", "value", "unit", "source"), rows, [False, True, False, False]),
        ]
    return parts


def _facts(made: Sizing, run: Run) -> dict[str, list[tuple[str, str]]]:
    demand, cost = made.demand, made.cost
    cells = (
        ""
        if made.cells == 1
        else f", in {made.cells:,} cells of {demand.clients / made.cells:,.0f} people"
    )
    copies = f"{made.replication} cop{'y' if made.replication == 1 else 'ies'}"
    kafka = (
        f"Kafka: {made.brokers} brokers, {made.topics:,} topics, each with {made.partitions}"
        f" partitions for shares, {copies}"
        if made.log == "kafka"
        else "the SQLite file of each proxy"
    )
    counted = (
        f"embedded, {made.cells:,} process{'' if made.cells == 1 else 'es'},"
        f" {made.aggregator_cores:,g} cores"
        if made.engine == "embedded"
        else f"Spark, {made.aggregator_cores:,g} executor cores"
    )
    waits = (
        "never"
        if run.latency == float("inf")
        else f"{run.latency:,.0f} s after the end of the epoch"
    )
    return {
        "Asked": [
            (
                "people",
                (
                    f"{demand.clients:,}, every {spoken_duration(demand.every)}:"
                    f" {demand.messages:,.0f} messages per epoch"
                ),
            ),
            (
                "shares per second",
                (
                    f"{_rate(demand.mean)} on average, {_rate(demand.peak)} at the peak, at each of"
                    f" {demand.proxies} proxies"
                ),
            ),
            (
                "requests for queries",
                (
                    f"{_rate(demand.polls)} per second at each"
                    f" proxy{', which the front answers' if made.front else ''}"
                ),
            ),
            (
                "one share",
                (
                    f"{demand.share_bytes} bytes on the way to a proxy, {made.row_bytes:.1f} in"
                    " the log"
                ),
            ),
        ],
        "Needed": [
            (
                "proxies",
                (
                    f"{made.proxy_processes:,} processes, {made.cells:,} per proxy{cells};"
                    f" {_bytes(made.proxy_memory)} each"
                ),
            ),
            *(
                [("collectors", f"{made.collector_processes:,} processes")]
                if made.collector_processes
                else []
            ),
            ("log", kafka),
            (
                "aggregator",
                f"{counted}; {_bytes(made.aggregator_memory)} each for ids and waiting shares",
            ),
            ("results", waits),
        ],
        "Bytes": [
            ("into a proxy", f"{_bytes(made.upload_bytes)}/s of shares and HTTP on average"),
            (
                "to devices",
                (
                    f"{_bytes(made.poll_bytes)}/s of queries from each proxy;"
                    f" {_bytes(made.device_bytes)} per device per month"
                ),
            ),
            (
                "into the log",
                (
                    f"{_bytes(made.log_bytes)}/s from all proxies on average,"
                    f" {_bytes(made.log_peak)}/s at the peak"
                ),
            ),
            (
                "kept",
                (
                    f"{_bytes(made.stored_bytes)} of shares in {copies},"
                    f" {_bytes(made.history_bytes)} of results"
                ),
            ),
        ],
        "Per month, at example prices": [
            ("all", f"{cost['all']:,.0f}"),
            (
                "of which",
                (
                    f"cores {cost['cores']:,.0f}, storage {cost['storage']:,.0f}, egress"
                    f" {cost['egress']:,.0f}"
                ),
            ),
        ],
    }
