"""A disk of its own for a test: small enough to fill, and read-only when asked. Needs root, for it
is mounted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REQUIRED = os.environ.get("DENIABLE_REQUIRE_FAULTS") == "1"


class Disk:
    """A file system in memory, at a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no byte free."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12):
                while True:
                    try:
                        file.write(bytes(size))
                    except OSError:
                        break

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def set_read_only(self, read_only: bool) -> None:
        _run("mount", "-o", f"remount,{'ro' if read_only else 'rw'}", str(self.folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own words


@contextmanager
def mounted(folder: Path, size: str = "1m") -> Iterator[Disk]:
    """A disk of this size at a folder; the test is skipped where none may be mounted, unless that
    is required."""
    folder.mkdir()
    try:
        _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder))
    except (OSError, subprocess.CalledProcessError):
        if REQUIRED:
            raise
        pytest.skip("a disk can only be mounted by root")
    try:
        yield Disk(folder)
    finally:
        _run("umount", "-l", str(folder))
