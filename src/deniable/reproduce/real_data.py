"""The papers' real data files, if the user has them: which column is read, in which unit."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import SurveyError
from deniable.table_file import TableFormat, open_parquet, open_text

__all__ = ["bucket_counts", "electricity_kwh", "taxi_miles"]

_DEBS_DISTANCE = 5
"""In the DEBS 2015 file, which has no header: medallion, license, pickup, dropoff, seconds, miles,
…"""


def bucket_counts(path: Path) -> NDArray[np.int64]:
    """Answers in each bucket of PrivApprox's case studies: whole miles up to 10 and above, or half
    kWh up to 3.

    A `.txt` file is read as electricity data, any other as taxi trips.
    """
    if path.suffix == ".txt":
        return np.bincount(
            np.clip(np.ceil(electricity_kwh(path) / 0.5) - 1, 0, 5).astype(np.int64), minlength=6
        )
    return np.bincount(np.minimum(taxi_miles(path).astype(np.int64), 10), minlength=11)


def taxi_miles(path: Path) -> NDArray[np.float64]:
    """Miles of trips: NYC TLC Parquet as published (`trip_distance`), or the DEBS 2015 Grand
    Challenge CSV."""
    if path.suffix == ".parquet":
        miles = np.asarray(_parquet(path, "trip_distance"), dtype=np.float64)
    else:
        miles = _csv_column(path, _DEBS_DISTANCE, ",", header=False)
    return _positive(path, miles[miles >= 0])


def electricity_kwh(path: Path) -> NDArray[np.float64]:
    """kWh per half hour: the UCI household power file (`Global_active_power`, kW per minute, fields
    separated by ';')."""
    kilowatts = _csv_column(path, 2, ";", header=True)
    halves = kilowatts[: len(kilowatts) // 30 * 30].reshape(-1, 30)
    return _positive(path, halves.mean(axis=1) / 2)


def _positive(path: Path, values: NDArray[np.float64]) -> NDArray[np.float64]:
    if values.size < 30:
        raise SurveyError(
            f"{path} holds {values.size} usable numbers, and an experiment needs at least 30"
        )
    return values


def _parquet(path: Path, column: str) -> Any:
    with open_parquet(path, SurveyError) as file:
        if column not in file.schema_arrow.names:
            raise SurveyError(f"{path} has no column {column!r}")
        return file.read(columns=[column]).column(column).drop_null().to_numpy()


def _csv_column(path: Path, place: int, delimiter: str, *, header: bool) -> NDArray[np.float64]:
    values = []
    with open_text(path, SurveyError, TableFormat(delimiter=delimiter)) as table:
        for fields in chain(() if header else (table.header,), table.rows):
            # a missing value, which these files mark with '?' or nothing
            with suppress(ValueError, IndexError):
                values.append(float(fields[place]))
    return np.array(values)
