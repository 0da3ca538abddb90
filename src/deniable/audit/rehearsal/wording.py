"""What a rehearsal says: a table, and a sentence or two for each scenario."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from deniable.aggregator.windows.window import COMPLETE
from deniable.display import pad, text_width
from deniable.queries.schedule import spoken_duration

if TYPE_CHECKING:
    from deniable.audit.rehearsal.rehearsal import Rehearsal, ScenarioOutcome
    from deniable.audit.rehearsal.scoring import Accuracy, LiarsOutcome

__all__ = ["heading_lines", "rehearsal_text", "scenario_findings", "scenario_rows", "verdict_text"]

_WIDTH = 110
_NOTICEABLE = 0.005


def _points(part: float, digits: int = 2) -> str:
    return f"{100 * part:.{digits}f}"


def verdict_text(outcome: ScenarioOutcome) -> str:
    """What to expect, what is lost, whether the ± can be believed."""
    return " ".join(text for _, text in _findings(outcome))


def _findings(outcome: ScenarioOutcome) -> list[tuple[str, str]]:
    found = [("you see", _seen(outcome)), ("lost", _lost(outcome))]
    if outcome.defects:
        found.insert(0, ("DEFECT", "; ".join(outcome.defects).capitalize() + "."))
    if outcome.liars is None:
        found.append(("the ±", _believed(outcome)))
        if outcome.accuracy is not None and outcome.accuracy.cv:
            found.append(("varies", _varies(outcome.accuracy)))
    else:
        found += [("moved", _moved(outcome.liars)), ("flagged", _flagged(outcome.liars))]
    return found


def _seen(outcome: ScenarioOutcome) -> str:
    total = sum(outcome.conditions.values())
    complete = outcome.conditions.get(COMPLETE, 0)
    last = (
        f"Last results come {spoken_duration(outcome.released)} after a window's end."
        if outcome.released
        else ""
    )
    thin = (
        f" {outcome.thin} of the complete ones lack more than a tenth of their answers and do not"
        " say so."
        if outcome.thin
        else ""
    )
    if complete == total:
        return f"All {total} windows are complete.{thin} {last}"
    others = ", ".join(
        f"{n} say {name!r}" for name, n in outcome.conditions.items() if name != COMPLETE
    )
    return f"{complete} of {total} windows are complete, {others}.{thin} {last}"


def _lost(outcome: ScenarioOutcome) -> str:
    part = max(outcome.lost, 0) / max(1, outcome.sent)
    late = f", {outcome.late:,} of them late" if outcome.late else ""
    words = [
        f"{outcome.lost:,} answers ({100 * part:.1f} %{late})" if outcome.lost > 0 else "No answer"
    ]
    if outcome.silent:
        words.append(
            f"{100 * outcome.silent:.1f} % of the people stay silent because their clock is wrong"
        )
    if outcome.resent:
        words.append(f"{outcome.resent:,} shares are sent again")
    if outcome.duplicates:
        words.append(f"{outcome.duplicates:,} repeated shares are recognised and not counted again")
    text = "; ".join(words) + "."
    missing = 1 - (1 - part) * (1 - outcome.silent)
    if missing > _NOTICEABLE:
        off = f"a proportion is off by up to {_points(missing, 1)} points more, and no ± shows it"
        text += f" The missing people answer like the others here; if they do not, {off}."
    return text


def _believed(outcome: ScenarioOutcome) -> str:
    found = outcome.accuracy
    if found is None:
        return "There is no estimate: too few answers are counted for the query's minimum cohort."
    covered = (
        f"{100 * found.coverage:.1f} % of {found.intervals:,} intervals contain the truth"
        f" (95 % are claimed; simulation error {_points(found.coverage_error, 1)})"
    )
    if found.biased:
        bias = f"{100 * found.bias:+.2f} points (simulation error {_points(found.bias_error)})"
        return (
            f"CANNOT be believed: the estimate of {found.bias_label!r} is off by {bias} on average."
            f" {covered}."
        )
    if found.covers_too_seldom:
        return f"CANNOT be believed: only {covered}."
    if found.covers_too_often:
        return f"Can be believed, and is wider than it need be: {covered}."
    return f"Can be believed, as far as this shows: {covered}."


def _varies(found: Accuracy) -> str:
    """The coefficients of variation of the label that varies least and of the one that varies
    most."""
    ends = {min(found.cv, key=found.cv.__getitem__), max(found.cv, key=found.cv.__getitem__)}
    shown = [
        f"{100 * found.cv[label]:.3g} % for {label!r}, where {100 * found.stated_cv[label]:.3g} %"
        " is stated"
        for label in sorted(ends, key=found.cv.__getitem__)
    ]
    spread = 100 / math.sqrt(2 * found.windows)
    return (
        f"Estimates vary by {', and by '.join(shown)} (coefficients of variation over"
        f" {found.windows} windows;"
        f" simulation error {spread:.2g} % of each)."
    )


def _moved(found: LiarsOutcome) -> str:
    part = 100 * found.reports / found.n if found.n else 0.0
    return (
        f"{found.liars:,} liars ({part:.1f} % of the reports) move {found.label!r} by"
        f" {100 * found.moved:+.2f} points (simulation error {_points(found.moved_error)});"
        f" whatever they send, by {_points(found.bound)} at most."
    )


def _flagged(found: LiarsOutcome) -> str:
    text = f"{found.flagged} of {found.windows} windows note that the reports are doubtful."
    if found.flagged_from is None:
        return (
            f"{text} Lies of this kind are never noted, not even if half of {found.flagged_of:,}"
            " reports are lies."
        )
    part = 100 * found.flagged_from / max(1, found.flagged_of)
    lies = f"{found.flagged_from:,} of {found.flagged_of:,} reports ({part:.2g} %)"
    return f"{text} Half of the windows do once about {lies} are lies."


def heading_lines(rehearsal: Rehearsal) -> list[str]:
    """What was rehearsed, and how that differs from the query as signed."""
    epochs = rehearsal.epochs_per_window
    return [
        (
            f"{rehearsal.query}: {rehearsal.people:,} simulated people, {rehearsal.windows} windows"
            f" of {epochs} epoch{'s' if epochs > 1 else ''} each, seed {rehearsal.seed}"
        ),
        *(f"  {note}" for note in rehearsal.notes),
    ]


def scenario_findings(outcome: ScenarioOutcome, windows: int) -> list[tuple[str, str]]:
    """What a scenario means, each with its title: what is seen and lost, whether the ± holds, what
    windows note."""
    noted = [
        ("noted", f"in {n} of {windows} windows, for example: {note}")
        for note, n in outcome.notes.items()
    ]
    return [*_findings(outcome), *noted]


def rehearsal_text(rehearsal: Rehearsal) -> str:
    """The whole rehearsal as text."""
    lines = [*heading_lines(rehearsal), "", *_table(rehearsal)]
    for outcome in rehearsal.outcomes:
        lines += ["", f"{outcome.name}: {outcome.happens}"]
        for title, text in scenario_findings(outcome, rehearsal.windows):
            lines += _paragraph(title, text)
    return "\n".join(lines)


def _paragraph(title: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=f"  {title:<9}", subsequent_indent=" " * 11)


def scenario_rows(rehearsal: Rehearsal) -> list[tuple[str, ...]]:
    """The headings, and a row for each scenario."""
    headings = (
        "scenario",
        "sent",
        "counted",
        "lost",
        "late",
        "repeated",
        "covered",
        "bias, points",
        "",
    )
    rows: list[tuple[str, ...]] = [headings]
    for each in rehearsal.outcomes:
        found = each.accuracy
        rows.append(
            (
                each.name,
                f"{each.sent:,}",
                f"{each.counted:,}",
                f"{each.lost:,}",
                f"{each.late:,}",
                f"{each.duplicates:,}",
                (
                    ""
                    if found is None
                    else f"{100 * found.coverage:.1f} ± {_points(1.96 * found.coverage_error, 1)} %"
                ),
                (
                    ""
                    if found is None
                    else f"{100 * found.bias:+.2f} ± {_points(1.96 * found.bias_error)}"
                ),
                (
                    "holds"
                    if each.holds and each.liars is None
                    else "poisoned"
                    if each.holds
                    else "FAILS"
                ),
            )
        )
    return rows


def _table(rehearsal: Rehearsal) -> list[str]:
    rows = scenario_rows(rehearsal)
    widths = [max(text_width(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(
            pad(text, widths[place], right=0 < place < len(row) - 1)
            for place, text in enumerate(row)
        ).rstrip()
        for row in rows
    ]
