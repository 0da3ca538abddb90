"""One thread takes all waiting uploads together: requests hand them in and receive the results.

The thread either owns the intake or sends the uploads to a proxy that does
(:mod:`deniable.proxy.collecting.uplink`).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from deniable.errors import LogError, RefusedError
from deniable.proxy.intake.uploads import Intake, Upload, UploadReceipt
from deniable.service.faults import name_of_error
from deniable.service.tokens import Token

__all__ = ["IntakeWorker", "Result", "UploadWorker"]

_LOGGER = logging.getLogger("deniable.proxy")
_MOST_AT_ONCE = 8192
_TICK = 0.25
"""Seconds between checks for what is due."""
_PAUSE = 0.01
"""Seconds an upload may wait for others while they arrive often, because each commit costs a disk
sync."""
_LONGER_PAUSE, _FEW = 0.025, 8
"""The same while fewer than `_FEW` are waiting and the last commit had several."""
_OFTEN = 0.05
"""Uploads arrive often if one came within this many seconds of the last commit."""
Result = UploadReceipt | RefusedError
Done = Callable[[Sequence[Result]], None]


class _Handed(NamedTuple):
    uploads: Sequence[Upload]
    done: Done
    loop: asyncio.AbstractEventLoop


class UploadWorker:
    """A thread that takes all waiting uploads at once. If that fails, it takes no more and calls
    `on_failure`."""

    def __init__(self, on_failure: Callable[[], None], name: str) -> None:
        self._on_failure = on_failure
        self._handed: deque[_Handed] = deque()
        self._actions: deque[Callable[[], None]] = deque()
        self._woken = threading.Event()
        self._stopping = False
        self._taken_at = self._since = 0.0
        """When uploads were last taken, and when the first of those now waiting was handed in."""
        self._several = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failed = False
        self.fault = ""
        """The name of the fault with which it failed."""
        self.take_seconds = 0.0
        """How long the last uploads took to be made durable."""

    @property
    def n_uploads_waiting(self) -> int:
        """How many requests were handed in and not taken yet."""
        return len(self._handed)

    def sender(self, token: Token) -> bytes:
        """How its uploads name the holder of a token: by what quotas are counted by."""
        return token.client

    def take(self, uploads: Sequence[Upload]) -> Sequence[Result]:
        """The result of each upload; what is acknowledged is durable when this returns."""
        raise NotImplementedError

    def tick(self) -> None:
        """Do what is due; called after every take and a few times per second."""

    def end(self) -> None:
        """Do what is left, once nothing more arrives."""

    def start(self) -> None:
        """Start taking uploads."""
        self._thread.start()

    def hand_in(self, uploads: Sequence[Upload], done: Done) -> None:
        """Hand in uploads from an event loop's thread; `done` is called there with the result of
        each, once it is durable."""
        if not self._handed:
            self._since = time.monotonic()
        self._handed.append(_Handed(uploads, done, asyncio.get_running_loop()))
        if not self._woken.is_set():
            self._woken.set()
        # checked after handing in: a failure in between may or may not have answered this one
        if self.failed:
            self._refuse_all()

    async def submit(self, upload: Upload) -> UploadReceipt:
        """Hand in an upload and wait until it is durable or refused."""
        future: asyncio.Future[UploadReceipt] = asyncio.get_running_loop().create_future()

        def done(results: Sequence[Result]) -> None:
            if future.done():
                return
            if isinstance(results[0], RefusedError):
                future.set_exception(results[0])
            else:
                future.set_result(results[0])

        self.hand_in([upload], done)
        return await future

    def call(self, action: Callable[[], None]) -> None:
        """Run an action in this thread before any uploads handed in later are taken."""
        self._actions.append(action)
        self._woken.set()

    def stop(self) -> None:
        """Take what was handed in, do what is left, and end."""
        self._stopping = True
        self._woken.set()
        self._thread.join()

    def _run(self) -> None:
        ended_well = False
        try:
            while self._turn():
                pass
            self.end()
            ended_well = True
        except (OSError, sqlite3.Error) as error:
            self.fault = name_of_error(error)
            fields = {
                "fault": self.fault,
                "subject": self._thread.name,
                "error": type(error).__name__,
            }
            _LOGGER.critical("storage failed", extra={"fields": fields})
        # anything may be half done: only a restart, which reads the disk, finds out what was
        except MemoryError as error:
            self.fault = name_of_error(error)
            _LOGGER.critical(
                "out of memory",
                extra={"fields": {"fault": self.fault, "subject": self._thread.name}},
            )
        except LogError as error:
            self.fault = "log_damaged"
            _LOGGER.critical(
                "log failed", extra={"fields": {"fault": self.fault, "error": str(error)}}
            )
        finally:
            if not ended_well:
                self.failed = True
                self._on_failure()
                self._refuse_all()

    def _turn(self) -> bool:
        """One round: wait for something, take all that is there, and do what is due. False if it
        was the last."""
        self._woken.wait(_TICK)
        if self._handed and not self._stopping and self._since - self._taken_at < _OFTEN:
            time.sleep(max(0.0, self._since + _PAUSE - time.monotonic()))
            if self._several and len(self._handed) < _FEW:
                time.sleep(max(0.0, self._since + _LONGER_PAUSE - time.monotonic()))
        self._woken.clear()
        # read before the uploads, so that what was handed in before the stop is taken
        going_on = not self._stopping
        handed: list[_Handed] = []
        n_uploads = 0
        while self._handed and n_uploads < _MOST_AT_ONCE:
            handed.append(self._handed.popleft())
            n_uploads += len(handed[-1].uploads)
        while self._actions:
            self._actions.popleft()()
        if handed:
            self._several = n_uploads > 1
            began = time.monotonic()
            self._take(handed)
            self._taken_at = time.monotonic()
            self.take_seconds = self._taken_at - began
        self.tick()
        if self._handed:
            self._woken.set()
            return True
        return going_on

    def _take(self, handed: list[_Handed]) -> None:
        try:
            results = self.take([upload for each in handed for upload in each.uploads])
        except BaseException:
            _refuse(handed)
            raise
        _answer(handed, results)

    def _refuse_all(self) -> None:
        left = []
        while self._handed:
            left.append(self._handed.popleft())
        _refuse(left)


class IntakeWorker(UploadWorker):
    """Owns an intake. If the disk fails or the log becomes unusable, a restart finds out what was
    stored."""

    def __init__(self, intake: Intake, on_failure: Callable[[], None]) -> None:
        super().__init__(on_failure, "intake")
        self._intake = intake

    def take(self, uploads: Sequence[Upload]) -> Sequence[Result]:
        """Take them into the intake."""
        return self._intake.take(uploads)

    def tick(self) -> None:
        """Flush and close what is due."""
        self._intake.tick()

    def end(self) -> None:
        """Pass on everything that is waiting."""
        self._intake.flush()
        self._intake.close()


def _refuse(handed: Sequence[_Handed]) -> None:
    detail = "the proxy's disk or log has failed; nothing that was acknowledged is lost"
    error = RefusedError("storage", 503, detail, retry_after=60)
    _answer(handed, [error for each in handed for _ in each.uploads])


def _answer(handed: Sequence[_Handed], results: Sequence[Result]) -> None:
    """Give each loop all its results at once, because waking a loop is what costs."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Done, Sequence[Result]]]] = {}
    at = 0
    for each in handed:
        by_loop.setdefault(each.loop, []).append((each.done, results[at : at + len(each.uploads)]))
        at += len(each.uploads)
    for loop, answers in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_deliver, answers)


def _deliver(answers: list[tuple[Done, Sequence[Result]]]) -> None:
    for done, results in answers:
        done(results)
