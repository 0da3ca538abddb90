"""Queries: their rules, canonical bytes, versions, costs, schedules and TOML."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import struct
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deniable import OptimizedUnary, UnaryEncoding, every_path
from deniable.errors import ParameterError, QueryFileError
from deniable.queries.budget import Budget
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.columns.column import Column
from deniable.queries.files import parse_query
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed import canonical
from deniable.queries.signed.envelope import Envelope
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.permissions import permit
from deniable.queries.strata import Stratum
from deniable.queries.summary import summary
from deniable.queries.validation import LONGEST_SQL
from deniable.sql import limits
from deniable.toml_file import line_of
from toolkit.queries import MILES, make_query

# --- rules and costs


def test_two_coins_give_the_bits_of_the_paper() -> None:
    """a = p + (1 - p) q, b = (1 - p) q, and the answer's loss counts the two bits that change
    (MATHS 1)."""
    query = make_query(mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5})
    assert query.mechanism.channel() == (0.75, 0.25)
    assert math.isclose(query.epsilon, math.log(9))
    assert query.labels == tuple(MILES)


def test_an_answer_in_no_bucket_is_drawn_from_the_law_of_zeros() -> None:
    mechanism = UnaryEncoding(3, a=0.75, b=0.25)
    law: dict[int, Fraction] = {}
    for probability, row in every_path(lambda source: mechanism.draw(np.array([NONE]), source)):
        law[int(row[0, 0])] = law.get(int(row[0, 0]), Fraction(0)) + probability
    for bits in range(8):
        ones = bits.bit_count()
        assert law[bits] == Fraction(1, 4) ** ones * Fraction(3, 4) ** (3 - ones)


def test_drawing_answers_in_no_bucket_leaves_the_other_answers_as_they_are() -> None:
    """Walks every path: in a column with one answer and one in no bucket, each row has its own law,
    and they are independent."""
    mechanism = UnaryEncoding(2, a=0.75, b=0.25)
    law: dict[bytes, Fraction] = {}
    for probability, rows in every_path(lambda source: mechanism.draw(np.array([NONE, 1]), source)):
        law[rows.tobytes()] = law.get(rows.tobytes(), Fraction(0)) + probability
    quarter, rest = Fraction(1, 4), Fraction(3, 4)
    for first in range(4):
        for second in range(4):
            none = (quarter if first & 1 else rest) * (quarter if first & 2 else rest)
            some = (quarter if second & 1 else rest) * (rest if second & 2 else quarter)
            assert law[bytes([first, second])] == none * some


def test_each_row_that_may_be_sent_is_paid_for() -> None:
    query = make_query(rows="several", most_rows=3, budget=Budget(epsilon=100.0))
    assert Fraction(query.epsilon_local) >= 3 * Fraction(query.epsilon)
    assert math.isclose(query.epsilon_local, 3 * query.epsilon)
    affordable = query.affordable_epochs
    assert affordable == math.floor(100 / (3 * query.epsilon))


def test_the_sampled_loss_is_that_of_the_stratum_sampled_most() -> None:
    """ln(1 + s (e^epsilon - 1)) on the whole epoch's loss (MATHS 1)."""
    several = {"rows": "several", "most_rows": 2}
    for changes, s in (
        ({"sampling": 0.25}, 0.25),
        ({"strata": [Stratum("a", 0.1), Stratum("b", 0.9)]}, 0.9),
        ({"strata": [Stratum("a", 0.1), Stratum("b")]}, 0.6),
    ):
        query = make_query(**several, **changes)
        assert math.isclose(
            query.epsilon_sampled, math.log(1 + s * math.expm1(query.epsilon_local))
        )
    everybody = make_query(sampling=1.0)
    assert everybody.epsilon_sampled == everybody.epsilon_local


