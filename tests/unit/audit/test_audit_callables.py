"""Functions of other libraries are attacked like mechanisms: true claims hold, false ones do not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from deniable import DirectEncoding, seeded_source
from deniable.audit.callables import audit_callable
from deniable.errors import ParameterError

N = 40_000


def flip(coin: np.random.Generator) -> Callable[[int], int]:
    return lambda bit: bit ^ int(coin.random() < 0.25)


def test_a_true_claim_about_a_function_holds_and_is_nearly_reached() -> None:
    found = audit_callable(flip(np.random.default_rng(1)), [0, 1], math.log(3), n=N)
    assert found.holds
    assert found.verdicts[0].tightness > 0.85
    assert "exact channel" not in str(found)  # nobody knows that of a function
    assert type(found).from_dict(found.to_dict()) == found


def test_a_claim_below_the_loss_of_a_function_is_refuted() -> None:
    assert not audit_callable(flip(np.random.default_rng(1)), [0, 1], 0.8 * math.log(3), n=N).holds


def test_a_mechanism_is_a_function_like_any_other() -> None:
    mechanism, source = DirectEncoding(4, 1.0), seeded_source(1)
    found = audit_callable(
        lambda value: mechanism.privatize(value, source).data.tobytes(), range(4), 1.0, n=N
    )
    assert found.holds


def test_coins_that_are_used_again_are_seen() -> None:
    coin, calls = np.random.default_rng(1), iter(range(10 * N))
    kept = {"coin": 0}

    def reuse(bit: int) -> int:
        if next(calls) % 2 == 0:
            kept["coin"] = int(coin.random() < 0.25)
        return bit ^ kept["coin"]

    found = audit_callable(reuse, [0, 1], math.log(3), n=N)
    assert found.verdicts[0].holds
    assert not found.verdicts[1].holds


def test_what_differs_only_beyond_the_first_bytes_of_a_long_report_is_seen() -> None:
    noise = np.random.default_rng(1)

    def leak(bit: int) -> bytes:
        return bytes(200) + (b"\1" if noise.random() < (0.9 if bit else 0.1) else b"\0")

    assert not audit_callable(leak, [0, 1], 1.0, n=N).holds


def test_one_input_is_nothing_to_tell_apart() -> None:
    with pytest.raises(ParameterError, match="at least two"):
        audit_callable(lambda value: value, [0], 1.0)
