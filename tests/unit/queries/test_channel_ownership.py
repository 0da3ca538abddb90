"""A channel belongs to a key: nobody else reaches its quota, grace or windows without its owner's
signature."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from deniable.aggregator.counting.catalogue import Catalogue, publish, published
from deniable.aggregator.state import connect, signed
from deniable.errors import (
    ChannelError,
    KeyNotValidError,
    ParameterError,
    PublicationError,
    QueryError,
    RefusedError,
    RevokedKeyError,
)
from deniable.proxy.board import Board
from deniable.queries.budget import Budget
from deniable.queries.channels import Channel, check_joining
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.permissions import ChannelPermission, permit
from deniable.queries.signed.signing import SignedQuery, authenticate, sign, signing_keys
from toolkit.devices import KEY, Network, asked, at, make_device, make_policy
from toolkit.queries import make_query

OTHER = AnalystKey("Mallory", bytes(range(1, 33)))
THIRD = AnalystKey("Carol", bytes(range(2, 34)))
NEXT = AnalystKey(KEY.owner, bytes(range(3, 35)))
"""The key that replaces KEY."""
RING = KeyRing().add(KEY.public).add(OTHER.public).add(THIRD.public)
MONTH = 30 * 86_400
HEAVY: dict[str, Any] = {"rows": "several", "most_rows": 1000, "grace": MONTH}
EXPIRES = make_query().schedule.expires


def query(key: AnalystKey = KEY, name: str = "mine", **changes: Any) -> Query:
    return make_query(
        **{"id": name, "analyst": key.owner, "channel": "city", "budget": Budget(), **changes}
    )


def old_format(asked: Query, key: AnalystKey) -> SignedQuery:
    """The query as the first release signed it: nothing in it says to whom its channel belongs."""
    return SignedQuery(
        asked.content, key.public.id, key.sign(b"deniable query 1\0" + asked.content)
    )


def permission(**changes: Any) -> ChannelPermission:
    return permit(KEY, **{"channel": "city", "guest": OTHER.public, "end": EXPIRES, **changes})


class BoardPublisher:
    """Publishes on a proxy's board, as an aggregator does that relays what analysts signed."""

    refusal = RefusedError

    def __init__(self, folder: Path, ring: KeyRing = RING) -> None:
        self.board = Board(folder / "queries.db", lambda: at(0), lambda: ring)

    def put(self, signed_query: SignedQuery) -> None:
        self.board.publish(signed_query.header().id, signed_query.to_bytes())

    def stop(self, query_id: str) -> None:
        self.board.stop(query_id)

    def channel(self, tag: int) -> Channel:
        return self.board.channels()[tag]


class AggregatorPublisher:
    """Publishes in an aggregator's catalogue."""

    refusal = PublicationError

    def __init__(self, folder: Path, ring: KeyRing = RING) -> None:
        self.connection, self.ring = connect(folder / "state.db"), ring

    def put(self, signed_query: SignedQuery) -> None:
        publish(self.connection, signed_query, self.ring, make_query().proxies, at(0))

    def stop(self, query_id: str) -> None:
        self.connection.execute("UPDATE queries SET stopped = ? WHERE id = ?", (at(0), query_id))

    def channel(self, tag: int) -> Channel:
        return Catalogue.load(self.connection).channels[tag]


