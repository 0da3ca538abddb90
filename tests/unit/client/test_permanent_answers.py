"""What is kept of permanent answers, and how much is written, tells nothing of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deniable.client import encoding
from deniable.client.device import Device
from deniable.client.payment import scope_of
from deniable.client.sandbox.answer import FREE
from deniable.privacy.ledger import Limit
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.randomness import seeded_source
from toolkit.attacks.observed import set_rows
from toolkit.devices import asked, at, make_device, make_policy, signed

USUAL = [Column("distance", [f"[{i},{i + 1})" for i in range(10)], other=True)]
MECHANISMS: list[dict[str, Any]] = [
    {"name": "OptimizedUnary", "epsilon": 1.0},
    {"name": "LocalHashing", "epsilon": 1.0},
    {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75},
]
HISTORIES: list[list[list[float]]] = [
    [[1.5]] * 6,  # always the same
    [[i + 0.5, i + 2.5] for i in range(6)],  # other rows every day, more than may be kept
    [[], [1.5], [1.5, 2.5, 3.5, 4.5], [], [8.5], [9.5]],
]


def store_of(device: Device) -> dict[str, tuple[int, int]]:
    """How many rows each table has, and how many bytes their cells, but for sums of random rows."""
    with device.store.transaction() as transaction:
        tables = [
            name
            for (name,) in transaction._db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
        ]
        rows = {
            table: transaction._db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
            for table in tables
        }
    rows.pop("row_checks")
    return {
        table: (
            len(found),
            sum(
                len(cell if isinstance(cell, bytes) else str(cell)) for row in found for cell in row
            ),
        )
        for table, found in rows.items()
    }


def life(
    folder: Path, query: Query, history: Sequence[Sequence[float]], monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """What the store holds after each answer, in how many calls rows were drawn, and how many."""
    folder.mkdir()
    policy = make_policy(query, epsilon_per_answer=100, limits=(Limit(1000),))
    device = make_device(folder, query, policy=policy, source=seeded_source(5))
    drawn: list[int] = []
    real = encoding.permanent_rows

    def counting(query: Query, indices: Any, source: Any) -> Any:
        drawn.append(len(indices))
        return real(query, indices, source)

    monkeypatch.setattr(encoding, "permanent_rows", counting)

    seen = []
    for epoch, distances in enumerate(history):
        set_rows(device.vault, distances)
        assert device.answer(signed(query), at(epoch)).outcome == "answered"
        seen.append((store_of(device), len(drawn), sum(drawn)))
        drawn.clear()
    monkeypatch.undo()
    return seen


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=[each["name"] for each in MECHANISMS])
def test_what_is_stored_and_drawn_has_the_same_number_and_size_whatever_the_answers_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: dict[str, Any]
) -> None:
    query = asked(
        columns=USUAL, rows="several", most_rows=3, memoize=True, distinct=4, mechanism=mechanism
    )
    lives = [
        life(tmp_path / str(i), query, history, monkeypatch) for i, history in enumerate(HISTORIES)
    ]
    assert lives[1] == lives[0]
    assert lives[2] == lives[0]
    assert [stored["memo"][0] for stored, *_ in lives[0]] == [
        3,
        6,
        9,
        12,
        12,
        12,
    ], "a seat per slot and answer, up to four"
    assert {(calls, rows) for _, calls, rows in lives[0]} == {(2, 3)}


def test_seats_are_used_in_the_order_in_which_they_were_added(tmp_path: Path) -> None:
    query = asked(columns=USUAL, memoize=True, distinct=3, mechanism=MECHANISMS[0])
    device = make_device(tmp_path, query, source=seeded_source(6))
    used = []
    for epoch, distance in enumerate([1.5, 1.5, 2.5, 1.5, 3.5, 4.5]):
        set_rows(device.vault, [distance])
        device.answer(signed(query), at(epoch))
        with device.store.transaction() as transaction:
            [seats] = transaction.seats.of(scope_of(query), 1)
        used.append([seat.spoke for seat in seats])
    assert used == [[0], [1, FREE], [1, 2, FREE], [3, 2, FREE], [3, 2, 4], [3, 2, 5]]
