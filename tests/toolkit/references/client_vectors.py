"""Makes tests/vectors/client-v1.json: signed query, policy, rows and random bytes, and what a
device makes of them.

`python -m toolkit.references.client_vectors` (from tests/) writes the file, with the library.
`reference_client.py`, which knows the library only through docs/wire.md, has to agree with every
byte of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.portable import PortableSource
from deniable.client.sandbox import interface as sandbox
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.privacy.ledger import Limit
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.envelope import Envelope, Version
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.permissions import ChannelPermission, permit
from deniable.queries.signed.signing import SignedQuery, sign, sign_version
from deniable.queries.strata import Stratum
from deniable.wire.shares import Share, join

VECTORS = Path(__file__).parents[2] / "vectors" / "client-v1.json"
SCHEMA = VECTORS.with_name("client-v1.schema.json")
ORIGIN, EVERY, DAY = 1_700_000_000, 600, 86_400
CITY = AnalystKey("City", bytes(range(32)))
ACME = AnalystKey("Acme", bytes(range(1, 33)))
RETIRED = AnalystKey("City", bytes(range(2, 34)))
STOLEN = AnalystKey("City", bytes(range(3, 35)))
STRANGER = AnalystKey("City", bytes(32))
CONTROLLER = AnalystKey("controller", bytes(range(4, 36)))
RING = KeyRing(
    [
        TrustedKey(CITY.public),
        TrustedKey(ACME.public),
        TrustedKey(RETIRED.public, 0, ORIGIN),
        TrustedKey(STOLEN.public, revoked=True),
    ]
)
PROXIES = ("https://one.example", "https://two.example", "https://three.example")
SECRET = hashlib.sha256(b"the device of the vectors").digest()
_POLICY: dict[str, Any] = {
    "analysts": None,
    "epsilon_per_answer": "10",
    "limits": [],
    "strata": [],
    "queue_messages": 1000,
    "queue_age": 14 * DAY,
    "upload_within": 60,
}


@dataclass(frozen=True)
class Step:
    """One signed query that reaches the device, and what is in its vault then."""

    signed: SignedQuery | str
    rows: Sequence[Sequence[Any]] = ((3.5,),)
    now: int = ORIGIN + 7 * EVERY


Case = tuple[str, dict[str, Any], list[Step]]


def query(**changes: Any) -> Query:
    given: dict[str, Any] = {
        "id": "taxi",
        "analyst": "City",
        "sql": "SELECT a FROM t",
        "columns": [Column("a", [f"[{i},{i + 1})" for i in range(11)])],
        "schedule": Schedule(ORIGIN, ORIGIN + 365 * DAY, EVERY, 6 * EVERY, EVERY),
        "proxies": PROXIES[:2],
        "mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.5},
    }
    return Query(**{"instantaneous": None, **given, **changes})


def signed(key: AnalystKey = CITY, **changes: Any) -> SignedQuery:
    return sign(query(analyst=key.owner, **changes), key)


def unowned(asked: Query, key: AnalystKey) -> SignedQuery:
    """A query of format 1, which names no owner of its channel, as the first release signed it."""
    return SignedQuery(
        asked.content, key.public.id, key.sign(b"deniable query 1\0" + asked.content)
    )


def at(epoch: int, second: int = 0) -> int:
    return ORIGIN + epoch * EVERY + second


# --- the cases

MECHANISMS: list[dict[str, Any]] = [
    {"name": "TwoCoin", "p": 0.5, "q": 0.5},
    {"name": "TwoCoin", "p": 0.3, "q": 0.9},
    {"name": "UnaryEncoding", "a": 0.75, "b": 0.2},
    {"name": "SymmetricUnary", "epsilon": 1.5},
    {"name": "OptimizedUnary", "epsilon": 2.0},
    {"name": "DirectEncoding", "epsilon": 1.0},
    {"name": "SubsetSelection", "epsilon": 1.0},
    {"name": "LocalHashing", "epsilon": 1.0},
    {"name": "LocalHashing", "epsilon": 2.0, "g": 7},
    {"name": "HadamardResponse", "epsilon": 1.25},
    {"name": "BasicRappor", "f": 0.5, "p": 0.5, "q": 0.75},
    {"name": "ProjectiveResponse", "epsilon": 1.5},
    {"name": "HierarchicalRanges", "epsilon": 1.0},
]


def mechanisms() -> Iterator[Case]:
    """Every mechanism, with reports of less than a byte, of several bytes, of two-byte numbers."""
    for recipe in MECHANISMS:
        for k in (3, 8, 17, 300):
            columns = [Column("a", [float(i) for i in range(k - 1)], other=True)]
            asked = signed(columns=columns, mechanism=recipe, proxies=PROXIES[: 2 + (k == 17)])
            for value in (0, k // 2, k - 1):
                yield f"{json.dumps(recipe)}, answer {value} of {k}", {}, [Step(asked, [[value]])]
    matrix = [[0.7, 0.2, 0.1], [0.2, 0.6, 0.3], [0.1, 0.2, 0.6]]
    asked = signed(
        columns=[Column("a", [0.0, 1.0], other=True)],
        mechanism={"name": "DesignMatrix", "P": matrix},
    )
    for value in (0, 1, 2):
        yield f"DesignMatrix, answer {value}", {}, [Step(asked, [[value]])]


def buckets() -> Iterator[Case]:
    """The edges of ranges, integers that no double holds, texts and patterns, several columns."""
    ranges = [
        Column(
            "a", ["(-inf,-1.5]", "(-1.5,0)", 0.0, "(0,1]", "(2,9007199254740993.0)", "[1e300,inf)"]
        )
    ]
    numbers = (-1e308, -1.5, -1.4999999999999998, -0.0, 0, 5e-324, 1, 1.0000000000000002, 2, 3)
    for value in (
        *numbers,
        9_007_199_254_740_991,
        9_007_199_254_740_992,
        9_007_199_254_740_993,
        1e300,
        "0",
        None,
    ):
        yield f"ranges, {value!r}", {}, [Step(signed(columns=ranges), [[value]])]
    texts: list[Any] = [
        "York",
        "",
        {"glob": "New *"},
        {"glob": "[!NY]?[a-c]"},
        {"regex": r"[A-C]\d{2,3}(-x|-y)?"},
    ]
    for value in (
        "York",
        "york",
        "",
        "New York",
        "New",
        "New ",
        "abc",
        "Nbc",
        "xyz",
        "ab\nc",
        "A12",
        "B123-y",
        "C1",
        "A12-z",
        7,
    ):
        for other in (False, True):
            asked = signed(columns=[Column("a", texts, other=other, kind="text")])
            yield f"texts, {value!r}, other {other}", {}, [Step(asked, [[value]])]
    pair = [Column("a", ["[0,1)", "[1,2)"], other=True), Column("b", ["x", "y"])]
    for row in ((0.5, "x"), (1.5, "y"), (9, "y"), (0.5, "z"), (None, "x")):
        yield (
            f"two columns, {row!r}",
            {},
            [Step(signed(columns=pair, sql="SELECT a, b FROM t"), [row])],
        )


def several_rows() -> Iterator[Case]:
    """No row, several rows, rows that an aggregate must not have."""
    values = [[i + 0.5] for i in range(6)]
    for n in range(5):
        yield f"one of {n} rows", {}, [Step(signed(), values[:n])]
        yield f"three of {n} rows", {}, [Step(signed(rows="several", most_rows=3), values[:n])]
        yield f"an aggregate of {n} rows", {}, [Step(signed(rows="aggregate"), values[:n])]
    for recipe in MECHANISMS[4:9]:
        columns = [Column("a", [f"[{i},{i + 1})" for i in range(5)], other=True)]
        asked = signed(rows="several", most_rows=3, mechanism=recipe, columns=columns)
        yield f"three of six rows, {recipe['name']}", {}, [Step(asked, values)]


def chances() -> Iterator[Case]:
    """Sampling, cover, strata, size classes, channels, and times of upload."""
    for i in range(6):
        yield f"sampled, stream {i}", {}, [Step(signed(sampling=0.5, id=f"taxi-{i}"))]
        yield (
            f"sampled with cover, stream {i}",
            {},
            [Step(signed(sampling=0.5, cover=True, id=f"cover-{i}"))],
        )
    strata = [Stratum("north", 0.25), Stratum("south", 0.999), Stratum("west")]
    for name in ("north", "south", "west"):
        for i in range(3):
            asked = signed(strata=strata, sampling=0.6, id=f"strata-{i}")
            yield f"stratum {name}, stream {i}", {"strata": ["east", name]}, [Step(asked)]
    for size_class in range(1, 7):
        yield f"size class {size_class}", {}, [Step(signed(size_class=size_class))]
    yield (
        "a channel of several queries",
        {},
        [Step(unowned(query(channel="all of the city"), CITY))],
    )
    for second in (0, 1, 540, 588, 591, 599):
        for within in (1, 60, 600):
            yield (
                f"second {second} of the epoch, uploads within {within} s",
                {"upload_within": within},
                [Step(signed(), now=at(7, second))],
            )


def several_ones() -> Iterator[Case]:
    """Answers in several buckets: overlapping columns, all rows together, more buckets than may be
    said, memo."""
    ages = [Column("a", ["[0,inf)", "[18,inf)", "[65,inf)", "[80,inf)"], overlapping=True)]
    for ones in (2, 3):
        for value in (-1, 5, 40, 70, 90):
            yield (
                f"{ones} ones, age {value}",
                {"epsilon_per_answer": "20"},
                [Step(signed(columns=ages, ones=ones), [[value]])],
            )
    usual = [Column("a", [f"[{i},{i + 1})" for i in range(11)], other=True)]
    rows: tuple[list[list[float]], ...] = (
        [],
        [[1.5]],
        [[1.5], [1.25]],
        [[1.5], [4.5], [99.0]],
        [[i + 0.5] for i in range(8)],
    )
    for found in rows:
        for recipe in (
            {"name": "TwoCoin", "p": 0.5, "q": 0.5},
            {"name": "OptimizedUnary", "epsilon": 1.0},
        ):
            asked = signed(columns=usual, ones=3, rows="all", mechanism=recipe)
            yield (
                f"three ones of {len(found)} rows, {recipe['name']}",
                {"epsilon_per_answer": "20"},
                [Step(asked, found)],
            )
    memoized = signed(
        columns=usual,
        ones=2,
        rows="all",
        memoize=True,
        distinct=2,
        mechanism={"name": "SymmetricUnary", "epsilon": 1.0},
    )
    yield (
        "memoized, two ones",
        {},
        [Step(memoized, found, at(i)) for i, found in enumerate([*rows, rows[1], rows[3]])],
    )


def versions() -> Iterator[Case]:
    """What a controller signs, inside the analyst's envelope and outside of it; inverted
    answers."""
    public = CONTROLLER.public.raw.hex()
    envelope = Envelope(
        public,
        sampling=(0.5, 1.0),
        p=(0.3, 0.6),
        q=(0.2, 0.8),
        epsilon_per_answer=2.5,
        inversion=True,
        until=at(50),
    )
    base = query(envelope=envelope, budget=Budget(epsilon=100.0))
    plain = sign(base, CITY)

    def version(
        serial: int,
        sampling: float = 0.9,
        key: AnalystKey = CONTROLLER,
        of: Query = base,
        **coins: Any,
    ) -> SignedQuery:
        return sign_version(sign(of, CITY), Version(of.digest.hex(), serial, sampling, coins), key)

    good = {
        "sampling": version(2, 0.75),
        "coins": version(2, p=0.4, q=0.6),
        "inverted": version(2, p=0.4, q=0.7, inverted=True),
        "the last serial": version(1001, p=0.3),
    }
    bad = {
        "too rarely sampled": version(2, 0.4),
        "too much truth": version(2, p=0.7),
        "a coin without a range": version(2, epsilon=1.0),
        "a serial too far": version(1002),
        "too costly together": version(2, p=0.6, q=0.2),
        "another key's": version(2, key=STRANGER),
    }
    for name, each in {**good, **bad}.items():
        yield f"a version: {name}", {}, [Step(each)]
    yield "a version after the controller's time", {}, [Step(version(2), now=at(60))]
    unwilling = query(id="unwilling")
    yield (
        "a version of a query without an envelope",
        {},
        [Step(_forced(sign(unwilling, CITY), unwilling))],
    )
    other = query(id="other", envelope=envelope, budget=Budget(epsilon=100.0))
    stolen = version(2).version_signature
    swapped = json.loads(sign(other, CITY).to_bytes()) | {
        "version": (version(2).version or b"").decode(),
        "version_signature": stolen.hex(),
    }
    yield "a version of another query", {}, [Step(json.dumps(swapped, ensure_ascii=False))]
    steps = [plain, version(2, p=0.4), plain, version(3, p=0.45), version(2, p=0.4)]
    yield "versions in a row", {}, [Step(each, now=at(i)) for i, each in enumerate(steps)]
    for inverted in (False, True):
        recipe = {"name": "TwoCoin", "p": 0.3, "q": 0.8, **({"inverted": True} if inverted else {})}
        yield f"inverted {inverted}", {}, [Step(signed(mechanism=recipe))]


def _forced(plain: SignedQuery, of: Query) -> SignedQuery:
    content = Version(of.digest.hex(), 2, 0.9).content
    return dataclasses.replace(
        plain, version=content, version_signature=CONTROLLER.sign(b"deniable version 1\0" + content)
    )


def memos() -> Iterator[Case]:
    """Permanent answers: kept, replayed, paid for in advance; slots of their own; the same choice
    of the same rows."""
    rappor = {"name": "BasicRappor", "f": 0.5, "p": 0.5, "q": 0.75}
    history = (3.5, 3.5, 4.5, 3.5, 99.0, 5.5, 4.5)
    columns = [Column("a", [f"[{i},{i + 1})" for i in range(11)], other=True)]
    for recipe in (
        rappor,
        {"name": "OptimizedUnary", "epsilon": 1.0},
        {"name": "DirectEncoding", "epsilon": 1.0},
    ):
        for distinct in (1, 2, 3):
            asked = signed(mechanism=recipe, memoize=True, distinct=distinct, columns=columns)
            steps = [Step(asked, [[value]], at(i)) for i, value in enumerate(history)]
            yield f"memoized {recipe['name']}, distinct {distinct}", {}, steps
    asked = signed(
        mechanism=rappor, memoize=True, distinct=2, rows="several", most_rows=2, columns=columns
    )
    several: tuple[list[list[float]], ...] = (
        [[1.5], [1.5]],
        [[1.5], [2.5], [3.5]],
        [[3.5], [1.5], [2.5]],
        [],
        [[4.5]],
    )
    yield "memoized rows", {}, [Step(asked, found, at(i)) for i, found in enumerate(several)]
    base = query(mechanism=rappor, memoize=True, columns=columns)
    versions = [base, base.revised(distinct=2), base.revised(distinct=2).revised(sampling=0.9)]
    yield (
        "memoized versions",
        {},
        [Step(sign(each, CITY), [[i + 0.5]], at(i)) for i, each in enumerate(versions)],
    )


def ledgers() -> Iterator[Case]:
    """Ceilings, limits for life, over a period, by analyst; the query's own budget; a queue that is
    full."""

    def limit(
        epsilon: str, period: int | None = None, analyst: str | None = None, each: bool = False
    ) -> dict[str, Any]:
        return {"epsilon": epsilon, "period": period, "analyst": analyst, "each_analyst": each}

    cost = 2.1972245773362196
    for ceiling in ("2.1972245773362195", "2.1972245773362196", "2.2"):
        yield f"a ceiling of {ceiling}", {"epsilon_per_answer": ceiling}, [Step(signed())]
    both = [(CITY, i) for i in range(3)] + [(ACME, i) for i in range(3)]
    for name, limits in {
        "for life": [limit("6")],
        "for life, exactly": [limit("4.3944491546724392")],
        "in an hour": [limit("3", 3600)],
        "in ten minutes": [limit("2.2", 600)],
        "for each analyst": [limit("5", None, None, True)],
        "for Acme": [limit("2.5", None, "Acme")],
        "together and each": [limit("9"), limit("5", 1800, None, True)],
    }.items():
        steps = [
            Step(signed(key), now=at(2 * i + (key is ACME)))
            for key, i in sorted(both, key=lambda each: each[1])
        ]
        steps += [Step(signed(), now=at(30)), Step(signed(ACME), now=at(31))]
        yield f"limits {name}", {"limits": limits}, steps
    own = signed(budget=Budget(epsilon=2.5 * cost))
    yield "a budget of its own", {}, [Step(own, now=at(i)) for i in range(4)]
    columns = [Column("a", [f"[{i},{i + 1})" for i in range(11)], other=True)]
    rappor = {"name": "BasicRappor", "f": 0.5, "p": 0.5, "q": 0.75}
    memoized = signed(mechanism=rappor, memoize=True, distinct=2, columns=columns)
    for epsilon in ("4.3", "4.4"):
        steps = [
            Step(memoized, now=at(0)),
            Step(memoized, now=at(5)),
            Step(signed(id="next"), now=at(5)),
        ]
        yield f"a reserve under a limit of {epsilon}", {"limits": [limit(epsilon, 1800)]}, steps
    yield (
        "a queue that is full",
        {"queue_messages": 2},
        [Step(signed(), now=at(i)) for i in range(4)],
    )
    yield (
        "a queue that was given up",
        {"queue_messages": 1, "queue_age": 600},
        [Step(signed(), now=at(i)) for i in range(4)],
    )


def refusals() -> Iterator[Case]:
    """Whatever must not be answered, and epochs that are decided."""
    good = signed()
    fields = json.loads(good.to_bytes())

    def forged(**changes: Any) -> str:
        return json.dumps({**fields, **changes}, ensure_ascii=False)

    def resigned(content: str, key: AnalystKey = CITY) -> str:
        return forged(
            query=content,
            key=key.public.id,
            signature=key.sign(b"deniable query 1\0" + content.encode()).hex(),
        )

    text = fields["query"]
    broken = {
        "no JSON": "{",
        "another format": forged(format="deniable signed query 2"),
        "a field too many": forged(more="x"),
        "a key id in capitals": forged(key=fields["key"].upper()),
        "no hexadecimal signature": forged(signature="xyz"),
        "a signature of zeros": forged(signature="00" * 64),
        "a changed query": forged(query=text.replace('"taxi"', '"taxj"')),
        "spaces in the bytes": resigned(text.replace(",", ", ")),
        "keys in another order": resigned(
            "{" + text[1:-1].split(",", 1)[1] + "," + text[1:-1].split(",", 1)[0] + "}"
        ),
        "a query of another format": resigned(text.replace("deniable query 1", "deniable query 2")),
        "a double as a decimal": resigned(text.replace('{"f64":"3ff0000000000000"}', "1.0")),
        "somebody else's name": resigned(text.replace('"analyst":"City"', '"analyst":"Acme"')),
    }
    for name, each in broken.items():
        yield name, {}, [Step(each)]
    for name, key in {"unknown": STRANGER, "retired": RETIRED, "revoked": STOLEN}.items():
        yield f"a key that is {name}", {}, [Step(signed(key))]
    yield (
        "a retired key while it was valid",
        {},
        [Step(signed(RETIRED, schedule=_early()), now=ORIGIN - 5 * EVERY)],
    )
    yield "an analyst who is not allowed", {"analysts": ["Acme"]}, [Step(good), Step(signed(ACME))]
    yield (
        "a proxy that is not allowed",
        {},
        [Step(signed(proxies=["https://one.example", "https://four.example"]))],
    )
    yield (
        "no stratum of one's own",
        {"strata": ["east"]},
        [Step(signed(strata=[Stratum("north"), Stratum("south")]))],
    )
    yield "before the first epoch", {}, [Step(good, now=ORIGIN - 1), Step(good, now=ORIGIN)]
    last = ORIGIN + 365 * DAY
    yield "the end of a query", {}, [Step(good, now=last - 1), Step(good, now=last)]
    ragged = signed(schedule=Schedule(ORIGIN, ORIGIN + 10 * EVERY + 300, EVERY, 6 * EVERY, EVERY))
    yield "a last epoch that is not whole", {}, [Step(ragged, now=at(10, 10))]
    yield (
        "an epoch twice, and the clock set back",
        {},
        [Step(good, now=now) for now in (at(5), at(5, 300), at(4), at(6))],
    )
    base = query()
    newer = base.revised(sampling=0.9)
    versions = [
        sign(newer, CITY),
        sign(base, CITY),
        sign(base.revised(sampling=0.8), CITY),
        sign(newer, CITY),
    ]
    yield "versions", {}, [Step(each, now=at(i)) for i, each in enumerate(versions)]


def channels() -> Iterator[Case]:
    """Channels that belong to a key: the analyst's own, an earlier key's, and another's by
    permission or without."""
    permission = permit(
        ACME, "all of the city", CITY.public, end=ORIGIN + 365 * DAY, messages=2, grace=DAY
    )
    on_channel = query(channel="all of the city")
    rotated = RETIRED.public.raw.hex()
    good = {
        "the analyst's own": signed(channel="all of the city"),
        "the analyst's earlier key's": signed(channel="all of the city", channel_owner=rotated),
        "another's, permitted": sign(on_channel, CITY, permission),
        "another's, with all that is permitted": sign(
            query(channel="all of the city", rows="several", most_rows=2, grace=DAY),
            CITY,
            permission,
        ),
    }

    def beyond(given: ChannelPermission, **changes: Any) -> SignedQuery:
        fields = {"channel": "all of the city", "channel_owner": given.owner, "permission": given}
        return unowned(query(**{**fields, **changes}), CITY)

    lapsed = permit(RETIRED, "all of the city", CITY.public, end=ORIGIN + 365 * DAY)
    stolen = permit(STOLEN, "all of the city", CITY.public, end=ORIGIN + 365 * DAY)
    bad = {
        "another's, not permitted": unowned(
            query(channel="all of the city", channel_owner=ACME.public.raw.hex()), CITY
        ),
        "an unknown key's, not permitted": unowned(
            query(channel="all of the city", channel_owner=STRANGER.public.raw.hex()), CITY
        ),
        "permitted under another name": beyond(permission, channel="another"),
        "permitted to another key": beyond(
            permit(ACME, "all of the city", STRANGER.public, end=ORIGIN + 365 * DAY)
        ),
        "permitted for fewer messages": beyond(permission, rows="several", most_rows=3),
        "permitted for a shorter grace": beyond(permission, grace=DAY + 1),
        "permitted until an earlier end": beyond(
            permit(ACME, "all of the city", CITY.public, end=ORIGIN + 365 * DAY - 1)
        ),
        "a permission that was changed": beyond(dataclasses.replace(permission, messages=3)),
        "a permission of a revoked key": beyond(stolen),
        "a permission of a key that is no longer valid": beyond(lapsed),
    }
    for name, each in {**good, **bad}.items():
        yield f"a channel: {name}", {}, [Step(each)]


def _early() -> Schedule:
    return Schedule(ORIGIN - 10 * EVERY, ORIGIN + 365 * DAY, EVERY, 6 * EVERY, EVERY)


def two_steps() -> Iterator[Case]:
    """Permanent bits that every report randomizes once more: over epochs, slots, several buckets
    and versions."""
    columns = [Column("a", [f"[{i},{i + 1})" for i in range(11)], other=True)]
    history = (3.5, 3.5, 4.5, 3.5, 99.0)
    weak, usual = {"p": 0.05, "q": 0.95}, {"p": 0.25, "q": 0.75}
    for recipe in (
        {"name": "TwoCoin", "p": 0.5, "q": 0.5},
        {"name": "OptimizedUnary", "epsilon": 1.0},
    ):
        for step in (weak, usual):
            asked = signed(
                mechanism=recipe, memoize=True, distinct=2, columns=columns, instantaneous=step
            )
            steps = [Step(asked, [[value]], at(i)) for i, value in enumerate(history)]
            yield f"two steps of {recipe['name']}, q = {step['q']}", {}, steps
    outside = signed(memoize=True, instantaneous=usual)
    yield (
        "two steps without a bucket for the rest",
        {},
        [Step(outside, [[value]], at(i)) for i, value in enumerate((3.5, -1.0))],
    )
    both: dict[str, Any] = {"memoize": True, "columns": columns, "instantaneous": usual}
    asked = signed(**both, distinct=2, rows="several", most_rows=2)
    several: tuple[list[list[float]], ...] = ([[1.5], [1.5]], [[1.5], [2.5]], [])
    yield (
        "two steps of several rows",
        {},
        [Step(asked, found, at(i)) for i, found in enumerate(several)],
    )
    asked = signed(**both, ones=2, rows="all")
    yield (
        "two steps of several buckets",
        {},
        [Step(asked, found, at(i)) for i, found in enumerate(several)],
    )
    replayed = query(memoize=True, columns=columns)
    asked_anew = replayed.revised(instantaneous=usual)
    yield (
        "a second step added to permanent answers",
        {},
        [
            Step(sign(each, CITY), [[3.5]], at(i))
            for i, each in enumerate((replayed, asked_anew, asked_anew))
        ],
    )


GROUPS = (
    mechanisms,
    buckets,
    several_rows,
    several_ones,
    chances,
    versions,
    memos,
    ledgers,
    refusals,
    two_steps,
    channels,
)


# --- what the library makes of them


def random_bytes(case: str, step: int) -> bytes:
    return hashlib.shake_256(f"{case}, step {step}".encode()).digest(1 << 14)


def policy_of(settings: dict[str, Any]) -> Policy:
    """The library's policy of a vector's settings."""
    given = {
        **settings,
        "limits": tuple(Limit(**limit) for limit in settings["limits"]),
        "strata": tuple(settings["strata"]),
    }
    return Policy(ring=RING, proxies=dict.fromkeys(PROXIES, "token"), **given)


class Rows:
    """A vault whose rows are given anew for each step."""

    def __init__(self, folder: Path) -> None:
        self.vault = Vault.create(folder / "vault.db")
        self._db = sqlite3.connect(self.vault.path, isolation_level=None)
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE t (a, b)")  # without types, so that SQLite converts nothing
        self.vault.grant("t", ["a", "b"])

    def show(self, rows: Sequence[Sequence[Any]], sql: str) -> list[list[Any]]:
        """Put these rows in the vault; gives what the SQL finds, in the sandbox's order."""
        self._db.execute("DELETE FROM t")
        self._db.executemany(
            "INSERT INTO t (a, b) VALUES (?, ?)", [[*row, None][:2] for row in rows]
        )
        return [list(row) for row in sandbox.run(self.vault, sql, isolated=False)]

    def close(self) -> None:
        self._db.close()