@pytest.fixture(params=[BoardPublisher, AggregatorPublisher])
def publisher(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


# --- another analyst's channel


@pytest.mark.parametrize("channel", ["city", None, f"{KEY.owner}/mine"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("formats", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_query_of_another_analyst_never_adds_to_a_channels_quota_or_grace(
    publisher: Any, channel: str | None, order: tuple[int, int], formats: tuple[int, int]
) -> None:
    """Whichever comes first, in whichever format: it is refused, or has a channel of its own."""
    mine = query(channel=channel)
    named = f"{KEY.owner}/mine" if channel is None else channel
    theirs = query(OTHER, "theirs", channel=named, **HEAVY)
    pairs = ((mine, KEY), (theirs, OTHER))
    both = [
        old_format(*pair) if old else sign(*pair) for pair, old in zip(pairs, formats, strict=True)
    ]
    refused = []
    for i in order:
        try:
            publisher.put(both[i])
        except publisher.refusal:
            refused.append(i)
    assert len(refused) <= 1
    if channel is None or formats[0] == 0:
        assert 0 not in refused  # only a free name of the old format goes to whoever comes first
    if 0 in refused:
        return
    found = publisher.channel(both[0].header().channel_tag)
    assert (found.most_messages, found.grace) == (1, 0)


def test_equal_names_under_two_keys_are_two_channels_and_under_one_key_one() -> None:
    mine, again, theirs = (
        sign(query(key, name), key).header().channel_tag
        for key, name in ((KEY, "mine"), (KEY, "again"), (OTHER, "theirs"))
    )
    assert mine == again != theirs


def test_a_query_that_names_anothers_key_without_permission_is_refused_everywhere(
    publisher: Any, tmp_path: Path
) -> None:
    forged = sign(query(OTHER, "theirs", channel_owner=KEY.public.raw.hex()), OTHER)
    assert forged.header().channel_tag == sign(query(), KEY).header().channel_tag
    publisher.put(sign(query(), KEY))
    with pytest.raises((ChannelError, RefusedError)) as refused:
        publisher.put(forged)
    assert "belongs to another key" in str(refused.value)
    assert getattr(refused.value, "reason", "").replace("_", " ") == "foreign channel"
    device = make_device(tmp_path, asked(), policy=make_policy(asked(), ring=RING))
    receipt = device.answer(forged, at(0))
    assert (receipt.outcome, receipt.reason) == ("refused", "foreign channel")


def test_a_channel_of_the_old_format_that_two_analysts_shared_before_an_upgrade_is_the_first_ones(
    tmp_path: Path,
) -> None:
    """Their queries are still there, but only the first one's decide how long, how far and how
    much."""
    first, second = query(OTHER, "zebra"), query(KEY, "ant", **HEAVY)
    tag = first.channel_tag
    board = BoardPublisher(tmp_path).board
    for one, key in ((first, OTHER), (second, KEY)):
        listed = (one.id, one.serial, old_format(one, key).to_bytes())
        board._connection.execute(
            "INSERT INTO versions (id, serial, signed) VALUES (?, ?, ?)", listed
        )
    board._load()
    assert len(board) == 2
    assert (board.channels()[tag].most_messages, board.channels()[tag].grace) == (1, 0)
    connection = connect(tmp_path / "state.db")
    for when, (one, key) in enumerate(((first, OTHER), (second, KEY))):
        row = (
            one.id,
            1,
            signed(one.tag),
            signed(tag),
            old_format(one, key).to_bytes(),
            when,
            one.analyst,
        )
        connection.execute("INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?, NULL, ?)", row)
    found = Catalogue(published(connection)).channels[tag]
    assert (found.most_messages, found.grace, len(found.versions)) == (1, 0, 2)


def test_a_free_name_of_the_old_format_stays_with_its_analyst_when_the_key_changes(
    publisher: Any,
) -> None:
    ring = RING.add(NEXT.public)
    if isinstance(publisher, BoardPublisher):
        publisher.board._ring = lambda: ring
    else:
        publisher.ring = ring
    publisher.put(old_format(query(), KEY))
    publisher.put(old_format(query().revised(sampling=0.5), NEXT))
    with pytest.raises(publisher.refusal, match="belongs to another analyst"):
        publisher.put(old_format(query(OTHER, "theirs"), OTHER))


# --- keys that change


def test_a_channel_goes_on_under_the_analysts_next_key_even_if_the_first_was_revoked(
    publisher: Any,
) -> None:
    first = sign(query(), KEY)
    publisher.put(first)
    ring = RING.rotate(KEY.public.id, NEXT.public, at=at(0), overlap=0).revoke(KEY.public.id)
    again = sign(first.unverified().revised(sampling=0.5), NEXT)
    assert again.header().channel_tag == first.header().channel_tag
    assert authenticate(again, ring, at(0)).channel_owner == KEY.public.raw.hex()
    thief = sign(query(OTHER, "theirs", channel_owner=NEXT.public.raw.hex()), OTHER)
    with pytest.raises(ChannelError):
        authenticate(thief, ring, at(0))


# --- permissions


def test_a_permitted_guest_adds_what_the_owner_signed_and_no_more(publisher: Any) -> None:
    given = permission(messages=3, grace=600)
    publisher.put(sign(query(), KEY))
    publisher.put(sign(query(OTHER, "one", rows="several", most_rows=2, grace=600), OTHER, given))
    tag = sign(query(), KEY).header().channel_tag
    found = publisher.channel(tag)
    assert (found.most_messages, found.grace) == (1 + 2, 600)
    with pytest.raises(
        publisher.refusal, match=r"permits 3 messages per device and epoch; with this query, .* 4"
    ):
        publisher.put(sign(query(OTHER, "two", rows="several", most_rows=2), OTHER, given))
    publisher.put(sign(query(OTHER, "three"), OTHER, given))
    assert publisher.channel(tag).most_messages == 1 + 3
    # answers that are on their way still count, but the sum is bounded all the same
    publisher.stop("one")
    publisher.put(sign(query(OTHER, "four", rows="several", most_rows=2), OTHER, given))
    assert publisher.channel(tag).most_messages == 1 + 3


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rows": "several", "most_rows": 2}, "most_rows = 2 exceeds the 1 that the owner"),
        ({"grace": 601}, "grace = 601 exceeds the 600"),
        (
            {"schedule": Schedule(1_700_000_000, EXPIRES + 600, 600, 3600, 1200)},
            "expires = .* exceeds",
        ),
        ({"channel": "another"}, "the permission is for channel 'city', not for 'another'"),
    ],
)
def test_a_guests_query_beyond_the_permission_is_refused_by_reason(
    changes: dict[str, Any], says: str
) -> None:
    given = permission(grace=600)
    with pytest.raises(ChannelError, match=says):
        sign(query(OTHER, **changes), OTHER, given)
    forged = query(OTHER, **{**changes, "channel_owner": given.owner, "permission": given})
    with pytest.raises(ChannelError, match=says):
        authenticate(old_format(forged, OTHER), RING, at(0))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (dataclasses.replace(permission(), messages=9), "is not signed by its owner"),
        (dataclasses.replace(permission(), signature="ab" * 64), "is not signed by its owner"),
        (permission(guest=THIRD.public), "was given to another key"),
    ],
)
def test_a_permission_that_the_owner_did_not_give_to_this_key_is_refused(
    given: ChannelPermission, says: str
) -> None:
    with pytest.raises(ChannelError, match=says):
        sign(query(OTHER), OTHER, given)
    forged = old_format(query(OTHER, channel_owner=given.owner, permission=given), OTHER)
    with pytest.raises(ChannelError, match=says):
        authenticate(forged, RING, at(0))


