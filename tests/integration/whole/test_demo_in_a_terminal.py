"""What a person sees: the live view in a terminal of 80 by 24."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

SOURCE = Path(__file__).parents[3] / "src"
COMMAND = [
    sys.executable,
    "-c",
    "from deniable.cli import main; main()",
    "demo",
    "--population",
    "300",
    "--seconds",
    "5",
]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def test_the_view_fits_a_terminal_of_80_by_24_and_ends_with_the_newest_window() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    environment.pop("LINES", None)
    process = subprocess.Popen(COMMAND, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)  # noqa: S603 - our own command
    os.close(theirs)
    shown = b""
    try:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        os.close(ours)
    text = CONTROL.sub("", shown.decode()).replace("\r", "")
    last = text[text.rindex("deniable demo: How many miles") :].splitlines()
    assert len(last) <= 23
    assert max(map(len, last)) <= 80
    local, sampled = (i for i, line in enumerate(last) if line.startswith("epsilon"))
    assert "local" in last[local]
    assert "sampled" in last[sampled]
    assert sum(line.startswith(("[", "(")) for line in last) == 11
    assert any(re.fullmatch(r"proxy 2 +(\d+) +\1 +0 +0 +0 +0 *", line) for line in last)
    assert last[-1].startswith("All accounts balance.")
    assert last[-1].endswith("Finished.")
