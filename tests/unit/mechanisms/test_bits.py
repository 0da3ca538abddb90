from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deniable.mechanisms.bits import count_columns, flip_bits, get_bits, put_bits, row_bytes


def random_rows(n: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    bits = np.random.default_rng(n + width).integers(0, 2, (n, width)).astype(np.uint8)
    return bits, np.packbits(bits, axis=1, bitorder="little")


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 11, 16, 17, 24, 32, 33, 64, 65, 100, 128, 1000])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 255, 3001])
def test_columns_are_counted_as_unpacking_would_count_them(n: int, width: int) -> None:
    bits, rows = random_rows(n, width)
    assert count_columns(rows, width).tolist() == bits.sum(axis=0, dtype=int).tolist()


def test_many_rows_are_counted_without_overflow() -> None:
    rows = np.full((300_000, 2), 255, dtype=np.uint8)
    assert count_columns(rows, 16).tolist() == [300_000] * 16


def test_a_slice_of_columns_can_be_counted() -> None:
    bits, rows = random_rows(501, 40)
    assert count_columns(rows[::3], 40).tolist() == bits[::3].sum(axis=0, dtype=int).tolist()


def some_places(n: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A place in each row, a few of them -1, a bit for each, and which rows have a place."""
    rng = np.random.default_rng(1)
    places = rng.integers(-1, width, n)
    places[: n // 20] = -1
    return places, rng.integers(0, 2, n).astype(np.uint8), np.flatnonzero(places >= 0)


@pytest.mark.parametrize("width", [1, 5, 8, 11, 16, 24, 32, 50, 64, 65, 300, 1000])
@pytest.mark.parametrize("n", [1, 10_000, 33_000])
@pytest.mark.parametrize("change", [put_bits, flip_bits])
def test_one_bit_a_row_is_put_or_turned_and_the_others_stay(
    change: Any, n: int, width: int
) -> None:
    bits, rows = random_rows(n, width)
    places, values, some = some_places(n, width)
    change(rows, places, values)
    was = bits[some, places[some]]
    bits[some, places[some]] = values[some] if change is put_bits else was ^ values[some]
    assert np.array_equal(np.unpackbits(rows, axis=1, bitorder="little", count=width), bits)


@pytest.mark.parametrize("width", [1, 8, 11, 16, 24, 32, 50, 64, 65, 1000])
def test_one_bit_a_row_is_read(width: int) -> None:
    bits, rows = random_rows(9000, width)
    places = np.random.default_rng(3).integers(0, width, 9000)
    assert get_bits(rows, places).tolist() == bits[np.arange(9000), places].tolist()


def test_a_row_takes_whole_bytes() -> None:
    assert [row_bytes(width) for width in (1, 8, 9, 64)] == [1, 1, 2, 8]
