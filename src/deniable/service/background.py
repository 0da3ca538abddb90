"""Background work of a service: one step after another in a separate thread, for as long as the
service runs.

A failed step is retried whatever the cause: by then the disk may have space, a file may be back, a
peer may send something else. The pauses between attempts double, and `problem` gives the reason
until a step succeeds.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable

from deniable.errors import DeniableError

__all__ = ["Background"]

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0


class Background:
    """A thread that runs steps. `step` returns the seconds until the next one, or None to wait
    until woken."""

    def __init__(self, name: str, step: Callable[[], float | None], logger: logging.Logger) -> None:
        self.name, self._step, self._logger = name, step, logger
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._failures = 0
        self._reason = ""
        self._error: Exception | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Run the next step at once."""
        self._woken.set()

    def stop(self) -> None:
        """Let the current step finish, and start no other."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def problem(self) -> str:
        """Why the last step failed, or that the thread has ended; empty while all is well."""
        if self.ended:
            return f"the {self.name} has ended: restart the service"
        return self._reason

    @property
    def ended(self) -> bool:
        """Whether it has ended without being stopped: only a restart helps."""
        return (
            not self._stopping.is_set()
            and self._thread.ident is not None
            and not self._thread.is_alive()
        )

    @property
    def error(self) -> Exception | None:
        """The error of the last step; None if it succeeded."""
        return self._error

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.clear()
            try:
                pause = self._step()
            except Exception as error:
                pause = self._note_failure(error)
            else:
                self._note_success()
            if not self._stopping.is_set():
                self._woken.wait(pause)

    def _note_failure(self, error: Exception) -> float:
        reason = _spoken(error)
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(self._failures, 16)))
        if reason != self._reason:  # once per reason, not once per attempt
            fields = {"part": self.name, "problem": reason, "retry_in": pause}
            self._logger.error("a step failed and will be tried again", extra={"fields": fields})
        self._failures += 1
        self._reason, self._error = reason, error.with_traceback(None)
        return pause

    def _note_success(self) -> None:
        if self._reason:
            self._logger.info(
                "steps succeed again",
                extra={"fields": {"part": self.name, "failed": self._failures}},
            )
        self._failures, self._reason, self._error = 0, "", None


def _spoken(error: Exception) -> str:
    """The message of an error of a known kind; for others only the type, because their messages may
    quote anything."""
    if isinstance(error, DeniableError | sqlite3.Error | OSError):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__
