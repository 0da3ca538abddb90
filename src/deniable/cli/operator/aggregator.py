"""`deniable aggregator`: run an aggregator, and manage who may use it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from deniable.aggregator.settings import AggregatorSettings, read_settings
from deniable.aggregator.state import connect
from deniable.aggregator.web.tokens import (
    RIGHTS,
    add_token,
    list_tokens,
    parse_rights,
    revoke_tokens,
)
from deniable.aggregator.web.tokens import grant as grant_rights
from deniable.aggregator.web.tokens import token_id as id_of
from deniable.cli.helping import group
from deniable.cli.operator.audit_log import audit_options, show_audit_log
from deniable.cli.operator.backups import Back, Restore, add_backup_commands
from deniable.cli.operator.settings_commands import (
    FILE,
    add_settings_commands,
    endpoint_options,
    opened_settings,
    quoted,
    tls_table,
    write_settings,
)
from deniable.cli.operator.settings_templates import AGGREGATOR
from deniable.cli.output import emit, output_options, say
from deniable.cli.tables import TextTable
from deniable.errors import ParameterError
from deniable.service.audit_log import OPERATOR, AuditLog
from deniable.service.files.schemas import transaction

__all__ = ["aggregator"]

_SETTINGS = click.argument("settings", type=click.Path(path_type=Path))
_PROXIES = ("https://proxy-one.example", "https://proxy-two.example")


@group()
def aggregator() -> None:
    """Join and count what proxies have logged, and serve the results."""


@aggregator.command()
@FILE
@click.option(
    "--proxy", "proxies", multiple=True, help="A proxy's address, as queries name it; at least two."
)
@click.option("--state", default="aggregator.db", show_default=True, help="Its state file.")
@click.option(
    "--ring", default="ring.json", show_default=True, help="The key ring of the analysts."
)
@click.option(
    "--controller", help="The key of a controller, which adapts queries (docs/adaptive.md)."
)
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
        raise ParameterError(
            "--proxy", list(proxies), "must be given at least twice, with different addresses"
        )
    write_settings(
        file,
        AGGREGATOR,
        f"deniable aggregator check {file}",
        state=quoted(state),
        ring=quoted(ring),
        host=quoted(host),
        port=str(port),
        controller=(
            '# controller = "controller.key"'
            if controller is None
            else f"controller = {quoted(controller)}"
        ),
        proxies="\n".join(
            _proxy_table(i, each) for i, each in enumerate(proxies or _PROXIES, start=1)
        ),
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
            (
                '# log = "proxy-1/log.db"     # its log, if it runs on this machine; otherwise the'
                " log is read over HTTP"
            ),
            '# kafka = { bootstrap = "kafka.example:9093", topic = "shares-1" }  # docs/kafka.md',
        ]
    return "\n".join([*lines, ""])


@aggregator.command()
@FILE
def run(file: Path) -> None:
    """Run the aggregator configured in FILE until it is stopped. Log lines go to standard error, as
    JSON."""
    with opened_settings(file, AggregatorSettings, "an aggregator") as settings:
        from deniable.aggregator.operations.process import serve  # noqa: PLC0415 - an extra
        from deniable.console.console_app import add_console  # noqa: PLC0415

        serve(settings, lambda address: say(f"aggregator at {address}"), add_console)


def _check(settings: AggregatorSettings, found: Any, url: str | None) -> None:
    from deniable.aggregator.operations.check import check_aggregator  # noqa: PLC0415 - an extra

    check_aggregator(settings, found, url)


add_settings_commands(aggregator, AggregatorSettings, _check)


@aggregator.command()
@_SETTINGS
@click.option(
    "--analyst",
    "--name",
    "analyst",
    default="",
    help="Whose token it is: the name in the queries they sign.",
)
@click.option(
    "--may",
    default=",".join(RIGHTS[:3]),
    show_default=True,
    help=(
        "What it allows with that analyst's queries: read, publish, stop, delete (stored reports),"
        " separated by commas."
    ),
)
@click.option(
    "--operator",
    is_flag=True,
    help="For the operator of the service: stop any query, read no result.",
)
@click.option("--label", default="", help="What the token is called in lists, such as 'dashboard'.")
@output_options
def token(settings: Path, analyst: str, may: str, operator: bool, label: str) -> None:
    """Create a token for the aggregator's interface. It is shown only once: only its hash is kept.

    The token is printed to standard output; its id, for `revoke`, to standard error.
    """
    if not operator and not analyst:
        raise click.UsageError("say whose token it is with --analyst NAME, or give --operator")
    rights = () if operator else parse_rights("--may", may)
    with _changing(settings) as (connection, log):
        made = add_token(connection, analyst, rights, int(time.time()), label, operator)
        role = "operator" if operator else "analyst"
        details = {"role": role, "analyst": analyst, "may": list(rights), "label": label}
        named = {name: value for name, value in details.items() if value}
        log.record("token.made", actor=OPERATOR, subject=f"token:{id_of(made)}", **named)
    emit({"token": made, "id": id_of(made), **details}, made)
    whose = (
        f"of {analyst}: {', '.join(rights) or 'no rights yet'}"
        if not operator
        else "of an operator"
    )
    say(
        f"Token {id_of(made)} {whose}. Revoke it with  deniable aggregator revoke {settings}"
        f" {id_of(made)}",
        err=True,
    )


@aggregator.command()
@_SETTINGS
@click.argument("token_id", metavar="TOKEN")
@click.option("--analyst", required=True, help="On whose queries.")
@click.option("--may", required=True, help="The rights, as for `token`; `none` withdraws them all.")
@output_options
def grant(settings: Path, token_id: str, analyst: str, may: str) -> None:
    """Grant the token with the id TOKEN rights on another analyst's queries. A running aggregator
    follows at once."""
    rights = parse_rights("--may", may)
    with _changing(settings) as (connection, log):
        whole = grant_rights(connection, token_id, analyst, rights)
        log.record(
            "token.granted",
            actor=OPERATOR,
            subject=f"token:{whole}",
            analyst=analyst,
            may=list(rights),
        )
    said = f"Token {whole} may {', '.join(rights) or 'do nothing'} with the queries of {analyst}."
    emit({"id": whole, "analyst": analyst, "may": list(rights)}, said)


@aggregator.command()
@_SETTINGS
@output_options
def tokens(settings: Path) -> None:
    """List the tokens: id, analyst, rights, when they were created, the day they were last used,
    and their labels."""
    connection = connect(read_settings(settings).state)
    try:
        rows = list_tokens(connection)
    finally:
        connection.close()
    emit(rows, lambda: _token_table(rows) if rows else "There are no tokens.")


def _token_table(rows: list[dict[str, Any]]) -> TextTable:
    shown = []
    for row in rows:
        rights = (
            "; ".join(f"{name}: {', '.join(held)}" for name, held in row["rights"].items())
            or row["role"]
        )
        shown.append(
            (row["id"], rights, row["made"][:10], row["last_used"] or "never", row["label"])
        )
    return TextTable(("token", "rights", "created", "last used", "label"), shown, [False] * 5)


@aggregator.command()
@_SETTINGS
@click.argument("token_id", metavar="TOKEN")
@output_options
def revoke(settings: Path, token_id: str) -> None:
    """Revoke the tokens whose id starts with TOKEN. A running aggregator refuses them at once, and
    ends their streams."""
    with _changing(settings) as (connection, log):
        revoked = revoke_tokens(connection, token_id)
        for each in revoked:
            log.record("token.revoked", actor=OPERATOR, subject=f"token:{each}")
    if not revoked:
        raise ParameterError(
            "TOKEN", token_id, "is the id of no token; `deniable aggregator tokens` lists them"
        )
    emit({"revoked": list(revoked)}, f"Revoked {', '.join(revoked)}.")


@contextmanager
def _changing(settings: Path) -> Iterator[tuple[sqlite3.Connection, AuditLog]]:
    """A transaction on the state, and the log in which it is recorded before it is committed."""
    chosen = read_settings(settings)
    connection, log = connect(chosen.state), AuditLog(chosen.audit_path)
    try:
        with transaction(connection):
            yield connection, log
    finally:
        log.close()
        connection.close()


@aggregator.command()
@_SETTINGS
@audit_options
def audit(settings: Path, verify: bool, head: str | None, since: str | None) -> None:
    """Show what the aggregator and its operator did, or check that nobody has tampered with its
    log."""
    show_audit_log(read_settings(settings).audit_path, verify, head, since)


def _backups() -> tuple[Back, Restore]:
    from deniable.aggregator.operations.backup import (  # noqa: PLC0415 - loads HTTP
        back_up_aggregator,
        restore_aggregator,
    )

    return back_up_aggregator, restore_aggregator


add_backup_commands(aggregator, "aggregator", _backups)
