"""The sandbox against SQL that means harm, and SQL that does not."""

from __future__ import annotations

import hashlib
import json
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Rows, Vault, guard, run
from deniable.client.sqltext import LARGEST_GROWTH, growth
from deniable.errors import (
    BadSqlError,
    CellError,
    DeadlineError,
    DeniableError,
    ForbiddenSqlError,
    NotSharedError,
    ParameterError,
    SandboxError,
    TooComplexError,
    TooManyRowsError,
    TooMuchMemoryError,
    VaultError,
)

DEADLINE = 0.2
MARGIN = 2.0  # seconds beyond the deadline: a bomb that nothing stops takes minutes, a busy machine does not take two seconds
MEMORY = 16 << 20

PEOPLE = [(31, "Lyon"), (44, "Nice"), (31, "Lyon"), (58, "Metz"), (None, "Nice")]  # age, city: shared
VISITS = [(1, 12.5, "2026-03-01 08:15:00"), (1, 3.0, "2026-03-02 23:59:59"), (4, 40.0, "2026-04-30 12:00:00")]


def build(path: Path, secret: int) -> Vault:
    """A vault whose unshared data depend on `secret`, and whose shared data do not."""
    vault = Vault.create(path)
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, city TEXT, salary INTEGER, note TEXT);
        CREATE TABLE visits (person INTEGER, minutes REAL, at TEXT, place TEXT);
        CREATE TABLE diary (day INTEGER PRIMARY KEY AUTOINCREMENT, entry TEXT, salary INTEGER);
        CREATE TABLE made (x INTEGER, double_salary INTEGER AS (2 * x));
        CREATE INDEX by_entry ON diary (entry);
        CREATE VIEW rich AS SELECT age, salary FROM people WHERE salary > 500;
        CREATE VIEW ages AS SELECT age FROM people;
        CREATE TRIGGER spy AFTER INSERT ON visits BEGIN INSERT INTO diary (entry) VALUES (new.place); END;
        CREATE VIRTUAL TABLE search USING fts5(words);
        """
    )
    for number, (age, city) in enumerate(PEOPLE):
        row = (10 * secret + number, age, city, 1000 * secret + number, f"note {secret}")
        connection.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?)", row)
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", [(*row, f"place {secret}") for row in VISITS])
    connection.executemany("INSERT INTO diary (entry, salary) VALUES (?, ?)", [(f"entry {secret}", 1000 * secret)] * (secret + 2))
    connection.execute("INSERT INTO made (x) VALUES (?)", (secret,))
    connection.execute("INSERT INTO search VALUES (?)", (f"word{secret}",))
    connection.execute("ANALYZE")
    connection.commit()
    connection.close()
    vault.share("people", ["age", "city"])
    vault.share("visits", ["person", "minutes", "at"])
    return vault


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, Vault]:
    folder = tmp_path_factory.mktemp("vaults")
    return build(folder / "one.db", 1), build(folder / "two.db", 2)


def links(n: int, body: str) -> str:
    """A chain of common table expressions, each made of the one before it, written in `body` as {}."""
    parts = ["c0 AS (SELECT 1 AS v)"] + [f"c{i} AS ({body.replace('{}', f'c{i - 1}')})" for i in range(1, n)]
    return f"WITH {', '.join(parts)} SELECT v FROM c{n - 1}"


def nested(n: int, expression: str) -> str:
    sql = "SELECT age AS v FROM people"
    for _ in range(n):
        sql = f"SELECT {expression} AS v FROM ({sql})"
    return sql


def joined(n: int) -> str:
    return ", ".join(f"people p{i}" for i in range(n))


LONG = f"'{'a' * 3000}'"

# What it tries, the SQL, and how it must be refused.
HOSTILE: list[tuple[str, str, type[SandboxError]]] = [
    # other tables
    ("an unshared table", "SELECT entry FROM diary", NotSharedError),
    ("the number of its rows", "SELECT count(*) FROM diary", NotSharedError),
    ("whether it has rows", "SELECT EXISTS (SELECT 1 FROM diary)", NotSharedError),
    ("a table as a set", "SELECT 'entry 1' IN (SELECT entry FROM diary)", NotSharedError),
    ("a table as a set, by name", "SELECT (1, 'entry 1', 1000) IN diary", NotSharedError),
    ("a table by schema", "SELECT * FROM main.diary", NotSharedError),
    ("a table in quotes", 'SELECT "entry" FROM "DIARY"', NotSharedError),
    ("a table in brackets", "SELECT d.[entry] FROM [diary] AS d", NotSharedError),
    ("a table under an alias", "SELECT people.entry FROM diary AS people", NotSharedError),
    ("a table in a union", "SELECT age FROM people UNION ALL SELECT entry FROM diary", NotSharedError),
    ("a table as a limit", "SELECT age FROM people LIMIT (SELECT count(*) FROM diary)", NotSharedError),
    ("a table that is not there", "SELECT x FROM nowhere", NotSharedError),
    ("the declaration itself", "SELECT * FROM deniable_shared", NotSharedError),
    ("a view of unshared columns", "SELECT salary FROM rich", NotSharedError),
    ("a view of shared columns", "SELECT age FROM ages", NotSharedError),
    ("the number of a view's rows", "SELECT count(*) FROM rich", NotSharedError),
    ("a CTE with a view's name", "WITH rich AS (SELECT salary FROM people) SELECT * FROM rich", NotSharedError),
    ("a generated column", "SELECT double_salary FROM made", NotSharedError),
    # unshared columns
    ("an unshared column", "SELECT salary FROM people", NotSharedError),
    ("all columns", "SELECT * FROM people", NotSharedError),
    ("all columns of an alias", "SELECT p.* FROM people p", NotSharedError),
    ("a column that is not there", "SELECT wings FROM people", NotSharedError),
    ("a column in a condition", "SELECT count(*) FROM people WHERE salary > 500", NotSharedError),
    ("a column in an order", "SELECT age FROM people ORDER BY salary LIMIT 1", NotSharedError),
    ("a column in a group", "SELECT count(*) FROM people GROUP BY note", NotSharedError),
    ("a column in HAVING", "SELECT city FROM people GROUP BY city HAVING max(salary) > 5", NotSharedError),
    ("a column in a subquery", "SELECT s FROM (SELECT salary AS s FROM people)", NotSharedError),
    ("a column in a CTE", "WITH s(x) AS (SELECT salary FROM people) SELECT x FROM s", NotSharedError),
    ("a correlated subquery", "SELECT (SELECT 1 FROM visits v WHERE v.place = p.city) FROM people p", NotSharedError),
    ("a join condition", "SELECT 1 FROM people p JOIN visits v ON p.note = v.at", NotSharedError),
    ("a filter", "SELECT count(*) FILTER (WHERE salary > 1) FROM people", NotSharedError),
    ("a window's order", "SELECT rank() OVER (ORDER BY salary) FROM people", NotSharedError),
    ("a window's partition", "SELECT count(*) OVER w FROM people WINDOW w AS (PARTITION BY note)", NotSharedError),
    ("a column's type", "SELECT typeof(salary) FROM people", NotSharedError),
    ("a column's length", "SELECT max(length(note)) FROM people", NotSharedError),
    ("the key", "SELECT id FROM people", NotSharedError),
    ("the row number as key", "SELECT rowid FROM people", NotSharedError),
    ("the row number", "SELECT rowid FROM visits", NotSharedError),
    ("the row number by another name", "SELECT oid FROM visits", NotSharedError),
    ("the row number by a third name", "SELECT count(*) FROM visits WHERE _rowid_ = 2", NotSharedError),
    ("USING over an unshared column", "SELECT count(*) FROM people JOIN (SELECT 1001 AS salary) USING (salary)", ForbiddenSqlError),
    ("NATURAL over an unshared column", "SELECT count(*) FROM people NATURAL JOIN (SELECT 'note 1' AS note)", ForbiddenSqlError),
    ("NATURAL over an unshared table", "SELECT count(*) FROM diary NATURAL JOIN (SELECT 'entry 1' AS entry)", ForbiddenSqlError),
    ("USING between two tables", "SELECT p.age FROM people p FULL JOIN diary d USING(salary)", ForbiddenSqlError),
    ("NATURAL behind a comment", "SELECT count(*) FROM people/**/natural/**/left JOIN diary", ForbiddenSqlError),
    ("group_concat", "SELECT group_concat(salary) FROM people", ForbiddenSqlError),
    # the schema, the engine, the connection
    ("sqlite_master", "SELECT sql FROM sqlite_master", NotSharedError),
    ("sqlite_schema", "SELECT name FROM sqlite_schema", NotSharedError),
    ("the number of tables", "SELECT count(*) FROM sqlite_master", NotSharedError),
    ("the temporary schema", "SELECT * FROM sqlite_temp_master", NotSharedError),
    ("the number of temporary tables", "SELECT count(*) FROM temp.sqlite_schema", NotSharedError),
    ("sqlite_sequence", "SELECT seq FROM sqlite_sequence", NotSharedError),
    ("sqlite_stat1", "SELECT stat FROM sqlite_stat1", NotSharedError),
    ("a pragma", "PRAGMA table_info(diary)", ForbiddenSqlError),
    ("a pragma as a table", "SELECT name FROM pragma_table_info('diary')", ForbiddenSqlError),
    ("counting a pragma", "SELECT count(*) FROM pragma_table_list", ForbiddenSqlError),
    ("the path of the file", "SELECT file FROM pragma_database_list", ForbiddenSqlError),
    ("lifting the guard", "PRAGMA query_only = 0", ForbiddenSqlError),
    ("the pages of the file", "SELECT count(*) FROM dbstat", ForbiddenSqlError),
    ("the statements", "SELECT count(*) FROM sqlite_stmt", NotSharedError),
    ("full text search", "SELECT words FROM search WHERE search MATCH 'word1'", ForbiddenSqlError),
    ("the parts of the search", "SELECT c0 FROM search_content", NotSharedError),
    ("JSON as a table", "SELECT count(*) FROM json_each('[1,2]')", ForbiddenSqlError),
    ("JSON as a function", "SELECT json_array(1)", ForbiddenSqlError),
    ("a JSON operator", "SELECT city ->> 'x' FROM people", ForbiddenSqlError),
    ("generate_series", "SELECT count(*) FROM generate_series(1, 1000000000)", NotSharedError),
    ("the version", "SELECT sqlite_version()", ForbiddenSqlError),
    ("the source", "SELECT sqlite_source_id()", ForbiddenSqlError),
    ("the build", "SELECT sqlite_compileoption_get(1)", ForbiddenSqlError),
    ("changes", "SELECT changes() + total_changes()", ForbiddenSqlError),
    ("the last row number", "SELECT last_insert_rowid()", ForbiddenSqlError),
    ("EXPLAIN", "EXPLAIN SELECT age FROM people", ForbiddenSqlError),
    ("EXPLAIN behind a comment", "/* SELECT */ EXPLAIN QUERY PLAN SELECT age FROM people", ForbiddenSqlError),
    # the world outside
    ("an extension", "SELECT load_extension('libc.so.6')", ForbiddenSqlError),
    ("reading a file", "SELECT readfile('/etc/passwd')", ForbiddenSqlError),
    ("writing a file", "SELECT writefile('stolen', city) FROM people", ForbiddenSqlError),
    ("an editor", "SELECT edit(city) FROM people", ForbiddenSqlError),
    ("the log", "SELECT sqlite_log(1, 'x')", ForbiddenSqlError),
    ("another file", "ATTACH DATABASE 'other.db' AS other", ForbiddenSqlError),
    ("detaching", "DETACH DATABASE main", ForbiddenSqlError),
    ("a copy", "VACUUM INTO 'copy.db'", ForbiddenSqlError),
    ("the clock", "SELECT date('now')", ForbiddenSqlError),
    ("the clock, put together", "SELECT strftime('%s', 'n' || 'OW')", ForbiddenSqlError),
    ("the clock, by default", "SELECT julianday()", ForbiddenSqlError),
    ("the clock, as a constant", "SELECT CURRENT_TIMESTAMP", ForbiddenSqlError),
    ("the time zone", "SELECT time(at, 'localtime') FROM visits", ForbiddenSqlError),
    ("the time zone, backwards", "SELECT time(12345.6, 'utc')", ForbiddenSqlError),
    ("chance", "SELECT age FROM people ORDER BY random() LIMIT 1", ForbiddenSqlError),
    ("a signal by time", "SELECT CASE WHEN age > 40 THEN randomblob(60000) ELSE 1 END FROM people", ForbiddenSqlError),
    # writes
    ("INSERT", "INSERT INTO people (age) VALUES (1)", ForbiddenSqlError),
    ("UPDATE", "UPDATE people SET age = 1", ForbiddenSqlError),
    ("DELETE", "DELETE FROM people", ForbiddenSqlError),
    ("REPLACE", "REPLACE INTO people (id, age) VALUES (1, 1)", ForbiddenSqlError),
    ("INSERT behind WITH", "WITH x AS (SELECT 1) INSERT INTO people (age) SELECT * FROM x", ForbiddenSqlError),
    ("UPDATE behind WITH", "WITH x AS (SELECT 1) UPDATE people SET age = 1 RETURNING age", ForbiddenSqlError),
    ("DELETE behind WITH", "WITH x AS (SELECT 1) DELETE FROM visits", ForbiddenSqlError),
    ("sharing more", "INSERT INTO deniable_shared VALUES ('people', 'salary')", ForbiddenSqlError),
    ("CREATE TABLE", "CREATE TABLE loot AS SELECT * FROM people", ForbiddenSqlError),
    ("CREATE TEMP VIEW", "CREATE TEMP VIEW v AS SELECT salary FROM people", ForbiddenSqlError),
    ("CREATE VIRTUAL TABLE", "CREATE VIRTUAL TABLE temp.v USING fts5(x)", ForbiddenSqlError),
    ("DROP", "DROP TABLE people", ForbiddenSqlError),
    ("ALTER", "ALTER TABLE people RENAME COLUMN salary TO age2", ForbiddenSqlError),
    ("REINDEX", "REINDEX", ForbiddenSqlError),
    ("ANALYZE", "ANALYZE", ForbiddenSqlError),
    ("a transaction", "BEGIN EXCLUSIVE", ForbiddenSqlError),
    ("leaving the transaction", "COMMIT", ForbiddenSqlError),
    ("a savepoint", "SAVEPOINT s", ForbiddenSqlError),
    # the text itself
    ("two statements", "SELECT age FROM people; DELETE FROM people", ForbiddenSqlError),
    ("a second one behind a comment", "SELECT 1 -- nothing more\n; DROP TABLE people", ForbiddenSqlError),
    ("a second one behind a semicolon in a comment", "SELECT 1 /* ; */ ; /* */ SELECT 2", ForbiddenSqlError),
    ("a NUL byte", "SELECT 1\0; DROP TABLE people", BadSqlError),
    ("half a character", "SELECT '\ud800'", BadSqlError),
    ("nothing", "", ForbiddenSqlError),
    ("a comment only", "-- SELECT 1", ForbiddenSqlError),
    ("no SQL", "SELECT FROM WHERE", BadSqlError),
    ("an open quote", "SELECT 'age FROM people", BadSqlError),
    ("a parameter", "SELECT age FROM people WHERE age > ?", TooComplexError),
    ("a named parameter", "SELECT :age", TooComplexError),
    ("a long text", f"SELECT '{'a' * 10_000}'", TooComplexError),
    ("many columns", f"SELECT {', '.join(['1'] * 100)}", TooComplexError),
    ("a deep expression", f"SELECT {'+'.join(['1'] * 200)}", TooComplexError),
    ("deep parentheses", f"SELECT {'(' * 500}1{')' * 500}", TooComplexError),
    ("deep subqueries", nested(60, "v"), TooComplexError),
    ("many unions", " UNION ".join(["SELECT 1"] * 50), TooComplexError),
    ("many tables", f"SELECT count(*) FROM {joined(70)}", TooComplexError),
    ("many arguments", f"SELECT max({', '.join(['1'] * 60)})", TooComplexError),
    ("a long pattern", f"SELECT city LIKE '{'%a' * 300}' FROM people", TooComplexError),
    ("a likelihood", "SELECT likelihood(age > 3, 0.5) FROM people", ForbiddenSqlError),
    # bombs
    ("recursion", "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r", ForbiddenSqlError),
    ("recursion without its name", "WITH r(n) AS (VALUES (1) UNION SELECT n + 1 FROM r) SELECT n FROM r", ForbiddenSqlError),
    ("zeroblob", "SELECT length(zeroblob(1000000000))", ForbiddenSqlError),
    ("randomblob", "SELECT length(randomblob(1000000000))", ForbiddenSqlError),
    ("hex of zeros", "SELECT hex(zeroblob(500000000))", ForbiddenSqlError),
    ("replace, doubling", f"SELECT replace(replace({LONG}, 'a', 'aaaaaaaa'), 'a', {LONG})", ForbiddenSqlError),
    ("printf padding", "SELECT printf('%*d', 1000000000, 1)", ForbiddenSqlError),
    ("format padding", "SELECT format('%.1000000000f', 1.0)", ForbiddenSqlError),
    ("char", "SELECT char(1, 2, 3)", ForbiddenSqlError),
    ("quote", "SELECT quote(city) FROM people", ForbiddenSqlError),
    ("text, doubling", nested(8, "v || v || v || v || v || v || v || v"), TooComplexError),
    ("long text times long text", f"SELECT {'||'.join(['x'] * 30)} FROM (SELECT {LONG} AS x)", CellError),
    ("trim, quadratic", f"SELECT trim({LONG}, {LONG})", ForbiddenSqlError),
    ("ltrim, quadratic", "SELECT ltrim(city, city) FROM people", ForbiddenSqlError),
    ("a blob", "SELECT CAST(city AS BLOB) FROM people", CellError),
    ("a blob literal", "SELECT x'00ff'", CellError),
    ("CTEs that double", links(30, "SELECT 1 AS v FROM {} x, {} y"), TooComplexError),
    ("CTEs that double a count", links(30, "SELECT count(*) AS v FROM {} x, {} y"), TooComplexError),
    ("CTEs that double in unions", links(30, "SELECT v FROM {} UNION ALL SELECT v FROM {}"), TooComplexError),
    ("CTEs in quotes", links(30, "SELECT 1 AS v FROM '{}' x, [{}] y"), TooComplexError),
    ("CTEs behind comments", links(30, "SELECT/*'*/1 AS v FROM {} x,/*'*/{} y"), TooComplexError),
    ("columns that double", nested(12, "v + v + v + v + v + v + v + v"), TooComplexError),
    ("an unseen letter that doubles", nested(12, "v + v + v + v + v + v").replace("v", "\xa0"), TooComplexError),
    ("a cross join", f"SELECT count(*) FROM {joined(26)}", DeadlineError),
    ("a cross join with a sum", f"SELECT sum(p1.age * p2.age) FROM {joined(14)}", DeadlineError),
    ("a cross join that finds nothing", f"SELECT 1 FROM {joined(20)} WHERE p1.age + p2.age + p19.age < 0", DeadlineError),
    ("a window over a cross join", f"SELECT sum(p0.age) OVER () FROM {joined(30)}", DeadlineError),
    (
        "patterns over a cross join",
        f"SELECT count(*) FROM {joined(12)} WHERE {LONG} LIKE '%a%a%a%a%a%a%a%b' OR p1.city || {LONG} GLOB '*[a]*[a]*[a]*b'",
        DeadlineError,
    ),
    ("a sorted cross join", f"SELECT p1.city || {LONG} AS c FROM {joined(12)} ORDER BY c", TooMuchMemoryError),
    ("distinct rows", f"SELECT count(DISTINCT p0.id) FROM {joined(3)}", NotSharedError),
    ("rows kept for later", f"WITH b AS MATERIALIZED (SELECT {LONG} || p0.age v FROM {joined(20)}) SELECT 1 FROM b", TooMuchMemoryError),
    ("many rows", f"SELECT 1 FROM {joined(6)}", TooManyRowsError),
    ("many long rows", f"SELECT {LONG}, {LONG} || 1 FROM {joined(4)}", TooMuchMemoryError),
]


def outcome(vault: Vault, sql: str, **options: Any) -> tuple[str, str | list[tuple[guard.Cell, ...]]]:
    try:
        rows = run(vault, sql, **options)
    except DeniableError as error:
        return type(error).__name__, str(error)
    return "rows", list(rows)


def folder_state(vault: Vault) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vault.path.parent.iterdir()}


def test_the_list_is_long_and_names_each_attack_once() -> None:
    assert len({name for name, _, _ in HOSTILE}) == len(HOSTILE) >= 40
    assert len({sql for _, sql, _ in HOSTILE}) == len(HOSTILE)


@pytest.mark.parametrize("isolated", [False, True], ids=["inside", "isolated"])
@pytest.mark.parametrize(("sql", "error"), [(sql, error) for _, sql, error in HOSTILE], ids=[name for name, _, _ in HOSTILE])
def test_hostile_sql_is_refused_in_time_and_leaves_no_trace(
    twins: tuple[Vault, Vault], sql: str, error: type[SandboxError], isolated: bool
) -> None:
    before = folder_state(twins[0])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    with pytest.raises(SandboxError) as caught:
        # The row cap is out of reach where memory is what must stop it.
        run(twins[0], sql, deadline=DEADLINE, max_rows=10_000, max_memory=MEMORY, isolated=isolated)
    elapsed = time.monotonic() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * (1 if sys.platform == "darwin" else 1024)
    assert type(caught.value) is error, caught.value
    assert elapsed < DEADLINE + MARGIN
    assert grown < 2 * MEMORY
    assert folder_state(twins[0]) == before


@pytest.mark.parametrize("sql", [sql for _, sql, _ in HOSTILE], ids=[name for name, _, _ in HOSTILE])
def test_nothing_undeclared_makes_a_difference(twins: tuple[Vault, Vault], sql: str) -> None:
    # The twins differ in all that is not shared: if no query can tell them apart, none reads what is not shared.
    options: dict[str, Any] = {"deadline": DEADLINE / 4, "max_rows": 10_000, "max_memory": MEMORY, "isolated": False}
    one, two = outcome(twins[0], sql, **options), outcome(twins[1], sql, **options)
    resources = {"DeadlineError", "TooMuchMemoryError"}  # which of the two ends a bomb first is a matter of the machine
    assert one == two or {one[0], two[0]} <= resources


def test_the_twins_would_be_told_apart_without_the_sandbox(twins: tuple[Vault, Vault]) -> None:
    told = 0
    for _, sql, error in HOSTILE:
        if error is NotSharedError or "NATURAL" in sql or "USING" in sql:
            answers = []
            for vault in twins:
                connection = sqlite3.connect(vault.uri, uri=True)
                try:
                    answers.append(str(connection.execute(sql).fetchall()))
                except sqlite3.Error as failure:
                    answers.append(str(failure))
                connection.close()
            told += answers[0] != answers[1]
    assert told >= 25


# What it does, the SQL, and the answer worked out by hand from PEOPLE and VISITS.
BENIGN: list[tuple[str, str, list[tuple[guard.Cell, ...]]]] = [
    ("columns", "SELECT age, city FROM people ORDER BY city, age", [(31, "Lyon"), (31, "Lyon"), (58, "Metz"), (None, "Nice"), (44, "Nice")]),
    ("a count", "SELECT count(*) FROM people", [(5,)]),
    ("a condition", "SELECT count(*) FROM people WHERE age BETWEEN 30 AND 50 AND city <> 'Nice'", [(2,)]),
    ("aggregates", "SELECT min(age), max(age), sum(age), avg(age), total(age) FROM people", [(31, 58, 164, 41.0, 164.0)]),
    ("groups", "SELECT city, count(*) n FROM people GROUP BY city HAVING n > 1 ORDER BY 1", [("Lyon", 2), ("Nice", 2)]),
    ("distinct values", "SELECT DISTINCT city FROM people ORDER BY city DESC", [("Nice",), ("Metz",), ("Lyon",)]),
    ("NULL handling", "SELECT coalesce(age, -1), ifnull(age, 0), nullif(city, 'Nice') FROM people WHERE age IS NULL", [(-1, 0, None)]),
    ("a case", "SELECT sum(CASE WHEN age >= 40 THEN 1 ELSE 0 END), sum(iif(age < 40, 1, 0)) FROM people", [(2, 2)]),
    ("text functions", "SELECT upper(city), lower(city), substr(city, 2, 2), length(trim('  x '))"
     " FROM people WHERE age = 58", [("METZ", "metz", "et", 1)]),
    ("patterns", "SELECT count(*) FROM people WHERE city LIKE 'n%' OR city GLOB 'L*n' OR instr(city, 'etz')", [(5,)]),
    ("arithmetic", "SELECT round(abs(-7.25), 1), 7 / 2, 7 % 4, 7 / 2.0, 1 << 4, CAST('12' AS INTEGER)", [(7.3, 3, 3, 3.5, 16, 12)]),
    ("a join", "SELECT sum(v.minutes) FROM visits v JOIN visits w ON v.person = w.person AND v.at < w.at", [(12.5,)]),
    ("a left join", "SELECT count(*), count(v.at) FROM people p LEFT JOIN visits v ON v.person = p.age - 30", [(7, 4)]),
    ("a subquery", "SELECT age FROM people WHERE age > (SELECT avg(age) FROM people) ORDER BY age", [(44,), (58,)]),
    ("a correlated subquery", "SELECT count(*) FROM people p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.person = p.age - 54)", [(1,)]),
    ("a chain of CTEs", "WITH a AS (SELECT person, sum(minutes) m FROM visits GROUP BY person), b AS (SELECT max(m) top FROM a)"
     " SELECT a.person FROM a JOIN b ON a.m = b.top", [(4,)]),
    ("counting a CTE", "WITH old AS (SELECT age FROM people WHERE age > 40) SELECT count(*) FROM old", [(2,)]),
    ("counting a subquery", "SELECT count(*) FROM (SELECT city FROM people GROUP BY city)", [(3,)]),
    ("a CTE with a table's name", "WITH diary(entry) AS (SELECT age FROM people WHERE age = 58) SELECT entry FROM diary", [(58,)]),
    ("a union", "SELECT age FROM people WHERE age > 50 UNION SELECT person FROM visits ORDER BY 1", [(1,), (4,), (58,)]),
    ("a window", "SELECT at, sum(minutes) OVER (PARTITION BY person ORDER BY at) FROM visits WHERE person = 1 ORDER BY at",
     [("2026-03-01 08:15:00", 12.5), ("2026-03-02 23:59:59", 15.5)]),
    ("the latest row", "SELECT minutes FROM (SELECT minutes, row_number() OVER (ORDER BY at DESC) r FROM visits) WHERE r = 1", [(40.0,)]),
    ("dates", "SELECT strftime('%Y-%m', at) AS month, count(*) FROM visits GROUP BY month", [("2026-03", 2), ("2026-04", 1)]),
    ("date arithmetic", "SELECT date(at, '+1 month', 'start of month', '-1 day'), time(at) FROM visits WHERE person = 4",
     [("2026-04-30", "12:00:00")]),
    ("seconds", "SELECT julianday('2026-03-02') - julianday('2026-03-01'), datetime(0, 'unixepoch')", [(1.0, "1970-01-01 00:00:00")]),
    ("dates that are none", "SELECT date(city), date(NULL), date('snow'), date('2026-01-01', 'sideways') FROM people WHERE age = 58",
     [(None, None, None, None)]),
    ("upper-case names", "SELECT AGE FROM PEOPLE WHERE Age = 58", [(58,)]),
    ("quoted names", 'SELECT "age" FROM [people] WHERE `age` = 58', [(58,)]),
    ("comments and a semicolon", "-- how old\nSELECT /* ; DROP */ max(age) FROM people; -- done", [(58,)]),
    ("infinity", "SELECT 9e999, -9e999", [(float("inf"), float("-inf"))]),
    ("letters of all kinds", "SELECT 'é 漢 🜁' AS \"größe\"", [("é 漢 🜁",)]),
    ("no rows", "SELECT age FROM people WHERE age > 1000", []),
]  # fmt: skip


@pytest.mark.parametrize("isolated", [False, True], ids=["inside", "isolated"])
@pytest.mark.parametrize(("sql", "answer"), [(sql, answer) for _, sql, answer in BENIGN], ids=[name for name, _, _ in BENIGN])
def test_plain_sql_gives_the_right_answer_on_both_twins(
    twins: tuple[Vault, Vault], sql: str, answer: list[tuple[guard.Cell, ...]], isolated: bool
) -> None:
    for vault in twins:
        rows = run(vault, sql, isolated=isolated, deadline=20)
        assert [*map(repr, rows)] == [*map(repr, answer)]  # 1 and 1.0 are equal, and differ


def test_every_function_on_the_list_is_one_that_sqlite_has_and_can_be_called(twins: tuple[Vault, Vault]) -> None:
    windows = {"dense_rank", "rank", "row_number", "lag", "lead", "first_value", "last_value"}
    two = {"glob", "ifnull", "instr", "like", "mod", "nullif", "pow", "power", "substr", "substring", "coalesce", "strftime"}
    for name in sorted(guard.FUNCTIONS | set(guard.CALENDAR)):
        arguments = "" if name.endswith(("rank", "number")) else "1, 1, 1" if name == "iif" else "1, 1" if name in two else "1"
        run(twins[0], f"SELECT {name}({arguments}){' OVER ()' if name in windows else ''}", isolated=False)


def test_every_function_off_the_list_is_refused(twins: tuple[Vault, Vault]) -> None:
    connection = sqlite3.connect(":memory:")
    functions = {(name, max(n, 0)) for name, n in connection.execute("SELECT name, narg FROM pragma_function_list")}
    modules = {row[0] for row in connection.execute("SELECT name FROM pragma_module_list")}
    pragmas = {f"pragma_{row[0]}" for row in connection.execute("SELECT name FROM pragma_pragma_list")}
    connection.close()
    others = {(name, n) for name, n in functions if name not in guard.FUNCTIONS | set(guard.CALENDAR)}
    assert len(others) > 50
    for name, n in others:
        with pytest.raises((ForbiddenSqlError, BadSqlError)):
            run(twins[0], f'SELECT "{name}"({", ".join(["1"] * n)})', isolated=False)
    assert len(modules | pragmas) > 20
    for name in modules | pragmas:
        with pytest.raises(SandboxError):
            run(twins[0], f"SELECT count(*) FROM {name}", isolated=False)
        with pytest.raises(SandboxError):  # even under cover of a common table expression of the same name
            run(twins[0], f"SELECT (WITH {name} AS (SELECT 1) SELECT count(*) FROM {name}), (SELECT count(*) FROM {name})", isolated=False)


def test_what_is_absent_and_what_is_unshared_sound_the_same(twins: tuple[Vault, Vault]) -> None:
    for there, absent in (("diary", "diarx"), ("people.salary", "people.salarx")):
        text = "SELECT count(*) FROM {}" if "." not in there else "SELECT {} FROM people"
        messages = [outcome(twins[0], text.format(name), isolated=False)[1] for name in (there, absent)]
        assert messages == [f"{there} is not shared", f"{absent} is not shared"]


def test_a_row_too_many_is_refused_and_not_cut(twins: tuple[Vault, Vault]) -> None:
    assert len(run(twins[0], "SELECT age FROM people", max_rows=5, isolated=False)) == 5
    with pytest.raises(TooManyRowsError, match="more than max_rows = 4"):
        run(twins[0], "SELECT age FROM people", max_rows=4, isolated=False)


def test_rows_know_their_columns_and_hide_their_cells(twins: tuple[Vault, Vault]) -> None:
    rows = run(twins[0], "SELECT age AS years, city FROM people WHERE age = 58", isolated=False)
    assert rows.columns == ("years", "city")
    assert rows[0] == (58, "Metz")
    assert rows[:1] == ((58, "Metz"),)
    assert isinstance(rows, Rows)
    assert "58" not in f"{rows!r} {rows}"
    assert "Metz" not in f"{rows!r} {rows}"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[Vault, sqlite3.Connection]]:
    vault = Vault.create(tmp_path / "small vault?100%.db")
    connection = sqlite3.connect(vault.path, isolation_level=None)
    connection.execute("CREATE TABLE t (a, b, c)")
    vault.share("t", ["a"])
    yield vault, connection
    connection.close()


@pytest.mark.parametrize("isolated", [False, True], ids=["inside", "isolated"])
def test_cells_that_are_no_answer_are_refused_without_being_shown(small: tuple[Vault, sqlite3.Connection], isolated: bool) -> None:
    vault, connection = small
    for cell in ("CAST(x'6869ff68696464656e' AS TEXT)", "x'68696464656e'", f"'hidden{'x' * guard.LARGEST_CELL}'"):
        connection.execute("DELETE FROM t")
        connection.execute(f"INSERT INTO t (a) VALUES ({cell})")  # noqa: S608 - the cells above
        with pytest.raises(CellError) as caught:
            run(vault, "SELECT a FROM t", isolated=isolated)
        assert "hi" not in str(caught.value).replace("this", "")
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert run(vault, "SELECT count(a) FROM t", isolated=isolated)[0] == (1,)


def test_shares_end_when_something_else_takes_the_tables_place(small: tuple[Vault, sqlite3.Connection]) -> None:
    vault, connection = small
    connection.execute("INSERT INTO t VALUES (1, 2, 3)")
    replacements = [
        ("CREATE VIEW t AS SELECT b AS a FROM old", "DROP VIEW t"),
        ("CREATE VIRTUAL TABLE t USING fts5(a)", "DROP TABLE t"),
        ("CREATE TABLE t (b, a AS (b + 1))", "DROP TABLE t"),
        ("CREATE TABLE t (b)", "DROP TABLE t"),
    ]
    connection.execute("ALTER TABLE t RENAME TO old")
    for make, drop in replacements:
        connection.execute(make)
        with pytest.raises(NotSharedError):
            run(vault, "SELECT a FROM t", isolated=False)
        assert vault.shares() == {}
        connection.execute(drop)
    connection.execute("ALTER TABLE old RENAME TO t")
    assert run(vault, "SELECT a FROM t", isolated=False)[0] == (1,)


def test_rows_never_come_in_the_order_of_an_unshared_column(small: tuple[Vault, sqlite3.Connection]) -> None:
    vault, connection = small
    connection.executemany("INSERT INTO t VALUES (?, ?, 0)", [(i, -i) for i in range(100)])
    for index in ("t (b, a)", "t (a, b)", "t (a) WHERE b > 0", "t (a + b)"):
        connection.execute(f"CREATE INDEX i ON {index}")
        with pytest.raises(NotSharedError):
            run(vault, "SELECT a FROM t LIMIT 1", isolated=False)
        with pytest.raises(VaultError, match="index 'i' of t covers columns that are not shared"):
            vault.share("t", ["c"])
        connection.execute("DROP INDEX i")
    connection.execute("CREATE INDEX i ON t (a)")
    assert run(vault, "SELECT a FROM t LIMIT 1", isolated=False)[0] == (0,)


def test_what_is_unshared_is_refused_from_the_next_query_on(small: tuple[Vault, sqlite3.Connection]) -> None:
    vault, _ = small
    run(vault, "SELECT a FROM t", isolated=False)
    vault.unshare("t", ["a"])
    with pytest.raises(NotSharedError):
        run(vault, "SELECT a FROM t", isolated=False)
    with pytest.raises(NotSharedError):
        run(vault, "SELECT count(*) FROM t", isolated=False)


def test_a_vault_that_is_being_written_is_waited_for_and_then_given_up(small: tuple[Vault, sqlite3.Connection]) -> None:
    vault, connection = small
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(VaultError, match="SQLITE_BUSY"):
        run(vault, "SELECT a FROM t", deadline=0.1, isolated=False)
    connection.execute("COMMIT")
    assert len(run(vault, "SELECT a FROM t", isolated=False)) == 0


def test_a_file_that_is_no_vault_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"x" * 5000)
    for name in ("noise", "absent"):
        with pytest.raises(VaultError, match="cannot be read"):
            run(Vault(tmp_path / name), "SELECT 1", isolated=False)
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    "caps",
    [{"deadline": 0}, {"deadline": float("nan")}, {"deadline": True}, {"deadline": 1e9}, {"max_rows": 0}, {"max_rows": 1.5}, {"max_memory": 1000}],
    ids=str,
)  # fmt: skip
def test_caps_that_make_no_sense_are_refused(twins: tuple[Vault, Vault], caps: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(caps))):
        run(twins[0], "SELECT 1", **caps)


def test_a_process_that_does_not_answer_is_killed(
    twins: tuple[Vault, Vault], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(guard, "__file__", str(sleeper))
    monkeypatch.setattr("deniable.client.sandbox._START_UP", 0.1)
    start = time.monotonic()
    with pytest.raises(DeadlineError):
        run(twins[0], "SELECT 1", deadline=0.1)
    assert time.monotonic() - start < MARGIN


def test_a_process_that_breaks_is_an_error_of_the_tree(
    twins: tuple[Vault, Vault], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(3)")
    monkeypatch.setattr(guard, "__file__", str(broken))
    with pytest.raises(SandboxError, match="code 3"):
        run(twins[0], "SELECT 1")


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux only")
def test_the_process_survives_what_sqlite_does_before_it_calls_back(twins: tuple[Vault, Vault]) -> None:
    # Straight to the process, past the check of the text: SQLite copies 2**26 subqueries before it runs anything.
    from deniable.client.sandbox import _in_a_process  # noqa: PLC0415 - only here is the outer wall tried alone

    sql = links(26, "SELECT 1 AS v FROM {} x, {} y")
    task = {"uri": twins[0].uri, "sql": sql, "deadline": DEADLINE, "max_rows": 10, "max_memory": MEMORY}
    start = time.monotonic()
    with pytest.raises(guard.RefusedError) as caught:
        _in_a_process(task)
    assert caught.value.reason in ("memory", "deadline")
    assert time.monotonic() - start < 2 * MARGIN + DEADLINE
    json.dumps(caught.value.detail)


def test_growth_bounds_what_sqlite_copies() -> None:
    assert growth("SELECT a FROM t WHERE a > 1 AND a < 9 OR a = 20") == 15
    for n in range(2, 12):
        assert growth(links(n, "SELECT 1 AS v FROM {} x, {} y")) >= 2 ** (n - 1)
        assert growth(nested(n, "v + v + v")) >= 3**n
        assert growth(nested(n, "(v) + \"v\" + [V]")) >= 3**n
    assert growth(nested(3, "v")) < LARGEST_GROWTH


def test_the_worst_text_that_passes_still_compiles_in_time(twins: tuple[Vault, Vault]) -> None:
    passed = 0
    bodies = ["SELECT 1 AS v FROM {} x, {} y", "SELECT count(*) AS v FROM {} x, {} y", "SELECT x.v + y.v AS v FROM {} x, {} y LIMIT 9"]
    texts = [links(n, body) for n in range(2, 20) for body in bodies]
    texts += [nested(n, "+".join(["v"] * k)) for n in range(2, 14) for k in (2, 3, 5, 9)]
    for sql in texts:
        if growth(sql) <= LARGEST_GROWTH:
            passed += 1
            start = time.monotonic()
            outcome(twins[0], sql, deadline=DEADLINE, isolated=False)
            assert time.monotonic() - start < DEADLINE + MARGIN, sql
    assert passed > 20
