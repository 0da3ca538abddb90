"""`deniable reproduce`: the papers' tables and figures, recomputed."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any

import click

from deniable.cli.output import as_json, progress_bar, say
from deniable.errors import ParameterError
from deniable.reproduce.catalogue import EXPERIMENTS, chosen, write_page
from deniable.reproduce.experiment import Claim, Compared, Context, Experiment, Outcome

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("names", nargs=-1)
@click.option("--list", "listed", is_flag=True, help="List the experiments.")
@click.option("--all", "every", is_flag=True, help="Run all of them.")
@click.option("--out", type=_PATH, metavar="DIR", help="Write a CSV file and a picture (SVG and PNG) of each to this folder.")
@click.option("--page", type=_PATH, metavar="FILE.md", help="Write a page with all verdicts; needs --out for its pictures.")
@click.option("--quick", is_flag=True, help="Use smaller crowds and fewer repetitions: seconds, not minutes.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the data and of all coins except OpenDP's.")
@click.option("--data", type=_PATH, metavar="FILE", help="The real data, if you have them; docs/papers.md lists their columns.")
@click.option("--json", "as_json_", is_flag=True, help="Print one JSON object.")
def reproduce(
    names: tuple[str, ...],
    listed: bool,
    every: bool,
    out: Path | None,
    page: Path | None,
    quick: bool,
    seed: int,
    data: Path | None,
    as_json_: bool,
) -> None:
    """Recompute the papers' tables and figures, ours beside theirs, with a verdict.

    NAMES are those that --list shows, or prefixes of them: `deniable reproduce galanis quoc-table-1`.
    """
    if listed:
        _list(as_json_)
        return
    if every == bool(names):
        raise ParameterError("names", list(names), "must be given, or --all, or --list")
    if page is not None and out is None:
        raise ParameterError("page", str(page), "needs --out for the pictures")
    experiments = list(EXPERIMENTS.values()) if every else chosen(names)
    outcomes: dict[str, Outcome] = {}
    for experiment in experiments:
        started = time.perf_counter()
        with progress_bar(experiment.name) as progress:
            outcome = experiment(Context(seed, data, progress), quick=quick)
        outcomes[experiment.name] = outcome
        if out is not None:
            experiment.write(outcome, out)
        if not as_json_:
            _show(experiment, outcome, time.perf_counter() - started)
    if page is not None and out is not None:
        write_page(outcomes, page, out)
    if as_json_:
        say(as_json({name: _document(EXPERIMENTS[name], outcome) for name, outcome in outcomes.items()}))
    elif out is not None:
        say(f"Wrote {3 * len(outcomes)} files to {out}.")


def _list(as_json_: bool) -> None:
    if as_json_:
        say(as_json([{"name": e.name, "paper": e.paper, "title": e.title, "reads": e.reads} for e in EXPERIMENTS.values()]))
        return
    width = max(map(len, EXPERIMENTS))
    for experiment in EXPERIMENTS.values():
        say(f"{experiment.name:<{width}}  {experiment.paper}: {experiment.title}")


def _show(experiment: Experiment, outcome: Outcome, seconds: float) -> None:
    say(f"{experiment.name}: {experiment.paper}, {experiment.title} ({outcome.verdict}; {seconds:.1f} s)")
    numbers = [finding.row for finding in outcome.findings if isinstance(finding, Compared)]
    width = max((len(row[0]) for row in numbers), default=0)
    if numbers:
        say(f"  {'':<13} {'':<{width}} {'paper':>12} {'ours':>12} {'difference':>12}")
    for name, paper, ours, difference, verdict, note in numbers:
        say(f"  {verdict:<13} {name:<{width}} {paper:>12} {ours:>12} {difference:>12}")
        _indent(note if verdict != "agrees" else "")
    for finding in outcome.findings:
        if isinstance(finding, Claim):
            say(f"  {finding.verdict:<13} {finding.text}")
            _indent(finding.evidence)
            _indent("" if finding.holds else finding.note)
    say()


def _indent(text: str) -> None:
    if text:
        say(textwrap.fill(text, 110, initial_indent=" " * 18, subsequent_indent=" " * 18))


def _document(experiment: Experiment, outcome: Outcome) -> dict[str, Any]:
    names = ("name", "paper", "ours", "difference", "verdict", "note")
    findings = [dict(zip(names, finding.row, strict=True)) for finding in outcome.findings]
    return {"paper": experiment.paper, "title": experiment.title, "verdict": outcome.verdict, "findings": findings}
