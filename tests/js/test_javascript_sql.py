# ruff: noqa: S311, S608 - seeded, and SQL put together on purpose
"""SQL in the JavaScript client: the same verdicts and answers as in the Python client's sandbox."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Vault
from deniable.client.sandbox import interface as sandbox
from deniable.client.sandbox import pool as sandbox_pool
from deniable.errors import NotGrantedError, SandboxError
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from toolkit.attacks.sql_bombs import comments, doubling

CLIENT = Path(__file__).parents[2] / "clients" / "js"
FOLDER = os.environ.get("DENIABLE_NODE", "")
SQLITE = Path(FOLDER, "node_modules", "@sqlite.org", "sqlite-wasm", "node.mjs")
REQUIRED = os.environ.get("DENIABLE_REQUIRE_BROWSER") == "1"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not REQUIRED and (shutil.which("node") is None or not SQLITE.exists()),
        reason="Node or sqlite-wasm is not installed",
    ),
]
KINDS = {
    "trips": {"at": "TEXT", "city": "TEXT", "distance": "REAL", "n": "INTEGER"},
    "walks": {"city": "TEXT", "steps": "INTEGER"},
}
NUMBERS = Column("x", ["(-inf,0)", "[0,1)", "[1,2)", "[2,5)", "[5,inf)"])
TEXTS = Column("x", ["Lyon", "Nice", "2026-03-01", {"glob": "M*"}], other=True)


def tables(draw: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Rows whose sums no version of SQLite rounds."""

    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    def city() -> Any:
        return maybe(draw.choice(["Lyon", "Nice", "Metz", "Zürich", "", "lyon", "東京", "%_"]))

    trips = [
        {
            "at": maybe(
                f"2026-{draw.randint(1, 12):02}-{draw.randint(1, 28):02} 0{draw.randint(0, 9)}:15:30"
            ),
            "city": city(),
            "distance": maybe(draw.randint(-8, 40) / 4),
            "n": maybe(draw.choice([0, 1, 2, 7, -3, 2**52, -(2**53)])),
        }
        for _ in range(25)
    ]
    walks = [{"city": city(), "steps": maybe(draw.randint(0, 9))} for _ in range(12)]
    return {"trips": trips, "walks": walks}


def number(draw: random.Random, depth: int = 2) -> str:
    """An expression that is usually a number; some fail for some rows."""
    if depth == 0:
        return draw.choice(["distance", "n", "1", "2.5", "-3", "length(city)", "NULL", "0"])
    inner: Callable[[], str] = lambda: number(draw, depth - 1)  # noqa: E731
    return draw.choice(
        [
            f"({inner()} + {inner()})",
            f"({inner()} * {inner()})",
            f"({inner()} / {inner()})",
            f"({inner()} % 3)",
            f"abs({inner()})",
            f"round({inner()})",
            f"coalesce({inner()}, {inner()})",
            f"iif({inner()} > {inner()}, {inner()}, {inner()})",
            f"CASE WHEN {inner()} THEN {inner()} ELSE {inner()} END",
            f"max({inner()}, {inner()})",
            f"instr(city, substr({text(draw, 0)}, 1, 1))",
            f"CAST(strftime('%d', at) AS INTEGER) - {inner()}",
            f"julianday(at) - julianday(at, '-{draw.randint(1, 9)} days')",
            f"floor({inner()})",
            f"nullif({inner()}, 1)",
            f"sign({inner()})",
            f"(:epoch_start / 3600 - {inner()})",
            "(@epoch_end - $epoch_start) / 3600",
        ]
    )


def text(draw: random.Random, depth: int = 2) -> str:
    if depth == 0:
        return draw.choice(["city", "'Lyon'", "at", "'Metz'", "date(at)", "NULL"])
    inner: Callable[[], str] = lambda: text(draw, depth - 1)  # noqa: E731
    return draw.choice(
        [
            f"upper({inner()})",
            f"substr({inner()}, {draw.randint(-3, 4)}, 4)",
            f"trim({inner()} || ' ')",
            f"coalesce({inner()}, 'Nice')",
            f"date(at, '{draw.choice(['start of month', '+1 month', 'weekday 0', '-20 days'])}')",
            f"strftime('%Y-%m-%d', {inner()})",
            f"iif({number(draw, 1)} > 0, {inner()}, {inner()})",
            f"typeof({number(draw, 1)})",
            inner(),
        ]
    )


