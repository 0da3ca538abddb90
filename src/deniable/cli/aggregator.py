"""`deniable aggregator`: run one, and say who may use it."""

from __future__ import annotations

import time
from pathlib import Path

import click

from deniable.aggregator.settings import read_settings
from deniable.aggregator.state import connect
from deniable.aggregator.tokens import ROLES, add_token, revoke_token
from deniable.errors import MissingExtraError

__all__ = ["aggregator"]

_SETTINGS = click.argument("settings", type=click.Path(path_type=Path))


@click.group()
def aggregator() -> None:
    """Join what proxies have logged, count it, and serve the results."""


@aggregator.command()
@_SETTINGS
def run(settings: Path) -> None:
    """Run the aggregator that the TOML file SETTINGS describes, until it is interrupted."""
    try:
        import uvicorn  # noqa: PLC0415 - an extra

        from deniable.aggregator.api import create_app  # noqa: PLC0415
        from deniable.aggregator.service import Service  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("fastapi and uvicorn", "service", "deniable aggregator") from None
    chosen = read_settings(settings)
    tls = {} if chosen.tls is None else {"ssl_certfile": chosen.tls.certificate, "ssl_keyfile": chosen.tls.key}
    config = uvicorn.Config(
        create_app(Service(chosen)),
        host=chosen.host,
        port=chosen.port,
        log_level="warning",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        **tls,  # type: ignore[arg-type]
    )
    config.load()
    listening = config.bind_socket()
    host, port = listening.getsockname()[:2]
    click.echo(f"aggregator at http{'s' if tls else ''}://{host}:{port}")
    uvicorn.Server(config).run(sockets=[listening])


@aggregator.command()
@_SETTINGS
@click.option("--name", required=True, help="Whose token it is.")
@click.option("--role", type=click.Choice(ROLES), default="analyst", show_default=True, help="What its holder may do.")
@click.option("--revoke", is_flag=True, help="Revoke all tokens of that name instead.")
def token(settings: Path, name: str, role: str, revoke: bool) -> None:
    """Make a token for the aggregator's interface. It is shown once: only its hash is kept."""
    connection = connect(read_settings(settings).state)
    try:
        if revoke:
            click.echo(f"{revoke_token(connection, name)} tokens of {name} revoked")
        else:
            click.echo(add_token(connection, name, role, int(time.time())))
    finally:
        connection.close()
