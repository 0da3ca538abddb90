"""A query from a file, in whichever form it is stored."""

from __future__ import annotations

from pathlib import Path

from deniable.errors import ParameterError, QueryFileError
from deniable.queries.files import read_query
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery

__all__ = ["load_query"]


def load_query(path: Path) -> tuple[Query, SignedQuery | None]:
    """The query in a TOML file, a file of canonical bytes or a signed file, and the signed form if
    there is one."""
    try:
        with path.open("rb") as file:
            signed = file.read(1) == b"{"
            rest = file.read() if signed else b""
    except OSError as error:
        raise QueryFileError(
            "file", str(path), f"cannot be read: {error.strerror}", path.name
        ) from None
    if not signed:
        try:
            return read_query(path), None
        except QueryFileError as error:
            if error.name != "mechanism" or error.value is not None:
                raise
            rule = (
                "is missing: write one, or plan it from the budget with  deniable query plan"
                f" {path}"
            )
            raise QueryFileError("mechanism", None, rule, path.name) from None
    content = b"{" + rest
    # canonical bytes contain no spaces; in a signed file they are inside a string
    if b'"format":"deniable query ' in content:
        try:
            return Query.from_content(content.strip()), None
        except ParameterError as error:
            raise QueryFileError(
                error.name, error.value, error.rule, path.name, message=error.message
            ) from None
    found = SignedQuery.from_bytes(content)
    return found.unverified(), found
