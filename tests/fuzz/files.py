"""Files for targets that read from the disk: in memory where the system has such a place, one folder a process."""

from __future__ import annotations

import os
import shutil
import tempfile
from atexit import register
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """An empty folder of this process, removed at its end."""
    base = Path("/dev/shm")  # noqa: S108 - memory, if there is any
    made = Path(tempfile.mkdtemp(prefix=f"deniable-fuzz-{os.getpid()}-", dir=base if os.access(base, os.W_OK) else None))
    register(shutil.rmtree, made, ignore_errors=True)
    return made


def put(name: str, data: bytes) -> Path:
    """A file with this content, in the place of the last one of that name."""
    path = folder() / name
    path.write_bytes(data)
    return path
