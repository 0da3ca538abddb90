"""What a million answers cost, ours beside what an engineer would take instead: `python
benchmarks/peers.py`.

The peer is Prio3Histogram (VDAF, draft-irtf-cfrg-vdaf; crate `prio`, built here with cargo in a
temporary folder). Both learn a histogram of eleven buckets from two servers that do not collude.
Measured by processor time in one run, without HTTP and TLS, which are the same for both:

- the client: one answer at a time, as devices give them; ours also in bulk, as a simulation does;
- the servers, all of them together: ours are two proxies (durable) and the aggregator; Prio's are
  two aggregators in memory;
- bytes that one answer puts on the wire, to both servers.

Without cargo, or where the crate cannot be had, the peer is skipped, and the reason is said.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.state import State
from deniable.client import encoding
from deniable.logs.share_logs import EmbeddedLog
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import channels_of
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.randomness import system_source
from deniable.wire.message import VERSION
from deniable.wire.shares import KIND, record_bytes, split_columns

_ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(_ROOT)]
from benchmarks.proxy import question  # noqa: E402 - the script may be called from anywhere

_MANIFEST = """\
[package]
name = "peer"
version = "0.0.0"
edition = "2021"
[dependencies]
prio = "=0.17.0"
"""
_PROGRAM = """\
use prio::codec::Encode;
use prio::vdaf::prio3::Prio3;
use prio::vdaf::{Aggregator, Client, Collector, PrepareTransition};

const CONTEXT: &[u8] = b"benchmark";

fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn main() {
    let n: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let vdaf = Prio3::new_histogram(2, 11, 4).unwrap();
    let key = [7u8; 32];
    let begin = processor_seconds();
    let mut reports = Vec::with_capacity(n);
    for i in 0..n {
        let mut nonce = [0u8; 16];
        nonce[..8].copy_from_slice(&(i as u64).to_le_bytes());
        let (public, inputs) = vdaf.shard(CONTEXT, &(i % 11), &nonce).unwrap();
        reports.push((nonce, public, inputs));
    }
    let client = processor_seconds() - begin;
    let (_, public, inputs) = &reports[0];
    let bytes = 2 * (16 + public.get_encoded().unwrap().len())
        + inputs.iter().map(|each| each.get_encoded().unwrap().len()).sum::<usize>();
    let begin = processor_seconds();
    let mut outputs = [Vec::with_capacity(n), Vec::with_capacity(n)];
    for (nonce, public, inputs) in &reports {
        let mut states = Vec::with_capacity(2);
        let mut shares = Vec::with_capacity(2);
        for (id, input) in inputs.iter().enumerate() {
            let (state, share) = vdaf.prepare_init(&key, CONTEXT, id, &(), nonce, public, input).unwrap();
            states.push(state);
            shares.push(share);
        }
        let message = vdaf.prepare_shares_to_prepare_message(CONTEXT, &(), shares).unwrap();
        for (id, state) in states.into_iter().enumerate() {
            match vdaf.prepare_next(CONTEXT, state, message.clone()).unwrap() {
                PrepareTransition::Finish(share) => outputs[id].push(share),
                PrepareTransition::Continue(..) => unreachable!(),
            }
        }
    }
    let [first, second] = outputs;
    let sums = [vdaf.aggregate(&(), first).unwrap(), vdaf.aggregate(&(), second).unwrap()];
    let servers = processor_seconds() - begin;
    let counts = vdaf.unshard(&(), sums, n).unwrap();
    assert_eq!(counts.iter().sum::<u128>() as usize, n);
    println!("{client} {servers} {bytes}");
}
"""
_BOUGHT = (
    (
        "Prio buys exact sums and proofs that every report is well-formed, and trusts that its two"
        " servers do not collude and that somebody adds central noise before anyone sees the sums."
    ),
    (
        "Ours buys answers that are randomized before they leave the device, so that no server and"
        " no analyst has to be trusted, and pays for that with noise in every report."
    ),
)


class Cost(NamedTuple):
    """Processor seconds for a million answers, and bytes for one."""

    client: float
    servers: float
    n_bytes: int


def ours(n: int, n_single: int) -> tuple[Cost, float]:
    """Our costs with a client that answers one at a time; and the client's in bulk."""
    query = question()
    epoch = query.schedule.epoch_of(int(time.time()))
    source = system_source()
    used = time.process_time()
    for i in range(n_single):
        reports = encoding.randomize(query, np.array([i % 11]), source)
        for _ in encoding.share_records(query, epoch, reports, 1, 0, source):
            pass
    single = (time.process_time() - used) / n_single
    used = time.process_time()
    drawn = query.mechanism.draw(np.arange(n) % 11, source).reshape(n, -1).view(np.uint8)
    columns = split_columns(drawn, query.tag, epoch, query.size_class or 0, 2)
    bulk = (time.process_time() - used) / n
    bodies = [_bodies(each, query.channel_tag, epoch) for each in columns]
    with tempfile.TemporaryDirectory() as name:
        servers = _count(Path(name), query, bodies, n)
    return (
        Cost(1e6 * single, 1e6 * servers / n, 2 * record_bytes(query.size_class or 0)),
        1e6 * bulk,
    )


