"""A key ring whose file may change while a service runs: each access sees the current file."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from deniable.errors import QueryError
from deniable.queries.signed.key_ring import KeyRing

__all__ = ["RingFile"]


class RingFile:
    """The ring in a file. If the file cannot be read, the ring stays as it was, and `problem` says
    why."""

    def __init__(self, path: Path, logger: logging.Logger) -> None:
        self.path, self._logger = path, logger
        self._lock = threading.Lock()
        self._seen = self._state()
        self._ring = KeyRing.load(path)
        self.problem = ""

    def _state(self) -> tuple[int, ...]:
        try:
            status = self.path.stat()
        except OSError:
            return ()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def ring(self) -> KeyRing:
        """The currently trusted keys."""
        with self._lock:
            state = self._state()
            if state == self._seen:
                return self._ring
            try:
                self._ring, self.problem = KeyRing.load(self.path), ""
            except QueryError as error:
                if self.problem != str(error):
                    self._logger.error(
                        "the ring cannot be read", extra={"fields": {"problem": str(error)}}
                    )
                self.problem = str(error)
            else:
                self._logger.info(
                    "the ring was read again", extra={"fields": {"keys": len(self._ring)}}
                )
            self._seen = state
            return self._ring
