"""Rows that an app records: made as they come, kept for so long and so many, and asked about like
any others."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from deniable.client.sandbox import interface as sandbox
from deniable.client.vaults.vault import Vault
from deniable.errors import ParameterError, VaultError
from toolkit.devices import asked, at, make_device, make_policy, opened, signed

DAY = 86_400


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault.create(tmp_path / "ann.db")


def rows(vault: Vault, sql: str) -> list[tuple[Any, ...]]:
    return list(sandbox.run(vault, sql, isolated=False))


def test_a_recorded_row_can_be_asked_about_once_its_columns_are_shared(vault: Vault) -> None:
    vault.record("rides", {"km": 3.5, "city": "Lyon"}, at=100)
    vault.record("rides", {"km": 2, "rainy": True}, at=200)
    assert vault.grants() == {}
    vault.grant("rides", ["km", "city", "rainy", "recorded_at"])
    assert sorted(rows(vault, "SELECT recorded_at, km, city, rainy FROM rides")) == [
        (100, 3.5, "Lyon", None),
        (200, 2.0, None, 1),
    ]
    assert rows(vault, "SELECT sum(km) FROM rides") == [(5.5,)]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"km": "far"}, "column 'km' of rides is REAL, and this value is TEXT"),
        ({"km": math.nan}, "column 'km' is given a number that is not finite"),
        ({"km": 1 << 70}, "column 'km' is given an integer of more than 64 bits"),
        ({"city": "x" * 10_001}, "column 'city' is given a text of 10,001 characters"),
        ({"city": b"x"}, "column 'city' is given a bytes"),
        ({"no name": 1}, "column 'no name' must be a name"),
        ({"recorded_at": 1}, "filled by the vault"),
        ({}, "at least one name"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_without_its_value_and_nothing_changes(
    vault: Vault, values: dict[str, Any], says: str
) -> None:
    vault.record("rides", {"km": 3.5, "city": "Lyon"}, at=100)
    before = vault.path.read_bytes()
    with pytest.raises(VaultError, match=r"column|name") as caught:
        vault.record("rides", values, at=200)
    assert says in str(caught.value)
    assert "far" not in str(caught.value)
    assert vault.path.read_bytes() == before


def test_an_imported_table_is_not_recorded_into(vault: Vault) -> None:
    vault.import_rows("trips", {"km": "REAL"}, [(1.0,)])
    with pytest.raises(VaultError, match="was imported, not recorded"):
        vault.record("trips", {"km": 2.0})


def test_rows_are_forgotten_by_age_and_by_number_the_oldest_first(vault: Vault) -> None:
    for day in range(10):
        vault.record("rides", {"km": float(day)}, at=day * DAY)
    vault.grant("rides", ["km"])
    vault.keep("rides", rows=6)
    assert sorted(rows(vault, "SELECT km FROM rides")) == [(float(day),) for day in range(4, 10)]
    vault.keep("rides", age="3 d", rows=6)
    # by the present time, all of them are old
    assert rows(vault, "SELECT count(*) FROM rides") == [(0,)]
    for day in range(10):
        vault.record("rides", {"km": float(day)}, at=day * DAY)
    assert sorted(rows(vault, "SELECT km FROM rides")) == [(7.0,), (8.0,), (9.0,)]
    assert vault.forget(at=11 * DAY) == 2
    assert vault.forget(at=11 * DAY) == 0


def test_forgetting_nothing_writes_nothing(vault: Vault) -> None:
    vault.record("rides", {"km": 1.0}, at=0)
    before = vault.path.read_bytes()
    assert vault.forget(at=10 * DAY) == 0
    assert vault.path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "value"), [("rows", 0), ("rows", 2.0), ("age", "soon"), ("age", 0)]
)
def test_how_long_and_how_many_must_make_sense(vault: Vault, name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        vault.keep("rides", **{name: value})


def test_a_device_forgets_before_it_answers(tmp_path: Path) -> None:
    """A row whose time was over is not in the answer, though nothing was recorded since."""
    query = asked(
        sql="SELECT km FROM rides",
        mechanism={"name": "UnaryEncoding", "a": 1 - 2**-40, "b": 2**-40},
    )
    device = make_device(tmp_path, query, policy=make_policy(query, epsilon_per_answer=100))
    device.vault.record("rides", {"km": 5.5}, at=at(0))
    device.vault.grant("rides", ["km"])
    device.vault.keep("rides", age=10 * DAY * 10_000)
    device.clock = lambda: at(0, 10)
    assert device.answer(signed(query), at(0, 10)).outcome == "answered"
    with device.vault._change() as connection:
        connection.execute("UPDATE deniable_keeping SET age = 60")
    device.clock = lambda: at(1)
    assert device.answer(signed(query), at(1)).outcome == "answered"
    first, second = (message.report[:2] for message in opened(device))
    assert (first, second) == ((1 << 5).to_bytes(2, "little"), bytes(2))
