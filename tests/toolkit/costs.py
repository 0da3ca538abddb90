"""What tests cost in processor time, all processes counted that a test starts: `pytest --costs 30`
lists the most expensive ones.

Wall-clock time says little on a busy machine, and nothing about servers that work beside a test;
`--durations` is for that.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

_PROPERTY = "processor_seconds"
_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs",
        type=int,
        default=0,
        metavar="N",
        help="list the N tests that took the most processor time, and sums by folder",
    )


def processor_seconds() -> float:
    """Of this process, of its children that have ended, and of all their descendants that have
    not."""
    times = os.times()
    return (
        times.user
        + times.system
        + times.children_user
        + times.children_system
        + _of_descendants(os.getpid())
    )


def _of_descendants(pid: int) -> float:
    total = 0.0
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            try:
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            total += sum(map(int, fields[11:15])) / _TICKS + _of_descendants(int(child))
    return total


class Costs:
    """Measures each test where it runs, and lists all where the run was started: reports bring the
    figures from there to here."""

    def __init__(self, n: int) -> None:
        self._n, self._before = n, 0.0
        self._found: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._before = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            # What a server has used is gone from the sum once the server is, unless this process
            # waited for it.
            report.user_properties.append(
                (_PROPERTY, max(0.0, round(processor_seconds() - self._before, 3)))
            )
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _PROPERTY:
                self._found[report.nodeid] = float(str(value))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("processor time, in seconds")
        folders: dict[str, float] = defaultdict(float)
        for name, seconds in self._found.items():
            folders[str(Path(name.partition("::")[0]).parent)] += seconds
        for rows, n in ((self._found, self._n), (folders, 5)):
            for name, seconds in sorted(rows.items(), key=lambda row: -row[1])[:n]:
                terminalreporter.write_line(f"{seconds:8.2f}  {name}")
        terminalreporter.write_line(f"{sum(self._found.values()):8.2f}  in all")


def pytest_configure(config: pytest.Config) -> None:
    n = config.getoption("--costs")
    if n:
        config.pluginmanager.register(Costs(n), "costs")
