"""A few bytes that would take much room: every decoder is bounded by what it is given."""

from __future__ import annotations

import gc
import json
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable import DirectEncoding, LaplaceEncoding, Reports, SubsetSelection, seeded_source
from deniable.errors import (
    DeniableError,
    ParameterError,
    QueryFileError,
    ReportFormatError,
    ReportMismatchError,
    SettingsError,
)
from deniable.logs.share_logs import _marks
from deniable.mechanisms.registry import known_mechanisms
from deniable.mechanisms.reports import Tally
from deniable.proxy.settings import read_settings
from deniable.queries.buckets import Buckets
from deniable.queries.columns.column import Column
from deniable.queries.files import parse_query
from deniable.wire.blocks import Block
from deniable.wire.containers import REPORTS, unpack_container
from deniable.wire.marks import MarkRecord
from deniable.wire.pages import unpack_page
from deniable.wire.segments import BucketSegment
from deniable.wire.shares import Share, read_batch


@contextmanager
def little(most_bytes: int = 4 << 20, seconds: float = 2) -> Iterator[None]:
    """No more is held at any time, and it does not take longer."""
    known_mechanisms()  # modules that are imported by the first who looks one up are not counted
    gc.collect()
    tracemalloc.start()
    began = time.process_time()
    yield
    taken = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < most_bytes
    assert taken < seconds


def reports_of(description: dict[str, Any], body: bytes = bytes(8), magic: bytes = b"dnr") -> bytes:
    text = json.dumps(description, sort_keys=True, separators=(",", ":")).encode()
    return struct.pack("<3sBI", magic, 1, len(text)) + text + body


HUGE = 1 << 24
DESCRIPTIONS: list[dict[str, Any]] = [
    {"mechanism": "DirectEncoding", "values": HUGE, "epsilon": 1.0},
    {"mechanism": "OptimizedUnary", "values": HUGE, "epsilon": 1.0},
    {"mechanism": "SymmetricUnary", "values": HUGE, "epsilon": 1.0},
    {"mechanism": "UnaryEncoding", "values": HUGE, "a": 0.5, "b": 0.25},
    {"mechanism": "BasicRappor", "values": HUGE, "f": 0.5, "p": 0.5, "q": 0.75},
    {"mechanism": "HadamardResponse", "values": HUGE, "epsilon": 1.0},
    {"mechanism": "LocalHashing", "values": HUGE, "epsilon": 1.0, "g": 1 << 16},
    {"mechanism": "RandomProjection", "values": 1 << 8, "epsilon": 1.0, "m": 1 << 24},
    {"mechanism": "SubsetSelection", "values": HUGE, "epsilon": 1.0},
    {"mechanism": "SummedHistogram", "values": HUGE, "epsilon": 1.0, "levels": 256},
    {"mechanism": "ThresholdHistogram", "values": HUGE, "epsilon": 1.0, "threshold": 0.5},
    {
        "mechanism": "Rappor",
        "bits": 1 << 30,
        "hashes": 1 << 30,
        "cohorts": 1 << 30,
        "f": 0.5,
        "p": 0.5,
        "q": 0.75,
    },
    {"mechanism": "DistanceSensitive", "values": 4096, "epsilon": 1.0, "kernel": "thesis"},
    {"mechanism": "LaplaceEncoding", "values": 4096, "epsilon": 1.0},
    {"mechanism": "SquareWave", "epsilon": 1.0, "bins": 4096, "low": 0.0, "high": 1.0},
    {"mechanism": "DesignMatrix", "P": [[0.5, 0.5], [0.5, 0.5]], "values": HUGE},
]


@pytest.mark.parametrize(
    "description", DESCRIPTIONS, ids=lambda description: description["mechanism"]
)
@pytest.mark.parametrize("kind", [Reports, Tally])
def test_a_short_description_of_a_large_mechanism_takes_little_room(
    description: dict[str, Any], kind: Any
) -> None:
    """78 bytes held 642 MB, and 100 bytes took 86 s."""
    content = reports_of(description, magic=b"dnr" if kind is Reports else b"dnt")
    assert len(content) < 200
    with little():
        try:
            kind.from_bytes(content)
        except DeniableError as error:
            assert len(str(error)) < 1000  # noqa: PT017 - some are refused, and some read


@pytest.mark.slow
def test_numbers_that_bytes_announce_are_compared_with_what_follows_before_anything_is_made() -> (
    None
):
    for announced in (1, 1 << 20, (1 << 64) - 1):
        with little(), pytest.raises(ReportFormatError, match="need"):
            Reports.from_bytes(
                reports_of(
                    {"mechanism": "DirectEncoding", "values": 4, "epsilon": 1.0},
                    struct.pack("<Q", announced),
                )
            )


