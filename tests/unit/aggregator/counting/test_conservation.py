"""Conservation: received = counted + orphaned + duplicate + late + malformed, after every kind of
fault, per proxy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.conservation import Account, Ledger, statement
from deniable.queries.strata import Stratum
from toolkit.crowds import Crowd, minute_query


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(tmp_path, minute_query(strata=[Stratum("all")]))
    yield crowd
    crowd.close_all()


def nothing_wrong(crowd: Crowd) -> None:
    crowd.answer([1] * 20)


def a_share_missing(crowd: Crowd) -> None:
    shares = crowd.split([1] * 20)
    crowd.append(0, shares[0])
    crowd.append(1, shares[1][:, 5:])


def shares_twice(crowd: Crowd) -> None:
    shares = crowd.answer([1] * 20)
    crowd.append(1, shares[1][:, :4])


def whole_messages_twice(crowd: Crowd) -> None:
    shares = crowd.answer([1] * 20)
    for proxy in range(2):
        crowd.append(proxy, shares[proxy][:, :4])


def a_flipped_bit(crowd: Crowd) -> None:
    shares = crowd.split([1] * 20)
    shares[0][4, :3] ^= np.uint64(1)
    for proxy in range(2):
        crowd.append(proxy, shares[proxy])


def an_unknown_stratum(crowd: Crowd) -> None:
    crowd.answer([1] * 20, strata=[0] * 17 + [9] * 3)


def a_version_nobody_published(crowd: Crowd) -> None:
    crowd.answer([1] * 17)
    crowd.answer([1] * 3, query=crowd.query.revised(minimum_cohort=7))


FAULTS: dict[Callable[[Crowd], None], tuple[dict[str, int], dict[str, int]]] = {
    nothing_wrong: ({"received": 20, "counted": 20}, {"received": 20, "counted": 20}),
    a_share_missing: (
        {"received": 20, "counted": 15, "orphaned": 5},
        {"received": 15, "counted": 15},
    ),
    shares_twice: (
        {"received": 20, "counted": 20},
        {"received": 24, "counted": 20, "duplicate": 4},
    ),
    whole_messages_twice: ({"received": 24, "counted": 20, "duplicate": 4},) * 2,
    a_flipped_bit: ({"received": 20, "counted": 17, "malformed": 3},) * 2,
    an_unknown_stratum: ({"received": 20, "counted": 17, "malformed": 3},) * 2,
    a_version_nobody_published: ({"received": 20, "counted": 17, "malformed": 3},) * 2,
}


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("step_bytes", [1, 1 << 20])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_every_share_has_one_outcome_after(
    fault: Callable[[Crowd], None], step_bytes: int, restart: bool, crowd: Crowd
) -> None:
    engine = crowd.engine(step_bytes=step_bytes)
    fault(crowd)
    engine.drain()
    if restart:
        engine = crowd.engine()
    crowd.mark(3)
    engine.drain()
    assert crowd.accounts() == list(FAULTS[fault])
    assert crowd.counts().sum() == FAULTS[fault][0]["counted"]
    window = crowd.windows()[0]
    assert window.conservation["balanced"] is True
    told = window.conservation["proxies"]
    assert [{k: v for k, v in told[name].items() if v} for name in crowd.query.proxies] == list(
        FAULTS[fault]
    )


@pytest.mark.parametrize("restart", [False, True])
def test_a_replay_is_found_whenever_it_comes(restart: bool, crowd: Crowd) -> None:
    engine = crowd.engine()
    shares = crowd.answer([1] * 20)
    alone = crowd.answer([1] * 6, proxies=[0])
    engine.drain()
    if restart:
        engine = crowd.engine()
    for proxy in range(2):
        # of messages that are joined: by all proxies together they would make them again
        crowd.append(proxy, shares[proxy])
    crowd.append(0, alone[0])  # and of some that wait
    engine.drain()
    assert crowd.accounts() == [
        {"received": 52, "counted": 20, "duplicate": 26, "waiting": 6},
        {"received": 40, "counted": 20, "duplicate": 20},
    ]
    assert crowd.counts().sum() == 20


def test_while_an_epoch_is_open_what_has_no_outcome_is_what_waits(crowd: Crowd) -> None:
    engine = crowd.engine()
    a_share_missing(crowd)
    engine.drain()
    assert crowd.accounts() == [
        {"received": 20, "counted": 15, "waiting": 5},
        {"received": 15, "counted": 15},
    ]
    assert [health.waiting for health in engine.health] == [5, 0]


def test_late_shares_are_booked_in_their_epoch(crowd: Crowd) -> None:
    engine = crowd.engine()
    shares = crowd.answer([1] * 20)
    engine.drain()
    crowd.mark(1)
    engine.drain()
    # a replay, but of a closed epoch: what it repeats is forgotten
    crowd.append(1, shares[1][:, :6])
    crowd.answer([1] * 5)
    engine.drain()
    assert crowd.accounts() == [
        {"received": 25, "counted": 20, "late": 5},
        {"received": 31, "counted": 20, "late": 11},
    ]


def test_what_belongs_to_no_window_is_booked_outside_of_all(crowd: Crowd) -> None:
    engine = crowd.engine()
    crowd.answer([1] * 3, epoch=90)  # not begun
    crowd.answer([1] * 4, epoch=86400)  # after the end
    log = crowd.logs[0]
    log._connection.execute(
        "INSERT INTO blocks (channel, epoch, size_class, prefix_bits, prefix, n, appended, block)"
        " VALUES ('', 0, 0, 0, 0, 1, 0, ?)",
        (b"no block at all",),
    )
    engine.drain()
    assert crowd.accounts(-1) == [{"received": 8, "malformed": 8}, {"received": 7, "malformed": 7}]
    assert crowd.state is not None
    reasons = crowd.state.connection.execute(
        "SELECT reason, n FROM refusals WHERE proxy = 0 ORDER BY reason"
    ).fetchall()
    assert reasons == [("expired", 4), ("future", 3), ("truncated", 1)]


def test_totals_are_those_of_all_accounts(crowd: Crowd) -> None:
    engine = crowd.engine()
    for fault in FAULTS:
        fault(crowd)
    crowd.mark(1)
    engine.drain()
    assert crowd.state is not None
    totals: dict[Any, int] = {
        (proxy, outcome): n
        for proxy, outcome, n in crowd.state.connection.execute(
            "SELECT proxy, outcome, n FROM totals"
        )
    }
    for proxy, account in enumerate(crowd.accounts()):
        assert {outcome: n for (p, outcome), n in totals.items() if p == proxy} == account
        assert account["received"] == sum(
            n for outcome, n in account.items() if outcome != "received"
        )


def test_a_statement_says_when_it_does_not_balance() -> None:
    good, bad = Account(received=3, counted=2, late=1), Account(received=3, counted=1)
    assert statement(["a", "b"], {0: good})["balanced"] is True
    told = statement(["a", "b"], {0: good, 1: bad})
    assert told["balanced"] is False
    assert told["proxies"]["b"]["waiting"] == 2


def test_an_entry_of_nothing_leaves_no_trace() -> None:
    ledger = Ledger()
    ledger.enter((0, 1, 2), "late", 0)
    assert not ledger
