"""`deniable aggregator`: run one, and say who may use it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from deniable.aggregator.aggregator_settings import Settings, read_settings
from deniable.aggregator.state import connect
from deniable.aggregator.tokens import ROLES, add_token, revoke_token
from deniable.cli.audit_log import audit_options, show_audit_log
from deniable.cli.output import say
from deniable.cli.settings_commands import (
    FILE,
    add_settings_commands,
    endpoint_options,
    opened_settings,
    quoted,
    tls_table,
    write_settings,
)
from deniable.cli.settings_templates import AGGREGATOR
from deniable.errors import ParameterError

__all__ = ["aggregator"]

_SETTINGS = click.argument("settings", type=click.Path(path_type=Path))
_PROXIES = ("https://proxy-one.example", "https://proxy-two.example")


@click.group()
def aggregator() -> None:
    """Join what proxies have logged, count it, and serve the results."""


@aggregator.command()
@FILE
@click.option("--proxy", "proxies", multiple=True, help="A proxy's address, as queries name it; at least two.")
@click.option("--state", default="aggregator.db", show_default=True, help="Its state file.")
@click.option("--ring", default="ring.json", show_default=True, help="The key ring of the analysts.")
@click.option("--controller", help="The key of a controller, which adapts queries (docs/adaptive.md).")
@endpoint_options(8700)
def new(
    file: Path,
    proxies: tuple[str, ...],
    state: str,
    ring: str,
    controller: str | None,
    host: str,
    port: int,
    certificate: str | None,
    key: str | None,
) -> None:
    """Write commented settings to FILE, which must not exist yet."""
    if len(proxies) == 1 or len(set(proxies)) < len(proxies):
        raise ParameterError("--proxy", list(proxies), "must be given at least twice, with different addresses")
    write_settings(
        file,
        AGGREGATOR,
        f"deniable aggregator check {file}",
        state=quoted(state),
        ring=quoted(ring),
        host=quoted(host),
        port=str(port),
        controller='# controller = "controller.key"' if controller is None else f"controller = {quoted(controller)}",
        proxies="\n".join(_proxy_table(i, each) for i, each in enumerate(proxies or _PROXIES, start=1)),
        tls=tls_table(certificate, key),
    )


def _proxy_table(number: int, name: str) -> str:
    comments = number == 1
    lines = [
        "[[proxies]]",
        f"name = {quoted(name)}" + "  # as queries name it" * comments,
        f"token_file = {quoted(f'proxy-{number}.token')}" + "  # its operator's token" * comments,
    ]
    if comments:
        lines += [
            '# url = ""                   # its address, if its name is not one',
            '# log = "proxy-1/log.db"     # its log, if it runs on this machine; otherwise the log is read over HTTP',
            '# kafka = { bootstrap = "kafka.example:9093", topic = "shares-1" }  # docs/kafka.md',
        ]
    return "\n".join([*lines, ""])


@aggregator.command()
@FILE
def run(file: Path) -> None:
    """Run the aggregator of the settings in FILE until it is stopped. Log lines go to standard error, as JSON."""
    with opened_settings(file, Settings, "an aggregator") as settings:
        from deniable.aggregator.aggregator_process import serve  # noqa: PLC0415 - needs the extra `service`
        from deniable.console.console_app import add_console  # noqa: PLC0415

        serve(settings, lambda address: say(f"aggregator at {address}"), add_console)


def _check(settings: Settings, found: Any, url: str | None) -> None:
    from deniable.aggregator.aggregator_check import check_aggregator  # noqa: PLC0415 - needs the extra `service`

    check_aggregator(settings, found, url)


add_settings_commands(aggregator, Settings, _check)


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
