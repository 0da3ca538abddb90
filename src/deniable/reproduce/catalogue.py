"""All experiments, by name, and the page made from their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deniable.errors import ParameterError, SurveyError
from deniable.reproduce.experiment import Experiment
from deniable.reproduce.kept import KeptRun
from deniable.reproduce.papers import (
    galanis,
    galanis_histograms,
    galanis_local,
    galanis_users,
    lavengood,
    lavengood_pairs,
    lavengood_tweets,
    published,
    quoc,
    quoc_history,
    quoc_scale,
    quoc_speed,
    quoc_streams,
    steephenson,
    wang,
    wang_graphs,
)

__all__ = ["EXPERIMENTS", "chosen", "page_of", "write_page"]

EXPERIMENTS: Mapping[str, Experiment] = {
    experiment.name: experiment
    for module in (
        quoc,
        quoc_streams,
        quoc_history,
        quoc_speed,
        quoc_scale,
        lavengood,
        lavengood_tweets,
        lavengood_pairs,
        wang,
        wang_graphs,
        galanis,
        galanis_histograms,
        galanis_local,
        galanis_users,
        steephenson,
        published,
    )
    for experiment in module.EXPERIMENTS
}


def chosen(names: tuple[str, ...]) -> list[Experiment]:
    """The experiments with these names; a name may be a prefix of several, such as `galanis` or
    `quoc-figure-4`."""
    out: dict[str, Experiment] = {}
    for name in names:
        found = {
            key: experiment
            for key, experiment in EXPERIMENTS.items()
            if key == name or key.startswith(f"{name}-")
        }
        found = found or {
            key: experiment for key, experiment in EXPERIMENTS.items() if key.startswith(name)
        }
        if not found:
            raise ParameterError(
                "name", name, "is not an experiment; see deniable reproduce --list"
            )
        out.update(found)
    return list(out.values())


def write_page(runs: Mapping[str, KeptRun], page: Path, pictures: Path) -> None:
    """Write the page of these runs."""
    try:
        page.write_text(page_of(runs, page, pictures), encoding="utf-8")
    except OSError as error:
        raise SurveyError(f"{page} cannot be written: {error.strerror}") from None


def page_of(runs: Mapping[str, KeptRun], page: Path, pictures: Path) -> str:
    """A Markdown page: one row per table or figure, and below it every finding with its picture."""
    outcomes = {name: run.outcome(EXPERIMENTS[name]) for name, run in runs.items()}
    lines = [
        *_HEAD,
        "| paper | table or figure | name | verdicts |",
        "|---|---|---|---|",
    ]
    for name, outcome in outcomes.items():
        experiment = EXPERIMENTS[name]
        lines.append(
            f"| {experiment.paper} | {experiment.title} | [`{name}`](#{name.replace('.', '')}) |"
            f" {outcome.verdict} |"
        )
    folder = Path(pictures.name) if page.parent == pictures.parent else pictures
    for name, outcome in outcomes.items():
        experiment = EXPERIMENTS[name]
        lines += ["", f"## {name}", "", f"{experiment.paper}: {experiment.title}.", ""]
        if outcome.settings:
            plain = (f"{key} = {_plain(value)}" for key, value in outcome.settings.items())
            lines += [", ".join(plain) + ".", ""]
        if experiment.timed:
            lines += [runs[name].machine(), ""]
        elif not experiment.seeded:
            lines += ["The noise is OpenDP's, which no seed repeats.", ""]
        lines += [
            "| | paper | by the paper's method | ours | verdict | note |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in finding.row) + " |"
            for finding in outcome.findings
        ]
        lines += ["", f"![{experiment.title}]({(folder / f'{name}.png').as_posix()})"]
    return "\n".join(lines) + "\n"


_HEAD = """# The papers, regenerated

Each row is one command, `deniable reproduce NAME`. The figures of a full run are kept in
`docs/reproduction`; this page is computed from them by `deniable reproduce --kept docs/reproduction
--page docs/reproduction.md`, and a test fails when settings, code and page disagree.

Verdicts are computed. A printed number is compared with the same number found *by the paper's
method*: they *agree* if they differ by no more than three standard errors (of both sides, after ±)
and a unit of the last printed digit, and *differ* otherwise. Where this library computes something
else, that stands under *ours* and does not count. A figure that a parameter was fitted to is
*fitted*. A figure that needs another machine, or is so vague that nearly anything would agree with
it, is *not measured*. What a paper says in words *holds* in the figures or *does not hold*.
""".splitlines()


def _plain(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(_plain(item) for item in value) + "]"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
