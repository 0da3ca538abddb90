"""Panes: every joined message is counted or refused for one reason, and counting in parts is
counting at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.panes import PaneKey, count_messages
from deniable.counts import Counts
from deniable.errors import ParameterError
from deniable.queries.query import Query
from deniable.queries.strata import Stratum
from deniable.randomness import seeded_source
from deniable.wire.message import ANSWER, NOTHING, Opened
from deniable.wire.shares import join_columns, split_columns
from toolkit.queries import make_query

EPOCH = 3


def opened(
    query: Query, reports: Any, strata: Any = 0, kinds: Any = ANSWER, tag: int | None = None
) -> Opened:
    rows = np.asarray(reports, dtype=np.uint8).reshape(len(reports), -1)
    return join_columns(
        split_columns(
            rows, query.tag if tag is None else tag, EPOCH, 0, 2, strata, kinds, seeded_source(1)
        ),
        EPOCH,
    )


def drawn(query: Query, indices: list[int]) -> Any:
    return query.mechanism.draw(np.array(indices), seeded_source(2))


def test_reports_are_counted_as_their_mechanism_counts_them() -> None:
    query = make_query()
    reports = drawn(query, [1, 1, 4, 10, 0])
    panes, refused = count_messages(opened(query, reports), {query.tag: query}, EPOCH)
    assert refused == {}
    expected = Counts(query.mechanism.count(reports), 5)
    assert panes == {PaneKey(query.id, 1, EPOCH, 0): expected}
    assert expected.counts.sum() > 0


def test_strata_and_silent_messages_are_counted_apart() -> None:
    query = make_query(strata=[Stratum("town"), Stratum("country")])
    reports = drawn(query, [1, 2, 3, 4, 5])
    kinds = np.array([ANSWER, ANSWER, NOTHING, ANSWER, NOTHING])
    panes, refused = count_messages(
        opened(query, reports, [0, 1, 1, 1, 1], kinds), {query.tag: query}, EPOCH
    )
    assert refused == {}
    town, country = (panes[PaneKey(query.id, 1, EPOCH, stratum)] for stratum in (0, 1))
    assert (town.n, town.nothing, country.n, country.nothing) == (1, 0, 2, 2)
    assert np.array_equal(country.counts, query.mechanism.count(reports[[1, 3]]))


def test_versions_of_one_channel_are_counted_apart() -> None:
    first = make_query()
    second = first.revised(sampling=0.9)
    words = np.hstack(
        [opened(query, drawn(query, [1] * n)).words for query, n in ((first, 2), (second, 3))]
    )
    both = Opened(words, np.zeros(5, dtype=np.uint8))
    panes, refused = count_messages(both, {first.tag: first, second.tag: second}, EPOCH)
    assert refused == {}
    assert {key.serial: pane.n for key, pane in panes.items()} == {1: 2, 2: 3}


@pytest.mark.parametrize("n_bad", [1, 3])
def test_what_cannot_be_counted_is_refused_for_its_reason(n_bad: int) -> None:
    query = make_query(strata=[Stratum("town"), Stratum("country")])
    good = drawn(query, [1, 2])
    bits_beyond = np.array([[0, 0b1000]] * n_bad, dtype=np.uint8)  # bit 11 of 11
    cases = {
        "query": opened(query, good[:1].repeat(n_bad, 0), tag=77),
        "stratum": opened(query, good[:1].repeat(n_bad, 0), strata=2),
        "report": opened(query, bits_beyond),
        "padding": opened(query, np.ones((n_bad, 3), dtype=np.uint8)),
        "tag": opened(query, good[:1].repeat(n_bad, 0)),
    }
    cases["tag"].faults[:] = 1
    for reason, bad in cases.items():
        fine = opened(query, good)
        mixed = Opened(
            np.hstack([fine.words, bad.words]), np.concatenate([fine.faults, bad.faults])
        )
        panes, refused = count_messages(mixed, {query.tag: query}, EPOCH)
        assert refused == {reason: n_bad}
        assert panes == {PaneKey(query.id, 1, EPOCH, 0): Counts(query.mechanism.count(good), 2)}


def test_a_silent_message_of_an_unknown_stratum_is_refused() -> None:
    query = make_query()
    panes, refused = count_messages(
        opened(query, drawn(query, [1]), 5, NOTHING), {query.tag: query}, EPOCH
    )
    assert (panes, refused) == ({}, {"stratum": 1})


def test_panes_add_up() -> None:
    query = make_query()
    reports = drawn(query, list(range(11)) * 3)
    whole = Counts(query.mechanism.count(reports), 33, 2)
    parts = Counts(query.mechanism.count(reports[:20]), 20, 2)
    parts += Counts(query.mechanism.count(reports[20:]), 13)
    assert parts == whole
    with pytest.raises(
        ParameterError, match="cannot add panes of different versions: 11 counts and 3"
    ):
        parts += Counts(np.zeros(3, dtype=np.int64))
