"""Conservation: what became of every share received, per proxy and epoch, so that nothing is lost
without a trace.

    received = counted + orphaned + duplicate + late + malformed            (+ waiting, while the epoch is open)

- counted: its message is in a pane
- orphaned: the other proxies' shares had not arrived when the epoch was closed
- duplicate: its proxy had sent a share under this id before
- late: its epoch was already closed
- malformed: refused, for one of the reasons listed in docs/aggregator.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypedDict

from deniable.documents import WrittenAs

__all__ = ["OUTSIDE", "Account", "AccountKey", "ConservationStatement", "Ledger", "statement"]

AccountKey = tuple[int, int, int]
"""Proxy, channel and epoch; channel and epoch are -1 for shares that belong to no window."""
OUTSIDE = -1


class _Outcomes(TypedDict):
    waiting: int
    """Shares without an outcome yet."""


@dataclass
class Account:
    """What was received from one proxy, and what became of it."""

    received: int = 0
    counted: int = 0
    orphaned: int = 0
    duplicate: int = 0
    late: int = 0
    malformed: int = 0

    COMPUTED = _Outcomes

    @property
    def waiting(self) -> int:
        """Shares without an outcome yet: they wait for those of other proxies. 0 once the epoch is
        closed."""
        return (
            self.received
            - self.counted
            - self.orphaned
            - self.duplicate
            - self.late
            - self.malformed
        )

    def __iadd__(self, other: Account) -> Account:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self

    def to_dict(self) -> dict[str, Any]:
        """The figures, including the shares that wait."""
        computed: _Outcomes = {"waiting": self.waiting}
        return {**{field.name: getattr(self, field.name) for field in fields(self)}, **computed}


class Ledger:
    """Accounts by key, and their refusals by reason: the entries of one step, to be added to the
    stored ones."""

    def __init__(self) -> None:
        self.accounts: dict[AccountKey, Account] = {}
        self.reasons: dict[tuple[int, str], int] = {}
        """How many shares of a proxy were refused for each reason."""

    def __bool__(self) -> bool:
        return bool(self.accounts)

    def enter(self, place: AccountKey, outcome: str, n: int, reason: str | None = None) -> None:
        """Book `n` shares under an outcome, or under `received`."""
        if not n:
            return
        account = self.accounts.setdefault(place, Account())
        setattr(account, outcome, getattr(account, outcome) + n)
        if reason is not None:
            key = (place[0], reason)
            self.reasons[key] = self.reasons.get(key, 0) + n


class ConservationStatement(TypedDict):
    """What became of the shares of a window."""

    proxies: dict[str, Annotated[dict[str, Any], WrittenAs(Account)]]
    balanced: bool
    """Whether every share has an outcome."""


def statement(
    names: Iterable[str], accounts: Mapping[int, Account], still_open: bool = False
) -> ConservationStatement:
    """The conservation statement of a window: the account of each proxy, and whether they all
    balance.

    While its epochs are open, shares may wait for those of other proxies; once they are closed,
    none do.
    """
    per_proxy = {name: accounts.get(i, Account()).to_dict() for i, name in enumerate(names)}
    waiting = [account["waiting"] for account in per_proxy.values()]
    return {
        "proxies": per_proxy,
        "balanced": all(n >= 0 if still_open else n == 0 for n in waiting),
    }
