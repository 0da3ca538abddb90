# ruff: noqa: S311, E501 - no secret randomness is needed, and a table reads better with one row a
# line
"""SQL texts made out of others, token by token as SQLite reads them: for tests that no text can
tell two vaults apart."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from toolkit.attacks.sql_texts import BENIGN, HEX_LITERAL, HOSTILE, QUOTED, STOPPED

__all__ = ["LISTED", "mutated"]

_SMALL = 600  # characters: bombs are tried one by one, and not in a thousand variations

# Ways to a table, a column or a clause that no list above has.
_MORE = [
    "SELECT * FROM people NATURAL JOIN visits",
    "SELECT * FROM people NATURAL LEFT JOIN diary",
    "SELECT * FROM people a NATURAL JOIN people b",
    "SELECT salary FROM people a JOIN people b USING (salary)",
    "SELECT * FROM people JOIN people p USING (age, city, salary)",
    "SELECT 1 FROM people FULL JOIN (SELECT 'positive' AS hiv) USING (hiv)",
    "SELECT count(*) FROM people NATURAL JOIN (SELECT 'positive' AS hiv)",
    "SELECT count(*) FROM people NATURAL JOIN (SELECT 'nameless' AS [])",
    "SELECT count(*) FROM (SELECT 'entry 1' AS entry) NATURAL RIGHT JOIN diary",
    "SELECT name, sql FROM sqlite_master ORDER BY name",
    "SELECT * FROM sqlite_schema WHERE type = 'table'",
    "SELECT * FROM pragma_table_info('people')",
    "SELECT p.name FROM pragma_table_xinfo('people') p",
    "SELECT * FROM pragma_index_list('people')",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_page_count, pragma_encoding, pragma_page_size",
    "SELECT * FROM dbstat",
    "SELECT * FROM sqlite_dbpage",
    "SELECT * FROM sqlite_stat1",
    "SELECT * FROM json_tree('[1]'), people",
    "SELECT value FROM generate_series(1, 5)",
    "SELECT rowid, * FROM people",
    "SELECT oid FROM people ORDER BY oid DESC LIMIT 1",
    "SELECT max(_rowid_) FROM visits",
    "SELECT people.rowid FROM people INDEXED BY by_age",
    "SELECT age FROM people NOT INDEXED LIMIT 1",
    "SELECT age FROM people LIMIT 1 OFFSET 1",
    "SELECT first_value(age) OVER () FROM people LIMIT 1",
    "SELECT lag(city) OVER (ROWS UNBOUNDED PRECEDING) FROM people",
    "SELECT row_number() OVER (), age FROM people",
    "SELECT age FROM people WHERE city = 'LYON'",
    "SELECT DISTINCT city COLLATE NOCASE FROM people",
    "SELECT count(*) FROM people WHERE city < 'a'",
    "SELECT typeof(age), typeof(city) FROM people",
    "SELECT min(city), age FROM people",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM diary) THEN abs(-9223372036854775808) ELSE 1 END",
    "SELECT CASE WHEN age > 50 THEN abs(-9223372036854775807 - 1) ELSE 1 END FROM people",
    "SELECT (SELECT salary FROM people p WHERE p.age = people.age) FROM people",
    "SELECT age FROM people WHERE (age, city) IN (SELECT age, city FROM people)",
    "SELECT (age, city) = (31, 'Lyon') FROM people",
    "WITH x(salary) AS (SELECT age FROM people) SELECT salary FROM x",
    "WITH people AS (SELECT * FROM main.people) SELECT * FROM people",
    "WITH diary AS (SELECT 1) SELECT * FROM main.diary",
    "WITH a AS (SELECT salary FROM people), b AS (SELECT 1 FROM a) SELECT count(*) FROM b",
    "VALUES (1), (2)",
    "SELECT * FROM (VALUES (1, 2)) NATURAL JOIN people",
    "SELECT age FROM temp.people",
    "SELECT age FROM main.people WHERE main.people.age = 58",
    "SELECT total_changes(), changes(), last_insert_rowid()",
    "SELECT count(*) FROM people, visits WHERE people.rowid = visits.rowid",
    "SELECT 1 AS age, salary FROM people ORDER BY salary",
    "SELECT city FROM people GROUP BY city HAVING min(rowid) > 10",
    "SELECT * FROM people ORDER BY 3",
    "SELECT sqlite_offset(age) FROM people",
    "SELECT age FROM people WHERE likely(salary)",
    "SELECT x'6869', 0x10, 1e1, .5, 1.",
    "SELECT age AS 'rowid', city AS \"\" FROM people",
]

LISTED: list[str] = list(
    dict.fromkeys(
        [
            HEX_LITERAL,
            *QUOTED,
            *_MORE,
            *(sql for _, sql, _ in BENIGN),
            *(sql for _, sql, e in HOSTILE if e not in STOPPED),
        ]
    )
)
"""Texts written by hand that end quickly."""

_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | \[[^\]]*\] | --[^\n]*\n? | /\*.*?\*/ | [\w$]+ | \s+ | .""",
    re.VERBOSE | re.DOTALL,
)
# fmt: off
_NAMES = [
    "age", "city", "person", "minutes", "at", "salary", "note", "id", "hiv", "rowid", "oid", "_rowid_", "entry", "day", "place",
    "double_salary", '""', "[]", "people", "visits", "diary", "rich", "ages", "made", "trips", "search", "deniable_shared",
    "sqlite_master", "sqlite_stat1", "sqlite_sequence", "table_name", "sql", "rootpage", "nothing",
]
_SPACES = ["\t", "\n", "\f", "\r", "/**/", "/*'*/", "--'\n", "\ufeff", " \ufeff", "/* SELECT */", "\x0b", "\xa0", ""]
_JOINS = [
    ",", " JOIN ", " NATURAL JOIN ", " NATURAL FULL JOIN ", " LEFT NATURAL JOIN ", " CROSS JOIN ", " NATURAL RIGHT OUTER JOIN ",
    " ON 0x1natural JOIN ", " ON 0xFnatural left JOIN ", " USING (salary) JOIN ", " ON 1e0 NATURAL JOIN ",
]
_WRAPS = [
    "SELECT * FROM ({})", "WITH c AS ({}) SELECT * FROM c", "SELECT EXISTS ({})", "SELECT count(*) FROM ({})", "SELECT ({})",
    "SELECT * FROM ({}) NATURAL JOIN people", "SELECT * FROM people NATURAL FULL JOIN ({})", "SELECT * FROM ({}) JOIN visits ON 0x1",
    "SELECT age FROM people WHERE age IN ({})", "{} UNION ALL SELECT 1", "SELECT * FROM (SELECT 1) JOIN ({}) ON 0x1natural JOIN diary",
    "WITH diary AS ({}) SELECT * FROM diary, main.diary", "SELECT max(salary) FROM ({})", "{};", "{} LIMIT 1", "{} ORDER BY 1",
]
# fmt: on
_Mutation = Callable[[random.Random, list[str]], None]


