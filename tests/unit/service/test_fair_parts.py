"""A fair part for each analyst: of the board, and of the orders to the proxies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.aggregator.counting.catalogue import publish, published
from deniable.aggregator.operations.relay import PUBLISH, order_relay, relay
from deniable.aggregator.settings import ProxySource
from deniable.aggregator.state import connect
from deniable.errors import RefusedError
from deniable.proxy import board as board_module
from deniable.proxy.board import Board
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign
from deniable.service.fair_parts import fair_selection
from toolkit.crowds import ORIGIN, minute_query

ANN, BEN = AnalystKey("Ann", bytes(range(32))), AnalystKey("Ben", bytes(range(1, 33)))
SIZES = st.dictionaries(
    st.sampled_from("abcde"), st.lists(st.integers(1, 50), max_size=8), min_size=1
)


@settings(max_examples=300)
@given(SIZES, st.integers(0, 300))
def test_whoever_asks_for_no_more_than_an_equal_part_gets_all_of_it(
    sizes: dict[str, list[int]], room: int
) -> None:
    found = fair_selection(sizes, room, 1000)
    taken = {owner: sum(sizes[owner][: found[owner]]) for owner in sizes}
    assert sum(taken.values()) <= room
    for owner, wanted in sizes.items():
        if sum(wanted) <= room // len(sizes):
            assert found[owner] == len(wanted)
        # what was not given would not have fitted, or somebody else has less
        if found[owner] < len(wanted):
            following = wanted[found[owner]]
            assert sum(taken.values()) + following > room


@settings(max_examples=100)
@given(SIZES, st.integers(0, 12))
def test_a_limit_of_their_number_is_kept_too(sizes: dict[str, list[int]], most: int) -> None:
    found = fair_selection(sizes, 10_000, most)
    assert sum(found.values()) == min(most, sum(map(len, sizes.values())))


def question(key: AnalystKey, name: str, size: int = 0, **changes: Any) -> SignedQuery:
    return sign(minute_query(id=name, analyst=key.owner, question="?" * (size + 1), **changes), key)


def listed(board: Board) -> list[str]:
    found = json.loads(board.content)
    return sorted(json.loads(each["query"])["id"] for each in found)


@pytest.fixture
def small_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    monkeypatch.setattr(board_module, "LARGEST_LIST", 20_000)
    return Board(tmp_path / "queries.db", lambda: ORIGIN)


def fill(board: Board, key: AnalystKey) -> int:
    """Publish until the board takes no more of this analyst; how many it took."""
    for i in range(100):
        try:
            board.publish(f"q{i:02}", question(key, f"q{i:02}", 1000).to_bytes())
        except RefusedError as error:
            assert (error.reason, error.status) == ("board_full", 409)  # noqa: PT017 - the others are what is counted
            return i
    raise AssertionError("a board without an end")


def test_an_analyst_who_fills_the_board_keeps_no_other_s_query_from_being_shown(
    small_board: Board,
) -> None:
    n = fill(small_board, ANN)
    assert len(listed(small_board)) == n > 4
    small_board.publish("z", question(BEN, "z", 1900).to_bytes())
    assert "z" in listed(small_board)
    assert len(small_board.content) <= 20_000
    assert small_board.hidden, "the newest of whoever has most"
    assert set(small_board.hidden) == {f"q{i:02}" for i in range(n - len(small_board.hidden), n)}
    with pytest.raises(RefusedError, match="that of 'Ann' is taken"):
        small_board.publish("q99", question(ANN, "q99", 1000).to_bytes())
    small_board.stop("z")
    assert len(listed(small_board)) == n, "they come back when there is room"
    assert small_board.hidden == ()


def test_what_is_hidden_still_takes_answers_and_its_new_version_keeps_its_place(
    small_board: Board,
) -> None:
    n = fill(small_board, ANN)
    channels = small_board.channels()
    small_board.publish("z", question(BEN, "z", 1900).to_bytes())
    assert channels.keys() <= small_board.channels().keys()
    assert small_board.publish("q00", question(ANN, "q00", 1000, serial=2).to_bytes()), (
        "the oldest stays within its part"
    )
    assert "q00" in listed(small_board)
    last = f"q{n - 1:02}"
    with pytest.raises(RefusedError, match="stop a query that is over"):
        small_board.publish(last, question(ANN, last, 1000, serial=2).to_bytes())


def test_half_of_the_board_each_when_both_want_more(small_board: Board) -> None:
    n = fill(small_board, ANN)
    for i in range(n):
        try:
            small_board.publish(f"z{i:02}", question(BEN, f"z{i:02}", 1000).to_bytes())
        except RefusedError:
            break
    names = listed(small_board)
    assert (
        abs(
            sum(name.startswith("q") for name in names)
            - sum(name.startswith("z") for name in names)
        )
        <= 1
    )


# --- the orders to proxies


def test_nobody_s_orders_wait_behind_all_those_of_another_analyst(tmp_path: Path) -> None:
    ring = KeyRing().add(ANN.public).add(BEN.public)
    connection = connect(tmp_path / "state.db")
    names = [f"a{i}" for i in range(5)] + ["z"]
    for name in names:
        signed = question(BEN if name == "z" else ANN, name)
        publish(connection, signed, ring, signed.unverified().proxies, ORIGIN)
        order_relay(connection, name, 1, PUBLISH, 1)
    sent: list[str] = []

    class Answers:
        """A proxy that takes everything."""

        status_code, is_success = 201, True
        headers: ClassVar[dict[str, str]] = {}

        def __enter__(self) -> Answers:
            return self

        def __exit__(self, *_: object) -> None: ...

        def iter_raw(self) -> list[bytes]:
            return []

    class Client:
        def stream(self, _: str, address: str, **__: Any) -> Answers:
            sent.append(address.rpartition("/")[2])
            return Answers()

    (tmp_path / "token").write_text("deniable_x\n")
    proxy = ProxySource("p", "http://127.0.0.1:9", token_file=tmp_path / "token")
    assert relay(connection, [proxy], Client()) == 0
    assert sent == ["a0", "z", "a1", "a2", "a3", "a4"]
    connection.close()


def test_a_stored_version_is_read_once_however_often_queries_are_listed(tmp_path: Path) -> None:
    connection = connect(tmp_path / "state.db")
    for i in range(40):
        signed = question(ANN, f"a{i}")
        publish(connection, signed, KeyRing().add(ANN.public), signed.unverified().proxies, ORIGIN)
    first, again = published(connection), published(connection)
    assert [a.query is b.query for a, b in zip(first, again, strict=True)] == [True] * 40
    connection.close()
