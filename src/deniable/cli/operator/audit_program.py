"""`deniable audit command`: the distinguishing game against any program."""

from __future__ import annotations

from typing import Any

import click

from deniable.audit.callables import audit_callable
from deniable.audit.findings import Audit
from deniable.audit.game import Progress
from deniable.audit.programs import Program
from deniable.checks import check_count
from deniable.cli.helping import command as help_command
from deniable.cli.operator.audit_runs import audit_options, run_audits

__all__ = ["audit_program"]


@help_command("command")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--claim", type=float, required=True, help="The epsilon that the program claims.")
@click.option(
    "--value",
    "values",
    multiple=True,
    help="A value to tell from the others; give at least two [default: 0 and 1].",
)
@click.option(
    "--restart",
    is_flag=True,
    help="Start the command again for every value, for one that is seeded when it starts.",
)
@click.option(
    "--timeout",
    type=float,
    default=60.0,
    show_default=True,
    help="Seconds that a report may take.",
)
@audit_options(100_000)
def audit_program(
    command: tuple[str, ...],
    claim: float,
    values: tuple[str, ...],
    restart: bool,
    timeout: float,
    **common: Any,
) -> None:
    """Audit any program that makes a report from a value: COMMAND, after --.

    It reads one value per line and writes one report per line, without delay. A library is audited
    by a few lines that call it in a loop. Exit code 1 if the claim is refuted.
    """
    n = check_count("n", common["n"])

    def run(progress: Progress | None) -> Audit:
        with Program(command, restart=restart, timeout=timeout) as program:
            return audit_callable(
                program, values or ("0", "1"), claim, n, common["confidence"], progress
            )

    shown = " ".join(command)
    run_audits(f"command {shown}", {"claim": claim, "n": n}, {shown: run}, common)
