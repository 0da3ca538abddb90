"""The desk: the one thread that owns the intake. Requests hand in their uploads and wait; all that wait are taken together."""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from deniable.errors import LogError, RefusedError
from deniable.proxy.intake import Intake, Receipt, Upload

__all__ = ["IntakeWorker"]

_LOGGER = logging.getLogger("deniable.proxy")
_MOST_AT_ONCE = 512
_TICK = 0.25
"""Seconds between looks at what is due."""


@dataclass(frozen=True)
class _Handed:
    upload: Upload
    future: asyncio.Future[Receipt]
    loop: asyncio.AbstractEventLoop


class IntakeWorker:
    """Runs an intake. If the disk fails, or the log cannot be used any more, it takes nothing more and calls `on_failure`.

    A new start then finds out what is on the disk and in the log.
    """

    def __init__(self, intake: Intake, on_failure: Callable[[], None]) -> None:
        self._intake, self._on_failure = intake, on_failure
        self._queue: queue.SimpleQueue[_Handed | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="intake", daemon=True)
        self.failed = False

    def start(self) -> None:
        """Begin to take uploads."""
        self._thread.start()

    async def submit(self, upload: Upload) -> Receipt:
        """Hand in an upload, and wait until it is durable or refused."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Receipt] = loop.create_future()
        self._queue.put(_Handed(upload, future, loop))
        if self.failed:  # looked at after handing in: whoever failed in between has answered this one too, or does not any more
            raise _storage_error()
        return await future

    def call(self, action: Callable[[], None]) -> None:
        """Have something done by the thread that owns the intake, between two takes."""
        self._queue.put(action)

    def stop(self) -> None:
        """Take what was handed in, pass on all that waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended_well = False
        try:
            while self._turn():
                pass
            self._intake.flush()
            self._intake.close()
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
        handed: list[_Handed] = []
        going_on = True
        deadline = time.monotonic() + _TICK
        item = self._next(_TICK)
        while True:
            if isinstance(item, _Handed):
                handed.append(item)
            elif callable(item):
                self._take(handed)  # in the order in which they came
                handed = []
                item()
            elif item is _STOP:
                going_on = False
            if len(handed) >= _MOST_AT_ONCE or not going_on or self._queue.empty() or time.monotonic() > deadline:
                break
            item = self._next(0)
        self._take(handed)
        self._intake.tick()
        return going_on

    def _next(self, timeout: float) -> _Handed | Callable[[], None] | object | None:
        try:
            return self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
        except queue.Empty:
            return _NOTHING

    def _take(self, handed: list[_Handed]) -> None:
        if not handed:
            return
        try:
            results = self._intake.take([each.upload for each in handed])
        except BaseException:
            for each in handed:
                _answer(each, _storage_error())
            raise
        for each, result in zip(handed, results, strict=True):
            _answer(each, result)

    def _refuse_all(self) -> None:
        while not self._queue.empty():
            item = self._queue.get()
            if isinstance(item, _Handed):
                _answer(item, _storage_error())


_STOP = None
_NOTHING = object()


def _storage_error() -> RefusedError:
    return RefusedError(
        "storage", 503, "the proxy's disk or log has failed; nothing that was acknowledged is lost", retry_after=60
    )


def _answer(handed: _Handed, result: Receipt | RefusedError) -> None:
    def resolve() -> None:
        if handed.future.done():
            return
        if isinstance(result, RefusedError):
            handed.future.set_exception(result)
        else:
            handed.future.set_result(result)

    if not handed.loop.is_closed():
        handed.loop.call_soon_threadsafe(resolve)
