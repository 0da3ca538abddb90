"""What one bucket makes of a batch, without Spark: order of arrival, memory between batches,
orders, and blocks astray."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.catalogue import Catalogue, Published
from deniable.aggregator.counting.conservation import OUTSIDE
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.spark.batch import (
    BatchOutcome,
    BatchRecord,
    BatchRules,
    Closed,
    work,
)
from deniable.aggregator.engines.spark.bucket_state import EpochCache, Memory
from deniable.aggregator.engines.spark.rows import figures, to_rows
from deniable.errors import StateError
from deniable.queries.query import Query
from deniable.queries.signed.signing import sign
from deniable.randomness import seeded_source
from deniable.wire.blocks import cut
from deniable.wire.marks import MarkRecord
from deniable.wire.shares import split_columns
from toolkit.crowds import KEY, ORIGIN, minute_query
from toolkit.references.segments import InMemorySegments

QUERY = minute_query(proxies=["one", "two"])
TAG = QUERY.channel_tag


def rules_of(query: Query = QUERY, bits: int = 0) -> BatchRules:
    channels = Catalogue([Published(query, sign(query, KEY), ORIGIN, None)]).channels
    return BatchRules(channels, {query.channel_tag: 0}, 2, bits, EngineLimits(bucket_bits=2))


def shares_of(values: list[int], epoch: int = 0, seed: int = 1) -> list[Any]:
    source = seeded_source(seed)
    rows = QUERY.mechanism.draw(np.array(values), source).reshape(len(values), -1).view(np.uint8)
    return list(split_columns(rows, QUERY.tag, epoch, 0, 2, source=source))


def blocks_of(proxy: int, rows: Any, epoch: int = 0, at: int = 0) -> list[BatchRecord]:
    blocks, _ = cut(TAG, epoch, 0, rows, 2)
    return [BatchRecord(proxy, at + i, block.to_bytes()) for i, block in enumerate(blocks)]


def mark(proxy: int, epoch: int, at: int = 1000) -> BatchRecord:
    return BatchRecord(proxy, at, MarkRecord(TAG, epoch).to_bytes())


def counts(outcomes: list[BatchOutcome]) -> list[int]:
    total = np.zeros(12, dtype=np.int64)
    for outcome in outcomes:
        for pane in outcome.panes.values():
            total += pane.counts
    return total.tolist()


def fresh(
    n_proxies: int = 2,
    head: str = "",
    shelf: InMemorySegments | None = None,
    mind: EpochCache | None = None,
) -> Memory:
    return Memory(
        n_proxies,
        0,
        head,
        shelf or InMemorySegments(),
        EpochCache(1 << 20) if mind is None else mind,
    )


@pytest.mark.parametrize("keeps", [True, False])
def test_batches_cut_anywhere_and_a_memory_written_in_between_give_the_same(keeps: bool) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(0, 12, 200).tolist()
    shares = shares_of(values)
    records = [
        *blocks_of(0, shares[0]),
        *blocks_of(1, shares[1][:, :150]),
        *blocks_of(0, shares[0][:, :30], at=50),
    ]
    rest = blocks_of(1, shares[1][:, 150:], at=50)
    # complete long ago
    replayed = [*blocks_of(0, shares[0][:, :10], at=90), *blocks_of(1, shares[1][:, :10], at=90)]
    expected = work(
        rules_of(), fresh(), 0, [*records, *rest, *replayed, mark(0, 1), mark(1, 1)], ORIGIN
    )
    head, shelf, mind, outcomes = "", InMemorySegments(), EpochCache(1 << 20 if keeps else 0), []
    for part in (
        [records[i] for i in rng.permutation(len(records))],
        rest,
        replayed,
        [mark(0, 1)],
        [mark(1, 1)],
    ):
        memory = fresh(2, head, shelf, mind)
        outcomes.append(work(rules_of(), memory, 0, part, ORIGIN))
        head = memory.save()
    assert counts(outcomes) == counts([expected]) == np.bincount(values, minlength=12).tolist()
    told = figures([Row(row) for outcome in outcomes for row in rows(outcome)])
    assert told.ledger.accounts == expected.ledger.accounts
    assert [told.ledger.accounts[proxy, TAG, 0].duplicate for proxy in range(2)] == [40, 10]
    assert [closed for _, closed in told.closed] == expected.closed == [Closed(TAG, 0, ())]
    assert fresh(2, head, shelf).places == set()
    assert shelf.content == {}
    assert bool(shelf.reads) is not keeps
    assert len(mind) == 0


class Row:
    """A row as Spark gives it."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.__dict__.update(columns)


def rows(outcome: BatchOutcome) -> list[dict[str, Any]]:
    columns = to_rows(0, outcome)
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def test_an_order_closes_what_a_proxy_has_not_marked_and_names_it() -> None:
    shelf = InMemorySegments()
    memory = fresh(2, "", shelf)
    shares = shares_of([3] * 20)
    first = work(rules_of(), memory, 0, [*blocks_of(0, shares[0]), mark(0, 2)], ORIGIN)
    assert first.closed == []
    assert first.marks == {(0, TAG): 2}
    memory = fresh(2, memory.save(), shelf)
    second = work(rules_of(), memory, 0, [], ORIGIN, {TAG: 1, TAG ^ 1: 7})
    assert second.closed == [Closed(TAG, 0, (1,))]
    assert second.ledger.accounts[0, TAG, 0].orphaned == 20
    third = work(rules_of(), memory, 0, blocks_of(1, shares[1]), ORIGIN)
    assert third.ledger.accounts[1, TAG, 0].late == 20
    assert counts([first, second, third]) == [0] * 12


def test_a_block_in_another_partition_than_its_own_is_refused() -> None:
    shares = shares_of([3] * 40)
    (astray,) = (record for record in blocks_of(0, shares[0]) if record.content[16] == 3)
    n = int.from_bytes(astray.content[20:24], "little")
    for partition, expected in ((3, {}), (1, {(0, "partition"): n})):
        outcome = work(rules_of(bits=2), fresh(), partition, [astray], ORIGIN)
        assert outcome.ledger.reasons == expected
    assert outcome.ledger.accounts[0, OUTSIDE, OUTSIDE].malformed == n


def test_marks_never_go_back_and_those_of_unknown_channels_say_nothing() -> None:
    memory = fresh()
    other = BatchRecord(0, 2, MarkRecord(TAG ^ 1, 5).to_bytes())
    work(rules_of(), memory, 0, [mark(0, 4), mark(0, 2, at=1001), other], ORIGIN)
    assert memory.marks == [{TAG: 4}, {}]


def test_a_memory_of_other_proxies_is_refused() -> None:
    with pytest.raises(
        StateError, match="buckets of version 2, 3 proxies, and these are version 2, 2 proxies"
    ):
        fresh(2, fresh(3).save())
