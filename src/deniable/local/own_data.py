"""A simulation of one's own query and data: what `deniable up` runs in mode "simulation"."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deniable.client.vaults import sources
from deniable.client.vaults.vault import Vault
from deniable.errors import ImportDataError, ParameterError
from deniable.local.people import Answers, answers_of_rows, answers_of_vaults, make_vaults
from deniable.local.simulation import Simulation
from deniable.local.up_settings import Data, UpSettings
from deniable.queries.budget import Budget
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule

__all__ = ["simulate_own"]

_LIFE = 86_400
_SQLITE = (".db", ".sqlite", ".sqlite3")
_Rows = list[list[object]]


def simulate_own(settings: UpSettings) -> tuple[Simulation, int]:
    """The system for one's own query and data, and how many people there are.

    The query is asked as it is written, but of proxies on this machine, every `simulation.every`
    seconds, and without the budget that would end it after a few epochs: nobody is really asked.
    """
    data = settings.data
    if data is None:
        raise ParameterError("data", None, "is missing")
    if data.vaults is not None:
        n_people, people = _from_vaults(data.vaults, settings.devices)
    else:
        n_people, people = _from_table(data, settings.devices)
    return Simulation(_asked(settings, n_people), people, len(settings.query.proxies)), n_people


_People = Callable[[Query, Path], tuple[Answers, Sequence[Vault]]]


def _asked(settings: UpSettings, n_people: int) -> Callable[[Sequence[str], int], Query]:
    schedule, every, window = settings.query.schedule, settings.every, settings.simulated_window
    slide = every * (schedule.slide // schedule.every)

    def ask(proxies: Sequence[str], now: int) -> Query:
        return settings.query.revised(
            proxies=proxies,
            schedule=Schedule(now, now + max(_LIFE, window), every, window, slide),
            budget=Budget(),
            envelope=None,
            population=None if settings.query.population is None else n_people,
        )

    return ask


def _from_vaults(folder: Path, n_devices: int) -> tuple[int, _People]:
    vaults = [Vault.open(path) for path in sorted(folder.glob("*.db"))]
    if not vaults:
        raise ParameterError("data.vaults", str(folder), "contains no vault (files ending in .db)")

    def people(query: Query, _: Path) -> tuple[Answers, Sequence[Vault]]:
        return answers_of_vaults(query, vaults), vaults[:n_devices]

    return len(vaults), people


def _from_table(data: Data, n_devices: int) -> tuple[int, _People]:
    assert data.table is not None  # noqa: S101 - it is this or vaults
    suffix = data.table.suffix.lower()
    if suffix in _SQLITE:
        kinds, rows = _read_sqlite(data.table, data.name)
    elif suffix == ".parquet":
        kinds, rows = sources.read_parquet(data.table)
    elif suffix == ".csv":
        kinds, rows = sources.read_csv(data.table, None)
    else:
        raise ParameterError(
            "data.table", data.table.name, f"must end in .csv, .parquet, {', '.join(_SQLITE)}"
        )
    names = list(kinds)
    if data.owner not in names:
        raise ParameterError(
            "data.owner",
            data.owner,
            f"must be one of the table's columns, which are {', '.join(names)}",
        )
    place = names.index(data.owner)
    if len(names) < 2:
        raise ParameterError(
            "data.table", data.table.name, "must have a column besides the owner column"
        )
    by_owner: dict[object, _Rows] = {}
    for row in rows:
        by_owner.setdefault(row[place], []).append([*row[:place], *row[place + 1 :]])
    if not by_owner:
        raise ParameterError("data.table", data.table.name, "has no rows")
    # Whose row it is stays outside: a vault has one owner, who is not part of the data.
    own = {name: kind for name, kind in kinds.items() if name != data.owner}
    everybody = list(by_owner.values())
    if data.stratum and data.stratum not in own:
        raise ParameterError(
            "data.stratum",
            data.stratum,
            f"must be one of the table's columns, which are {', '.join(own)}",
        )
    at = list(own).index(data.stratum) if data.stratum else 0

    def people(query: Query, folder: Path) -> tuple[Answers, Sequence[Vault]]:
        answers = answers_of_rows(query, folder / "scratch", data.name, own, everybody)
        if query.strata:
            answers.strata = _strata(query, data, [str(rows[0][at]) for rows in everybody])
        return answers, make_vaults(
            folder / "devices", data.name, own, everybody[:n_devices], list(own)
        )

    return len(everybody), people


def _strata(query: Query, data: Data, found: Sequence[str]) -> NDArray[np.intp]:
    """The stratum of each owner, by what stands in their first row."""
    places = {stratum.name: i for i, stratum in enumerate(query.strata)}
    for name in found:
        if name not in places:
            raise ParameterError(
                "data.stratum",
                data.stratum,
                f"contains a value that is not one of the query's strata, {', '.join(places)}",
            )
    return np.array([places[name] for name in found], dtype=np.intp)


def _read_sqlite(path: Path, table: str) -> tuple[dict[str, str], Iterator[Sequence[object]]]:
    """The columns and rows of a table of an SQLite database that is only read."""
    quoted = '"' + table.replace('"', '""') + '"'
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            declared = connection.execute(f"PRAGMA table_info({quoted})").fetchall()
            if not declared:
                raise ParameterError("data.name", table, f"must be a table of {path.name}")
            rows = connection.execute(f"SELECT * FROM {quoted}").fetchall()  # noqa: S608 - quoted
    except sqlite3.Error as error:
        raise ImportDataError(f"{path} cannot be read as an SQLite database: {error}") from None
    return {str(column[1]): _kind(str(column[2]).upper()) for column in declared}, iter(rows)


def _kind(declared: str) -> str:
    """SQLite's own rules of affinity, as far as vaults have kinds."""
    if "INT" in declared:
        return "INTEGER"
    return (
        "REAL"
        if any(part in declared for part in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"))
        else "TEXT"
    )
