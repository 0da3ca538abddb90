"""One thread takes all uploads that wait, together: requests hand them in and are told what became of them.

The thread either owns the intake, or carries the uploads to a proxy that does (:mod:`deniable.proxy.uplink`).
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
from deniable.proxy.intake import Intake, Receipt, Upload

__all__ = ["Done", "IntakeWorker", "Result", "UploadWorker"]

_LOGGER = logging.getLogger("deniable.proxy")
_MOST_AT_ONCE = 8192
_TICK = 0.25
"""Seconds between looks at what is due."""
_PAUSE = 0.002
"""Seconds for which more uploads are waited for while several come at a time: each commit costs a sync of the disk."""
Result = Receipt | RefusedError
Done = Callable[[Result], None]


class _Handed(NamedTuple):
    upload: Upload
    done: Done
    loop: asyncio.AbstractEventLoop


class UploadWorker:
    """A thread that takes uploads, all that wait at a time. If taking fails it takes nothing more and calls `on_failure`."""

    def __init__(self, on_failure: Callable[[], None], name: str) -> None:
        self._on_failure = on_failure
        self._handed: deque[_Handed] = deque()
        self._actions: deque[Callable[[], None]] = deque()
        self._woken = threading.Event()
        self._stopping = False
        self._crowded = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failed = False

    def take(self, uploads: Sequence[Upload]) -> Sequence[Result]:
        """What becomes of each upload; what is acknowledged is durable when this returns."""
        raise NotImplementedError

    def tick(self) -> None:
        """Do what is due, after every take and a few times a second."""

    def end(self) -> None:
        """Do what is left, once nothing more comes."""

    def start(self) -> None:
        """Begin to take uploads."""
        self._thread.start()

    def hand_in(self, upload: Upload, done: Done) -> None:
        """Hand in an upload, in the thread of a loop; `done` is called there once it is durable or refused."""
        self._handed.append(_Handed(upload, done, asyncio.get_running_loop()))
        if not self._woken.is_set():
            self._woken.set()
        if self.failed:  # looked at after handing in: whoever failed in between has answered this one too, or does not any more
            self._refuse_all()

    async def submit(self, upload: Upload) -> Receipt:
        """Hand in an upload, and wait until it is durable or refused."""
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()

        def done(result: Result) -> None:
            if future.done():
                return
            if isinstance(result, RefusedError):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.hand_in(upload, done)
        return await future

    def call(self, action: Callable[[], None]) -> None:
        """Have something done by this thread, before the uploads that are handed in after it are taken."""
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
            _LOGGER.critical("storage failed", extra={"fields": {"error": type(error).__name__}})
        except LogError as error:
            _LOGGER.critical("log failed", extra={"fields": {"error": str(error)}})
        finally:
            if not ended_well:
                self.failed = True
                self._on_failure()
                self._refuse_all()

    def _turn(self) -> bool:
        """One round: wait for something, take all that is there, and look what is due. False when it is the last."""
        self._woken.wait(_TICK)
        if self._crowded and not self._stopping:
            time.sleep(_PAUSE)
        self._woken.clear()
        going_on = not self._stopping  # looked at before the uploads: what was handed in before the stop is taken
        handed: list[_Handed] = []
        while self._handed and len(handed) < _MOST_AT_ONCE:
            handed.append(self._handed.popleft())
        while self._actions:
            self._actions.popleft()()
        self._crowded = len(handed) > 1
        if handed:
            self._take(handed)
        self.tick()
        if self._handed:
            self._woken.set()
            return True
        return going_on

    def _take(self, handed: list[_Handed]) -> None:
        try:
            results = self.take([each.upload for each in handed])
        except BaseException:
            _answer(handed, [_storage_error()] * len(handed))
            raise
        _answer(handed, results)

    def _refuse_all(self) -> None:
        left = []
        while self._handed:
            left.append(self._handed.popleft())
        _answer(left, [_storage_error()] * len(left))


class IntakeWorker(UploadWorker):
    """Owns an intake. If the disk fails, or the log cannot be used any more, a new start finds out what is there."""

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
        """Pass on all that waits."""
        self._intake.flush()
        self._intake.close()


def _storage_error() -> RefusedError:
    return RefusedError(
        "storage", 503, "the proxy's disk or log has failed; nothing that was acknowledged is lost", retry_after=60
    )


def _answer(handed: Sequence[_Handed], results: Sequence[Result]) -> None:
    """Tell each loop of all its uploads at once: waking a loop costs more than telling."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Done, Result]]] = {}
    for each, result in zip(handed, results, strict=True):
        by_loop.setdefault(each.loop, []).append((each.done, result))
    for loop, told in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_tell, told)


def _tell(told: list[tuple[Done, Result]]) -> None:
    for done, result in told:
        done(result)
