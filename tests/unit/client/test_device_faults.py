"""What keeps a device from reading its data through no fault of the query is told to its owner, and
to nobody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deniable.client.device import Device
from deniable.client.sandbox import pool
from deniable.client.sandbox.interface import BUSY
from toolkit.devices import asked, at, make_device, make_policy, queued, signed

NO_DATA = "It did not say anything about your data, because "


def faults(device: Device) -> dict[str, int]:
    with device.store.transaction() as transaction:
        counters = dict(transaction.journal.counters())
    return {name: n for name, n in counters.items() if name.startswith("answers without data")}


@contextmanager
def stopped(device: Device) -> Iterator[None]:
    """The sandbox's process of a device gets no processor time, as on a machine that is starved."""
    process = pool.sessions.kept[None]._process
    assert process is not None
    os.kill(process._process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it was ended, for it was late
            os.kill(process._process.pid, signal.SIGCONT)


@pytest.mark.slow
def test_a_starved_device_tells_its_owner_that_it_answered_without_data(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query, policy=make_policy(query, deadline=0.1))
    first = device.answer(signed(query), at(0))
    assert (first.outcome, faults(device)) == ("answered", {})
    before = queued(device)
    with stopped(device):
        starved = device.answer(signed(query), at(1))
    assert (starved.outcome, starved.epsilon) == ("answered", first.epsilon)
    assert starved.detail.endswith(NO_DATA + BUSY)
    assert NO_DATA not in first.detail
    assert faults(device) == {f"answers without data: {BUSY}": 1}
    # what others see is as it was: as many shares, to the same proxies
    assert [proxy for proxy, *_ in queued(device)] == [proxy for proxy, *_ in before] * 2
    assert device.answer(signed(query), at(2)).detail == first.detail


def test_sql_that_fails_on_the_data_is_no_fault_of_the_device(tmp_path: Path) -> None:
    query = asked(sql="SELECT abs(-9223372036854775808) FROM trips")
    device = make_device(tmp_path, query)
    assert NO_DATA not in device.answer(signed(query), at(0)).detail
    assert faults(device) == {}
