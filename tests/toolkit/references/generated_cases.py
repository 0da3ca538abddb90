"""Random cases for ports: queries, policies, rows and words of randomness, each device with a few
epochs.

The same seed gives the same cases. They are valid queries of every shape that the specification
knows; what a port must refuse is in the vectors.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from deniable.errors import ParameterError
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed.signing import sign
from deniable.queries.strata import Stratum
from toolkit.references.client_vectors import _POLICY, CITY, PROXIES, SECRET, at, query
from toolkit.references.port_vectors import RING

__all__ = ["cases"]

UNARY = ("TwoCoin", "UnaryEncoding", "SymmetricUnary", "OptimizedUnary")
OTHERS = (
    "DirectEncoding",
    "SubsetSelection",
    "LocalHashing",
    "HadamardResponse",
    "ProjectiveResponse",
    "HierarchicalRanges",
    "DesignMatrix",
    "BasicRappor",
)
_EDGES = (-(2**53) - 1, -2.5, -1, 0, 0.1, 0.5, 1, 1.5, 2, 3.25, 10, 1e6, 2**53, 2**53 + 1, 1e300)
_TEXTS = ("", "a", "b", "ab", "aab", "A1", "é", "\U0001f600", "a\nb", "New York", "x" * 40)
_PATTERNS: tuple[dict[str, str], ...] = (
    {"glob": "a*"},
    {"glob": "?"},
    {"regex": r"[A-C]\d{1,3}"},
    {"regex": r"\w+ \w+"},
    {"glob": "[!a-m]*"},
    {"regex": "(x|yz)+"},
)
RING_FIELDS = [
    {
        "owner": each.key.owner,
        "public": each.key.raw.hex(),
        "valid_from": each.valid_from,
        "valid_until": each.valid_until,
        "revoked": each.revoked,
    }
    for each in RING
]


def _column(dice: random.Random, name: str, overlapping: bool) -> Column:
    other = dice.random() < 0.6
    if dice.random() < 0.5:
        if overlapping:
            lows = [float(dice.choice(_EDGES)) for _ in range(dice.randint(2, 4))]
            return Column(
                name,
                sorted({f"[{low!r},inf)" for low in lows}),
                other=other,
                kind="number",
                overlapping=True,
            )
        edges = sorted({float(dice.choice(_EDGES)) for _ in range(dice.randint(2, 7))})
        while len(edges) < 2:
            edges.append(edges[-1] + 1)
        ends = [dice.choice("[(") for _ in edges]
        ranges = []
        for (low, left), (high, right) in zip(
            zip(edges, ends, strict=True), [*zip(edges, ends, strict=True)][1:], strict=False
        ):
            ranges.append(f"{left}{low!r},{high!r}{')' if right == '[' else ']'}")
        return Column(name, ranges, other=other or len(ranges) < 2, kind="number")
    texts: list[Any] = dice.sample(_TEXTS, dice.randint(1, 4)) + dice.sample(
        _PATTERNS, dice.randint(0, 2)
    )
    return Column(name, texts, other=other or len(texts) < 2, kind="text", overlapping=overlapping)


def _mechanism(dice: random.Random, name: str, k: int) -> dict[str, Any]:
    if name == "TwoCoin":
        coins = {"p": dice.uniform(0.05, 0.95), "q": dice.uniform(0.05, 0.95)}
        return {"name": name, **coins, **({"inverted": True} if dice.random() < 0.3 else {})}
    if name == "UnaryEncoding":
        b = dice.uniform(0.01, 0.6)
        return {"name": name, "a": dice.uniform(b + 0.01, 0.99), "b": b}
    if name == "DesignMatrix":
        columns = [
            [dice.uniform(0.2, 1.0) + (3.0 if u == v else 0.0) for u in range(k)] for v in range(k)
        ]
        return {
            "name": name,
            "P": [[columns[v][u] / sum(columns[v]) for v in range(k)] for u in range(k)],
        }
    if name == "BasicRappor":
        p = dice.uniform(0.05, 0.5)
        return {
            "name": name,
            "f": dice.uniform(0.05, 0.95),
            "p": p,
            "q": dice.uniform(p + 0.05, 0.95),
        }
    return {"name": name, "epsilon": dice.choice((0.25, 1.0, 2.5, 6.0)) * dice.uniform(0.9, 1.1)}


def _query(dice: random.Random) -> Query:
    """One of the queries that there may be; tried again where a rule forbids what was drawn."""
    while True:
        ones = dice.choice((1, 1, 1, 2, 3))
        columns = [
            _safe_column(dice, name, ones > 1 and dice.random() < 0.5)
            for name in ("a", "b")[: dice.choice((1, 1, 2))]
        ]
        k = 1
        for column in columns:
            k *= len(column)
        name = dice.choice(
            UNARY if ones > 1 or not all(column.other for column in columns) else UNARY + OTHERS
        )
        memoize = dice.random() < 0.35
        rows = dice.choice(("random", "all") if ones > 1 else ("random", "aggregate", "several"))
        second = memoize and name in UNARY and dice.random() < 0.5
        changes: dict[str, Any] = {
            "id": f"case-{dice.randrange(1000)}",
            "columns": columns,
            "sql": "SELECT a, b FROM t" if len(columns) == 2 else "SELECT a FROM t",
            "mechanism": _mechanism(dice, name, k),
            "ones": ones,
            "rows": rows,
            "most_rows": dice.randint(2, 4) if rows == "several" else 1,
            "memoize": memoize,
            "distinct": dice.choice((1, 2, 3)) if memoize else 1,
            "instantaneous": (
                {"p": dice.uniform(0.05, 0.4), "q": dice.uniform(0.6, 0.95)} if second else None
            ),
            "sampling": dice.choice((1.0, 1.0, dice.uniform(0.3, 1.0))),
            "cover": dice.random() < 0.3,
            "proxies": PROXIES[: dice.choice((2, 2, 3))],
            "strata": (
                [Stratum("north", dice.uniform(0.5, 1.0)), Stratum("south")]
                if dice.random() < 0.2
                else []
            ),
            "channel": dice.choice((None, None, "a channel of many")),
            "grace": dice.choice((None, None, 300)),
            "once": not memoize and dice.random() < 0.1,
        }
        try:
            return query(**changes)
        except ParameterError:
            continue


def _safe_column(dice: random.Random, name: str, overlapping: bool) -> Column:
    while True:
        try:
            return _column(dice, name, overlapping)
        except ParameterError:
            continue


def _value(dice: random.Random) -> Any:
    kind = dice.random()
    if kind < 0.1:
        return None
    if kind < 0.5:
        return dice.choice(
            (*_EDGES, dice.uniform(-3, 12), dice.randint(-(2**63), 2**63 - 1), dice.randint(-3, 12))
        )
    return dice.choice((*_TEXTS, "yz", "B77", "two words", "zebra"))


def cases(n: int, seed: int) -> Iterator[dict[str, Any]]:
    """The questions of `n` steps, as `deniable client conformance` asks them."""
    dice = random.Random(seed)  # noqa: S311 - cases, not coins
    done = 0
    while done < n:
        asked = _query(dice)
        signed = sign(asked, CITY).to_bytes().decode()
        limits = [
            {
                "epsilon": str(dice.choice((5, 20, 80))),
                "period": dice.choice((None, 1800)),
                "analyst": None,
                "each_analyst": False,
            }
        ]
        policy = {
            **_POLICY,
            "epsilon_per_answer": "60",
            "limits": limits if dice.random() < 0.3 else [],
            "strata": ["south"] if dice.random() < 0.5 else ["north", "south"],
            "queue_messages": dice.choice((3, 1000)),
            "upload_within": dice.choice((1, 60, 600)),
            "slot": 9,
            "proxies": list(PROXIES),
        }
        epochs = sorted(dice.sample(range(40), dice.randint(1, 4)))
        for i, epoch in enumerate(epochs):
            width = len(asked.columns)
            rows = [
                [_value(dice) for _ in range(width)] for _ in range(dice.choice((0, 1, 1, 2, 5)))
            ]
            script = dice.randbytes(1 << 14)
            yield {
                "fresh": i == 0,
                "policy": policy,
                "ring": RING_FIELDS,
                "secret": SECRET.hex(),
                "query": signed,
                "now": at(epoch, dice.choice((0, 7, 590, 599))),
                "rows": rows,
                "random": script.hex(),
            }
            done += 1


if __name__ == "__main__":
    for each in cases(3, 1):
        print(json.dumps(each)[:300])  # noqa: T201 - a program that prints