def test_labels_of_a_numbered_domain_are_still_a_tuple_and_mean_the_same() -> None:
    mechanism = DirectEncoding(5, 1.0)
    assert mechanism.labels == (0, 1, 2, 3, 4)
    assert mechanism == DirectEncoding([0, 1, 2, 3, 4], 1.0)
    assert hash(mechanism) == hash(DirectEncoding([0, 1, 2, 3, 4], 1.0))
    assert mechanism.estimate(mechanism.privatize([1, 2, 3], source=seeded_source(1))).labels == (
        0,
        1,
        2,
        3,
        4,
    )
    assert DirectEncoding([1, 0], 1.0).labels == (1, 0)


def test_reports_of_a_large_matrix_are_read_with_the_mechanism_and_those_of_another_refused() -> (
    None
):
    large = LaplaceEncoding(1100, 1.0)
    reports = large.privatize(np.arange(20), source=seeded_source(2))
    with pytest.raises(ReportFormatError, match="give the mechanism"):
        Reports.from_bytes(reports.to_bytes())
    assert Reports.from_bytes(reports.to_bytes(), large) == reports
    tally = large.tally().update(reports)
    assert Tally.from_bytes(tally.to_bytes(), large) == tally
    small = SubsetSelection(6, 1.0)
    with pytest.raises(ReportMismatchError, match="another mechanism"):
        Reports.from_bytes(reports.to_bytes(), small)
    with pytest.raises(ReportMismatchError, match="another mechanism"):
        Reports.from_bytes(small.privatize(1).to_bytes(), SubsetSelection(6, 2.0))


def test_columns_that_combine_to_gigabytes_of_labels_are_refused() -> None:
    columns = [Column("n" * 190 + str(i), ["x" * 1000], other=True) for i in range(16)]
    with little(), pytest.raises(ParameterError, match="characters"):
        Buckets(columns)


HEAD = struct.pack("<BBBBIQ", 1, ord("B"), 6, 0, 0, 7)
DECODERS: list[tuple[Callable[[bytes], Any], bytes]] = [
    (Block.from_bytes, HEAD + struct.pack("<II", 0, 1 << 16)),
    (Block.from_bytes, HEAD + struct.pack("<II", 0, (1 << 32) - 1)),
    (Share.from_bytes, struct.pack("<BBBBIQ", 1, ord("S"), 6, 0, 0, 7)),
    (read_batch, struct.pack("<BBBBIQ", 1, ord("S"), 255, 0, 0, 7)),
    (MarkRecord.from_bytes, bytes(15)),
    (lambda content: unpack_page(content, 0), struct.pack("<QI", 1, (1 << 32) - 1)),
    (BucketSegment.from_bytes, (1 << 31).to_bytes(4, "little")),
    (
        BucketSegment.from_bytes,
        b"\x3e\0\0\0" + b'{"after":"","token":"0011223344556677","parts":[[0,-1,2,999999]]}'[:62],
    ),
    (
        lambda content: unpack_container(REPORTS, "reports", content),
        struct.pack("<3sBI", b"dnr", 1, (1 << 32) - 1),
    ),
    (lambda content: _marks(content.decode()), b"0000000000000007:" + b"9" * 100_000 + b":1"),
]


@pytest.mark.parametrize(("decode", "content"), DECODERS)
def test_a_decoder_of_the_wire_makes_nothing_that_its_bytes_do_not_hold(
    decode: Callable[[bytes], Any], content: bytes
) -> None:
    with little(1 << 20), pytest.raises(ValueError):  # noqa: PT011 - each has its own words
        decode(content)


DEEP = {
    "lists": "a = " + "[" * 100_000,
    "tables": "a = " + "{a = " * 50_000,
    "a key": "[" + "a." * 100_000 + "a]",  # took 14 s
    "a key in quotes": '"a" . ' * 100_000 + "a = 1",
    "a long word": "a" * (1 << 20) + "." * 1000,
    "quotes": "'" * (1 << 20),
}


@pytest.mark.parametrize("opening", DEEP.values(), ids=DEEP)
def test_files_that_nest_without_end_are_one_clear_line(tmp_path: Path, opening: str) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(opening)
    began = time.process_time()
    with pytest.raises(QueryFileError):
        parse_query(opening)
    with pytest.raises(SettingsError):
        read_settings(path)
    assert time.process_time() - began < 2
