"""Folders that are used for a short while."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["scratch_folder"]


_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - where the system has it; we make our own folder there


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, in memory where the system supports it: nothing simulated has to survive
    a power cut."""
    with tempfile.TemporaryDirectory(
        prefix="deniable-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None
    ) as folder:
        yield Path(folder)