def test_the_sampling_coin_is_exact_and_by_stratum() -> None:
    query = make_query(
        sampling=0.75,
        strata=[Stratum("north"), Stratum("south", sampling=1.0), Stratum("east", sampling=0.6)],
    )
    assert [query.sampling_of(i) for i in range(3)] == [
        3 << 62,
        1 << 64,
        math.floor(Fraction(0.6) * 2**64),
    ]


@pytest.mark.parametrize(
    "name", ["DirectEncoding", "OptimizedUnary", "SymmetricUnary", "ThresholdHistogram"]
)
def test_any_mechanism_of_the_library_goes_by_name(name: str) -> None:
    query = make_query(
        mechanism={"name": name, "epsilon": 1}, columns=[Column("distance", MILES, other=True)]
    )
    assert type(query.mechanism).__name__ == name
    assert query.mechanism.labels == query.labels
    assert query.epsilon <= 1.0
    assert Query.from_content(query.content) == query


@pytest.mark.parametrize(
    ("name", "stated"), [("ProjectiveResponse", "q"), ("HierarchicalRanges", "fan_outs")]
)
def test_a_query_states_the_parameters_that_were_chosen_for_it(name: str, stated: str) -> None:
    columns = [Column("distance", [f"[{i},{i + 1})" for i in range(63)], other=True)]
    recipe = {"name": name, "epsilon": 2.0}
    query = make_query(columns=columns, mechanism=recipe)
    written = canonical.decode(query.content)["mechanism"]
    chosen: Any = query.mechanism
    assert written[stated] == chosen.parameters()[stated]
    # another epsilon, as a controller may set it, does not choose again: reports keep their form
    revised = query.revised(mechanism={**query.recipe, "epsilon": 5.0})
    assert revised.recipe[stated] == written[stated]
    assert (
        make_query(columns=columns, mechanism={**recipe, "epsilon": 5.0}).recipe != revised.recipe
    )


def test_a_mechanism_may_be_given_as_it_is() -> None:
    assert make_query(mechanism=OptimizedUnary(11, 1.0)) == make_query(
        mechanism={"name": "OptimizedUnary", "epsilon": 1.0}
    )


NEW_YORK = Column("city", ["New York"])


