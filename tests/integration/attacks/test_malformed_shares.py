"""Malformed shares at the ports of real proxies and in the join: every one is counted by reason,
none as an answer.

`python benchmarks/malformed.py` does the same with a million.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.attacks.malformed import JOINED, Flood


@pytest.mark.slow
def test_every_malformed_share_is_refused_for_its_reason_and_none_is_counted(
    tmp_path: Path,
) -> None:
    flood = Flood(tmp_path, 4000)
    n_answers, refused, balanced = flood.run()
    assert flood.told == flood.expected
    assert sum(flood.told.values()) == flood.n_records
    metered = {
        name.removeprefix('refused_total{reason="').removesuffix('"}'): n
        for name, n in flood.metered.items()
        if name.startswith("refused_total") and n
    }
    assert metered == dict(flood.expected)
    assert (
        flood.metered["shares_accepted_total"]
        == flood.n_good + (len(JOINED) + 1) * flood.n_messages
    )
    assert refused == dict.fromkeys((*JOINED, "orphaned"), flood.n_messages)
    assert n_answers == flood.n_good
    assert balanced
