"""`deniable demo`: the whole system on this machine, with a population that does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from deniable.cli.helping import command
from deniable.cli.opening import has_screen, open_page
from deniable.cli.output import output_format, output_options, warn_without_history
from deniable.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from deniable.local.simulation import Simulation

__all__ = ["demo"]

_LARGEST = 1_000_000
_SECONDS = 20
_ADAPTIVE_CLIENTS = 4_000


@command()
@click.option(
    "--dataset",
    "name",
    default="taxi",
    show_default=True,
    help="Who is asked: taxi, electricity or tweets.",
)
@click.option(
    "--population", "clients", type=int, default=10_000, show_default=True, help="How many people."
)
@click.option(
    "--seconds",
    type=int,
    help="How long they answer [default: until Ctrl-C if a page was opened, else 20].",
)
@click.option("--proxies", type=int, default=2, show_default=True, help="How many proxies, 2 or 3.")
@click.option("--no-browser", is_flag=True, help="Print the console's address and open nothing.")
@click.option(
    "--adaptive",
    is_flag=True,
    help="Show a query that adapts to a drifting crowd, on a fast clock, in one process.",
)
@output_options
def demo(
    name: str, clients: int, seconds: int | None, proxies: int, no_browser: bool, adaptive: bool
) -> None:
    """Ask a simulated crowd on this machine, and watch the estimates beside the truth, which only a
    demo can know.

    The console opens in your browser, if there is one, signed in and with the truth beside the
    estimates.

    Proxies and aggregator run as separate processes and talk HTTP, as in a deployment. Everything
    is kept in a temporary folder and ends with the command. With --json or --csv, only the result
    is printed, at the end.
    """
    for option, value, least, most in (
        ("--population", clients, 10, _LARGEST),
        ("--seconds", 20 if seconds is None else seconds, 1, 86_400),
        ("--proxies", proxies, 2, 3),
    ):
        if not least <= value <= most:
            raise ParameterError(option, value, f"must be a whole number from {least} to {most}")
    if adaptive:
        from deniable.cli.demonstration.demo_adaptive import run_adaptive  # noqa: PLC0415 - slow

        given = click.get_current_context().get_parameter_source("clients")
        run_adaptive(
            clients if given is click.core.ParameterSource.COMMANDLINE else _ADAPTIVE_CLIENTS
        )
        return
    try:
        import fastapi  # noqa: F401, PLC0415 - an extra that the services need
        import httpx  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingExtraError(str(error.name), "service", "deniable demo") from None
    from deniable.cli.demonstration.live import run_simulation  # noqa: PLC0415 - slow to import
    from deniable.local.datasets import dataset  # noqa: PLC0415
    from deniable.local.simulation import simulate_dataset  # noqa: PLC0415

    warn_without_history()

    chosen = dataset(name)
    simulation = simulate_dataset(chosen, clients, proxies)
    opens = not no_browser and output_format() == "text" and has_screen()
    if seconds is None:
        seconds = None if opens else _SECONDS
    title, crowd = f"deniable demo: {chosen.question}", f"{clients:,} {chosen.clients}"
    run_simulation(
        simulation,
        title,
        crowd,
        seconds,
        lambda: open_page(_address(simulation), not opens, "console"),
    )


def _address(simulation: Simulation) -> str:
    """The console, signed in, with the truth that only a simulation knows. The part after # is not
    sent to any server."""
    services = simulation.services
    token = services.analyst_token_file.read_text(encoding="utf-8").strip()
    truth = ",".join(f"{proportion:.5f}" for proportion in simulation.truth)
    fragment = urlencode({"token": token, "q": simulation.query.id, "truth": truth})
    return f"{services.aggregator.address.url}/console/#sign-in?{fragment}"
