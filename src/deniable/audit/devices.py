"""Audits of single devices: a real device with the user's own query, run with one of two vaults.

Two lives with the same coins and different data are compared in everything they show: when they
poll and send, to whom, how many bytes in what order, what they charge and refuse, and what they say
about it. No chance is involved: any difference is due to the data. Only the payloads for the last
proxy may differ, because they contain the report.

The report itself is judged by games. Its bytes are drawn by the functions a device calls
(:mod:`deniable.client.encoding`), for as many devices as it takes, and a smaller game with whole
devices and fresh coins looks at everything they sent.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.device_lives import EPOCHS, DeviceLife, compared_lives
from deniable.audit.findings import Audit, ExactCheck
from deniable.audit.game import FEWEST, Game, Progress, Verdict, play
from deniable.audit.observing import (
    Observed,
)
from deniable.audit.report_views import sent_views
from deniable.audit.vault_pairs import VaultPair
from deniable.checks import check_confidence
from deniable.client import encoding
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.privacy.ledger import Limit
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery
from deniable.randomness import Source, system_source
from deniable.wire.shares import Share, join, record_bytes

__all__ = ["audit_device"]


def audit_device(
    query: Query,
    pair: VaultPair,
    folder: Path,
    n: int = 200_000,
    lives: int = 8,
    devices: int = FEWEST,
    confidence: float = 0.999,
    source: Source | None = None,
    progress: Progress | None = None,
    more: Sequence[ExactCheck] = (),
    policy: Policy | None = None,
) -> Audit:
    """Audit one device that answers `query` from one of two vaults.

    `lives` pairs of lives are compared exactly. `n` reports are drawn by the device's own functions
    for the games about the report, and `devices` whole devices are run for the game about
    everything a device sends (0 for none). `more` are further checks for the same findings, such as
    those of :mod:`deniable.audit.data_leaks`. `policy` is that of the devices that are deployed;
    its keys and tokens are not used.
    """
    check_confidence(confidence)
    # The same question is also asked under another name: an analyst may ask again, and the ledger
    # has to notice.
    again = Query.from_dict({**query.to_dict(), "id": "asked-again"})
    life = DeviceLife(query, folder, AnalystKey.generate(query.analyst), (again,), owner=policy)
    life.check()
    comparisons, last = compared_lives(life, pair, lives)
    comparisons.append(_ledger_holds(life, last))
    comparisons += more
    if progress:
        progress(0.2)
    coins = source or system_source()
    games = [_one_answer(query, pair, coins), _averaged(life, pair, coins, last)]
    sizes = [n, n]
    if devices:
        games.append(_whole_device(life, pair, coins))
        sizes.append(devices)
    verdicts: list[Verdict] = []
    for at, (game, size) in enumerate(zip(games, sizes, strict=True)):
        verdicts.append(play(game, size, (1 - confidence) / len(games)))
        if progress:
            progress(0.2 + 0.8 * (at + 1) / len(games))
    notes = (
        f"Query {query.id!r}, version {query.serial}, hash {query.digest.hex()[:16]}.",
        "Lives are compared with the same coins in both, so these findings involve no chance.",
        (
            "The owner's policy:"
            f" {'one that allows what is asked' if policy is None else _summary(policy)}."
        ),
    )
    return Audit(
        f"a device that answers {query.id!r}",
        query.epsilon_local,
        confidence,
        tuple(verdicts),
        tuple(comparisons),
        notes,
    )


def _ledger_holds(life: DeviceLife, seen: Observed) -> ExactCheck:
    """Whether all charges of a life stay within the owner's limit, however often an attacker asks
    again."""
    spent, limit = (
        sum((Fraction(epsilon) for *_, epsilon, _ in seen.outcomes), Fraction()),
        life.limit(),
    )
    most = "no limit over that time" if limit is None else f"{float(limit):.4g}"
    detail = f"{float(spent):.4g} of {most} spent over {EPOCHS} epochs"
    holds = limit is None or spent <= limit
    return ExactCheck(
        "charges stay within the owner's limit, however often the question is asked", holds, detail
    )


def _summary(policy: Policy) -> str:
    limits = ", ".join(map(str, policy.limits)) or "no limit"
    return (
        f"at most {float(Limit(policy.epsilon_per_answer).epsilon):.6g} per answer; {limits};"
        f" uploads within {policy.upload_within} s; {policy.deadline:g} s,"
        f" {policy.max_memory >> 20} MiB and {policy.max_rows:,} rows for SQL"
    )


def _truths(query: Query, pair: VaultPair) -> list[NDArray[np.intp]]:
    """What a device draws from when all of its rows have one answer or the other: all rows
    differ."""
    if query.ones > 1:
        return [
            encoding.checked(query, np.array([[answer, *[-1] * (query.ones - 1)]]))
            for answer in pair.answers
        ]
    return [np.full(query.most_rows, answer) for answer in pair.answers]


def _drawn(
    query: Query, truth: NDArray[np.intp], count: int, epochs: int, source: Source
) -> NDArray[np.uint8]:
    """The reports of all rows of some epochs, one device per row, after a byte that says that the
    device took part."""
    rows = np.tile(truth, (count, 1)) if query.ones > 1 else np.tile(truth, count)
    if query.memoize:
        kept = encoding.permanent_rows(query, rows, source)
        parts = [encoding.replay_rows(query, kept, source) for _ in range(epochs)]
    else:
        parts = [encoding.randomize(query, rows, source) for _ in range(epochs)]
    return np.hstack([np.ones((count, 1), np.uint8), *(part.reshape(count, -1) for part in parts)])


def _one_answer(query: Query, pair: VaultPair, source: Source) -> Game:
    truths = _truths(query, pair)
    labels = [query.labels[answer] for answer in pair.answers]
    views = sent_views(query.mechanism, np.array(pair.answers), query.most_rows)
    return Game(
        "one epoch's answer, all rows of it",
        query.epsilon_local,
        labels,
        lambda i, n: _drawn(query, truths[i], n, 1, source),
        views,
    )


def _averaged(life: DeviceLife, pair: VaultPair, source: Source, seen: Observed) -> Game:
    """All answers the ledger pays for, taken together: what asking again and averaging can
    achieve."""
    query = life.query
    truths, labels = _truths(query, pair), [life.query.labels[answer] for answer in pair.answers]
    epochs = max(
        1, sum(name == query.id and outcome == "answered" for name, outcome, *_ in seen.outcomes)
    )
    claim = float(encoding.cost_of_answer(query)) if query.memoize else query.epsilon_local * epochs
    views = sent_views(query.mechanism, np.array(pair.answers), epochs * query.most_rows)
    name = f"the {epochs} answers that the ledger paid for, averaged"
    return Game(
        name, claim, labels, lambda i, n: _drawn(query, truths[i], n, epochs, source), views
    )


def _whole_device(life: DeviceLife, pair: VaultPair, source: Source) -> Game:
    """Whole devices with fresh coins: all bytes of a first answer, to every proxy, and the report
    they encode."""
    query = life.query
    labels = [query.labels[answer] for answer in pair.answers]
    signed = SignedQuery.from_bytes(life.signed[0])
    policy = life.policy()
    length = record_bytes(query.size_class or 0)
    now = query.schedule.origin
    shape = (1 + query.most_rows * (query.report_bytes + len(query.proxies) * length),)

    def draw(i: int, count: int) -> NDArray[Any]:
        out = np.zeros((count, *shape), dtype=np.uint8)
        for at in range(count):
            place = Path(tempfile.mkdtemp(dir=life.folder))
            store = Store(place / "store", durable=False)
            device = Device(
                pair.vaults[i], policy, store, source=source, isolated=False, clock=lambda: now
            )
            receipt = device.answer(signed, now)
            with device.store.transaction() as transaction:
                sent = [
                    [share.record for share in transaction.outbox.due_shares(proxy, 1 << 40, 1000)]
                    for proxy in query.proxies
                ]
            if receipt.outcome == "answered":
                joined = [
                    join([Share.from_bytes(record) for record in row])
                    for row in zip(*sent, strict=True)
                ]
                reports = b"".join(message.report[: query.report_bytes] for message in joined)
                content = reports + b"".join(record for records in sent for record in records)
                out[at, : 1 + len(content)] = np.frombuffer(b"\x01" + content, dtype=np.uint8)
            shutil.rmtree(place)
        return out

    views = sent_views(query.mechanism, np.array(pair.answers), query.most_rows)[1:]
    return Game("everything a whole device sends in one epoch", query.epsilon, labels, draw, views)
