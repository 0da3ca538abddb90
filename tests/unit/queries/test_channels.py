"""Channels: what queries that look alike to proxies have in common."""

from __future__ import annotations

import pytest

from deniable.errors import ParameterError
from deniable.queries.channels import channels_of
from deniable.queries.header import QueryHeader
from deniable.queries.schedule import Schedule
from toolkit.queries import make_query

HOUR = 3600


def query(name: str, expires: int, **changes: object) -> QueryHeader:
    schedule = Schedule(origin=0, expires=expires, every=HOUR, window=HOUR, slide=HOUR)
    return make_query(id=name, channel="shared", schedule=schedule, **changes).header


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_channel_goes_on_until_its_last_query_expires_whichever_came_first(
    order: tuple[int, int],
) -> None:
    queries = [query("early", 5 * HOUR), query("late", 9 * HOUR)]
    (channel,) = channels_of((queries[i], None) for i in order).values()
    assert channel.n_epochs == 9
    assert [channel.epochs_over(time * HOUR) for time in (0, 5, 7, 9, 20)] == [0, 5, 7, 9, 9]


def test_a_stopped_query_ends_with_the_epoch_in_which_it_was_stopped() -> None:
    stopped = query("early", 5 * HOUR), 2 * HOUR + 1
    (channel,) = channels_of([stopped]).values()
    assert channel.n_epochs == 3
    (channel,) = channels_of([stopped, (query("late", 9 * HOUR), 4 * HOUR)]).values()
    assert channel.n_epochs == 5


def test_the_header_in_the_canonical_bytes_is_that_of_the_query() -> None:
    made = make_query()
    assert QueryHeader.from_content(made.content) == made.header
    assert QueryHeader.from_content(made.content).channel_tag == made.channel_tag


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        (b'"serial":1', b'"serial":0', "serial = 0 must be a whole number"),
        (b'"serial":1', b'"serial":true', "serial = True must be a whole number"),
        (b'"every":600', b'"every":-1', "schedule.every"),
        (b'"most_rows":1', b'"most_rows":100000', "most_rows = 100000"),
        (b'"size_class":0', b'"size_class":7', "size_class = 7"),
        (b'deniable query 1"', b'deniable query 9"', "format"),
    ],
)
def test_a_header_that_cannot_be_is_refused(before: bytes, after: bytes, rule: str) -> None:
    content = make_query().content
    assert before in content
    with pytest.raises(ParameterError, match=rule):
        QueryHeader.from_content(content.replace(before, after))
