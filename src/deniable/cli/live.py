"""A running system in the terminal: the newest window beside the truth, what it costs, and what became of the shares."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from deniable.aggregator.windows import Window
from deniable.cli.output import as_json
from deniable.demo.simulation import Simulation
from deniable.queries.schedule import spoken_duration

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["ending_in_order", "run_simulation"]

_BAR = 30
_REFRESH = 0.2
_INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as shells know it."""


def run_simulation(simulation: Simulation, title: str, crowd: str, seconds: float | None, wants_json: bool) -> None:
    """Run it and show it: live in a terminal, as plain tables elsewhere, or as one JSON object at the end.

    `crowd` says who the people are, `seconds` how long they answer (None: until somebody presses Ctrl-C).
    """
    interrupted = False
    with ending_in_order():
        try:
            if wants_json:
                _run_silently(simulation, seconds)
            elif sys.stdout.isatty():
                _run_live(simulation, _Words(title, crowd), seconds)
            else:
                _run_plainly(simulation, _Words(title, crowd), seconds)
        except KeyboardInterrupt:
            interrupted = True
    if wants_json and simulation.started:
        click.echo(as_json(simulation.to_dict()))
    elif interrupted:
        click.echo("Stopped. Nothing is left running.")
    if interrupted:
        sys.exit(_INTERRUPTED)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Have every polite way of ending this process run the same cleaning up, once, and let nothing interrupt that."""
    signals = [signal.SIGINT, signal.SIGTERM] + ([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])
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


def _run_plainly(simulation: Simulation, words: _Words, seconds: float | None) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and only for people

    console = Console(width=100, color_system=None, highlight=False, force_terminal=False)
    shown = 0

    def show() -> None:
        nonlocal shown
        for window in simulation.windows[shown:]:
            console.print(_window(simulation, window))
            console.print()
        shown = len(simulation.windows)

    with simulation:
        console.print(_head(simulation, words))
        console.print()
        while _is_on(simulation, seconds):
            simulation.look()
            show()
            time.sleep(_REFRESH)
        simulation.finish()
        show()
        console.print(_foot(simulation))


def _run_live(simulation: Simulation, words: _Words, seconds: float | None) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and only for people
    from rich.live import Live  # noqa: PLC0415

    console = Console(highlight=False)
    with console.status(f"Starting proxies and aggregator, and making {words.crowd} …"):
        simulation.__enter__()
    try:
        with Live(_screen(simulation, words), console=console, refresh_per_second=5, vertical_overflow="crop") as live:
            while _is_on(simulation, seconds):
                simulation.look()
                live.update(_screen(simulation, words))
                time.sleep(_REFRESH)
            simulation.finish(lambda: live.update(_screen(simulation, words, "The last answers are being counted.")))
            live.update(_screen(simulation, words, "Finished. Nothing is left running."))
    finally:
        simulation.__exit__(None, None, None)


class _Words:
    """What the view calls things."""

    def __init__(self, title: str, crowd: str) -> None:
        self.title, self.crowd = title, crowd


def _screen(simulation: Simulation, words: _Words, last: str = "Ctrl-C ends it.") -> RenderableType:
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    parts: list[RenderableType] = [_head(simulation, words), Text()]
    if simulation.windows:
        parts += [_window(simulation, simulation.windows[-1]), _foot(simulation)]
    else:
        parts.append(Text("The first answers are on their way …"))
    return Group(*parts, Text(last, style="dim"))


def _head(simulation: Simulation, words: _Words) -> RenderableType:
    from rich.text import Text  # noqa: PLC0415

    query = simulation.query
    n_fleet = simulation.n_people - simulation.n_devices
    who = f"{words.crowd}: {simulation.n_devices:,} whole devices (own vault, ledger, upload)"
    who += f", {n_fleet:,} a fleet in bulk, same code." if n_fleet else "."
    how = f"{len(query.proxies)} proxies and an aggregator, each a process, over HTTP."
    asked = f"Asked every {spoken_duration(query.schedule.every)}; {100 * query.sampling:g} % answer each time."
    lines = [
        (f"{words.title}\n", "bold"),
        (f"{who}\n{how} {asked}\n", ""),
        (f"epsilon, local    {query.epsilon_local:.4f}  an answer, against whoever sees who answered\n", "cyan"),
        (f"epsilon, sampled  {query.epsilon_sampled:.4f}  against the aggregator and the analyst, who cannot", "cyan"),
    ]
    return Text.assemble(*lines)


def _clock(seconds: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds))


def _window(simulation: Simulation, window: Window) -> RenderableType:
    from rich import box  # noqa: PLC0415
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    title = Text(f"Window {window.index}, {_clock(window.start)} to {_clock(window.end)} UTC: {window.n:,} answers", style="bold")
    if window.estimate is None:
        return Group(title, Text(f"No estimate: {window.condition}."))
    estimate = window.estimate
    interval = estimate.interval(0.95)
    scale = _nice(max(float(interval[:, 1].max()), float(simulation.truth.max())))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    table.add_column("bucket", no_wrap=True)
    table.add_column("truth", justify="right", no_wrap=True)
    table.add_column("estimate", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column(f"0 %{f'{scale:.0%}'.replace('%', ' %'):>{_BAR - 3}}", no_wrap=True)
    rows = zip(window.estimate.labels, estimate.proportions, interval, simulation.truth, strict=True)
    for label, share, (low, high), truth in rows:
        figures = f"{100 * truth:.1f} %", f"{100 * share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}"
        table.add_row(_short(str(label)), *figures, _bar(low, high, truth, scale))
    return Group(title, table)


def _short(label: str, most: int = 24) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def _nice(share: float) -> float:
    """The next full five hundredths, so that the scale does not jump with every window."""
    return max(0.05, math.ceil(share * 20 + 1e-9) / 20)


def _bar(low: float, high: float, truth: float, scale: float) -> Any:
    """Full up to where the interval begins, shaded along it, and a mark where the truth is."""
    from rich.text import Text  # noqa: PLC0415

    bar = Text()
    mark = min(_BAR - 1, int(truth / scale * _BAR))
    for place in range(_BAR):
        middle = (place + 0.5) / _BAR * scale
        if place == mark:
            bar.append("┃", style="bold green" if low <= truth <= high else "bold red")
        elif middle < low:
            bar.append("█", style="blue")
        elif middle <= high:
            bar.append("▒", style="blue")
        else:
            bar.append(" ")
    return bar


def _foot(simulation: Simulation) -> RenderableType:
    from rich.text import Text  # noqa: PLC0415

    shown = [window.estimate for window in simulation.windows if window.estimate is not None]
    n_bars = sum(len(estimate.proportions) for estimate in shown)
    n_held = 0
    for estimate in shown:
        low, high = estimate.interval(0.95).T
        n_held += int(((low <= simulation.truth) & (simulation.truth <= high)).sum())
    rate = simulation.answers_per_second
    lines = [
        f"█ up to the interval, ▒ the interval, ┃ the truth. {n_held} of {n_bars} intervals so far hold the truth.\n",
    ]
    statement = simulation.windows[-1].conservation
    for i, account in enumerate(statement["proxies"].values(), start=1):
        parts = " + ".join(f"{account[name]:,} {name}" for name in ("counted", "orphaned", "duplicate", "late", "malformed"))
        lines.append(f"proxy {i}: {account['received']:,} received = {parts}\n")
    lines.append(f"{'All accounts balance.' if statement['balanced'] else 'The accounts do not balance!'} ")
    lines.append(f"{rate:,.0f} answers a second joined and counted, {rate * len(simulation.query.proxies):,.0f} shares.")
    return Text("".join(lines))
