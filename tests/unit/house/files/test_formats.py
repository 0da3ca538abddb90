"""The byte formats between and within services, against their vectors and against a second
implementation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from deniable import DirectEncoding, Reports, Tally, seeded_source
from deniable.aggregator.engines.spark.bucket_state import EpochCache, Memory
from deniable.counts import Counts
from deniable.errors import GraphError, ReportFormatError, StateError, WireError
from deniable.graphs.reports import GraphReports
from deniable.wire.containers import (
    TALLY,
    pack_container,
    pack_numbered,
    unpack_container,
    unpack_numbered,
)
from deniable.wire.counts import pack_counts, unpack_counts
from deniable.wire.pages import pack_page, unpack_page
from deniable.wire.segments import BucketHead, BucketSegment, SegmentPart, WrittenEpoch
from deniable.wire.shares import Share, pack_records, split_columns
from toolkit.references import format_reference as reference
from toolkit.references.segments import InMemorySegments

VECTORS: dict[str, Any] = json.loads(reference.VECTORS.read_text(encoding="utf-8"))


def cases(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", VECTORS[name], ids=lambda case: case["name"])


def reason_of(call: Any) -> str:
    with pytest.raises(WireError) as caught:
        call()
    return caught.value.reason


def test_the_vectors_are_those_of_the_reference() -> None:
    assert reference.vectors() == VECTORS


# --- containers


@cases("good_containers")
def test_containers(case: dict[str, Any]) -> None:
    content, magic, rows = (
        bytes.fromhex(case["bytes"]),
        case["kind"].encode(),
        bytes.fromhex(case["rows"]),
    )
    description, body = unpack_container(magic, "these", content)
    assert (description.decode(), unpack_numbered("these", body)) == (
        case["description"],
        (case["n"], rows),
    )
    assert pack_container(magic, description, pack_numbered(case["n"], rows)) == content
    kind: Any = Tally if magic == TALLY else Reports
    found = kind.from_bytes(content)
    assert found.to_bytes() == content
    assert (found.mechanism, len(found)) == (DirectEncoding(["a", "b", "c"], 2.0), case["n"])


@cases("bad_containers")
def test_bad_containers(case: dict[str, Any]) -> None:
    content = bytes.fromhex(case["bytes"])
    assert (
        reason_of(
            lambda: unpack_numbered("a tally", unpack_container(TALLY, "a tally", content)[1])
        )
        == case["reason"]
    )
    with pytest.raises(ReportFormatError):
        Tally.from_bytes(content)
    with pytest.raises(GraphError):
        GraphReports.from_bytes(content)


# --- counts


@cases("good_counts")
def test_counts(case: dict[str, Any]) -> None:
    content, counts = (
        bytes.fromhex(case["bytes"]),
        Counts(np.array(case["cells"], dtype=np.int64), 5, 1),
    )
    assert pack_counts(counts) == content
    assert unpack_counts(content, 5, 1) == counts


@cases("bad_counts")
def test_bad_counts(case: dict[str, Any]) -> None:
    assert reason_of(lambda: unpack_counts(bytes.fromhex(case["bytes"]), 0)) == case["reason"]


# --- the bulk encoder


@cases("good_records")
def test_records_in_bulk(case: dict[str, Any]) -> None:
    columns = np.array([np.frombuffer(bytes.fromhex(row), dtype="<u8") for row in case["rows"]]).T
    packed = pack_records(columns, int(case["channel"], 16), case["epoch"], case["size_class"])
    assert packed.hex() == case["bytes"]


def test_records_in_bulk_are_those_of_single_shares() -> None:
    columns, _ = split_columns(
        np.arange(40, dtype=np.uint8).reshape(20, 2), 5, 3, 1, 2, source=seeded_source(1)
    )
    rows = np.ascontiguousarray(columns.T, dtype="<u8").view(np.uint8)
    single = [Share(9, 3, 1, row[:16].tobytes(), row[16:].tobytes()).to_bytes() for row in rows]
    assert pack_records(columns, 9, 3, 1) == b"".join(single)


# --- pages of a log


@cases("good_pages")
def test_pages(case: dict[str, Any]) -> None:
    content, blocks = (
        bytes.fromhex(case["bytes"]),
        [(at, bytes.fromhex(block)) for at, block in case["blocks"]],
    )
    assert pack_page(blocks) == content
    assert unpack_page(content, case["after"]) == blocks


@cases("bad_pages")
def test_bad_pages(case: dict[str, Any]) -> None:
    assert (
        reason_of(lambda: unpack_page(bytes.fromhex(case["bytes"]), case["after"]))
        == case["reason"]
    )


# --- Spark's checkpoint


@cases("good_segments")
def test_segments(case: dict[str, Any]) -> None:
    content = bytes.fromhex(case["bytes"])
    parts = [
        SegmentPart(
            place,
            whose,
            np.array([[int(word, 16) for word in row] for row in rows], dtype=np.uint64).T,
        )
        for place, whose, rows in case["parts"]
    ]
    assert BucketSegment(case["after"], case["token"], parts).to_bytes() == content
    found = BucketSegment.from_bytes(content)
    assert (found.after, found.token) == (case["after"], case["token"])
    for part, expected in zip(found.parts, parts, strict=True):
        assert (part.number, part.whose, part.rows.tolist()) == (
            expected.number,
            expected.whose,
            expected.rows.tolist(),
        )


@cases("bad_segments")
def test_bad_segments(case: dict[str, Any]) -> None:
    assert (
        reason_of(lambda: BucketSegment.from_bytes(bytes.fromhex(case["bytes"]))) == case["reason"]
    )


@cases("good_heads")
def test_heads(case: dict[str, Any]) -> None:
    channel, (epoch, *written) = int(case["channel"], 16), case["epoch"]
    head = BucketHead(
        {channel: case["front"]},
        [{channel: case["marked"]}, {}],
        {(channel, epoch): WrittenEpoch(*written)},
    )
    assert head.to_text() == case["text"]
    assert BucketHead.from_text(case["text"], case["proxies"]) == head


@cases("bad_heads")
def test_bad_heads(case: dict[str, Any]) -> None:
    assert reason_of(lambda: BucketHead.from_text(case["text"], case["proxies"])) == case["reason"]
    with pytest.raises(StateError):
        Memory(case["proxies"], 0, case["text"], InMemorySegments(), EpochCache(0))
