"""How many bytes a second a proxy's log takes, in its SQLite file and in Kafka: `python
benchmarks/log.py`.

Blocks of shares are appended as a proxy does, 4,096 shares of the smallest size class in one
transaction, durable (SQLite) or acknowledged by the broker (Kafka, one broker on this machine, no
copies, started as `deniable kafka dev` does). Then they are read as the aggregator reads them.
Broker, writer and reader share the machine's cores, so a broker of its own does better.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from deniable.devtools.broker import Broker
from deniable.logs.kafka_log import KafkaLog
from deniable.logs.kafka_settings import KafkaSettings
from deniable.logs.share_logs import EmbeddedLog, KafkaShareLog, Position, ShareLog
from deniable.logs.sqlite_log import BlockLog
from deniable.proxy.intake.uploads import ROWS_PER_BLOCK, IntakeRules
from deniable.wire.blocks import Block, cut
from deniable.wire.sizes import row_words

PARTITIONS = 8
CHANNEL = 7


def flush() -> list[Block]:
    """What one flush of a proxy appends."""
    rows = np.random.default_rng(1).integers(
        0, 1 << 64, (row_words(0), IntakeRules.threshold), dtype=np.uint64
    )
    bits = (IntakeRules.threshold // ROWS_PER_BLOCK).bit_length() - 1
    return cut(CHANNEL, 0, 0, rows, bits)[0]


def append(log: BlockLog | KafkaLog, blocks: list[Block], times: int) -> float:
    clock = time.perf_counter()
    for _ in range(times):
        log.append(blocks, now=1_700_000_000)
    return time.perf_counter() - clock


def read_all(log: ShareLog, n_blocks: int) -> float:
    clock, position, found = time.perf_counter(), Position(), 0
    while found < n_blocks:
        reading = log.read(position, 64 << 20)
        assert not reading.problem, reading.problem
        position, found = reading.position, found + len(reading.blocks)
    log.close()
    return time.perf_counter() - clock


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=256)
    given = parser.parse_args()
    blocks = flush()
    n_bytes = sum(len(block.to_bytes()) for block in blocks)
    times = max(1, given.megabytes * 1_000_000 // n_bytes)
    total, n_blocks = times * n_bytes / 1e6, times * len(blocks)
    print(
        f"{total:.0f} MB in {times} flushes of {IntakeRules.threshold:,} shares; load average"
        f" {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as name, Broker(Path(name) / "kafka") as broker:
        file = BlockLog(Path(name) / "log.db")
        topic = KafkaSettings(broker.bootstrap, "log", PARTITIONS, 1)
        kafka = KafkaLog(topic, retention=IntakeRules.retention)
        append(kafka, blocks, 5)
        n_warm = 5 * len(blocks)
        for what, log, reader, before in (
            ("SQLite", file, EmbeddedLog(Path(name) / "log.db"), 0),
            ("Kafka", kafka, KafkaShareLog(topic), n_warm),
        ):
            written = append(log, blocks, times)
            reading = read_all(reader, n_blocks + before)
            print(
                f"  {what:<7} {total / written:6.0f} MB a second written, {total / reading:6.0f} MB"
                " a second read"
            )
            log.close()


if __name__ == "__main__":
    main()
