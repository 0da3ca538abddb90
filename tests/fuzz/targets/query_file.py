"""Query files in TOML: what is accepted says the same after it went through its canonical bytes."""

from __future__ import annotations

from deniable.errors import QueryFileError
from deniable.queries.files import parse_query
from deniable.queries.query import Query
from deniable.queries.summary import summary

WEIGHT, LONGEST = 2, 1500
DICTIONARY = [
    b"[schedule]",
    b"[[columns]]",
    b"[mechanism]",
    b"[envelope]",
    b"[[strata]]",
    b"[budget]",
    b"= ",
    b"nan",
    b"inf",
    b"1e400",
]
DICTIONARY += [
    b'"""',
    b"2026-01-01T00:00:00Z",
    b"07:32:00",
    b"0x10",
    b"true",
    b"serial = ",
    b"every = ",
    b"1 d",
    b"ones = ",
    b"\\u0000",
]
TAXI = b"""id = "taxi-distance"
analyst = "City"
sql = "SELECT distance FROM trips"
proxies = ["https://one.example", "https://two.example"]
sampling = 0.6
[[columns]]
name = "distance"
buckets = ["[0,1)", "[1,inf)", 7]
[schedule]
origin = 2026-01-01T00:00:00Z
expires = 2027-01-01T00:00:00Z
every = "10 min"
window = "1 h"
slide = 1200
[mechanism]
name = "TwoCoin"
p = 0.3
q = 0.6
[budget]
epsilon = 20.0
[[strata]]
name = "north"
sampling = 0.5
"""


def seeds() -> list[bytes]:
    return [TAXI, TAXI.replace(b", 7]", b"]"), b"", b'id = "x"', b"a = [[[1]]]"]


def check(data: bytes) -> None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    try:
        query = parse_query(text)
    except QueryFileError as error:
        assert "\n" not in str(error), "an error is one line"
        raise
    assert Query.from_content(query.content) == query
    assert summary(query)
