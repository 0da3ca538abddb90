"""The system on a clock that is moved by hand: what goes in comes out, whatever is stopped on the
way."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.client.device import Device
from deniable.client.simulation.fleet import Fleet, FleetShares
from deniable.client.storage.store import Store
from deniable.errors import RefusedError
from deniable.local.scratch import scratch_folder
from deniable.local.system import LocalSystem
from deniable.local.transport import LocalTransport
from deniable.proxy.intake.uploads import UploadReceipt
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN, minute_query
from toolkit.devices import make_policy, make_vault

TEN_MINUTES = Schedule(ORIGIN, ORIGIN + 86400, 600, 600, 600)
PEOPLE = 300
GRACE, PATIENCE = 600, 1800


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as made:
        yield made


@pytest.fixture
def query() -> Query:
    return minute_query(schedule=TEN_MINUTES)


def answers(query: Query, epoch: int) -> FleetShares:
    fleet = Fleet(query, PEOPLE, source=seeded_source(epoch + 1))
    return fleet.answer(epoch, np.arange(PEOPLE) % len(query.labels))


def post_all(
    system: LocalSystem, shares: FleetShares, second: int = 60, proxies: tuple[int, ...] = (0, 1)
) -> None:
    for proxy in proxies:
        system.at(
            system.query.schedule.start_of_epoch(shares.epoch) + second,
            partial(system.post, proxy, shares.epoch, shares.columns[proxy]),
        )


def test_a_window_is_released_when_all_proxies_have_marked_its_last_epoch(
    folder: Path, query: Query
) -> None:
    with LocalSystem(query, folder) as system:
        post_all(system, answers(query, 0))
        system.run(ORIGIN + 600 + GRACE - 1)
        assert system.windows() == []
        system.run(ORIGIN + 600 + GRACE)
        (window,) = system.windows()
        assert (window.condition, window.n, window.conservation["balanced"]) == (
            "complete",
            PEOPLE,
            True,
        )
        assert sum(pane.n for pane in system.panes().values()) == PEOPLE


def test_a_proxy_that_is_killed_keeps_what_it_acknowledged(folder: Path, query: Query) -> None:
    with LocalSystem(query, folder) as system:
        post_all(system, answers(query, 0))
        system.at(ORIGIN + 61, lambda: system.stop_proxy(1))
        system.at(ORIGIN + 62, lambda: system.at(ORIGIN + 900, lambda: system.start_proxy(1)))
        system.run(ORIGIN + 600 + GRACE)
        assert [window.n for window in system.windows()] == [PEOPLE]


def test_an_epoch_is_closed_without_a_dead_proxy_after_the_aggregators_patience(
    folder: Path, query: Query
) -> None:
    with LocalSystem(query, folder) as system:
        system.stop_proxy(1)
        shares = answers(query, 0)
        system.at(ORIGIN + 60, lambda: system.post(0, 0, shares.columns[0]))
        system.run(ORIGIN + 600 + PATIENCE - 1)
        assert system.windows() == []
        assert system.post(1, 0, shares.columns[1]) is None
        system.run(ORIGIN + 600 + PATIENCE)
        (window,) = system.windows()
        assert (window.condition, window.n, window.missing) == (
            "proxy down",
            0,
            (query.proxies[1],),
        )
        assert [account.to_dict()["orphaned"] for account in system.accounts()] == [PEOPLE, 0]


def test_a_log_that_cannot_be_read_for_less_than_the_patience_loses_nothing(
    folder: Path, query: Query
) -> None:
    with LocalSystem(query, folder) as system:
        post_all(system, answers(query, 0))
        system.set_readable(0, False)
        system.at(ORIGIN + 600 + PATIENCE - 1, lambda: system.set_readable(0, True))
        system.run(ORIGIN + 600 + PATIENCE - 2)
        assert system.windows() == []
        system.run(ORIGIN + 600 + PATIENCE - 1)
        window, *_ = system.windows()
        assert (window.condition, window.n) == ("complete", PEOPLE)


def test_an_aggregator_that_is_restarted_counts_nothing_twice(folder: Path, query: Query) -> None:
    with LocalSystem(query, folder) as system:
        post_all(system, answers(query, 0))
        for second in (65, 80, 700, 1100):
            system.at(ORIGIN + second, system.restart_aggregator)
        system.run(ORIGIN + 600 + GRACE)
        assert [window.n for window in system.windows()] == [PEOPLE]


def test_replies_are_those_of_a_proxy(folder: Path, query: Query) -> None:
    replies: list[Any] = []
    with LocalSystem(query, folder, record=True) as system:
        shares = answers(query, 0)
        for second in (60, 61, 600 + GRACE + 1):
            system.at(ORIGIN + second, lambda: replies.append(system.post(0, 0, shares.columns[0])))
        system.run(ORIGIN + 600 + GRACE + 1)
        assert replies[:2] == [UploadReceipt(PEOPLE, 0), UploadReceipt(0, PEOPLE)]
        assert isinstance(replies[2], RefusedError)
        assert replies[2].reason == "late"
        assert [(request.time - ORIGIN, request.status) for request in system.traffic] == [
            (60, 202),
            (61, 202),
            (1201, 410),
        ]


def test_whole_devices_answer_through_it(folder: Path, query: Query) -> None:
    with LocalSystem(query, folder, record=True) as system:
        for i in range(3):
            transport = LocalTransport(system, b"device %d" % i, offset=i)
            policy = make_policy(query, ring=system.ring, epsilon_per_answer=50, upload_within=0)
            vault = make_vault(folder / f"{i}.db", [i + 0.5])
            device = Device(
                vault,
                policy,
                Store(folder / f"{i}.client", durable=False),
                clock=transport.clock,
                isolated=False,
            )
            system.at(ORIGIN + 30 + i, partial(device.once, transport))
        system.run(ORIGIN + 600 + GRACE)
        (window,) = system.windows()
        assert window.estimate is not None
        np.testing.assert_allclose(
            window.estimate.proportions[:4], [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-6
        )
        assert {request.client for request in system.traffic} == {
            b"device 0",
            b"device 1",
            b"device 2",
        }
        # polls are seen too
        assert sorted({len(request.body) for request in system.traffic})[0] == 0


def test_on_a_real_clock_the_system_waits_for_the_times_at_which_something_is_due(
    query: Query, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = [float(query.schedule.origin)]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        real[0] += 60  # a slow machine

    monkeypatch.setattr("deniable.local.system.time.sleep", sleep)
    sent_at: list[int] = []
    end = query.schedule.end_of_epoch(0)
    with LocalSystem(query, folder, clock=lambda: int(real[0])) as system:
        shares = Fleet(query, 100).answer(0, [0] * 100)

        def send() -> None:
            sent_at.append(system.now - query.schedule.origin)
            assert all(isinstance(reply, UploadReceipt) for reply in system.send(shares))

        system.at(query.schedule.origin + 90, send)
        assert system.now == query.schedule.origin
        system.run(end + system.rules.grace + 60)
        assert sent_at == [120]  # not before its time, and at the first moment after it
        assert system.now >= end + system.rules.grace + 60
        assert [(window.condition, window.n) for window in system.windows()] == [("complete", 100)]
    assert slept