def condition(draw: random.Random) -> str:
    return draw.choice(
        [
            f"{number(draw, 1)} > {number(draw, 0)}",
            f"city LIKE '{draw.choice(['l%', '%e', '_y%', '%'])}'",
            f"city GLOB '{draw.choice(['L*', '[MN]*', '*i?*'])}'",
            f"distance BETWEEN {draw.randint(-3, 3)} AND {draw.randint(0, 9)}",
            "city IN (SELECT city FROM walks WHERE steps > 4)",
            "EXISTS (SELECT 1 FROM walks WHERE walks.city = trips.city)",
            f"{text(draw, 1)} IS NOT NULL",
            "at >= '2026-06'",
        ]
    )


def statement(draw: random.Random, kind: str) -> str:
    what = number(draw) if kind == "number" else text(draw)
    if draw.random() < 0.15:
        return draw.choice(
            [
                "SELECT secret FROM trips",
                "SELECT n FROM diary",
                f"SELECT {what}, random() FROM trips",
                f"SELECT {what} FROM trips; SELECT 1",
                f"SELECT {what} FROM trips; -- done",
                f"SELECT {what}, 1 FROM trips",
                f"/* a */ -- b\n SELECT {what} FROM trips ;",
                f"SELECT date('now', {what}) FROM trips",
                f"SELECT datetime({what}, 'localtime') FROM trips",
                f"SELECT {what} FROM trips WHERE rowid = 1",
                "VALUES (1)",
                f"SELECT {what} FROM",
                "SELECT CAST(city AS BLOB) FROM trips",
                "SELECT printf('%s', city) FROM trips",
                "SELECT * FROM walks",
                f"SELECT {what} FROM trips WHERE n > ?",
                f"SELECT {what} + :epoch FROM trips",
                f"SELECT {what}, :epoch_start, :epoch_end, :third FROM trips",
                "SELECT city FROM (SELECT * FROM trips NATURAL JOIN walks)",
                "WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM a) SELECT x FROM a",
            ]
        )
    where = f" WHERE {condition(draw)}" if draw.random() < 0.6 else ""
    return draw.choice(
        [
            f"SELECT {what} FROM trips{where}",
            f"SELECT {what} FROM trips{where} ORDER BY n, distance DESC, city, at LIMIT 3",
            f"SELECT {draw.choice(['min', 'max', 'count'])}({what}) FROM trips{where}",
            f"SELECT total(distance) / 4 FROM trips{where}",
            f"SELECT max({what}) FROM trips{where} GROUP BY city ORDER BY city",
            f"SELECT DISTINCT {what} FROM trips{where}",
            f"WITH a AS (SELECT {what} AS x FROM trips{where}) SELECT x FROM a UNION SELECT NULL",
            f"SELECT first_value({what}) OVER (ORDER BY at, n, distance, city) FROM trips{where}",
            f"SELECT row_number() OVER (ORDER BY at, n, distance, city) FROM trips{where}",
            f"SELECT sum(steps) FROM trips JOIN walks USING (city){where}",
        ]
    )


def query(sql: str, column: Column, **options: Any) -> Query:
    mechanism = {"name": "TwoCoin", "p": 0.5, "q": 0.5}
    return Query(
        id="q",
        analyst="City",
        question="How far?",
        sql=sql,
        columns=[column],
        schedule=Schedule(0, 86_400, 3600, 3600, 3600),
        proxies=["https://one.example", "https://two.example"],
        mechanism=mechanism,
        **options,
    )


def draw_places(n: int, most: int) -> list[int]:
    return [(7 * n + 3 + i) % n for i in range(min(n, most))]


