from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.client import encoding
from deniable.client.device import STEPS, Device
from deniable.client.payment import scope_of
from deniable.client.receipts import Receipt
from deniable.client.sandbox.answer import choose, name_of
from deniable.client.storage.journal import MOST_RECEIPTS
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.errors import StoreError
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.privacy.ledger import Limit
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.signing import SignedQuery, sign
from deniable.queries.strata import Stratum
from deniable.randomness import ONE, seeded_source
from deniable.scripted_randomness import every_path
from deniable.wire.message import ANSWER, NOTHING
from toolkit.devices import (
    KEY,
    ORIGIN,
    STRANGER,
    Network,
    asked,
    at,
    bits,
    make_device,
    make_policy,
    opened,
    queued,
    records,
    signed,
)
from toolkit.queries import MILES

CERTAIN = {"name": "UnaryEncoding", "a": 1 - 2**-40, "b": 2**-40}
"""A mechanism that all but tells the truth, so that tests can see what was asked of the
mechanism."""
GENEROUS: dict[str, Any] = {"epsilon_per_answer": 1000, "limits": (Limit(10**6),)}


def spent(device: Device, query: Query) -> Fraction:
    with device.store.transaction() as transaction:
        return transaction.charges.spent_on(query.analyst, query.id)


def said(device: Device) -> list[list[int]]:
    """The buckets whose bits are set in each message that waits."""
    return [np.flatnonzero(bits(message.report, 11)).tolist() for message in opened(device)]


# --- answering


def test_an_answer_is_randomized_charged_split_and_queued_and_the_receipt_says_so(
    tmp_path: Path,
) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    receipt = device.answer(signed(query), at(4))
    assert (receipt.outcome, receipt.epoch, receipt.epsilon) == (
        "answered",
        4,
        Fraction(repr(query.epsilon)),
    )
    assert receipt.left == 1000 - receipt.epsilon
    assert spent(device, query) == receipt.epsilon
    [message] = opened(device)
    assert (message.kind, message.epoch, message.query_tag) == (ANSWER, 4, query.tag)
    assert [proxy for proxy, _, _ in queued(device)] == list(query.proxies)


def test_the_right_bucket_is_answered(tmp_path: Path) -> None:
    query = asked(mechanism=CERTAIN)
    device = make_device(tmp_path, query, [3.5], policy=make_policy(query, **GENEROUS))
    device.answer(signed(query), at(0))
    assert said(device) == [[3]]


def test_sql_can_ask_for_what_happened_in_the_epoch_that_is_answered_for(tmp_path: Path) -> None:
    every = asked().schedule.every
    sql = (
        f"SELECT (:epoch_start - {ORIGIN}) / {every} + (:epoch_end - :epoch_start) / {every} / 2.0"
    )
    query = asked(sql=f"{sql} FROM trips", mechanism=CERTAIN)
    device = make_device(tmp_path, query, policy=make_policy(query, **GENEROUS))
    # late in its epoch as well as at its start
    for epoch, second in ((0, 0), (2, every - 1), (5, 1)):
        assert device.answer(signed(query), at(epoch, second)).outcome == "answered"
    assert said(device) == [[0], [2], [5]]
    other = asked(sql="SELECT :epoch FROM trips", id="other")
    (tmp_path / "b").mkdir()
    refused = make_device(tmp_path / "b", other).answer(signed(other), at(0))
    assert (refused.outcome, refused.reason) == ("refused", "forbidden SQL")
    assert ":epoch_start and :epoch_end" in refused.detail


def test_one_answer_an_epoch_whatever_the_version_and_whatever_the_clock_does(
    tmp_path: Path,
) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    assert device.answer(signed(query), at(4)).outcome == "answered"
    for again in (signed(query), signed(query.revised(sampling=0.9))):
        assert device.answer(again, at(4, 599)).outcome == "again"
    newest = signed(query.revised(sampling=0.9))
    # the clock goes back and forth
    outcomes = [device.answer(newest, at(epoch)).outcome for epoch in (2, 4, 2, 5, 4, 3, 5, 3)]
    assert outcomes.count("again") == 5
    assert [outcomes[i] for i in (1, 2, 4, 6, 7)] == ["again"] * 5
    assert len(opened(device)) == outcomes.count("answered") + 1


