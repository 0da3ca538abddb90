"""The locks of a state file: what one process does with it never takes them from another."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from deniable.aggregator.state import connect


def _another_process(path: Path, statement: str) -> None:
    code = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute({statement!r}); c.commit(); c.close()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)  # noqa: S603 - our own interpreter


def test_another_process_that_ends_leaves_the_write_ahead_log_to_those_who_have_the_state_open(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(connect(path)) as held:
        held.execute("INSERT INTO meta VALUES ('before', 1)")
        connect(path).close()  # as the relay does in each of its steps
        log = path.with_name("state.db-wal")
        inode = log.stat().st_ino
        _another_process(path, "INSERT INTO meta VALUES ('by another', 2)")  # as `deniable aggregator token` does
        assert log.exists()
        assert log.stat().st_ino == inode
        held.execute("INSERT INTO meta VALUES ('after', 3)")
    with closing(connect(path)) as again:
        kept = dict(again.execute("SELECT name, value FROM meta WHERE name IN ('before', 'by another', 'after')"))
    assert kept == {"before": 1, "by another": 2, "after": 3}
