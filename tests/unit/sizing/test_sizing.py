"""The arithmetic of sizes: its bytes are those of the wire, its rules hold for every size, and
nonsense is refused."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.client.policy import Policy
from deniable.errors import ParameterError, SettingsError
from deniable.mechanisms.protocols.unary import UnaryEncoding
from deniable.proxy.intake.uploads import ROWS_PER_BLOCK, IntakeRules
from deniable.randomness import seeded_source
from deniable.sizing.demand import Demand
from deniable.sizing.figures import Prices, SizingFigures, read_figures
from deniable.sizing.supply import size
from deniable.wire.blocks import block_bytes, cut
from deniable.wire.message import Message
from deniable.wire.shares import split, split_columns
from deniable.wire.sizes import SIZE_CLASSES
from toolkit.queries import make_query

ROOT = Path(__file__).parents[3]
GRID = [
    Demand(clients, every=every, sampling=0.6, poll=60, collected=collected, proxies=proxies)
    for clients in (10, 10**4, 10**6, 10**8, 10**9, 10**11)
    for every in (60, 3600, 86400)
    for collected in (1, 8192)
    for proxies in (2, 3)
]


@pytest.mark.parametrize("size_class", SIZE_CLASSES)
def test_a_share_and_a_block_have_the_bytes_that_the_wire_gives_them(size_class: int) -> None:
    demand = Demand(1000, size_class=size_class)
    source = seeded_source(1)
    share = split(Message(7, 0, b"x"), size_class, 2, 1, source)[0]
    assert demand.share_bytes == len(share.to_bytes())
    rows = split_columns(
        np.zeros((ROWS_PER_BLOCK, 1), dtype=np.uint8), 7, 0, size_class, 2, source=source
    )[0]
    (block,), _ = cut(1, 0, size_class, rows, 0)
    assert block_bytes(size_class, ROWS_PER_BLOCK) == len(block.to_bytes())
    assert demand.row_bytes(rate=1e6) == len(block.to_bytes()) / ROWS_PER_BLOCK
    (alone,), _ = cut(1, 0, size_class, rows[:, :1], 0)
    # in a quiet hour every share has a header of its own
    assert demand.row_bytes(rate=1e-6) == len(alone.to_bytes())


@pytest.mark.parametrize(
    ("every", "poll", "within"),
    [(60, 7, 20), (60, 60, 600), (100, 10, 0), (30, 1, 12), (40, 20, 5)],
)
def test_the_profile_counts_every_way_in_which_a_device_can_choose_its_moment(
    every: int, poll: int, within: int
) -> None:
    """By hand: wake at `first`, draw a due second as the device does, send in the first round that
    is not before it."""
    parts: Counter[int] = Counter()
    for first in range(poll):
        draws = max(1, min(within, every - first))
        for drawn in range(draws):
            moment = first
            while moment < first + drawn:
                moment += poll
            parts[moment] += Fraction(1, poll * draws)  # type: ignore[assignment]
    profile = Demand(100, every=every, poll=poll, within=within).profile
    assert {i: pytest.approx(float(part)) for i, part in parts.items()} == {
        int(i): profile[i] for i in np.flatnonzero(profile)
    }
    assert profile.sum() == pytest.approx(1)


def test_the_peak_is_that_of_the_minutes_in_which_devices_send_and_not_of_the_epoch() -> None:
    hourly = Demand(3_600_000, every=3600, poll=60, within=600)
    assert hourly.mean == 1000
    assert hourly.peak == pytest.approx(6000, rel=0.01)
    spread = dataclasses.replace(hourly, within=3600)
    assert spread.peak < 1.8 * spread.mean
    assert hourly.within == Policy.upload_within
    assert Demand(100, cover=True, sampling=0.1).messages == 100


def test_epochs_shorter_than_the_sending_overlap_and_their_peaks_add_up() -> None:
    assert Demand(6000, every=60, poll=60, within=600).peak == pytest.approx(100, rel=0.02)


def test_a_query_says_all_that_is_needed_of_it() -> None:
    query = make_query()
    demand = Demand.of_query(query, 5000, poll=2)
    assert (demand.every, demand.sampling, demand.proxies) == (
        query.schedule.every,
        query.sampling,
        len(query.proxies),
    )
    assert (demand.size_class, demand.buckets, demand.most_rows) == (
        query.size_class,
        len(query.labels),
        query.most_rows,
    )
    assert (
        Demand.of_mechanism(UnaryEncoding(65, 0.75, 0.25), 10).share_bytes
        > Demand.of_mechanism(UnaryEncoding(64, 0.75, 0.25), 10).share_bytes
    )


@pytest.mark.parametrize("front", [False, True])
@pytest.mark.parametrize("engine", ["auto", "embedded", "spark"])
def test_what_is_planned_is_never_used_beyond_the_headroom(engine: str, front: bool) -> None:
    for demand in GRID:
        made = size(demand, front=front, engine=engine, log="kafka")
        for resource in made.resources:
            given_up = engine == "embedded" and resource.name in (
                "aggregator",
                "aggregator memory",
                "waiting shares",
            )
            assert resource.utilisation <= made.figures.headroom * (1 + 1e-6) or given_up, (
                demand,
                resource,
            )
        assert made.brokers >= made.replication
        assert made.partitions & (made.partitions - 1) == 0


def test_auto_takes_an_engine_and_a_log_that_suffice_and_the_simplest_such() -> None:
    for demand in GRID:
        made = size(demand, front=True)
        for resource in made.resources:
            assert resource.utilisation <= made.figures.headroom * (1 + 1e-6), (demand, resource)
    assert size(Demand(10**4)).log == "sqlite"
    assert size(Demand(10**9), front=True).log == "kafka"
    few_cells = Demand(10**9, collected=8192, every=60, poll=60)
    slow = SizingFigures(embedded=1000)
    assert size(few_cells, front=True).engine == "embedded"
    assert size(few_cells, slow, front=True).engine == "spark"


def test_more_people_never_take_less() -> None:
    made = [
        size(Demand(10**exponent, sampling=0.6), front=True, log="kafka")
        for exponent in range(1, 12)
    ]
    for less, more in pairwise(made):
        for name in ("cells", "brokers", "cores", "stored_bytes", "log_peak", "history_bytes"):
            assert getattr(more, name) >= getattr(less, name), name
        assert more.cost["all"] >= less.cost["all"]


def test_one_unit_is_full_at_the_number_of_people_that_is_said() -> None:
    made = size(Demand(10**6, sampling=0.5), front=True, log="kafka")
    for i, resource in enumerate(made.resources):
        full = size(
            Demand(round(made.clients_at_full(resource)), sampling=0.5), front=True, log="kafka"
        )
        assert full.resources[i].load == pytest.approx(made.figures.headroom, rel=0.01), (
            resource.name
        )


def test_the_bottleneck_is_what_a_better_figure_relieves() -> None:
    demand = Demand(10**6, poll=3600)
    assert size(demand).bottleneck.name == "proxy process"
    better = size(demand, SizingFigures(uploads=1e9, polls=1e9))
    assert better.cells == 1
    assert better.bottleneck.name == "proxy memory"
    assert (
        size(demand, SizingFigures(uploads=1e9, polls=1e9, disk=1e9)).bottleneck.name == "log disk"
    )
    assert size(Demand(10**7), front=True).cells < size(Demand(10**7)).cells


def test_cost_is_the_sum_of_its_parts_and_each_part_follows_its_price() -> None:
    demand = Demand(10**8, sampling=0.5)
    base = size(demand, front=True)
    assert base.cost["all"] == pytest.approx(
        sum(base.cost[name] for name in ("storage", "egress", "cores"))
    )
    assert size(demand, prices=Prices(0, 0, 0), front=True).cost["all"] == 0
    dear = size(demand, prices=Prices(egress=10 * Prices.egress), front=True)
    assert dear.cost["egress"] == pytest.approx(10 * base.cost["egress"])
    assert dear.cost["cores"] == base.cost["cores"]


def test_copies_multiply_what_is_kept_and_retention_does_too() -> None:
    demand = Demand(10**7)
    one, three = (
        size(demand, replication=copies, log="kafka", front=True).stored_bytes for copies in (1, 3)
    )
    assert three == pytest.approx(3 * one)
    longer = dataclasses.replace(demand, retention=2 * demand.retention)
    assert size(longer, replication=1, log="kafka", front=True).stored_bytes == pytest.approx(
        2 * one
    )
    assert one == pytest.approx(10**7 / 3600 * 2 * 64 * IntakeRules.retention, rel=0.01)


NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"clients": 0}, "clients"),
    ({"clients": 10**12}, "clients"),
    ({"clients": True}, "clients"),
    ({"every": 0}, "every"),
    ({"sampling": 0.0}, "sampling"),
    ({"sampling": 1.5}, "sampling"),
    ({"proxies": 1}, "proxies"),
    ({"poll": 7200}, "poll"),
    ({"within": -1}, "within"),
    ({"collected": 0}, "collected"),
    ({"retention": -5}, "retention"),
]


@pytest.mark.parametrize(("wrong", "name"), NONSENSE, ids=str)
def test_nonsense_is_refused_by_name(wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Demand(**{"clients": 1000, **wrong})
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("wrong", "name"),
    [({"replication": 0}, "replication"), ({"log": "tape"}, "log"), ({"engine": "x"}, "engine")],
)
def test_so_are_wishes_that_cannot_be(wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        size(Demand(1000), **wrong)
    assert caught.value.name == name


def test_every_figure_says_what_it_counts_and_who_measured_it() -> None:
    for name, (unit, source) in SizingFigures.explain().items():
        assert unit, name
        for path in re.findall(r"(?:benchmarks|docs)/[a-z_]+\.(?:py|md)", source):
            assert (ROOT / path).exists(), path
        assert (
            "assumed" in source or "/" in source or "." in source or name in ("processor", "spark")
        ), (name, source)


def test_figures_of_ones_own_are_read_and_mistakes_are_named_with_their_line(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("uploads = 5000\npolls = 9e3\n")
    assert (read_figures(file).uploads, read_figures(file).polls, read_figures(file).bulk) == (
        5000,
        9000,
        SizingFigures.bulk,
    )
    for text, name, line in (
        ("uploads = 1\nspeed = 3\n", "speed", 2),
        ("uploads = -1\n", "uploads", 1),
        ("headroom = 1.5", "headroom", 1),
    ):
        file.write_text(text)
        with pytest.raises(SettingsError) as caught:
            read_figures(file)
        assert (caught.value.name, caught.value.line) == (name, line)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_figures(tmp_path / "absent.toml")