def test_before_its_origin_and_after_its_last_epoch_a_query_waits(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    assert device.answer(signed(query), ORIGIN - 1).outcome == "waiting"
    assert device.answer(signed(query), at(query.schedule.n_epochs)).outcome == "waiting"
    with device.store.transaction() as transaction:
        assert transaction.journal.receipts() == []
        assert transaction.outbox.n_queued() == 0
        assert not transaction.journal.counters()


def test_sampled_out_costs_nothing_sends_nothing_and_is_decided_once(tmp_path: Path) -> None:
    query = asked(sampling=1e-300)
    device = make_device(tmp_path, query)
    receipt = device.answer(signed(query), at(1))
    assert (receipt.outcome, float(receipt.epsilon)) == ("sampled out", 0)
    assert device.answer(signed(query), at(1)).outcome == "again"
    assert spent(device, query) == 0
    assert queued(device) == []


@pytest.mark.slow
def test_the_share_of_epochs_that_are_answered_is_the_sampling(tmp_path: Path) -> None:
    query = asked(sampling=0.6)
    device = make_device(tmp_path, query, source=seeded_source(1))
    n = 400
    outcomes = Counter(device.answer(signed(query), at(epoch)).outcome for epoch in range(n))
    assert set(outcomes) == {"answered", "sampled out"}
    assert abs(outcomes["answered"] - 0.6 * n) < 6.2 * np.sqrt(n * 0.24)
    assert spent(device, query) == outcomes["answered"] * Fraction(repr(query.epsilon))


def test_the_data_are_not_read_before_the_coin_is_flipped_and_the_upload_time_drawn(
    tmp_path: Path,
) -> None:
    steps: list[str] = []
    query = asked()
    make_device(tmp_path, query, on_step=steps.append).answer(signed(query), at(0))
    assert tuple(steps) == STEPS


# --- rows


def test_of_several_rows_one_is_drawn_and_all_are_exactly_equally_likely(tmp_path: Path) -> None:
    query = asked(rows="several", most_rows=2)
    device = make_device(tmp_path, query)

    def choose(n: int, most: int) -> dict[tuple[int, ...], Fraction]:
        law: dict[tuple[int, ...], Fraction] = {}
        for p, chosen in every_path(lambda source: _with(device, source)._some(n, most)):
            law[tuple(chosen)] = law.get(tuple(chosen), Fraction(0)) + p
        return law

    assert choose(3, 1) == {(i,): Fraction(1, 3) for i in range(3)}
    assert choose(4, 2) == {(i, j): Fraction(1, 12) for i in range(4) for j in range(4) if i != j}
    assert choose(2, 5) == {(0, 1): Fraction(1, 2), (1, 0): Fraction(1, 2)}
    assert choose(0, 1) == {(): Fraction(1)}


def _with(device: Device, source: Any) -> Device:
    return Device(device.vault, device.policy, device.store, source=source)


def test_a_random_row_is_drawn_anew_each_epoch(tmp_path: Path) -> None:
    query = asked(mechanism=CERTAIN)
    device = make_device(
        tmp_path, query, [0.5, 5.5], policy=make_policy(query, **GENEROUS), source=seeded_source(2)
    )
    for epoch in range(40):
        device.answer(signed(query), at(epoch))
    found = Counter(map(tuple, said(device)))
    assert set(found) == {(0,), (5,)}
    assert min(found.values()) > 3  # P(fewer) < 1e-6 for a fair coin; the seed is fixed


@pytest.mark.parametrize(("distances", "expected"), [((), []), ((4.5,), [4]), ((1.0, 2.0), [])])
def test_an_aggregate_of_more_or_less_than_one_row_is_an_answer_in_no_bucket(
    tmp_path: Path, distances: tuple[float, ...], expected: list[int]
) -> None:
    query = asked(mechanism=CERTAIN, rows="aggregate")
    device = make_device(tmp_path, query, distances, policy=make_policy(query, **GENEROUS))
    assert device.answer(signed(query), at(0)).outcome == "answered"
    assert said(device) == [expected]


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 7])
def test_several_rows_are_charged_and_sent_up_to_the_bound_whatever_there_is(
    tmp_path: Path, n_rows: int
) -> None:
    query = asked(mechanism=CERTAIN, rows="several", most_rows=3)
    device = make_device(
        tmp_path, query, [i + 0.5 for i in range(n_rows)], policy=make_policy(query, **GENEROUS)
    )
    receipt = device.answer(signed(query), at(0))
    assert receipt.epsilon == 3 * Fraction(repr(query.epsilon)) == spent(device, query)
    found = said(device)
    assert len(found) == 3
    rows = [each[0] for each in found if each]
    assert len(rows) == len(set(rows)) == min(n_rows, 3)
    assert set(rows) <= set(range(n_rows))


# --- silence never depends on the data

