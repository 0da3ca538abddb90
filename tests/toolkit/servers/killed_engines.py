"""Engines to be killed, in processes that are forked from one which has imported what takes long:
that is done fifty times."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.history import maintenance as keeping
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import State, connect
from deniable.logs.share_logs import EmbeddedLog

_PRELOADED = [
    "deniable.aggregator.engines.embedded",
    "deniable.aggregator.history.maintenance",
    "deniable.logs.share_logs",
    "deniable.mechanisms.protocols.direct",
    "pyarrow.parquet",
    "pyarrow.fs",
]
LIMITS = {"step_bytes": 1, "bucket_bits": 2, "garbage": 3}
"""Small steps: many moments at which to die."""


def settings_in(folder: Path) -> HistorySettings:
    return HistorySettings(str(folder / "history"), publish_every=0)


def started(
    run: Callable[..., None], folder: Path, now: int, proxies: Sequence[str]
) -> ForkServerProcess:
    """A process that runs one of the engines below, once it is ready."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    here, there = context.Pipe()
    process = context.Process(target=run, args=(folder, now, proxies, there), daemon=True)
    process.start()
    assert here.poll(60)
    here.recv()
    return process


def kill(process: ForkServerProcess) -> None:
    """End it at once, in the middle of whatever it does: it must still be at work."""
    assert process.is_alive()
    process.kill()
    process.join()
    process.close()


def count(folder: Path, now: int, proxies: Sequence[str], ready: Any) -> None:
    """Count until the end comes."""
    state = State(folder / "state.db", proxies)
    logs = [EmbeddedLog(folder / f"log{i}.db") for i in range(len(proxies))]
    engine = Engine(state, logs, EngineLimits(**LIMITS), lambda: now)
    ready.send(True)
    engine.run(threading.Event(), pause=0.001)


def count_and_keep(folder: Path, now: int, proxies: Sequence[str], ready: Any) -> None:
    """Count and keep until the end comes: each closed epoch at once to a file, two files to one,
    merged files gone at once."""
    keeping._MOST_FILES, keeping._SECONDS_TO_READ = 2, 0
    state = State(folder / "state.db", proxies)
    logs = [EmbeddedLog(folder / f"log{i}.db") for i in range(len(proxies))]
    engine = Engine(state, logs, EngineLimits(**LIMITS), lambda: now, settings_in(folder))
    keeper = keeping.HistoryMaintainer(
        connect(folder / "state.db"), settings_in(folder), lambda: now
    )

    def keep() -> None:
        while True:
            keeper.step()
            time.sleep(0.001)

    threading.Thread(target=keep, daemon=True).start()
    ready.send(True)
    engine.run(threading.Event(), pause=0.001)
