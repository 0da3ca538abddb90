"""`deniable audit`: attack a mechanism, or the mechanisms of a survey, and fail if more is learnt than was claimed."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.audit.mechanisms import Audit, audit_mechanism
from deniable.cli.output import as_json, progress_bar, say
from deniable.cli.plan import number
from deniable.mechanisms.by_epsilon import BY_EPSILON, mechanism_by_name
from deniable.mechanisms.mechanism import Mechanism
from deniable.privacy.checks import check_count
from deniable.survey.columns import read_columns

__all__ = ["audit"]

_NOT_HELD = 1
"""The exit code of a check that did not hold."""


@click.group()
def audit() -> None:
    """Attack what is deployed, and fail if it gives away more than is claimed.

    Distinguishing games draw reports of two inputs, choose the event that tells them apart best on some of the reports, and
    count it in the others: a lower bound on epsilon, with the stated confidence.
    """


@audit.command("mechanism")
@click.argument("name")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The local epsilon the mechanism is made for.")
@click.option("--values", type=number, default=8, show_default=True, help="How many values it chooses from.")
@click.option("--claim", type=float, help="The epsilon to refute [default: the mechanism's own].")
@click.option("--n", type=number, default=1_000_000, show_default=True, help="Reports to draw at most.")
@click.option(
    "--confidence", type=float, default=0.999, show_default=True, help="A true claim is refuted no more often than 1 less this."
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def audit_one(name: str, epsilon: float, values: int, claim: float | None, n: int, confidence: float, wants_json: bool) -> None:
    """Audit the mechanism NAME, or `all` of them, with cryptographic coins.

    Exit code 1 if a claim is refuted.
    """
    names = BY_EPSILON if name == "all" else (name,)
    values = check_count("values", values)
    subjects = {
        each: mechanism_by_name(each, epsilon, 2 if each == "BinaryResponse" and name == "all" else values) for each in names
    }
    _run(subjects, claim, n, confidence, wants_json)


@audit.command("survey")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--n", type=number, default=1_000_000, show_default=True, help="Reports to draw at most, per column.")
@click.option(
    "--confidence", type=float, default=0.999, show_default=True, help="A true claim is refuted no more often than 1 less this."
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def audit_survey(file: Path, n: int, confidence: float, wants_json: bool) -> None:
    """Audit the mechanism of each column that FILE describes (the TOML that `deniable randomize` writes).

    Exit code 1 if a claim is refuted.
    """
    _run(read_columns(file), None, n, confidence, wants_json)


def _run(subjects: dict[str, Mechanism], claim: float | None, n: int, confidence: float, wants_json: bool) -> None:
    n = check_count("n", n)
    found: dict[str, Audit] = {}
    for name, mechanism in subjects.items():
        with progress_bar(name) as progress:
            found[name] = audit_mechanism(mechanism, n, claim, confidence, progress=progress)
        if not wants_json:
            say(f"{'' if len(subjects) == 1 else f'{name}: '}{found[name]}")
    if wants_json:
        say(as_json({"holds": all(each.holds for each in found.values()), "audits": {k: v.to_dict() for k, v in found.items()}}))
    if not all(each.holds for each in found.values()):
        raise click.exceptions.Exit(_NOT_HELD)
