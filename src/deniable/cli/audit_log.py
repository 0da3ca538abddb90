"""What `deniable aggregator audit` and `deniable proxy audit` have in common."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from deniable.cli.output import say
from deniable.errors import AuditLogError
from deniable.queries.times import moment
from deniable.service.audit_log import read_events
from deniable.service.chained_lines import Head, verify_file

__all__ = ["audit_options", "show_audit_log"]


def audit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--verify`, `--head`, `--since` and `--json`."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)
    command = click.option("--since", help="Show events from this time on (ISO 8601, UTC).")(command)
    command = click.option("--head", help="With --verify: a head NUMBER:HASH that was published earlier.")(command)
    return click.option("--verify", is_flag=True, help="Verify the hash chain; exit code 1 if it is broken.")(command)


def show_audit_log(path: Path, verify: bool, head: str | None, since: str | None, as_json: bool) -> None:
    """Print the events of an audit log, or whether it verifies."""
    if not path.exists():
        raise AuditLogError(f"{path} does not exist: the service has never run with these settings")
    if verify:
        _verify(path, head, as_json)
        return
    events = read_events(path, None if since is None else moment("--since", since))
    if as_json:
        say(json.dumps(list(events), indent=2))
        return
    for event in events:
        details = " ".join(f"{name}={_plain(value)}" for name, value in event.get("details", {}).items())
        line = (
            f"{event['time']}  {event.get('event', ''):<16}  {event.get('actor', ''):<22}  {event.get('subject', '')}  {details}"
        )
        say(line.rstrip())


def _plain(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value)


def _verify(path: Path, head: str | None, as_json: bool) -> None:
    verdict = verify_file(path, [] if head is None else [Head.parse("--head", head)])
    if as_json:
        found = {"verifies": verdict.verifies, "head": str(verdict.head), "faults": verdict.faults}
        say(json.dumps({**found, "unfinished_bytes": verdict.unfinished}, indent=2))
    elif verdict.verifies:
        n = verdict.head.lines
        say(f"{path}: {n} line{'' if n == 1 else 's'}, the chain verifies. Head: {verdict.head}")
        if verdict.unfinished:
            say(f"The last {verdict.unfinished} bytes are a line that was being written; the next writer repairs it.")
    else:
        for fault in verdict.faults:
            say(f"{path}: {fault}", err=True)
    if not verdict.verifies:
        sys.exit(1)