@pytest.mark.parametrize(
    ("changes", "name", "says"),
    [
        ({"id": "Taxi"}, "id", "must be 1 to 64 of a-z"),
        ({"analyst": ""}, "analyst", "who asks"),
        ({"analyst": "City\x1b[2J"}, "analyst", "U+001B"),
        ({"question": "far\u202e?"}, "question", "U+202E"),
        ({"sql": " "}, "sql", "in SQL"),
        ({"proxies": ["https://one.example"]}, "proxies", "2 to 16"),
        ({"proxies": ["a", "a"]}, "proxies[1]", "could read the answer"),
        ({"proxies": "ab"}, "proxies", "must be a list"),
        ({"sampling": 0}, "sampling", "above 0 and at most 1"),
        ({"sampling": 1.5}, "sampling", "above 0 and at most 1"),
        ({"sampling": math.nan}, "sampling", "above 0 and at most 1"),
        ({"serial": 0}, "serial", "must be a whole number"),
        ({"minimum_cohort": 0}, "minimum_cohort", "must be a whole number"),
        ({"rows": "every"}, "rows", "'random', 'aggregate', 'several', 'all'"),
        ({"most_rows": 3}, "most_rows", "with rows = 'several'"),
        ({"rows": "several"}, "most_rows", "must be above 1"),
        (
            {"mechanism": {"name": "TwoCoin", "p": 1.2, "q": 0.5}},
            "mechanism.p",
            "strictly between 0 and 1",
        ),
        (
            {"mechanism": {"name": "TwoCoin", "p": "1/3", "q": 0.5}},
            "mechanism.p",
            "must lie strictly between 0 and 1",
        ),
        ({"mechanism": {"name": "TwoCoin", "p": 0.5}}, "mechanism.q", "strictly between 0 and 1"),
        (
            {"mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.5, "r": 1}},
            "mechanism.r",
            "not a known key",
        ),
        (
            {"mechanism": {"name": "NoSuch", "epsilon": 1.0}},
            "mechanism",
            "is not one this library knows",
        ),
        ({"mechanism": {"name": "OptimizedUnary", "epsilon": -1}}, "mechanism.epsilon", "above 0"),
        ({"mechanism": {"name": "OptimizedUnary", "sigma": 1}}, "mechanism", "do not fit"),
        (
            {"mechanism": {"name": "DirectEncoding", "epsilon": 1.0}},
            "columns[0].other",
            "must be true with DirectEncoding",
        ),
        (
            {"mechanism": {"name": "BinaryResponse", "p": 0.5, "q": 0.5}},
            "mechanism",
            "one of 2 values",
        ),
        (
            {"mechanism": {"name": "OptimizedUnary", "epsilon": 1.0, "values": 4}},
            "mechanism.values",
            "the query's buckets",
        ),
        (
            {"mechanism": {"name": "OptimizedUnary", "epsilon": 1.0, "k": 4}},
            "mechanism.k",
            "the domain is the query's buckets",
        ),
        ({"columns": [NEW_YORK]}, "columns", "between 2 and"),
        ({"columns": [NEW_YORK, NEW_YORK]}, "columns[1].name", "is repeated"),
        ({"size_class": 9}, "size_class", "from 0 to 6"),
        (
            {"size_class": 0, "columns": [Column("n", list(range(100)))]},
            "size_class",
            "must be 1 or above",
        ),
        ({"budget": Budget(epsilon=0.1)}, "budget.epsilon", "must pay for at least one epoch"),
        ({"strata": [Stratum("a"), Stratum("a")]}, "strata[1].name", "is repeated"),
        ({"strata": ["a"]}, "strata", "must be a list of Stratum"),
        ({"strata": 5}, "strata", "must be a list of Stratum"),
        ({"columns": ["distance"]}, "columns", "must be a list of at least one Column"),
        ({"columns": None}, "columns", "must be a list of at least one Column"),
        ({"columns": []}, "columns", "must be a list of at least one Column"),
        ({"cover": 1}, "cover", "true or false"),
    ],
)
def test_a_bad_query_is_refused_with_the_name_and_the_rule(
    changes: dict[str, Any], name: str, says: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        make_query(**changes)
    assert caught.value.name == name
    assert says in str(caught.value)


def test_many_strata_are_compared_in_no_time() -> None:
    start = time.process_time()
    with pytest.raises(ParameterError, match=r"strata\[40000\].name = 's0' is repeated"):
        make_query(strata=[Stratum(f"s{i % 40_000}") for i in range(40_001)])
    assert time.process_time() - start < 5  # each with every other would take half a minute


# --- versions and bytes


def test_a_query_cannot_be_changed_only_revised() -> None:
    query = make_query()
    with pytest.raises(dataclasses.FrozenInstanceError):
        query.sampling = 1.0  # type: ignore[misc]
    newer = query.revised(sampling=0.9)
    assert (newer.serial, newer.sampling, newer.id) == (2, 0.9, query.id)
    assert newer.digest != query.digest
    with pytest.raises(ParameterError, match="cannot change in a new version"):
        query.revised(id="other")


OWNER, GUEST = (AnalystKey("Owner", bytes([i]) * 32) for i in (1, 2))
PERMISSION = permit(OWNER, "x", GUEST.public, end=1_800_000_000)
VARIANTS: list[dict[str, Any]] = [
    {"grace": 172_800},
    {"id": "b"},
    {"analyst": "B"},
    {"sql": "SELECT 2"},
    {"columns": [Column("distance", [*MILES[:-1], "[10,20)"])]},
    {"columns": [Column("distance", MILES, other=True)]},
    {"columns": [Column("distances", MILES)]},
    {"schedule": Schedule(1_700_000_000, 1_800_000_000, 600, 3600, 600)},
    {"schedule": Schedule(1_700_000_000, 1_800_000_001, 600, 3600, 1200)},
    {"schedule": Schedule(1_700_000_001, 1_800_000_000, 600, 3600, 1200)},
    {"proxies": ["https://two.example", "https://one.example"]},
    {"mechanism": {"name": "TwoCoin", "p": math.nextafter(0.3, 1), "q": 0.6}},
    {"mechanism": {"name": "OptimizedUnary", "epsilon": 1.0}},
    {"sampling": math.nextafter(0.6, 1)},
    {"serial": 2},
    {"question": "How far?"},
    {"strata": [Stratum("a")]},
    {"strata": [Stratum("a", sampling=0.6)]},
    {"strata": [Stratum("a", population=5)]},
    {"population": 10},
    {"minimum_cohort": 99},
    {"budget": Budget()},
    {"budget": Budget(epsilon=20.0, margin=0.1)},
    {"rows": "aggregate"},
    {"rows": "several", "most_rows": 2},
    {"rows": "several", "most_rows": 3},
    {"memoize": True},
    {"memoize": True, "distinct": 2},
    {"memoize": True, "distinct": 12},
    {"memoize": True, "instantaneous": {"p": 0.25, "q": 0.75}},
    {"memoize": True, "instantaneous": {"p": 0.2, "q": 0.75}},
    {"memoize": True, "instantaneous": {"p": 0.25, "q": 0.8}},
    {"cover": True},
    {"size_class": 1},
    {"channel": "x"},
    {"channel": "x", "channel_owner": OWNER.public.raw.hex()},
    {"channel": "x", "channel_owner": OWNER.public.raw.hex(), "permission": PERMISSION},
    {"ones": 2},
    {"ask": "value", "value": "trips", "sql": ""},
    {"ask": "value", "value": "rides", "sql": ""},
    {"once": True},
    {"public_results": True},
    {"envelope": Envelope("00" * 32, (0.1, 1.0), 3.0, p=(0.2, 0.4), q=(0.5, 0.7))},
    {"envelope": Envelope("01" * 32, (0.1, 1.0), 3.0, p=(0.2, 0.4), q=(0.5, 0.7))},
    {"envelope": Envelope("00" * 32, (0.2, 1.0), 3.0, p=(0.2, 0.4), q=(0.5, 0.7))},
    {"envelope": Envelope("00" * 32, (0.1, 1.0), 4.0, p=(0.2, 0.4), q=(0.5, 0.7))},
    {"envelope": Envelope("00" * 32, (0.1, 1.0), 3.0, p=(0.2, 0.4), q=(0.5, 0.7), inversion=True)},
    {
        "envelope": Envelope(
            "00" * 32, (0.1, 1.0), 3.0, p=(0.2, 0.4), q=(0.5, 0.7), until=1_760_000_000
        )
    },
    {"envelope": Envelope("00" * 32, (0.1, 1.0), 3.0, p=(0.2, 0.4), q=(0.5, 0.7), versions=7)},
]


def test_every_field_is_in_the_bytes_that_are_signed() -> None:
    contents = [make_query().content] + [make_query(**changes).content for changes in VARIANTS]
    assert len(set(contents)) == len(contents)
    # and no field was forgotten here
    varied = {name for changes in VARIANTS for name in changes}
    assert varied == {field.name for field in dataclasses.fields(Query) if field.init}


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_canonical_bytes_make_the_same_query_again(changes: dict[str, Any]) -> None:
    query = make_query(**changes)
    again = Query.from_content(query.content)
    assert again == query
    assert again.digest == query.digest
    assert again.mechanism == query.mechanism


def test_a_query_without_distinct_has_the_bytes_that_it_had_before_there_was_such_a_field() -> None:
    content = make_query(memoize=True).content
    assert b"distinct" not in content
    spelled = content.replace(b'"format"', b'"distinct":1,"format"')
    with pytest.raises(ParameterError, match="not in canonical form"):
        Query.from_content(spelled)
    assert b'"distinct":2' in make_query(memoize=True, distinct=2).content


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"distinct": 2}, "without memoize"),
        ({"memoize": True, "distinct": 0}, "from 1 to 12"),  # eleven buckets, and none of them
        ({"memoize": True, "distinct": 13}, "from 1 to 12"),
        ({"memoize": True, "distinct": 1.0}, "whole number"),
        ({"memoize": True, "distinct": True}, "whole number"),
        (
            {"memoize": True, "distinct": 13, "columns": [Column("distance", MILES, other=True)]},
            "from 1 to 12",
        ),
    ],
)
def test_distinct_counts_permanent_answers_and_there_are_no_more_than_answers(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ParameterError, match=says) as error:
        make_query(**changes)
    assert error.value.name == "distinct"


