"""Seeds from the vectors, and the comparison that targets of the wire share."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from deniable.errors import WireError

_VECTORS = Path(__file__).parents[1] / "vectors"


@cache
def vectors(name: str) -> Any:
    """A file of tests/vectors."""
    return json.loads((_VECTORS / f"{name}-v1.json").read_text(encoding="utf-8"))


def agrees(fault: str | None, decode: Callable[[], Any]) -> Any:
    """What is decoded, if the reference finds no fault; the refusal names the fault that it
    finds."""
    try:
        out = decode()
    except WireError as error:
        assert error.reason == fault, f"refused for {error.reason}, and the reference says {fault}"
        raise
    assert fault is None, f"accepted, and the reference says {fault}"
    return out
