"""The queues of the scale model: what they must do exactly, and that the page shows what they
give."""

from __future__ import annotations

import dataclasses
import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from deniable.errors import ParameterError
from deniable.sizing.demand import Demand
from deniable.sizing.figures import SizingFigures
from deniable.sizing.queueing import Stations, _gathered, _served, simulate
from deniable.sizing.supply import size

ROOT = Path(__file__).parents[3]
FAST = 1e12


def test_a_station_serves_as_a_queue_does_slot_by_slot() -> None:
    random = np.random.default_rng(3)
    for capacity in (0.5, 3.0, 40.0):
        arriving = random.integers(0, 10, 500) * (random.random(500) < 0.3)
        left, most = _served(arriving.astype(float), capacity)
        waiting, longest = 0.0, 0.0
        for amount, leaves in zip(arriving, left, strict=True):
            waiting += amount
            assert leaves == pytest.approx(min(waiting, capacity))
            waiting -= leaves
            longest = max(longest, waiting)
        assert most == pytest.approx(longest)


def test_a_proxy_passes_on_at_the_threshold_or_at_the_deadline_and_keeps_nothing() -> None:
    arriving = np.array([3.0, 0, 0, 0, 0, 9.0, 5.0, 1.0, 0, 0, 0, 0, 0])
    leaving, most = _gathered(arriving, threshold=10, deadline=3)
    assert leaving.tolist() == [0, 0, 0, 3, 0, 0, 14, 0, 0, 0, 1, 0, 0]
    assert most == 14


def test_with_capacity_to_spare_a_result_is_there_when_the_grace_is_over() -> None:
    demand = Demand(10_000, every=600, grace=120)
    run = simulate(demand, Stations(FAST, FAST, FAST, tick=0.5, step=0.25))
    assert run.latency == 120.75
    assert (run.late, run.devices, run.log, run.aggregator) == (0, 0, 0, 0)


def test_an_overloaded_proxy_takes_as_long_as_its_rate_says() -> None:
    """All come in the first second: n messages at c a second are taken in n / c seconds."""
    demand = Demand(9000, every=600, poll=1, within=0, grace=60)
    run = simulate(demand, Stations(proxy=30, log=FAST, aggregator=FAST), epochs=1)
    assert run.drained == pytest.approx(9000 / 30, abs=1)
    assert run.devices == 9000 - 30
    assert run.late == 0
    assert run.utilisation["proxy process"] == pytest.approx(1)


def test_what_is_not_taken_when_the_grace_is_over_is_late() -> None:
    demand = Demand(9000, every=600, poll=1, within=0, grace=60)
    run = simulate(demand, Stations(proxy=9, log=FAST, aggregator=FAST), epochs=1)
    assert run.late == pytest.approx(1 - 9 * 660 / 9000)
    assert run.drained == pytest.approx(1000, abs=1)


@pytest.mark.parametrize("slow", ["log", "aggregator"])
def test_a_slow_log_or_aggregator_delays_the_result_by_its_backlog(slow: str) -> None:
    demand = Demand(9000, every=600, poll=1, within=0, grace=60)
    at_once = Stations(FAST, FAST, FAST, threshold=1, deadline=0)
    run = simulate(demand, dataclasses.replace(at_once, **{slow: 10.0}), epochs=1)
    assert run.latency == pytest.approx(9000 / 10 - 600, abs=2)
    assert run.late == 0
    assert getattr(run, slow) == pytest.approx(9000 - 10)
    stuck = simulate(demand, dataclasses.replace(at_once, **{slow: 0.1}), epochs=1)
    assert math.isinf(stuck.latency)
    assert json.loads(json.dumps(stuck.to_dict(), allow_nan=False))["latency"] is None


def test_a_finer_slot_gives_the_same_answer() -> None:
    demand = Demand(20_000, every=60, poll=5, within=20, grace=30)
    coarse, fine = (simulate(demand, Stations(600, 800, 900), slot=slot) for slot in (1.0, 0.1))
    assert fine.drained == pytest.approx(coarse.drained, abs=1)
    assert fine.latency == pytest.approx(coarse.latency, abs=1)


def test_a_sized_system_loses_nothing_at_any_size_and_is_used_as_planned() -> None:
    for exponent in range(4, 10):
        for front in (False, True):
            demand = Demand(10**exponent, sampling=0.6)
            made = size(demand, front=front)
            run = simulate(demand, Stations.of(made), made.cells)
            assert run.late == 0
            assert max(run.utilisation.values()) <= SizingFigures.headroom + 1e-6
            assert run.latency < demand.grace + 2


def test_devices_that_ask_more_often_than_a_proxy_can_answer_leave_it_no_time_for_shares() -> None:
    demand = Demand(10**7, poll=60)
    run = simulate(demand, Stations.of(size(demand), cells=1))
    assert (run.late, run.utilisation["proxy process"] >= 1) == (1.0, True)


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"cells": 0}, {"slot": 0.0}, {"slot": 2.0}, {"slot": 1e-4}]
)
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        simulate(Demand(100), Stations(1, 1, 1), **wrong)  # type: ignore[arg-type]


def test_the_page_shows_the_tables_that_the_script_prints() -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "scale.py"))
    page = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    for name in ("ladder", "comparison", "table", "figures_table"):
        assert "\n".join(script[name]()) in page, (
            f"docs/scale.md lacks what {name}() gives: python benchmarks/scale.py"
        )