def _bodies(columns: np.ndarray, channel: int, epoch: int) -> list[bytes]:
    """Uploads of 8,192 shares, as a collector brings them."""
    records = np.empty((columns.shape[1], len(columns) + 2), dtype=np.uint64)
    records[:, 0], records[:, 1] = VERSION | KIND << 8 | epoch << 32, channel
    records[:, 2:] = columns.T
    return [records[start : start + 8192].tobytes() for start in range(0, len(records), 8192)]


def _count(folder: Path, query: Query, bodies: list[list[bytes]], n: int) -> float:
    """Processor seconds of two proxies and an aggregator for all of it, durable and counted."""
    key = AnalystKey.generate(query.analyst)
    used = time.process_time()
    for i, uploads in enumerate(bodies):
        intake = Intake(folder / str(i), IntakeRules(threshold=65536), lambda: int(time.time()))
        intake.set_channels(channels_of([(query.header, None)]))
        for content in uploads:
            (receipt,) = intake.take([Upload(b"x" * 32, n, content)])
            assert isinstance(receipt, UploadReceipt)
            intake.tick()
        intake.flush()
        intake.close()
    state = State(folder / "state.db", query.proxies)
    with state.transaction():
        publish(
            state.connection,
            sign(query, key),
            KeyRing().add(key.public),
            query.proxies,
            int(time.time()) - 600,
        )
    logs = [EmbeddedLog(folder / str(i) / "log.db") for i in range(2)]
    engine = Engine(state, logs, EngineLimits(workers=1))
    engine.drain()
    used = time.process_time() - used
    counted = sum(pane.n for pane in state.panes(query.id, range(1 << 31)).values())
    assert counted == n, counted
    engine.close()
    for log in logs:
        log.close()
    state.close()
    return used


def peer(n: int) -> Cost:
    """Prio3Histogram's costs; a RuntimeError says why it cannot be measured."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise RuntimeError("there is no cargo here")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "src").mkdir()
        (folder / "Cargo.toml").write_text(_MANIFEST)
        (folder / "src" / "main.rs").write_text(_PROGRAM)
        build = [cargo, "build", "--release", "--quiet"]
        built = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - as it stands above
        if built.returncode:
            raise RuntimeError(f"cargo could not build it: {built.stderr.strip().splitlines()[-1]}")
        command = [str(folder / "target" / "release" / "peer"), str(n)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - built above
    client, servers, n_bytes = done.stdout.split()
    return Cost(1e6 * float(client) / n, 1e6 * float(servers) / n, int(n_bytes))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--answers", type=int, default=200_000)
    given = parser.parse_args()
    n = given.answers
    mine, bulk = ours(n, max(1, n // 100))
    print(
        "for a million answers, in processor seconds: the client, all servers; and bytes for one"
        " answer, to both servers"
    )
    print(
        f"  ours            {mine.client:8,.1f} {mine.servers:8,.1f} {mine.n_bytes:6,}   (a client"
        f" in bulk: {bulk:,.1f})"
    )
    try:
        other = peer(max(1, n // 10))
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"  Prio3Histogram  skipped: {error}")
    else:
        print(f"  Prio3Histogram  {other.client:8,.1f} {other.servers:8,.1f} {other.n_bytes:6,}")
        ratios = (
            f"{mine.client / other.client:.2f}, {mine.servers / other.servers:.2f},"
            f" {mine.n_bytes / other.n_bytes:.2f}"
        )
        print(f"  ours over Prio3Histogram: {ratios}")
    for line in _BOUGHT:
        print(line)


if __name__ == "__main__":
    main()
