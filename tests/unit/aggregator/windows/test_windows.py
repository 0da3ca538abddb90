"""Windows: panes added up over epochs, strata and versions, with the error of a finite population;
small cohorts are withheld."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.aggregator.windows.stored import SERVED_WINDOW
from deniable.aggregator.windows.window import Window
from deniable.counts import Counts
from deniable.errors import DocumentError
from deniable.mechanisms.protocols.composite import composite
from deniable.mechanisms.reports import Tally
from deniable.privacy.response import sampled_epsilon
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN, Crowd, minute_query
from toolkit.queries import make_query


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(tmp_path)
    yield crowd
    crowd.close_all()


def pane(query: Query, indices: Any, seed: int = 1) -> Counts:
    reports = query.mechanism.draw(np.asarray(indices, dtype=np.intp), seeded_source(seed))
    return Counts(query.mechanism.count(reports), len(reports))


def test_windows_slide_over_epochs(crowd: Crowd) -> None:
    """epoch      0   1   2   3   4        answers: one in bucket 0, two in bucket 1, three in
    bucket 2, … window 0  [---------) window 1      [---------) window 2          [---------)
    """
    engine = crowd.engine()
    for epoch in range(5):
        crowd.now = ORIGIN + 60 * epoch
        crowd.answer([epoch] * (epoch + 1), epoch)
    crowd.mark(5)
    engine.drain()
    windows = crowd.windows()
    assert [(w.index, w.start - ORIGIN, w.end - ORIGIN, w.n, w.condition) for w in windows] == [
        (0, 0, 180, 6, "complete"),
        (1, 60, 240, 9, "complete"),
        (2, 120, 300, 12, "complete"),
    ]
    assert windows[1].estimate is not None
    assert np.allclose(windows[1].estimate.proportions[:6] * 9, [0, 2, 3, 4, 0, 0], atol=1e-9)


def test_a_window_is_due_when_every_proxy_has_marked_its_last_epoch(crowd: Crowd) -> None:
    """
    epoch         0   1   2   3
    proxy 1 marks             ^     everything before epoch 3
    proxy 2 marks         ^         … before epoch 2, later 3
    """
    engine = crowd.engine()
    crowd.answer([1] * 5)
    crowd.mark(3, [0])
    crowd.mark(2, [1])
    engine.drain()
    assert crowd.windows() == []
    crowd.mark(3, [1])
    engine.drain()
    assert [w.index for w in crowd.windows()] == [0]


def test_a_mark_counts_once_the_log_is_read_up_to_it(crowd: Crowd) -> None:
    engine = crowd.engine(step_bytes=1, garbage=1)
    for _ in range(40):
        crowd.answer([1] * 3)
    crowd.mark(3)
    engine.step()  # 32 of some 150 blocks
    assert crowd.windows() == []
    assert 0 < crowd.counts().sum() < 120
    engine.drain()
    assert [w.n for w in crowd.windows()] == [120]


def test_a_window_that_began_before_the_query_was_published_has_no_result(tmp_path: Path) -> None:
    """
    epoch      0   1   2   3   4   5
    published        ^ in epoch 1
    window 0  [-----------)          not released
    window 1      [-----------)      the first
    """
    crowd = Crowd(tmp_path)
    crowd.now = ORIGIN + 90
    engine = crowd.engine()
    crowd.now = ORIGIN + 360
    crowd.mark(6)
    engine.drain()
    assert [w.index for w in crowd.windows()] == [1, 2, 3]
    crowd.close_all()


def test_fewer_answers_than_the_minimum_cohort_are_withheld(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, minute_query(minimum_cohort=10))
    engine = crowd.engine()
    for epoch, n in enumerate([3, 3, 3, 4]):
        crowd.now = ORIGIN + 60 * epoch
        crowd.answer([1] * n, epoch)
    crowd.mark(4)
    engine.drain()
    first, second = crowd.windows()
    assert (first.n, first.held_back, first.condition, first.estimate) == (0, 9, "withheld", None)
    assert str(first).endswith(": withheld, no estimate (9 answers)")
    assert (second.n, second.condition) == (10, "complete")
    assert second.estimate is not None
    crowd.close_all()


def test_one_epoch_has_the_error_of_its_finite_population() -> None:
    query = make_query(population=2000)
    one = pane(query, [3] * 1000)
    window = assemble([query], 0, {PaneKey(query.id, 1, 0, 0): one})
    expected = query.mechanism.estimate(Tally(query.mechanism, one.counts, one.n), population=2000)
    assert window.estimate is not None
    assert np.array_equal(window.estimate.variance, expected.variance)
    assert window.estimate.population == 2000
    assert window.estimate.sampled_epsilon == sampled_epsilon(query.epsilon_local, 0.6)
    assert (
        window.estimate.variance
        < query.mechanism.estimate(Tally(query.mechanism, one.counts, one.n)).variance
    ).any()


@pytest.mark.slow
def test_the_window_of_several_epochs_covers_at_the_stated_rate() -> None:
    """1,500 windows of three epochs with unequal answers; a wrong population (of one epoch, or
    none) would miss the variance.

    At s = 0.95 and nearly truthful answers the sampling error is most of what an infinite
    population would have, and is nearly gone. The empirical variance of 1,500 estimates lies within
    1 ± 6 sqrt(2/1499) of the stated one but for a chance of 1e-8.
    """
    query = make_query(
        population=400,
        mechanism={"name": "TwoCoin", "p": 0.95, "q": 0.5},
        sampling=0.95,
        minimum_cohort=1,
    )
    truth = np.repeat([0, 1], [240, 160])
    rng = np.random.default_rng(7)
    source = seeded_source(8)
    found, stated = [], []
    for _ in range(1500):
        panes = {}
        for epoch, share in enumerate((0.95, 0.95, 0.4)):  # in the last epoch many devices are off
            who = truth[rng.permutation(400)[: int(400 * share)]]
            counts = query.mechanism.count(query.mechanism.draw(who, source))
            panes[PaneKey(query.id, 1, epoch, 0)] = Counts(counts, len(who))
        estimate = assemble([query], 0, panes).estimate
        assert estimate is not None
        found.append(estimate.proportions[0])
        stated.append(estimate.variance[0])
    assert abs(np.mean(found) - 0.6) < 6 * np.std(found) / math.sqrt(1500)
    ratio = np.var(found, ddof=1) / np.mean(stated)
    assert abs(ratio - 1) < 6 * math.sqrt(2 / 1499), ratio


def test_strata_weigh_by_their_people_not_by_their_answers() -> None:
    strata = [
        Stratum("town", sampling=0.1, population=9000),
        Stratum("country", sampling=1.0, population=1000),
    ]
    query = make_query(strata=strata, minimum_cohort=1)
    town, country = pane(query, [0] * 900), pane(query, [1] * 1000, seed=2)
    window = assemble(
        [query], 0, {PaneKey(query.id, 1, 0, i): p for i, p in enumerate((town, country))}
    )
    parts = [
        query.mechanism.estimate(Tally(query.mechanism, p.counts, p.n), population=size)
        for p, size in ((town, 9000), (country, 1000))
    ]
    assert window.estimate is not None
    assert np.allclose(
        window.estimate.proportions,
        0.9 * parts[0].proportions + 0.1 * parts[1].proportions,
        rtol=1e-12,
    )
    assert np.allclose(
        window.estimate.variance, 0.81 * parts[0].variance + 0.01 * parts[1].variance, rtol=1e-12
    )
    assert (window.estimate.n, window.estimate.population) == (1900, 10_000)


def test_strata_without_stated_sizes_are_weighed_by_what_their_sampling_implies() -> None:
    query = make_query(
        strata=[Stratum("town", sampling=0.1), Stratum("country", sampling=1.0)], minimum_cohort=1
    )
    town, country = pane(query, [0] * 900), pane(query, [1] * 1000, seed=2)
    window = assemble(
        [query], 0, {PaneKey(query.id, 1, 0, i): p for i, p in enumerate((town, country))}
    )
    sized = make_query(
        strata=[Stratum("town", 0.1, 9000), Stratum("country", 1.0, 1000)], minimum_cohort=1
    )
    known = assemble(
        [sized], 0, {PaneKey(query.id, 1, 0, i): p for i, p in enumerate((town, country))}
    )
    assert window.estimate is not None
    assert known.estimate is not None
    assert np.allclose(window.estimate.proportions, known.estimate.proportions, rtol=1e-9)
    assert "estimated from the answers" in window.estimate.notes[-1]


def test_a_silent_stratum_is_named() -> None:
    query = make_query(strata=[Stratum("town"), Stratum("country")], minimum_cohort=1)
    window = assemble([query], 0, {PaneKey(query.id, 1, 0, 1): pane(query, [1] * 10)})
    assert window.estimate is not None
    assert "too few answers from town: the estimate is of the other strata" in window.estimate.notes


def test_answers_to_two_versions_are_weighed_by_their_number() -> None:
    first = make_query(minimum_cohort=1)
    second = first.revised(mechanism={"name": "TwoCoin", "p": 0.9, "q": 0.5})
    panes = {
        PaneKey(first.id, 1, 0, 0): pane(first, [1] * 300),
        PaneKey(first.id, 2, 1, 0): pane(second, [1] * 100),
    }
    window = assemble([first, second], 0, panes)
    parts = [
        q.mechanism.estimate(Tally(q.mechanism, p.counts, p.n))
        for q, p in zip((first, second), panes.values(), strict=True)
    ]
    assert window.estimate is not None
    assert np.allclose(
        window.estimate.proportions, 0.75 * parts[0].proportions + 0.25 * parts[1].proportions
    )
    assert np.allclose(
        window.estimate.variance, 0.75**2 * parts[0].variance + 0.25**2 * parts[1].variance
    )
    assert window.serial == 2
    assert window.estimate.epsilon == max(first.epsilon_local, second.epsilon_local)


def test_repeated_permanent_answers_do_not_shrink_the_error() -> None:
    plain, memoized = (
        make_query(minimum_cohort=1, memoize=memoize, sampling=1.0) for memoize in (False, True)
    )
    counts = {PaneKey(plain.id, 1, epoch, 0): pane(plain, [1] * 500) for epoch in range(4)}
    once = assemble([memoized], 0, dict(list(counts.items())[:1])).estimate
    often = assemble([memoized], 0, counts).estimate
    assert once is not None
    assert often is not None
    # The same 500 reports four times: the n - 1 of the variance is all that differs.
    assert np.allclose(often.variance, once.variance * 499 * 4 / 1999, rtol=1e-12)


def test_a_window_survives_being_written_as_json() -> None:
    query = make_query(population=5000)
    window = assemble(
        [query],
        2,
        {PaneKey(query.id, 1, 4, 0): pane(query, [3] * 500)},
        ["https://two.example"],
        {"balanced": True},
    )
    again = Window.from_dict(json.loads(json.dumps(window.to_dict())))
    assert again == window
    assert str(again) == str(window)
    assert "closed without https://two.example" in str(again)
    assert again.condition == "proxy down"


def test_windows_of_one_epoch_that_tumble(tmp_path: Path) -> None:
    schedule = Schedule(origin=ORIGIN, expires=ORIGIN + 600, every=60, window=60, slide=60)
    crowd = Crowd(tmp_path, minute_query(schedule=schedule))
    engine = crowd.engine()
    crowd.now = ORIGIN + 600
    for epoch in range(10):
        crowd.answer([epoch], epoch)
    crowd.mark(11)
    engine.drain()
    assert [(w.index, w.n) for w in crowd.windows()] == [(i, 1) for i in range(10)]
    crowd.close_all()


def composite_query(n: int, other: int, **changes: Any) -> Query:
    columns = [
        Column("first", list(range(n - 1)), other=True),
        Column("then", list(range(other - 1)), other=True),
    ]
    return make_query(
        columns=columns,
        mechanism={"name": "OptimizedUnary", "epsilon": 2.0},
        minimum_cohort=1,
        **changes,
    )


def travelled(window: Window) -> Window:
    return Window.from_dict(json.loads(json.dumps(window.to_dict())))


@pytest.mark.slow
def test_the_error_of_sizes_that_were_estimated_from_answers_is_part_of_a_windows_error() -> None:
    """Two strata of 3,000 and 1,000 people with shares of 90 and 10 %, sampled with 5 %: 87.8 %
    without that error.

    400 windows: three standard errors of 95 % are 3.3 points.
    """
    coins = {"name": "TwoCoin", "p": 0.9, "q": 0.5}
    strata = [Stratum("town", sampling=0.05), Stratum("country", sampling=0.05)]
    query = make_query(strata=strata, mechanism=coins, minimum_cohort=1)
    rng, sizes, shares, held = np.random.default_rng(7), (3_000, 1_000), (0.9, 0.1), 0
    support = query.mechanism.support()
    assert support is not None
    a, b = float(support[0][0]), float(support[1][0])
    for _ in range(400):
        panes = {}
        for i, (size, share) in enumerate(zip(sizes, shares, strict=True)):
            having, others = (
                rng.binomial(round(share * size), 0.05),
                rng.binomial(round((1 - share) * size), 0.05),
            )
            counts = np.zeros(len(query.mechanism.labels), dtype=np.int64)
            counts[0] = rng.binomial(having, a) + rng.binomial(others, b)
            panes[PaneKey(query.id, 1, 0, i)] = Counts(counts, int(having + others))
        window = travelled(assemble([query], 0, panes))
        assert window.estimate is not None
        low, high = window.estimate.interval()[0]
        held += bool(low <= 0.7 <= high)
    assert 0.917 <= held / 400 <= 0.983


def test_a_memoized_window_covers_just_what_is_stated_by_a_normal_interval() -> None:
    """The variance allows exactly for people who return; a score law would count their reports as
    independent."""
    query = make_query(minimum_cohort=1, memoize=True)
    panes = {PaneKey(query.id, 1, epoch, 0): pane(query, [0] * 60 + [1] * 40) for epoch in range(2)}
    once, often = (
        travelled(assemble([query], 0, dict(list(panes.items())[:epochs]))) for epochs in (1, 2)
    )
    for window in (once, often):
        assert window.estimate is not None
        assert "intervals cover 95 %" in str(window)
        np.testing.assert_array_equal(
            window.estimate.interval(), window.estimate.interval(method="normal")
        )


def test_a_stratified_window_has_the_same_interval_at_the_server_and_at_the_analyst() -> None:
    strata = [
        Stratum("town", sampling=0.1, population=9000),
        Stratum("country", sampling=1.0, population=1000),
    ]
    query = make_query(strata=strata, minimum_cohort=1)
    panes = {PaneKey(query.id, 1, 0, i): pane(query, [i] * 40, seed=i) for i in range(2)}
    window = assemble([query], 0, panes)
    again = travelled(window)
    assert again == window
    assert window.estimate is not None
    assert again.estimate is not None
    for confidence in (0.5, 0.95, 0.999):
        np.testing.assert_array_equal(
            again.estimate.interval(confidence), window.estimate.interval(confidence)
        )
    # the interval of the strata's scores, not estimate ± standard errors
    assert window.estimate.interval().min() >= 0


def test_a_stratum_below_the_minimum_cohort_is_in_the_sum_and_nowhere_else() -> None:
    strata = [Stratum("town", population=9000), Stratum("country", population=1000)]
    query = make_query(strata=strata, minimum_cohort=50)
    panes = {
        PaneKey(query.id, 1, 0, 0): pane(query, [0] * 400),
        PaneKey(query.id, 1, 0, 1): pane(query, [1] * 49, seed=2),
    }
    window = assemble([query], 0, panes)
    again = travelled(window)
    assert again == window
    assert window.estimate is not None
    assert window.estimate.strata == ()
    assert window.estimate.reports is None
    assert "counts" not in json.dumps(window.to_dict())
    panes[PaneKey(query.id, 1, 0, 1)] = pane(query, [1] * 50, seed=2)
    whole = assemble([query], 0, panes).estimate
    assert whole is not None
    assert [part.n for _, part in whole.strata] == [400, 50]


@pytest.mark.parametrize("changes", [{}, {"population": 40_000}, {"memoize": True}], ids=str)
def test_a_window_of_a_thousand_composite_buckets_has_its_table_at_the_analyst(
    changes: dict[str, Any],
) -> None:
    query = composite_query(32, 32, **changes)
    rng = np.random.default_rng(5)
    panes = {
        PaneKey(query.id, 1, epoch, 0): pane(query, rng.integers(1024, size=10_000) // 3, epoch)
        for epoch in range(2)
    }
    window = assemble([query], 0, panes)
    document = json.dumps(window.to_dict())
    assert len(document) < 250_000  # the covariance alone would be some twenty millions
    again = Window.from_dict(json.loads(document))
    assert again == window
    assert again.estimate is not None
    assert again.estimate.covariance is not None
    axes = {column.name: column.labels for column in query.columns}
    assert list(query.labels) == composite(axes).texts
    table = composite(axes).table(again.estimate)
    here = composite(axes).table(window.estimate)  # type: ignore[arg-type]
    marginal = table.marginal("first")
    np.testing.assert_array_equal(marginal.interval(), here.marginal("first").interval())
    # The error of a sum of 32 cells, whose errors hardly depend on each other.
    rows = np.sqrt((table.variance).sum(axis=1))
    np.testing.assert_allclose(marginal.stderr, rows, rtol=0.05)


def test_results_of_earlier_versions_are_read() -> None:
    query = make_query(minimum_cohort=1)
    window = assemble([query], 0, {PaneKey(query.id, 1, 0, 0): pane(query, [3] * 500)})
    document = window.to_dict()
    for name in ("variance", "degrees", "strata", "unbiased", "reports"):
        del document[name]
    again = Window.from_dict(document)
    assert again.estimate is not None
    assert window.estimate is not None
    np.testing.assert_allclose(again.estimate.variance, window.estimate.variance)
    np.testing.assert_array_equal(again.estimate.covariance, window.estimate.covariance)
    with pytest.raises(DocumentError, match="not a document of Window: 'n' is missing"):
        Window.from_dict({name: value for name, value in document.items() if name != "n"})


@pytest.mark.parametrize(
    ("n_malformed", "condition"), [(0, "complete"), (10, "complete"), (200, "malformed")]
)
def test_a_window_says_so_when_more_answers_were_malformed_than_its_error_covers(
    n_malformed: int, condition: str
) -> None:
    query = minute_query()
    counted = pane(query, [1, 2] * 500)
    accounts = {
        "proxies": {
            "https://one.example": {"counted": 1000, "malformed": n_malformed // 2},
            "https://two.example": {"counted": 1000, "malformed": n_malformed},
        }
    }
    window = assemble([query], 0, {PaneKey(query.id, query.serial, 0, 0): counted}, (), accounts)
    assert window.estimate is not None
    assert window.half_width is not None
    # the two figures lie on both sides of the half-width
    assert 10 / 1010 < window.half_width < 200 / 1200
    assert window.condition == condition
    told = "17 % of the shares of https://two.example were malformed"
    assert any(note.startswith(told) for note in window.estimate.notes) == (
        condition == "malformed"
    )
    assert Window.from_dict(window.to_dict()) == window


@pytest.mark.parametrize(("n_orphaned", "condition"), [(10, "complete"), (200, "incomplete")])
def test_a_window_is_incomplete_if_more_answers_lack_a_share_than_its_error_covers(
    n_orphaned: int, condition: str
) -> None:
    """A proxy that was away for longer than its grace refuses shares, and marks their epochs all
    the same."""
    query = minute_query()
    accounts = {
        "proxies": {
            "https://one.example": {"counted": 1000, "malformed": 0, "orphaned": n_orphaned},
            "https://two.example": {"counted": 1000, "malformed": 0, "orphaned": 0},
        }
    }
    key = PaneKey(query.id, query.serial, 0, 0)
    window = assemble([query], 0, {key: pane(query, [1, 2] * 500)}, (), accounts)
    assert window.estimate is not None
    assert window.half_width is not None
    # the two figures lie on both sides of the half-width
    assert 10 / 1010 < window.half_width < 200 / 1200
    expected = "17 % of the shares of https://one.example have no counterpart at another proxy"
    assert window.condition == condition
    noted = any(note.startswith(expected) for note in window.estimate.notes)
    assert noted == (condition == "incomplete")
    closed = assemble(
        [query], 0, {key: pane(query, [1, 2] * 500)}, ("https://two.example",), accounts
    )
    assert closed.condition == "proxy down"
    assert closed.estimate is not None
    assert not any("counterpart" in note for note in closed.estimate.notes), (
        "what says 'proxy down' has said it"
    )


@pytest.mark.parametrize(("n_bad", "condition"), [(1, "complete"), (60, "malformed")])
def test_shares_that_were_changed_on_their_way_make_a_window_malformed_if_they_are_many(
    crowd: Crowd, n_bad: int, condition: str
) -> None:
    engine = crowd.engine()
    for epoch in range(3):
        crowd.answer([1, 2] * 50, epoch)
    shares = crowd.split([3] * n_bad)
    shares[1][2:] ^= np.uint64(1)  # the tags of these messages fit no longer
    for proxy in range(2):
        crowd.append(proxy, shares[proxy])
    crowd.mark(3)
    crowd.now += 3 * 60
    engine.drain()
    (window,) = crowd.windows()
    assert (window.condition, window.n) == (condition, 300)
    assert {account["malformed"] for account in window.conservation["proxies"].values()} == {n_bad}


def test_the_documented_conditions_are_those_that_windows_have() -> None:
    query = minute_query(minimum_cohort=50)

    def condition(n: int, missing: tuple[str, ...], malformed: int, orphaned: int) -> str:
        panes = {PaneKey(query.id, query.serial, 0, 0): pane(query, [1] * n)}
        account = {"counted": n, "malformed": malformed, "orphaned": orphaned}
        accounts = {"proxies": {"https://one.example": account}}
        return assemble([query], 0, panes, missing, accounts).condition

    down = tuple(query.proxies[:1])
    shown = {
        condition(n, missing, malformed, orphaned)
        for n in (1, 100)
        for missing in ((), down)
        for malformed in (0, 100)
        for orphaned in (0, 100)
    }
    assert shown == {"complete", "withheld", "proxy down", "malformed", "incomplete"}
    assert set(get_args(SERVED_WINDOW.fields["condition"].kind)) == shown
    page = (Path(__file__).parents[4] / "docs" / "aggregator.md").read_text()
    rows = page.partition("| condition | meaning |")[2].partition("\n\n")[0].splitlines()[2:]
    assert {row.split("`")[1] for row in rows} == shown
