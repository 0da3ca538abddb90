from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.client.simulation.fleet import Fleet
from deniable.errors import ParameterError
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.strata import Stratum
from deniable.randomness import Source, seeded_source
from deniable.scripted_randomness import ScriptedSource
from deniable.wire.blocks import common_rows
from deniable.wire.message import ANSWER, NOTHING
from deniable.wire.shares import join_columns
from toolkit.attacks.observed import set_rows
from toolkit.devices import (
    EVERY,
    asked,
    at,
    bits,
    make_device,
    make_policy,
    opened,
    records,
    signed,
)
from toolkit.queries import MILES
from toolkit.references.replayed import Recorder, ReplayedSource

COMPLETE = [Column("distance", MILES, other=True)]
MECHANISMS: dict[str, dict[str, Any]] = {
    "TwoCoin": {"p": 0.3, "q": 0.6},
    "OptimizedUnary": {"epsilon": 1.0},
    "DirectEncoding": {"epsilon": 1.0},
    "BasicRappor": {"f": 0.5, "p": 0.5, "q": 0.75},
    "HadamardResponse": {"epsilon": 1.0},
}


class Uploaded(Source):
    """The draw of an upload's time, which only a device makes, and then another source's draws."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self._first = True

    def fill(self, buffer: Any) -> None:
        self._inner.fill(buffer)

    def below(self, bound: int, n: int) -> Any:
        if self._first:
            self._first = False
            return np.zeros(n, dtype=np.int64)
        return self._inner.below(bound, n)

    def words(self, n: int) -> Any:
        return self._inner.words(n)

    def coins(self, numerator: int, n: int) -> Any:
        return self._inner.coins(numerator, n)

    def bit_rows(self, numerator: int, n: int, width: int) -> Any:
        return self._inner.bit_rows(numerator, n, width)

    def pick(self, thresholds: Any, rows: Any) -> Any:
        return self._inner.pick(thresholds, rows)

    def subsets(self, n: int, width: int, size: int) -> Any:
        return self._inner.subsets(n, width, size)


def sent_alone(folder: Path, query: Query, value: float, epoch: int, source: Source) -> list[bytes]:
    """What a single device queues for each proxy, without the header that proxies see; nothing
    where its coin says no."""
    folder.mkdir()
    device = make_device(folder, query, [value], source=Uploaded(source))
    device.answer(signed(query), at(epoch))
    found = records(device)
    assert {len(found.get(proxy, ())) for proxy in query.proxies} in ({0}, {1})
    return [found[proxy][0][16:] for proxy in query.proxies] if found else []


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(
    ("sampling", "cover", "memoize"), [(0.6, False, False), (0.5, True, False), (0.7, False, True)]
)
def test_each_device_of_a_fleet_sends_the_bytes_that_it_would_send_alone(
    tmp_path: Path, name: str, sampling: float, cover: bool, memoize: bool
) -> None:
    n = 16
    query = asked(
        columns=COMPLETE,
        mechanism={"name": name, **MECHANISMS[name]},
        sampling=sampling,
        cover=cover,
        memoize=memoize,
    )
    values = np.linspace(-1, 12, n)
    recorder = Recorder(seeded_source(name))
    fleet = Fleet(query, n, source=recorder).answer_columns(3, [values])
    chosen = np.flatnonzero(recorder.draws[0][2])
    assert 0 < chosen.size < n

    together = []
    for device, value in enumerate(values.tolist()):
        # Whoever answers has a place among those who do, in the draws made for them alone.
        among = int(np.searchsorted(chosen, device))
        lane = ReplayedSource(recorder, lambda _, size: device if size == n else among)  # noqa: B023
        speaks = device in chosen
        if not speaks:  # a device that is sampled out skips the draws of the others' randomizing
            recorder_of_silent = Recorder(seeded_source(0))
            recorder_of_silent.draws = [recorder.draws[0], recorder.draws[-1]]
            lane = ReplayedSource(
                recorder_of_silent,
                lambda _, size: device if size == n else among,  # noqa: B023
            )
        alone = sent_alone(tmp_path / str(device), query, value, 3, lane)
        if alone:
            together.append(alone)
    assert len(together) == len(fleet) == (n if cover else chosen.size)
    for i in range(len(query.proxies)):
        assert [alone[i] for alone in together] == [
            row.tobytes() for row in np.ascontiguousarray(fleet.columns[i].T)
        ]


def test_a_fleet_of_one_and_a_device_draw_the_same_bytes_from_the_same_script(
    tmp_path: Path,
) -> None:
    query = asked(sampling=0.99)
    script = seeded_source(8).words(2000).tobytes()
    fleet = Fleet(query, 1, source=ScriptedSource(script)).answer_columns(5, [np.array([3.5])])
    alone = sent_alone(tmp_path / "one", query, 3.5, 5, ScriptedSource(script))
    assert alone == [column[:, 0].tobytes() for column in fleet.columns]


def test_a_fleets_shares_make_the_reports_of_those_who_answered_and_the_rest_is_cover() -> None:
    query = asked(
        mechanism={"name": "UnaryEncoding", "a": 1 - 2**-30, "b": 2**-30},
        cover=True,
        strata=[Stratum("a"), Stratum("b", sampling=0.25)],
    )
    n = 20_000
    truth, strata = np.arange(n) % 12 - 1, (np.arange(n) >= n // 2).astype(int)
    sent = Fleet(query, n, strata=strata, source=seeded_source(2)).answer(7, truth)
    opened = join_columns(sent.columns, 7)
    assert not opened.faults.any()
    assert opened.strata.tolist() == strata.tolist()
    kinds = opened.kinds
    assert (kinds[: n // 2] == ANSWER).all()
    answered = int((kinds[n // 2 :] == ANSWER).sum())
    # six sigma and more: one false alarm in 10**9
    assert abs(answered - n / 8) < 6.2 * np.sqrt(n / 2 * 0.25 * 0.75)
    assert sent.n_answers == n // 2 + answered
    reports, places = opened.reports(query.tag, query.report_bytes)
    said = np.unpackbits(reports, axis=1, bitorder="little", count=11)
    one_hot = truth[places][:, None] == np.arange(11)
    # a and b are all but certain: the bits are the truth's
    assert (said == one_hot).mean() > 1 - 1e-4
    assert (kinds == NOTHING).sum() == n - sent.n_answers


def test_a_memoized_fleet_repeats_itself_for_the_same_truth_and_draws_afresh_for_a_new_one() -> (
    None
):
    query = asked(memoize=True, distinct=2)
    fleet = Fleet(query, 5000, source=seeded_source(4))

    def reports(epoch: int, truth: Any) -> Any:
        return join_columns(fleet.answer(epoch, truth).columns, epoch).reports(
            query.tag, query.report_bytes
        )[0]

    first, other = np.zeros(5000, dtype=int), np.full(5000, -1)
    day = [reports(0, first), reports(1, other), reports(2, first), reports(3, other)]
    assert np.array_equal(day[0], day[2])
    assert np.array_equal(day[1], day[3])
    assert not np.array_equal(day[0], day[1])


@pytest.mark.parametrize("distinct", [1, 2, 3])
def test_a_fleet_keeps_permanent_answers_as_a_device_does(tmp_path: Path, distinct: int) -> None:
    """Of a mechanism that all but tells the truth, one sees whose permanent answer speaks: the same
    in both, epoch by epoch."""
    certain = {"name": "UnaryEncoding", "a": 1 - 2**-40, "b": 2**-40}
    query = asked(memoize=True, distinct=distinct, mechanism=certain)
    policy = make_policy(query, epsilon_per_answer=10**4, limits=())
    history = [4, 4, 7, 4, 2, 9, 7, -1, 2, 4]
    device = make_device(tmp_path, query, policy=policy)
    fleet, together = Fleet(query, 3), []
    for epoch, answer in enumerate(history):
        set_rows(device.vault, [] if answer < 0 else [answer + 0.5])
        device.answer(signed(query), at(epoch))
        sent = fleet.answer(epoch, np.full(3, answer))
        reports = join_columns(sent.columns, epoch).reports(query.tag, query.report_bytes)[0]
        together.append([bits(row.tobytes(), 11).tolist() for row in reports])
    alone = [bits(message.report, 11).tolist() for message in opened(device)]
    assert together == [[each] * 3 for each in alone]
    assert len({tuple(each) for each in alone}) == distinct


def test_several_rows_are_several_messages_a_device() -> None:
    query = asked(
        rows="several",
        most_rows=3,
        mechanism={"name": "UnaryEncoding", "a": 1 - 2**-30, "b": 2**-30},
    )
    truth = np.array([[0, 1, -1], [4, -1, -1]])
    sent = Fleet(query, 2, source=seeded_source(4)).answer(0, truth)
    reports = join_columns(sent.columns, 0).reports(query.tag, query.report_bytes)[0]
    found = [np.flatnonzero(bits(row.tobytes(), 11)).tolist() for row in reports]
    assert found == [[0], [1], [], [4], [], []]


def test_blocks_hold_the_same_messages_for_every_proxy() -> None:
    query = asked(sampling=0.5, proxies=["one", "two", "three"])
    sent = Fleet(query, 10_000, source=seeded_source(5)).answer(2, np.zeros(10_000, dtype=int))
    cuts = sent.blocks(prefix_bits=3)
    assert [len(blocks) for blocks in cuts] == [8, 8, 8]
    for blocks in zip(*cuts, strict=True):
        assert {(b.channel, b.epoch, b.size_class) for b in blocks} == {
            (query.channel_tag, 2, query.size_class)
        }
        columns = [block.columns for block in blocks]
        assert all(places.size == len(blocks[0]) for places in common_rows(columns))
        assert not join_columns(columns, 2).faults.any()
    assert sum(map(len, cuts[0])) == len(sent)


@pytest.mark.parametrize(
    ("n", "epoch", "truth"),
    [(0, 0, []), (3, 0, [1, 2]), (2, -1, [1, 2]), (2, 1 << 31, [1, 2]), (2, 0, [1, 11])],
)
def test_a_fleet_refuses_what_does_not_fit(n: int, epoch: int, truth: list[int]) -> None:
    with pytest.raises(ParameterError):
        Fleet(asked(), n).answer(epoch, np.array(truth))


def test_a_fleet_refuses_strata_that_the_query_has_not() -> None:
    with pytest.raises(ParameterError, match="strata"):
        Fleet(asked(), 2, strata=[0, 1])


def test_strata_given_one_by_one_to_a_query_without_any_are_all_the_first() -> None:
    assert len(Fleet(asked(), 3, strata=[0, 0, 0]).answer(0, [1, 2, 3])) == 3


def test_the_policy_and_epochs_of_the_toolkit_are_those_of_its_query() -> None:
    query = asked()
    assert query.schedule.every == EVERY
    assert make_policy(query).check(query) is None
