"""Columns of buckets, and values: one by one, in bulk, and bucket by bucket they fall into the same
place."""

from __future__ import annotations

import json

import numpy as np

from deniable.errors import ParameterError
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.columns.column import Column
from deniable.queries.columns.ranges import Range

WEIGHT, LONGEST = 6, 300
DICTIONARY = [
    b'"[0,1)"',
    b'"(0,inf)"',
    b'"(-inf,0]"',
    b'"glob:*"',
    b'"regex:[a-z]{2,3}"',
    b"1e308",
    b"9007199254740993",
    b"-0.0",
    b'","',
]
DICTIONARY += [
    b"[[",
    b"],[",
    b"]]",
    b'"a"',
    b"null",
    b"true",
    b"2.5",
    b'"regex:(a|b)*"',
    b'"glob:[!a]?"',
    b'"5e-324"',
]


def seeds() -> list[bytes]:
    return [
        b'[["[0,1)","[1,2)","[2,inf)"],[0,0.5,1,-1,1e300,9007199254740993,null,"a",true]]',
        b'[[1,2,"[3,4]"],[1,2,3,4,5,2.0000000000000004],1]',
        b'[["Oslo","glob:New *","regex:[A-C]x+"],["Oslo","New York","Bx","Cxx","",1],1]',
        b'[["(-inf,-0.0)","[0,5e-324]"],[-1,0,-0.0,5e-324,1e-323]]',
        b'[["[0,9007199254740992)","[9007199254740994,1e19]"],[9007199254740993,9223372036854775807,18446744073709551615],0,1]',
    ]


def check(data: bytes) -> None:
    try:
        given = json.loads(data)
        buckets, values, *flags = given
        values = list(values)
    except (ValueError, TypeError, RecursionError):
        raise ParameterError("data", "these", "are no buckets and values") from None
    flags = [bool(flag) for flag in flags] + [False, False]
    column = Column("c", buckets, other=flags[0], overlapping=flags[1])
    again = Column(
        "c", column.to_dict()["buckets"], other=flags[0], kind=column.kind, overlapping=flags[1]
    )
    assert again.buckets == column.buckets
    values = [value for value in values if isinstance(value, int | float | str) or value is None]
    for value in values:
        holding = [i for i, bucket in enumerate(column.buckets) if _holds(bucket, value)]
        assert flags[1] or len(holding) < 2, (
            f"{value!r} is in the buckets {holding}, which do not overlap"
        )
        expected = holding or ([len(column.buckets)] if flags[0] else [])
        assert column.indices(value) == expected, value
        assert column.index(value) == (expected[0] if expected else NONE)
    for kind in (float, int, str):
        alike = [
            value
            for value in values
            if type(value) is kind and (not isinstance(value, int) or -(1 << 63) <= value < 1 << 63)
        ]
        bulk = column.index_many(np.array(alike, dtype=object if kind is str else None)).tolist()
        assert bulk == [column.index(value) for value in alike]


def _holds(bucket: object, value: object) -> bool:
    if isinstance(bucket, Range):
        if not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - only NaN differs from itself
            return False
        # Python compares integers and doubles exactly
        low = value >= bucket.low if bucket.low_closed else value > bucket.low
        return low and (value <= bucket.high if bucket.high_closed else value < bucket.high)
    return isinstance(value, str) and bucket.holds(value)  # type: ignore[attr-defined]
