"""Locks of open files among processes, on systems with and without POSIX.

A lock belongs to the descriptor and ends with it, so a killed process leaves none behind.
"""

from __future__ import annotations

import os
import sys
import time

__all__ = ["lock_file", "unlock_file"]

if sys.platform == "win32":
    import msvcrt

    _PLACE = 1 << 30
    """The byte that is locked, behind what any of these files holds: locked bytes cannot be
    read."""
    _PAUSE = 0.02  # seconds between two tries: Windows does not wait longer than ten seconds

    def lock_file(handle: int, *, wait: bool = True) -> None:
        """Lock an open file, which no other descriptor may have locked; BlockingIOError if one has,
        and `wait` is false."""
        while True:
            try:
                _at_the_place(handle, msvcrt.LK_NBLCK)
            except OSError as error:
                if not wait:
                    raise BlockingIOError(*error.args) from None
                time.sleep(_PAUSE)
            else:
                return

    def unlock_file(handle: int) -> None:
        """Give the lock back."""
        _at_the_place(handle, msvcrt.LK_UNLCK)

    def _at_the_place(handle: int, what: int) -> None:
        before = os.lseek(handle, 0, os.SEEK_CUR)
        try:
            os.lseek(handle, _PLACE, os.SEEK_SET)
            msvcrt.locking(handle, what, 1)
        finally:
            os.lseek(handle, before, os.SEEK_SET)

else:
    import fcntl

    def lock_file(handle: int, *, wait: bool = True) -> None:
        """Lock an open file, which no other descriptor may have locked; BlockingIOError if one has,
        and `wait` is false."""
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock_file(handle: int) -> None:
        """Give the lock back."""
        fcntl.flock(handle, fcntl.LOCK_UN)
