from __future__ import annotations

import numpy as np
import pytest

from deniable.mechanisms.bits import count_columns, put_bits, row_bytes


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


@pytest.mark.parametrize("width", [1, 8, 11, 16, 24, 32, 50, 64, 65, 1000])
@pytest.mark.parametrize("n", [1, 10_000])
def test_one_bit_a_row_is_put_and_the_others_stay(n: int, width: int) -> None:
    bits, rows = random_rows(n, width)
    rng = np.random.default_rng(1)
    places, values = rng.integers(0, width, n), rng.integers(0, 2, n).astype(np.uint8)
    put_bits(rows, places, values)
    bits[np.arange(n), places] = values
    assert np.array_equal(np.unpackbits(rows, axis=1, bitorder="little", count=width), bits)


@pytest.mark.parametrize("width", [5, 8, 11, 16, 24, 32, 64, 65, 300])
def test_nothing_is_put_at_minus_one(width: int) -> None:
    bits, rows = random_rows(9000, width)
    rng = np.random.default_rng(2)
    places, values = rng.integers(-1, width, 9000), rng.integers(0, 2, 9000).astype(np.uint8)
    put_bits(rows, places, values)
    some = np.flatnonzero(places >= 0)
    bits[some, places[some]] = values[some]
    assert 0 < len(some) < 9000
    assert np.array_equal(np.unpackbits(rows, axis=1, bitorder="little", count=width), bits)


def test_a_row_takes_whole_bytes() -> None:
    assert [row_bytes(width) for width in (1, 8, 9, 64)] == [1, 1, 2, 8]