def test_doubles_are_written_by_their_bits() -> None:
    tree = json.loads(make_query(sampling=0.6).content)
    assert tree["sampling"] == {"f64": struct.pack(">d", 0.6).hex()}


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda c: c + b" ", "not in canonical form"),
        (lambda c: c.replace(b'"serial":1', b'"serial": 1'), "not in canonical form"),
        (lambda c: c.replace(b'"serial":1', b'"serial":1.0'), "must not be a decimal fraction"),
        (lambda c: c.replace(b'"serial":1', b'"serial":01'), "not JSON"),
        (lambda c: c.replace(b'"serial":1,', b""), "not in canonical form"),
        (lambda c: c.replace(b'"serial":1', b'"serial":1,"serial":1'), "repeats a key"),
        (lambda c: c.replace(b"taxi", b"t\\u0061xi"), "not in canonical form"),
        (lambda c: c.replace(b'"serial":1', b'"serial":1,"serials":1'), "not a known key"),
        (lambda c: c.replace(b'"serial":1', b'"serial":' + b"1" * 5000), "not JSON"),
        (lambda c: c.replace(b"[0,1)", b"[0.0,1)"), "not in canonical form"),
        (lambda c: c.replace(b'"f64":"3f', b'"f64":"3F', 1), "16 lower-case"),
        (lambda c: c[:-2], "cut off"),
        (lambda c: c.replace(b"City", b"C\xff"), "UTF-8"),
        (lambda c: c.replace(b"deniable query 1", b"deniable query 3"), "the only formats"),
        (
            lambda c: c.replace(b"deniable query 1", b"deniable query 2"),
            "channel_owner = None must be given",
        ),
        (
            lambda c: c.replace(b'"columns"', b'"channel_owner":"%b","columns"' % (b"00" * 32)),
            "and only there",
        ),
        (lambda c: b"[" * 100_000, "nests too deeply"),
        *(
            (lambda c, n=n: b"[" * n + b"]" * n, "nests too deeply|must be a table")
            for n in (300, 600, 900)
        ),
        (lambda c: b"3", "must be a table"),
    ],
)
def test_bytes_in_any_other_spelling_are_refused(spoil: Any, says: str) -> None:
    content = make_query().content
    spoiled = spoil(content)
    assert spoiled != content
    with pytest.raises(ParameterError, match=says):
        Query.from_content(spoiled)


