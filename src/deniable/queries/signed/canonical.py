"""Canonical bytes: the only way to write a query, so that a signature covers its exact meaning.

JSON in UTF-8 without spaces, keys in the order of their code points, every field present. Integers
are decimal. A double is written as ``{"f64":"3fe0000000000000"}``: its IEEE 754 bits in 16
hexadecimal digits, the highest first, so that no reader rounds. Texts escape only what JSON must:
the quotation mark, the backslash, and control characters (in the short form where there is one,
else as four lower-case hexadecimal digits).
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

from deniable.errors import ParameterError

__all__ = ["decode", "encode"]

_LARGEST = 1 << 63


def encode(value: Any) -> bytes:
    """The canonical bytes of a tree of dicts, lists, texts, integers, doubles, booleans and None.

    >>> encode({"p": 0.5, "k": [1, "é"]})
    b'{"k":[1,"\\xc3\\xa9"],"p":{"f64":"3fe0000000000000"}}'
    """
    text = json.dumps(
        _with_doubles(value),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        raise ParameterError("text", half, "is half a surrogate pair, which is not text") from None


def decode(content: bytes) -> Any:
    """The tree that :func:`encode` was given. Anything but its exact output is refused: two
    spellings would be two signatures."""
    try:
        raw = json.loads(
            content.decode(),
            parse_float=_no_float,
            parse_constant=_no_float,
            object_pairs_hook=_object,
        )
        value = _without_doubles(raw)
        same = encode(value) == content
    except ParameterError:
        raise
    except ValueError:
        raise ParameterError(
            "query", "…", message="the query is not JSON in UTF-8, or is cut off"
        ) from None
    except RecursionError:
        raise ParameterError("query", "…", message="the query nests too deeply") from None
    if not same:
        raise ParameterError("query", "…", message="the query is not in canonical form")
    return value


def _with_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == "f64":
                raise ParameterError("key", key, "must be a text other than 'f64'")
        return {key: _with_doubles(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_doubles(part) for part in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ParameterError("value", value, "must be finite")
        return {"f64": struct.pack(">d", value).hex()}
    if isinstance(value, int) and not isinstance(value, bool) and not -_LARGEST <= value < _LARGEST:
        raise ParameterError("value", value, "must fit in 64 bits")
    if value is not None and not isinstance(value, str | int):
        raise ParameterError("value", type(value).__name__, "cannot be written down")
    return value


def _without_doubles(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_doubles(part) for part in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"f64"}:
        return {key: _without_doubles(part) for key, part in value.items()}
    digits = value["f64"]
    if not isinstance(digits, str) or len(digits) != 16 or set(digits) - set("0123456789abcdef"):
        raise ParameterError("f64", digits, "must be 16 lower-case hexadecimal digits")
    return float(struct.unpack(">d", bytes.fromhex(digits))[0])


def _no_float(text: str) -> float:
    raise ParameterError(
        "query", text, "must not be a decimal fraction: doubles are written by their bits"
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ParameterError("query", "…", message="the query repeats a key")
    return out
