"""One target under atheris, in a process of its own: `python -m fuzz.guided NAME COUNTS
[libFuzzer's options] FOLDER…`."""

from __future__ import annotations

import mmap
import os
import struct
import sys
import warnings

AGAIN = "DENIABLE_FUZZ_AGAIN"
"""A variable that names the program which libFuzzer calls to merge inputs: this one, as one
word."""
COUNTS = struct.Struct("<QQ")
"""Executions, and how many of them were accepted: in a file, for libFuzzer ends the process without
a word to Python."""


def main() -> None:
    """Fuzz until libFuzzer has had enough."""
    import atheris  # noqa: PLC0415 - an extra

    warnings.simplefilter("ignore")
    name, counts, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["deniable"], enable_loader_override=False):
        from fuzz.judging import judge, load  # noqa: PLC0415 - under the import hook

        target = load(name)
        # what a decoder imports when it is first used is instrumented too
        for seed in target.seeds():
            judge(target.check, seed)
    handle = os.open(counts, os.O_RDWR)
    shared = mmap.mmap(handle, COUNTS.size)
    executions, accepted = COUNTS.unpack_from(shared)
    check = target.check

    def run(data: bytes) -> None:
        nonlocal executions, accepted
        executions += 1
        accepted += judge(check, data)
        COUNTS.pack_into(shared, 0, executions, accepted)

    atheris.Setup([os.environ.get(AGAIN, sys.argv[0]), *options], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