def _pick(dice: random.Random, tokens: list[str], wanted: Callable[[str], bool]) -> int | None:
    places = [i for i, token in enumerate(tokens) if wanted(token)]
    return dice.choice(places) if places else None


def _is_name(token: str) -> bool:
    return token.isidentifier() and token.lower() not in ("select", "with", "from", "as")


def _rename(dice: random.Random, tokens: list[str]) -> None:
    if (i := _pick(dice, tokens, _is_name)) is not None:
        tokens[i] = dice.choice(_NAMES)


def _quote(dice: random.Random, tokens: list[str]) -> None:
    if (i := _pick(dice, tokens, _is_name)) is not None:
        tokens[i] = dice.choice(
            ['"{}"', "`{}`", "[{}]", "'{}'", "main.{}", '"main".{}', "people.{}"]
        ).format(tokens[i])


def _respace(dice: random.Random, tokens: list[str]) -> None:
    if (i := _pick(dice, tokens, str.isspace)) is not None:
        tokens[i] = dice.choice(_SPACES)


def _recase(dice: random.Random, tokens: list[str]) -> None:
    if (i := _pick(dice, tokens, str.isalnum)) is not None:
        tokens[i] = dice.choice([str.upper, str.swapcase, str.title])(tokens[i])


def _rejoin(dice: random.Random, tokens: list[str]) -> None:
    if (
        i := _pick(
            dice,
            tokens,
            lambda token: token.upper() in (",", "JOIN", "FULL", "LEFT", "NATURAL", "WHERE"),
        )
    ) is not None:
        tokens[i] = dice.choice(_JOINS)


def _respell(dice: random.Random, tokens: list[str]) -> None:
    """A number glued to the word behind it: where it ends, SQLite's versions disagree."""
    if (i := _pick(dice, tokens, str.isdigit)) is not None:
        tokens[i] = dice.choice(
            ["0x{}", "0X0{}", "{}e0", "{}.", ".{}", "0x{}e", "{}_0", "{}x"]
        ).format(tokens[i])
        if i + 1 < len(tokens) and tokens[i + 1].isspace() and dice.random() < 0.7:
            tokens[i + 1] = ""


def _substitute(dice: random.Random, tokens: list[str]) -> None:
    """A letter that looks like another, or folds to it outside of ASCII."""
    if (i := _pick(dice, tokens, _is_name)) is not None:
        old, new = dice.choice(
            [
                ("k", "\u212a"),
                ("s", "\u017f"),
                ("i", "\u0131"),
                ("a", "\u0430"),
                ("e", "e\u0301"),
                ("o", "\uff4f"),
            ]
        )
        tokens[i] = tokens[i].replace(old, new)


def _drop(dice: random.Random, tokens: list[str]) -> None:
    del tokens[dice.randrange(len(tokens))]


def _double(dice: random.Random, tokens: list[str]) -> None:
    i = dice.randrange(len(tokens))
    tokens.insert(i, tokens[i])


def _wrap(dice: random.Random, tokens: list[str]) -> None:
    tokens[:] = _TOKEN.findall(dice.choice(_WRAPS).replace("{}", "".join(tokens).rstrip("; ")))


_MUTATIONS: list[_Mutation] = [
    *(
        _rename,
        _rename,
        _quote,
        _respace,
        _respace,
        _recase,
        _rejoin,
        _rejoin,
        _respell,
        _substitute,
        _drop,
        _double,
        _wrap,
        _wrap,
    )
]


def mutated(n: int, seed: int) -> list[str]:
    """`n` different texts, each made out of a listed one by one to four changes."""
    dice = random.Random(seed)
    seeds = [sql for sql in LISTED if len(sql) < _SMALL]
    found: dict[str, None] = {}
    while len(found) < n:
        tokens = _TOKEN.findall(dice.choice(seeds))
        for _ in range(dice.randint(1, 4)):
            if tokens:
                dice.choice(_MUTATIONS)(dice, tokens)
        sql = "".join(tokens)
        if sql not in LISTED and len(sql) < 2 * _SMALL:
            found[sql] = None
    return list(found)