JUNK: list[Any] = [
    *(None, True, -1, 0, 1, 1.5, 1e308, 1 << 62, "", "x", "[0,1)", "\x00"),
    *([], [[]], {}, {"name": "x"}, {"name": []}, [None], [{}], ["a", 1]),
]


def test_whatever_stands_in_a_description_is_made_or_refused_and_nothing_else() -> None:
    """Any value in the place of any other, at any depth: a query, or a ParameterError; no other
    error reaches a device."""
    rng = np.random.default_rng(12)
    tree = make_query(
        strata=[Stratum("a", 0.5, 7)],
        columns=[Column("d", MILES, other=True), Column("t", ["a", {"glob": "b*"}], other=True)],
        mechanism={"name": "DirectEncoding", "epsilon": 1.0},
    ).to_dict()
    n_made = 0
    for _ in range(3000):
        spoiled = copy.deepcopy(tree)
        node: Any = spoiled
        while True:
            key = rng.choice(
                np.array(
                    list(node) if isinstance(node, dict) else list(range(len(node))), dtype=object
                )
            )
            if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.7:
                node = node[key]
                continue
            node[key] = JUNK[int(rng.integers(len(JUNK)))]
            break
        try:
            query = Query.from_dict(spoiled)
        except ParameterError:
            continue
        n_made += 1
        assert Query.from_content(query.content) == query
    assert 100 < n_made < 2000


