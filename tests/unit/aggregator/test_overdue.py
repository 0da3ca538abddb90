"""A window that should have come by now is said to be overdue, by the query's own rhythm."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.aggregator.operations.overdue import OverdueWindows
from deniable.aggregator.operations.state_access import StateAccess
from deniable.queries.schedule import Schedule
from toolkit.servers.consoles import SeededConsole, console_query, seeded_console

PROPORTIONS = [0.3] + [0.07] * 10


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        yield found


def overdue_at(console: SeededConsole, name: str, time: int) -> int | None:
    """Which window of a query is overdue at a time."""
    access = StateAccess(console.settings.state)
    try:
        looked = OverdueWindows(access, console.settings.limits, lambda: time, list).find(name)
    finally:
        access.close()
    return looked[name].index if name in looked else None


def test_a_window_is_overdue_one_slide_after_windows_usually_come(console: SeededConsole) -> None:
    query = console.publish(console_query(console.proxies, "rhythm"))
    end = query.schedule.bounds_of_window(30)[1]
    console.write(query, range(20), PROPORTIONS, 6000, made=lambda end: end + 500)
    console.write(query, range(20, 30), PROPORTIONS, 6000, made=lambda end: end + 40)
    assert overdue_at(console, "rhythm", end + 40 + 600) is None
    assert overdue_at(console, "rhythm", end + 40 + 601) == 30


def test_windows_that_a_proxy_held_up_do_not_become_what_is_usual(console: SeededConsole) -> None:
    query = console.publish(console_query(console.proxies, "held-up"))
    console.write(query, range(29), PROPORTIONS, 6000, made=lambda end: end + 40)
    console.write(
        query, [29], PROPORTIONS, 6000, condition="proxy down", made=lambda end: end + 1800
    )
    end = query.schedule.bounds_of_window(30)[1]
    assert overdue_at(console, "held-up", end + 40 + 601) == 30


def test_nothing_is_overdue_after_a_query_was_stopped(console: SeededConsole) -> None:
    query = console.publish(console_query(console.proxies, "stopped"))
    later = int(time.time()) + 86400
    assert overdue_at(console, "stopped", later) is not None
    console.service.queries.stop(query.id)
    assert overdue_at(console, "stopped", later) is None


def test_following_in_a_terminal_says_that_a_window_is_overdue(
    console: SeededConsole, tmp_path: Path
) -> None:
    now = int(time.time())
    quick = Schedule(now - 60, now + 86400, 2, 2, 2)
    query = console.publish(console_query(console.proxies, "quick", schedule=quick))
    console.write(query, range(29), PROPORTIONS, 6000, made=lambda end: end + 1)
    (tmp_path / "token").write_text(console.analyst)
    command = [sys.executable, "-m", "deniable", "results", "quick", "--follow"]
    options = ["--aggregator", console.url, "--token-file", str(tmp_path / "token")]
    with subprocess.Popen(  # noqa: S603 - our own command
        [*command, *options], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.terminate()
    assert line.startswith("Overdue since ")
    assert "window 29, which ended at" in line
