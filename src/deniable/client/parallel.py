"""Talking to several proxies at once, so that one that hangs delays nobody."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

__all__ = ["NamedWorkers"]

_T = TypeVar("_T")


class NamedWorkers(Generic[_T]):
    """One worker per name. A worker that is still busy is left alone, and nobody waits for its
    result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: set[str] = set()

    def run(self, work: Mapping[str, Callable[[], _T]], patience: float) -> dict[str, _T]:
        """Do the work of all names at the same time; returns what is done after `patience` seconds,
        in the order of the names.

        An exception in any of the work is raised here. Work that takes longer continues in the
        background, and its name is skipped until it ends.
        """
        with self._lock:
            free = [name for name in work if name not in self._busy]
            self._busy.update(free)
        done: queue.SimpleQueue[tuple[str, _T | None, BaseException | None]] = queue.SimpleQueue()
        for name in free:
            threading.Thread(target=self._do, args=(name, work[name], done), daemon=True).start()
        results: dict[str, _T] = {}
        deadline = time.monotonic() + patience
        for _ in free:
            try:
                name, result, error = done.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if error is not None:
                raise error
            results[name] = result  # type: ignore[assignment]
        return {name: results[name] for name in work if name in results}

    def _do(
        self,
        name: str,
        work: Callable[[], _T],
        done: queue.SimpleQueue[tuple[str, _T | None, BaseException | None]],
    ) -> None:
        try:
            outcome = name, work(), None
        except BaseException as error:
            outcome = name, None, error  # type: ignore[assignment]
        with self._lock:
            self._busy.discard(name)
        done.put(outcome)