class LibraryDevice:
    """The library's device, with the vectors' secret."""

    def __init__(self, rows: Rows, store: Path, settings: dict[str, Any]) -> None:
        self._rows = rows
        self._store = Store(store, durable=False)
        with self._store.transaction() as transaction:
            transaction._db.execute("UPDATE secret SET key = ?", (SECRET,))
        self._device = Device(rows.vault, policy_of(settings), self._store, isolated=False)

    def answer(self, signed_query: bytes, now: int, script: bytes) -> dict[str, Any]:
        """What the device makes of a signed query, as a vector states it."""
        source = PortableSource(script)
        self._device.source = source
        with self._store.transaction() as transaction:
            transaction.outbox.drop_expired(now)
            before = _queued(transaction._db)
        receipt = self._device.answer(signed_query, now)
        out: dict[str, Any] = {"outcome": receipt.outcome, "used": len(script) - source.remaining}
        if receipt.outcome != "answered":
            out["reason"] = receipt.reason
        if receipt.epoch is not None:
            out["epoch"] = receipt.epoch
        with self._store.transaction() as transaction:
            fresh = [
                each for place, each in _queued(transaction._db).items() if place not in before
            ]
        if receipt.outcome == "answered":
            out["cost"] = str(receipt.epsilon)
        if fresh:
            out["due"] = fresh[0][1]
            out["shares"] = {}
            for proxy, _, record in fresh:
                out["shares"].setdefault(proxy, []).append(record.hex())
            pieces = [
                [Share.from_bytes(bytes.fromhex(one)) for one in each]
                for each in zip(*out["shares"].values(), strict=True)
            ]
            out["messages"] = [_xor([share.payload for share in each]).hex() for each in pieces]
            if receipt.outcome == "answered":
                length = SignedQuery.from_bytes(signed_query).unverified().report_bytes
                out["reports"] = [join(each).report[:length].hex() for each in pieces]
        return out


