"""The wire format: against its test vectors, against a second implementation, and in bulk against
one by one."""

from __future__ import annotations

import json
import pickle
import struct
from typing import Any

import numpy as np
import pytest

from deniable import ScriptedSource, seeded_source
from deniable.errors import ParameterError, WireError
from deniable.wire.blocks import Block, common_rows, cut
from deniable.wire.marks import MarkRecord, is_mark
from deniable.wire.message import (
    ANSWER,
    CHUNK,
    NOTHING,
    Message,
    MessageFault,
    message_words,
    open_columns,
)
from deniable.wire.shares import (
    Share,
    join,
    join_columns,
    read_batch,
    record_bytes,
    split,
    split_columns,
)
from deniable.wire.sizes import SIZE_CLASSES, capacity, smallest_class
from deniable.wire.tags import siphash, siphash_columns
from toolkit.references import wire_reference as reference

VECTORS: dict[str, Any] = json.loads(reference.VECTORS.read_text(encoding="utf-8"))


def cases(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", VECTORS[name], ids=lambda case: case["name"])


def reason_of(call: Any) -> str:
    with pytest.raises(WireError) as caught:
        call()
    return caught.value.reason


def columns_of(shares: list[Share]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(
        [np.frombuffer(share.id + share.payload, dtype="<u8") for share in shares], dtype=np.uint64
    ).T.copy()


# --- SipHash

# Of the authors' published table: key 00 01 … 0f, input 00 01 … of the given length. 15 bytes is
# the paper's own example.
PUBLISHED = {
    0: "310e0edd47db6f72",
    8: "6224939a79f5f593",
    15: "e545be4961ca29a1",
    16: "db9bc2577fcc2a3f",
}


@pytest.mark.parametrize("length", PUBLISHED)
def test_siphash_gives_the_published_values(length: int) -> None:
    key, data = bytes(range(16)), bytes(range(length))
    assert reference.siphash24(key, data).to_bytes(8, "little").hex() == PUBLISHED[length]
    if length % 8 == 0:
        k0, k1 = struct.unpack("<QQ", key)
        words = struct.unpack(f"<{length // 8}Q", data)
        assert siphash((k0, k1), words).to_bytes(8, "little").hex() == PUBLISHED[length]


@pytest.mark.parametrize("n_words", [0, 1, 3, 31, 32, 61])
def test_siphash_of_columns_is_siphash_of_each(n_words: int) -> None:
    drawn = seeded_source(n_words).words(50 * (n_words + 2)).reshape(-1, 50)
    tags = siphash_columns(drawn[0], drawn[1], drawn[2:])
    for column, tag in zip(drawn.T, tags, strict=True):
        expected = reference.siphash24(column[:2].tobytes(), column[2:].tobytes())
        assert (
            int(tag) == expected == siphash((int(column[0]), int(column[1])), column[2:].tolist())
        )


# --- vectors


def test_the_vectors_are_what_the_reference_writes() -> None:
    assert reference.vectors() == VECTORS


@cases("good_messages")
def test_good_messages_are_written_and_read_as_in_the_vectors(case: dict[str, Any]) -> None:
    report = bytes.fromhex(case["report"])
    message = Message(
        int(case["query_tag"], 16), case["epoch"], report, case["stratum"], case["kind"]
    )
    source = ScriptedSource(bytes.fromhex(case["drawn"]))
    shares = split(message, case["size_class"], case["n_shares"], int(case["channel"], 16), source)
    assert source.remaining == 0
    assert [share.to_bytes().hex() for share in shares] == case["shares"]
    read = join([Share.from_bytes(bytes.fromhex(share)) for share in case["shares"]])
    assert (read.query_tag, read.epoch, read.stratum, read.kind) == (
        message.query_tag,
        message.epoch,
        message.stratum,
        message.kind,
    )
    assert read.trimmed(len(report)) == report


@cases("good_messages")
def test_good_messages_in_bulk_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    report = np.frombuffer(bytes.fromhex(case["report"]), dtype=np.uint8).reshape(1, -1)
    rows = split_columns(
        report,
        int(case["query_tag"], 16),
        case["epoch"],
        case["size_class"],
        case["n_shares"],
        strata=case["stratum"],
        kinds=case["kind"],
        source=ScriptedSource(bytes.fromhex(case["drawn"])),
    )
    assert [row.T.tobytes().hex() for row in rows] == [share[32:] for share in case["shares"]]


@cases("bad_messages")
def test_bad_messages_are_refused_for_the_stated_reason(case: dict[str, Any]) -> None:
    shares = [Share.from_bytes(bytes.fromhex(share)) for share in case["shares"]]
    assert reason_of(lambda: join(shares).trimmed(case["report_bytes"])) == case["reason"]


@cases("bad_messages")
def test_bad_messages_in_bulk_have_the_same_reason_and_spoil_no_other(case: dict[str, Any]) -> None:
    shares = [Share.from_bytes(bytes.fromhex(share)) for share in case["shares"]]
    if case["reason"] == "shares":
        if len({share.epoch for share in shares}) == 1:
            assert (
                reason_of(lambda: join_columns([columns_of([share]) for share in shares], 7))
                == "shares"
            )
        return
    good = split(Message(5, 7, b"\x12\x04"), 0, 2, 9, seeded_source(1))
    opened = join_columns([columns_of([g, bad, g]) for g, bad in zip(good, shares, strict=True)], 7)
    reports, places = opened.reports(5, 2)
    assert places.tolist() == [0, 2]
    assert reports.tobytes() == b"\x12\x04\x12\x04"
    assert opened.faults.tolist() == [0, MessageFault[case["reason"].upper()], 0]
    assert opened.counts_by_fault()[case["reason"]] == 1


@cases("bad_shares")
def test_bad_shares_are_refused_for_the_stated_reason(case: dict[str, str]) -> None:
    assert reason_of(lambda: Share.from_bytes(bytes.fromhex(case["record"]))) == case["reason"]


@cases("bad_shares")
def test_a_batch_with_a_bad_share_is_refused_whole(case: dict[str, str]) -> None:
    good = VECTORS["good_messages"][0]["shares"][0]
    # the length is no multiple of a record's
    expected = "truncated" if case["reason"] == "trailing" else case["reason"]
    for body in (case["record"], good + case["record"])[: 2 if case["record"] else 1]:
        assert reason_of(lambda body=body: read_batch(bytes.fromhex(body))) == expected


@cases("good_blocks")
def test_good_blocks_are_written_and_read_as_in_the_vectors(case: dict[str, Any]) -> None:
    block = Block.from_bytes(bytes.fromhex(case["block"]))
    assert f"{block.channel:016x}" == case["channel"]
    assert [getattr(block, name) for name in ("epoch", "size_class", "prefix_bits", "prefix")] == [
        case[name] for name in ("epoch", "size_class", "prefix_bits", "prefix")
    ]
    assert [(share.id + share.payload).hex() for share in block.shares()] == case["rows"]
    assert block.to_bytes().hex() == case["block"]


@cases("bad_blocks")
def test_bad_blocks_are_refused_for_the_stated_reason(case: dict[str, str]) -> None:
    assert reason_of(lambda: Block.from_bytes(bytes.fromhex(case["block"]))) == case["reason"]


# --- many at once


@pytest.mark.parametrize(
    ("size_class", "n_shares", "length"), [(0, 2, 2), (0, 3, 8), (1, 2, 25), (2, 5, 200)]
)
def test_bulk_and_one_by_one_give_the_same_bytes(
    size_class: int, n_shares: int, length: int
) -> None:
    n = 23
    rng = np.random.default_rng(3)
    reports = rng.integers(0, 256, (n, length), dtype=np.uint8)
    strata, kinds = rng.integers(0, 1 << 16, n), rng.integers(0, 2, n)
    script = seeded_source(4).words(n * (4 + (n_shares - 1) * message_words(size_class))).tobytes()
    bulk = split_columns(
        reports, 99, 3, size_class, n_shares, strata, kinds, ScriptedSource(script)
    )
    source = ScriptedSource(script)
    for i in range(n):
        report = bytes(length) if kinds[i] == NOTHING else reports[i].tobytes()
        shares = split(
            Message(99, 3, report, int(strata[i]), int(kinds[i])), size_class, n_shares, 8, source
        )
        assert [share.id + share.payload for share in shares] == [
            rows[:, i].tobytes() for rows in bulk
        ]
    assert source.remaining == 0
    opened = join_columns(bulk, 3)
    assert not opened.faults.any()
    assert opened.strata.tolist() == strata.tolist()
    assert opened.kinds.tolist() == kinds.tolist()
    found, places = opened.reports(99, length)
    assert places.tolist() == np.flatnonzero(kinds == ANSWER).tolist()
    assert np.array_equal(found, reports[kinds == ANSWER])


def test_chunks_leave_no_seam() -> None:
    n = 2 * CHUNK + 3
    reports = np.arange(2 * n, dtype=np.uint16).view(np.uint8).reshape(-1, 2)[:n]
    shares = split_columns(reports, 5, 7, 0, 2, strata=np.arange(n) % 7, source=seeded_source(1))
    opened = join_columns(shares, 7)
    found, _ = opened.reports(5, 2)
    assert np.array_equal(found, reports)
    assert opened.strata.tolist() == (np.arange(n) % 7).tolist()
    assert len(np.unique(shares[0][0])) == n


def test_every_flipped_bit_of_a_share_is_noticed() -> None:
    """One column for each bit of a share of size class 0: the message is refused whatever the bit
    stood for."""
    n_bits = 48 * 8
    reports = np.tile(np.array([[0x12, 0x04]], dtype=np.uint8), (n_bits, 1))
    one, two = split_columns(reports, 5, 7, 0, 2, source=seeded_source(2))
    for bit in range(n_bits):
        two[2 + bit // 64, bit] ^= np.uint64(1 << bit % 64)
    assert join_columns([one, two], 7).faults.tolist() == [MessageFault.TAG] * n_bits


def test_one_share_says_nothing_of_the_message() -> None:
    """Each proxy's rows are the source's bytes, or those XOR a message: under the same script all
    but the last share are the same for any message, and for the last there is a script that makes
    it any bytes at all."""
    script = seeded_source(5).words(4 + 6).tobytes()
    yes, no = (
        split(Message(1, 1, report), 0, 2, 9, ScriptedSource(script)) for report in (b"\1", b"\0")
    )
    assert yes[0] == no[0]
    target = no[1].payload
    sealed = Message(1, 1, b"\1").seal(0, struct.unpack_from("<QQ", script, 16))
    pad = reference.xor(sealed, target)
    assert (
        split(Message(1, 1, b"\1"), 0, 2, 9, ScriptedSource(script[:32] + pad))[1].payload == target
    )


def test_padding_is_checked_against_the_query_not_the_class() -> None:
    shares = split_columns(
        np.array([[1, 2, 3]], dtype=np.uint8), 5, 7, 0, 2, source=seeded_source(6)
    )
    opened = join_columns(shares, 7)
    assert len(opened.reports(5, 2)[0]) == 0
    assert opened.faults.tolist() == [MessageFault.PADDING]
    assert len(join_columns(shares, 7).reports(5, 3)[0]) == 1
    long = split_columns(np.full((1, 70), 1, dtype=np.uint8), 5, 7, 1, 2, source=seeded_source(6))
    for n_bytes in (1, 8, 63, 64, 69):
        assert len(join_columns(long, 7).reports(5, n_bytes)[0]) == 0
    for n_bytes in (70, 71, 72):
        assert len(join_columns(long, 7).reports(5, n_bytes)[0]) == 1


def test_reports_of_another_query_are_left_for_it() -> None:
    shares = [
        np.hstack(pair)
        for pair in zip(
            *(split_columns(np.array([[tag]], np.uint8), tag, 7, 0, 2) for tag in (1, 2, 1)),
            strict=True,
        )
    ]
    opened = join_columns(shares, 7)
    assert opened.query_tags.tolist() == [1, 2, 1]
    assert opened.reports(1, 1)[1].tolist() == [0, 2]
    assert opened.reports(2, 1)[0].tolist() == [[2]]


@pytest.mark.parametrize(
    "call",
    [
        lambda: split(Message(1, 1, b""), 0, 1, 0),
        lambda: split(Message(1, 1, bytes(9)), 0, 2, 0),
        lambda: split(Message(1, 1 << 32, b""), 0, 2, 0),
        lambda: split(Message(1, -1, b""), 0, 2, 0),
        lambda: split(Message(1, 1, b"", stratum=1 << 16), 0, 2, 0),
        lambda: split(Message(1, 1, b"\1", kind=NOTHING), 0, 2, 0),
        lambda: split_columns(np.zeros((1, 9), np.uint8), 1, 1, 0, 2),
        lambda: split_columns(np.zeros((1, 2), np.int64), 1, 1, 0, 2),
        lambda: split_columns(np.zeros((1, 2), np.uint8), 1, 1, 0, 2, strata=[-1]),
        lambda: split_columns(np.zeros((1, 2), np.uint8), 1, 1, 0, 2, kinds=[2]),
        lambda: split_columns(np.zeros((1, 2), np.uint8), 1, 1, 0, 1),
    ],
)
def test_what_cannot_be_sent_is_refused(call: Any) -> None:
    with pytest.raises(ParameterError):
        call()


def test_a_report_takes_the_smallest_class_that_holds_it() -> None:
    for size_class in SIZE_CLASSES:
        assert smallest_class(capacity(size_class)) == size_class
        assert record_bytes(size_class) == 16 + 64 * 2**size_class
    with pytest.raises(ParameterError):
        smallest_class(capacity(SIZE_CLASSES[-1]) + 1)


# --- uploads and blocks


def test_a_batch_is_sorted_by_channel_and_epoch() -> None:
    shares = [
        split(Message(1, epoch, b"\1"), 0, 2, channel, seeded_source(i))[0]
        for i, (channel, epoch) in enumerate([(5, 1), (6, 1), (5, 2), (5, 1)])
    ]
    found = read_batch(b"".join(share.to_bytes() for share in shares))
    assert set(found) == {(5, 1, 0), (6, 1, 0), (5, 2, 0)}
    assert np.array_equal(found[5, 1, 0], columns_of([shares[0], shares[3]]))
    assert np.array_equal(found[5, 2, 0], columns_of([shares[2]]))


def test_blocks_hold_every_row_once_in_order_under_its_prefix() -> None:
    n = 3000
    rows = split_columns(np.zeros((n, 2), np.uint8), 1, 2, 0, 2, source=seeded_source(9))[0]
    twice = np.hstack([rows, rows[:, 100:110]])
    twice[2:, n:] ^= np.uint64(1)  # the repeated ids carry something else: the first is what counts
    blocks, n_repeated = cut(7, 2, 0, twice, prefix_bits=3, most_rows=200)
    assert n_repeated == 10
    together = np.hstack([block.columns for block in blocks])
    order = np.lexsort((rows[1], rows[0]))
    assert np.array_equal(together, rows[:, order])
    assert max(map(len, blocks)) == 200
    for block in blocks:
        assert (block.columns[0] >> np.uint64(61) == block.prefix).all()
        assert np.array_equal(Block.from_bytes(block.to_bytes()).columns, block.columns)


def test_blocks_without_a_prefix_and_without_rows() -> None:
    rows = split_columns(np.zeros((5, 2), np.uint8), 1, 2, 0, 2, source=seeded_source(9))[0]
    (block,), _ = cut(7, 2, 0, rows, prefix_bits=0)
    assert len(block) == 5
    assert cut(7, 2, 0, rows[:, :0], prefix_bits=4) == ([], 0)


@pytest.mark.parametrize("n_proxies", [2, 3])
@pytest.mark.parametrize("chosen_ids", [False, True])
def test_common_rows_are_the_intersection(n_proxies: int, chosen_ids: bool) -> None:
    """With ids that share their high words, which only somebody who chooses them can bring about,
    as without."""
    rng = np.random.default_rng(10)
    ids = np.unique(
        rng.integers(0, 20 if chosen_ids else 1 << 60, (2, 200)).astype(np.uint64), axis=1
    )
    columns = [
        ids[:, np.sort(rng.choice(ids.shape[1], 120, replace=False))] for _ in range(n_proxies)
    ]
    expected = set.intersection(*(set(map(tuple, c.T.tolist())) for c in columns))
    places = common_rows(columns)
    for c, p in zip(columns, places, strict=True):
        assert list(map(tuple, c[:, p].T.tolist())) == sorted(expected)
    assert [p.size for p in common_rows([columns[0], columns[0][:, :0]])] == [0, 0]


def test_the_whole_way_from_reports_to_reports() -> None:
    """Split, cut by two proxies that got different shares and in different orders, matched, joined:
    what both got is counted."""
    rng = np.random.default_rng(11)
    reports = rng.integers(0, 256, (2000, 2), dtype=np.uint8)
    one, two = split_columns(reports, 5, 7, 0, 2, source=seeded_source(12))
    got = [rng.permutation(2000)[:1800], rng.permutation(2000)[:1900]]
    cuts = [
        {b.prefix: b for b in cut(1, 7, 0, rows[:, g], 2)[0]}
        for rows, g in ((one, got[0]), (two, got[1]))
    ]
    found = []
    for prefix in range(4):
        pair = [c[prefix].columns for c in cuts]
        opened = join_columns(
            [np.take(c, p, axis=1) for c, p in zip(pair, common_rows(pair), strict=True)], 7
        )
        assert not opened.faults.any()
        found.append(opened.reports(5, 2)[0])
    both = np.intersect1d(got[0], got[1])
    assert sorted(np.vstack(found).tolist()) == sorted(reports[both].tolist())


def test_nothing_of_a_share_shows_in_a_repr_or_error() -> None:
    share = split(Message(5, 7, b"\x12\x04"), 0, 2, 9, seeded_source(13))[0]
    (block,), _ = cut(9, 7, 0, columns_of([share]), 0)
    words = [share.id.hex(), share.payload.hex()[:16], *map(str, block.columns[:, 0].tolist())]
    shown = (
        repr(share)
        + str(share)
        + repr(block)
        + repr(Message(5, 7, b"\x12\x04"))
        + repr(join_columns([block.columns] * 2, 7))
    )
    assert not [word for word in words if word in shown]
    assert "\\x12" not in shown
    error = WireError("tag", "detail")
    assert pickle.loads(pickle.dumps(error)).reason == "tag"  # noqa: S301 - our own pickle


def test_open_columns_takes_columns_that_cannot_be_written() -> None:
    """Blocks are read in place from bytes, so what comes from them must not be written to."""
    raw = [
        cut(1, 7, 0, rows, 0)[0][0].to_bytes()
        for rows in split_columns(np.array([[3]], np.uint8), 5, 7, 0, 2)
    ]
    blocks = [Block.from_bytes(content) for content in raw]
    assert not blocks[0].columns.flags.writeable
    assert open_columns(blocks[0].columns[2:] ^ blocks[1].columns[2:], 7).reports(5, 1)[
        0
    ].tolist() == [[3]]


MARK = (
    bytes([1, ord("M"), 0, 0])
    + (4).to_bytes(4, "little")
    + (0xFFEEDDCCBBAA9988).to_bytes(8, "little")
)


def test_a_mark_is_sixteen_bytes_as_documented() -> None:
    assert MarkRecord(0xFFEEDDCCBBAA9988, 4).to_bytes() == MARK
    assert MarkRecord.from_bytes(MARK) == (0xFFEEDDCCBBAA9988, 4)
    assert is_mark(MARK)
    assert not is_mark(MARK[:1] + b"B" + MARK[2:])
    assert not is_mark(b"")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (MARK[:-1], "truncated"),
        (MARK + b"\0", "trailing"),
        (b"\2" + MARK[1:], "version"),
        (MARK[:1] + b"B" + MARK[2:], "kind"),
        (MARK[:2] + b"\1" + MARK[3:], "reserved"),
    ],
)
def test_bad_marks_are_refused_for_the_stated_reason(content: bytes, reason: str) -> None:
    with pytest.raises(WireError) as caught:
        MarkRecord.from_bytes(content)
    assert caught.value.reason == reason
