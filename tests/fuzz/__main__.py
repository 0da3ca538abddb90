"""The long run: `python tests/fuzz --help`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # tests, where `fuzz` and `toolkit` are

from fuzz.running import main  # noqa: E402 - from there

if __name__ == "__main__":
    main()
