"""Backups that are taken while devices upload, then a crash, then a restore: nothing is counted
twice, and what is lost is named.

Answers of each phase are in a bucket of their own, so that the counts tell what became of them.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from deniable.aggregator.state import stored_panes
from deniable.analyst.analyst import Analyst
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.signed.signing import sign
from deniable.randomness import seeded_source
from deniable.wire.shares import split_columns
from toolkit.crowds import KEY
from toolkit.queries import MILES
from toolkit.servers.operated import OperatedSystem, wait_until
from toolkit.servers.proxies import query_of_today
from toolkit.shares import body_of

pytestmark = pytest.mark.slow
QUERY = query_of_today(
    proxies=["one", "two"],
    columns=[Column("distance", MILES, other=True)],
    mechanism={"name": "DirectEncoding", "epsilon": 40.0},
    sampling=1.0,
    budget=Budget(),
)
AT_ONCE = 40


class Devices:
    """Devices that upload without a pause. A share that is not acknowledged is sent again, as it
    was."""

    def __init__(self, system: OperatedSystem) -> None:
        self._system = system
        self._headers = [proxy.token(quota=1 << 30) for proxy in system.proxies]
        self._stopping, self._between = threading.Event(), threading.Lock()
        self.bucket, self._source = 1, seeded_source(19)
        self.acknowledged: Counter[int] = Counter()
        """By bucket, the answers of which both proxies have acknowledged their shares."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def begin(self, bucket: int) -> None:
        """Answer something else from now on. Returns when all that was sent before is
        acknowledged."""
        with self._between:
            self.bucket = bucket

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with httpx.Client(timeout=5) as client:
            while not self._stopping.is_set():
                with self._between:
                    self._answer(client, self.bucket)
                time.sleep(0.001)  # or nobody else would ever get the lock

    def _answer(self, client: httpx.Client, bucket: int) -> None:
        epoch = QUERY.schedule.epoch_of(int(time.time()))
        reports = QUERY.mechanism.draw(np.full(AT_ONCE, bucket), self._source)
        rows = reports.reshape(AT_ONCE, -1).view(np.uint8)
        for i, columns in enumerate(
            split_columns(rows, QUERY.tag, epoch, QUERY.size_class or 0, 2)
        ):
            body = body_of(QUERY, epoch, columns)
            while not self._stopping.is_set():
                try:
                    answer = client.post(
                        f"{self._system.url(i)}/v1/shares", content=body, headers=self._headers[i]
                    )
                except httpx.HTTPError:
                    time.sleep(0.05)
                    continue
                if answer.status_code == 202:
                    break
                time.sleep(0.05)
            else:
                return
        self.acknowledged[bucket] += AT_ONCE


@pytest.fixture
def system(tmp_path: Path) -> Iterator[OperatedSystem]:
    system = OperatedSystem(tmp_path, 'deadline = "1 s"\nthreshold = 200\n', 'silent = "1 s"\n')
    try:
        system.start()
        with Analyst(system.aggregator.address, system.token()) as analyst:
            analyst.publish(sign(QUERY, KEY))
        wait_until(lambda: not system.faults(), 20)
        yield system
    finally:
        system.stop()


def deniable(*arguments: str | Path) -> dict[str, Any]:
    """What a command prints as JSON, run in a process of its own as an operator does."""
    command = [
        sys.executable,
        "-c",
        "from deniable.cli import main; main()",
        *map(str, arguments),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def counted(system: OperatedSystem) -> list[int]:
    with closing(sqlite3.connect(system.folder / "state" / "state.db")) as connection:
        panes = stored_panes(connection, QUERY.id, range(1 << 40)).values()
    return list(np.sum([pane.counts for pane in panes], axis=0)) if panes else [0] * 12


def test_services_restored_from_backups_taken_under_load_count_nothing_twice(
    system: OperatedSystem,
) -> None:
    folder, proxy = system.folder, system.proxies[1]
    devices = Devices(system)
    try:
        wait_until(lambda: devices.acknowledged[1] >= 400, 30)
        # The aggregator: whatever it counted after its backup, it counts again, once.
        devices.begin(2)
        manifest = deniable("aggregator", "backup", system.settings, folder / "a")
        assert sum(sum(each["position"]) for each in manifest["proxies"]) > 0
        devices.begin(3)
        wait_until(lambda: counted(system)[3] >= 200, 30)
        system.aggregator.stop(signal.SIGKILL)
        report = deniable("aggregator", "restore", folder / "a", system.settings, "--replace")
        assert report["lost"] == []
        assert counted(system)[3] == 0
        system.aggregator.start()
        devices.begin(4)
        wait_until(lambda: counted(system)[4] >= 200, 30)
        told = wait_until(lambda: _settled(system, devices, (1, 2, 3)), 30)
        assert told == [devices.acknowledged[bucket] for bucket in (1, 2, 3)]

        # A proxy: what it acknowledged after its backup, and the aggregator had not read, is lost,
        # and named.
        devices.begin(5)
        deniable("proxy", "backup", proxy.file, folder / "p")
        devices.begin(6)
        wait_until(lambda: devices.acknowledged[6] >= 400, 30)
        proxy.stop(signal.SIGKILL)
        lost = deniable("proxy", "restore", folder / "p", proxy.file, "--replace")["lost"]
        epoch = QUERY.schedule.epoch_of(int(time.time()))
        assert [(each["channel"], each["epochs"][1]) for each in lost] == [
            (f"{QUERY.channel_tag:016x}", epoch)
        ]
        assert lost[0]["epochs"][0] <= epoch
        proxy.start()
        devices.begin(7)
        wait_until(lambda: devices.acknowledged[7] >= 400, 30)
    finally:
        devices.stop()
    wait_until(lambda: counted(system)[7] >= devices.acknowledged[7], 30)
    found = counted(system)
    acknowledged = [devices.acknowledged[bucket] for bucket in range(12)]
    # acknowledged before the proxy's backup: counted, and once
    assert found[1:5] == acknowledged[1:5]
    assert found[5] <= acknowledged[5]
    assert found[6] <= acknowledged[6]
    missing = sum(acknowledged) - sum(found)
    assert missing == acknowledged[5] + acknowledged[6] - found[5] - found[6]
    line = next(line for line in system.aggregator.lines() if line["event"] == "shares lost")
    assert (line["proxy"], line["last_epoch"]) == ("two", epoch)
    assert ("log_unreadable", "two") not in system.faults()


def _settled(
    system: OperatedSystem, devices: Devices, buckets: tuple[int, ...]
) -> list[int] | None:
    found = counted(system)
    told = [int(found[bucket]) for bucket in buckets]
    return (
        told
        if all(n >= devices.acknowledged[bucket] for n, bucket in zip(told, buckets, strict=True))
        else None
    )
