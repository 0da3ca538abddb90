"""A group commit: all uploads taken as one batch become what they would have become one after the
other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deniable.errors import RefusedError
from deniable.proxy.intake.quotas import MessageCounts
from deniable.proxy.intake.seen import EpochIds
from deniable.proxy.intake.uploaded_records import gather
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import channels_of
from toolkit.queries import make_query
from toolkit.shares import body_of, make_columns, records_of

QUERY = make_query()
OTHER = make_query(id="other")
EPOCH = 1000
NOW = QUERY.schedule.start_of_epoch(EPOCH) + 10


def outcome(result: UploadReceipt | RefusedError) -> object:
    return (
        result
        if isinstance(result, UploadReceipt)
        else (result.reason, result.status, result.detail, result.retry_after)
    )


def intake_at(folder: Path) -> Intake:
    intake = Intake(folder, IntakeRules(threshold=100_000, most_ids=60), lambda: NOW)
    intake.set_channels(channels_of([(QUERY.header, None), (OTHER.header, None)]))
    return intake


def random_uploads(random: np.random.Generator, n: int) -> list[Upload]:
    """Uploads of a few clients that draw from a small pool: new ones, retries, changed ones,
    floods, mixtures and garbage."""
    pool = [
        *records_of(QUERY, EPOCH, make_columns(QUERY, EPOCH, 40)[0]),
        *records_of(QUERY, EPOCH - 1, make_columns(QUERY, EPOCH - 1, 10)[0]),
        *records_of(OTHER, EPOCH, make_columns(OTHER, EPOCH, 10)[0]),
        *records_of(QUERY, EPOCH - 9, make_columns(QUERY, EPOCH - 9, 2)[0]),
    ]
    changed = [record[:-1] + bytes([record[-1] ^ 1]) for record in pool[:5]]
    odd = [
        b"",
        b"garbage",
        bytes(80),
        pool[0] + b"?",
        b"\x01S\x01\x00" + pool[0][4:],
        pool[0] + b"\x01S\x00\x01" + pool[0][4:],
    ]
    uploads = []
    for _ in range(n):
        client = bytes([random.integers(4)]) * 32
        quota = [None, 3, 8][random.integers(3)]
        draw = random.random()
        if draw < 0.1:
            content = odd[random.integers(len(odd))]
        elif draw < 0.2:
            content = changed[random.integers(len(changed))]
        else:
            content = b"".join(
                pool[i] for i in random.integers(0, len(pool), random.choice([1, 1, 1, 2, 4]))
            )
        uploads.append(Upload(client, quota, content))
    return uploads


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_becomes_what_its_uploads_would_become_in_some_order_that_the_intake_chose(
    tmp_path: Path, seed: int
) -> None:
    """The intake takes the simple ones first, then those that are of several epochs, repeat an id,
    or are no records."""
    random = np.random.default_rng(seed)
    together, one_by_one = intake_at(tmp_path / "together"), intake_at(tmp_path / "one by one")
    for _ in range(4):
        uploads = random_uploads(random, 25)
        results = together.take(uploads)
        simple = _simple_first(uploads)
        expected: dict[int, object] = {}
        for i in simple:
            (result,) = one_by_one.take([uploads[i]])
            expected[i] = outcome(result)
        assert [outcome(result) for result in results] == [expected[i] for i in range(len(uploads))]
    for intake in (together, one_by_one):
        intake.flush()
    rows = [_logged(intake) for intake in (together, one_by_one)]
    assert np.array_equal(rows[0], rows[1])
    assert rows[0].shape[1] == together.n_ids > 0
    assert together.counters["accepted"] == one_by_one.counters["accepted"] == rows[0].shape[1]
    together.close()
    one_by_one.close()


def _simple_first(uploads: list[Upload]) -> list[int]:
    gathered, odd = gather([upload.content for upload in uploads])
    simple: list[int] = []
    for part in gathered:
        names = list(map(tuple, part.columns[:2].T.tolist()))
        first = {name: i for i, name in reversed(list(enumerate(names)))}
        ends = [*part.starts.tolist()[1:], len(names)]
        for i, start, end in zip(part.uploads.tolist(), part.starts.tolist(), ends, strict=True):
            if any(first[name] != at for at, name in enumerate(names[start:end], start)):
                odd.append(i)
            else:
                simple.append(i)
    return simple + sorted(odd)


def _logged(intake: Intake) -> np.ndarray:
    blocks = [block.columns for block in intake.log.open_blocks()]
    rows = np.concatenate(blocks, axis=1)
    return rows[:, np.lexsort((rows[1], rows[0]))]


def test_a_share_that_was_refused_in_one_upload_is_taken_from_another_of_the_same_commit(
    tmp_path: Path,
) -> None:
    intake = intake_at(tmp_path / "proxy")
    records = records_of(QUERY, EPOCH, make_columns(QUERY, EPOCH, 3)[0])
    flood, single = Upload(b"a" * 32, 2, b"".join(records)), Upload(b"b" * 32, 1, records[0])
    refused, taken = intake.take([flood, single])
    assert isinstance(refused, RefusedError)
    assert refused.reason == "quota"
    assert taken == UploadReceipt(1, 0)
    intake.close()


def test_uploads_of_several_channels_and_epochs_are_gathered_by_them() -> None:
    bodies = [body_of(query, epoch, make_columns(query, epoch, n)[0]) for query, epoch, n in (
        (QUERY, EPOCH, 1), (OTHER, EPOCH, 2), (QUERY, EPOCH, 3), (QUERY, EPOCH - 1, 1),
    )]  # fmt: skip
    mixed = bodies[0] + bodies[3]
    parts, odd = gather([*bodies, mixed, b"no record"])
    found = {
        part.key[:2]: (part.uploads.tolist(), part.starts.tolist(), part.columns.shape[1])
        for part in parts
    }
    assert found == {
        (QUERY.channel_tag, EPOCH): ([0, 2], [0, 1], 4),
        (OTHER.channel_tag, EPOCH): ([1], [0], 2),
        (QUERY.channel_tag, EPOCH - 1): ([3], [0], 1),
    }
    assert odd == [4, 5]


def test_ids_that_are_laid_on_the_disk_are_found_as_those_in_memory_are(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    ids = random.integers(0, 1 << 64, (2, 60_000), dtype=np.uint64)
    checks = random.integers(0, 1 << 64, 60_000, dtype=np.uint64)
    laid, kept = EpochIds(tmp_path, largest_run=4000), EpochIds()
    for start in range(0, 50_000, 250):
        for seen in (laid, kept):
            seen.add(ids[:, start : start + 250], checks[start : start + 250])
    assert len(laid) == len(kept) == 50_000
    assert sum(run.ids.size for run in laid._settled) >= 48_000
    changed = checks.copy()
    changed[::7] ^= np.uint64(1)
    for seen in (laid, kept):
        found = seen.look(ids, changed)
        assert np.array_equal(found.new, np.arange(50_000, 60_000))
        assert found.n_changed == len(range(0, 50_000, 7))
    assert list(tmp_path.iterdir()) == [], "the files have no name: whatever happens, none is left"


def test_counts_are_those_of_a_dictionary_also_after_many_runs_were_merged() -> None:
    random = np.random.default_rng(3)
    counts, known = MessageCounts(most_recent=50), dict[int, int]()
    for _ in range(300):
        sent = {
            int(name): int(n)
            for name, n in zip(random.integers(0, 3000, 9), random.integers(1, 5, 9), strict=True)
        }
        counts.add(sent)
        for name, n in sent.items():
            known[name] = known.get(name, 0) + n
    names = list(range(3000))
    assert counts.of(names).tolist() == [known.get(name, 0) for name in names]
    assert {int.from_bytes(name, "little") for name in counts} == set(known)