FAILING = {
    "no row": "SELECT distance FROM trips WHERE distance > 100",
    "a null": "SELECT NULL FROM trips LIMIT 1",
    "an overflow": "SELECT abs(-9223372036854775807 - 1) FROM trips",
    "a deadline": (
        "SELECT count(*) FROM trips a, trips b, trips c, trips d, trips e, trips f, trips g"
    ),
    "too many rows": "SELECT a.distance FROM trips a, trips b, trips c, trips d, trips e",
}


@pytest.mark.parametrize("failure", FAILING)
@pytest.mark.parametrize("other", [False, True])
def test_sql_that_finds_nothing_or_fails_on_the_data_is_answered_like_any_other(
    tmp_path: Path, failure: str, other: bool
) -> None:
    query = asked(
        mechanism=CERTAIN,
        sql=FAILING[failure],
        columns=[Column("distance", MILES[:10], other=other)],
    )
    policy = make_policy(query, **GENEROUS, deadline=0.05)
    device = make_device(tmp_path, query, [50.0 + i / 10 for i in range(50)], policy=policy)
    receipt = device.answer(signed(query), at(0))
    assert receipt.outcome == "answered"
    assert receipt.epsilon == Fraction(repr(query.epsilon))
    assert said(device) == [[10] if other else []]


def test_with_cover_all_devices_look_alike_in_number_length_place_and_time(tmp_path: Path) -> None:
    """Answered, without data, failed and sampled out: the same shares, of the same length, to the
    same proxies, at times drawn before anything else, from the same script."""
    looks = []
    cases: list[tuple[float, tuple[float, ...]]] = [
        (1.0, (3.5,)),
        (1.0, ()),
        (1e-300, (3.5,)),
        (1e-300, ()),
    ]
    for rows, most in (("random", 1), ("several", 3)):
        for i, (sampling, distances) in enumerate(cases):
            query = asked(cover=True, sampling=sampling, rows=rows, most_rows=most)
            folder = tmp_path / f"{rows}{i}"
            folder.mkdir()
            device = make_device(folder, query, distances, source=seeded_source(7))
            outcome = device.answer(signed(query), at(2)).outcome
            assert outcome == ("answered" if sampling == 1 else "sampled out")
            kinds = {message.kind for message in opened(device)}
            assert kinds == {ANSWER if sampling == 1 else NOTHING}
            looks.append((most, queued(device)))
            assert len({record[16:32] for record in records(device)[query.proxies[0]]}) == most
    for most in (1, 3):
        [look, *others] = [schedule for n, schedule in looks if n == most]
        assert len(look) == 2 * most
        assert all(other == look for other in others)


def test_uploads_are_spread_over_the_span_and_never_past_the_epoch(tmp_path: Path) -> None:
    query = asked()
    device = make_device(
        tmp_path, query, policy=make_policy(query, upload_within=300), source=seeded_source(3)
    )
    for epoch in range(60):
        device.answer(signed(query), at(epoch, 400))
    delays = [due - at(epoch, 400) for epoch, (_, due, _) in enumerate(queued(device)[::2])]
    # 400 s into an epoch of 600 s, once the slot is over
    assert all(device.policy.slot <= delay < 200 for delay in delays)
    assert max(delays) - min(delays) > 150
    assert [due for _, due, _ in queued(device)[::2]] == [due for _, due, _ in queued(device)[1::2]]


# --- refusals


def tampered(query: Query) -> SignedQuery:
    good = signed(query)
    return dataclasses.replace(
        good, content=good.content.replace(b"SELECT distance", b"SELECT secret  ")
    )


