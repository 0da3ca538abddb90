"""A simulated crowd: in every epoch everyone answers, and their shares travel to the proxies over
HTTP.

Some are whole devices, each with a vault, a policy, a ledger and a store, that poll the proxies for
queries, run the SQL in the sandbox and upload individually, as on a phone. The others are a fleet:
their true answers are known, and everything that follows (sampling, randomizing, splitting) is the
same code (:mod:`deniable.client.encoding`), run for all of them at once.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from deniable.client.device import Device
from deniable.client.encoding import upload_body
from deniable.client.http_transport import HttpTransport
from deniable.client.simulation.fleet import Fleet
from deniable.client.upload import Transport
from deniable.errors import UploadError
from deniable.local.people import Answers
from deniable.queries.query import Query
from deniable.randomness import Source

__all__ = ["Crowd"]

_RECORDS_AT_ONCE = 4096
_PAUSE = 0.05
_DEVICES_AT_ONCE = 8


class Crowd:
    """People who answer one query, epoch by epoch, from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        query: Query,
        fleet: Answers | None,
        tokens: Sequence[str],
        devices: Sequence[Device] = (),
        *,
        source: Source | None = None,
        seed: int | None = None,
        transport: Callable[[], HttpTransport] = HttpTransport,
    ) -> None:
        self.query, self.devices, self._tokens = query, list(devices), list(tokens)
        self._answers = fleet
        strata = 0 if fleet is None or fleet.strata is None else fleet.strata
        self._fleet = (
            None if fleet is None else Fleet(query, len(fleet), strata=strata, source=source)
        )
        self._random = np.random.default_rng(seed)
        self._transport = transport
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._each_epoch, args=(work,), name=name, daemon=True)
            for name, work, there in (
                ("fleet", self._fleet_answers, fleet is not None),
                ("devices", self._devices_answer, bool(devices)),
            )
            if there
        ]
        self.counts: Counter[str] = Counter()
        """Answers and shares that arrived, refused shares, device epochs by outcome, missed
        epochs."""
        self.problems: list[str] = []

    def __len__(self) -> int:
        return len(self.devices) + (0 if self._answers is None else len(self._answers))

    def start(self) -> None:
        """Start answering with the current epoch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish what is in flight, and stop answering."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _each_epoch(self, work: Callable[[int, Transport], None]) -> None:
        """Do the work once per epoch, at its beginning; an epoch that has passed meanwhile is
        missed, as on a device."""
        schedule = self.query.schedule
        last = -1
        with self._transport() as transport:
            while not self._stopping.is_set():
                epoch = schedule.epochs_over(int(time.time()))
                if epoch >= schedule.n_epochs:
                    return
                if epoch > last:
                    self.counts["epochs missed"] += max(0, epoch - last - 1) if last >= 0 else 0
                    last = epoch
                    work(epoch, transport)
                self._stopping.wait(_PAUSE)

    def _fleet_answers(self, epoch: int, transport: Transport) -> None:
        assert self._fleet is not None  # noqa: S101 - its thread is only started with a fleet
        assert self._answers is not None  # noqa: S101
        sent = self._fleet.answer(epoch, self._answers.draw(self._random))
        for first in range(0, len(sent), _RECORDS_AT_ONCE):
            arrived = True
            for proxy, token, columns in zip(
                self.query.proxies, self._tokens, sent.columns, strict=True
            ):
                part = columns[:, first : first + _RECORDS_AT_ONCE]
                arrived = (
                    self._send(
                        transport, proxy, token, upload_body(self.query, epoch, part), part.shape[1]
                    )
                    and arrived
                )
            if arrived:
                with self._lock:
                    self.counts["answers"] += min(_RECORDS_AT_ONCE, len(sent) - first)

    def _send(self, transport: Transport, proxy: str, token: str, body: bytes, n: int) -> bool:
        """Send until the proxy has it, as a device does; False if it is refused for good, or the
        crowd is being stopped."""
        while True:
            try:
                transport.send(proxy, token, body)
            except UploadError as error:
                self.problems.append(f"{proxy} {error.detail}")
                if error.final or self._stopping.is_set():
                    with self._lock:
                        self.counts["shares refused"] += n
                    return False
                self._stopping.wait(_PAUSE)
                continue
            with self._lock:
                self.counts["shares"] += n
            return True

    def _devices_answer(self, _: int, transport: Transport) -> None:
        def once(device: Device) -> None:
            if self._stopping.is_set():
                return
            receipts, uploaded = device.once(transport)
            with self._lock:
                for receipt in receipts:
                    if receipt.outcome not in ("again", "waiting"):
                        self.counts[f"devices {receipt.outcome}"] += 1
                        self.counts["answers"] += (
                            receipt.outcome == "answered"
                        ) * self.query.most_rows
                self.counts["shares"] += uploaded.sent
                self.counts["shares refused"] += uploaded.refused
                self.problems += uploaded.problems

        # Several at a time: each waits for its proxies, which wait for their disks.
        with ThreadPoolExecutor(_DEVICES_AT_ONCE) as pool:
            list(pool.map(once, self.devices))