def python_answer(vault: Vault, given: Query, epoch: int) -> dict[str, Any]:
    """What the Python client makes of a query."""
    try:
        n_columns = sandbox.compiles(sandbox.granted(vault), given.sql, deadline=30)
    except NotGrantedError:
        return {"refused": "not shared"}
    except SandboxError:
        return {"refused": "forbidden SQL"}
    if n_columns not in (None, 1):
        return {"refused": "columns"}
    task = sandbox.SandboxTask(
        given.sql,
        given.buckets.plain,
        given.rows,
        given.most_rows,
        given.ones,
        None,
        given.schedule.bounds_of_epoch(epoch),
    )
    found = sandbox.answer(vault, task, draw_places, within=120, deadline=30).buckets
    last = len(given.buckets.labels) - 1 if all(column.other for column in given.columns) else -1
    if given.ones > 1:
        inside = sorted({each for each in found if each >= 0}) or [last]
        return {"found": [[*inside, *[-1] * (given.ones - len(inside))]]}
    return {"found": [[each if each >= 0 else last] for each in found]}


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[tuple[Vault, dict[str, list[dict[str, Any]]]]]:
    rows = tables(random.Random(1))
    made = Vault.create(tmp_path / "vault.db")
    for table, kinds in KINDS.items():
        with_secret = {**kinds, "secret": "INTEGER"}
        values = [[*(row[name] for name in kinds), 7] for row in rows[table]]
        made.import_rows(table, with_secret, values)
        made.grant(table, list(kinds))
    made.import_rows("diary", {"n": "INTEGER"}, [(1,)])
    yield made, rows
    sandbox_pool.close_all()


def test_both_clients_answer_generated_sql_alike(
    vault: tuple[Vault, dict[str, list[dict[str, Any]]]],
) -> None:
    made, rows = vault
    draw = random.Random(20261118)
    shapes: list[dict[str, Any]] = [
        {},
        {"rows": "aggregate"},
        {"rows": "several", "most_rows": 3},
        {"ones": 2, "rows": "all"},
        {"ones": 2},
    ]
    asked = []
    for i in range(200):
        kind = "number" if i % 2 else "text"
        column = NUMBERS if kind == "number" else TEXTS
        asked.append(query(statement(draw, kind), column, **shapes[i % len(shapes)]))
    head = {
        "grant": KINDS,
        "tables": {table: [{**row, "secret": 7} for row in each] for table, each in rows.items()},
    }
    epochs = [i % 7 for i in range(len(asked))]
    lines = [
        json.dumps({"query": given.content.decode(), "epoch": epoch})
        for given, epoch in zip(asked, epochs, strict=True)
    ]
    said = subprocess.run(  # noqa: S603 - our own file
        [shutil.which("node") or "node", str(CLIENT / "test" / "run_sql.mjs")],
        input="\n".join([json.dumps(head), *lines]) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert said.returncode == 0, said.stderr[-2000:]
    answers = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(answers) == len(asked)
    outcomes: Counter[str] = Counter()
    for given, epoch, answer in zip(asked, epochs, answers, strict=True):
        expected = python_answer(made, given, epoch)
        assert answer == expected, given.sql
        outcomes[expected.get("refused") or str(expected["found"][0][0])] += 1
    assert outcomes["not shared"] > 2
    assert outcomes["forbidden SQL"] > 5
    assert len(outcomes) >= 8, outcomes


def test_texts_that_take_long_to_compile_are_refused(
    vault: tuple[Vault, dict[str, list[dict[str, Any]]]],
) -> None:
    _, rows = vault
    bombs = [doubling(), comments(1000)]
    head = {"grant": KINDS, "tables": rows}
    lines = [
        json.dumps(head),
        *(json.dumps({"query": query(sql, NUMBERS).content.decode()}) for sql in bombs),
    ]
    said = subprocess.run(  # noqa: S603 - our own file
        [shutil.which("node") or "node", str(CLIENT / "test" / "run_sql.mjs")],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert said.returncode == 0, said.stderr[-2000:]
    assert [json.loads(line) for line in said.stdout.splitlines()] == [
        {"refused": "forbidden SQL"}
    ] * 2
