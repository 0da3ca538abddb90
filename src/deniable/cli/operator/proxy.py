"""`deniable proxy`: run a proxy and manage who may use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

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
from deniable.cli.operator.settings_templates import PROXY
from deniable.cli.output import emit, output_options, say
from deniable.cli.tables import TextTable
from deniable.errors import ParameterError
from deniable.logs.kafka_settings import KafkaSettings, require_client
from deniable.logs.sqlite_log import LogReader
from deniable.proxy.enrolment import add_invitations, invite
from deniable.proxy.settings import ProxySettings, read_settings
from deniable.queries.schedule import duration
from deniable.queries.times import moment
from deniable.service.audit_log import OPERATOR, AuditLog
from deniable.service.tokens import ROLES, Bound, Role, TokenStore, token_hash

__all__ = ["proxy"]


@group()
def proxy() -> None:
    """Run a proxy: it receives shares from devices, mixes them, and passes them on. It cannot read
    them."""


@proxy.command()
@FILE
@click.option("--folder", help="Where it keeps its files [default: FILE with the ending .data].")
@click.option("--ring", help="A key ring: relay only queries that are signed by one of its keys.")
@click.option(
    "--kafka", "bootstrap", help="Brokers, host:port: the log is a Kafka topic instead of a file."
)
@click.option("--topic", default="shares", show_default=True, help="The topic; with --kafka.")
@endpoint_options(8600)
def new(
    file: Path,
    folder: str | None,
    ring: str | None,
    bootstrap: str | None,
    topic: str,
    host: str,
    port: int,
    certificate: str | None,
    key: str | None,
) -> None:
    """Write commented settings to FILE, which must not exist yet."""
    write_settings(
        file,
        PROXY,
        f"deniable proxy token add {file} --role operator; deniable proxy check {file}; deniable"
        f" proxy run {file}",
        folder=quoted(folder or file.with_suffix(".data").name),
        host=quoted(host),
        port=str(port),
        ring='# ring = "ring.json"' if ring is None else f"ring = {quoted(ring)}",
        tls=tls_table(certificate, key),
        kafka=_kafka_table(bootstrap, topic),
    )


def _kafka_table(bootstrap: str | None, topic: str) -> str:
    mark = "# " if bootstrap is None else ""
    lines = [
        f"{mark}[kafka]  # the log is a topic, not a file in the folder (docs/kafka.md)",
        f"{mark}bootstrap = {quoted(bootstrap or 'kafka.example:9092')}",
        f"{mark}topic = {quoted(topic)}",
        "# partitions = 16  # a power of two",
        (
            "# replication = -1  # how many brokers keep a copy, when the topic is made; -1 for"
            " what the cluster does by default"
        ),
        "# options = {}  # of librdkafka, such as those of TLS and SASL",
        (
            "# secrets = {}  # options whose value is secret: 'file:PATH' or 'env:NAME' says where"
            " it is"
        ),
        "",
    ]
    return "\n".join(lines)


@proxy.command()
@FILE
def run(file: Path) -> None:
    """Run the proxy of the settings in FILE until it is stopped. Log lines go to standard error, as
    JSON."""
    with opened_settings(file, ProxySettings, "a proxy") as settings:
        from deniable.proxy.operations.process import serve  # noqa: PLC0415 - an extra

        if not serve(settings, lambda address: say(f"listening on {address}")):
            raise click.ClickException(
                "The disk or the log failed; nothing that was acknowledged is lost."
            )


def _check(settings: ProxySettings, found: Any, url: str | None) -> None:
    from deniable.proxy.operations.check import check_proxy  # noqa: PLC0415 - an extra

    check_proxy(settings, found, url)


def _check_origin(settings: ProxySettings, found: Any, url: str | None, origin: str) -> None:
    from deniable.proxy.operations.origin_check import check_origin  # noqa: PLC0415 - an extra

    check_origin(settings, found, url, origin)


add_settings_commands(proxy, ProxySettings, _check, _check_origin)


def _bound_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that bind a device's token to one query."""
    for option in (
        click.option("--end", help="With --query: until when, a time such as 2027-01-01."),
        click.option("--uses", type=int, help="With --query: messages in all."),
        click.option(
            "--query",
            help=(
                "The id of the one query that the token is good for. It is deleted with the query."
            ),
        ),
    ):
        command = option(command)
    return command


