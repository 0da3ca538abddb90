"""Full and read-only disks, clocks that jump, little memory: each fault is told, ends, and loses
nothing acknowledged."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from deniable import seeded_source
from deniable.client.device import Device
from deniable.client.storage.store import Store
from deniable.client.witness import Witness
from deniable.errors import DeniableError, StoreError
from deniable.logs.sqlite_log import LogReader
from deniable.privacy.ledger import Limit
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import channels_of
from deniable.wire.blocks import Block
from toolkit.crowds import minute_query
from toolkit.devices import asked, at, make_policy, make_vault, signed
from toolkit.histories import FiledHistory, without_silence
from toolkit.servers.disks import Disk, mounted
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import body_of, make_columns

pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk") as made:
        yield made


# --- a device


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_device_whose_disk_is_full_or_read_only_refuses_in_a_line_and_charges_what_it_answered(
    tmp_path: Path, disk: Disk, fault: str
) -> None:
    query = asked()
    store = Store(disk.folder / "ann.db.client", witness=Witness(disk.folder / "witness"))
    device = Device(
        make_vault(tmp_path / "ann.db", [3.5]),
        make_policy(query),
        store,
        source=seeded_source(1),
        isolated=False,
    )
    answered = [device.answer(signed(query), at(0)).outcome == "answered"]
    for epoch in range(1, 7):
        broken = epoch in (2, 3, 4)
        if epoch == 2:
            disk.fill() if fault == "full" else disk.set_read_only(True)
        if epoch == 5:
            disk.free() if fault == "full" else disk.set_read_only(False)
        try:
            answered.append(device.answer(signed(query), at(epoch)).outcome == "answered")
        except StoreError as error:
            assert broken, str(error)  # noqa: PT017 - only some of them fail
            assert "\n" not in str(error)  # noqa: PT017
    assert sum(answered) >= 3
    assert answered[-1]
    with store.transaction() as transaction:
        spent = transaction.charges.accountant([Limit(1000)], at(9)).spent()
        assert float(spent) == pytest.approx(sum(answered) * query.epsilon)
        assert transaction.outbox.n_queued() == 2 * sum(answered)


# --- the aggregator's history


@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_history_whose_disk_is_full_or_read_only_keeps_every_report_until_it_can_be_filed(
    tmp_path: Path, disk: Disk, fault: str
) -> None:
    query = minute_query()
    filed = FiledHistory(tmp_path, [query])
    filed.settings = type(filed.settings)(str(disk.folder / "history"))
    filed.keeper.folder = type(filed.keeper.folder)(str(disk.folder / "history"))
    try:
        filed.file(query, np.arange(3000) % 12, 0, 0, seeded_source(1))
        filed.publish()
        disk.fill() if fault == "full" else disk.set_read_only(True)
        filed.file(query, np.arange(3000) % 12, 1, 0, seeded_source(2))
        with pytest.raises((OSError, DeniableError)):
            filed.publish()
        disk.free() if fault == "full" else disk.set_read_only(False)
        assert _figures(filed.stored()) == _figures(filed.counted())
        filed.publish()
        assert _figures(filed.stored()) == _figures(filed.counted())
    finally:
        filed.close()


def _figures(panes: Any) -> Any:
    return {key: (pane.n, pane.counts.tolist()) for key, pane in without_silence(panes).items()}


# --- clocks


def test_a_proxy_whose_clock_goes_back_and_forth_logs_what_it_acknowledged_once_and_reopens_nothing(
    tmp_path: Path,
) -> None:
    query = minute_query()
    now = [query.schedule.origin + 600]
    intake = Intake(tmp_path, IntakeRules(threshold=10, deadline=5, grace=120), lambda: now[0])
    intake.set_channels(channels_of([(query.header, None)]))
    acknowledged: set[bytes] = set()
    closed: dict[int, int] = {}
    jumps = np.random.default_rng(3).choice([-7200, -600, -61, 1, 30, 61, 600, 3600], 120)
    for i, jump in enumerate(jumps.tolist()):
        now[0] = max(query.schedule.origin, now[0] + jump)
        intake.tick()
        before, closed = closed, dict(intake.log.closed())
        assert all(closed[channel] >= epoch for channel, epoch in before.items()), (
            "an epoch was opened again"
        )
        epoch = max(0, query.schedule.epochs_begun(now[0]) - 1)
        columns = make_columns(query, epoch, 7)[0]
        (result,) = intake.take([Upload(bytes([i]), 100, body_of(query, epoch, columns))])
        if isinstance(result, UploadReceipt):
            acknowledged |= {row.tobytes() for row in columns[:2].T.copy()}
    intake.flush()
    reader = LogReader(tmp_path / "log.db")
    logged = [
        share.id
        for _, content in reader.read(0, 100_000)
        for share in Block.from_bytes(content).shares()
    ]
    reader.close()
    assert len(acknowledged) > 100
    assert len(logged) == len(set(logged))
    assert set(logged) == acknowledged


_BROKEN_OFF = {"ReadError", "WriteError", "RemoteProtocolError", "ConnectError"}
"""What a client sees of a proxy that has ended."""


# --- memory


def test_a_proxy_with_little_memory_sheds_large_uploads_and_logs_what_it_acknowledged(
    tmp_path: Path,
) -> None:
    query = query_of_today()
    epoch = query.schedule.epochs_begun(int(time.time())) - 1
    with ProxyProcess(
        tmp_path, '[limits]\nlargest_body = "8 MiB"\nmost_waiting = "256 MiB"\n'
    ) as proxy:
        proxy.publish(query)
        assert proxy.process is not None
        pages = int(Path(f"/proc/{proxy.process.pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (16 << 20)
        resource.prlimit(proxy.process.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        statuses: list[int | str] = []
        rows = 60_000  # 4.8 MB a body
        bodies = [make_columns(query, epoch, rows)[0] for _ in range(6)]

        def send(columns: Any) -> None:
            try:
                content = body_of(query, epoch, columns)
                answer = httpx.post(
                    f"{proxy.address}/v1/shares",
                    content=content,
                    headers=proxy.token(quota=1 << 30),
                    timeout=60,
                )
                statuses.append(answer.status_code)
            except httpx.HTTPError as error:
                statuses.append(type(error).__name__)

        threads = [threading.Thread(target=send, args=(columns,)) for columns in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(statuses) <= {202, 429, 503} | _BROKEN_OFF, statuses
        assert statuses.count(202) < len(bodies), "there was enough memory: nothing was tried"
        if proxy.process.poll() is None:
            resource.prlimit(
                proxy.process.pid,
                resource.RLIMIT_AS,
                (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
            )
            proxy.stop()
        else:  # it ended by itself, and whoever runs it starts it again
            proxy.process = None
        proxy.start()
        headers = proxy.token(quota=1 << 30)
        small = body_of(query, epoch, make_columns(query, epoch, 1)[0])
        assert (
            httpx.post(f"{proxy.address}/v1/shares", content=small, headers=headers).status_code
            == 202
        )
        proxy.stop()
        n_logged = proxy.logged().shape[1] - 1
        assert n_logged >= rows * statuses.count(202)
        assert n_logged % rows == 0, "a part of an upload was taken"
