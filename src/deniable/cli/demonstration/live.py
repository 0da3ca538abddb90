"""A running system in the terminal: the newest window beside the truth, what it costs, and what
happened to the shares."""

from __future__ import annotations

import dataclasses
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deniable.aggregator.counting.conservation import Account
from deniable.aggregator.windows.window import Window
from deniable.cli.output import emit, make_console, output_format, say
from deniable.cli.tables import whisker
from deniable.display import elided
from deniable.local.simulation import Simulation
from deniable.queries.schedule import spoken_duration
from deniable.queries.times import iso_time

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["ending_in_order", "run_simulation"]

_SHORTEST_BAR, _LONGEST_BAR = 10, 40
_LABEL_WIDTH = 24
_REFRESH = 0.2
_INTERRUPTED = 130
"""The conventional exit code of a command ended by Ctrl-C."""


def run_simulation(
    simulation: Simulation,
    title: str,
    crowd: str,
    seconds: float | None,
    started: Callable[[], None] = lambda: None,
) -> None:
    """Run it and show it: live in a terminal, as plain tables elsewhere, or as one JSON or CSV
    document at the end.

    `crowd` says who the people are, `seconds` how long they answer (None: until Ctrl-C). `started`
    is called once everything is running, except where only the result is printed.
    """
    interrupted, watched = False, output_format() == "text"
    with ending_in_order():
        try:
            if not watched:
                _run_silently(simulation, seconds)
            elif sys.stdout.isatty():
                _run_live(simulation, _Words(title, crowd), seconds, started)
            else:
                _run_plainly(simulation, _Words(title, crowd), seconds, started)
        except KeyboardInterrupt:
            interrupted = True
    if not watched and simulation.started:
        emit(simulation.to_dict(), [])
    elif interrupted:
        say("Stopped. Nothing is left running.")
    if interrupted:
        sys.exit(_INTERRUPTED)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Run the same cleanup once for SIGINT, SIGTERM and SIGHUP, and let nothing interrupt it."""
    signals = [signal.SIGINT, signal.SIGTERM] + (
        [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
    )
    before = {each: signal.getsignal(each) for each in signals}

    def interrupt(*_: object) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for each in signals:
        signal.signal(each, interrupt)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _is_on(simulation: Simulation, seconds: float | None) -> bool:
    return seconds is None or simulation.seconds < seconds


def _run_silently(simulation: Simulation, seconds: float | None) -> None:
    with simulation:
        while _is_on(simulation, seconds):
            simulation.look()
            time.sleep(_REFRESH)
        simulation.finish()


def _run_plainly(
    simulation: Simulation, words: _Words, seconds: float | None, started: Callable[[], None]
) -> None:

    console = make_console(width=100, color_system=None, highlight=False, force_terminal=False)
    shown = 0

    def show() -> None:
        nonlocal shown
        for window in simulation.windows[shown:]:
            console.print(_window(simulation, window, console.width))
            console.print(_statement(window))
            console.print()
        shown = len(simulation.windows)

    with simulation:
        started()
        console.print(_head(simulation, words))
        console.print()
        while _is_on(simulation, seconds):
            simulation.look()
            show()
            time.sleep(_REFRESH)
        simulation.finish()
        show()
        console.print(_foot(simulation, "Finished."))


def _run_live(
    simulation: Simulation, words: _Words, seconds: float | None, started: Callable[[], None]
) -> None:
    from rich.live import Live  # noqa: PLC0415

    console = make_console(highlight=False)
    with console.status(f"Starting proxies and aggregator, and making {words.crowd} …"):
        simulation.__enter__()
    try:
        started()
        with Live(
            _screen(simulation, words, console.width), console=console, refresh_per_second=5
        ) as live:
            while _is_on(simulation, seconds):
                simulation.look()
                live.update(_screen(simulation, words, console.width))
                time.sleep(_REFRESH)
            simulation.finish(
                lambda: live.update(
                    _screen(simulation, words, console.width, "Counting the last answers.")
                )
            )
            live.update(_screen(simulation, words, console.width, "Finished."))
    finally:
        simulation.__exit__(None, None, None)


class _Words:
    """What the view calls things."""

    def __init__(self, title: str, crowd: str) -> None:
        self.title, self.crowd = title, crowd


def _screen(
    simulation: Simulation, words: _Words, width: int, last: str = "Press Ctrl-C to stop."
) -> RenderableType:
    """The whole view; it fits 80 columns and 24 lines with two proxies and eleven buckets."""
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if not simulation.windows:
        return Group(
            _head(simulation, words),
            Text(f"The first answers are on their way. {last}", style="dim"),
        )
    newest = simulation.windows[-1]
    parts = [
        _head(simulation, words),
        _window(simulation, newest, width),
        _statement(newest),
        _foot(simulation, last),
    ]
    return Group(*parts)


def _head(simulation: Simulation, words: _Words) -> RenderableType:
    from rich.text import Text  # noqa: PLC0415

    query = simulation.query
    n_fleet = simulation.n_people - simulation.n_devices
    who = f"{words.crowd}: {simulation.n_devices:,} whole devices with vaults"
    who += f", {n_fleet:,} in a fleet without." if n_fleet else "."
    how = f"{len(query.proxies)} proxies and an aggregator, each a process, over HTTP."
    asked = f"Every {spoken_duration(query.schedule.every)} {100 * query.sampling:g} % answer."
    lines = [
        (f"{words.title}\n", "bold"),
        (f"{who}\n{how} {asked}\n", ""),
        (
            (
                f"epsilon, local    {query.epsilon_local:.4f}  per answer, against anyone who sees"
                " who answered\n"
            ),
            "cyan",
        ),
        (f"epsilon, sampled  {query.sampled_loss}, against anyone else", "cyan"),
    ]
    return Text.assemble(*lines)


def _clock(seconds: int) -> str:
    return iso_time(seconds)[11:]  # the time of day in ISO 8601: the rest has no room, and no news


def _window(simulation: Simulation, window: Window, width: int) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    when = f"{_clock(window.start)} to {_clock(window.end)}"
    title = Text(
        f"Window {window.index}, {when}: {window.n:,} answers, {simulation.condition(window)}",
        style="bold",
    )
    if window.estimate is None:
        return Group(
            title,
            Text(
                f"No estimate: the query requires at least {simulation.query.minimum_cohort:,}"
                " answers."
            ),
        )
    estimate = window.estimate
    interval = estimate.interval(0.95)
    scale = _nice(max(float(interval[:, 1].max()), float(simulation.truth.max())))
    labels = elided([str(label) for label in estimate.labels], _LABEL_WIDTH)
    room = width - max(6, *map(len, labels)) - 36  # what the figures take
    n_cells = max(_SHORTEST_BAR, min(_LONGEST_BAR, room))
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    for name, justify in (
        ("bucket", "left"),
        ("truth", "right"),
        ("estimate", "right"),
        ("95 % interval", "right"),
    ):
        # Long labels are folded, not cut: what tells two of them apart may stand anywhere.
        table.add_column(name, justify=justify, no_wrap=name != "bucket", overflow="fold")  # type: ignore[arg-type]
    table.add_column(f"0{f'{100 * scale:.0f} %':>{n_cells - 1}}", no_wrap=True)
    for label, share, (low, high), truth in zip(
        labels, estimate.proportions, interval, simulation.truth, strict=True
    ):
        figures = (
            f"{100 * truth:.1f} %",
            f"{100 * share:.1f} %",
            f"{100 * low:.1f} to {100 * high:.1f}",
        )
        table.add_row(Text(label), *figures, _bar(low, high, truth, scale, n_cells))
    return Group(title, table)


def _nice(share: float) -> float:
    """Rounded up to a tenth, so that the scale does not jump with every window."""
    return max(0.1, math.ceil(share * 10 - 1e-9) / 10)


def _bar(low: float, high: float, truth: float, scale: float, n_cells: int) -> RenderableType:
    """Full up to where the interval begins, shaded along it, and a mark where the truth is."""
    from rich.text import Text  # noqa: PLC0415

    style = "bold green" if low <= truth <= high else "bold red"
    return Text.assemble(*whisker(low, high, truth, (0.0, scale), n_cells, style))


def _statement(window: Window) -> RenderableType:
    """What happened to the shares of a window, per proxy."""
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim")
    table.add_column("shares", no_wrap=True)
    names = [field.name for field in dataclasses.fields(Account)]
    for sign, name in zip(("", "= ", *("+ " for _ in names)), names, strict=False):
        table.add_column(f"{sign}{name}", justify="right", no_wrap=True)
    for i, account in enumerate(window.conservation["proxies"].values(), start=1):
        table.add_row(f"proxy {i}", *(f"{account[name]:,}" for name in names))
    return table


def _foot(simulation: Simulation, last: str) -> RenderableType:
    from rich.text import Text  # noqa: PLC0415

    shown = [window.estimate for window in simulation.windows if window.estimate is not None]
    n_held = 0
    for estimate in shown:
        low, high = estimate.interval(0.95).T
        n_held += int(((low <= simulation.truth) & (simulation.truth <= high)).sum())
    n_bars = sum(len(estimate.proportions) for estimate in shown)
    balanced = all(window.conservation["balanced"] for window in simulation.windows)
    rate = simulation.answers_per_second
    overload = f"\n{simulation.overload}" if simulation.overload else ""
    return Text(
        f"▒ is the 95 % interval, ┃ the truth: {n_held} of {n_bars} intervals so far contain it.\n"
        f"{'All accounts balance.' if balanced else 'The accounts do NOT balance.'} "
        f"{rate:,.0f} answers per second counted. {last}{overload}"
    )