def _bound(query: str | None, uses: int | None, end: str | None) -> Bound | None:
    if query is None:
        for name, given in (("--uses", uses), ("--end", end)):
            if given is not None:
                raise ParameterError(name, given, "must be given with --query")
        return None
    return Bound(query, uses, None if end is None else moment("--end", end))


@proxy.command("invite")
@FILE
@click.option("--count", type=int, default=1, show_default=True, help="How many invitations.")
@click.option("--within", default="30 d", show_default=True, help="How long they are good for.")
@click.option(
    "--codes",
    type=click.Path(path_type=Path),
    help="Take the codes in this file, one per line, instead of making them (deniable poll codes).",
)
@_bound_options
@output_options
def invite_command(file: Path, count: int, within: str, codes: Path | None, **limits: Any) -> None:
    """Create invitations for the proxy of FILE and print them, one per line. Each is good for one
    device's token, once.

    Give a person one invitation of each proxy. Nothing in them reveals which belong together.
    """
    settings = read_settings(file)
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    until = int(time.time()) + duration("within", within)
    if codes is not None:
        given = codes.read_text(encoding="utf-8").split()
        added = add_invitations(settings.folder, given, until, _bound(**limits))
        old = len(given) - added
        known = f" {old:,} were added before, and stay as they are." if old else ""
        emit({"added": added, "known": old}, f"Added {added:,} invitations.{known}")
        return
    made = list(invite(settings.folder, count, until, _bound(**limits)))
    emit({"invitations": made}, made)


@proxy.group()
def token() -> None:
    """Say who may use a proxy. A running proxy follows at once."""


def _book(settings: ProxySettings) -> TokenStore:
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return TokenStore(settings.folder / "tokens.db")


@contextmanager
def _recording(file: Path) -> Iterator[tuple[TokenStore, AuditLog]]:
    """The tokens of a proxy, and the log in which changes to them are recorded before they are
    committed."""
    settings = read_settings(file)
    book = _book(settings)
    log = AuditLog(settings.audit_path)
    try:
        yield book, log
    finally:
        log.close()
        book.close()


@token.command()
@FILE
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="device",
    show_default=True,
    help="What its holder may do.",
)
@click.option(
    "--quota",
    type=int,
    help="Messages per epoch and channel [default: what the queries allow a device].",
)
@click.option("--count", type=int, default=1, show_default=True, help="How many tokens.")
@click.option(
    "--label", default="", help="What the token is called in lists, such as 'aggregator'."
)
@_bound_options
@output_options
def add(file: Path, role: Role, quota: int | None, count: int, label: str, **limits: Any) -> None:
    """Create tokens for the proxy of FILE and print them, one per line. They are shown this once:
    only their hashes are kept.

    The id of a single token, which `revoke` takes, goes to standard error.
    """
    with _recording(file) as (book, log):

        def record(ids: Sequence[str]) -> None:
            named = {
                "role": role,
                **({"label": label} if label else {}),
                **({"count": count} if count > 1 else {}),
            }
            log.record(
                "token.made",
                actor=OPERATOR,
                subject=f"token:{ids[0]}" if count == 1 else "tokens",
                **named,
            )

        tokens = book.add(role, quota, count, label, record, _bound(**limits))
    made = [{"token": each, "id": token_hash(each).hex()[:16], "role": role} for each in tokens]
    emit(made, list(tokens))
    if count == 1:
        made_id = made[0]["id"]
        say(
            f"Token {made_id}, role {role}. Revoke it with  deniable proxy token revoke {file}"
            f" {made_id}",
            err=True,
        )


