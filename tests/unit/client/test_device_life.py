"""Fifty lives of a device, of the ten thousand that `python -m toolkit.device_life 10000` lives."""

from __future__ import annotations

import random

import pytest

from deniable.client.storage.charges import Charges
from deniable.client.storage.outbox import Outbox
from deniable.client.storage.records import QueuedShare
from deniable.client.storage.versions import KnownVersions
from toolkit import device_life


@pytest.mark.slow
def test_whatever_happens_to_a_device_no_epoch_is_drawn_twice_and_the_ledger_is_right() -> None:
    seen = device_life.live(range(50))
    assert seen["lives"] == 50
    for what in ("answered", "given back", "killed", "clock jumps", "delivered in the end"):
        assert seen[what] > 10, f"the lives were too quiet: {what}"


def forget_epochs(versions: KnownVersions, analyst: str, query: str, epoch: int) -> bool:
    return False


def forget_tries(outbox: Outbox, shares: list[QueuedShare]) -> None:
    pass


def keep_charges(charges: Charges, charge: int) -> tuple[str, str, int]:
    return "City of Exampleton", "taxi-distance", 0


@pytest.mark.parametrize(
    ("part", "name", "planted"),
    [
        (KnownVersions, "is_decided", forget_epochs),
        (Outbox, "mark_tried", forget_tries),
        (Charges, "give_back", keep_charges),
    ],
)
def test_the_lives_notice_a_device_that_breaks_a_promise(
    monkeypatch: pytest.MonkeyPatch, part: type, name: str, planted: object
) -> None:
    monkeypatch.setattr(part, name, planted)
    with pytest.raises((AssertionError, ValueError)):
        device_life.live(range(60))


@pytest.mark.slow
def test_a_life_is_made_from_its_seed_alone() -> None:
    random.seed(1)
    assert device_life.live(range(3)) == device_life.live(range(3))
