"""Files for targets that read from the disk: one folder a process."""

from __future__ import annotations

import shutil
import tempfile
from atexit import register
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """An empty folder of this process, removed at its end."""
    made = Path(
        tempfile.mkdtemp(prefix="deniable-fuzz-")
    )  # where the runner says, which removes it: libFuzzer ends without a word
    register(shutil.rmtree, made, ignore_errors=True)
    return made


def put(name: str, data: bytes) -> Path:
    """A file with this content, in the place of the last one of that name."""
    path = folder() / name
    path.write_bytes(data)
    return path