def test_canonical_json_refuses_what_it_cannot_say_exactly() -> None:
    bad: list[Any] = [math.nan, math.inf, 1 << 63, {1: 2}, {"f64": 1}, b"x", "\ud800"]
    for value in bad:
        with pytest.raises(ParameterError):
            canonical.encode(value)
    good: list[Any] = [
        0.1,
        -0.0,
        5e-324,
        1 << 62,
        -(1 << 63),
        'é\n"\\\x00',
        [True, None, {"a": [0.5]}],
    ]
    for value in good:
        assert repr(canonical.decode(canonical.encode(value))) == repr(value)


def test_a_new_version_stays_in_its_channel_and_another_schedule_does_not() -> None:
    query = make_query()
    assert query.revised(sampling=0.9).channel_tag == query.channel_tag
    assert query.revised(sampling=0.9).tag != query.tag
    shared = [make_query(channel="trips"), make_query(channel="trips", id="other", sql="SELECT 1")]
    assert shared[0].channel_tag == shared[1].channel_tag != query.channel_tag
    for changes in (
        {"size_class": 1},
        {"schedule": Schedule(1_700_000_000, 1_800_000_000, 1200, 3600, 1200)},
    ):
        assert make_query(channel="trips", **changes).channel_tag != shared[0].channel_tag


# --- schedule


def test_windows_slide_over_epochs() -> None:
    """every 10, window 30, slide 20, origin 100, expires 185:

    epochs   0    1    2    3    4    5    6    7
             100  110  120  130  140  150  160  170  180
    window 0 [-------------)
    window 1           [-------------)
    window 2                     [-------------)
    """
    schedule = Schedule(origin=100, expires=185, every=10, window=30, slide=20)
    assert schedule.n_epochs == 8
    assert schedule.n_windows == 3
    assert [schedule.epoch_of(t) for t in (100, 109, 110, 179)] == [0, 0, 1, 7]
    assert [list(schedule.epochs_of_window(w)) for w in range(3)] == [
        [0, 1, 2],
        [2, 3, 4],
        [4, 5, 6],
    ]
    assert [list(schedule.windows_of_epoch(e)) for e in range(8)] == [
        [0],
        [0],
        [0, 1],
        [1],
        [1, 2],
        [2],
        [2],
        [],
    ]
    assert schedule.bounds_of_window(2) == (140, 170)
    assert schedule.epochs_of(np.array([99, 100, 185, 180, 179])).tolist() == [-1, 0, -1, -1, 7]
    for outside in (99, 180):
        with pytest.raises(ParameterError, match="must lie in the query's life"):
            schedule.epoch_of(outside)


