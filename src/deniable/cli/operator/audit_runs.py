"""What all commands of `deniable audit` have in common: their options, how they are run and reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from deniable.audit.findings import Audit
from deniable.audit.game import Progress
from deniable.audit.statements import (
    make_statement,
    sign_statement,
    write_statement,
)
from deniable.cli.output import emit, output_format, output_options, progress_bar, say, show
from deniable.cli.researcher.plan import number
from deniable.errors import ParameterError
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey

__all__ = ["FILE", "NOT_HELD", "Run", "audit_options", "run_audits", "run_of"]


NOT_HELD = 1
"""The exit code of a check that did not hold."""
FILE = click.Path(dir_okay=False, path_type=Path)
Run = Callable[[Progress | None], Audit]


def audit_options(default_n: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that all audits have."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
            click.option(
                "--n-reports",
                "n",
                type=number,
                default=default_n,
                show_default=True,
                help="Reports to draw at most, per subject.",
            ),
            click.option(
                "--confidence",
                type=float,
                default=0.999,
                show_default=True,
                help="A true claim is refuted with probability at most 1 minus this.",
            ),
            click.option(
                "--report",
                type=FILE,
                help="Write a signed report to this file: .json, or .html to publish.",
            ),
            click.option(
                "--key", type=FILE, help="The key that signs the report (deniable query keygen)."
            ),
            output_options,
        ]
        for option in reversed(options):
            command = option(command)
        return command

    return add


def run_of(
    audit_it: Callable[..., Audit], subject: Any, n: int, claim: float | None, confidence: float
) -> Run:
    """An audit of one subject, to be run with a progress bar."""
    return lambda progress: audit_it(subject, n, claim, confidence, progress=progress)


def run_audits(
    what: str,
    parameters: Mapping[str, Any],
    runs: Mapping[str, Run],
    common: Mapping[str, Any],
    query: Query | None = None,
) -> None:
    """Run audits, print what they found, write the report if requested, and exit with the right
    code."""
    report, key = common["report"], common["key"]
    if (report is None) != (key is None):
        raise click.UsageError("--key and --report must be given together")
    signing = None if key is None else AnalystKey.load(key)
    if report is not None and report.suffix not in (".json", ".html"):
        raise ParameterError("--report", str(report), "must end in .json or .html")
    found: dict[str, Audit] = {}
    for name, run in runs.items():
        with progress_bar(name) as progress:
            found[name] = run(progress)
        if output_format() == "text":  # one after the other, because each may take minutes
            show(f"{'' if len(runs) == 1 else f'{name}: '}{found[name]}")
    holds = all(each.holds for each in found.values())
    emit({"holds": holds, "audits": {name: each.to_dict() for name, each in found.items()}}, [])
    if report is not None and signing is not None:
        asked = (
            None
            if query is None
            else {"id": query.id, "version": query.serial, "sha256": query.digest.hex()}
        )
        stated = {**parameters, "confidence": common["confidence"]}
        write_statement(
            report, sign_statement(make_statement(what, stated, found, asked, time.time()), signing)
        )
        say(f"Wrote {report}, signed with key {signing.public.id}.", err=True)
    if not holds:
        raise click.exceptions.Exit(NOT_HELD)
