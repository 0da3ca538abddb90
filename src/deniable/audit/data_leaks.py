"""Attacks on a device by what its vault holds: hidden data, heavy patterns, and large vaults under
a deadline.

Hostile queries are asked together with the operator's own one, under the operator's policy or one
that allows them. Devices that differ in hidden data alone must not differ in anything, not even in
their reports; those that differ in what is granted must differ in their reports alone. Time is
virtual, and charges processor time (:class:`~deniable.audit.observing.WorkClock`).
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from deniable.audit.device_lives import DeviceLife, SlowDevice
from deniable.audit.findings import ExactCheck
from deniable.audit.observing import ListeningNetwork, Observed, PositionedSource, WorkClock
from deniable.audit.vault_pairs import VaultPair
from deniable.client.encoding import cost_of_answer
from deniable.client.policy import Policy
from deniable.client.vaults.vault import Vault
from deniable.privacy.ledger import Limit
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey

__all__ = ["compared_contents"]

_TABLE = "audit_rows"
_NEAR, _FAR = 1.5, 8.5
_KILOBYTES = 4_000
"""How much a large vault holds in a table that is not granted, and as much again in deleted
rows."""
_MANY_ROWS = 40_000
_EPSILON = 12.0
"""Of hostile queries, where the policy allows it: so high that a report shows its answer."""
_LEAST_EPSILON = 0.01
"""Where nothing is left for them they are refused, on all devices alike."""
_LONG_TEXT, _POSITIONS, _PATTERNS = 4096, 378, 10
"""As costly as patterns that can be signed may be."""


def compared_contents(
    query: Query,
    pair: VaultPair,
    folder: Path,
    device_kind: type[SlowDevice] = SlowDevice,
    policy: Policy | None = None,
) -> list[ExactCheck]:
    """Compare one epoch of devices whose vaults differ in what is hidden, in a value, or in how
    many rows are granted."""
    memory = Policy.max_memory if policy is None else policy.max_memory
    epsilon = _EPSILON if policy is None else _allowed(policy, query)
    # Half as much again as the limit, so that the first one fails on every device.
    hostile = (_memory_query(query, epsilon, 3 * memory >> 21), _pattern_query(query, epsilon))
    key = AnalystKey.generate(query.analyst)
    life = DeviceLife(
        query,
        folder,
        key,
        hostile,
        device_kind,
        WorkClock,
        epochs=1,
        one_answer_per_round=True,
        owner=policy,
    )
    life.check()
    made = _VaultCopies(pair.vaults[0], folder)

    vaults = (
        made.copy("plain", [_NEAR]),
        made.copy("hidden", [_NEAR], hide=True),
        made.copy("far", [_FAR]),
        made.copy("many", [_NEAR] * _MANY_ROWS),
    )
    plain, hidden, far, many = (life.live(vault, PositionedSource("contents")) for vault in vaults)
    return [
        _compared(
            "hidden tables and deleted rows show nowhere, not even in reports",
            plain,
            hidden,
            reports=True,
        ),
        _compared("patterns over long texts delay no poll and no upload", plain, far),
        _compared("a large vault causes no refusal and no delay", plain, many),
    ]


def _allowed(policy: Policy, query: Query) -> float:
    """The largest epsilon at which the policy lets both hostile queries be answered beside the
    query, if there is one."""
    ceiling = float(Limit(policy.epsilon_per_answer).epsilon)
    room = [float(limit.epsilon - cost_of_answer(query)) / 2 for limit in policy.limits]
    return min(_EPSILON, ceiling, max(min(room, default=_EPSILON), _LEAST_EPSILON))


def _compared(
    name: str,
    one: tuple[Observed, ListeningNetwork],
    other: tuple[Observed, ListeningNetwork],
    reports: bool = False,
) -> ExactCheck:
    difference = one[0].difference(other[0])
    if difference is None and reports and one[1].bodies != other[1].bodies:
        difference = "reports"
    n_answers = sum(outcome == "answered" for _, outcome, *_ in one[0].outcomes)
    detail = (
        f"{difference} differ" if difference else f"{n_answers} answers, {len(one[0].polls)} polls"
    )
    return ExactCheck(name, difference is None and n_answers > 0, detail)


class _VaultCopies:
    """Copies of a vault, each with rows of its own in a granted table."""

    def __init__(self, vault: Vault, folder: Path) -> None:
        self._vault, self._folder = vault, folder

    def copy(self, name: str, values: list[float], hide: bool = False) -> Vault:
        vault = Vault(Path(shutil.copy(self._vault.path, self._folder / f"contents-{name}.db")))
        vault.import_rows(_TABLE, {"distance": "REAL"}, [[value] for value in values])
        vault.grant(_TABLE, ["distance"])
        if hide:
            filler = [["x" * 1000] for _ in range(_KILOBYTES)]
            for table in ("audit_hidden", "audit_deleted"):
                vault.import_rows(table, {"text": "TEXT"}, filler)
            with closing(sqlite3.connect(vault.path)) as connection, connection:
                connection.execute("DELETE FROM audit_deleted")
        return vault


def _hostile(query: Query, name: str, sql: str, columns: list[Column], epsilon: float) -> Query:
    """A query on the audit's own table, whose reports show their answers."""
    return Query(
        id=f"audit-{name}",
        analyst=query.analyst,
        sql=sql,
        columns=columns,
        schedule=query.schedule,
        proxies=query.proxies,
        mechanism={"name": "OptimizedUnary", "epsilon": epsilon},
        sampling=1.0,
    )


def _memory_query(query: Query, epsilon: float, megabytes: int) -> Query:
    """One answer if so many megabytes can be held, and another if not."""
    texts = ["t0(x) AS MATERIALIZED (SELECT 'abcdefghijklmno')"]
    texts += [f"t{i + 1}(x) AS MATERIALIZED (SELECT x||x||x||x FROM t{i})" for i in range(6)]  # noqa: S608
    numbers = [", ".join(f"({i})" for i in range(count)) for count in (16, megabytes)]
    held = "SELECT count(*) FROM (SELECT DISTINCT d.i || '/' || m.i || t6.x FROM t6, d, m)"
    tables = [*texts, f"d(i) AS (VALUES {numbers[0]})", f"m(i) AS (VALUES {numbers[1]})"]
    sql = f"WITH {', '.join(tables)} SELECT min(distance) FROM {_TABLE} WHERE ({held}) > 0"  # noqa: S608
    return _hostile(
        query, "memory", sql, [Column("held", ["[0,5)", "[5,10)"], other=True)], epsilon
    )


def _pattern_query(query: Query, epsilon: float) -> Query:
    """A long text for one value of the table alone, in which many patterns meet no state twice."""
    coins = random.Random(_PATTERNS)  # noqa: S311 - a text without a period
    text = "".join(coins.choice("ab") for _ in range(_LONG_TEXT - _POSITIONS - 1)) + "a" * (
        _POSITIONS + 1
    )
    made = f"SELECT CASE WHEN max(distance) > 5 THEN '{text}' ELSE 'b' END AS t FROM {_TABLE}"  # noqa: S608
    pattern = {"regex": f"[ab]*a[ab]{{{_POSITIONS}}}"}
    columns = [Column(f"c{i}", [pattern], other=i + 1 == _PATTERNS) for i in range(_PATTERNS)]
    sql = f"SELECT {', '.join('t' for _ in columns)} FROM ({made})"  # noqa: S608
    return _hostile(query, "patterns", sql, columns, epsilon)