def _queued(db: sqlite3.Connection) -> dict[int, tuple[str, int, bytes]]:
    return {
        place: (proxy, due, record)
        for place, proxy, due, record in db.execute("SELECT place, proxy, due, record FROM queue")
    }


def _xor(parts: Sequence[bytes]) -> bytes:
    total = 0
    for part in parts:
        total ^= int.from_bytes(part, "little")
    return total.to_bytes(len(parts[0]), "little")


def make() -> dict[str, Any]:
    """All vectors."""
    queries: dict[str, str] = {}
    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, closing(Rows(Path(folder))) as rows:
        for group in GROUPS:
            for name, changes, steps in group():
                settings = {**_POLICY, **changes}
                device = LibraryDevice(rows, Path(folder, f"{len(cases)}.store"), settings)
                made = [_made(rows, device, name, i, step, queries) for i, step in enumerate(steps)]
                slot = policy_of(settings).slot
                cases.append(
                    {
                        "group": group.__name__,
                        "name": name,
                        "policy": {**settings, "slot": slot},
                        "steps": made,
                    }
                )
    ring = [
        {
            "owner": each.key.owner,
            "public": each.key.raw.hex(),
            "valid_from": each.valid_from,
            "valid_until": each.valid_until,
            "revoked": each.revoked,
        }
        for each in RING
    ]
    names = {text: name for name, text in queries.items()}
    head = {"client_version": 1, "proxies": list(PROXIES), "secret": SECRET.hex(), "ring": ring}
    return {
        **head,
        "queries": {name: text for text, name in sorted(names.items(), key=lambda each: each[1])},
        "cases": cases,
    }


def _made(
    rows: Rows, device: LibraryDevice, name: str, i: int, step: Step, queries: dict[str, str]
) -> dict[str, Any]:
    text = step.signed if isinstance(step.signed, str) else step.signed.to_bytes().decode()
    key = next((known for known, each in queries.items() if each == text), f"q{len(queries):03}")
    queries[key] = text
    sql = (
        "SELECT a FROM t"
        if isinstance(step.signed, str)
        else step.signed.without_version().unverified().sql
    )
    found = rows.show(step.rows, sql)
    script = random_bytes(name, i)
    expect = device.answer(text.encode(), step.now, script)
    return {
        "query": key,
        "now": step.now,
        "rows": found,
        "random": script[: expect.pop("used")].hex(),
        "expect": expect,
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n")
