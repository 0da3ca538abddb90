"""Check sums inside files that programs write and people keep: a digit that changed by itself is
another epsilon, key or time.

Files of JSON hold theirs in a field, files of TOML in a comment on their last line. Files without
one, written by hand or by earlier versions, are read as they are; anyone who edits one takes its
check sum out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

__all__ = ["FIELD", "CheckSumError", "checked_object", "is_intact", "sealed_object", "sealed_text"]

FIELD = "check"
_LINE = "# check sum "
_AFTER = " (delete this line when you edit the file)"


def _digest(content: str) -> str:
    return blake2b(content.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _canonical(fields: Mapping[str, Any]) -> str:
    return json.dumps(
        {name: value for name, value in fields.items() if name != FIELD}, sort_keys=True
    )


class CheckSumError(ValueError):
    """A check sum does not fit. The readers of a file raise an error of their own instead."""


def sealed_object(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a file of JSON, with their check sum.

    >>> checked_object(sealed_object({"a": 1})), checked_object({"a": 1})
    ({'a': 1}, {'a': 1})
    >>> checked_object({**sealed_object({"a": 1}), "a": 2})
    Traceback (most recent call last):
    deniable.checksums.CheckSumError: the check sum does not fit: the file is damaged, or was edited (then take "check" out of it)
    """
    return {**fields, FIELD: _digest(_canonical(fields))}


def checked_object(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without their check sum; a :class:`CheckSumError` if it does not fit."""
    if FIELD in fields and fields[FIELD] != _digest(_canonical(fields)):
        raise CheckSumError(
            'the check sum does not fit: the file is damaged, or was edited (then take "check" out'
            " of it)"
        )
    return {name: value for name, value in fields.items() if name != FIELD}


def sealed_text(text: str, before: str = "") -> str:
    """A text of TOML, with a line that holds its check sum; `before` is what it is appended to.

    >>> sealed = sealed_text("a = 1\\n")
    >>> is_intact(sealed), is_intact(sealed.replace("1", "2", 1)), is_intact("a = 1")
    (True, False, True)
    """
    _, line, rest = before.rpartition(_LINE)
    unsealed = rest.partition("\n")[2] if line else before
    return f"{text}{_LINE}{_digest(unsealed + text)}{_AFTER}\n"


def is_intact(text: str) -> bool:
    """Whether every check sum in the text fits what stands before it, up to the one before."""
    start = 0
    while (at := text.find(_LINE, start)) >= 0:
        end = text.find("\n", at)
        line = text[at : end if end >= 0 else len(text)]
        if line != f"{_LINE}{_digest(text[start:at])}{_AFTER}":
            return False
        start = end + 1 if end >= 0 else len(text)
    return True