@token.command("list")
@FILE
@output_options
def list_tokens(file: Path) -> None:
    """Show the tokens of the proxy of FILE: id, role, quota, when made, the day of the last use
    (not of devices), and label."""
    book = _book(read_settings(file))
    rows = book.listed()
    book.close()
    emit(rows, lambda: _token_table(rows) if rows else "There are no tokens.")


def _token_table(rows: list[dict[str, Any]]) -> TextTable:
    shown = [
        (
            row["id"],
            row["role"],
            str(row["quota"] or "as queries allow"),
            row["made"][:10] if row["made"] else "by an earlier version",
            row["last_used"] or "",
            row["label"],
        )
        for row in rows
    ]
    return TextTable(
        ("token", "role", "quota", "created", "last used", "label"), shown, [False] * 6
    )


@token.command()
@FILE
@click.argument("token_id")
@output_options
def revoke(file: Path, token_id: str) -> None:
    """Forget the tokens of the proxy of FILE whose id starts with TOKEN_ID."""
    with _recording(file) as (book, log):

        def record(ids: Sequence[str]) -> None:
            for each in ids:
                log.record("token.revoked", actor=OPERATOR, subject=f"token:{each}")

        revoked = list(book.revoke(token_id, record))
    if not revoked:
        raise ParameterError(
            "TOKEN_ID", token_id, "matches no token; `deniable proxy token list` shows them"
        )
    emit({"revoked": revoked}, f"{len(revoked)} token{'' if len(revoked) == 1 else 's'} revoked")


@proxy.command()
@FILE
@audit_options
def audit(file: Path, verify: bool, head: str | None, since: str | None) -> None:
    """Show what the proxy of FILE and its operator did, or check that nobody has tampered with its
    log."""
    show_audit_log(read_settings(file).audit_path, verify, head, since)


@proxy.command("log")
@FILE
@output_options
def show_log(file: Path) -> None:
    """Show how far the log of the proxy of FILE goes, and which epochs of each channel are
    closed."""
    settings = read_settings(file)
    facts = _of_topic(settings.kafka) if settings.kafka else _of_file(settings.folder / "log.db")
    lines = [f"log {facts['identity']}: offsets {facts['first_offset']} to {facts['last_offset']}"]
    for channel, mark in facts["channels"].items():
        at = f", at offset {mark['offset']}" if "offset" in mark else ""
        lines.append(f"  channel {channel}: epochs before {mark['closed_before']} are closed{at}")
    emit(facts, lines)


def _of_file(path: Path) -> dict[str, Any]:
    reader = LogReader(path)
    marks = {
        f"{mark.channel:016x}": {"closed_before": mark.epoch, "offset": mark.offset}
        for mark in reader.marks().values()
    }
    facts = {
        "identity": reader.identity,
        "first_offset": reader.dropped + 1,
        "last_offset": reader.end,
        "channels": marks,
    }
    reader.close()
    return facts


def _of_topic(settings: KafkaSettings) -> dict[str, Any]:
    require_client()
    from deniable.logs.kafka_log import overview  # noqa: PLC0415 - an extra

    seen = overview(settings)
    marks = {f"{channel:016x}": {"closed_before": epoch} for channel, epoch in seen.closed.items()}
    facts = {"identity": seen.identity, "topic": settings.topic, "channels": marks}
    return {
        **facts,
        "first_offset": list(seen.firsts),
        "last_offset": [end - 1 for end in seen.ends],
    }


def _backups() -> tuple[Back, Restore]:
    from deniable.proxy.operations.backup import back_up_proxy, restore_proxy  # noqa: PLC0415 - for these commands alone

    return back_up_proxy, restore_proxy


add_backup_commands(proxy, "proxy", _backups)
