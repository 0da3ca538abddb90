"""The attacks that planted bugs are caught by, each a function that says whether nothing was
found."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import (
    DirectEncoding,
    ForcedResponse,
    LocalHashing,
    Mechanism,
    OptimizedUnary,
    Rappor,
    seeded_source,
)
from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.audit import device_lives
from deniable.audit.designs import audit_design
from deniable.audit.edges import audit_edges
from deniable.audit.game import Game, play
from deniable.audit.mechanisms import audit_mechanism
from deniable.audit.parties import _linkage, audit_pipeline
from deniable.audit.pipeline import Pipeline, histories_of
from deniable.audit.vault_pairs import made_pair
from deniable.audit.views import WholeReport
from deniable.client.simulation.fleet import Fleet
from deniable.counts import Counts
from deniable.errors import DeniableError, QueryError, WireError
from deniable.graphs.response import EdgeResponse
from deniable.privacy import blanket_delta
from deniable.privacy.ledger import Limit
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.signed.envelope import Envelope, Version
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign, sign_version, verify
from deniable.wire.message import Message
from deniable.wire.shares import Share, join, split
from toolkit.attacks.observed import live, set_rows
from toolkit.devices import KEY, STRANGER, Network, asked, at, make_device, make_policy, signed

MECHANISM = {"name": "OptimizedUnary", "epsilon": 1.0}
HISTORIES: list[list[list[Any]]] = [[[3.5], [3.5]], [[], [8.5, 8.5, 8.5]]]
"""Distances of two lives: one with a trip in both epochs; one with none, and then with three."""
Check = Callable[[Path], bool]

# --- reports


def reports_of(make: Callable[[], Any], n: int = 100_000) -> Check:
    """`deniable audit mechanism`."""
    return lambda _: audit_mechanism(make(), n=n, source=seeded_source(1)).holds


direct = reports_of(lambda: DirectEncoding(8, 1.0))
unary = reports_of(lambda: OptimizedUnary(5, 1.0))
hashing = reports_of(lambda: LocalHashing(8, 1.0))
bloom = reports_of(lambda: Rappor(32, 2, 8, 0.4, 0.2, 0.8), 200_000)


def design(_: Path) -> bool:
    """`deniable audit design`."""
    return audit_design(ForcedResponse("3/4", yes="1/6"), n=60_000, source=seeded_source(2)).holds


def edges(_: Path) -> bool:
    """`deniable audit graph`."""
    return audit_edges(EdgeResponse(1.0, "both"), n=20_000, source=seeded_source(3)).holds


# --- one device


def two_lives(**changes: Any) -> Check:
    """The comparison of `deniable audit device`, on lives that are short."""

    def check(folder: Path) -> bool:
        query = asked(**{"mechanism": MECHANISM, "rows": "several", "most_rows": 2, **changes})
        cost = Fraction(repr(query.epsilon))
        policy = make_policy(
            query, limits=(Limit(3 * cost * query.most_rows + 4, period=40 * 600),)
        )
        others = [asked(id="next", mechanism=MECHANISM)]
        one, other = (
            live(folder / str(i), policy, rows, query, others) for i, rows in enumerate(HISTORIES)
        )
        assert one.sends, "nothing was compared"
        return one.difference(other) is None

    return check


def lives_by_the_clock(folder: Path) -> bool:
    """`deniable audit device`: two lives by the cadence, of which one's SQL takes longer."""
    query = asked(mechanism=MECHANISM)
    life = device_lives.DeviceLife(query, folder, KEY)
    comparisons, _ = device_lives.compared_lives(life, made_pair(query, folder), 1)
    return all(each.holds for each in comparisons)


def charges_within_the_limit(folder: Path) -> bool:
    """`deniable audit device`: asking again and again spends no more than the owner allows."""
    query = asked(mechanism=MECHANISM)
    device = make_device(folder, query, policy=make_policy(query, limits=(Limit(3),)))
    spent = sum((device.answer(signed(query), at(epoch)).epsilon for epoch in range(8)), Fraction())
    return spent <= 3


def memo_repeats(folder: Path) -> bool:
    """Of a memoized answer that stays, a real device sends the same report in every epoch:
    averaging gains nothing."""
    query = asked(mechanism=MECHANISM, memoize=True)
    device = make_device(folder, query)
    network = Network()
    for epoch in range(6):
        device.answer(signed(query), at(epoch))
        device.upload(network, at(epoch, 590))
    device.upload(network, at(20))
    return len({message.report for message in network.messages()}) == 1


def nothing_is_logged(folder: Path) -> bool:
    """What is logged, at any level, is the same whatever the data are."""

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logged: list[list[str]] = []
    root = logging.getLogger()
    level, handler = root.level, Keeping()
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        for i, distance in enumerate((3.5, 8.5)):
            lines: list[str] = []
            (folder / str(i)).mkdir()
            query = asked(mechanism=MECHANISM)
            device = make_device(folder / str(i), query, (distance,))
            device.answer(signed(query), at(0))
            logged.append(lines)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return logged[0] == logged[1]


