"""`deniable up`: one's own query and data, simulated on this machine, or as services for real
devices."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deniable.cli.helping import command
from deniable.cli.output import output_options, say, warn_without_history
from deniable.errors import MissingExtraError, ParameterError, ResponseError
from deniable.local.up_settings import MODES, ServicesPlan, UpSettings, read_settings
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign

if TYPE_CHECKING:
    from deniable.local.services import Services

__all__ = ["up"]

_REFRESH = 0.5


@command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--mode", type=click.Choice(MODES), help="Overrides the mode in FILE.")
@click.option(
    "--start",
    multiple=True,
    help="Start only this service; may be given several times. Overrides services.start in FILE.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1),
    help="How long the people of a simulation answer. Overrides FILE.",
)
@output_options
def up(file: Path, mode: str | None, start: tuple[str, ...], seconds: int | None) -> None:
    """Run the system that the TOML file FILE describes, until Ctrl-C: a simulation, or services for
    real devices.

    docs/deploy.md describes FILE. A simulation without `seconds` runs until it is interrupted; with
    --json or --csv, it prints nothing but its result, at the end.
    """
    settings = read_settings(file, mode, start)
    try:
        import fastapi  # noqa: F401, PLC0415 - an extra that the services need
        import httpx  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingExtraError(str(error.name), "service", "deniable up") from None
    warn_without_history()
    if settings.mode == "simulation":
        _simulate(settings, seconds or settings.seconds)
    elif settings.services is not None:
        _serve(settings, settings.services)


def _simulate(settings: UpSettings, seconds: int | None) -> None:
    from deniable.cli.demonstration.live import run_simulation  # noqa: PLC0415 - slow to import
    from deniable.local.own_data import simulate_own  # noqa: PLC0415

    if seconds is not None and seconds < settings.simulated_window:
        rule = (
            f"must be at least {settings.simulated_window}, the length of a window (see"
            " simulation.every)"
        )
        raise ParameterError("seconds", seconds, rule)
    simulation, n_people = simulate_own(settings)
    title = settings.query.question or settings.query.id
    run_simulation(simulation, f"deniable up: {title}", f"{n_people:,} people", seconds)


def _serve(settings: UpSettings, plan: ServicesPlan) -> None:
    from deniable.cli.demonstration.live import ending_in_order  # noqa: PLC0415 - slow to import
    from deniable.local.services import Services  # noqa: PLC0415

    services = Services(plan.folder, plan.ring, plan.proxies, plan.aggregator)
    with ending_in_order():
        try:
            with services:
                for proxy in plan.proxies:
                    if proxy.here:
                        say(f"{proxy.name} at {proxy.address.url}; tokens for devices:")
                        say(f"  deniable proxy token add {plan.folder / proxy.name}.toml")
                if plan.aggregator.here:
                    say(
                        f"aggregator at {plan.aggregator.address.url}; its analyst's token:"
                        f" {services.analyst_token_file}"
                    )
                    _follow(settings.query, plan, services)
                while True:
                    services.check()
                    time.sleep(_REFRESH)
        except KeyboardInterrupt:
            pass  # this is how it ends
    say("Stopped.")


def _follow(query: Query, plan: ServicesPlan, services: Services) -> None:
    """Publish the query, if the analyst's key is here, and print the windows as they come."""
    from deniable.analyst.analyst import Analyst  # noqa: PLC0415 - an extra

    with Analyst(
        plan.aggregator.address.url, services.analyst_token_file.read_text().strip()
    ) as analyst:
        if plan.analyst_key is not None:
            analyst.publish(sign(query, AnalystKey.load(plan.analyst_key)))
            say(f"Published {query.id}, version {query.serial}.")
        newest = 0
        while True:
            services.check()
            try:
                for window in analyst.range(query, start=newest):
                    say(str(window))
                    newest = window.start + 1
            except ResponseError as error:
                if error.status not in (0, 404):  # 404: it has not been published yet
                    raise
            time.sleep(_REFRESH)
