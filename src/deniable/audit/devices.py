"""Audits of single devices: a real device with the user's own query, run with one of two vaults.

Two lives with the same coins and different data are compared in everything they show: when they poll and send, to whom, how many
bytes in what order, what they charge and refuse, and what they say about it. No chance is involved: any difference is due to the
data. Only the payloads for the last proxy may differ, because they contain the report.

The report itself is judged by games. Its bytes are drawn by the functions a device calls (:mod:`deniable.client.encoding`), for
as many devices as it takes, and a smaller game with whole devices and fresh coins looks at everything they sent.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.findings import Audit, ExactCheck
from deniable.audit.game import FEWEST, Game, Progress, Verdict, play
from deniable.audit.mechanisms import check_confidence
from deniable.audit.observing import LEDGER_TABLES, ListeningNetwork, Observed, PositionedSource, VirtualClock
from deniable.audit.report_views import sent_views
from deniable.audit.vault_pairs import VaultPair
from deniable.client import encoding
from deniable.client.cadence import Cadence, rounds
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.store import Store, StoreTransaction
from deniable.client.vault import Vault
from deniable.privacy.ledger import Limit
from deniable.queries.keys import AnalystKey, KeyRing
from deniable.queries.query import Query
from deniable.queries.signing import SignedQuery, sign
from deniable.randomness import Source, system_source
from deniable.wire.shares import Share, join, record_bytes

__all__ = ["DeviceLife", "SlowDevice", "audit_device", "compared_lives"]

EPOCHS = 4
"""Epochs per life. The ledger pays for two answers fewer, so that a refusal is seen too."""
_ROUNDS = 6
"""Rounds per epoch."""
_SQL_SECONDS = (0.05, 0.9)
"""How long the SQL takes on each of the two vaults. That may depend on the data, so it must not show."""


class SlowDevice(Device):
    """A device whose SQL takes time on its clock."""

    seconds = 0.0

    def _read(self, book: StoreTransaction, query: Query) -> list[int]:
        found = super()._read(book, query)
        if self.seconds:
            self.clock.sleep(self.seconds)  # type: ignore[attr-defined]
        return found


@dataclass
class DeviceLife:
    """A device with a vault, a policy that lets it answer some of the time, and a clock that the test advances."""

    query: Query
    folder: Path
    key: AnalystKey
    others: tuple[Query, ...] = ()
    """Further queries asked in the same rounds."""
    device_kind: type[SlowDevice] = SlowDevice
    clock_kind: type[VirtualClock] = VirtualClock
    epochs: int = EPOCHS
    one_answer_per_round: bool = False
    """Whether rounds are as short as can be, so that an answer that takes longer than its slot delays the next poll; they last
    until everything is uploaded."""
    signed: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        asked = [self.query, *self.others]
        self.signed = [sign(query, self.key).to_bytes() for query in asked]

    def limit(self) -> Fraction:
        """What the owner allows in total: for each query, enough for all but two epochs."""
        asked = [self.query, *self.others]
        return sum(
            (encoding.cost_of_answer(each) * (1 if each.memoize else max(1, self.epochs - 2)) for each in asked), Fraction()
        )

    def policy(self) -> Policy:
        """The policy of a careful owner who allows exactly that."""
        query = self.query
        most = max(encoding.cost_of_answer(each) for each in (query, *self.others))
        strata = (query.strata[0].name,) if query.strata else ()
        return Policy(
            KeyRing().add(self.key.public),
            dict.fromkeys(query.proxies, "token"),
            epsilon_per_answer=most,
            limits=(Limit(self.limit()),),
            strata=strata,
            upload_within=max(1, min(600, query.schedule.every // 4)),
            deadline=1.0,
        )

    def _rounds(self, policy: Policy) -> tuple[Cadence, int]:
        """How long rounds are, and how many there are."""
        every, slot, n_queries = self.query.schedule.every, policy.slot, len(self.signed)
        if self.one_answer_per_round:
            cadence = Cadence(2 * slot, slot)
            return cadence, policy.upload_within // cadence.every + 2 * n_queries + 2
        cadence = Cadence(max(2 * slot * n_queries, every // _ROUNDS), slot)
        return cadence, self.epochs * every // cadence.every + 2

    def live(self, vault: Vault, source: Source, seconds: float = 0.0) -> tuple[Observed, ListeningNetwork]:
        """One life: everything seen of it, and everything sent to the proxies."""
        policy, query = self.policy(), self.query
        clock = self.clock_kind(float(query.schedule.origin))
        step = source.step if isinstance(source, PositionedSource) else None
        place = Path(tempfile.mkdtemp(dir=self.folder))
        own = Vault(Path(shutil.copy(vault.path, place / "vault.db")))
        device = self.device_kind(
            own, policy, Store(place / "store", durable=False), source=source, clock=clock, isolated=False, on_step=step
        )
        device.seconds = seconds
        network = ListeningNetwork(clock, tuple(query.proxies), self.signed)
        cadence, n_rounds = self._rounds(policy)
        seen = network.seen
        for receipts, _ in islice(rounds(device, network, cadence, clock=clock, sleep=clock.sleep), max(n_rounds, 2)):
            seen.rounds.append(clock.time)
            seen.outcomes += [(r.query, r.outcome, r.reason, r.detail, r.epsilon, r.left) for r in receipts]
            with device.store.transaction() as book:
                seen.queue += book._db.execute("SELECT proxy, due, expires, length(record) FROM queue ORDER BY place")
        with device.store.transaction() as book:
            seen.ledger = {table: book._db.execute(f"SELECT * FROM {table}").fetchall() for table in LEDGER_TABLES}  # noqa: S608
        shutil.rmtree(place)
        return seen, network


def compared_lives(life: DeviceLife, pair: VaultPair, lives: int, seed: str = "coins") -> tuple[list[ExactCheck], Observed]:
    """Compare lives with each vault, with the same coins in both: what differs, and the last life observed."""
    differences: dict[str, int] = {}
    sends = polls = refused = 0
    one = Observed()
    for number in range(lives):
        one, other = (
            life.live(vault, PositionedSource(f"{seed} {number}"), seconds)[0]
            for vault, seconds in zip(pair.vaults, _SQL_SECONDS, strict=True)
        )
        difference = one.difference(other)
        if difference is not None:
            differences[difference] = differences.get(difference, 0) + 1
        sends, polls = sends + len(one.sends), polls + len(one.polls)
        refused += sum(outcome == "refused" for _, outcome, *_ in one.outcomes)
    names = {
        "sends": ("uploads have the same times, order, sizes and, for all proxies but the last, bytes", f"{sends:,} uploads"),
        "polls": ("polls have the same times and proxies", f"{polls:,} polls"),
        "rounds": ("rounds are over at the same times", f"{lives} lives"),
        "queue": ("the queue is the same, and so are its expiry times", f"{lives} lives"),
        "ledger": ("charges, receipts and counters are the same", f"{lives} lives"),
        "outcomes": ("answers and refusals are the same, for the same reasons", f"{refused:,} refusals"),
    }
    found = [
        ExactCheck(name, part not in differences, f"in {differences[part]} of {lives} lives" if part in differences else much)
        for part, (name, much) in names.items()
    ]
    return found, one


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
) -> Audit:
    """Audit one device that answers `query` from one of two vaults.

    `lives` pairs of lives are compared exactly. `n` reports are drawn by the device's own functions for the games about the
    report, and `devices` whole devices are run for the game about everything a device sends (0 for none). `more` are further
    checks for the same findings, such as those of :mod:`deniable.audit.data_leaks`.
    """
    check_confidence(confidence)
    # The same question is also asked under another name: an analyst may ask again, and the ledger has to notice.
    again = Query.from_dict({**query.to_dict(), "id": "asked-again"})
    life = DeviceLife(query, folder, AnalystKey.generate(query.analyst), (again,))
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
    )
    return Audit(
        f"a device that answers {query.id!r}", query.epsilon_local, confidence, tuple(verdicts), tuple(comparisons), notes
    )


def _ledger_holds(life: DeviceLife, seen: Observed) -> ExactCheck:
    """Whether all charges of a life stay within the owner's limit, however often an attacker asks again."""
    spent = sum((Fraction(epsilon) for *_, epsilon, _ in seen.outcomes), Fraction())
    detail = f"{float(spent):.4g} of {float(life.limit()):.4g} spent over {EPOCHS} epochs"
    return ExactCheck("charges stay within the owner's limit, however often the question is asked", spent <= life.limit(), detail)