STRICT = 1.0
REFUSALS: dict[str, tuple[Callable[[Query], SignedQuery | bytes], dict[str, Any], int]] = {
    "bad signature": (tampered, {}, at(0)),
    "unknown key": (lambda query: sign(query, STRANGER), {}, at(0)),
    "revoked key": (signed, {"ring": KeyRing([TrustedKey(KEY.public, revoked=True)])}, at(0)),
    "key not valid": (
        signed,
        {"ring": KeyRing([TrustedKey(KEY.public, valid_until=at(0))])},
        at(0),
    ),
    "expired query": (signed, {}, 1_800_000_000),
    "unusable query": (lambda _: b"{}", {}, at(0)),
    "over the ceiling": (signed, {"epsilon_per_answer": STRICT}, at(0)),
    "analyst not allowed": (signed, {"analysts": ("Somebody Else",)}, at(0)),
    "proxy not allowed": (signed, {"proxies": {"https://one.example": "token"}}, at(0)),
    "budget": (signed, {"limits": (Limit(1.0),)}, at(0)),
    "not in a stratum": (
        lambda q: signed(q.revised(strata=[Stratum("north")])),
        {"strata": ("south",)},
        at(0),
    ),
    "not shared": (lambda query: signed(query.revised(sql="SELECT secret FROM trips")), {}, at(0)),
    "forbidden SQL": (lambda query: signed(query.revised(sql="PRAGMA table_list")), {}, at(0)),
    "columns": (
        lambda query: signed(query.revised(sql="SELECT distance, distance FROM trips")),
        {},
        at(0),
    ),
    "vault": (signed, {}, at(0)),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refused_query_sends_nothing_costs_nothing_and_its_receipt_says_why(
    tmp_path: Path, reason: str
) -> None:
    make, settings, now = REFUSALS[reason]
    query = asked(cover=True)
    device = make_device(tmp_path, query, policy=make_policy(query, **settings))
    if reason == "vault":
        device.vault.path.unlink()
    receipt = device.answer(make(query), now)
    assert (receipt.outcome, receipt.reason, float(receipt.epsilon)) == ("refused", reason, 0)
    assert queued(device) == []
    assert spent(device, query) == 0
    with device.store.transaction() as transaction:
        [kept] = transaction.journal.receipts()
        assert dict(transaction.journal.counters()) == {f"refused: {reason}": 1}
    assert f"Refused ({reason})" in str(kept)
    assert "Nothing was sent" in str(kept)
    assert kept.verified == (reason not in {*list(REFUSALS)[:6]})
    read = kept.verified or reason == "expired query"
    assert ("City of Exampleton" in kept.analyst) == read, (
        "a query that no trusted key signed is not read, its names neither"
    )
    assert ("not signed by a key you trust was not read" in str(kept)) == (not read)


def test_a_rolled_back_version_and_another_one_under_the_same_serial_are_refused(
    tmp_path: Path,
) -> None:
    old = asked()
    new = old.revised(sampling=0.9)
    device = make_device(tmp_path, old)
    assert device.answer(signed(new), at(0)).outcome in ("answered", "sampled out")
    before = queued(device)
    for other in (old, old.revised(sampling=0.8)):
        receipt = device.answer(signed(other), at(1))
        assert (receipt.outcome, receipt.reason) == ("refused", "rolled-back query")
    assert queued(device) == before


def test_a_version_that_is_over_the_ceiling_still_retires_the_one_before(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query, policy=make_policy(query, epsilon_per_answer=STRICT * 2))
    assert (
        device.answer(
            signed(query.revised(mechanism={"name": "TwoCoin", "p": 0.9, "q": 0.5})), at(0)
        ).reason
        == "over the ceiling"
    )
    assert device.answer(signed(query), at(0)).reason == "rolled-back query"


def test_the_same_refusal_again_and_again_is_one_receipt_that_counts(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query, policy=make_policy(query, epsilon_per_answer=STRICT))
    for second in range(5):
        device.answer(signed(query), at(0, second))
    with device.store.transaction() as transaction:
        [receipt] = transaction.journal.receipts()
    assert (receipt.times, receipt.first, receipt.time) == (5, at(0), at(0, 4))
    assert "5 times since" in str(receipt)


def test_receipts_are_bounded_for_a_relay_may_send_any_number_of_forgeries(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    with device.store.transaction() as transaction:
        template = _refusal(query)
        for i in range(MOST_RECEIPTS + 50):
            transaction.journal.write(dataclasses.replace(template, query=f"forged-{i}"))
        kept = transaction.journal.receipts()
    assert len(kept) == MOST_RECEIPTS
    assert kept[-1].query == f"forged-{MOST_RECEIPTS + 49}"


def _refusal(query: Query) -> Receipt:
    return Receipt(
        at(0),
        "refused",
        "unknown key",
        "key 00 is not on the ring",
        query.analyst,
        query.id,
        1,
        "",
        verified=False,
    )


# --- the ledger


def test_the_owners_limit_ends_the_answers_exactly_where_it_is_reached(tmp_path: Path) -> None:
    query = asked(mechanism={"name": "OptimizedUnary", "epsilon": 0.1})
    cost = Fraction(repr(query.epsilon))
    device = make_device(tmp_path, query, policy=make_policy(query, limits=(Limit(cost * 3),)))
    outcomes = [device.answer(signed(query), at(epoch)).outcome for epoch in range(5)]
    assert outcomes == ["answered"] * 3 + ["refused"] * 2
    assert spent(device, query) == cost * 3
    assert len(opened(device)) == 3


def test_the_querys_own_budget_ends_the_answers_too_over_all_its_versions(tmp_path: Path) -> None:
    query = asked(budget=Budget(epsilon=4.0))
    assert query.affordable_epochs == 3
    device = make_device(tmp_path, query)
    receipts = [device.answer(signed(query), at(epoch)) for epoch in range(2)]
    newer = query.revised(minimum_cohort=200)
    receipts += [device.answer(signed(newer), at(epoch)) for epoch in range(2, 5)]
    assert [receipt.outcome for receipt in receipts] == ["answered"] * 3 + ["refused"] * 2
    assert "the query's budget is" in receipts[-1].detail


def test_a_limit_over_a_period_frees_what_is_older(tmp_path: Path) -> None:
    query = asked()
    cost = Fraction(repr(query.epsilon))
    device = make_device(
        tmp_path, query, policy=make_policy(query, limits=(Limit(cost * 2, period=1800),))
    )
    outcomes = [device.answer(signed(query), at(epoch)).outcome for epoch in range(6)]
    assert outcomes == ["answered", "answered", "refused", "answered", "answered", "refused"]


# --- memoizing


def set_distance(device: Device, distance: float | None) -> None:
    connection = sqlite3.connect(device.vault.path)
    connection.execute("UPDATE trips SET distance = ?", (distance,))
    connection.commit()
    connection.close()


def test_a_memoized_answer_is_drawn_once_for_each_distinct_truth_and_all_are_paid_for_at_first(
    tmp_path: Path,
) -> None:
    query = asked(memoize=True, distinct=3)
    device = make_device(tmp_path, query, [3.5])
    found: dict[float, set[bytes]] = {3.2: set(), 7.5: set()}
    charges = []
    for epoch in range(20):
        distance = (3.2, 7.5)[epoch // 2 % 2]
        set_distance(device, distance)
        charges.append(device.answer(signed(query), at(epoch)).epsilon)
        found[distance].add(opened(device)[-1].report)
    assert [len(reports) for reports in found.values()] == [1, 1]
    assert found[3.2] != found[7.5]
    assert charges == [3 * Fraction(repr(query.epsilon)), *[0] * 19]
    assert spent(device, query) == charges[0]


@pytest.mark.slow
def test_rappor_keeps_its_permanent_answer_and_draws_each_report_from_it(tmp_path: Path) -> None:
    mechanism = {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75}
    query = asked(
        memoize=True, mechanism=mechanism, columns=[Column("distance", MILES, other=True)]
    )
    assert isinstance(query.mechanism, MemoizedMechanism)
    device = make_device(tmp_path, query, [3.5], source=seeded_source(11))
    for epoch in range(200):
        device.answer(signed(query), at(epoch))
    assert spent(device, query) == Fraction(repr(query.mechanism.lifetime_epsilon))
    with device.store.transaction() as transaction:
        [kept] = [row[0] for row in transaction._db.execute("SELECT permanent FROM memo")]
    permanent = np.unpackbits(np.frombuffer(kept, dtype=np.uint8), bitorder="little")[:12]
    rates = np.mean([bits(message.report, 12) for message in opened(device)], axis=0)
    expected = np.where(permanent, 0.75, 0.25)
    assert np.abs(rates - expected).max() < 6.5 * np.sqrt(0.1875 / 200)


def test_after_its_distinct_answers_a_device_repeats_the_one_that_spoke_last(
    tmp_path: Path,
) -> None:
    """Silence would tell that the true answer is a new one, and so would a change of what is
    said."""
    query = asked(memoize=True, distinct=2, mechanism={"name": "UnaryEncoding", "a": 0.6, "b": 0.4})
    device = make_device(
        tmp_path, query, policy=make_policy(query, limits=(Limit(2 * encoding.cost_of_row(query)),))
    )
    reports = {}
    for epoch, distance in enumerate((3.5, 8.5, 5.5, 3.5, 5.5, 1.5, 8.5, None)):
        set_distance(device, distance)
        receipt = device.answer(signed(query), at(epoch))
        assert (receipt.outcome, receipt.left) == ("answered", Fraction(0))
        reports[epoch] = opened(device)[-1].report
    first, second = reports[0], reports[1]
    assert first != second
    assert [reports[epoch] for epoch in range(8)] == [
        first,
        second,
        second,
        first,
        first,
        first,
        second,
        second,
    ]
    with device.store.transaction() as transaction:
        assert transaction._db.execute("SELECT count(*) FROM memo").fetchone() == (2,)


def test_a_reserve_counts_as_spent_for_as_long_as_permanent_answers_may_be_drawn_from_it(
    tmp_path: Path,
) -> None:
    """A limit over a period holds in every period: a permanent answer drawn today was paid for long
    ago."""
    kept, once = asked(id="kept", memoize=True, distinct=2), asked(id="once", memoize=True)
    cost = Fraction(repr(kept.epsilon))
    policy = make_policy(kept, limits=(Limit(cost * 3, period=1800),))
    for query, outcomes in (
        # the reserve of two is counted in every period, and leaves room for one
        (kept, ["answered"] + ["refused"] * 2),
        (once, ["answered"] * 3),  # all that it will ever tell was told at first
    ):
        folder = tmp_path / query.id
        folder.mkdir()
        device = make_device(folder, query, policy=policy)
        for epoch in range(6):
            assert device.answer(signed(query), at(epoch)).outcome == "answered"
        others = [asked(id=f"other-{i}") for i in range(3)]
        assert [device.answer(signed(other), at(5)).outcome for other in others] == outcomes
        assert spent(device, query) == query.distinct * cost


def test_a_reserve_that_no_longer_fits_a_period_is_not_drawn_from(tmp_path: Path) -> None:
    query = asked(memoize=True, distinct=2)
    cost = Fraction(repr(query.epsilon))
    device = make_device(
        tmp_path, query, policy=make_policy(query, limits=(Limit(cost * 3, period=1800),))
    )
    other = asked(id="other")
    outcomes = [device.answer(signed(query), at(0)).outcome]
    # the reserve of epoch 0 is past
    outcomes += [device.answer(signed(other), at(epoch)).outcome for epoch in (3, 4)]
    outcomes += [device.answer(signed(query), at(epoch)).outcome for epoch in (5, 6, 7)]
    assert outcomes == ["answered", "answered", "answered", "refused", "answered", "answered"]


def test_a_version_with_more_distinct_answers_or_rows_reserves_the_difference(
    tmp_path: Path,
) -> None:
    query = asked(memoize=True)
    cost = Fraction(repr(query.epsilon))
    device = make_device(tmp_path, query)
    versions = [query]
    for changes in (
        {"distinct": 3},
        {"distinct": 2},
        {"rows": "several", "most_rows": 2, "distinct": 2},
        {"distinct": 3},
    ):
        versions.append(versions[-1].revised(**changes))
    charges = [
        device.answer(signed(version), at(epoch)).epsilon for epoch, version in enumerate(versions)
    ]
    assert [charge / cost for charge in charges] == [1, 2, 0, 2, 1]
    assert spent(device, query) == 6 * cost
    with device.store.transaction() as transaction:
        assert transaction.charges.accountant((), at(9)).spent(query.analyst) == 6 * cost


def test_the_querys_own_budget_must_pay_for_the_whole_reserve(tmp_path: Path) -> None:
    query = asked(memoize=True, distinct=3, budget=Budget(epsilon=3.0))
    device = make_device(tmp_path, query)
    receipt = device.answer(signed(query), at(0))
    assert (receipt.outcome, receipt.reason) == ("refused", "budget")
    assert f"an answer costs {3 * query.epsilon:.6g}" in receipt.detail


def test_a_new_version_with_the_same_question_keeps_the_permanent_answers(tmp_path: Path) -> None:
    query = asked(memoize=True)
    device = make_device(tmp_path, query)
    device.answer(signed(query), at(0))
    assert device.answer(signed(query.revised(minimum_cohort=500)), at(1)).epsilon == 0
    changed = query.revised(minimum_cohort=500).revised(
        mechanism={"name": "TwoCoin", "p": 0.2, "q": 0.5}
    )
    assert device.answer(signed(changed), at(2)).epsilon == Fraction(repr(changed.epsilon))


def test_equal_rows_have_permanent_answers_of_their_own_and_each_slot_is_paid_for(
    tmp_path: Path,
) -> None:
    query = asked(memoize=True, rows="several", most_rows=3)
    device = make_device(tmp_path, query, [3.1, 3.2, 3.3], source=seeded_source(1))
    assert device.answer(signed(query), at(0)).epsilon == 3 * Fraction(repr(query.epsilon))
    first = [message.report for message in opened(device)]
    # three equal rows of 11 noisy bits: alike with a probability below 1e-4; the seed is fixed
    assert len(set(first)) > 1
    device.answer(signed(query), at(1))
    assert [message.report for message in opened(device)][3:] == first


@pytest.mark.parametrize(("rows", "most"), [("random", 1), ("several", 2)])
def test_of_the_same_rows_a_memoized_query_always_hears_the_same_ones(
    tmp_path: Path, rows: str, most: int
) -> None:
    """A fresh choice in each epoch would show that the rows differ, to anyone who sees that
    permanent answers take turns."""
    query = asked(memoize=True, rows=rows, most_rows=most, distinct=4, mechanism=CERTAIN)
    device = make_device(
        tmp_path, query, [0.5, 1.5, 2.5, 2.6, 5.5], policy=make_policy(query, **GENEROUS)
    )
    for epoch in range(12):
        device.answer(signed(query), at(epoch))
    found = said(device)
    assert len(found) == 12 * most
    assert all(found[i : i + most] == found[:most] for i in range(0, len(found), most))


def test_over_devices_every_row_of_a_memoized_query_is_equally_likely_to_be_heard(
    tmp_path: Path,
) -> None:
    n = 3000
    heard: Counter[int] = Counter()
    for i in range(n // 100):
        with Store(tmp_path / str(i), durable=False).transaction() as transaction:
            heard.update(
                choose(b"%d" % j, transaction.secret(), [4, 7, 7], 1)[0] for j in range(100)
            )
            assert sorted(choose(b"scope", transaction.secret(), [4, 7, 7], 2)) in ([4, 7], [7, 7])
            assert choose(b"scope", transaction.secret(), [7, 4, 7], 3) == choose(
                b"scope", transaction.secret(), [7, 7, 4], 3
            )
    assert set(heard) == {4, 7}
    # one false alarm in 10**9; the secrets are the system's
    assert abs(heard[7] - 2 * n / 3) < 6.2 * np.sqrt(n * 2 / 9)


# --- what is kept, and what never is


def test_nothing_that_is_kept_tells_what_the_true_answer_was(tmp_path: Path) -> None:
    """The whole store, byte for byte, but for keys, ids and noise, is the same whatever the answer
    was."""
    columns = [Column("distance", ["near", "far"], other=True)]
    dumps = []
    for i, value in enumerate(("near", "far")):
        query = asked(
            memoize=True,
            columns=columns,
            sql="SELECT place FROM life",
            mechanism={"name": "DirectEncoding", "epsilon": 1.0},
        )
        folder = tmp_path / str(i)
        folder.mkdir()
        vault = Vault.create(folder / "ann.db")
        vault.import_rows("life", {"place": "TEXT"}, [(value,)])
        vault.grant("life", ["place"])
        store = Store(folder / "store", durable=False)
        device = Device(vault, make_policy(query), store, source=seeded_source(1), isolated=False)
        receipt = device.answer(signed(query), at(0))
        with store.transaction() as transaction:
            tables = [
                row[0]
                for row in transaction._db.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
                )
            ]
            dump = {
                table: transaction._db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - the store's own names
                for table in tables
                # sums of these, too
                if table not in ("memo", "queue", "secret", "sqlite_sequence", "row_checks")
            }
            [(scope, slot, key)] = transaction._db.execute(
                "SELECT scope, slot, answer FROM memo"
            ).fetchall()
            assert slot == 0
            assert key == name_of(scope, transaction.secret(), [i])
            assert scope == scope_of(query)
        dumps.append((dump, str(receipt), receipt, repr(device)))
        assert len(key) == 32
    assert dumps[0] == dumps[1]


def test_two_devices_name_the_same_answer_differently(tmp_path: Path) -> None:
    keys = []
    for name in ("a", "b"):
        with Store(tmp_path / name, durable=False).transaction() as transaction:
            keys.append(name_of(b"scope", transaction.secret(), [3]))
            assert (
                name_of(b"scope", transaction.secret(), [3])
                == keys[-1]
                != name_of(b"scope", transaction.secret(), [4])
            )
    assert keys[0] != keys[1]


def test_the_store_is_its_owners_alone_and_of_a_known_version(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", durable=False)
    with store.transaction():
        pass
    assert store.path.stat().st_mode & 0o777 == 0o600
    store.path.chmod(0o644)
    with pytest.raises(StoreError, match="mode 0644"), store.transaction():
        pass
    store.path.chmod(0o600)
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(StoreError, match=r"newer release \(schema 9;"), store.transaction():
        pass
    stranger = Store(tmp_path / "ann.db", durable=False)
    Vault.create(stranger.path)
    with pytest.raises(StoreError, match="not the store"), stranger.transaction():
        pass


def test_an_error_in_a_transaction_undoes_all_of_it(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)

    def fail(step: str) -> None:
        if step == "written":
            raise KeyboardInterrupt

    broken = Device(device.vault, device.policy, device.store, isolated=False, on_step=fail)
    with pytest.raises(KeyboardInterrupt):
        broken.answer(signed(query), at(0))
    assert queued(device) == []
    assert spent(device, query) == 0
    assert device.answer(signed(query), at(0)).outcome == "answered"


# --- many queries, no network


def test_the_newest_version_that_holds_is_answered_and_forgeries_do_not_hide_it(
    tmp_path: Path,
) -> None:
    old = asked()
    new = old.revised(minimum_cohort=300)
    forged = sign(new.revised(minimum_cohort=1), STRANGER)
    device = make_device(tmp_path, old)
    receipts = device.answer_all(
        [signed(old).to_bytes(), forged, signed(new), signed(new).to_bytes()], at(0)
    )
    assert [(r.outcome, r.serial, r.verified) for r in receipts] == [
        ("refused", 0, False),
        ("answered", 2, True),
    ]
    [message] = opened(device)
    assert message.query_tag == new.tag


def test_a_device_without_a_network_goes_on_with_what_it_knows_until_its_quota_is_full(
    tmp_path: Path,
) -> None:
    query = asked()
    device = make_device(
        tmp_path,
        query,
        policy=make_policy(query, queue_messages=5, queue_age=86_400),
        source=seeded_source(1),
    )
    network = Network(relayed={query.proxies[0]: [signed(query).to_bytes()]})
    assert [r.outcome for r in device.once(network, at(0))[0]] == ["answered"]
    network.down = set(query.proxies)
    outcomes = [device.once(network, at(epoch))[0][0] for epoch in range(1, 9)]
    assert not network.kept, "the first answer was not due yet"
    waiting = 4
    assert [r.outcome for r in outcomes] == ["answered"] * waiting + ["refused"] * (8 - waiting)
    assert outcomes[-1].reason == "queue full"
    assert spent(device, query) == (1 + waiting) * Fraction(repr(query.epsilon)), (
        "what is not queued is not charged"
    )
    with device.store.transaction() as transaction:
        assert transaction.journal.counters()["refused: queue full"] == 8 - waiting
    # Weeks later all of it is too old; the device counts what it gave up, and answers again.
    n_before = len(queued(device))
    later = device.once(network, at(3000))[0]
    assert [r.outcome for r in later] == ["answered"]
    with device.store.transaction() as transaction:
        assert transaction.journal.counters()["shares dropped: too old"] == n_before
        assert transaction.outbox.n_queued() == 2


def test_queries_whose_sql_is_refused_take_a_slot_once_an_epoch_and_keep_no_other_from_being_answered(
    tmp_path: Path,
) -> None:
    good = asked(id="good")
    bad = [asked(id=f"bad-{i}", serial=9, sql="SELECT secret FROM trips") for i in range(5)]
    device = make_device(tmp_path, good)
    everything = [signed(query) for query in (*bad, good)]
    found = [
        [
            receipt.reason or receipt.outcome
            for receipt in device.answer_all(everything, at(0), most=2)
        ]
        for _ in range(3)
    ]
    refused, again = "not shared", "again"
    assert found == [
        [refused] * 2,
        [again] * 2 + [refused] * 2,
        [again] * 4 + [refused, "answered"],
    ]


def test_each_query_of_a_call_is_answered_as_at_the_beginning_of_its_slot(tmp_path: Path) -> None:
    queries = [asked(id=f"q-{i}") for i in range(3)]
    device = make_device(tmp_path, queries[0], policy=make_policy(queries[0], upload_within=1))
    device.answer_all([signed(query) for query in queries], at(0))
    slot = device.policy.slot
    assert [due for _, due, _ in queued(device)[::2]] == [at(0, slot * (i + 1)) for i in range(3)]


@pytest.mark.slow
def test_ten_thousand_devices_hold_nothing_open(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    device.answer(signed(query), at(0))  # the sandbox's process is one for all of them, and stays
    open_files = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    many = [
        Device(
            device.vault,
            device.policy,
            Store(tmp_path / f"{i}.client", durable=False),
            isolated=False,
        )
        for i in range(10_000)
    ]
    for each in many[:50]:
        assert each.answer(signed(query), at(0)).outcome == "answered"
    if open_files:
        assert len(list(Path("/proc/self/fd").iterdir())) == open_files
    assert not (tmp_path / "9999.client").exists()


def test_a_receipt_as_json_holds_what_its_sentence_says(tmp_path: Path) -> None:
    query = asked()
    receipt = make_device(tmp_path, query).answer(signed(query), at(4))
    fields = json.loads(json.dumps(receipt.to_dict()))
    assert fields["outcome"] == "answered"
    assert fields["question"] in str(receipt)
    assert f"{fields['left']:.6g} is left for {fields['analyst']}" in str(receipt)
    assert encoding.cost_of_row(query) == receipt.epsilon
    assert query.sampling_of() == ONE