def test_a_permission_for_one_key_cannot_be_moved_to_a_channel_of_another() -> None:
    with pytest.raises(
        ParameterError, match=r"permission\.owner = .* must be the query's channel_owner"
    ):
        query(OTHER, channel_owner=THIRD.public.raw.hex(), permission=permission())


def test_a_guests_query_falls_with_the_owners_key(tmp_path: Path) -> None:
    guests = sign(query(OTHER, "theirs"), OTHER, permission())
    assert signing_keys(guests) == {OTHER.public.id, KEY.public.id}
    with pytest.raises(RevokedKeyError):
        authenticate(guests, RING.revoke(KEY.public.id), at(0))
    lapsed = KeyRing().add(KEY.public, valid_until=at(0)).add(OTHER.public)
    with pytest.raises(KeyNotValidError):
        authenticate(guests, lapsed, at(0))
    board = BoardPublisher(tmp_path).board
    board.publish("theirs", guests.to_bytes())
    board.revoke([KEY.public.id])
    assert len(board) == 0


def test_a_device_answers_a_permitted_guest_on_the_owners_channel(tmp_path: Path) -> None:
    mine = asked(id="mine", channel="city")
    theirs = asked(id="theirs", channel="city", analyst=OTHER.owner)
    device = make_device(tmp_path, mine, policy=make_policy(mine, ring=RING))
    network = Network()
    both = [sign(mine, KEY), sign(theirs, OTHER, permission())]
    assert [receipt.outcome for receipt in device.answer_all(both, at(0))] == [
        "answered",
        "answered",
    ]
    device.upload(network, at(1))
    sent = {share.channel for kept in network.kept.values() for share in kept.values()}
    assert sent == {sign(mine, KEY).header().channel_tag}


def test_a_permission_goes_through_its_file_and_the_query_through_its_bytes() -> None:
    given = permission(messages=2, grace="10 min")
    assert ChannelPermission.from_bytes(given.to_bytes()) == given
    guests = sign(query(OTHER, "theirs"), OTHER, given)
    found = SignedQuery.from_bytes(guests.to_bytes()).unverified()
    assert (found.permission, found.header.permission) == (given, given)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"messages": 0}, "permission.messages = 0"),
        ({"messages": 1001}, "permission.messages = 1001"),
        ({"grace": MONTH + 1}, "permission.grace = 2592001 must be at most 30 d"),
        ({"grace": -1}, "permission.grace"),
        ({"grace": False}, "permission.grace"),
        ({"end": "soon"}, "permission.end = 'soon'"),
        ({"channel": ""}, "permission.channel"),
        ({"guest": KEY.public}, "an owner needs no permission"),
    ],
)
def test_a_permission_that_makes_no_sense_is_refused_by_name(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ParameterError, match=says):
        permission(**changes)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"[" * 9000, permission().to_bytes().replace(b'"end"', b'"and"')]
)
def test_bytes_that_are_no_permission_are_refused(content: bytes) -> None:
    with pytest.raises(QueryError, match="permission"):
        ChannelPermission.from_bytes(content)


def test_an_expired_query_of_a_guest_leaves_its_messages_free() -> None:
    given = permission(messages=1)
    short = Schedule(1_700_000_000, at(1), 600, 600, 600)
    before = sign(query(OTHER, "short", schedule=short), OTHER, given).header()
    after = sign(query(OTHER, "long"), OTHER, given).header()
    assert before.channel_tag == after.channel_tag
    with pytest.raises(ParameterError, match="would ask for 2"):
        check_joining(after, [(before, None)], at(0))
    check_joining(after, [(before, None)], at(1))
    check_joining(after, [(before, at(0))], at(0))


def test_a_running_query_on_a_channel_of_the_old_format_does_not_change_channels(
    tmp_path: Path,
) -> None:
    publisher = AggregatorPublisher(tmp_path)
    publisher.put(old_format(query(), KEY))
    with pytest.raises(PublicationError, match=r"is on a channel of format 1, .* under another id"):
        publisher.put(sign(query().revised(sampling=0.5), KEY))
