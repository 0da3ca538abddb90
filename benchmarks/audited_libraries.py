"""What an audit finds in other libraries' local randomizers: `python
benchmarks/audited_libraries.py`.

Each library gets an environment of its own in a temporary folder, with the versions below, and is
asked by `deniable audit command` through a few lines that call it: a value per line in, a report
per line out. The table goes into docs/audit.md. Exits with 1 if a verdict is not the one listed
here, so that a change in a library or in the audit is noticed. A library that cannot be installed
is skipped, and said so.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from deniable.audit import Program, audit_callable
from deniable.audit.findings import Audit

VALUES = 4
_LOOP = """
import sys
for line in sys.stdin:
    sys.stdout.write(report(int(line)) + "\\n")
    sys.stdout.flush()
"""
_OPENDP = "import opendp.prelude as dp\ndp.enable_features('contrib')\n"
_BITS = (
    "m = dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=1),"
    " dp.discrete_distance(), f=0.5)\n"
    "report = lambda v: m(bytes([(1, 4, 32, 128)[v]])).hex()"  # the first and the last bit, too
)
_DIRECT = (
    "m = dp.m.make_randomized_response(list(range(4)), 0.475366886)\nreport = lambda v: str(m(v))"
)
# A report carries a hash function of its own, so each is seen only once: what it supports is played.
_HASHED = (
    "\nimport xxhash\n"
    "def report(v):\n"
    "    y, s = {call}\n"
    "    held = [xxhash.xxh32(str(u), seed=s).intdigest() % 4 == y for u in range(4)]\n"
    "    return str(sum(1 << u for u in range(4) if held[u]))"
)
_PURE = "from pure_ldp import frequency_oracles as fo\n"
_MULTI = "from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE\n"
_PINS = {
    "opendp 0.14.1": ("opendp==0.14.1", "numpy"),
    "opendp 0.15.1": ("opendp==0.15.1", "numpy"),
    "pure-ldp 1.2.0": ("pure-ldp==1.2.0", "scikit-learn", "statsmodels", "xxhash<4"),
    "multi-freq-ldpy 0.2.5": ("multi-freq-ldpy==0.2.5", "xxhash<4"),
}


class Subject(NamedTuple):
    """One randomizer of a library, what it claims, and the verdict that is expected."""

    library: str
    protocol: str
    program: str
    claim: float
    holds: bool


def subjects() -> list[Subject]:
    """The randomizers; epsilon is 1, or for opendp's bit vectors 2 ln((2 - f)/f) with f = 1/2."""
    found = []
    for library in ("opendp 0.14.1", "opendp 0.15.1"):
        found += [
            Subject(library, "randomized response", _OPENDP + _DIRECT, 1.0, True),
            Subject(
                library,
                "bit vector",
                _OPENDP + _BITS,
                2.1972246,
                library != "opendp 0.14.1",
            ),
        ]
    for protocol, make in (
        ("direct encoding", "c = fo.DEClient(1.0, 4)"),
        ("optimized unary", "c = fo.UEClient(1.0, 4, use_oue=True)"),
    ):
        ask = f"{make}\nreport = lambda v: repr(c.privatise(v + 1)).replace('\\n', ' ')"
        found.append(Subject("pure-ldp 1.2.0", protocol, _PURE + ask, 1.0, True))
    client = "c = fo.LHClient(1.0, 4, use_olh=True)" + _HASHED.format(call="c.privatise(v + 1)")
    found.append(Subject("pure-ldp 1.2.0", "local hashing", _PURE + client, 1.0, True))
    for protocol, call in (
        ("direct encoding", "GRR.GRR_Client(v, 4, 1.0)"),
        ("optimized unary", "UE.UE_Client(v, 4, 1.0, True)"),
    ):
        ask = f"report = lambda v: repr({call}).replace('\\n', ' ')"
        found.append(Subject("multi-freq-ldpy 0.2.5", protocol, _MULTI + ask, 1.0, True))
    client = _MULTI + _HASHED.format(call="LH.LH_Client(v, 4, 1.0, True)")
    found.append(Subject("multi-freq-ldpy 0.2.5", "local hashing", client, 1.0, True))
    return found


def environment(folder: Path, library: str) -> Path:
    """The Python of an environment that has the library; CalledProcessError if it cannot be had."""
    home = folder / library.replace(" ", "-")
    if not home.exists():
        subprocess.run([sys.executable, "-m", "venv", home], check=True)  # noqa: S603 - our own
        install = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", *_PINS[library]]
        subprocess.run(install, check=True)  # noqa: S603 - the versions above
    return home / "bin" / "python"


def audited(subject: Subject, python: Path, n: int) -> Audit:
    """What the audit of one randomizer finds."""
    with Program([str(python), "-W", "ignore", "-c", subject.program + _LOOP]) as program:
        return audit_callable(program, [str(v) for v in range(VALUES)], subject.claim, n)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reports", type=int, default=40_000)
    parser.add_argument("--folder", type=Path, help="Keep the environments here.")
    given = parser.parse_args()
    wrong = 0
    print("| library | randomizer | claimed | at least shown | verdict |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        for subject in subjects():
            try:
                python = environment(given.folder or Path(name), subject.library)
            except subprocess.CalledProcessError as error:
                print(f"{subject.library} is skipped: {error}", file=sys.stderr)
                continue
            found = audited(subject, python, given.reports)
            shown = max(verdict.shown for verdict in found.verdicts)
            verdict = "holds" if found.holds else "**refuted**"
            wrong += found.holds != subject.holds
            print(
                f"| {subject.library} | {subject.protocol} | {subject.claim:.2f} | {shown:.2f} |"
                f" {verdict} |",
                flush=True,
            )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
