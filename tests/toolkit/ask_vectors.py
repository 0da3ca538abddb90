"""Makes the vectors of queries without SQL, of `once` and of `public_results`: what they are in
bytes, and what a device does.

`python -m toolkit.ask_vectors` (from tests/) writes tests/vectors/query-ask-v1.json and
client-ask-v1.json, with the library. `reference_client.py`, which knows the library only through
the documents, has to agree with the second.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from deniable.client.payment import scope_of
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed import canonical
from deniable.queries.signed.signing import SignedQuery, sign
from toolkit.references.client_vectors import (
    _POLICY,
    CITY,
    ORIGIN,
    PROXIES,
    SECRET,
    VECTORS,
    LibraryDevice,
    Rows,
    at,
    policy_of,
    query,
    random_bytes,
    signed,
)

QUERIES = Path(__file__).parents[1] / "vectors" / "query-ask-v1.json"
CLIENTS = QUERIES.with_name("client-ask-v1.json")
NOW = ORIGIN + 1000

TRAVEL = Column(
    "travel",
    ["foot", "bike", "bus"],
    other=True,
    question={"en": "How did you come?\nToday.", "de": "Wie kamst du?", "pt-BR": "Como você veio?"},
    labels={
        "en": ["On foot", "By bike", "By bus", "Otherwise"],
        "de": ["Zu Fuß", "Rad", "Bus", "Anders"],
        "pt-BR": ["A pé", "De bicicleta", "De ônibus", "Outro"],
    },
)
STARS = Column(
    "stars",
    [1, 2, 3.5],
    question={"en": "How many?"},
    labels={"en": ["one", "two", "three and a half"]},
)
A = Column("a", ["[0,1)", "[1,2)", "[2,inf)"], other=True)
GOOD: dict[str, dict[str, Any]] = {
    "a form in three languages": {"ask": "form", "columns": [TRAVEL]},
    "a form of numbers, answered once": {"ask": "form", "columns": [STARS], "once": True},
    "a form of two columns": {
        "ask": "form",
        "columns": [
            Column("tea", ["yes", "no"], question={"en": "Tea?"}, labels={"en": ["Yes", "No"]}),
            STARS,
        ],
    },
    "a form with several choices": {"ask": "form", "columns": [TRAVEL], "rows": "all", "ones": 2},
    "a memoized form": {
        "ask": "form",
        "columns": [TRAVEL],
        "memoize": True,
        "instantaneous": {"p": 0.25, "q": 0.75},
    },
    "a value": {"ask": "value", "value": "trips", "columns": [A]},
    "a memoized value with several ones": {
        "ask": "value",
        "value": "trips",
        "columns": [A],
        "memoize": True,
        "instantaneous": {"p": 0.25, "q": 0.75},
        "rows": "all",
        "ones": 2,
    },
    "SQL, answered once, for everyone": {
        "sql": "SELECT a FROM t",
        "once": True,
        "public_results": True,
    },
}


def asked(**changes: Any) -> Query:
    return query(**{"sql": "" if "ask" in changes else "SELECT a FROM t", **changes})


def _bad() -> Iterator[tuple[str, Any]]:
    """Trees of queries that break one rule each."""
    form, value = (
        asked(**GOOD["a form in three languages"]).to_dict(),
        asked(**GOOD["a value"]).to_dict(),
    )
    plain = asked().to_dict()

    def changed(tree: dict[str, Any], **changes: Any) -> dict[str, Any]:
        return {name: given for name, given in {**tree, **changes}.items() if given != "left out"}

    def column(**changes: Any) -> dict[str, Any]:
        return changed(form, columns=[changed(form["columns"][0], **changes)])

    labels, question = form["columns"][0]["labels"], form["columns"][0]["question"]
    yield "an ask that is none", changed(form, ask="guess")
    yield "sql written as ask", changed(plain, ask="sql")
    yield "a form with SQL", changed(form, sql="SELECT 1")
    yield "a form without the field sql", changed(form, sql="left out")
    yield "a query without SQL", changed(plain, sql="")
    yield "a form without texts", column(question="left out", labels="left out")
    yield "a form without labels", column(labels="left out")
    yield "a form without a question", column(question="left out")
    yield "texts without a form", changed(plain, columns=form["columns"])
    yield "a label too few", column(labels={**labels, "en": labels["en"][:3]})
    yield "a label too many", column(labels={**labels, "en": [*labels["en"], "x"]})
    yield "a label twice", column(labels={**labels, "en": ["On foot", "On foot", "x", "y"]})
    yield "an empty label", column(labels={**labels, "en": ["On foot", " ", "x", "y"]})
    yield "a label of two lines", column(labels={**labels, "en": ["On\nfoot", "w", "x", "y"]})
    yield "a label of 201 characters", column(labels={**labels, "en": ["a" * 201, "w", "x", "y"]})
    yield "a question of 501 characters", column(question={**question, "en": "a" * 501})
    yield "a question that turns the text around", column(question={**question, "en": "\u202ehow"})
    yield (
        "another language in labels",
        column(labels={"en": labels["en"], "de": labels["de"], "fr": labels["pt-BR"]}),
    )
    yield "no language", column(question={}, labels={})
    yield "a language that is none", column(question={"EN": "x"}, labels={"EN": labels["en"]})
    yield "a language of 36 characters", column(question={_LONG: "x"}, labels={_LONG: labels["en"]})
    yield "a pattern in a form", column(buckets=["foot", {"glob": "b*"}, "bus"])
    yield "a range in a form", column(kind="number", buckets=["[0,1)", "[1,2)", "[2,3)"])
    yield "several rows of a form", changed(form, rows="several", most_rows=2)
    yield "overlapping buckets in a form", changed(column(overlapping=True), ones=2, rows="all")
    yield (
        "columns in different languages",
        changed(form, columns=[form["columns"][0], STARS.to_dict()]),
    )
    yield "a value without a name", changed(value, value="left out")
    yield "a name without a value", changed(plain, value="trips")
    yield "a value with capitals", changed(value, value="Trips")
    yield "a value that begins with a digit", changed(value, value="1trips")
    yield "a value of 64 characters", changed(value, value="a" * 64)
    yield "a value that a vault keeps for itself", changed(value, value="sqlite_master")
    yield (
        "a column with a space",
        changed(value, columns=[changed(value["columns"][0], name="a b")]),
    )
    yield "once that is false", changed(plain, once=False)
    yield "once that is a number", changed(plain, once=1)
    yield "once with memoize", changed(plain, once=True, memoize=True)
    yield "public results that are false", changed(plain, public_results=False)
    yield "a value that is null", changed(plain, value=None)


_LONG = "en-" + "-".join(["abcdefgh"] * 3) + "-abcde1"


def make_queries() -> dict[str, Any]:
    """The vectors of the bytes."""
    good = []
    for name, changes in GOOD.items():
        made = asked(**changes)
        shown: dict[str, Any] = {
            "name": name,
            "content": made.content.decode(),
            "digest": made.digest.hex(),
        }
        shown["labels"] = list(made.labels)
        shown |= {
            "query_tag": f"{made.tag:016x}",
            "scope": scope_of(made).decode(),
            "cost": made.releases.life.epsilon,
        }
        good.append({**shown, "signed": sign(made, CITY).to_bytes().decode()})
    bad = []
    for name, tree in _bad():
        content = canonical.encode(tree)
        unusable = SignedQuery(content, CITY.public.id, CITY.sign(b"deniable query 1\0" + content))
        bad.append(
            {"name": name, "signed": unusable.to_bytes().decode(), "reason": "unusable query"}
        )
    return {
        "format": "deniable query 1",
        "now": NOW,
        "public": CITY.public.raw.hex(),
        "good": good,
        "bad": bad,
    }


# --- what a device does

_Case = tuple[str, list[tuple[SignedQuery, Any, int]]]


def cases() -> Iterator[_Case]:
    """Name, and for each step the signed query, the rows (None: the form is not filled in) and the
    time."""
    form = sign(asked(ask="form", columns=[TRAVEL]), CITY)
    for i, rows in enumerate(([["foot"]], [["bus"]], [[None]])):
        yield f"a form, choice {i}", [(form, rows, at(7))]
    yield (
        "a form waits until it is filled in",
        [
            (form, None, at(7)),
            (form, [["bike"]], at(7, 9)),
            (form, [["foot"]], at(8)),
        ],
    )
    stars = sign(asked(ask="form", columns=[STARS]), CITY)
    yield "a form of numbers", [(stars, [[3.5]], at(7)), (stars, [[None]], at(8))]
    several = sign(asked(**GOOD["a form with several choices"]), CITY)
    yield "several choices", [(several, [["foot"], ["bus"]], at(7)), (several, [["bike"]], at(8))]
    kept = sign(asked(**GOOD["a memoized form"]), CITY)
    yield (
        "a memoized form",
        [
            (kept, [["foot"]], at(7)),
            (kept, [["bus"]], at(8)),
            (kept, [["foot"]], at(9)),
        ],
    )
    value = sign(asked(ask="value", value="t", columns=[A]), CITY)
    yield (
        "a value",
        [
            (value, [[0.5], [1.5], [9]], at(7)),
            (value, [], at(8)),
            (value, [["text"]], at(9)),
        ],
    )
    both = asked(
        ask="value", value="t", columns=[A, Column("b", ["x", "y"])], rows="several", most_rows=2
    )
    yield "a value of two columns", [(sign(both, CITY), [[0.5, "x"], [1.5, None]], at(7))]
    once = asked(once=True, sampling=0.5)
    steps = [(sign(once, CITY), [[3.5]], at(i)) for i in range(3)]
    newer = once.revised(once=False)
    for k in range(4):  # some are sampled out, which decides all epochs too
        yield f"once, device {k}", [*steps, (sign(newer, CITY), [[3.5]], at(4))]
    cover = signed(once=True, cover=True, sampling=0.25)
    for k in range(5):
        yield f"once with cover, device {k}", [(cover, [[3.5]], at(i)) for i in range(2)]
    dear = signed(once=True, mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5})
    yield (
        "once, in a form",
        [
            (sign(asked(**GOOD["a form of numbers, answered once"]), CITY), [[1.0]], at(i))
            for i in (3, 4)
        ],
    )
    yield "once, late in the query's life", [(dear, [[3.5]], at(9000)), (dear, [[3.5]], at(9001))]


def make_clients() -> dict[str, Any]:
    """The vectors of devices, in the form of client-v1.json."""
    queries: dict[str, str] = {}
    out: list[dict[str, Any]] = []
    for name, steps in cases():
        with tempfile.TemporaryDirectory() as folder, closing(Rows(Path(folder))) as rows:
            device = LibraryDevice(rows, Path(folder, "store"), _POLICY)
            made = []
            for i, (one, given, now) in enumerate(steps):
                text = one.to_bytes().decode()
                key = next(
                    (known for known, each in queries.items() if each == text),
                    f"q{len(queries):03}",
                )
                queries[key] = text
                read = one.unverified()
                found = given
                if read.ask != "form":
                    found = rows.show(given, read.statement)
                elif given is not None:
                    device._device.forms.fill(
                        read,
                        [
                            {
                                column.name: cell
                                for column, cell in zip(read.columns, row, strict=True)
                            }
                            for row in given
                        ],
                    )
                script = random_bytes(name, i)
                expect = device.answer(text.encode(), now, script)
                random = script[: expect.pop("used")].hex()
                made.append(
                    {"query": key, "now": now, "rows": found, "random": random, "expect": expect}
                )
            slot = policy_of(_POLICY).slot
            out.append(
                {"group": "asks", "name": name, "policy": {**_POLICY, "slot": slot}, "steps": made}
            )
    ring = json.loads(VECTORS.read_text())["ring"]
    head = {"client_version": 1, "proxies": list(PROXIES), "secret": SECRET.hex(), "ring": ring}
    return {**head, "queries": queries, "cases": out}


if __name__ == "__main__":
    for path, made in ((QUERIES, make_queries()), (CLIENTS, make_clients())):
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
