from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deniable.client import encoding
from deniable.errors import ParameterError
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.queries.columns.column import Column
from deniable.queries.strata import Stratum
from deniable.randomness import seeded_source
from deniable.scripted_randomness import ScriptedSource, every_path
from deniable.wire.message import ANSWER, NOTHING
from deniable.wire.shares import Share, join
from toolkit.devices import asked

THREE = [Column("distance", ["[0,1)", "[1,2)", "[2,inf)"])]
COMPLETE = [Column("distance", ["[0,1)", "[1,2)"], other=True)]
RAPPOR = {"name": "BasicRappor", "f": 0.5, "p": 0.5, "q": 0.75}


def test_the_sampling_coin_has_exactly_the_probability_of_its_stratum() -> None:
    query = asked(sampling=0.3, strata=[Stratum("north"), Stratum("south", sampling=0.7)])
    for stratum, sampling in ((0, 0.3), (1, 0.7)):
        yes = sum(
            p
            for p, out in every_path(lambda s: encoding.sample(query, 1, stratum, s)[0])  # noqa: B023
            if out
        )
        assert yes == Fraction(query.sampling_of(stratum), 1 << 64)
        assert abs(yes - Fraction(sampling)) < Fraction(1, 1 << 64)


def test_strata_in_bulk_are_each_sampled_with_their_own_coin() -> None:
    query = asked(sampling=1.0, strata=[Stratum("all"), Stratum("few", sampling=1e-300)])
    strata = np.arange(1000) % 2
    assert encoding.sample(query, 1000, strata, seeded_source(1)).tolist() == (strata == 0).tolist()


@pytest.mark.parametrize("other", [False, True])
def test_whoever_has_no_answer_is_randomized_by_a_channel_within_epsilon_of_all_others(
    other: bool,
) -> None:
    query = asked(
        columns=COMPLETE if other else THREE,
        mechanism={"name": "UnaryEncoding", "a": 0.75, "b": 0.25},
    )
    laws: list[dict[bytes, Fraction]] = []
    for answer in (encoding.no_answer(query), 0, 1):
        law: dict[bytes, Fraction] = {}
        for p, row in every_path(
            lambda s: encoding.randomize(query, np.array([answer]), s).tobytes()  # noqa: B023
        ):
            law[row] = law.get(row, Fraction(0)) + p
        assert sum(law.values()) == 1
        laws.append(law)
    ratios = [one[row] / two[row] for one in laws for two in laws for row in laws[0]]
    # (0.75 / 0.25)**2: e**epsilon, reached by two buckets and exceeded by nobody
    assert max(ratios) == 9
    assert np.log(9) <= query.epsilon < np.log(9) + 1e-12


def test_no_answer_is_other_where_there_is_one_and_else_in_no_bucket() -> None:
    assert encoding.no_answer(asked(columns=THREE)) == -1
    complete = asked(columns=COMPLETE)
    assert encoding.no_answer(complete) == 2 == complete.buckets.index([None])
    two = asked(columns=[Column("a", ["x", "y"], other=True), Column("b", ["z"], other=True)])
    assert encoding.no_answer(two) == two.buckets.index([None, None])
    same = [
        encoding.randomize(complete, np.full(500, index), seeded_source(1)).tobytes()
        for index in (-1, 2)
    ]
    assert same[0] == same[1]


@pytest.mark.parametrize("wrong", [[11], [-2], [0.5], [[1]]])
def test_an_index_outside_the_buckets_is_refused_without_being_named(wrong: Any) -> None:
    with pytest.raises(ParameterError) as error:
        encoding.randomize(asked(), np.array(wrong), seeded_source(1))
    assert not {"11", "-2", "0.5"} & set(str(error.value).replace(":", " ").split())


def test_what_is_kept_costs_its_lifetime_and_what_is_drawn_afresh_costs_one_report() -> None:
    kept, fresh = (
        asked(columns=COMPLETE, mechanism=RAPPOR, memoize=memoize) for memoize in (True, False)
    )
    assert isinstance(kept.mechanism, MemoizedMechanism)
    assert encoding.cost_of_row(kept) == Fraction(repr(kept.mechanism.lifetime_epsilon))
    assert encoding.cost_of_row(fresh) == Fraction(repr(fresh.mechanism.epsilon))
    assert encoding.cost_of_row(asked(memoize=True)) == Fraction(repr(asked().epsilon))


def test_a_report_of_two_steps_is_replayed_with_fresh_coins_and_one_of_one_step_as_it_is() -> None:
    two = asked(columns=COMPLETE, mechanism=RAPPOR, memoize=True)
    source = seeded_source(3)
    kept = encoding.permanent_rows(two, np.zeros(1, dtype=np.intp), source)
    assert len({encoding.replay_rows(two, kept, source).tobytes() for _ in range(100)}) > 1
    one = asked(memoize=True)
    kept = encoding.permanent_rows(one, np.zeros(1, dtype=np.intp), source)
    assert encoding.replay_rows(one, kept, source).tobytes() == kept.tobytes()


@pytest.mark.parametrize("cover", [False, True])
def test_one_message_and_a_column_of_one_are_the_same_bytes_under_the_same_script(
    cover: bool,
) -> None:
    query = asked(proxies=["one", "two", "three"])
    script = seeded_source(5).words(100).tobytes()
    report = np.zeros((1, 2), dtype=np.uint8) if cover else np.array([[7, 1]], dtype=np.uint8)
    alone = encoding.share_records(
        query, 9, None if cover else report, 1, 4, ScriptedSource(script)
    )
    kind = NOTHING if cover else ANSWER
    columns = encoding.share_columns(query, 9, report, 4, kind, ScriptedSource(script))
    assert [record[16:] for record in alone[0]] == [column[:, 0].tobytes() for column in columns]


def test_cover_says_nothing_and_is_as_long_as_an_answer() -> None:
    query = asked()
    cover = encoding.share_records(query, 2, None, 3, 1, seeded_source(1))
    answers = encoding.share_records(
        query, 2, np.ones((3, 2), dtype=np.uint8), 3, 1, seeded_source(1)
    )
    assert [[len(record) for record in records] for records in cover] == [
        [len(r) for r in records] for records in answers
    ]
    for records, kind in ((cover, NOTHING), (answers, ANSWER)):
        messages = [join([Share.from_bytes(record) for record in each]) for each in records]
        assert [(m.kind, m.epoch, m.stratum, m.query_tag) for m in messages] == [
            (kind, 2, 1, query.tag)
        ] * 3
        assert len({records[0][16:32] for records in records}) == 3, (
            "each message has an id of its own"
        )