@pytest.mark.parametrize(
    ("every", "window", "slide"), [(1, 1, 1), (7, 21, 14), (10, 60, 10), (5, 25, 25), (3, 30, 9)]
)
def test_an_epoch_is_in_a_window_exactly_when_the_window_has_it(
    every: int, window: int, slide: int
) -> None:
    schedule = Schedule(origin=17, expires=17 + 200, every=every, window=window, slide=slide)
    has = {(w, e) for w in range(schedule.n_windows) for e in schedule.epochs_of_window(w)}
    assert has == {(w, e) for e in range(schedule.n_epochs) for w in schedule.windows_of_epoch(e)}
    for w, e in has:
        start, end = schedule.bounds_of_window(w)
        assert (
            start
            <= schedule.start_of_epoch(e)
            < schedule.end_of_epoch(e)
            <= end
            <= schedule.expires
        )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ((0, 100, 10, 25, 10), "schedule.window"),
        ((0, 100, 10, 30, 15), "schedule.slide"),
        ((0, 100, 10, 20, 30), "schedule.slide"),
        ((0, 10, 10, 20, 10), "schedule.expires"),
        ((0.0, 100, 10, 20, 10), "schedule.origin"),
        ((0, 100, 2.5, 20, 10), "schedule.every"),
        ((0, 100, "1 fortnight", 20, 10), "schedule.every"),
        ((0, 1 << 40, 1, 1, 1), "schedule.every"),
    ],
)
def test_a_bad_schedule_is_refused(given: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Schedule(*given)
    assert caught.value.name == name


# --- TOML

TOML = """
id = "taxi-distance"
analyst = "City of Exampleton"
sql = "SELECT distance FROM trips"
proxies = ["https://one.example", "https://two.example"]
sampling = 0.6

[schedule]
origin = 2023-11-14T22:13:20Z
expires = 1800000000
every = "10 min"
window = "1 h"
slide = 1200

[mechanism]
name = "TwoCoin"
p = 0.3
q = 0.6

[budget]
epsilon = 20

[[columns]]
name = "distance"
buckets = ["[0,1)", "[1,2)", "[2,3)", "[3,4)", "[4,5)", "[5,6)", "[6,7)", "[7,8)", "[8,9)", "[9,10)", "[10,inf)"]
"""


def test_toml_and_python_write_the_same_query() -> None:
    assert parse_query(TOML).content == make_query().content


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            'every = "10 min"',
            'every = "10 parsecs"',
            "line 11: schedule.every = '10 parsecs' must be a number of whole seconds",
        ),
        ("sampling = 0.6", "sampling = 60", "line 6: sampling = 60 must be a probability"),
        (
            "sampling = 0.6",
            "samplign = 0.6",
            "line 6: samplign = 0.6 is not a known key: did you mean 'sampling'?",
        ),
        ("p = 0.3", "p = 1.2", "line 17: mechanism.p = 1.2 must lie strictly between 0 and 1"),
        ("p = 0.3", "", "line 15: mechanism.p = 'nothing' must lie"),
        (
            "[2,3)",
            "[1.5,3)",
            "line 25: columns[0].buckets[2] = '[1.5,3)' overlaps '[1,2)': both hold 1.5",
        ),
        ('sql = "SELECT distance FROM trips"', "", "query.toml: sql = None must be a text"),
        (
            "22:13:20Z",
            "22:13:20",
            "line 9: schedule.origin = '2023-11-14 22:13:20' must be a time with its offset",
        ),
        ("22:13:20Z", "22:13:20.5Z", "line 9: schedule.origin"),
        ("epsilon = 20", 'epsilon = "20"', "line 21: budget.epsilon = '20' must be a number"),
        (
            "[budget]",
            "[budgets]",
            "line 20: budgets = {'epsilon': 20} is not a known key: did you mean 'budget'?",
        ),
        ("[[columns]]", "[columns]", "line 23: columns = {"),
        ("q = 0.6", "q = ", "line 18: file = 'query.toml' is not TOML"),
        ("slide = 1200", "", "schedule.slide = None must be a number of whole seconds"),
    ],
)
def test_toml_errors_name_the_line_the_key_and_what_would_do(old: str, new: str, says: str) -> None:
    assert TOML.count(old) == 1
    with pytest.raises(QueryFileError) as caught:
        parse_query(TOML.replace(old, new), "query.toml")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_of_a_key_in_a_list_of_tables_is_that_of_its_own_table() -> None:
    text = "[[columns]]\nname = 'a'\n[[columns]]\n  name = 'b'  # name = 'c'\n[x]\nname = 1\n"
    assert [
        line_of(text, name)
        for name in ("columns[0].name", "columns[1].name", "x.name", "y", "columns[1].other")
    ] == [
        2,
        4,
        6,
        None,
        3,
    ]


