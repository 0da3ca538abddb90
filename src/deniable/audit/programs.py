"""A program as a function that makes a report from a value: a line in, a line out."""

from __future__ import annotations

import contextlib
import select
import shlex
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from deniable.errors import ParameterError

__all__ = ["Program"]

_CHUNK = 1 << 16


class Program:
    """Another program's client, asked through its standard input and output.

    For each value it gets one line, and answers with one line: the report, in any text. With
    `restart`, it is started again for every value, as a client that is seeded when it starts may
    need; otherwise it runs until the end of its input.
    """

    def __init__(
        self, command: Sequence[str], *, restart: bool = False, timeout: float = 60.0
    ) -> None:
        self.command, self.restart, self.timeout = tuple(command), restart, timeout
        self.__qualname__ = shlex.join(self.command)
        self._process: subprocess.Popen[bytes] | None = None
        self._read = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __call__(self, value: str) -> bytes:
        """The report of one value."""
        process = self._started()
        try:
            if process.stdin is None:
                raise BrokenPipeError
            process.stdin.write(f"{value}\n".encode())
            process.stdin.flush()
            if self.restart:
                process.stdin.close()
        except BrokenPipeError:
            raise self._failed("ended before it had read all values") from None
        report = self._line(process)
        if self.restart:
            self.close()
        return report

    def close(self) -> None:
        """End the program: its input ends, and it is killed if it does not end by itself."""
        process, self._process, self._read = self._process, None, b""
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                # it may have ended before it read everything
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - the user's own
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
                )
            except OSError as error:
                raise self._failed(f"cannot be started: {error.strerror}") from None
        return self._process

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        if process.stdout is None:
            raise self._failed("has no output")
        while b"\n" not in self._read:
            if not select.select([process.stdout], [], [], self.timeout)[0]:
                raise self._failed(f"did not answer a line within {self.timeout:g} s")
            chunk = process.stdout.read(_CHUNK)
            if not chunk:
                raise self._failed("ended without a report for each value")
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _failed(self, what: str) -> ParameterError:
        return ParameterError(
            "command", self.__qualname__, message=f"The command {self.__qualname__} {what}"
        )
