"""Makes tests/vectors/client-ports-v1.json: cases in which a port that is almost right differs from
one that is right.

Each is aimed at a mistake that a port was found to make without any other vector noticing: words of
randomness exactly at a threshold, integers that no double holds, the widths of numbers, a key
twice, and so on. `python -m toolkit.references.port_vectors` (from tests/) writes the file, with
the library; `reference_client.py` has to agree with every byte of it.
"""

from __future__ import annotations

import dataclasses
import json
import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.mechanisms import exact
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed import canonical
from deniable.queries.signed.envelope import Envelope, Version
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign, sign_version
from deniable.queries.strata import Stratum
from toolkit.references import client_vectors
from toolkit.references.client_vectors import (
    _POLICY,
    CITY,
    CONTROLLER,
    DAY,
    EVERY,
    ORIGIN,
    PROXIES,
    SECRET,
    LibraryDevice,
    Rows,
    at,
    query,
    random_bytes,
    signed,
    unowned,
)

VECTORS = client_vectors.VECTORS.with_name("client-ports-v1.json")
ONE = 1 << 64
UPLOAD = 1 << 40
"""A word that `below` takes at once, for the time of the upload: it draws again for 0."""
TIMED = AnalystKey("City", bytes(range(5, 37)))
BANNED_CONTROLLER = AnalystKey("controller", bytes(range(6, 38)))
RING = KeyRing(
    [
        *client_vectors.RING,
        TrustedKey(TIMED.public, at(3), at(5)),
        TrustedKey(BANNED_CONTROLLER.public, revoked=True),
    ]
)


@dataclass(frozen=True)
class Step:
    """A step of a case; `words` come first of its random bytes."""

    signed: SignedQuery | str
    rows: Sequence[Sequence[Any]] = ((3.5,),)
    now: int = at(7)
    words: tuple[int, ...] = ()


Case = tuple[str, dict[str, Any], list[Step]]
OTHERS = [Column("a", [f"[{i},{i + 1})" for i in range(5)], other=True)]
TWO = [Column("a", [0.0], other=True)]


def telling(k: int) -> tuple[int, ...]:
    """Words with which a unary report is the truth: sampled, no other bit, and the true one."""
    return (UPLOAD, 0, *[ONE - 1] * k, 0)


