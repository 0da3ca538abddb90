"""An engine with a history, to be killed: the process of `tests/integration/test_history_killed.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.history import keeper as keeping
from deniable.aggregator.history.history_settings import HistorySettings
from deniable.aggregator.limits import EngineLimits
from deniable.aggregator.state import State, connect
from deniable.logs.share_logs import EmbeddedLog

LIMITS = {"step_bytes": 1, "bucket_bits": 2, "garbage": 3}
"""Small steps: many moments at which to die."""


def settings_in(folder: Path) -> HistorySettings:
    return HistorySettings(str(folder / "history"), publish_every=0)


def run(folder: Path, now: int, proxies: Sequence[str], ready: Any) -> None:
    """Count and keep until the end comes: each closed epoch at once to a file, two files to one, merged files gone at once."""
    keeping._MOST_FILES, keeping._SECONDS_TO_READ = 2, 0
    state = State(folder / "state.db", proxies)
    logs = [EmbeddedLog(folder / f"log{i}.db") for i in range(len(proxies))]
    engine = Engine(state, logs, EngineLimits(**LIMITS), lambda: now, settings_in(folder))
    keeper = keeping.Keeper(connect(folder / "state.db"), settings_in(folder), lambda: now)

    def keep() -> None:
        while True:
            keeper.step()
            time.sleep(0.001)

    threading.Thread(target=keep, daemon=True).start()
    ready.send(True)
    engine.run(threading.Event(), pause=0.001)
