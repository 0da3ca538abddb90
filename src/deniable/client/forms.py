"""What a person chose in forms, until it is sent: in a vault of its own, which only the query that
asked can read.

Choices are data. They are read where all data are read, by SQL in a confined process, and leave it
as bucket numbers. They are not in the owner's vault, because anyone who may query that
vault could then ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable.client.vaults.vault import Vault
from deniable.errors import ParameterError
from deniable.queries.asking import form_tables
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery

__all__ = ["Forms"]


@dataclass(frozen=True)
class Forms:
    """The filled-in forms of one device. The file is created with the first of them."""

    path: Path

    @classmethod
    def beside(cls, vault: Path) -> Forms:
        """Those of a vault: `VAULT.forms` beside it."""
        return cls(vault.with_name(vault.name + ".forms"))

    @property
    def vault(self) -> Vault:
        """The vault that holds the choices."""
        return Vault.open(self.path) if self.path.exists() else Vault.create(self.path)

    def fill(self, query: Query, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep what a person chose, in place of an earlier choice: for each row, a bucket of each
        column, or None for none.

        Errors name the column and the rule, never the choice.
        """
        if query.ask != "form":
            raise ParameterError("ask", query.ask, "must be 'form': nobody is asked by this query")
        most = query.ones if query.rows == "all" else 1
        if not 1 <= len(rows) <= most:
            raise ParameterError(
                "rows", len(rows), f"must be 1 to {most}: that many buckets may be chosen"
            )
        cells = [
            [_choice(f"rows[{i}].{column.name}", column, row) for column in query.columns]
            for i, row in enumerate(rows)
        ]
        for i, row in enumerate(rows):
            for name in row:
                if name not in {column.name for column in query.columns}:
                    raise ParameterError(f"rows[{i}]", name, "is not a column of the query")
        table, vault = query.form_table, self.vault
        kinds = {
            f"c{i}": "REAL" if column.kind == "number" else "TEXT"
            for i, column in enumerate(query.columns)
        }
        self.forget(query)
        vault.import_rows(table, kinds, cells)
        vault.grant(table, list(kinds))

    def filled(self, query: Query) -> bool:
        """Whether a person has answered this form."""
        return self.path.exists() and query.form_table in self.vault.grants()

    def forget_sent(self, signed: SignedQuery | bytes) -> None:
        """Delete what was chosen, now that it was sent, unless later epochs repeat it."""
        if not self.path.exists():
            return
        parsed = SignedQuery.from_bytes(signed) if isinstance(signed, bytes) else signed
        query = parsed.unverified()
        if query.ask == "form" and not query.memoize:
            self.forget(query)

    def forget(self, query: Query, others: bool = False) -> None:
        """Delete what was chosen in any version of this query; with `others`, in those that asked
        something else: nobody's choice answers a question that they did not see."""
        if not self.path.exists():
            return
        vault = self.vault
        for table in vault.grants():
            if table.startswith(form_tables(query.analyst, query.id)) and not (
                others and table == query.form_table
            ):
                vault.drop(table)


def _choice(name: str, column: Column, row: Mapping[str, Any]) -> str | float | None:
    chosen = row.get(column.name)
    if chosen is None:
        return None
    right = (
        isinstance(chosen, str)
        if column.kind == "text"
        else isinstance(chosen, int | float) and not isinstance(chosen, bool)
    )
    if not right or chosen not in column.choices:
        raise ParameterError(name, "this choice", "must be one of the column's buckets, or None")
    return str(chosen) if column.kind == "text" else float(chosen)
