"""Damage to the spool: whatever byte is changed, what was acknowledged comes back whole, or the
start is refused."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from deniable.errors import LogError
from deniable.proxy.intake.spool import Group, Spool
from deniable.proxy.intake.uploads import Intake, IntakeRules
from deniable.wire.sizes import row_words
from toolkit.shares import Words

GROUP = Group(channel=0x0123_4567_89AB_CDEF, epoch=77, size_class=0)


def rows(n: int, seed: int) -> Words:
    return np.random.default_rng(seed).integers(
        0, 1 << 63, (row_words(GROUP.size_class), n), dtype=np.uint64
    )


WRITES = [rows(n, i) for i, n in enumerate((1, 2, 1))]


def written(folder: Path, writes: Sequence[Words] = WRITES) -> Path:
    segment = Spool(folder).begin(GROUP)
    for columns in writes:
        segment.write(columns)
    segment.close()
    return segment.path


def found(folder: Path) -> tuple[Group, list[bytes]] | None:
    """The group and the writes that a start finds; None where it finds no segment."""
    recovered = Spool(folder).recover()
    for segment, _ in recovered:
        segment.close()
    if not recovered:
        return None
    ((segment, parts),) = recovered
    return segment.group, [np.ascontiguousarray(part).tobytes() for part in parts]


ALL = (GROUP, [columns.tobytes() for columns in WRITES])


def test_what_was_written_is_found_and_can_be_written_on(tmp_path: Path) -> None:
    written(tmp_path)
    assert found(tmp_path) == ALL
    ((segment, _),) = Spool(tmp_path).recover()
    segment.write(WRITES[0])
    segment.close()
    assert found(tmp_path) == (GROUP, [*ALL[1], ALL[1][0]])


def flips(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Every bit of every byte."""
    for at in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[at] ^= 1 << bit
            yield at, bytes(changed)


@pytest.mark.slow
def test_whatever_bit_of_a_segment_is_flipped_nothing_acknowledged_is_lost_moved_or_changed_in_silence(
    tmp_path: Path,
) -> None:
    """All bits of headers, lengths, checks, rows and seals: a flipped length lost shares in 32 of
    60 cases, a flipped header moved them to another epoch in 46 of 60."""
    path = written(tmp_path)
    content = path.read_bytes()
    n_refused = n_whole = 0
    for at, changed in flips(content):
        path.write_bytes(changed)
        try:
            outcome = found(tmp_path)
        except LogError:
            assert path.read_bytes() == changed, "a file that is refused is left as it is"
            n_refused += 1
            continue
        assert outcome == ALL, f"byte {at}"
        n_whole += 1
    assert n_refused + n_whole == 8 * len(content)
    assert n_refused > 8 * sum(map(len, ALL[1])), "every bit of every row is covered"


def test_bytes_that_are_overwritten_in_longer_stretches_are_refused_too(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = path.read_bytes()
    for length in (4, 8, 16, 64, 200):
        for start in range(0, len(content) - length, 4):
            for filling in (bytes(length), b"\xff" * length):
                path.write_bytes(content[:start] + filling + content[start + length :])
                try:
                    outcome = found(tmp_path)
                except LogError:
                    continue
                at_the_end = (
                    start + length == len(content) - len(content) % 4
                    or start + length > len(content) - 8
                )
                assert outcome == ALL or (length > 32 and at_the_end), (
                    f"{length} bytes from {start}"
                )


def test_two_records_that_change_places_are_refused(tmp_path: Path) -> None:
    same = [rows(2, 1), rows(2, 2)]
    path = written(tmp_path, same)
    content = path.read_bytes()
    length = (len(content) - 64) // 2
    path.write_bytes(content[:64] + content[64 + length :] + content[64 : 64 + length])
    with pytest.raises(LogError, match=f"{path.name} is damaged at byte 64"):
        found(tmp_path)


def test_a_write_that_a_crash_tore_is_cut_off_at_every_length_and_what_came_before_is_whole(
    tmp_path: Path,
) -> None:
    before = written(tmp_path, WRITES[:2]).read_bytes()
    path = tmp_path / "000000000001.spool"
    ((segment, _),) = Spool(tmp_path).recover()
    torn = []
    write = os.write

    def catching(file: int, content: bytes) -> int:
        torn.append(bytes(content))
        return write(file, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", catching)
        segment.write(WRITES[2])
    segment.close()
    record = torn[0]
    for length in range(len(record)):
        path.write_bytes(before + record[:length])
        assert found(tmp_path) == (GROUP, ALL[1][:2]), length
        assert path.read_bytes() == before, (
            "the tail is gone, so that the next write stands where it should"
        )
    for length in range(1, len(record), 7):  # the disk had room for it, and only a part of it came
        path.write_bytes(before + record[:length] + bytes(len(record) - length))
        assert found(tmp_path) == (GROUP, ALL[1][:2]), length
    # whole, and not acknowledged yet: it is kept, and its retry is known
    path.write_bytes(before + record)
    assert found(tmp_path) == ALL


def test_a_segment_that_was_only_begun_holds_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, [])
    content = path.read_bytes()
    torn = content + written(tmp_path / "other").read_bytes()[64:100]
    for length in range(len(torn)):
        path.write_bytes(torn[:length])
        assert found(tmp_path) is None
        assert not path.exists()


# --- the format before


def old_format(writes: Sequence[Words], group: Group = GROUP) -> bytes:
    """As the version before wrote it: no checks of the header and of lengths."""
    parts = [struct.pack("<8sQII", b"dnspool1", *group)]
    for columns in writes:
        content = columns.tobytes()
        parts += [struct.pack("<II", len(content), zlib.crc32(content)), content]
    return b"".join(parts)


def test_a_segment_of_the_old_format_is_read_and_written_anew_with_checks(tmp_path: Path) -> None:
    path = tmp_path / "000000000003.spool"
    path.write_bytes(old_format(WRITES))
    assert found(tmp_path) == ALL
    assert path.read_bytes().startswith(b"dnspool2")
    assert found(tmp_path) == ALL
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    with pytest.raises(LogError):
        found(tmp_path)


def test_damage_to_a_segment_of_the_old_format_that_can_be_seen_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "000000000003.spool"
    content = old_format(WRITES)
    first = 24  # the length of the first record
    for bit in range(32):
        changed = bytearray(content)
        changed[first + bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(changed))
        with pytest.raises(LogError, match="damaged"):
            found(tmp_path)
    for size_class in (7, 255, 1 << 31):
        path.write_bytes(old_format(WRITES, GROUP._replace(size_class=size_class)))
        with pytest.raises(LogError, match="damaged"):
            found(tmp_path)
    # torn at its end, as a crash leaves it
    path.write_bytes(content + old_format([WRITES[0]])[24:-5])
    assert found(tmp_path) == ALL


@pytest.mark.parametrize("content", [b"x" * 100, b"dnspool3" + bytes(100), bytes(4096)])
def test_what_is_no_segment_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "000000000001.spool").write_bytes(content)
    with pytest.raises(LogError, match="is not a spool segment"):
        found(tmp_path)


def test_a_proxy_that_was_killed_before_the_first_record_of_a_segment_starts_and_takes_shares(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "proxy"
    folder.mkdir()
    written(folder / "spool", [])
    now = [1_700_000_000]
    intake = Intake(folder, IntakeRules(deadline=0), lambda: now[0])
    intake.tick()
    intake.flush()
    assert (intake.n_waiting, intake.counters["appended"]) == (0, 0)
    intake.close()
