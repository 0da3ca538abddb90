"""`deniable reproduce`: the papers' tables and figures, recomputed."""

from __future__ import annotations

import os
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
from deniable.reproduce.kept import KeptRun

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
    help="Write a CSV file, a picture (SVG and PNG) and the kept run of each to this folder.",
)
@click.option(
    "--page",
    type=_PATH,
    metavar="FILE.md",
    help="Write a page with all verdicts; needs --output or --kept for its pictures.",
)
@click.option(
    "--kept",
    type=_PATH,
    metavar="DIR",
    help="Judge the runs kept in this folder again, instead of running anything.",
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
    kept: Path | None,
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
    if kept is not None:
        _judge_again(kept, chosen(names) if names else list(EXPERIMENTS.values()), page)
        return
    if every == bool(names):
        raise ParameterError("names", list(names), "must be given, or --all, or --list")
    if page is not None and out is None:
        raise ParameterError("page", str(page), "needs --output for the pictures")
    experiments = list(EXPERIMENTS.values()) if every else chosen(names)
    runs: dict[str, KeptRun] = {}
    for experiment in experiments:
        started, load = time.perf_counter(), os.getloadavg()[0]
        with progress_bar(experiment.name) as progress:
            outcome = experiment(Context(seed, data, progress), quick=quick)
        run = runs[experiment.name] = KeptRun.of(outcome, seed, load)
        if out is not None:
            experiment.write(outcome, out)
            run.write(out / f"{experiment.name}.json")
        if output_format() == "text":  # one after the other, because each may take minutes
            show(_parts(experiment, outcome, time.perf_counter() - started))
    if page is not None and out is not None:
        write_page(runs, page, out)
    said = f"Wrote {4 * len(runs)} files to {out}."
    documents = {
        name: _document(EXPERIMENTS[name], run.outcome(EXPERIMENTS[name]))
        for name, run in runs.items()
    }
    emit(documents, said if out is not None else [])


def _judge_again(folder: Path, experiments: list[Experiment], page: Path | None) -> None:
    """Pictures, page and verdicts of kept runs, as the code judges them now."""
    runs = {each.name: KeptRun.read(folder / f"{each.name}.json") for each in experiments}
    outcomes = {each.name: runs[each.name].outcome(each) for each in experiments}
    for each in experiments:
        each.write_pictures(outcomes[each.name], [folder / f"{each.name}.png"])
    if page is not None:
        write_page(runs, page, folder)
    documents = {name: _document(EXPERIMENTS[name], each) for name, each in outcomes.items()}
    rows = [(name, each.verdict) for name, each in outcomes.items()]
    emit(documents, TextTable(("experiment", "verdicts"), rows))


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
        headings = ("verdict", "figure", "paper", "by its method", "ours", "note")
        rows = [
            (verdict, name, paper, found, ours, note if verdict != "agrees" else "")
            for name, paper, found, ours, verdict, note in numbers
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
    names = ("name", "paper", "by_the_papers_method", "ours", "verdict", "note")
    findings = [dict(zip(names, finding.row, strict=True)) for finding in outcome.findings]
    return {
        "paper": experiment.paper,
        "title": experiment.title,
        "verdict": outcome.verdict,
        "findings": findings,
    }
