"""`deniable demo --adaptive`: the error beside its target, and the parameters as they change."""

from __future__ import annotations

from typing import Any

from deniable.cli.output import emit, make_console, output_format
from deniable.local.adaptive import AdaptiveRun, AdaptiveStep

__all__ = ["run_adaptive"]

_WIDTH = 18
_NEAR = 1.2


def run_adaptive(people: int) -> None:
    """Run the loop, print one line per window, and say at the end how often the target was met."""
    run = AdaptiveRun(people, margin=round(0.035 * (4_000 / people) ** 0.5, 4))
    if output_format() != "text":
        emit(_document(run), [])
        return
    console = make_console(highlight=False)
    envelope = run.query.envelope
    assert envelope is not None  # noqa: S101 - the demonstration's query has one
    ranges = f"s {_span(envelope.sampling)}, p {_span(envelope.p)}, q {_span(envelope.q)}"
    for line in (
        f"deniable demo: a query that adapts, asked of {people:,} people.",
        'Once a minute for an hour, on a fast clock. The proportion of "yes" drifts from 2',
        "to 40 %, and half of the people leave after half an hour.",
        f"Target: ± {100 * run.margin:.2f} points. Envelope: {ranges};",
        (
            f"epsilon at most {envelope.epsilon_per_answer:g} per answer, {run.limit:g} in all. █"
            " is the error, │ the target."
        ),
        (
            f"{'window':>6} {'people':>6} {'truth':>7} {'estimate':>8} {'±':>5} {'error':<{_WIDTH}}"
            f" {'s':>5} {'p':>5} {'q':>5}"
        ),
    ):
        console.print(line, markup=False, soft_wrap=True)
    found = []
    for step in run.steps():
        found.append(step)
        if step.window is None:
            continue
        console.print(_line(step, run.margin), markup=False, soft_wrap=True)
        if step.change is not None:
            console.print(
                f"       version {step.change.serial}, signed: {step.change.after.words()}",
                style="bold",
                markup=False,
                soft_wrap=True,
            )
            console.print(f"       because {step.change.reason}", markup=False, soft_wrap=True)
    for line in _summary(run, found):
        console.print(line, markup=False, soft_wrap=True)


def _span(bounds: tuple[float, float] | None) -> str:
    return "as it is" if bounds is None else f"{bounds[0]:g} to {bounds[1]:g}"


def _line(step: AdaptiveStep, margin: float) -> str:
    window, recipe = step.window, step.query.recipe
    head = f"{window.index if window else '':>6} {step.people:>6,} {100 * step.truth:>5.1f} %"
    tail = f"{step.query.sampling:>5.3g} {recipe['p']:>5.3g} {recipe['q']:>5.3g}"
    if window is None or window.estimate is None or window.half_width is None:
        return f"{head} {'-':>8} {'-':>5} {'':<{_WIDTH}} {tail}"
    at = round(_WIDTH / 1.5)
    filled = min(_WIDTH, round(window.half_width / margin * at))
    bar = "".join("│" if i == at else "█" if i < filled else " " for i in range(_WIDTH))
    return (
        f"{head} {100 * window.estimate.proportions[1]:>6.1f} %"
        f" {100 * window.half_width:>5.2f} {bar}"
        f" {tail}"
    )


def _figures(run: AdaptiveRun, steps: list[AdaptiveStep]) -> dict[str, Any]:
    windows = [
        step for step in steps if step.window is not None and step.window.estimate is not None
    ]
    errors = [step.window.half_width or 0.0 for step in windows if step.window is not None]
    later = errors[5:]
    held = [
        low <= step.truth <= high
        for step in windows
        if step.window is not None and step.window.estimate is not None
        for low, high in [step.window.estimate.interval(0.95)[1]]
    ]
    return {
        "windows": len(errors),
        "within_1_2_of_wish": (
            sum(error <= _NEAR * run.margin for error in later) / max(1, len(later))
        ),
        "covered": sum(held) / max(1, len(held)),
        "changes": sum(step.change is not None for step in steps),
        "spent": steps[-1].spent,
        "most_spent": steps[-1].most_spent,
        "limit": run.limit,
    }


def _summary(run: AdaptiveRun, steps: list[AdaptiveStep]) -> list[str]:
    figures = _figures(run, steps)
    return [
        (
            f"After the first five windows, {figures['within_1_2_of_wish']:.0%} were within 1.2"
            f" times the target; {figures['covered']:.0%} of all intervals contain the truth;"
            f" {figures['changes']} parameter changes."
        ),
        (
            f"A device spent {figures['spent']:.1f} on average and {figures['most_spent']:.1f} at"
            f" most, of {figures['limit']:g}."
        ),
    ]


def _document(run: AdaptiveRun) -> dict[str, Any]:
    steps = list(run.steps())
    windows = [
        {
            "index": step.window.index,
            "people": step.people,
            "truth": step.truth,
            "estimate": (
                None if step.window.estimate is None else float(step.window.estimate.proportions[1])
            ),
            "error": step.window.half_width,
            "parameters": {
                "sampling": step.query.sampling,
                "p": step.query.recipe["p"],
                "q": step.query.recipe["q"],
            },
            "change": None if step.change is None else step.change.words(),
        }
        for step in steps
        if step.window is not None
    ]
    return {"margin": run.margin, **_figures(run, steps), "results": windows}
