# ruff: noqa: S608, E501 - SQL put together on purpose, and a table reads better with one row a line
"""SQL that means harm, SQL that does not, and the vault both are tried on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from deniable.client import Vault
from deniable.errors import (
    BadSqlError,
    CellError,
    DeadlineError,
    ForbiddenSqlError,
    NotGrantedError,
    SandboxError,
    TooComplexError,
    TooManyRowsError,
    TooMuchMemoryError,
)
from deniable.sql import guard

__all__ = ["BENIGN", "HEX_LITERAL", "HOSTILE", "QUOTED", "STOPPED", "build", "links", "nested"]

# A bomb that runs is stopped by one of these; which comes first depends on the machine.
STOPPED = (DeadlineError, TooMuchMemoryError, TooManyRowsError)

# age, city: granted
PEOPLE = [(31, "Lyon"), (44, "Nice"), (31, "Lyon"), (58, "Metz"), (None, "Nice")]
VISITS = [
    (1, 12.5, "2026-03-01 08:15:00"),
    (1, 3.0, "2026-03-02 23:59:59"),
    (4, 40.0, "2026-04-30 12:00:00"),
]


_SCHEMAS = {
    1: (
        """
        CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER, city TEXT, salary INTEGER, note TEXT);
        CREATE TABLE visits (person INTEGER, minutes REAL, at TEXT, place TEXT);
        CREATE TABLE made (x INTEGER, double_salary INTEGER AS (2 * x));
        """
    ),
    # What is granted has the same names and affinities here. All else differs: other columns (one
    # without a name, one about health), types as they are written, keys, defaults, collations,
    # indexes that walk the rows in the order of hidden columns.
    2: (
        """
        CREATE TABLE people (salary BIGINT NOT NULL DEFAULT 7, hiv TEXT, age BIGINT CHECK (age > 0), "" TEXT, id TEXT UNIQUE,
                             city VARCHAR(30) COLLATE NOCASE DEFAULT 'Brest', note TEXT, double_salary AS (2 * salary) STORED);
        CREATE TABLE visits (at CLOB, minutes DOUBLE, person INT, place TEXT, PRIMARY KEY (place, at, minutes)) WITHOUT ROWID;
        CREATE INDEX by_salary ON people (salary, city);
        CREATE INDEX by_age ON people (age DESC) WHERE salary > 2002;
        CREATE TABLE trips (hiv TEXT);
        """
    ),
}
_COMMON = """
    CREATE TABLE diary (day INTEGER PRIMARY KEY AUTOINCREMENT, entry TEXT, salary INTEGER);
    CREATE INDEX by_entry ON diary (entry);
    CREATE VIEW rich AS SELECT age, salary FROM people WHERE salary > 500;
    CREATE VIEW ages AS SELECT age FROM people;
    CREATE TRIGGER spy AFTER INSERT ON visits BEGIN INSERT INTO diary (entry) VALUES (new.place); END;
    CREATE VIRTUAL TABLE search USING fts5(words);
    """


def build(path: Path, secret: int) -> Vault:
    """A vault of which all that is not granted depends on `secret` (1 or 2), and nothing that is
    granted does."""
    vault = Vault.create(path)
    if secret == 2:
        _recode(path, "UTF-16be", 1024)
    connection = sqlite3.connect(path)
    connection.executescript(_SCHEMAS[secret] + _COMMON)
    people = [
        (10 * secret + number, *row, 1000 * secret + number, f"note {secret}")
        for number, row in enumerate(PEOPLE)
    ]
    visits = [(*row, f"place {secret} {number}") for number, row in enumerate(VISITS)]
    for row in people[:: 1 if secret == 1 else -1]:
        connection.execute(
            "INSERT INTO people (id, age, city, salary, note) VALUES (?, ?, ?, ?, ?)", row
        )
    connection.executemany(
        "INSERT INTO visits (person, minutes, at, place) VALUES (?, ?, ?, ?)", visits
    )
    connection.executemany(
        "INSERT INTO diary (entry, salary) VALUES (?, ?)",
        [(f"entry {secret}", 1000 * secret)] * (secret + 2),
    )
    if secret == 1:
        connection.execute("INSERT INTO made (x) VALUES (1)")
    else:
        connection.execute("""UPDATE people SET hiv = 'positive', "" = 'nameless'""")
    connection.execute("INSERT INTO search VALUES (?)", (f"word{secret}",))
    connection.execute("ANALYZE")
    connection.commit()
    connection.close()
    vault.grant("people", ["age", "city"])
    vault.grant("visits", ["person", "minutes", "at"])
    return vault


def _recode(path: Path, encoding: str, page_size: int) -> None:
    """Write an empty vault again, in another encoding and with other pages."""
    with closing(sqlite3.connect(path)) as old:
        statements = [row[0] for row in old.execute("SELECT sql FROM sqlite_master")]
        marks = {
            name: old.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("user_version", "application_id")
        }
    path.write_bytes(b"")
    with closing(sqlite3.connect(path)) as new:
        for name, value in {
            "encoding": f"'{encoding}'",
            "page_size": page_size,
            "journal_mode": "WAL",
            **marks,
        }.items():
            new.execute(f"PRAGMA {name} = {value}")
        for statement in statements:
            new.execute(statement)


def links(n: int, body: str) -> str:
    """A chain of common table expressions, each made of the one before it, written in `body` as
    {}."""
    parts = ["c0 AS (SELECT 1 AS v)"] + [
        f"c{i} AS ({body.replace('{}', f'c{i - 1}')})" for i in range(1, n)
    ]
    return f"WITH {', '.join(parts)} SELECT v FROM c{n - 1}"


def nested(n: int, expression: str) -> str:
    sql = "SELECT age AS v FROM people"
    for _ in range(n):
        sql = f"SELECT {expression} AS v FROM ({sql})"
    return sql


def joined(n: int) -> str:
    return ", ".join(f"people p{i}" for i in range(n))


HEX_LITERAL = (
    "SELECT salary FROM (SELECT NULL AS salary) a JOIN (SELECT 1) b ON 0x1natural full JOIN diary"
)
"""Up to 3.45 SQLite ends a hex literal where its digits end, so `natural` is a word of its own
here, and to no other reader."""

LONG = f"'{'a' * 3000}'"

# What it tries, the SQL, and how it must be refused.
HOSTILE: list[tuple[str, str, type[SandboxError]]] = [
    # other tables
    ("a withheld table", "SELECT entry FROM diary", NotGrantedError),
    ("the number of its rows", "SELECT count(*) FROM diary", NotGrantedError),
    ("whether it has rows", "SELECT EXISTS (SELECT 1 FROM diary)", NotGrantedError),
    ("a table as a set", "SELECT 'entry 1' IN (SELECT entry FROM diary)", NotGrantedError),
    ("a table as a set, by name", "SELECT (1, 'entry 1', 1000) IN diary", NotGrantedError),
    ("a table by schema", "SELECT * FROM main.diary", NotGrantedError),
    ("a table in quotes", 'SELECT "entry" FROM "DIARY"', NotGrantedError),
    ("a table in brackets", "SELECT d.[entry] FROM [diary] AS d", NotGrantedError),
    ("a table under an alias", "SELECT people.entry FROM diary AS people", NotGrantedError),
    (
        "a table in a union",
        "SELECT age FROM people UNION ALL SELECT entry FROM diary",
        NotGrantedError,
    ),
    (
        "a table as a limit",
        "SELECT age FROM people LIMIT (SELECT count(*) FROM diary)",
        NotGrantedError,
    ),
    ("a table that is not there", "SELECT x FROM nowhere", NotGrantedError),
    ("a join without a condition", "SELECT p.age FROM people p LEFT JOIN diary", NotGrantedError),
    ("a full join on nothing", "SELECT p.age FROM people p FULL JOIN diary ON 1", NotGrantedError),
    (
        "a count inside a count",
        "SELECT count(*) FROM (SELECT 1 FROM (SELECT 2 FROM diary))",
        NotGrantedError,
    ),
    (
        "a count of a union",
        "SELECT count(*) FROM (SELECT 1 FROM people UNION ALL SELECT 2 FROM diary)",
        NotGrantedError,
    ),
    (
        "a CTE that is not read",
        "WITH d AS (SELECT 1 FROM diary) SELECT count(*) FROM d, people",
        NotGrantedError,
    ),
    ("a scalar", "SELECT (SELECT 7 FROM diary LIMIT 1 OFFSET 3)", NotGrantedError),
    ("a row of a table", "SELECT (SELECT * FROM diary) = (1, 'entry 1', 1000)", NotGrantedError),
    ("the declaration itself", "SELECT * FROM deniable_shared", NotGrantedError),
    ("a view of withheld columns", "SELECT salary FROM rich", NotGrantedError),
    ("a view of granted columns", "SELECT age FROM ages", NotGrantedError),
    ("the number of a view's rows", "SELECT count(*) FROM rich", NotGrantedError),
    (
        "a CTE with a view's name",
        "WITH rich AS (SELECT salary FROM people) SELECT * FROM rich",
        NotGrantedError,
    ),
    ("a generated column", "SELECT double_salary FROM made", NotGrantedError),
    # withheld columns
    ("a withheld column", "SELECT salary FROM people", NotGrantedError),
    ("a column that is not there", "SELECT wings FROM people", NotGrantedError),
    ("a column in a condition", "SELECT count(*) FROM people WHERE salary > 500", NotGrantedError),
    ("a column in an order", "SELECT age FROM people ORDER BY salary LIMIT 1", NotGrantedError),
    ("a column in a group", "SELECT count(*) FROM people GROUP BY note", NotGrantedError),
    (
        "a column in HAVING",
        "SELECT city FROM people GROUP BY city HAVING max(salary) > 5",
        NotGrantedError,
    ),
    ("a column in a subquery", "SELECT s FROM (SELECT salary AS s FROM people)", NotGrantedError),
    (
        "a column in a CTE",
        "WITH s(x) AS (SELECT salary FROM people) SELECT x FROM s",
        NotGrantedError,
    ),
    (
        "a correlated subquery",
        "SELECT (SELECT 1 FROM visits v WHERE v.place = p.city) FROM people p",
        NotGrantedError,
    ),
    ("a join condition", "SELECT 1 FROM people p JOIN visits v ON p.note = v.at", NotGrantedError),
    ("a filter", "SELECT count(*) FILTER (WHERE salary > 1) FROM people", NotGrantedError),
    ("a window's order", "SELECT rank() OVER (ORDER BY salary) FROM people", NotGrantedError),
    (
        "a window's partition",
        "SELECT count(*) OVER w FROM people WINDOW w AS (PARTITION BY note)",
        NotGrantedError,
    ),
    ("a column's type", "SELECT typeof(salary) FROM people", NotGrantedError),
    ("a column's length", "SELECT max(length(note)) FROM people", NotGrantedError),
    ("the key", "SELECT id FROM people", NotGrantedError),
    ("the row number as key", "SELECT rowid FROM people", NotGrantedError),
    ("the row number", "SELECT rowid FROM visits", NotGrantedError),
    ("the row number by another name", "SELECT oid FROM visits", NotGrantedError),
    (
        "the row number by a third name",
        "SELECT count(*) FROM visits WHERE _rowid_ = 2",
        NotGrantedError,
    ),
    (
        "USING over a withheld column",
        "SELECT count(*) FROM people JOIN (SELECT 1001 AS salary) USING (salary)",
        BadSqlError,
    ),
    (
        "NATURAL over a withheld table",
        "SELECT count(*) FROM diary NATURAL JOIN (SELECT 'entry 1' AS entry)",
        NotGrantedError,
    ),
    (
        "USING between two tables",
        "SELECT p.age FROM people p FULL JOIN diary d USING(salary)",
        NotGrantedError,
    ),
    (
        "NATURAL behind a comment",
        "SELECT count(*) FROM people/**/natural/**/left JOIN diary",
        NotGrantedError,
    ),
    ("NATURAL behind a hex literal", HEX_LITERAL, NotGrantedError),
    (
        "USING behind a hex literal",
        "SELECT a.age FROM people a JOIN people b ON 0x1using(salary)",
        BadSqlError,
    ),
    ("a column without a name, in brackets", "SELECT people.[] FROM people", NotGrantedError),
    (
        "a column without a name, in an order",
        "SELECT age FROM people ORDER BY people.`` LIMIT 1",
        NotGrantedError,
    ),
    ("group_concat", "SELECT group_concat(salary) FROM people", ForbiddenSqlError),
    # the schema, the engine, the connection
    ("sqlite_master", "SELECT sql FROM sqlite_master", NotGrantedError),
    ("sqlite_schema", "SELECT name FROM sqlite_schema", NotGrantedError),
    ("the number of tables", "SELECT count(*) FROM sqlite_master", NotGrantedError),
    ("the temporary schema", "SELECT * FROM sqlite_temp_master", NotGrantedError),
    ("the number of temporary tables", "SELECT count(*) FROM temp.sqlite_schema", NotGrantedError),
    ("sqlite_sequence", "SELECT seq FROM sqlite_sequence", NotGrantedError),
    ("sqlite_stat1", "SELECT stat FROM sqlite_stat1", NotGrantedError),
    ("a pragma", "PRAGMA table_info(diary)", ForbiddenSqlError),
    ("a pragma as a table", "SELECT name FROM pragma_table_info('diary')", ForbiddenSqlError),
    ("counting a pragma", "SELECT count(*) FROM pragma_table_list", ForbiddenSqlError),
    ("the path of the file", "SELECT file FROM pragma_database_list", ForbiddenSqlError),
    ("lifting the guard", "PRAGMA query_only = 0", ForbiddenSqlError),
    ("the pages of the file", "SELECT count(*) FROM dbstat", ForbiddenSqlError),
    ("the statements", "SELECT count(*) FROM sqlite_stmt", ForbiddenSqlError),
    ("full text search", "SELECT words FROM search WHERE search MATCH 'word1'", NotGrantedError),
    ("the parts of the search", "SELECT c0 FROM search_content", NotGrantedError),
    ("JSON as a table", "SELECT count(*) FROM json_each('[1,2]')", ForbiddenSqlError),
    ("JSON as a function", "SELECT json_array(1)", ForbiddenSqlError),
    ("a JSON operator", "SELECT city ->> 'x' FROM people", ForbiddenSqlError),
    ("generate_series", "SELECT count(*) FROM generate_series(1, 1000000000)", NotGrantedError),
    ("the version", "SELECT sqlite_version()", ForbiddenSqlError),
    ("the source", "SELECT sqlite_source_id()", ForbiddenSqlError),
    ("the build", "SELECT sqlite_compileoption_get(1)", ForbiddenSqlError),
    ("changes", "SELECT changes() + total_changes()", ForbiddenSqlError),
    ("the last row number", "SELECT last_insert_rowid()", ForbiddenSqlError),
    ("EXPLAIN", "EXPLAIN SELECT age FROM people", ForbiddenSqlError),
    (
        "EXPLAIN behind a comment",
        "/* SELECT */ EXPLAIN QUERY PLAN SELECT age FROM people",
        ForbiddenSqlError,
    ),
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
    ("the clock, as a blob", "SELECT datetime(CAST('now' AS BLOB))", ForbiddenSqlError),
    ("the clock, to the millisecond", "SELECT unixepoch('subsec')", ForbiddenSqlError),
    ("the time zone", "SELECT time(at, 'localtime') FROM visits", ForbiddenSqlError),
    ("the time zone, backwards", "SELECT time(12345.6, 'utc')", ForbiddenSqlError),
    ("chance", "SELECT age FROM people ORDER BY random() LIMIT 1", ForbiddenSqlError),
    (
        "a signal by time",
        "SELECT CASE WHEN age > 40 THEN randomblob(60000) ELSE 1 END FROM people",
        ForbiddenSqlError,
    ),
    # writes
    ("INSERT", "INSERT INTO people (age) VALUES (1)", ForbiddenSqlError),
    ("UPDATE", "UPDATE people SET age = 1", ForbiddenSqlError),
    ("DELETE", "DELETE FROM people", ForbiddenSqlError),
    ("REPLACE", "REPLACE INTO people (id, age) VALUES (1, 1)", ForbiddenSqlError),
    (
        "INSERT behind WITH",
        "WITH x AS (SELECT 1) INSERT INTO people (age) SELECT * FROM x",
        ForbiddenSqlError,
    ),
    (
        "UPDATE behind WITH",
        "WITH x AS (SELECT 1) UPDATE people SET age = 1 RETURNING age",
        ForbiddenSqlError,
    ),
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
    (
        "a second one behind a comment",
        "SELECT 1 -- nothing more\n; DROP TABLE people",
        ForbiddenSqlError,
    ),
    (
        "a second one behind a semicolon in a comment",
        "SELECT 1 /* ; */ ; /* */ SELECT 2",
        ForbiddenSqlError,
    ),
    ("a NUL byte", "SELECT 1\0; DROP TABLE people", BadSqlError),
    ("half a character", "SELECT '\ud800'", BadSqlError),
    ("nothing", "", ForbiddenSqlError),
    ("a comment only", "-- SELECT 1", ForbiddenSqlError),
    ("no SQL", "SELECT FROM WHERE", BadSqlError),
    ("an open quote", "SELECT 'age FROM people", BadSqlError),
    ("a parameter", "SELECT age FROM people WHERE age > ?", ForbiddenSqlError),
    ("a named parameter", "SELECT :age", ForbiddenSqlError),
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
    (
        "recursion",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        ForbiddenSqlError,
    ),
    (
        "recursion without its name",
        "WITH r(n) AS (VALUES (1) UNION SELECT n + 1 FROM r) SELECT n FROM r",
        ForbiddenSqlError,
    ),
    ("zeroblob", "SELECT length(zeroblob(1000000000))", ForbiddenSqlError),
    ("randomblob", "SELECT length(randomblob(1000000000))", ForbiddenSqlError),
    ("hex of zeros", "SELECT hex(zeroblob(500000000))", ForbiddenSqlError),
    (
        "replace, doubling",
        f"SELECT replace(replace({LONG}, 'a', 'aaaaaaaa'), 'a', {LONG})",
        ForbiddenSqlError,
    ),
    ("printf padding", "SELECT printf('%*d', 1000000000, 1)", ForbiddenSqlError),
    ("format padding", "SELECT format('%.1000000000f', 1.0)", ForbiddenSqlError),
    ("char", "SELECT char(1, 2, 3)", ForbiddenSqlError),
    ("quote", "SELECT quote(city) FROM people", ForbiddenSqlError),
    ("text, doubling", nested(8, "v || v || v || v || v || v || v || v"), DeadlineError),
    (
        "long text times long text",
        f"SELECT {'||'.join(['x'] * 30)} FROM (SELECT {LONG} AS x)",
        CellError,
    ),
    ("a blob", "SELECT CAST(city AS BLOB) FROM people", CellError),
    ("a blob literal", "SELECT x'00ff'", CellError),
    ("CTEs that double", links(30, "SELECT 1 AS v FROM {} x, {} y"), DeadlineError),
    ("CTEs that double a count", links(30, "SELECT count(*) AS v FROM {} x, {} y"), DeadlineError),
    (
        "CTEs that double in unions",
        links(30, "SELECT v FROM {} UNION ALL SELECT v FROM {}"),
        DeadlineError,
    ),
    ("CTEs in quotes", links(30, "SELECT 1 AS v FROM '{}' x, [{}] y"), DeadlineError),
    ("CTEs behind comments", links(30, "SELECT/*'*/1 AS v FROM {} x,/*'*/{} y"), DeadlineError),
    ("columns that double", nested(12, "v + v + v + v + v + v + v + v"), DeadlineError),
    (
        "an unseen letter that doubles",
        nested(12, "v + v + v + v + v + v").replace("v", "\xa0"),
        DeadlineError,
    ),
    (
        "byte order marks that double",
        nested(8, " + ".join("\ufeff" * i + "v" for i in range(6))),
        DeadlineError,
    ),
    ("an unknown collation", "SELECT city FROM people ORDER BY city COLLATE secret", BadSqlError),
    ("a cross join", f"SELECT count(*) FROM {joined(26)}", DeadlineError),
    ("a cross join with a sum", f"SELECT sum(p1.age * p2.age) FROM {joined(14)}", DeadlineError),
    (
        "a cross join that finds nothing",
        f"SELECT 1 FROM {joined(20)} WHERE p1.age + p2.age + p19.age < 0",
        DeadlineError,
    ),
    ("a window over a cross join", f"SELECT sum(p0.age) OVER () FROM {joined(30)}", DeadlineError),
    (
        "patterns over a cross join",
        (
            f"SELECT count(*) FROM {joined(9)} WHERE {'||'.join(f'p{i}.city' for i in range(9))} ||"
            f" {LONG} LIKE '%a%a%a%aaaaaaaaaaab'"
        ),
        DeadlineError,
    ),
    (
        "trim, quadratic",
        (
            f"SELECT trim({'||'.join(['x'] * 21)}, substr(y || y, 1, 5400) || 'a') FROM (SELECT"
            f" {LONG} x, {LONG.replace('a', 'b')} y)"
        ),
        DeadlineError,
    ),
    (
        "growth spelled apart",
        nested(10, " + ".join(f"[V]{'/**/' * i}" for i in range(6))),
        DeadlineError,
    ),
    (
        "growth through stars",
        "SELECT 1 FROM " + "(SELECT * FROM " * 3 + joined(30) + ")" * 3,
        DeadlineError,
    ),
    (
        "a sorted cross join",
        f"SELECT p1.city || {LONG} AS c FROM {joined(12)} ORDER BY c",
        TooMuchMemoryError,
    ),
    ("distinct rows", f"SELECT count(DISTINCT p0.id) FROM {joined(3)}", NotGrantedError),
    (
        "rows kept for later",
        f"WITH b AS MATERIALIZED (SELECT {LONG} || p0.age v FROM {joined(20)}) SELECT 1 FROM b",
        TooMuchMemoryError,
    ),
    ("many rows", f"SELECT 1 FROM {joined(6)}", TooManyRowsError),
    (
        "many long rows",
        f"SELECT {', '.join(['||'.join(['x'] * 15)] * 4)} FROM (SELECT {LONG} AS x), {joined(6)}",
        TooMuchMemoryError,
    ),
]


# Names in double quotes: SQLite takes those it does not find for texts, unless it is told not to
# (Python 3.12 can tell it).
QUOTED = [
    'SELECT "hiv" FROM people',
    'SELECT "hiv" FROM trips',
    'SELECT count("salary") FROM people',
    'SELECT "" FROM people',
    'SELECT count(*) FROM people WHERE "salary" > "entry"',
]

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
    ("all columns that are granted", "SELECT * FROM people WHERE age > 40 ORDER BY age", [(44, "Nice"), (58, "Metz")]),
    ("all columns of an alias", "SELECT p.* FROM people p WHERE age = 58", [(58, "Metz")]),
    ("NATURAL where nothing is in common", "SELECT count(*) FROM people NATURAL JOIN (SELECT 'note 1' AS note)", [(5,)]),
    ("NATURAL over a granted column", "SELECT count(*) FROM people NATURAL JOIN (SELECT 31 AS age)", [(2,)]),
    ("USING", "SELECT city FROM people JOIN (SELECT 58 AS age) USING (age)", [("Metz",)]),
    ("trim with a list of characters", "SELECT trim('xxyabyx', 'xy'), ltrim(city, 'Metz') FROM people WHERE age = 58", [("ab", "")]),
    ("the order of the cells", "SELECT age, city FROM people", [(None, "Nice"), (31, "Lyon"), (31, "Lyon"), (44, "Nice"), (58, "Metz")]),
]  # fmt: skip
