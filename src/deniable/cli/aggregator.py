"""`deniable aggregator`: run one, and say who may use it."""

from __future__ import annotations

import time
from pathlib import Path

import click

from deniable.aggregator.aggregator_settings import read_settings
from deniable.aggregator.state import connect
from deniable.aggregator.tokens import ROLES, add_token, revoke_token
from deniable.cli.audit_log import audit_options, show_audit_log
from deniable.cli.output import say
from deniable.errors import MissingExtraError

__all__ = ["aggregator"]

_SETTINGS = click.argument("settings", type=click.Path(path_type=Path))


@click.group()
def aggregator() -> None:
    """Join what proxies have logged, count it, and serve the results."""


@aggregator.command()
@_SETTINGS
def run(settings: Path) -> None:
    """Run the aggregator that the TOML file SETTINGS describes, until it is stopped. Log lines go to standard error, as JSON."""
    chosen = read_settings(settings)
    try:
        from deniable.aggregator.aggregator_process import serve  # noqa: PLC0415 - needs the extra `service`
        from deniable.console.console_app import add_console  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(str(error.name), "service", "an aggregator") from None
    serve(chosen, lambda address: say(f"aggregator at {address}"), add_console)


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
            say(f"{revoke_token(connection, name)} tokens of {name} revoked")
        else:
            say(add_token(connection, name, role, int(time.time())))
    finally:
        connection.close()


@aggregator.command()
@_SETTINGS
@audit_options
def audit(settings: Path, verify: bool, head: str | None, since: str | None, as_json: bool) -> None:
    """Show what the aggregator and its operator did, or check that nobody has changed the log of it."""
    show_audit_log(read_settings(settings).audit_path, verify, head, since, as_json)
