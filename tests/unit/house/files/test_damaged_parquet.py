"""Damaged Parquet files: one clear line, never an error of the library that reads them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.engines.spark.sources import FileSource
from deniable.aggregator.history.file_catalogue import CatalogueSnapshot
from deniable.aggregator.history.report_files import (
    FileEntry,
    ReportFolder,
    ReportRows,
    sorted_table,
)
from deniable.aggregator.history.scan import Scan
from deniable.errors import DeniableError
from deniable.randomness import seeded_source
from deniable.survey.reading import read_chunks
from toolkit.crowds import minute_query

QUERY = minute_query()


def survey_file(path: Path) -> None:
    pq.write_table(
        pa.table({"colour": ["red", "blue"] * 500, "n": list(range(1000))}),
        path,
        row_group_size=300,
    )


def read_survey(path: Path) -> Any:
    return [len(chunk) for chunk in read_chunks(path, ["colour", "n"])]


def history_rows() -> ReportRows:
    reports = (
        QUERY.mechanism.draw(np.arange(1000) % 12, seeded_source(3))
        .reshape(1000, -1)
        .view(np.uint8)
    )
    return ReportRows.drawn([(PaneKey(QUERY.id, 1, 0, 0), reports)], seeded_source(4))


def history_file(path: Path) -> None:
    pq.write_table(
        sorted_table(1, history_rows()), path, row_group_size=300, write_page_checksum=True
    )


def read_history(path: Path) -> Any:
    entry = FileEntry(
        f"query=q/day=0/{path.name}",
        QUERY.id,
        1,
        0,
        0,
        0,
        1000,
        0,
        " ".join(["300:0-99"] * 3 + ["100:0-99"]),
    )
    scan = Scan(
        ReportFolder(path.parents[2]), CatalogueSnapshot((entry,), (), 1000), {1: QUERY}, range(1)
    )
    scan.read_to(1.0)
    return scan.n


def log_file(path: Path) -> None:
    rows = {
        "partition": [0] * 100,
        "offset": list(range(100)),
        "value": [bytes([i]) * 50 for i in range(100)],
    }
    types = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])
    pq.write_table(pa.table(rows, schema=types), path, row_group_size=30)


def read_log(path: Path) -> Any:
    source = FileSource(str(path.parent), 1)
    spans = source.spans(source.first(), source.last())
    return [len(list(source.fetch(partition, span))) for partition, span in spans]


def damages(content: bytes) -> Iterator[bytes]:
    """Cut off, emptied, overwritten, and 300 times with eight bits flipped: seed 11."""
    draw = random.Random(11)  # noqa: S311 - where damage is, not a secret
    yield b""
    yield b"PAR1"
    yield content[:-1]
    yield content[: len(content) // 2]
    yield content[:4] + draw.randbytes(len(content) - 8) + content[-4:]
    yield bytes(len(content))
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(8):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        yield bytes(changed)


@pytest.mark.parametrize(
    ("write", "read"),
    [(survey_file, read_survey), (history_file, read_history), (log_file, read_log)],
    ids=["survey", "history", "recorded log"],
)
def test_a_damaged_file_gives_one_clear_line_and_no_error_of_arrow(
    tmp_path: Path, write: Callable[[Path], None], read: Callable[[Path], Any]
) -> None:
    folder = tmp_path / "query=q" / "day=0"  # as the history lays its files
    folder.mkdir(parents=True)
    path = folder / "file.parquet"
    write(path)
    content = path.read_bytes()
    assert read(path)
    n_refused = 0
    for i, damaged in enumerate(damages(content)):
        path.unlink()
        path = folder / f"file{i}.parquet"
        path.write_bytes(damaged)
        try:
            read(path)
        except DeniableError as error:
            n_refused += 1
            assert "\n" not in str(error)  # noqa: PT017 - any of many
    assert n_refused > 50
