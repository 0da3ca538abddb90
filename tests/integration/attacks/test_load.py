"""Weeks take no more of the machine than days; twice the capacity is pushed back, and nothing
acknowledged is lost.

`python benchmarks/load.py` does both for longer, and prints the figures.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.servers.loads import Overload, Soak

pytestmark = pytest.mark.slow


def test_after_a_week_a_system_takes_what_it_took_after_four_days(tmp_path: Path) -> None:
    soak = Soak(tmp_path, retention=86_400)
    try:
        soak.run(96)
        soak.run(72)
        earlier, later = soak.footprints
        assert later.handles == earlier.handles
        assert later.files <= earlier.files
        assert later.bytes_on_disk <= 1.1 * earlier.bytes_on_disk
        assert later.memory - earlier.memory < 8 << 20
        grown = {
            table: (earlier.rows[table], n)
            for table, n in later.rows.items()
            if n > 1.1 * earlier.rows[table] + 5
        }
        assert not grown
        assert soak.counted() == soak.sent
    finally:
        soak.close()


def test_twice_the_capacity_is_pushed_back_and_all_that_was_acknowledged_is_in_the_log(
    tmp_path: Path,
) -> None:
    overload = Overload(tmp_path)
    overload.run()
    assert set(overload.statuses) <= {202, 429, 503}
    assert overload.statuses[429] + overload.statuses[503] >= overload.n_uploads // 4
    assert overload.taken_at_once >= overload.n_uploads // 4
    assert overload.without_retry == 0
    assert overload.logged == overload.acknowledged == overload.n_uploads * overload.n_shares
    assert overload.seconds_to_recover < 30