def numbers(k: int) -> list[Column]:
    """Buckets that combine to k, in a short query."""
    if k <= 600:
        return [Column("a", [float(i) for i in range(k - 1)], other=True)]
    side = 256
    return [
        Column(name, [float(i) for i in range(n - 1)], other=True)
        for name, n in (("a", side), ("b", k // side))
    ]


def boundaries() -> Iterator[Case]:
    """Words exactly at, just below and just above a coin's threshold, and where `below` draws
    again."""
    first = (UPLOAD,)  # the time of the upload
    half = ONE // 2
    for sampling in (0.5, 0.3, 0.9999999999999999):
        t = int(Fraction(sampling) * ONE)
        for word in (t - 1, t):
            yield (
                f"sampling {sampling}, word {word - t:+}",
                {},
                [Step(signed(sampling=sampling), words=(*first, word))],
            )
    yield "sampling 1, the largest word", {}, [Step(signed(), words=(*first, ONE - 1))]
    coins = signed(mechanism={"name": "UnaryEncoding", "a": 0.75, "b": 0.25}, columns=numbers(3))
    quarter, three = ONE // 4, 3 * (ONE // 4)
    for offset in (-1, 0):
        drawn = (quarter + offset, quarter - 1 - offset, quarter + offset, three + offset)
        yield (
            f"bits at their thresholds {offset:+}",
            {},
            [Step(coins, [[1]], words=(*first, 0, *drawn))],
        )
    low = signed(
        mechanism={"name": "UnaryEncoding", "a": 0.75, "b": 0.25 + 2**-34}, columns=numbers(3)
    )
    mixed = (quarter + (1 << 30) - 1, quarter + (1 << 30), (1 << 62) | 0xFFFFFFFF)
    yield (
        "thresholds whose lower half decides",
        {},
        [Step(low, [[1]], words=(*first, 0, *mixed, three - 1))],
    )
    for within in (3, 6, 7, 600):
        least = ONE % within  # products modulo 2^64 below this are drawn again
        inverse = pow(within, -1, ONE) if within % 2 else None
        if inverse is None:
            continue
        again, kept = (least - 1) * inverse % ONE, least * inverse % ONE
        for name, word in (("again", again), ("kept", kept)):
            yield (
                f"below({within}), {name}",
                {"upload_within": within},
                [Step(signed(), words=(word, half, 0))],
            )
    for name, recipe in {
        "direct": {"name": "DirectEncoding", "epsilon": 1.0},
        "hashing": {"name": "LocalHashing", "epsilon": 1.0, "g": 4},
        "hadamard": {"name": "HadamardResponse", "epsilon": 1.0},
    }.items():
        k = {"direct": 4, "hashing": 4, "hadamard": 2}[name]
        growth = exact.exp(1.0)
        t = exact.down(growth / (growth + k - 1))
        asked = signed(mechanism=recipe, columns=numbers(4))
        for offset in (-1, 0):
            before = (
                (5 << 61,)
                if name == "hadamard"
                else (0x1234_5678_9ABC_DEF0,)
                if name == "hashing"
                else ()
            )
            drawn = (*first, 0, *before, t + offset)
            yield (
                f"{name}, truthful {offset:+}",
                {},
                [Step(asked, [[v]], words=drawn) for v in (2,)],
            )
    matrix = [[0.5, 0.25], [0.5, 0.75]]
    asked = signed(columns=TWO, mechanism={"name": "DesignMatrix", "P": matrix})
    for value, edge in ((0, half), (1, quarter)):
        for offset in (-1, 0):
            yield (
                f"matrix, answer {value}, word {offset:+}",
                {},
                [Step(asked, [[value]], words=(*first, 0, edge + offset))],
            )
    others = {"name": "DirectEncoding", "epsilon": 1.0}
    for v in range(4):
        for o in range(3):
            drawn = (*first, 0, ONE - 1, (o * ONE) // 3 + 1)
            yield (
                f"direct, answer {v}, other {o}",
                {},
                [Step(signed(mechanism=others, columns=numbers(4)), [[v]], words=drawn)],
            )


def roundings() -> Iterator[Case]:
    """Probabilities half-way between two integers, products that doubles round, and losses rounded
    up."""
    for n in (1, 3, 5, 7):
        recipe = {"name": "UnaryEncoding", "a": 0.5, "b": n * 2.0**-65}
        asked = signed(mechanism=recipe, columns=numbers(5))
        words = (UPLOAD, 0, *range(5), 1 << 63)
        yield (
            f"{n}/2 over 2^64, to the even one",
            {"epsilon_per_answer": "100"},
            [Step(asked, [[2]], words=words)],
        )
    for p, q in ((0.1, 0.7), (0.3, 0.1), (2.0**-40, 1 / 3), (0.7, 0.99999999)):
        for inverted in (False, True):
            recipe = {"name": "TwoCoin", "p": p, "q": q, **({"inverted": True} if inverted else {})}
            yield (
                f"p = {p}, q = {q}, inverted {inverted}",
                {"epsilon_per_answer": "100"},
                [Step(signed(mechanism=recipe))],
            )
    for epsilon in (1e-9, 0.1, 0.7, 7.25, 40.0):
        for name in (
            "SymmetricUnary",
            "OptimizedUnary",
            "DirectEncoding",
            "SubsetSelection",
            "LocalHashing",
            "HadamardResponse",
        ):
            asked = signed(mechanism={"name": name, "epsilon": epsilon}, columns=numbers(9))
            yield f"{name}, epsilon {epsilon}", {"epsilon_per_answer": "100"}, [Step(asked, [[4]])]
    uneven = [[0.1, 0.3, 0.3], [0.2, 0.3, 0.3000000001], [0.7, 0.4, 0.4 - 0.0000000001]]
    asked = signed(columns=numbers(3), mechanism={"name": "DesignMatrix", "P": uneven})
    for value in range(3):
        yield f"an uneven matrix, answer {value}", {}, [Step(asked, [[value]])]
    for value in range(3):
        [weights] = exact.integer_columns([[Fraction(row[value]) for row in uneven]])
        edges = [weights[0], weights[0] + weights[1]]
        for edge in edges:
            for offset in (-1, 0):
                words = (UPLOAD, 0, edge + offset)
                yield (
                    f"an uneven matrix, answer {value}, at {edge:x}{offset:+}",
                    {},
                    [Step(asked, [[value]], words=words)],
                )
    for f in (0.1, 0.5, 0.875):
        for memoize in (False, True):
            recipe = {"name": "BasicRappor", "f": f, "p": 0.4, "q": 0.6}
            asked = signed(mechanism=recipe, columns=numbers(9), memoize=memoize)
            yield f"RAPPOR, f = {f}, memoize {memoize}", {}, [Step(asked, [[4]])]


def widths() -> Iterator[Case]:
    """Numbers of one, two and four bytes, at their limits; hashes of many buckets; subsets."""
    for name in ("DirectEncoding", "HadamardResponse", "LocalHashing"):
        for k in (2, 127, 128, 255, 256, 257, 65_536):
            asked = signed(
                mechanism={"name": name, "epsilon": 1.0}, columns=numbers(k), sql=sql_of(k)
            )
            for value in (0, k - 1):
                yield f"{name}, answer {value} of {k}", {}, [Step(asked, [row_of(k, value)])]
    for g in (2, 255, 256, 257, 65_536):
        asked = signed(
            mechanism={"name": "LocalHashing", "epsilon": 1.0, "g": g},
            columns=numbers(65_536),
            sql=sql_of(65_536),
        )
        for value in (1, 40_000, 65_535):
            yield f"hashing to {g}, answer {value}", {}, [Step(asked, [row_of(65_536, value)])]
    for k in (2, 3, 64, 65):
        for epsilon in (0.5, 3.0):
            asked = signed(
                mechanism={"name": "SubsetSelection", "epsilon": epsilon}, columns=numbers(k)
            )
            for value in (0, k - 1):
                yield f"subset of {k} at {epsilon}, answer {value}", {}, [Step(asked, [[value]])]


def spaces() -> Iterator[Case]:
    """Points of spaces of every shape, close to a value's hyperplane and away from it; trees whose
    levels are numbers and sets, with nodes that have fewer children than others."""
    for q, k in ((2, 2), (2, 3), (2, 4), (2, 300), (3, 5), (5, 6), (5, 7), (7, 65_536), (2999, 9)):
        recipe = {"name": "ProjectiveResponse", "epsilon": 2.0, "q": q}
        asked = signed(mechanism=recipe, columns=numbers(k), sql=sql_of(k))
        for value in sorted({0, 1, q, k // 2, k - 1} & set(range(k))):
            for near in (0, ONE - 1):
                yield (
                    f"{k} values in a space over {q}, answer {value}, coin {int(not near)}",
                    {},
                    [Step(asked, [row_of(k, value)], words=(UPLOAD, 0, near))],
                )
    trees: tuple[tuple[int, tuple[int, ...], float], ...] = (
        (100, (7, 5, 3), 1.0),
        (9, (2, 2, 2, 2), 2.0),
        (300, (2, 150), 7.5),
        (257, (257,), 2.0),
        (64, (2,) * 6, 0.5),
        (2, (2,), 1.0),
    )
    for k, fan_outs, epsilon in trees:
        recipe = {"name": "HierarchicalRanges", "epsilon": epsilon, "fan_outs": list(fan_outs)}
        asked = signed(mechanism=recipe, columns=numbers(k), sql=sql_of(k))
        levels = len(fan_outs)
        for level in range(levels):
            for value in (0, k // 2, k - 1):
                word = -(-level * ONE // levels)
                yield (
                    f"level {level} of a tree {fan_outs}, answer {value}",
                    {},
                    [Step(asked, [row_of(k, value)], words=(UPLOAD, 0, word))],
                )


def sql_of(k: int) -> str:
    return "SELECT a FROM t" if k <= 600 else "SELECT a, b FROM t"


def row_of(k: int, value: int) -> list[int]:
    return [value] if k <= 600 else [value // (k // 256), value % (k // 256)]


def values() -> Iterator[Case]:
    """Integers that no double holds, characters outside the basic plane, newlines and classes of
    characters."""
    edge = 2.0**53
    ranges = [
        Column(
            "a",
            [
                f"(-inf,{-edge!r})",
                f"[{-edge!r},{edge!r})",
                f"[{edge!r},{edge + 2!r})",
                f"({edge + 2!r},inf)",
            ],
        )
    ]
    for value in (
        -(2**53) - 1,
        -(2**53),
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**53 + 2,
        2**53 + 3,
        2**62 + 1,
        -(2**63),
        2**63 - 1,
    ):
        yield (
            f"large integers, {value}",
            {},
            [Step(signed(columns=ranges), [[value]], words=telling(4))],
        )
    above = [Column("a", ["(-inf,0)", f"[{edge + 4!r},inf)"])]
    for value in (2**53 + 3, 2**53 + 4):
        yield (
            f"a large integer beside one bound, {value}",
            {},
            [Step(signed(columns=above), [[value]], words=telling(2))],
        )
    digits = [Column("a", ["7", {"glob": "1?"}], kind="text")]
    for cell in (7, "7", 12, "12"):
        yield (
            f"numbers are not texts, {cell!r}",
            {},
            [Step(signed(columns=digits), [[cell]], words=telling(2))],
        )
    sevens = [Column("a", [7.0, "[8,9)"])]
    for text_or_number in (7, "7", "8.5", "", None):
        yield (
            f"texts are not numbers, {text_or_number!r}",
            {},
            [Step(signed(columns=sevens), [[text_or_number]], words=telling(2))],
        )
    far = [Column("a", ["[1e-07,2.5e-05)", "[0.0001,0.00011)", "[0.5,1e+16)", "[1e+22,1.5e+300]"])]
    for number in (1e-07, 2.5e-05, 0.0001, 0.00011, 1e16, 10**16 - 1, 1e22, 1.5e300):
        yield (
            f"bounds with exponents, {number!r}",
            {},
            [Step(signed(columns=far), [[number]], words=telling(4))],
        )
    patterns: dict[str, tuple[Any, tuple[str, ...]]] = {
        "one character": (
            {"glob": "a?c"},
            ("abc", "a\U0001f600c", "a\nc", "ac", "a\U0001f600\U0001f600c"),
        ),
        "two characters": ({"glob": "??"}, ("\U0001f600", "\U0001f600\U0001f601", "ab")),
        "any characters": ({"glob": "*x"}, ("x", "\n\nx", "\U0001f600x", "xy")),
        "a class of characters": ({"glob": "[!a-c]"}, ("d", "b", "\U0001f600", "\n", "-")),
        "a class of far characters": (
            {"regex": "[\U0001f600-\U0001f64f]+"},
            ("\U0001f600\U0001f64f", "\U0001f650", "a"),
        ),
        "a dot": ({"regex": "a.c"}, ("abc", "a\nc", "a\rc", "a\u2028c", "a\U0001f600c")),
        "not a digit": ({"regex": r"\D"}, ("a", "1", "\n", "\u0661")),
        "digits": ({"regex": r"\d+"}, ("12", "\u0661", "\uff11", "1a")),
        "words": ({"regex": r"\w+"}, ("a_Z9", "\u00e9", "a b")),
        "not a word": ({"regex": r"\W"}, ("\u00e9", "a", "-")),
        "spaces": ({"regex": r"\s"}, (" ", "\t", "\n", "\v", "\x1c", "\u00a0", "\u2003")),
        "not a space": ({"regex": r"\S"}, ("\u00a0", "\x1c", " ", "x")),
        "escapes": ({"regex": r"\n|\t|\.|\\|\]"}, ("\n", "\t", ".", "\\", "]", "n", "t")),
        "counts": (
            {"regex": "(ab?){2,3}c{2}d{0,}"},
            ("aabcc", "acc", "aaaacc", "abababccdd", "aacc", "aaccc", "aac"),
        ),
        "alternatives": ({"regex": "(?:a|bc|)(x|y)*"}, ("", "a", "bc", "axyx", "bcx", "ab")),
        "a class with a dash": ({"regex": "[a-c-]+"}, ("a-c", "d", "--")),
        "a bracket in a class": ({"glob": "[]a]"}, ("]", "a", "[")),
        "a backslash in a glob": ({"glob": "[\\d]"}, ("\\", "d", "1")),
    }
    for name, (pattern, texts) in patterns.items():
        asked = signed(columns=[Column("a", ["exactly this", pattern], kind="text")])
        for text in texts:
            yield f"{name}, {text!r}", {}, [Step(asked, [[text]], words=telling(2))]
    long = signed(
        columns=[
            Column(
                "a",
                [
                    {"glob": "*"},
                ],
                kind="text",
                other=True,
            )
        ]
    )
    for n in (4096, 4097):
        yield f"a text of {n} characters", {}, [Step(long, [["\U0001f600" * n]], words=telling(2))]
    pair = [
        Column("a", ["x", {"glob": "y*"}], kind="text", other=True),
        Column("b", ["[0,1)", "[1,2)", 5.0], other=True),
    ]
    for row in (("x", 1.5), ("yes", 5), ("z", 0), (None, None), ("y", 4.999999999999999), (7, "7")):
        yield (
            f"columns of two kinds, {row!r}",
            {},
            [Step(signed(columns=pair, sql="SELECT a, b FROM t"), [row], words=telling(12))],
        )


def forms() -> Iterator[Case]:
    """Signed texts that are almost queries: a key twice, unknown fields, fields that must be left
    out, other spellings."""
    text = signed().content.decode()

    def resigned(content: str) -> str:
        raw = content.encode()
        return (
            SignedQuery(raw, CITY.public.id, CITY.sign(b"deniable query 1\0" + raw))
            .to_bytes()
            .decode()
        )

    def changed(**fields: Any) -> str:
        tree = canonical.decode(text.encode())
        for name, value in fields.items():
            if value is ...:
                del tree[name]
            else:
                tree[name] = value
        return resigned(canonical.encode(tree).decode())

    tree = canonical.decode(text.encode())
    column, schedule = tree["columns"][0], tree["schedule"]
    wrong_spaces: dict[str, tuple[dict[str, Any], ...]] = {
        "ProjectiveResponse": ({}, {"q": None}, {"q": 1}, {"q": 4}, {"q": 9}, {"q": 5801}),
        "HierarchicalRanges": (
            {},
            {"fan_outs": None},
            {"fan_outs": []},
            {"fan_outs": [11]},
            {"fan_outs": [12, 1]},
            {"fan_outs": [7, 2]},
            {"fan_outs": [6, 2, 2]},
            {"fan_outs": [2] * 20},
        ),
    }
    bad: dict[str, str] = {
        "a key twice": resigned(text.replace('"cover":false,', '"cover":true,"cover":false,')),
        "a key twice, the same": resigned(
            text.replace('"cover":false,', '"cover":false,"cover":false,')
        ),
        "a capital digit in a double": resigned(
            text.replace("3fe0000000000000", "3FE0000000000000")
        ),
        "a negative zero": resigned(text.replace('"serial":1', '"serial":-0')),
        "a leading zero": resigned(text.replace('"serial":1', '"serial":01')),
        "a serial with a fraction": resigned(text.replace('"serial":1', '"serial":1.0')),
        "a fraction as a bare number": resigned(text.replace('"serial":1', '"serial":1.5')),
        "an escaped letter": resigned(text.replace('"taxi"', '"t\\u0061xi"')),
        "an escaped slash": resigned(text.replace("https://one", "https:\\/\\/one")),
        "a long escape": resigned(text.replace('"question":""', '"question":"two\\u000alines"')),
        "text after the end": resigned(text + " "),
        "a double that is not finite": resigned(
            text.replace("3ff0000000000000", "7ff0000000000000")
        ),
        "a list in place of a query": resigned("[" + text + "]"),
        "an unknown field": changed(colour="blue"),
        "an unknown field that every object has": changed(constructor=1),
        "a field left out": changed(cover=...),
        "a field that must be left out": changed(grace=None),
        "ones of one": changed(ones=1),
        "distinct of one": changed(distinct=1),
        "an unknown field of a column": changed(columns=[{**column, "colour": 1}]),
        "a column that does not overlap": changed(columns=[{**column, "overlapping": False}]),
        "a range with spaces": changed(columns=[{**column, "buckets": ["[0, 1)", "[1,2)"]}]),
        "a range with a long bound": changed(columns=[{**column, "buckets": ["[0,1.0)", "[1,2)"]}]),
        "a range without a number": changed(columns=[{**column, "buckets": ["(0,0)", "[1,2)"]}]),
        "a range that runs backwards": changed(columns=[{**column, "buckets": ["[2,1)", "[3,4)"]}]),
        "a range of one number": changed(columns=[{**column, "buckets": ["[0,0]", "[1,2)"]}]),
        "a number as an integer": changed(columns=[{**column, "buckets": [0, "[1,2)"]}]),
        "ranges that touch": changed(columns=[{**column, "buckets": ["[0,1]", "[1,2)"]}]),
        "ranges that descend": changed(columns=[{**column, "buckets": ["[1,2)", "[0,1)"]}]),
        "a range closed at infinity": changed(
            columns=[{**column, "buckets": ["[0,1)", "[1,inf]"]}]
        ),
        "one bucket": changed(columns=[{**column, "buckets": ["[0,1)"]}]),
        "patterns that overlap": changed(
            columns=[{**column, "kind": "text", "buckets": [{"glob": "a*"}, {"glob": "*b"}]}]
        ),
        "a text that a pattern matches": changed(
            columns=[{**column, "kind": "text", "buckets": ["ab", {"glob": "a*"}]}]
        ),
        "a text twice": changed(columns=[{**column, "kind": "text", "buckets": ["ab", "ab"]}]),
        "a bucket that is called other": changed(
            columns=[{**column, "kind": "text", "buckets": ["x", "other"], "other": True}]
        ),
        "a pattern with an anchor": changed(
            columns=[{**column, "kind": "text", "buckets": ["x", {"regex": "^a"}]}]
        ),
        "a pattern that looks back": changed(
            columns=[{**column, "kind": "text", "buckets": ["x", {"regex": r"(a)\1"}]}]
        ),
        "a pattern of 401 characters": changed(
            columns=[{**column, "kind": "text", "buckets": ["x", {"regex": "a{401}"}]}]
        ),
        "a repetition of a repetition": changed(
            columns=[{**column, "kind": "text", "buckets": ["x", {"regex": "a+?"}]}]
        ),
        "a window of half an epoch": changed(schedule={**schedule, "window": 900}),
        "a slide longer than its window": changed(schedule={**schedule, "slide": 7200}),
        "an epoch of no time": changed(schedule={**schedule, "every": 0}),
        "one proxy": changed(proxies=[PROXIES[0]]),
        "a proxy twice": changed(proxies=[PROXIES[0], PROXIES[0]]),
        "sampling of 0": changed(sampling=0.0),
        "sampling above 1": changed(sampling=1.0000000000000002),
        "sampling as an integer": changed(sampling=1),
        "several rows of one": changed(rows="several"),
        "more rows than a random one": changed(most_rows=2),
        "a size class of 7": changed(size_class=7),
        "a class too small for the report": changed(
            columns=[{**column, "buckets": [f"[{i},{i + 1})" for i in range(65)]}]
        ),
        "a name with a capital": changed(id="Taxi"),
        "an analyst with a control character": changed(analyst="City\x7f"),
        "a mechanism without a name": changed(mechanism={"p": 0.5, "q": 0.5}),
        "a coin of 1": changed(mechanism={"name": "TwoCoin", "p": 1.0, "q": 0.5}),
        "coins whose sum a double rounds to 1": changed(
            mechanism={"name": "TwoCoin", "p": 0.7, "q": 0.9999999999999999}
        ),
        "a coin too many": changed(mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5, "r": 0.5}),
        "inverted that is false": changed(
            mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5, "inverted": False}
        ),
        "a below b": changed(mechanism={"name": "UnaryEncoding", "a": 0.2, "b": 0.3}),
        "an epsilon of 41": changed(mechanism={"name": "SymmetricUnary", "epsilon": 41.0}),
        **{
            f"{name} {fields}": changed(
                columns=[{**column, "other": True}],
                mechanism={"name": name, "epsilon": 1.0, **fields},
            )
            for name, wrong in wrong_spaces.items()
            for fields in wrong
        },
        "ranges without other": changed(
            mechanism={"name": "HierarchicalRanges", "epsilon": 1.0, "fan_outs": [11]}
        ),
        "direct encoding without other": changed(
            mechanism={"name": "DirectEncoding", "epsilon": 1.0}
        ),
        "a budget below one answer": changed(budget={"epsilon": 2.0, "error": None}),
        "a second step without memoize": changed(instantaneous={"p": 0.25, "q": 0.75}),
        "distinct without memoize": changed(distinct=2),
        "a second step of 1": changed(memoize=True, instantaneous={"p": 0.25, "q": 1.0}),
        "an error of 1": changed(budget={"epsilon": None, "error": 1.0}),
    }
    for name, each in bad.items():
        yield name, {}, [Step(each)]
    wide = [Column("\U0001f600" * 200, ["[0,1)", "[1,2)"])]
    yield "a name of 200 characters, each of two units", {}, [Step(signed(columns=wide))]
    outer = json.loads(signed().to_bytes())
    for name, fields in {
        "a version without its signature": {**outer, "version": "{}"},
        "a signature that is too short": {**outer, "signature": outer["signature"][:-2]},
        "a signature in capitals": {**outer, "signature": outer["signature"].upper()},
        "a key that is a number": {**outer, "key": 1},
        "half a surrogate pair": {**outer, "query": outer["query"] + "\ud800"},
    }.items():
        yield name, {}, [Step(json.dumps(fields))]


def trust() -> Iterator[Case]:
    """Keys at the ends of their time, revoked controllers, strata, serials and inversion in
    versions."""
    for now in (at(3) - 1, at(3), at(5) - 1, at(5)):
        yield f"a key from {at(3)} to {at(5)}, at {now}", {}, [Step(signed(TIMED), now=now)]

    def envelope(controller: AnalystKey = CONTROLLER, **changes: Any) -> Envelope:
        given: dict[str, Any] = {
            "sampling": (0.5, 1.0),
            "p": (0.3, 0.6),
            "q": (0.2, 0.8),
            "epsilon_per_answer": 2.5,
            "versions": 3,
        }
        return Envelope(controller.public.raw.hex(), **{**given, **changes})

    def version(
        of: Query,
        serial: int,
        key: AnalystKey = CONTROLLER,
        strata: Any = None,
        sampling: float = 0.9,
        **coins: Any,
    ) -> SignedQuery:
        return sign_version(
            sign(of, CITY), Version(of.digest.hex(), serial, sampling, coins, strata), key
        )

    plain = query(envelope=envelope(until=at(9)), budget=Budget(epsilon=100.0), serial=5)
    for serial in (4, 5, 6, 8, 9):
        yield f"version {serial} of query 5, which allows 3", {}, [Step(version(plain, serial))]
    for now in (at(9) - 1, at(9)):
        yield f"a controller until {at(9)}, at {now}", {}, [Step(version(plain, 6), now=now)]
    for coins in (
        {"p": 0.3},
        {"p": 0.2999999999999999},
        {"p": 0.6, "q": 0.8},
        {"q": 0.8000000000000002},
        {"inverted": True},
    ):
        yield f"coins {coins}", {}, [Step(version(plain, 6, **coins))]
    for sampling in (0.5, 0.4999999999999999, 1.0):
        yield f"a version that samples {sampling}", {}, [Step(version(plain, 6, sampling=sampling))]
    over = query(envelope=envelope(), budget=Budget(epsilon=100.0))
    for serial in (2, 9):  # what is wrong with a version comes before the end of its query
        late = Step(version(over, serial), now=over.schedule.expires)
        yield f"version {serial} of a query that has expired", {}, [late]
    banned = query(envelope=envelope(BANNED_CONTROLLER), budget=Budget(epsilon=100.0))
    yield (
        "a revoked controller",
        {},
        [Step(version(banned, 2, BANNED_CONTROLLER)), Step(sign(banned, CITY))],
    )
    willing = query(
        envelope=envelope(inversion=True),
        budget=Budget(epsilon=100.0),
        mechanism={"name": "TwoCoin", "p": 0.4, "q": 0.7, "inverted": True},
    )
    for inverted in (True, False):
        yield (
            f"an inverted query, versions that say {inverted}",
            {},
            [Step(version(willing, 2, inverted=inverted))],
        )
    yield "an inverted query, a version that does not say", {}, [Step(version(willing, 2, p=0.45))]
    strata = [Stratum("north", 0.6), Stratum("south")]
    parts = query(envelope=envelope(), budget=Budget(epsilon=100.0), strata=strata)
    for samplings in ([0.55, 0.95], [0.95, 0.55], [0.4, 0.9], [0.9, 0.4], [0.9], None):
        for name in ("north", "south"):
            word = (UPLOAD, int(Fraction(0.8) * ONE))
            step = Step(version(parts, 2, strata=samplings), words=word)
            yield f"a version with strata {samplings}, {name}", {"strata": [name]}, [step]
    costly = query(
        envelope=envelope(p=(0.3, 0.9), epsilon_per_answer=2.5), budget=Budget(epsilon=100.0)
    )
    for p in (0.5, 0.7):
        yield f"a version whose answers cost more, p = {p}", {}, [Step(version(costly, 2, p=p))]


def decisions() -> Iterator[Case]:
    """What decides an epoch, which epochs are remembered, when a share is too old, how long grace
    lasts."""
    step = [Step(signed(), now=now) for now in (at(3), at(5), at(3, 9), at(4), at(5, 1), at(4, 7))]
    yield "epochs out of order", {}, step
    limit = [{"epsilon": "2.2", "period": 600, "analyst": None, "each_analyst": False}]
    times = (at(3, 590), at(4, 0), at(4, 589), at(4, 590), at(4, 591))
    yield (
        "a refusal for the budget decides nothing",
        {"limits": limit},
        [Step(signed(), now=now) for now in times],
    )
    full = [
        Step(signed(), now=at(3)),
        Step(signed(id="more"), now=at(3)),
        Step(signed(id="more"), now=at(3, 5)),
    ]
    yield "a full queue decides the epoch", {"queue_messages": 1}, full
    ages = (at(4) + 600 - 1, at(4) + 600)
    for now in ages:
        steps = [Step(signed(), now=at(3)), Step(signed(id="more"), now=now)]
        yield f"a share of epoch 3 at {now}", {"queue_messages": 1, "queue_age": 600}, steps
    brief = signed(grace=300)
    for now in (at(4) + 299, at(4) + 300):
        steps = [Step(brief, now=at(3)), Step(signed(id="more"), now=now)]
        yield f"a share with a grace of 300 s at {now}", {"queue_messages": 1}, steps
    three = signed(proxies=PROXIES)
    steps = [Step(signed(), now=at(3)), Step(three, now=at(4))]
    yield "a queue counted by the query's own proxies", {"queue_messages": 1}, steps
    refused = [
        Step(signed(proxies=["https://one.example", "https://four.example"]), now=at(3)),
        Step(signed(), now=at(3)),
    ]
    yield "a refusal by the policy remembers the version", {}, refused
    sampled = [
        Step(signed(sampling=0.5), now=at(3), words=(UPLOAD, ONE - 1)),
        Step(signed(sampling=0.5), now=at(3, 5)),
    ]
    yield "a coin that says no decides the epoch", {}, sampled
    for now in (at(3), at(3, 599), at(4) - 10, at(4) - 9, at(4) - 1):
        yield f"an upload at {now}", {"upload_within": 100_000}, [Step(signed(), now=now)]
    older = query(serial=4)
    versions = [
        Step(sign(older, CITY), now=at(3)),
        Step(sign(query(serial=3), CITY), now=at(4)),
        Step(sign(query(serial=4, sampling=0.9), CITY), now=at(5)),
    ]
    yield "an older serial, and the same with other contents", {}, versions
    end = ORIGIN + 365 * DAY
    for now in (end - EVERY, end - 1, end, end + 1):
        yield f"the last epoch, at {now}", {}, [Step(signed(), now=now)]
    each = [{"epsilon": "4.4", "period": None, "analyst": None, "each_analyst": True}]
    steps = [
        Step(signed(), now=at(1)),
        Step(signed(client_vectors.ACME), now=at(1)),
        Step(signed(id="b"), now=at(2)),
        Step(signed(id="c"), now=at(3)),
    ]
    yield "a limit for each analyst", {"limits": each}, steps


def permanence() -> Iterator[Case]:
    """Scopes, ranks and ties of permanent answers; which of several is used; order of draws over
    slots."""
    recipe = {"name": "SymmetricUnary", "epsilon": 1.0}
    base: dict[str, Any] = {"mechanism": recipe, "memoize": True, "columns": OTHERS}
    history = [0.5, 1.5, 2.5, 0.5, 3.5, 1.5, 4.5]
    for distinct in (2, 3):
        asked = signed(**base, distinct=distinct)
        yield (
            f"more answers than {distinct} may be kept",
            {"epsilon_per_answer": "50"},
            [Step(asked, [[value]], at(i)) for i, value in enumerate(history)],
        )
    backwards = [
        Step(signed(**base, distinct=2), [[value]], at(i))
        for i, value in ((5, 0.5), (3, 1.5), (8, 2.5), (9, 3.5))
    ]
    yield (
        "the one sent in the newest epoch, not the one sent last",
        {"epsilon_per_answer": "50"},
        backwards,
    )
    same = signed(**base, id="same-answers")
    yield (
        "two questions with the same answers",
        {},
        [Step(signed(**base), [[0.5]], at(1)), Step(same, [[0.5]], at(1))],
    )
    changed = query(**base)
    for name, later in {
        "sampling": changed.revised(sampling=0.9999),
        "question": changed.revised(question="Why?"),
        "sql": changed.revised(sql="SELECT a FROM t WHERE 1"),
        "mechanism": changed.revised(mechanism={"name": "SymmetricUnary", "epsilon": 1.25}),
    }.items():
        steps = [Step(sign(each, CITY), [[0.5]], at(i)) for i, each in enumerate((changed, later))]
        yield f"a version with another {name}", {}, steps
    rows: list[list[Any]] = [[0.5], [1.5], [0.5], [2.5], [0.5], [None], [9]]
    for most in (2, 3, 5):
        asked = signed(**base, rows="several", most_rows=most)
        several: list[list[list[Any]]] = [rows, rows[::-1], rows[:2], [], [[0.5], [0.5], [0.5]]]
        yield (
            f"{most} slots",
            {"epsilon_per_answer": "50"},
            [Step(asked, found, at(i)) for i, found in enumerate(several)],
        )
    twice = signed(**base, rows="several", most_rows=2, distinct=2)
    steps = [
        Step(twice, found, at(i))
        for i, found in enumerate(([[0.5], [1.5]], [[2.5], [3.5]], [[4.5], [0.5]], [[1.5]]))
    ]
    yield "slots with several answers each", {"epsilon_per_answer": "50"}, steps
    grown = query(**base)
    more = grown.revised(rows="several", most_rows=2)
    steps = [
        Step(sign(each, CITY), [[0.5], [1.5]], at(i)) for i, each in enumerate((grown, more, more))
    ]
    yield "a version with more slots pays for them", {"epsilon_per_answer": "50"}, steps
    limit = [{"epsilon": "1.5", "period": 1200, "analyst": None, "each_analyst": False}]
    plain: dict[str, Any] = {
        "mechanism": {"name": "SymmetricUnary", "epsilon": 1.0},
        "columns": OTHERS,
    }
    steps = [
        Step(signed(**base), [[0.5]], at(0)),
        Step(signed(**base), [[0.5]], at(1)),
        Step(signed(**plain, id="b"), now=at(1, 5)),
    ]
    yield (
        "what is paid for once is not counted twice",
        {"limits": limit},
        [*steps, Step(signed(**plain, id="b"), now=at(2, 5))],
    )
    fewer = query(**base, distinct=3)
    later = fewer.revised(distinct=2)
    steps = [
        Step(sign(each, CITY), [[i + 0.5]], at(i))
        for i, each in enumerate((fewer, later, later.revised(distinct=1)))
    ]
    yield "a version with fewer answers gets nothing back", {"epsilon_per_answer": "50"}, steps
    twofold: dict[str, Any] = {**base, "distinct": 2}
    tight = [{"epsilon": "2.5", "period": 1200, "analyst": None, "each_analyst": False}]
    steps = [Step(signed(**twofold), [[0.5]], at(i)) for i in range(3)]
    yield "a reserve that is counted once under a limit", {"limits": tight}, steps
    steps = [Step(signed(**twofold, budget=Budget(epsilon=2.5)), [[0.5]], at(i)) for i in range(3)]
    yield "a reserve that is counted once under the query's budget", {}, steps
    for ceiling in ("1.9", "2"):
        yield (
            f"two answers under a ceiling of {ceiling}",
            {"epsilon_per_answer": ceiling},
            [Step(signed(**twofold), [[0.5]])],
        )
        rows_too: dict[str, Any] = {
            "mechanism": recipe,
            "columns": OTHERS,
            "rows": "several",
            "most_rows": 2,
        }
        yield (
            f"two rows under a ceiling of {ceiling}",
            {"epsilon_per_answer": ceiling},
            [Step(signed(**rows_too), [[0.5]])],
        )
    ages = [Column("a", ["[0,inf)", "[18,inf)", "[65,inf)"], overlapping=True)]
    sets = signed(mechanism=recipe, memoize=True, columns=ages, ones=2, distinct=3)
    sets_of_rows: tuple[list[list[Any]], ...] = ([[70]], [[20], [70]], [[-1]], [[5]], [[70]])
    yield (
        "permanent sets",
        {"epsilon_per_answer": "50"},
        [Step(sets, each, at(i)) for i, each in enumerate(sets_of_rows)],
    )
    rest = signed(mechanism=recipe, memoize=True)
    outside: tuple[list[list[Any]], ...] = ([[99]], [], [[3.5]], [["x"]])
    yield (
        "permanent answers in no bucket",
        {},
        [Step(rest, each, at(i)) for i, each in enumerate(outside)],
    )
    # Which row is taken depends on the hash of -1 in 8 bytes: six questions, six orders of two.
    ranked = [
        Step(signed(mechanism=recipe, memoize=True, id=f"none-{i}"), [[0.5], [99]], at(1))
        for i in range(6)
    ]
    yield "a row in no bucket has a rank like any other", {"epsilon_per_answer": "50"}, ranked


def orders() -> Iterator[Case]:
    """Several messages through several proxies: the order in which each mechanism draws for all
    rows."""
    values: list[list[Any]] = [[0.5], [2.5], [4.5], [9], [1.5]]
    recipes = [
        *client_vectors.MECHANISMS,
        {
            "name": "DesignMatrix",
            "P": [[0.5 if i == j else 0.1 for j in range(6)] for i in range(6)],
        },
    ]
    for recipe in recipes:
        asked = signed(
            mechanism=recipe, columns=OTHERS, rows="several", most_rows=3, proxies=PROXIES
        )
        yield (
            f"three messages of {json.dumps(recipe)[:60]}",
            {"epsilon_per_answer": "50"},
            [Step(asked, values)],
        )
    cover = signed(sampling=0.5, cover=True, rows="several", most_rows=2, proxies=PROXIES)
    yield (
        "cover of several messages",
        {"epsilon_per_answer": "50"},
        [Step(cover, values, words=(UPLOAD, ONE - 1))],
    )
    pairs = [Column("a", ["[0,inf)", "[1,inf)", "[2,inf)", "[3,inf)"], overlapping=True)]
    for name in ("TwoCoin", "OptimizedUnary"):
        recipe = {"name": name, **({"p": 0.5, "q": 0.5} if name == "TwoCoin" else {"epsilon": 1.0})}
        asked = signed(mechanism=recipe, columns=pairs, ones=2, rows="all")
        for found in ([[3.5]], [[0.5], [1.5]], [[-1]], [[3.5], [2.5], [1.5]]):
            yield (
                f"two ones of {name}, {len(found)} rows, {found[0][0]}",
                {"epsilon_per_answer": "50"},
                [Step(asked, found)],
            )
    strata = [Stratum(f"s{i}") for i in range(300)]
    yield "stratum 299", {"strata": ["s299"]}, [Step(signed(strata=strata))]
    yield "the first of several strata", {"strata": ["s7", "s3"]}, [Step(signed(strata=strata))]
    yield "a channel of a key", {}, [Step(signed(channel="Stra\u00dfe \U0001f600"))]
    yield (
        "a channel of format 1",
        {},
        [Step(unowned(query(channel="Stra\u00dfe \U0001f600"), CITY))],
    )


GROUPS = (
    boundaries,
    roundings,
    widths,
    spaces,
    values,
    forms,
    trust,
    decisions,
    permanence,
    orders,
)


# --- what the library makes of them


class PortDevice(LibraryDevice):
    """A device of the library's with the ring of these vectors."""

    def __init__(self, rows: Rows, store: Path, settings: dict[str, Any]) -> None:
        super().__init__(rows, store, settings)
        self._device.policy = dataclasses.replace(self._device.policy, ring=RING)


def make() -> dict[str, Any]:
    """All vectors."""
    queries: dict[str, str] = {}
    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, closing(Rows(Path(folder))) as rows:
        for group in GROUPS:
            for name, changes, steps in group():
                settings = {**_POLICY, **changes}
                device = PortDevice(rows, Path(folder, f"{len(cases)}.store"), settings)
                made = [_made(rows, device, name, i, step, queries) for i, step in enumerate(steps)]
                slot = client_vectors.policy_of(settings).slot
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
    head = {"client_version": 1, "proxies": list(PROXIES), "secret": SECRET.hex(), "ring": ring}
    return {**head, "queries": {name: text for text, name in queries.items()}, "cases": cases}


def _made(
    rows: Rows, device: LibraryDevice, name: str, i: int, step: Step, queries: dict[str, str]
) -> dict[str, Any]:
    text = step.signed if isinstance(step.signed, str) else step.signed.to_bytes().decode()
    key = queries.setdefault(text, f"q{len(queries):03}")
    sql = (
        "SELECT a FROM t"
        if isinstance(step.signed, str)
        else step.signed.without_version().unverified().sql
    )
    found = rows.show(step.rows, sql)
    script = struct.pack(f"<{len(step.words)}Q", *step.words) + random_bytes(name, i)
    expect = device.answer(text.encode(), step.now, script)
    return {
        "query": key,
        "now": step.now,
        "rows": found,
        "random": script[: expect.pop("used")].hex(),
        "expect": expect,
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(make(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
