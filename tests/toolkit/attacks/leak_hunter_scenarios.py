"""Random pairs of vaults and random sequences of queries, honest and hostile, for the leak hunter.

A scenario says everything that happens to two devices: what lies in their vaults, what their
owners do meanwhile, what is asked, and how much may be spent. It is made from its seed alone.
Hostile SQL does its harm where the data say so, here to people who have gone far; no observer may
notice whom it harmed.
"""

# ruff: noqa: S608 - the SQL of analysts, hostile on purpose

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from deniable.errors import ParameterError
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from toolkit.devices import ORIGIN, asked, signed

__all__ = [
    "DISTANCES",
    "EPOCH",
    "KINDS",
    "KNOWN",
    "LONG_TEXT",
    "OWNERS",
    "Ask",
    "Contents",
    "Scenario",
    "scenario_of",
    "simpler",
]

EPOCH = 60
"""Seconds: short, so that a life of some rounds has several epochs."""
DISTANCES = {"near": 1.5, "middle": 3.5, "far": 8.5, "missing": None}
"""The distance that a trip of each name has."""
LONG_TEXT = 4096
_FAR = "distance > 5"
_NUMBERS = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


@dataclass(frozen=True)
class Contents:
    """What one vault holds, and what its owner does while the device answers."""

    epochs: tuple[tuple[str, ...], ...] = (("near",),)
    """The trips of each epoch, by the names in `DISTANCES`; the last ones stay. Granted."""
    copies: int = 1
    """How often each of these trips is there. Granted."""
    note: int = 0
    """Characters of each trip's note. Granted."""
    hidden: int = 0
    """Kilobytes in a table that is not granted."""
    deleted: int = 0
    """Kilobytes that were deleted: free pages of the file."""
    owner: str = "away"
    """What the owner does: `OWNERS`."""

    @property
    def granted(self) -> tuple[object, ...]:
        """All that a report may depend on."""
        return self.epochs, self.copies, self.note, self.owner


OWNERS = ("away", "locks", "writes", "commits")
"""Not there; holds the file's lock in the second round; has an unfinished change in WAL mode, from
the second round on; adds a hidden row during each answer."""


@dataclass(frozen=True)
class Ask:
    """One query: a kind of SQL, and how it is answered."""

    kind: str
    size: int = 0
    """How much of what the kind is about: columns, rows, megabytes, levels."""
    rows: str = "random"
    memoize: bool = False
    cover: bool = False
    strata: bool = False
    sampling: float = 1.0
    epsilon: float = 8.0
    """Usually so high that a report shows its answer: if two answers differ, so do the reports."""


@dataclass(frozen=True)
class Scenario:
    """Two vaults to be told apart, the queries that both devices get, and the owners' limit."""

    seed: int
    one: Contents
    other: Contents
    asks: tuple[Ask, ...]
    n_epochs: int = 1
    limit: int = 10_000
    """The epsilon that may be spent in all; the last answers are refused if it is low."""

    @property
    def same_granted(self) -> bool:
        """Whether only what is not granted differs, so that the reports must be equal as well."""
        return self.one.granted == self.other.granted

    def queries(self) -> list[tuple[Query, bytes]]:
        """What is asked, and as it is relayed."""
        return [_largest_query(i, ask) for i, ask in enumerate(self.asks)]


@functools.cache
def _largest_query(number: int, ask: Ask) -> tuple[Query, bytes]:
    """The query, or the largest that an analyst can sign if this one is too large."""
    size = ask.size
    while True:
        try:
            query = _query(number, replace(ask, size=size))
            return query, signed(query).to_bytes()
        except ParameterError:
            if size < 2:
                raise
            size //= 2