def strangers_are_refused(folder: Path) -> bool:
    """A query that is signed by nobody whom the owner trusts is not answered."""
    query = asked(mechanism=MECHANISM)
    device = make_device(folder, query)
    set_rows(device.vault, [3.5])
    forged = (
        sign(query, KEY)
        .to_bytes()
        .replace(
            sign(query, KEY).signature.hex().encode(),
            sign(query, STRANGER).signature.hex().encode(),
        )
    )
    return device.answer(forged, at(0)).outcome == "refused"


def envelope_is_kept(_: Path) -> bool:
    """A controller's version outside the ranges that the analyst signed is refused."""
    controller = AnalystKey("controller", bytes([7]) * 32)
    envelope = Envelope(
        controller.public.raw.hex(),
        sampling=(0.3, 1.0),
        epsilon_per_answer=2.0,
        p=(0.2, 0.4),
        q=(0.4, 0.6),
        versions=10,
    )
    query = asked(envelope=envelope, budget=Budget(epsilon=50.0))
    version = Version(query.digest.hex(), 12, sampling=1.0, mechanism={"p": 0.3, "q": 0.5})
    try:
        verify(
            sign_version(sign(query, KEY), version, controller),
            KeyRing([TrustedKey(KEY.public)]),
            at(0),
        )
    except QueryError:
        return True
    return False


# --- shares, proxies, aggregator


def pipeline(**changes: Any) -> Check:
    """`deniable audit pipeline`."""

    def check(folder: Path) -> bool:
        query = asked(
            columns=[Column("d", ["[0,5)", "[5,inf)"], other=True)],
            **{"mechanism": MECHANISM, **changes},
        )
        try:
            return audit_pipeline(query, folder, n=8000, source=seeded_source(4)).holds
        except DeniableError:
            return False

    return check


def rows_game(folder: Path) -> bool:
    """Of two memoized rows one changes, over two epochs: it costs what one row does, however the
    other looks."""
    query = asked(
        columns=[Column("d", ["a", "b"], other=True)],
        mechanism=MECHANISM,
        memoize=True,
        rows="several",
        most_rows=2,
    )

    def draw(i: int, count: int) -> NDArray[Any]:
        fleet = Fleet(query, count, source=source)
        rows = np.tile(np.array([0, i]), count)
        parts = [fleet._reports(np.arange(count), rows).reshape(count, -1) for _ in range(2)]
        return np.hstack(parts)

    source = seeded_source(5)
    return play(
        Game("one row", query.epsilon_charged, ["same", "other"], draw, [WholeReport()]),
        60_000,
        1e-3,
    ).holds


def order_in_the_log(folder: Path) -> bool:
    """`deniable audit pipeline`: where a message lies in a proxy's log does not tell when it
    came."""
    query = asked(mechanism=MECHANISM)
    passed = Pipeline(query, folder, seeded_source(6)).passage(histories_of(query, [0])[0], 8192)
    verdict = _linkage(passed.order, 8192, 1e-3)
    assert verdict is not None
    return verdict.holds


def changed_shares_are_noticed(_: Path) -> bool:
    """Every flipped bit of a share spoils the message."""
    shares = split(Message(7, 0, b"\x05"), 0, 2, 3, seeded_source(7))
    payload = shares[0].payload
    for bit in range(0, 8 * len(payload), 5):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            join([Share(3, 0, 0, shares[0].id, bytes(flipped)), shares[1]])
        except WireError:
            continue
        return False
    return True


def history_has_one_order(_: Path) -> bool:
    """Rows of the history lie in the one order that they can have, whatever the order of
    arrival."""
    from deniable.aggregator.history.report_files import ReportRows  # noqa: PLC0415 - needs PyArrow

    rng = np.random.default_rng(8)
    reports = rng.integers(0, 256, (50, 2)).astype(np.uint8)
    found = []
    for order in (np.arange(50), rng.permutation(50)):
        found.append(
            ReportRows(
                np.zeros(50, np.uint8),
                np.zeros(50, np.int64),
                np.zeros(50, np.int32),
                reports[order],
            )
            .sorted()
            .reports
        )
    return bool(np.array_equal(found[0], found[1]))


def small_cohorts_are_withheld(_: Path) -> bool:
    """Of fewer answers than the query's minimum there is no estimate."""
    query = asked(mechanism=MECHANISM, minimum_cohort=100)
    pane = Counts(np.zeros(query.mechanism.cells, dtype=np.int64) + 20, 99)
    return assemble([query], 0, {PaneKey(query.id, 1, 0, 0): pane}).estimate is None


def shuffled_epsilon_is_an_upper_bound(_: Path) -> bool:
    """The exact loss of every shuffled crowd of a few bits, by enumeration, is below the bound."""
    mechanism: Mechanism = DirectEncoding(2, 1.0)
    zero, one = np.asarray(mechanism.channel())[1].tolist()
    for n, epsilon in itertools.product((4, 12), (0.1, 0.4)):
        laws = []
        for ones in range(n):
            others = np.ones(1)
            for p in [one] * ones + [zero] * (n - 1 - ones):
                others = np.convolve(others, [1 - p, p])
            laws.append([np.convolve(others, [1 - p, p]) for p in (zero, one)])
        exact = max(
            float(np.maximum(a - math.exp(epsilon) * b, 0).sum())
            for pair in laws
            for a, b in (pair, pair[::-1])
        )
        if exact > blanket_delta(mechanism, n, epsilon) * (1 + 1e-9):
            return False
    return True
