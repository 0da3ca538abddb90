"""Untrusted JSON: the values in a text are counted before any of them is built.

A bracket is one byte on the wire and some sixty in memory, so a list of megabytes would take
gigabytes. Strings cost their length and are skipped.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["MOST_FIELDS", "decode"]

MOST_FIELDS = 64
"""The most values of a document with a few text fields."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{,:]', re.DOTALL)


def decode(content: bytes, most_values: int) -> Any:
    """The contents of a JSON text with at most `most_values` brackets, commas and colons; otherwise
    a `ValueError`.

    >>> decode(b'{"a": ["b", "c"]}', 5), decode(b'["[[[["]', 2)
    ({'a': ['b', 'c']}, ['[[[['])
    >>> decode(b"[[],[],[]]", 3)
    Traceback (most recent call last):
    ValueError: they hold more than 3 values
    """
    n_values = 1
    for found in _TOKEN.finditer(content):
        # not a text: a bracket opens a value, and a comma or colon comes before one
        if content[found.start()] != 0x22:
            n_values += 1
            if n_values > most_values:
                raise ValueError(f"they hold more than {most_values} values")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("they are not JSON") from None
