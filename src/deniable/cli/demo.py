"""`deniable demo`: the whole system on this machine, with a population that does not exist."""

from __future__ import annotations

import click

from deniable.cli.output import warn_without_history
from deniable.errors import MissingExtraError, ParameterError

__all__ = ["demo"]

_LARGEST = 1_000_000


@click.command()
@click.option("--dataset", "name", default="taxi", show_default=True, help="Who is asked: taxi, electricity or tweets.")
@click.option("--clients", type=int, default=10_000, show_default=True, help="How many there are.")
@click.option("--seconds", type=int, default=20, show_default=True, help="How long they answer, once everything has started.")
@click.option("--proxies", type=int, default=2, show_default=True, help="How many proxies, 2 or 3.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object at the end, and nothing else.")
def demo(name: str, clients: int, seconds: int, proxies: int, wants_json: bool) -> None:
    """Ask a crowd of this machine's making, and watch the estimates beside the truth that only a demo can know.

    Proxies and aggregator run as processes and are reached over HTTP, as they would be elsewhere. All of it is in a temporary
    folder and ends with the command.
    """
    for option, value, least, most in (
        ("--clients", clients, 10, _LARGEST),
        ("--seconds", seconds, 1, 86_400),
        ("--proxies", proxies, 2, 3),
    ):
        if not least <= value <= most:
            raise ParameterError(option, value, f"must be a whole number from {least} to {most}")
    try:
        import fastapi  # noqa: F401, PLC0415 - an extra that the services need
        import httpx  # noqa: F401, PLC0415
        import uvicorn  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingExtraError(str(error.name), "service", "deniable demo") from None
    from deniable.cli.live import run_simulation  # noqa: PLC0415 - slow to import
    from deniable.local.datasets import dataset  # noqa: PLC0415
    from deniable.local.simulation import simulate_dataset  # noqa: PLC0415

    warn_without_history()

    chosen = dataset(name)
    simulation = simulate_dataset(chosen, clients, proxies)
    run_simulation(simulation, f"deniable demo: {chosen.question}", f"{clients:,} {chosen.clients}", seconds, wants_json)
