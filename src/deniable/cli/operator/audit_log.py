"""What `deniable aggregator audit` and `deniable proxy audit` have in common."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from deniable.cli.output import emit, output_format, output_options, say
from deniable.cli.tables import TextTable
from deniable.errors import AuditLogError
from deniable.queries.times import moment
from deniable.service.audit_log import read_events
from deniable.service.files.chained_lines import Head, verify_file

__all__ = ["audit_options", "show_audit_log"]


def audit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--verify`, `--head`, `--start`, `--json` and `--csv`."""
    command = output_options(command)
    command = click.option(
        "--start", "since", help="Show events from this time on (ISO 8601, UTC)."
    )(command)
    command = click.option(
        "--head", help="With --verify: a head NUMBER:HASH that was published earlier."
    )(command)
    return click.option(
        "--verify", is_flag=True, help="Verify the hash chain; exit code 1 if it is broken."
    )(command)


def show_audit_log(path: Path, verify: bool, head: str | None, since: str | None) -> None:
    """Print the events of an audit log, or whether it verifies."""
    if not path.exists():
        raise AuditLogError(f"{path} does not exist: the service has never run with these settings")
    if verify:
        _verify(path, head)
        return
    events = list(read_events(path, None if since is None else moment("--start", since)))
    emit(events, lambda: _event_table(events) if events else "No event is recorded.")


def _event_table(events: list[dict[str, Any]]) -> TextTable:
    rows = []
    for event in events:
        details = " ".join(
            f"{name}={_plain(value)}" for name, value in event.get("details", {}).items()
        )
        rows.append(
            (
                event["time"],
                event.get("event", ""),
                event.get("actor", ""),
                event.get("subject", ""),
                details,
            )
        )
    return TextTable(("time", "event", "actor", "subject", "details"), rows, [False] * 5)


def _plain(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value)


def _verify(path: Path, head: str | None) -> None:
    verdict = verify_file(path, [] if head is None else [Head.parse("--head", head)])
    n = verdict.head.lines
    shown = (
        [f"{path}: {n} line{'' if n == 1 else 's'}, the chain verifies. Head: {verdict.head}"]
        if verdict.verifies
        else []
    )
    if shown and verdict.unfinished:
        shown.append(
            f"The last {verdict.unfinished} bytes are a line that was being written; the next"
            " writer repairs it."
        )
    found = {"verifies": verdict.verifies, "head": str(verdict.head), "faults": verdict.faults}
    emit({**found, "unfinished_bytes": verdict.unfinished}, shown)
    for fault in verdict.faults if output_format() == "text" else ():
        say(f"{path}: {fault}", err=True)
    if not verdict.verifies:
        sys.exit(1)
