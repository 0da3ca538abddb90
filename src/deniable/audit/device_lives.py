"""The life of one device, and two lives that differ only in the data."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path

from deniable.audit.findings import ExactCheck
from deniable.audit.observing import (
    LEDGER_TABLES,
    ListeningNetwork,
    Observed,
    PositionedSource,
    VirtualClock,
)
from deniable.audit.vault_pairs import VaultPair
from deniable.client import encoding
from deniable.client.cadence import Cadence, rounds
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.sandbox.interface import SandboxAnswer, SandboxTask
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.errors import ParameterError
from deniable.privacy.ledger import Limit
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.randomness import Source

__all__ = ["EPOCHS", "DeviceLife", "SlowDevice", "compared_lives"]


EPOCHS = 4
"""Epochs per life. The ledger pays for two answers fewer, so that a refusal is seen too."""
_ROUNDS = 6
"""Rounds per epoch."""
_SQL_SECONDS = (0.05, 0.9)
"""How long the SQL takes on each of the two vaults. That may depend on the data, so it must not
show."""


class SlowDevice(Device):
    """A device whose SQL takes time on its clock."""

    seconds = 0.0

    def _read(self, query: Query, task: SandboxTask) -> SandboxAnswer:
        found = super()._read(query, task)
        if self.seconds:
            self.clock.sleep(self.seconds)  # type: ignore[attr-defined]
        return found


@dataclass
class DeviceLife:
    """A device with a vault, a policy that lets it answer some of the time, and a clock that the
    test advances."""

    query: Query
    folder: Path
    key: AnalystKey
    others: tuple[Query, ...] = ()
    """Further queries asked in the same rounds."""
    device_kind: type[SlowDevice] = SlowDevice
    clock_kind: type[VirtualClock] = VirtualClock
    epochs: int = EPOCHS
    one_answer_per_round: bool = False
    """Whether rounds are as short as can be, so that an answer that takes longer than its slot
    delays the next poll; they last until everything is uploaded."""
    owner: Policy | None = None
    """The policy of the devices that are deployed; None for one that just allows what is asked."""
    signed: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        asked = [self.query, *self.others]
        self.signed = [sign(query, self.key).to_bytes() for query in asked]

    def limit(self) -> Fraction | None:
        """What may be spent in total, in this life; None if the owner sets no limit that is as long
        as that."""
        if self.owner is not None:
            seconds = self.epochs * self.query.schedule.every
            own = (None, self.query.analyst)
            kept = [
                each
                for each in self.owner.limits
                if each.analyst in own and (each.period or seconds) >= seconds
            ]
            return min((each.epsilon for each in kept), default=None)
        # For each query, enough for all but two epochs.
        asked = [self.query, *self.others]
        return sum(
            (
                encoding.cost_of_answer(each) * (1 if each.memoize else max(1, self.epochs - 2))
                for each in asked
            ),
            Fraction(),
        )

    def policy(self) -> Policy:
        """The owner's policy, with a key and tokens of the audit's own, or one of a careful owner
        who allows what is asked."""
        query, ring = self.query, KeyRing().add(self.key.public)
        if self.owner is not None:
            return replace(
                self.owner, ring=ring, proxies=dict.fromkeys(self.owner.proxies, "token")
            )
        most = max(encoding.cost_of_answer(each) for each in (query, *self.others))
        strata = (query.strata[0].name,) if query.strata else ()
        return Policy(
            ring,
            dict.fromkeys(query.proxies, "token"),
            epsilon_per_answer=most,
            limits=(Limit(self.limit()),),
            strata=strata,
            upload_within=max(1, min(600, query.schedule.every // 4)),
            deadline=1.0,
        )

    def check(self) -> None:
        """Refuse a policy under which the query would never be answered: nothing could be seen of
        such a device."""
        refusal = self.policy().check(self.query)
        limit, cost = self.limit(), encoding.cost_of_answer(self.query)
        if refusal is None and limit is not None and cost > limit:
            refusal = (
                "budget",
                f"an answer costs {float(cost):.6g}, and the limit is {float(limit):.6g}",
            )
        if refusal is not None:
            raise ParameterError(
                "policy", refusal[0], f"refuses query {self.query.id!r}: {refusal[1]}"
            )

    def _rounds(self, policy: Policy) -> tuple[Cadence, int]:
        """How long rounds are, and how many there are."""
        every, slot, n_queries = self.query.schedule.every, policy.slot, len(self.signed)
        if self.one_answer_per_round:
            cadence = Cadence(max(1, 2 * slot), slot)
            return cadence, policy.upload_within // cadence.every + 2 * n_queries + 2
        cadence = Cadence(max(2 * slot * n_queries, every // _ROUNDS), slot)
        return cadence, self.epochs * every // cadence.every + 2

    def live(
        self, vault: Vault, source: Source, seconds: float = 0.0
    ) -> tuple[Observed, ListeningNetwork]:
        """One life: everything seen of it, and everything sent to the proxies."""
        policy, query = self.policy(), self.query
        clock = self.clock_kind(float(query.schedule.origin))
        step = source.step if isinstance(source, PositionedSource) else None
        place = Path(tempfile.mkdtemp(dir=self.folder))
        own = Vault(Path(shutil.copy(vault.path, place / "vault.db")))
        device = self.device_kind(
            own,
            policy,
            Store(place / "store", durable=False),
            source=source,
            clock=clock,
            isolated=False,
            on_step=step,
        )
        device.seconds = seconds
        network = ListeningNetwork(clock, tuple(query.proxies), self.signed)
        cadence, n_rounds = self._rounds(policy)
        seen = network.seen
        for receipts, _ in islice(
            rounds(device, network, cadence, clock=clock, sleep=clock.sleep), max(n_rounds, 2)
        ):
            seen.rounds.append(clock.time)
            seen.outcomes += [
                (r.query, r.outcome, r.reason, r.detail, r.epsilon, r.left) for r in receipts
            ]
            with device.store.transaction() as transaction:
                seen.queue += transaction._db.execute(
                    "SELECT proxy, due, expires, length(record) FROM queue ORDER BY place"
                )
        with device.store.transaction() as transaction:
            seen.ledger = {
                table: transaction._db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
                for table in LEDGER_TABLES
            }
        shutil.rmtree(place)
        return seen, network


def compared_lives(
    life: DeviceLife, pair: VaultPair, lives: int, seed: str = "coins"
) -> tuple[list[ExactCheck], Observed]:
    """Compare lives with each vault, with the same coins in both: what differs, and the last life
    observed."""
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
        "sends": (
            "uploads have the same times, order, sizes and, for all proxies but the last, bytes",
            f"{sends:,} uploads",
        ),
        "polls": ("polls have the same times and proxies", f"{polls:,} polls"),
        "rounds": ("rounds are over at the same times", f"{lives} lives"),
        "queue": ("the queue is the same, and so are its expiry times", f"{lives} lives"),
        "ledger": ("charges, receipts and counters are the same", f"{lives} lives"),
        "outcomes": (
            "answers and refusals are the same, for the same reasons",
            f"{refused:,} refusals",
        ),
    }
    found = [
        ExactCheck(
            name,
            part not in differences,
            f"in {differences[part]} of {lives} lives" if part in differences else much,
        )
        for part, (name, much) in names.items()
    ]
    return found, one
