"""Spark counts what the embedded engine counts: the same logs, the same panes, accounts and
windows."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from deniable.aggregator.operations.capacity import capacity
from deniable.aggregator.state import connect
from toolkit.crowds import ORIGIN, minute_query
from toolkit.servers.sparks import SparkCrowd, state_contents

PROXIES = {2: ["one", "two"], 3: ["one", "two", "three"]}


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[SparkCrowd]:
    crowd = SparkCrowd(tmp_path)
    yield crowd
    crowd.close_all()


@pytest.mark.parametrize("n_proxies", [2, 3])
def test_every_fault_is_counted_as_the_embedded_engine_counts_it(
    n_proxies: int, tmp_path: Path, spark: Any
) -> None:
    crowd = SparkCrowd(tmp_path, minute_query(proxies=PROXIES[n_proxies]))
    engine = crowd.engine()
    crowd.publish_to_spark()
    rng = np.random.default_rng(n_proxies)
    crowd.now = ORIGIN + 170
    for epoch in range(3):
        shares = crowd.split(rng.integers(0, 12, 300).tolist(), epoch)
        shares[0][4, :3] ^= np.uint64(1)  # changed on its way
        for proxy, rows in enumerate(shares):
            there = rows[:, rng.random(300) > 0.05]  # the others' shares are orphans
            for part in np.array_split(there[:, rng.permutation(there.shape[1])], 3, axis=1):
                crowd.append(proxy, part, epoch, prefix_bits=int(rng.integers(2, 6)))
            crowd.append(proxy, there[:, :20], epoch)  # duplicates
        crowd.answer([1] * 5, epoch, strata=9)
        crowd.answer([1] * 4, epoch, query=crowd.query.revised(minimum_cohort=7))
    crowd.answer([1] * 6, 10**4)  # expired
    crowd.answer([1] * 7, 90)  # in the future
    for content in (b"", b"no block at all", b"\x01M\x00", b"\x01B" + bytes(40)):
        crowd.append_bytes(0, content)
    crowd.mark(2)
    engine.drain()
    crowd.drain_spark(spark)
    late = crowd.answer([3] * 8, 1)
    crowd.append(1, late[1], 2)
    crowd.mark(3, [0])
    crowd.now = ORIGIN + 180 + 1800  # the last proxies never mark epoch 2
    engine.drain()
    crowd.drain_spark(spark)
    assert state_contents(crowd.spark_state) == state_contents(tmp_path / "state.db")
    found = state_contents(crowd.spark_state)
    assert [row[3] for row in found["results"]] == ["proxy down"]
    outcomes = {outcome: n for proxy, outcome, n in found["totals"] if proxy == 1}
    assert all(
        outcomes[name] > 0 for name in ("counted", "orphaned", "duplicate", "late", "malformed")
    )
    assert outcomes["received"] == sum(n for name, n in outcomes.items() if name != "received")
    crowd.close_all()


def test_spark_measures_the_answers_per_second_that_it_sustains(
    crowd: SparkCrowd, spark: Any
) -> None:
    crowd.publish_to_spark()
    crowd.answer([1] * 1_500, 0)
    started = time.monotonic()
    crowd.drain_spark(spark)
    seconds = time.monotonic() - started
    connection = connect(crowd.spark_state)
    [measured] = capacity(connection)
    connection.close()
    assert (measured["size_class"], measured["answers"], measured["updated"]) == (
        0,
        pytest.approx(1_500),
        crowd.now,
    )
    # a batch takes no longer than all of it
    assert 1_500 / seconds < measured["answers_per_second"] < 1e6


def test_sparks_web_page_answers_on_loopback_alone(spark: Any) -> None:
    port = urlsplit(spark.sparkContext.uiWebUrl).port
    socket.create_connection(("127.0.0.1", port), timeout=10).close()
    # this address is ours as well: whatever listens everywhere answers there
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)
