"""JSON from strangers: how many values a text holds is counted before any of them is built.

A bracket is one byte on the wire and some sixty in memory, so that a list of megabytes would take gigabytes. Texts cost what they
are long, and are passed over.
"""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["MOST_FIELDS", "decode"]

MOST_FIELDS = 64
"""Values of a document with a few fields, each of them a text."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{,:]', re.DOTALL)


def decode(content: bytes, most_values: int) -> Any:
    """What a JSON text says, if it holds at most so many brackets, commas and colons; else a `ValueError` that says why not.

    >>> decode(b'{"a": ["b", "c"]}', 5), decode(b'["[[[["]', 2)
    ({'a': ['b', 'c']}, ['[[[['])
    >>> decode(b"[[],[],[]]", 3)
    Traceback (most recent call last):
    ValueError: they hold more than 3 values
    """
    n_values = 1
    for found in _TOKEN.finditer(content):
        if content[found.start()] != 0x22:  # not a text: a bracket opens a value, and a comma or colon comes before one
            n_values += 1
            if n_values > most_values:
                raise ValueError(f"they hold more than {most_values} values")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("they are not JSON") from None
