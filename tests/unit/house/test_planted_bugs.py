"""Bugs that are planted in the real code, each of which a named audit or check has to catch, and
passes without it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable import DirectEncoding, LocalHashing, OptimizedUnary, Rappor, seeded_source
from deniable.aggregator.history import report_files
from deniable.aggregator.windows import assembling
from deniable.aggregator.windows import estimates as window_estimates
from deniable.audit import device_lives
from deniable.client import encoding
from deniable.client.device import Device
from deniable.client.payment import Payment
from deniable.client.reading import Stop
from deniable.client.simulation import fleet
from deniable.client.storage.outbox import Outbox
from deniable.client.storage.seats import Seats
from deniable.graphs.response import EdgeResponse
from deniable.mechanisms.blankets import Blanket
from deniable.mechanisms.designs.design import SurveyDesign
from deniable.privacy.ledger import Accountant
from deniable.queries.signed.envelope import Envelope
from deniable.queries.signed.keys import PublicKey
from deniable.wire import message
from deniable.wire import shares as shares_room
from toolkit.attacks import attacks

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]

# --- plants in mechanisms


def wrong_p(patch: Patch) -> None:
    """Coins for an epsilon an eighth larger than the one that is stated."""
    real = DirectEncoding.draw
    patch.setattr(
        DirectEncoding, "draw", lambda self, i, source: real(DirectEncoding(8, 1.125), i, source)
    )


def seed_reused(patch: Patch) -> None:
    real = OptimizedUnary.draw
    patch.setattr(
        OptimizedUnary, "draw", lambda self, i, _: real(self, i, seeded_source("always the same"))
    )


def hash_from_the_value(patch: Patch) -> None:
    def draw(self: Any, indices: Any, source: Any) -> Any:
        seeds = self.seeds(indices.size, source)
        seeds[:, 0] = seeds[:, 0] & ~np.uint32(7) | indices.astype(np.uint32)
        return self.answer(seeds, indices, source)

    patch.setattr(LocalHashing, "draw", draw)


def spare_bits_tell(patch: Patch) -> None:
    """Five values take five bits of a byte; one of the others is set for some of them."""
    real = OptimizedUnary.draw

    def draw(self: Any, indices: Any, source: Any) -> Any:
        rows = real(self, indices, source)
        rows[:, -1] |= ((indices == 0) << 7).astype(np.uint8)
        return rows

    patch.setattr(OptimizedUnary, "draw", draw)


def bits_never_cleared(patch: Patch) -> None:
    def draw_permanent(self: Any, encoded: Any, source: Any) -> Any:
        cohorts = source.below(self.cohorts, encoded.size)
        filters = self._filters(encoded, cohorts)
        kept = source.bit_rows(self._steps.flip, len(filters), self.bits) | filters
        return np.hstack([cohorts.astype("<u2")[:, None].view(np.uint8), kept])

    patch.setattr(Rappor, "draw_permanent", draw_permanent)


def truth_told_too_often(patch: Patch) -> None:
    real = SurveyDesign.draw

    def draw(self: Any, indices: Any, source: Any) -> Any:
        honest = source.below(10, indices.size) == 0
        return np.where(honest, indices, real(self, indices, source)).astype(np.uint8)

    patch.setattr(SurveyDesign, "draw", draw)


def both_ends_at_the_full_loss(patch: Patch) -> None:
    """Each end of an edge reports it, and neither halves its epsilon."""
    patch.setattr(EdgeResponse, "copies", property(lambda self: 1))


# --- plants in the device


class Seen:
    """What the last answer was, for bugs that let it show elsewhere."""

    buckets: tuple[int, ...] = ()


def watch(patch: Patch) -> type[Seen]:
    real = Device._found

    def found(*arguments: Any) -> Any:
        answer = real(*arguments)
        Seen.buckets = tuple(answer.buckets)
        return answer

    patch.setattr(Device, "_found", found)
    return Seen


def charge_by_data(patch: Patch) -> None:
    """Only rows that hold something are paid for."""
    seen, real = watch(patch), Payment.make

    def make(self: Any) -> Any:
        held = sum(bucket >= 0 for bucket in seen.buckets)
        event = self._event
        self._event = dataclasses.replace(
            event, epsilon=event.cost * max(held, 1) / max(len(seen.buckets), 1)
        )
        return real(self)

    patch.setattr(Payment, "make", make)


def silence_without_data(patch: Patch) -> None:
    real = Device._found

    def found(*arguments: Any) -> Any:
        answer = real(*arguments)
        if max(answer.buckets) < 0:
            raise Stop("sampled out", "", "")
        return answer

    patch.setattr(Device, "_found", found)


def sampling_after_reading(patch: Patch) -> None:
    """The coin is flipped for those who have something to say; the others sit the epoch out."""
    now: list[Any] = []
    real_answer, real_sample = Device._answer, encoding.sample

    def answer(self: Any, transaction: Any, query: Any, epoch: int, at: int) -> Any:
        now[:] = [self, query]
        return real_answer(self, transaction, query, epoch, at)

    def sample(query: Any, n: int, strata: Any, source: Any) -> Any:
        chosen = real_sample(query, n, strata, source)
        return chosen & (max(now[0]._found(now[1], None, 0).buckets) >= 0)

    patch.setattr(Device, "_answer", answer)
    patch.setattr(encoding, "sample", sample)


def sleep_after_sql(patch: Patch) -> None:
    """The loop that the client once had: it sleeps after its work, however long that took."""

    def rounds(device: Any, network: Any, cadence: Any, *, clock: Any, sleep: Any) -> Iterator[Any]:
        while True:
            found = device.fetch(network)
            receipts = device.answer_all(found)
            uploaded = device.upload(network)
            sleep(cadence.every)
            yield receipts, uploaded

    patch.setattr(device_lives, "rounds", rounds)


def due_by_data(patch: Patch) -> None:
    seen, real = watch(patch), Outbox.enqueue

    def enqueue(
        self: Any, proxy: str, record: bytes, due: int, expires: int, answer: Any = None
    ) -> None:
        real(self, proxy, record, due + (seen.buckets[:1] == (3,)), expires, answer)

    patch.setattr(Outbox, "enqueue", enqueue)


def one_message_a_row(patch: Patch) -> None:
    """As many messages as there are rows, not as the query allows."""
    seen, real = watch(patch), encoding.share_records

    def share_records(
        query: Any, epoch: int, reports: Any, n: int, stratum: int, source: Any
    ) -> Any:
        return real(
            query,
            epoch,
            reports,
            max(1, sum(bucket >= 0 for bucket in seen.buckets)),
            stratum,
            source,
        )

    patch.setattr(encoding, "share_records", share_records)


def a_length_that_tells(patch: Patch) -> None:
    """A longer report for some answers: the next size class."""
    seen, real = watch(patch), shares_room.split

    def split(content: Any, size_class: int, *arguments: Any) -> Any:
        return real(content, size_class + (seen.buckets[:1] == (8,)), *arguments)

    patch.setattr(encoding, "split", split)


def a_counter_by_answer(patch: Patch) -> None:
    seen, real = watch(patch), Outbox.new_answer

    def new_answer(self: Any, *arguments: Any) -> Any:
        self._journal.count(f"answers in bucket {seen.buckets[0]}")
        return real(self, *arguments)

    patch.setattr(Outbox, "new_answer", new_answer)


def a_log_line_with_an_answer(patch: Patch) -> None:
    real = Device._found

    def found(*arguments: Any) -> Any:
        answer = real(*arguments)
        logging.getLogger("deniable.client").debug("answering %s", answer.buckets)
        return answer

    patch.setattr(Device, "_found", found)


def ledger_not_asked(patch: Patch) -> None:
    patch.setattr(Accountant, "check", lambda self, _: None)


def memo_not_kept_on_the_device(patch: Patch) -> None:
    patch.setattr(Seats, "keep", lambda self, _: None)


def signatures_not_checked(patch: Patch) -> None:
    patch.setattr(PublicKey, "verifies", lambda self, *_: True)


def controller_outside_its_envelope(patch: Patch) -> None:
    patch.setattr(Envelope, "check", lambda self, *_: None)


# --- plants in fleets, shares, proxies, aggregator


def memo_not_kept(patch: Patch) -> None:
    patch.setattr(
        fleet._Memo,
        "reports",
        lambda self, _, truth, source: encoding.randomize(self.query, truth, source),
    )


def memo_without_slot(patch: Patch) -> None:
    """All rows of a device look their permanent answers up in one place."""
    real = fleet._Memo.reports

    def reports(self: Any, devices: Any, indices: Any, source: Any) -> Any:
        rows = self.query.most_rows
        first = real(self, devices, np.asarray(indices), source).reshape(len(devices), rows, -1)
        values = np.asarray(indices).reshape(-1, rows)
        same = values == values[:, :1]
        first[same] = np.repeat(first[:, :1], rows, axis=1)[same]
        return first.reshape(len(devices) * rows, -1)

    patch.setattr(fleet._Memo, "reports", reports)


def shares(change: Callable[[list[Any], Any], None]) -> Plant:
    """A bug in how reports are split: `change` is given the columns of all proxies, and the
    reports."""

    def plant(patch: Patch) -> None:
        real = encoding.share_columns

        def share_columns(query: Any, epoch: int, reports: Any, *arguments: Any) -> Any:
            columns = real(query, epoch, reports, *arguments)
            change(columns, reports)
            return columns

        patch.setattr(encoding, "share_columns", share_columns)

    return plant


def first_share_is_empty(columns: list[Any], _: Any) -> None:
    columns[-1][2:] ^= columns[0][2:]
    columns[0][2:] = 0


def one_pad_for_all(columns: list[Any], _: Any) -> None:
    change = columns[0][2:] ^ columns[0][2:, :1]
    columns[0][2:] ^= change
    columns[-1][2:] ^= change


def id_from_the_report(columns: list[Any], reports: Any) -> None:
    for rows in columns:
        rows[1] = rows[1] & ~np.uint64(0xFF) | reports[:, 0].astype(np.uint64)


def ids_that_count_up(columns: list[Any], _: Any) -> None:
    """Blocks are sorted by id, so ids that are numbered sort them by arrival."""
    for rows in columns:
        rows[0] = np.arange(rows.shape[1], dtype=np.uint64) << np.uint64(40)


def tag_left_out(patch: Patch) -> None:
    patch.setattr(message, "siphash", lambda *_: 0)


def history_by_arrival(patch: Patch) -> None:
    patch.setattr(report_files.ReportRows, "sorted", lambda self: self)


def minimum_cohort_ignored(patch: Patch) -> None:
    real = window_estimates.estimate_period

    def estimate_period(versions: Any, panes: Any, period: Any) -> Any:
        lowered = [query.revised(minimum_cohort=1) for query in versions]
        renamed = {key._replace(serial=lowered[-1].serial): pane for key, pane in panes.items()}
        return real(lowered, renamed, period)

    patch.setattr(assembling, "estimate_period", estimate_period)


def blanket_too_large(patch: Patch) -> None:
    """More of the reports are said to be common to all values than are."""
    real = DirectEncoding.blanket

    def blanket(self: Any) -> Blanket:
        weight, ratio = real(self)
        return Blanket(weight * 1.3, 1 + (ratio - 1) / 2)

    patch.setattr(DirectEncoding, "blanket", blanket)


TWO_LIVES, PIPELINE = attacks.two_lives(), attacks.pipeline()
TABLE: list[tuple[Plant, str, attacks.Check]] = [
    (wrong_p, "audit mechanism", attacks.direct),
    (seed_reused, "audit mechanism, two reports", attacks.unary),
    (hash_from_the_value, "audit mechanism", attacks.hashing),
    (spare_bits_tell, "audit mechanism", attacks.unary),
    (bits_never_cleared, "audit mechanism, permanent answer", attacks.bloom),
    (truth_told_too_often, "audit design", attacks.design),
    (both_ends_at_the_full_loss, "audit graph", attacks.edges),
    (charge_by_data, "audit device, charges", TWO_LIVES),
    (silence_without_data, "audit device, uploads", TWO_LIVES),
    (sampling_after_reading, "audit device, uploads", TWO_LIVES),
    (sleep_after_sql, "audit device, polls", attacks.lives_by_the_clock),
    (due_by_data, "audit device, what waits", TWO_LIVES),
    (one_message_a_row, "audit device, uploads", TWO_LIVES),
    (a_length_that_tells, "audit device, uploads", TWO_LIVES),
    (a_counter_by_answer, "audit device, counters", TWO_LIVES),
    (a_log_line_with_an_answer, "test_planted_bugs: logs of two lives", attacks.nothing_is_logged),
    (ledger_not_asked, "audit device, the owner's limit", attacks.charges_within_the_limit),
    (memo_not_kept_on_the_device, "audit device, averaging", attacks.memo_repeats),
    (signatures_not_checked, "test_signing", attacks.strangers_are_refused),
    (controller_outside_its_envelope, "test_envelope", attacks.envelope_is_kept),
    (memo_not_kept, "audit pipeline, all together", attacks.pipeline(memoize=True)),
    (memo_without_slot, "test_distinguishing_games", attacks.rows_game),
    (shares(first_share_is_empty), "audit pipeline, proxy 2 alone", PIPELINE),
    (shares(one_pad_for_all), "audit pipeline, uniform noise", PIPELINE),
    (shares(id_from_the_report), "audit pipeline, each proxy alone", PIPELINE),
    (shares(ids_that_count_up), "audit pipeline, order in a proxy's log", attacks.order_in_the_log),
    (tag_left_out, "test_wire", attacks.changed_shares_are_noticed),
    (history_by_arrival, "test_history", attacks.history_has_one_order),
    (minimum_cohort_ignored, "test_windows", attacks.small_cohorts_are_withheld),
    (blanket_too_large, "test_privacy_blanket", attacks.shuffled_epsilon_is_an_upper_bound),
]
"""What is planted, which audit or test is for it, and the check that it makes."""
NAMES = [
    "first_share_is_empty",
    "one_pad_for_all",
    "id_from_the_report",
    "ids_that_count_up",
]


def name_of(row: int) -> str:
    plant = TABLE[row][0].__name__
    return (
        plant
        if plant != "plant"
        else NAMES[sum(TABLE[i][0].__name__ == "plant" for i in range(row))]
    )


@pytest.mark.slow
@pytest.mark.parametrize("row", range(len(TABLE)), ids=name_of)
def test_a_planted_bug_is_caught(tmp_path: Path, monkeypatch: Patch, row: int) -> None:
    plant, by, check = TABLE[row]
    plant(monkeypatch)
    assert not check(tmp_path), f"{by} did not notice"


CHECKS = {check: by for _, by, check in TABLE}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=CHECKS.values())
def test_without_a_bug_the_same_check_finds_nothing(tmp_path: Path, check: attacks.Check) -> None:
    assert check(tmp_path)


def test_there_are_enough_of_them() -> None:
    assert len(TABLE) >= 25
    assert len({name_of(row) for row in range(len(TABLE))}) == len(TABLE)
