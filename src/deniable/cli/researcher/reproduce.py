"""`deniable reproduce`: the papers' tables and figures, recomputed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from deniable.cli.helping import command
from deniable.cli.output import Part, emit, output_format, output_options, progress_bar, show
from deniable.cli.tables import TextTable
from deniable.errors import ParameterError
from deniable.reproduce.catalogue import EXPERIMENTS, chosen, write_page
from deniable.reproduce.experiment import Claim, Compared, Context, Experiment, ExperimentOutcome

_PATH = click.Path(path_type=Path)


@command()
@click.argument("names", nargs=-1)
@click.option("--list", "listed", is_flag=True, help="List the experiments.")
@click.option("--all", "every", is_flag=True, help="Run all of them.")
@click.option(
    "--output",
    "out",
    type=_PATH,
    metavar="DIR",
    help="Write a CSV file and a picture (SVG and PNG) of each to this folder.",
)
@click.option(
    "--page",
    type=_PATH,
    metavar="FILE.md",
    help="Write a page with all verdicts; needs --output for its pictures.",
)
@click.option(
    "--quick", is_flag=True, help="Use smaller crowds and fewer repetitions: seconds, not minutes."
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the data and of all coins except OpenDP's.",
)
@click.option(
    "--data",
    type=_PATH,
    metavar="FILE",
    help="The real data, if you have them; docs/papers.md lists their columns.",
)
@output_options
def reproduce(
    names: tuple[str, ...],
    listed: bool,
    every: bool,
    out: Path | None,
    page: Path | None,
    quick: bool,
    seed: int,
    data: Path | None,
) -> None:
    """Recompute the papers' tables and figures, ours beside theirs, with a verdict.

    NAMES are those that --list shows, or prefixes of them: `deniable reproduce galanis
    quoc-table-1`.
    """
    if listed:
        _list()
        return
    if every == bool(names):
        raise ParameterError("names", list(names), "must be given, or --all, or --list")
    if page is not None and out is None:
        raise ParameterError("page", str(page), "needs --output for the pictures")
    experiments = list(EXPERIMENTS.values()) if every else chosen(names)
    outcomes: dict[str, ExperimentOutcome] = {}
    for experiment in experiments:
        started = time.perf_counter()
        with progress_bar(experiment.name) as progress:
            outcome = experiment(Context(seed, data, progress), quick=quick)
        outcomes[experiment.name] = outcome
        if out is not None:
            experiment.write(outcome, out)
        if output_format() == "text":  # one after the other, because each may take minutes
            show(_parts(experiment, outcome, time.perf_counter() - started))
    if page is not None and out is not None:
        write_page(outcomes, page, out)
    said = f"Wrote {3 * len(outcomes)} files to {out}."
    emit(
        {name: _document(EXPERIMENTS[name], outcome) for name, outcome in outcomes.items()},
        said if out is not None else [],
    )


def _list() -> None:
    known = list(EXPERIMENTS.values())
    rows = [(each.name, f"{each.paper}: {each.title}") for each in known]
    documents = [
        {"name": each.name, "paper": each.paper, "title": each.title, "reads": each.reads}
        for each in known
    ]
    emit(documents, TextTable(("experiment", "what it recomputes"), rows))


def _parts(experiment: Experiment, outcome: ExperimentOutcome, seconds: float) -> list[Part]:
    head = (
        f"{experiment.name}: {experiment.paper}, {experiment.title} ({outcome.verdict};"
        f" {seconds:.1f} s)"
    )
    parts: list[Part] = [head]
    numbers = [finding.row for finding in outcome.findings if isinstance(finding, Compared)]
    if numbers:
        headings = ("verdict", "figure", "paper", "ours", "difference", "note")
        rows = [
            (verdict, name, paper, ours, difference, note if verdict != "agrees" else "")
            for name, paper, ours, difference, verdict, note in numbers
        ]
        if not any(row[-1] for row in rows):
            headings, rows = headings[:-1], [row[:-1] for row in rows]  # type: ignore[assignment, misc]
        parts.append(
            TextTable(
                headings, rows, [False, False, True, True, True, False][: len(headings)], indent=2
            )
        )
    claims = [
        (
            finding.verdict,
            " ".join(
                [finding.text, finding.evidence, "" if finding.holds else finding.note]
            ).strip(),
        )
        for finding in outcome.findings
        if isinstance(finding, Claim)
    ]
    if claims:
        parts.append(TextTable(("verdict", "claim"), claims, indent=2))
    return [*parts, ""]


def _document(experiment: Experiment, outcome: ExperimentOutcome) -> dict[str, Any]:
    names = ("name", "paper", "ours", "difference", "verdict", "note")
    findings = [dict(zip(names, finding.row, strict=True)) for finding in outcome.findings]
    return {
        "paper": experiment.paper,
        "title": experiment.title,
        "verdict": outcome.verdict,
        "findings": findings,
    }
