"""`deniable proxy`: run a proxy, and say who may use it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from deniable.cli.audit_log import audit_options, show_audit_log
from deniable.cli.output import say, write_new
from deniable.errors import MissingExtraError, ServiceError
from deniable.logs.kafka_settings import KafkaSettings, require_client
from deniable.logs.sqlite_log import LogReader
from deniable.proxy.enrolment import invite
from deniable.proxy.proxy_settings import Settings, read_settings
from deniable.queries.schedule import duration
from deniable.service.tokens import ROLES, Role, TokenStore

__all__ = ["proxy"]

_TEMPLATE = """\
# Settings of a proxy for deniable. `deniable proxy run {file}` starts it.

folder = "{folder}"          # log, spool, tokens and queries; for the proxy's eyes only
host = "127.0.0.1"
port = 8600
# ring = "ring.json"         # relay only queries that are signed by a key of this ring

[intake]
threshold = 4096             # so many shares of a channel and epoch are mixed and passed on at once
deadline = "10 s"            # or fewer, when one of them has waited so long
grace = "10 min"             # how long after its end an epoch stays open
skew = "60 s"                # how far a device's clock may be ahead
retention = "7 d"            # how long blocks stay in the log

[limits]
largest_body = 4194304       # bytes of one upload
most_uploads_per_token = 32  # at a time
body_deadline = "30 s"
header_deadline = "10 s"
most_connections = 1000

[enrolment]
mode = "closed"              # "open", "invitation" or "ticket": how devices get tokens over HTTP (docs/proxy.md)
per_hour_and_address = 20    # tokens for one network address
per_second = 50              # for all together

# [tls]
# certificate = "proxy.pem"
# key = "proxy.key"

# [kafka]                    # the log is a topic of Kafka, not a file in the folder: docs/kafka.md
# bootstrap = "kafka.example:9092"
# topic = "shares"
"""
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def proxy() -> None:
    """Run a proxy: it takes shares from devices, mixes them, and passes them on. It cannot read them."""


@proxy.command()
@_FILE
def new(file: Path) -> None:
    """Write commented settings to FILE."""
    write_new(file, _TEMPLATE.format(file=file.name, folder=file.with_suffix(".data").name), ServiceError)
    say(f"wrote {file}: edit it, then run  deniable proxy token add {file}  and  deniable proxy run {file}")


@proxy.command()
@_FILE
def run(file: Path) -> None:
    """Run the proxy of the settings in FILE until it is stopped. Log lines go to standard error, as JSON."""
    settings = read_settings(file)
    try:
        from deniable.proxy.proxy_process import serve  # noqa: PLC0415 - needs the extra `service`
    except ImportError as error:
        raise MissingExtraError(str(error.name), "service", "a proxy") from None
    if not serve(settings, lambda address: say(f"listening on {address}")):
        raise click.ClickException("the disk or the log failed; nothing that was acknowledged is lost")


@proxy.command("invite")
@_FILE
@click.option("--count", type=int, default=1, show_default=True, help="How many invitations.")
@click.option("--within", default="30 d", show_default=True, help="How long they are good for.")
def invite_command(file: Path, count: int, within: str) -> None:
    """Make invitations for the proxy of FILE and print them, one a line. Each is good for one device's token, once.

    Give a person one invitation of each proxy. Nothing in them tells which belong together.
    """
    settings = read_settings(file)
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for code in invite(settings.folder, count, int(time.time()) + duration("within", within)):
        say(code)


@proxy.group()
def token() -> None:
    """Say who may use a proxy. A running proxy follows at once."""


def _book(settings: Settings) -> TokenStore:
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return TokenStore(settings.folder / "tokens.db")


@token.command()
@_FILE
@click.option("--role", type=click.Choice(ROLES), default="device", show_default=True, help="What its holder may do.")
@click.option("--quota", type=int, help="Messages an epoch and channel; by default what the queries allow a device.")
@click.option("--count", type=int, default=1, show_default=True, help="How many tokens.")
def add(file: Path, role: Role, quota: int | None, count: int) -> None:
    """Make tokens for the proxy of FILE and print them, one a line. They are shown this once: only their hashes are kept."""
    book = _book(read_settings(file))
    for made in book.add(role, quota, count):
        say(made)
    book.close()


@token.command("list")
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def list_tokens(file: Path, as_json: bool) -> None:
    """Show the ids, roles and quotas of the tokens of the proxy of FILE."""
    book = _book(read_settings(file))
    rows = [{"id": each.id, "role": each.role, "quota": each.quota} for each in book.tokens()]
    book.close()
    if as_json:
        say(json.dumps(rows, indent=2))
        return
    for row in rows:
        say(f"{row['id']}  {row['role']:<8}  {row['quota'] or 'as queries allow'}")


@token.command()
@_FILE
@click.argument("token_id")
def revoke(file: Path, token_id: str) -> None:
    """Forget the tokens of the proxy of FILE whose id starts with TOKEN_ID."""
    book = _book(read_settings(file))
    n_revoked = book.revoke(token_id)
    book.close()
    say(f"{n_revoked} token{'' if n_revoked == 1 else 's'} revoked")


@proxy.command()
@_FILE
@audit_options
def audit(file: Path, verify: bool, head: str | None, since: str | None, as_json: bool) -> None:
    """Show what the proxy of FILE and its operator did, or check that nobody has changed the log of it."""
    show_audit_log(read_settings(file).audit_path, verify, head, since, as_json)


@proxy.command()
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def show(file: Path, as_json: bool) -> None:
    """Say how far the log of the proxy of FILE goes, and which epochs of each channel are closed."""
    settings = read_settings(file)
    facts = _of_topic(settings.kafka) if settings.kafka else _of_file(settings.folder / "log.db")
    if as_json:
        say(json.dumps(facts, indent=2))
        return
    say(f"log {facts['identity']}: offsets {facts['first_offset']} to {facts['last_offset']}")
    for channel, mark in facts["channels"].items():
        at = f", at offset {mark['offset']}" if "offset" in mark else ""
        say(f"  channel {channel}: epochs before {mark['closed_before']} are closed{at}")


def _of_file(path: Path) -> dict[str, Any]:
    reader = LogReader(path)
    marks = {f"{mark.channel:016x}": {"closed_before": mark.epoch, "offset": mark.offset} for mark in reader.marks().values()}
    facts = {"identity": reader.identity, "first_offset": reader.dropped + 1, "last_offset": reader.end, "channels": marks}
    reader.close()
    return facts


def _of_topic(settings: KafkaSettings) -> dict[str, Any]:
    require_client()
    from deniable.logs.kafka_log import overview  # noqa: PLC0415 - an extra

    seen = overview(settings)
    marks = {f"{channel:016x}": {"closed_before": epoch} for channel, epoch in seen.closed.items()}
    facts = {"identity": seen.identity, "topic": settings.topic, "channels": marks}
    return {**facts, "first_offset": list(seen.firsts), "last_offset": [end - 1 for end in seen.ends]}
