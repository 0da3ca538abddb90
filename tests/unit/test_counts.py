"""Counts: the one form in which reports are added up, from the join to the estimate."""

from __future__ import annotations

import numpy as np
import pytest

from deniable import DirectEncoding, OptimizedUnary, Tally, seeded_source
from deniable.counts import Counts, add_by_key
from deniable.errors import ParameterError, ReportError, ReportMismatchError, WireError
from deniable.wire.counts import pack_counts, unpack_counts


def of(*cells: int, n: int = 0, nothing: int = 0) -> Counts:
    return Counts(np.array(cells, dtype=np.int64), n, nothing)


def test_counts_of_one_mechanism_add_up_and_others_are_refused() -> None:
    total = of(1, 2, n=3)
    total += of(10, 20, n=30, nothing=4)
    assert total == of(11, 22, n=33, nothing=4)
    assert total - of(1, 2, n=3) == of(10, 20, n=30, nothing=4)
    assert Counts.total([of(1, 2, n=3), of(5, 5, n=10), of(0, 1, n=1, nothing=2)]) == of(
        6, 8, n=14, nothing=2
    )
    with pytest.raises(
        ParameterError, match="cannot add panes of different versions: 2 counts and 3"
    ):
        total += of(1, 2, 3)
    assert total == of(11, 22, n=33, nothing=4)


@pytest.mark.parametrize("other", [of(1, 3, n=3), of(1, 2, n=4), of(1, 2, n=3, nothing=1)])
def test_counts_that_differ_in_anything_are_not_equal(other: Counts) -> None:
    assert of(1, 2, n=3) != other


def test_what_is_added_stays_as_it_is() -> None:
    monday, tuesday = of(1, 1, n=2), of(2, 2, n=4)
    total: dict[str, Counts] = {}
    add_by_key(total, {"all": monday, "first": monday})
    add_by_key(total, {"all": tuesday})
    assert total == {"all": of(3, 3, n=6), "first": of(1, 1, n=2)}
    assert (monday, tuesday) == (of(1, 1, n=2), of(2, 2, n=4))
    assert Counts.total([monday]) is not monday


def test_a_mechanism_estimates_from_counts_as_from_its_tally() -> None:
    mechanism = OptimizedUnary(["a", "b", "c"], 1.0)
    reports = mechanism.privatize(["a", "b", "b", "c"] * 50, seeded_source(1))
    tally = mechanism.tally().update(reports)
    plain = Counts(tally.counts, tally.n)
    assert mechanism.gather(plain) is plain  # neither copied nor converted
    assert (
        mechanism.estimate(plain, 1000)
        == mechanism.estimate(tally, 1000)
        == mechanism.estimate(reports, 1000)
    )


def test_counts_of_another_size_are_refused() -> None:
    mechanism = DirectEncoding(4, 1.0)
    with pytest.raises(ReportMismatchError, match="has 4 counts, and these are 3"):
        mechanism.estimate(of(1, 2, 3, n=6))
    with pytest.raises(ReportError, match="contains counts, not reports"):
        mechanism.reports(of(1, 2, 3, 4, n=10))


def test_a_tally_is_counts_that_know_their_mechanism() -> None:
    one, other = DirectEncoding(2, 1.0), DirectEncoding(2, 2.0)
    tally = Tally(one, np.array([3, 4]), 7)
    assert isinstance(tally, Counts)
    tally += Tally(one, np.array([1, 0]), 1)
    assert (tally.counts.tolist(), tally.n) == ([4, 4], 8)
    for stranger in (Tally(other, np.array([1, 0]), 1), of(1, 0, n=1)):
        with pytest.raises(ReportMismatchError):
            tally += stranger
    assert (tally.counts.tolist(), tally.n) == ([4, 4], 8)


def test_stored_counts_come_back_and_can_be_added_to() -> None:
    counts = of(0, 1, -1, 2**62, n=7, nothing=2)
    content = pack_counts(counts)
    assert content == b"".join(
        int(cell).to_bytes(8, "little", signed=True) for cell in counts.counts
    )
    back = unpack_counts(content, 7, 2)
    assert back == counts
    back += of(1, 1, 1, 1, n=1)
    assert back.n == 8
    for damaged in (b"", content[:-1], content + b"\0"):
        with pytest.raises(WireError, match="64-bit words"):
            unpack_counts(damaged, 7)