def test_the_summary_states_the_local_loss_first_and_the_budget() -> None:
    lines = summary(make_query(cover=True)).splitlines()
    cost = lines[lines.index("What it can cost one person") + 1]
    assert cost.startswith(f"  epsilon, local: {make_query().epsilon:.4f} per epoch")
    assert any(
        "enough for" in line and str(make_query().affordable_epochs) in line for line in lines
    )
    assert any("which devices sent something" in line for line in lines)


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_query_is_no_longer_than_devices_take(letter: str) -> None:
    """What no device would run must not be signed."""
    assert LONGEST_SQL == limits.LONGEST_SQL
    longest = "SELECT '" + letter * ((LONGEST_SQL - 9) // len(letter.encode())) + "'"
    assert make_query(sql=longest).sql == longest
    with pytest.raises(ParameterError, match="sql"):
        make_query(sql=longest + letter * 2)


# --- the second step of memoized answers

STEP = {"p": 0.25, "q": 0.75}


def test_new_memoized_queries_have_a_second_step_and_signed_ones_without_it_replay() -> None:
    given = make_query().to_dict() | {"memoize": True}
    old = Query.from_dict(given)
    assert old.instantaneous is None
    assert b"instantaneous" not in old.content
    assert Query.from_content(old.content) == old
    fields = {
        name: getattr(old, name)
        for name in ("id", "analyst", "sql", "columns", "schedule", "proxies")
    }
    new = Query(**fields, mechanism=old.recipe, memoize=True)
    assert new.instantaneous == STEP
    assert Query.from_content(new.content) == new
    assert new.epsilon_local < new.epsilon_charged == old.epsilon_charged == old.epsilon_local
    assert new.revised(sampling=0.5).instantaneous == STEP
    assert new.revised(memoize=False).instantaneous is None
    assert make_query().revised(memoize=True).instantaneous == STEP
    assert Query(**fields, mechanism=old.recipe).instantaneous is None


def test_mechanisms_that_are_not_unary_replay() -> None:
    complete = [Column("distance", MILES, other=True)]
    for recipe in (
        {"name": "DirectEncoding", "epsilon": 1.0},
        {"name": "BasicRappor", "f": 0.5, "p": 0.5, "q": 0.75},
    ):
        made = make_query(memoize=True, mechanism=recipe, columns=complete, instantaneous="default")
        assert made.instantaneous is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"instantaneous": STEP}, "must be left out without memoize and a unary mechanism"),
        (
            {"memoize": True, "instantaneous": {"p": 0.8, "q": 0.2}},
            "instantaneous.q = 0.2 must exceed p = 0.8",
        ),
        (
            {"memoize": True, "instantaneous": {"p": 0.8}},
            "instantaneous.q = 'nothing' must lie strictly between 0 and 1",
        ),
        (
            {"memoize": True, "instantaneous": {"p": 0.1, "r": 0.2}},
            "instantaneous.r = 0.2 is not a known key",
        ),
        (
            {"memoize": True, "instantaneous": 7},
            "instantaneous = 7 must be a table with the keys p, q",
        ),
        (
            {"memoize": True, "instantaneous": STEP, "budget": Budget(epsilon=1.0)},
            "must pay for the permanent answers",
        ),
        ({"mechanism": {"name": "MemoizedUnary"}}, "must be the first step alone"),
    ],
)
def test_a_second_step_that_cannot_be_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make_query(**changes)
    assert says in str(caught.value)
