"""Vaults for a query's own SQL: made up so that it finds a different answer in each of two.

SQLite itself reports which tables and columns the SQL reads when a confined process compiles it
(:mod:`deniable.sql.checking`). Values come from the buckets: their bounds, values between them,
their labels. The SQL is then run on a vault with one such row, in the sandbox, as on a device.
Where that does not find two different answers (a condition on another column, say), the auditor
supplies two vaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deniable.client.sandbox import interface as sandbox
from deniable.client.vaults.vault import Vault
from deniable.errors import ParameterError, SandboxError
from deniable.queries.query import Query
from deniable.sql.checking import check_sql

__all__ = ["VaultPair", "given_pair", "made_pair"]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class VaultPair:
    """Two vaults, and the bucket of the answer the SQL finds in each."""

    vaults: tuple[Vault, Vault]
    answers: tuple[int, int]


def given_pair(query: Query, one: Path, other: Path) -> VaultPair:
    """Two existing vaults; they must give different answers and grant the same tables and
    columns."""
    vaults = (Vault.open(one), Vault.open(other))
    if vaults[0].grants() != vaults[1].grants():
        raise ParameterError(
            "--other", str(other), "must grant the same tables and columns as the first vault"
        )
    answers = [_answer(query, vault) for vault in vaults]
    if answers[0] is None or answers[1] is None or answers[0] == answers[1]:
        raise ParameterError(
            "--other", str(other), "must hold another answer to the query than the first vault"
        )
    return VaultPair(vaults, (answers[0], answers[1]))


def made_pair(query: Query, folder: Path) -> VaultPair:
    """Two vaults made up for the query."""
    tables = _tables(query.statement)
    found: dict[int, Vault] = {}
    for number, value in enumerate(_values(query)):
        vault = Vault.create(folder / f"made-{number}.db")
        for table, columns in tables.items():
            kind = "TEXT" if isinstance(value, str) else "REAL"
            vault.import_rows(table, dict.fromkeys(columns, kind), [[value] * len(columns)])
            vault.grant(table, columns)
        answer = _answer(query, vault)
        if answer is not None and answer not in found:
            found[answer] = vault
    if len(found) < 2:
        rule = (
            "found fewer than two answers in vaults that were made up for it: give two of your own"
            " with --vault and --other"
        )
        raise ParameterError("sql", query.sql, rule)
    first, last = min(found), max(found)
    return VaultPair((found[first], found[last]), (first, last))


def _answer(query: Query, vault: Vault) -> int | None:
    """The bucket of the first row; None if there is none, or if the SQL fails."""
    try:
        rows = sandbox.run(
            vault, query.statement, isolated=False, epoch=query.schedule.bounds_of_epoch(0)
        )
    except SandboxError:
        return None
    if len(rows) != 1 or len(rows[0]) != len(query.columns):
        return None
    # In this process and without a deadline: the vault is the auditor's own or made up, and nobody
    # is observed.
    bucket = query.buckets.index(rows[0])
    return bucket if bucket >= 0 else None


def _tables(sql: str) -> dict[str, list[str]]:
    """The tables the SQL reads, and their columns."""
    verdict = check_sql(sql)
    if verdict.problem:
        raise ParameterError("sql", sql, f"would be refused by every device: {verdict.problem}")
    return {table: list(columns) or ["rowid_"] for table, columns in verdict.names.items()}


def _values(query: Query) -> Iterator[float | str]:
    """Values that may fall into different buckets: the first and last labels of each column, and
    values in them."""
    seen: set[float | str] = set()
    for column in query.columns:
        for label in dict.fromkeys([*column.labels[:2], *column.labels[-3:]]):
            numbers = [float(text) for text in _NUMBER.findall(str(label))]
            middles = [sum(numbers[:2]) / 2, numbers[0] + 0.5] if numbers else []
            values: list[float | str] = [*middles, *numbers, str(label)]
            for value in values:
                if value not in seen:
                    seen.add(value)
                    yield value