def _query(number: int, ask: Ask) -> Query:
    sql, columns = KINDS[ask.kind](ask.size)
    multiple = ask.rows == "all"
    return asked(
        id=f"q{number}",
        serial=1 + number,
        sql=sql,
        columns=columns,
        schedule=Schedule(ORIGIN, ORIGIN + 1000 * EPOCH, EPOCH, EPOCH, EPOCH),
        mechanism={"name": "OptimizedUnary", "epsilon": ask.epsilon},
        rows=ask.rows,
        most_rows=3 if ask.rows == "several" else 1,
        ones=min(3, len(columns[0])) if multiple else 1,
        memoize=ask.memoize,
        distinct=2 if ask.memoize else 1,
        cover=ask.cover,
        strata=[Stratum("north"), Stratum("south", sampling=ask.sampling)] if ask.strata else [],
        sampling=ask.sampling,
    )


# --- what is asked --------------------------------------------------------------------------------

_Asked = tuple[str, list[Column]]


def _distance(sql: str) -> _Asked:
    return sql, [Column("distance", _NUMBERS, other=True)]


def _where_far(then: str, otherwise: str = "distance") -> _Asked:
    return _distance(f"SELECT CASE WHEN {_FAR} THEN {then} ELSE {otherwise} END FROM trips")


def _heavy_patterns(n_columns: int) -> _Asked:
    """A long text for those who have gone far, in which a pattern meets no state twice."""
    coins = random.Random(n_columns)  # noqa: S311 - a text without a period
    text = "".join(coins.choice("ab") for _ in range(LONG_TEXT - 379)) + "a" * 379
    # One row without sorting: a sorted record would hold all columns and exceed a cell's limit.
    made = f"SELECT CASE WHEN max(distance) > 5 THEN '{text}' ELSE 'b' END AS t FROM trips"
    columns = [Column(f"c{i}", [{"regex": "[ab]*a[ab]{378}"}]) for i in range(1, n_columns)]
    last = Column("c", [{"regex": "[ab]*a[ab]{378}"}], other=True)
    return f"SELECT {', '.join('t' for _ in range(n_columns))} FROM ({made})", [*columns, last]


def _heavy_rows(n_rows: int) -> _Asked:
    """The same with one column, in many rows."""
    one_row, columns = _heavy_patterns(1)
    numbers = ", ".join(f"({i})" for i in range(n_rows))
    return f"WITH n(i) AS (VALUES {numbers}) SELECT t FROM n, ({one_row})", columns


def _notes(_: int) -> _Asked:
    buckets = [{"glob": "a*a"}, {"regex": "b+(a|b)*"}, "x"]
    return "SELECT note FROM trips", [Column("note", buckets, other=True)]


