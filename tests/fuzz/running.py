"""The command of `python tests/fuzz`: executions spread over targets and processes, findings
written down."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fuzz.guided import AGAIN, COUNTS
from fuzz.judging import kept, load, names, write_kept

_TESTS = Path(__file__).parents[1]
_MOST_MEGABYTES = 2048
_SECONDS_EACH = 10
_MEMORY = Path("/dev/shm")  # noqa: S108 - where files are quickest, if there is such a place
_PIECE = 250_000
"""Executions of one process: memory that a decoder's caches take is given back in between."""


@dataclass
class Run:
    """What became of a target."""

    name: str
    executions: int = 0
    accepted: int = 0
    seconds: float = 0.0
    finding: str = ""


def fuzz(name: str, executions: int, seed: int, findings: Path, keep: bool = False) -> Run:
    """Run one target so often, or until it fails."""
    target, run = load(name), Run(name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(
        dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None
    ) as temporary:
        folder = Path(temporary)
        corpus, counts = folder / "corpus", folder / "counts"
        corpus.mkdir()
        counts.write_bytes(bytes(COUNTS.size))
        for each in kept(name):
            _store(corpus, each[: target.LONGEST])
        options = [
            f"-max_len={target.LONGEST}",
            f"-timeout={_SECONDS_EACH}",
            f"-rss_limit_mb={_MOST_MEGABYTES}",
            "-verbosity=0",
        ]
        if target.DICTIONARY:
            (folder / "words").write_text(
                "".join(f'"{_escaped(word)}"\n' for word in target.DICTIONARY), encoding="ascii"
            )
            options.append(f"-dict={folder / 'words'}")
        while run.executions < executions and not run.finding:
            piece = min(_PIECE, executions - run.executions)
            prefix = folder / "found-"
            ended = _guided(
                name,
                counts,
                [
                    f"-runs={piece}",
                    f"-seed={seed}",
                    f"-artifact_prefix={prefix}",
                    *options,
                    str(corpus),
                ],
            )
            before = run.executions
            run.executions, run.accepted = COUNTS.unpack(counts.read_bytes())
            if ended.returncode or run.executions == before:
                run.finding = _noted(name, folder, findings, ended.stderr + ended.stdout)
            seed += 1
        if keep and not run.finding:
            small = folder / "small"
            small.mkdir()
            _guided(name, counts, ["-merge=1", *options, str(small), str(corpus)])
            write_kept(name, [path.read_bytes() for path in small.iterdir()])
    run.seconds = time.monotonic() - began
    return run


def _guided(name: str, counts: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(_TESTS),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "fuzz.guided", name, str(counts)]
    again = counts.with_name("again")
    again.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    again.chmod(0o700)
    environment |= {AGAIN: str(again), "TMPDIR": str(counts.parent)}
    return subprocess.run(
        [*command, *options],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _store(corpus: Path, data: bytes) -> None:
    (corpus / sha256(data).hexdigest()[:16]).write_bytes(data)


def _escaped(word: bytes) -> str:
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word
    )


def _noted(name: str, folder: Path, findings: Path, output: str) -> str:
    """Keep the input that failed, and say how."""
    findings.mkdir(parents=True, exist_ok=True)
    for found in folder.glob("found-*"):
        path = findings / f"{name}-{found.name.removeprefix('found-')[:30]}"
        path.write_bytes(found.read_bytes())
        path.with_suffix(".txt").write_text(output[-20_000:], encoding="utf-8")
        lines = [
            line
            for line in output.splitlines()
            if "Error" in line or "ALARM" in line or "out-of-memory" in line
        ]
        return f"{path}: {(lines or ['no message'])[0][:300]}"
    return f"ended without an input: {output[-300:]!r}"


def spread(chosen: Sequence[str], executions: int) -> dict[str, int]:
    """Executions by weight, rounded up."""
    weights = {name: load(name).WEIGHT for name in chosen}
    total = sum(weights.values())
    return {name: -(-executions * weight // total) for name, weight in weights.items()}


def main() -> None:
    """Fuzz the targets that are named, or all."""
    parser = argparse.ArgumentParser(
        prog="python tests/fuzz", description="Coverage-guided fuzzing of every decoder."
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(names())} [default: all]"
    )
    parser.add_argument(
        "--executions",
        type=lambda text: int(text.replace("_", "")),
        default=1_000_000,
        help="of all together",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--findings",
        type=Path,
        default=Path("fuzz-findings"),
        help="where inputs that fail are written",
    )
    parser.add_argument(
        "--keep", action="store_true", help="minimise the corpus and keep it in tests/fuzz/corpus"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="run one input through one target"
    )
    given = parser.parse_args()
    if unknown := set(given.targets) - set(names()):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    if given.replay:
        for name in given.targets:
            load(name).check(given.replay.read_bytes())
        return
    runs = []
    with ThreadPoolExecutor(given.jobs) as pool:
        shares = spread(given.targets or names(), given.executions).items()
        for run in pool.map(
            lambda each: fuzz(each[0], each[1], given.seed, given.findings, given.keep), shares
        ):
            runs.append(run)
            speed = run.executions / max(run.seconds, 1e-9)
            outcome = f"FAILED {run.finding}" if run.finding else "ok"
            print(  # noqa: T201 - a command
                f"{run.name:16} {run.executions:>12,} executions, {run.accepted:>11,} accepted,"
                f" {run.seconds:7.0f} s, {speed:>8,.0f}/s  {outcome}",
                flush=True,
            )
    print(  # noqa: T201
        f"{sum(run.executions for run in runs):,} executions,"
        f" {sum(bool(run.finding) for run in runs)} findings"
    )
    sys.exit(any(run.finding for run in runs))