def _truths(query: Query, pair: VaultPair) -> list[NDArray[np.intp]]:
    """What a device draws from when all of its rows have one answer or the other: all rows differ."""
    if query.ones > 1:
        return [encoding.checked(query, np.array([[answer, *[-1] * (query.ones - 1)]])) for answer in pair.answers]
    return [np.full(query.most_rows, answer) for answer in pair.answers]


def _drawn(query: Query, truth: NDArray[np.intp], count: int, epochs: int, source: Source) -> NDArray[np.uint8]:
    """The reports of all rows of some epochs, one device per row, after a byte that says that the device took part."""
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
    """All answers the ledger pays for, taken together: what asking again and averaging can achieve."""
    query = life.query
    truths, labels = _truths(query, pair), [life.query.labels[answer] for answer in pair.answers]
    epochs = max(1, sum(name == query.id and outcome == "answered" for name, outcome, *_ in seen.outcomes))
    claim = float(encoding.cost_of_answer(query)) if query.memoize else query.epsilon_local * epochs
    views = sent_views(query.mechanism, np.array(pair.answers), epochs * query.most_rows)
    name = f"the {epochs} answers that the ledger paid for, averaged"
    return Game(name, claim, labels, lambda i, n: _drawn(query, truths[i], n, epochs, source), views)


def _whole_device(life: DeviceLife, pair: VaultPair, source: Source) -> Game:
    """Whole devices with fresh coins: all bytes of a first answer, to every proxy, and the report they encode."""
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
            device = Device(pair.vaults[i], policy, store, source=source, isolated=False, clock=lambda: now)
            receipt = device.answer(signed, now)
            with device.store.transaction() as book:
                sent = [[share.record for share in book.due_shares(proxy, 1 << 40, 1000)] for proxy in query.proxies]
            if receipt.outcome == "answered":
                joined = [join([Share.from_bytes(record) for record in row]) for row in zip(*sent, strict=True)]
                reports = b"".join(message.report[: query.report_bytes] for message in joined)
                content = reports + b"".join(record for records in sent for record in records)
                out[at, : 1 + len(content)] = np.frombuffer(b"\x01" + content, dtype=np.uint8)
            shutil.rmtree(place)
        return out

    views = sent_views(query.mechanism, np.array(pair.answers), query.most_rows)[1:]
    return Game("everything a whole device sends in one epoch", query.epsilon, labels, draw, views)