def _long_text(n_bytes: int) -> _Asked:
    """A text that grows fourfold from level to level, and may exceed what a cell may hold."""
    levels = ((n_bytes // 16).bit_length() + 1) // 2
    return _where_far(f"(WITH {_texts(levels)} SELECT length(x) FROM t{levels})")


def _memory(megabytes: int) -> _Asked:
    """One answer if so many megabytes can be held, another if not, whatever the data."""
    return _distance(f"WITH {_texts(6)}, {_megabytes(megabytes)} SELECT 3 WHERE {_HELD}")


def _memory_where_far(megabytes: int) -> _Asked:
    held = f"(SELECT count(*) FROM trips WHERE {_HELD})"
    sql, columns = _where_far(held)
    return f"WITH {_texts(6)}, {_megabytes(megabytes)} {sql}", columns


def _texts(levels: int) -> str:
    first = "t0(x) AS MATERIALIZED (SELECT 'abcdefghijklmno')"
    return ", ".join(
        [
            first,
            *(f"t{i + 1}(x) AS MATERIALIZED (SELECT x||x||x||x FROM t{i})" for i in range(levels)),
        ]
    )


def _megabytes(n: int) -> str:
    sixteen, many = (", ".join(f"({i})" for i in range(count)) for count in (16, n))
    return f"d(i) AS (VALUES {sixteen}), m(i) AS (VALUES {many})"


_HELD = "(SELECT count(*) FROM (SELECT DISTINCT d.i || '/' || m.i || t6.x FROM t6, d, m)) > 0"
_TEN = "d(i) AS (VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9))"


def _slow(_: int) -> _Asked:
    """Many times the deadline for those who have gone far, and no time for the others."""
    sql, columns = _where_far("(SELECT count(*) FROM d a, d b, d c, d e, d f, d g, d h, d k)")
    return f"WITH {_TEN} {sql}", columns


def _compile_bomb(levels: int) -> _Asked:
    """Each level names the one below twice, and the compiler copies it as often."""
    parts = ["b0(x) AS (SELECT distance FROM trips)"]
    for i in range(levels):
        parts.append(f"b{i + 1}(x) AS (SELECT p.x FROM b{i} p, b{i} q WHERE p.x = q.x)")
    return _distance(f"WITH {', '.join(parts)} SELECT x FROM b{levels}")


def _many_rows(_: int) -> _Asked:
    rows = "FROM trips, d a, d b, d c, d e"
    return _distance(f"WITH {_TEN} SELECT distance {rows} WHERE {_FAR}")


KINDS: dict[str, Callable[[int], _Asked]] = {
    "plain": lambda _: _distance("SELECT distance FROM trips"),
    "only the far": lambda _: _distance(f"SELECT distance FROM trips WHERE {_FAR}"),
    "count": lambda _: _distance("SELECT count(*) FROM trips"),
    "fails where far": lambda _: _where_far("abs(-9223372036854775807 - 1)"),
    "a blob where far": lambda _: _where_far("x'00'"),
    "many rows where far": _many_rows,
    "long text where far": _long_text,
    "slow where far": _slow,
    "memory where far": _memory_where_far,
    "memory": _memory,
    "heavy patterns where far": _heavy_patterns,
    "heavy rows where far": _heavy_rows,
    "notes": _notes,
    "compile bomb": _compile_bomb,
    "not granted": lambda _: _distance("SELECT secret FROM trips"),
    "no such table": lambda _: _distance("SELECT page FROM nowhere"),
    "too many columns": lambda _: _distance("SELECT 1, distance FROM trips"),
}
"""The SQL and columns of each kind of query, given its size."""
_SIZES = {
    "long text where far": (1_000, 100_000),
    "memory where far": (2, 24),
    "memory": (12, 24),
    "heavy patterns where far": (2, 40),
    "heavy rows where far": (2, 40),
    "compile bomb": (2, 14),
}
_TEXT_KINDS = ("heavy patterns where far", "heavy rows where far", "notes")


KNOWN = (
    Scenario(0, Contents(), Contents((("far",),)), (Ask("heavy patterns where far", 40),)),
    Scenario(0, Contents(), Contents(hidden=4_000), (Ask("memory", 24),)),
    Scenario(0, Contents(), Contents(deleted=4_000), (Ask("memory", 24),)),
    Scenario(
        0,
        Contents(),
        Contents(copies=80_000),
        (Ask("compile bomb", 14), Ask("not granted"), Ask("plain")),
    ),
    Scenario(
        0,
        Contents(),
        Contents((("far",),)),
        (Ask("heavy rows where far", 150, memoize=True),),
    ),
    Scenario(
        0,
        Contents((("near",), ("near",))),
        Contents((("near",), ("far",))),
        (Ask("plain", memoize=True),),
        n_epochs=3,
    ),
)
"""Scenarios that once told devices apart. A new finding is added before it is mended."""


# --- drawing --------------------------------------------------------------------------------------


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed: a known one if it is negative, otherwise a random one."""
    return replace(KNOWN[-1 - seed], seed=seed) if seed < 0 else _random(seed)


def _random(seed: int) -> Scenario:
    """In every tenth one, the large vaults are four times as large."""
    coins = random.Random(seed)  # noqa: S311 - what is tried, not what is kept secret
    large = 4 if seed % 10 == 9 else 1
    n_epochs = coins.choice([1, 1, 2, 3])
    one = _contents(coins, ("near", "middle", "missing"), n_epochs, large)
    other = _contents(coins, ("near", "middle", "missing", "far", "far"), n_epochs, large)
    kinds = [*KINDS, "plain", "only the far", "slow where far", *["heavy patterns where far"] * 2]
    if coins.random() < 0.4 or one.granted == other.granted:
        # Equal in what is granted: one vault is small, the other large.
        size = coins.choice([1_000, 4_000, 8_000]) * large
        one = replace(other, hidden=0, deleted=0)
        other = coins.choice([replace(one, hidden=size), replace(one, deleted=size)])
        kinds += ["memory"] * 10
    asks = tuple(_ask(coins, kinds) for _ in range(coins.choice([1, 2, 3])))
    if one.granted == other.granted:
        asks = tuple(replace(ask, epsilon=8.0) for ask in asks)  # reports are compared too
    return Scenario(seed, one, other, asks, n_epochs, limit=coins.choice([10_000, 10_000, 30]))


def _contents(coins: random.Random, trips: tuple[str, ...], n_epochs: int, large: int) -> Contents:
    copies = coins.choice([1, 1, 1, 300, 20_000 * large])

    def some_trips() -> tuple[str, ...]:
        return tuple(coins.choices(trips, k=coins.choice([0, 1, 1, 2, 4])))

    return Contents(
        epochs=tuple(some_trips() for _ in range(n_epochs)),
        copies=copies,
        note=coins.choice([0, 0, 5, 5 if copies > 300 else LONG_TEXT]),
        hidden=coins.choice([0, 0, 10, 8_000 * large]),
        deleted=coins.choice([0, 0, 10, 8_000 * large]),
        owner=coins.choice([*["away"] * 9, *OWNERS[1:]]),
    )


def _ask(coins: random.Random, kinds: list[str]) -> Ask:
    kind = coins.choice(kinds)
    rows = coins.choice(["random", "random", "several", "aggregate", "all"])
    return Ask(
        kind,
        coins.choice(_SIZES.get(kind, (0,))),
        rows="random" if kind in _TEXT_KINDS and rows == "all" else rows,
        memoize=coins.random() < 0.3,
        cover=coins.random() < 0.3,
        strata=coins.random() < 0.3,
        sampling=coins.choice([1.0, 1.0, 0.7]),
        epsilon=coins.choice([8.0, 8.0, 8.0, 1.0]),
    )


# --- shrinking ------------------------------------------------------------------------------------


def simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios a little simpler than this one, the boldest step first, with different vaults."""
    for found in _simpler(scenario):
        if found != scenario and found.one != found.other:
            yield found


def _simpler(scenario: Scenario) -> Iterator[Scenario]:
    asks = scenario.asks
    if len(asks) > 1:
        yield from (replace(scenario, asks=(ask,)) for ask in asks)
        yield from (replace(scenario, asks=asks[:i] + asks[i + 1 :]) for i in range(len(asks)))
    if scenario.n_epochs > 1:
        yield replace(scenario, n_epochs=1)
        yield replace(scenario, n_epochs=scenario.n_epochs - 1)
    for field in ("owner", "hidden", "deleted", "note", "copies", "epochs"):
        plain, first = ({field: getattr(each, field)} for each in (Contents(), scenario.one))
        one, other = (replace(each, **plain) for each in (scenario.one, scenario.other))
        yield replace(scenario, one=one, other=other)
        yield replace(scenario, other=replace(scenario.other, **first))
    yield replace(scenario, limit=Scenario.limit)
    for i, ask in enumerate(asks):
        for plainer in (
            replace(ask, rows="random"),
            replace(ask, memoize=False),
            replace(ask, cover=False),
            replace(ask, strata=False),
            replace(ask, sampling=1.0),
        ):
            yield replace(scenario, asks=(*asks[:i], plainer, *asks[i + 1 :]))
    for side in ("one", "other"):
        contents = getattr(scenario, side)
        used = contents.epochs[: scenario.n_epochs]
        fewer = tuple(trips[:1] for trips in used)
        yield replace(scenario, **{side: replace(contents, epochs=used)})
        yield replace(scenario, **{side: replace(contents, epochs=fewer)})
