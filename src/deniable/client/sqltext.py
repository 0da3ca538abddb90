"""What can be told of an analyst's SQL before SQLite reads it.

Three things the authorizer and the progress handler cannot see, each tried on SQLite 3.40:

* `EXPLAIN SELECT` passes the authorizer as a SELECT, and shows the file's layout.
* The columns of `NATURAL JOIN` and `USING` are compared without asking the authorizer: `t NATURAL JOIN (SELECT 'x' AS secret)`
  tells whether the unshared column `secret` holds x, and the same works on tables that are not shared at all.
* Before it runs, SQLite copies the body of a common table expression for each mention, and the expression behind a subquery's
  column for each use. A chain of these doubles at each link: 18 links, 612 characters, take 1.3 s and 230 MB, and no callback
  is called meanwhile. :func:`growth` bounds the copies from the text.
"""

from __future__ import annotations

import re
from collections import Counter

from deniable.client.guard import LONGEST_SQL, RefusedError, fold

__all__ = ["LARGEST_GROWTH", "check", "growth"]

LARGEST_GROWTH = 500_000

_START = re.compile(r"(?:[ \t\n\f\r]|--[^\n]*\n|/\*.*?\*/)*(?:select|with)(?![\w$])", re.DOTALL | re.IGNORECASE)
_UNCHECKED_JOIN = re.compile(r"\b(natural|using)\b", re.ASCII | re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z)|\ufeff)  # SQLite skips a byte order mark before a token
    |(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])
    |(?P<word>[\w$\x80-\U0010ffff]+)  # to SQLite, all that is not ASCII is a letter
    |(?P<sign>[^\s])""",
    re.DOTALL | re.VERBOSE | re.ASCII,
)
# Reserved words name no column, so how often they stand there says nothing about copies.
# fmt: off
_RESERVED = frozenset(
    [
        "select", "from", "where", "and", "or", "not", "as", "on", "in", "is", "null", "join", "case", "when", "then", "else",
        "group", "order", "limit", "having", "distinct", "union", "all", "except", "intersect", "between", "exists", "values",
    ]
)
# fmt: on
_BLOCK_STARTS = ("select", "with", "values")


def check(sql: str) -> None:
    """Refuse a text that must not even be prepared; say nothing if it may."""
    if not isinstance(sql, str):
        raise RefusedError("bad sql", "the query must be a text")
    if "\0" in sql:
        raise RefusedError("bad sql", "the query holds a NUL character")
    try:
        size = len(sql.encode())
    except UnicodeEncodeError:
        raise RefusedError("bad sql", "the query is not valid Unicode text") from None
    if size > LONGEST_SQL:
        raise RefusedError("complex", f"the query has {size} bytes; at most {LONGEST_SQL} are allowed")
    if not _START.match(sql):
        raise RefusedError("forbidden", "a query must begin with SELECT or WITH")
    if found := _UNCHECKED_JOIN.search(sql):
        raise RefusedError(
            "forbidden", f"{found[1].upper()} is not allowed, not even as a word in a text: write the join with ON"
        )
    if growth(sql) > LARGEST_GROWTH:
        raise RefusedError("complex", "the query is too large: its subqueries multiply")


class _Block:
    """One SELECT with its own words; the words of the SELECTs inside it are theirs."""

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        self.has_inner = False

    def factor(self) -> int:
        """How many times, at most, this block copies one expression from inside: by mentions of a name (or of `*`, or of a column
        by number), and again by mentions of an alias for it."""
        factor = 1
        for _, times in self.words.most_common(2):
            factor *= times
        return factor


def growth(sql: str) -> int:
    """An upper bound on the number of tokens after SQLite has copied subqueries and expressions into their places.

    Each copy is made for a mention, and a chain of copies passes each SELECT at most once (recursion is denied), so the text
    grows by no more than the product of the factors of its SELECTs. A SELECT that holds no other, in a text without WITH,
    copies nothing.

    >>> growth("SELECT a + a AS b FROM (SELECT x + x AS a FROM t)")  # 17 tokens, each copied twice at most
    34
    """
    outermost = _Block()
    blocks, stack = [outermost], [outermost]
    n_tokens = 0
    opened = has_with = False
    for token in _TOKEN.finditer(sql):
        kind, text = token.lastgroup, token[0]
        if kind == "comment":
            continue
        n_tokens += 1
        word = fold(text)
        if opened:
            if word in _BLOCK_STARTS:
                stack[-1].has_inner = True
                blocks.append(_Block())
            stack.append(blocks[-1] if word in _BLOCK_STARTS else stack[-1])
        opened = word == "("
        has_with = has_with or word == "with"
        if word == ")" and len(stack) > 1:
            stack.pop()
        elif kind == "quoted":
            stack[-1].words[fold(text[1:-1])] += 1
        elif (kind == "word" and word not in _RESERVED) or word == "*":
            stack[-1].words[word] += 1
    product = n_tokens
    for block in blocks:
        if block.has_inner or has_with:
            product *= block.factor()
    return product
