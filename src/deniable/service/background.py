"""Work that goes on behind a service: one step after the other in a thread of its own, for as long as the service runs.

A step that fails is tried again, whatever failed: a disk may have room by then, a file be back, a stranger send something else.
The pauses between tries double, and the reason stands in `problem` until a step goes well.
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
    """A thread that takes steps. `step` gives the seconds to the next one, or None to wait until it is woken."""

    def __init__(self, name: str, step: Callable[[], float | None], logger: logging.Logger) -> None:
        self.name, self._step, self._logger = name, step, logger
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._failures = 0
        self._reason = ""
        self._error: Exception | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Let the next step come at once."""
        self._woken.set()

    def stop(self) -> None:
        """Let the step that is under way be finished, and no other begin."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def problem(self) -> str:
        """Why the last step failed, or that there are none any more; empty while all is well."""
        if self.ended:
            return f"the {self.name} has ended: restart the service"
        return self._reason

    @property
    def ended(self) -> bool:
        """Whether it takes no more steps, though nobody stopped it: only a restart helps."""
        return not self._stopping.is_set() and self._thread.ident is not None and not self._thread.is_alive()

    @property
    def error(self) -> Exception | None:
        """What the last step failed with; None if it went well."""
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
        if reason != self._reason:  # once for each reason, not once for each try
            fields = {"part": self.name, "problem": reason, "retry_in": pause}
            self._logger.error("a step failed and will be tried again", extra={"fields": fields})
        self._failures += 1
        self._reason, self._error = reason, error.with_traceback(None)
        return pause

    def _note_success(self) -> None:
        if self._reason:
            self._logger.info("steps go well again", extra={"fields": {"part": self.name, "failed": self._failures}})
        self._failures, self._reason, self._error = 0, "", None


def _spoken(error: Exception) -> str:
    """What an error says, if it is one whose words were chosen; of others the type alone, for they may quote anything."""
    if isinstance(error, DeniableError | sqlite3.Error | OSError):
        return f"{type(error).__name__}: {error}"
    return type(error).__name__
