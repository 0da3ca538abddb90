"""A device in the world: offline, with a wrong clock, before proxies that hang. What it decides,
charges and gives back."""

from __future__ import annotations

import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

from deniable.client.device import Device
from deniable.client.storage import versions
from deniable.privacy.ledger import Limit
from deniable.queries.query import Query
from deniable.queries.summary import summary
from toolkit.devices import (
    EVERY,
    Network,
    asked,
    at,
    make_device,
    make_policy,
    opened,
    queued,
    signed,
)

ONE, TWO = "https://one.example", "https://two.example"
AGE = 2 * EVERY


def spent(device: Device, query: Query) -> Fraction:
    with device.store.transaction() as transaction:
        return transaction.charges.spent_on(query.analyst, query.id)


def counters(device: Device) -> dict[str, int]:
    with device.store.transaction() as transaction:
        return dict(transaction.journal.counters())


def careful(tmp_path: Path, query: Query, **changes: object) -> Device:
    return make_device(tmp_path, query, policy=make_policy(query, queue_age=AGE, **changes))


# --- what never left is given back


def test_an_answer_that_nobody_was_ever_sent_is_given_back_and_never_drawn_again(
    tmp_path: Path,
) -> None:
    query = asked()
    device = careful(tmp_path, query)
    cost = device.answer(signed(query), at(0)).epsilon
    assert spent(device, query) == cost > 0
    device.upload(Network(), at(0))  # before anything is due
    late = at(1) + AGE
    assert device.upload(Network(), late).expired == 2
    assert spent(device, query) == 0
    assert queued(device) == []
    assert device.answer(signed(query), at(0)).outcome == "again"
    with device.store.transaction() as transaction:
        assert transaction.journal.receipts()[-1].outcome == "given back"
        assert str(transaction.journal.receipts()[-1]).endswith(
            f"never left: {float(cost):.6g} is given back."
        )
        assert transaction.charges.accountant(device.policy.limits, late).spent() == 0
    assert counters(device)["epochs given back"] == 1


def test_an_answer_of_which_one_share_never_left_is_noise_and_is_given_back(tmp_path: Path) -> None:
    query = asked()
    device = careful(tmp_path, query)
    device.answer(signed(query), at(0))
    with device.store.transaction() as transaction:
        transaction._db.execute("UPDATE queue SET due = ? WHERE proxy = ?", (at(9), TWO))
    # to the first proxy; the second is never tried
    assert device.upload(Network(), at(1)).sent == 1
    device.upload(Network(), at(1) + AGE)
    assert spent(device, query) == 0


@pytest.mark.parametrize("how", ["down", "deaf"])
def test_what_may_have_left_is_not_given_back(tmp_path: Path, how: str) -> None:
    """A proxy that did not answer may have heard all the same."""
    query = asked()
    device = careful(tmp_path, query)
    cost = device.answer(signed(query), at(0)).epsilon
    network = Network(down={ONE, TWO}) if how == "down" else Network(deaf={ONE, TWO})
    assert device.upload(network, at(1)).sent == 0
    device.upload(Network(), at(1) + AGE)
    assert spent(device, query) == cost
    assert "epochs given back" not in counters(device)


def test_a_device_without_a_network_does_not_pay(tmp_path: Path) -> None:
    """No connection was made, so no byte left, however often it was tried."""
    query = asked()
    device = careful(tmp_path, query)
    device.answer(signed(query), at(0))
    for later in (0, AGE // 3, AGE // 2):
        assert device.upload(Network(unconnected={ONE, TWO}), at(1) + later).problems
    device.upload(Network(), at(1) + AGE)
    assert spent(device, query) == 0
    assert counters(device)["epochs given back"] == 1


@pytest.mark.parametrize("first", ["down", "unconnected"])
def test_a_share_that_may_have_left_once_stays_charged_though_no_later_connection_is_made(
    tmp_path: Path, first: str
) -> None:
    query = asked()
    device = careful(tmp_path, query)
    cost = device.answer(signed(query), at(0)).epsilon
    networks = {"down": Network(down={ONE, TWO}), "unconnected": Network(unconnected={ONE, TWO})}
    device.upload(networks.pop(first), at(1))
    device.upload(networks.popitem()[1], at(1) + AGE // 2)
    device.upload(Network(), at(1) + AGE)
    assert spent(device, query) == cost


def test_of_several_messages_one_that_may_have_left_keeps_the_charge(tmp_path: Path) -> None:
    query = asked(rows="several", most_rows=3)
    for n_tried, kept in ((0, False), (1, True)):
        folder = tmp_path / str(n_tried)
        folder.mkdir()
        device = careful(folder, query, epsilon_per_answer=30)
        cost = device.answer(signed(query), at(0)).epsilon
        with device.store.transaction() as transaction:
            for proxy in (ONE, TWO):
                transaction.outbox.mark_tried(
                    transaction.outbox.due_shares(proxy, at(9), 100)[:n_tried]
                )
        device.upload(Network(), at(1) + AGE)
        assert spent(device, query) == (cost if kept else 0)


def test_what_is_reserved_for_permanent_answers_is_not_given_back(tmp_path: Path) -> None:
    query = asked(memoize=True)
    device = careful(tmp_path, query)
    cost = device.answer(signed(query), at(0)).epsilon
    device.upload(Network(), at(1) + AGE)
    assert spent(device, query) == cost > 0


def test_a_budget_that_was_given_back_can_be_spent_on_another_epoch(tmp_path: Path) -> None:
    query = asked()
    limits = (Limit(query.epsilon),)
    device = careful(tmp_path, query, limits=limits)
    assert device.answer(signed(query), at(0)).outcome == "answered"
    assert device.answer(signed(query), at(1)).reason == "budget"
    assert device.answer(signed(query), at(5)).outcome == "answered"


# --- clocks


def test_a_clock_that_was_ahead_once_does_not_silence_the_device(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    assert device.answer(signed(query), at(100_000)).outcome == "answered"
    assert [device.answer(signed(query), at(epoch)).outcome for epoch in (3, 4, 4, 3, 5)] == [
        *("answered", "answered", "again", "again", "answered"),
    ]
    assert sorted(message.epoch for message in opened(device)) == [3, 4, 5, 100_000]


def test_epochs_are_kept_one_by_one_for_a_while_and_all_before_them_count_as_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "MOST_DECIDED", 3)
    device = make_device(tmp_path, asked())
    with device.store.transaction() as transaction:
        for epoch in (10, 12, 14, 16, 18):
            transaction.versions.decide("City", "q", epoch)
        assert [
            epoch for epoch in range(20) if not transaction.versions.is_decided("City", "q", epoch)
        ] == [
            13,
            15,
            17,
            19,
        ]
        assert not transaction.versions.is_decided("City", "other", 5)


@pytest.mark.parametrize(
    ("skews", "decided"),
    [((3600, 3700), False), ((-3600, -9000), False), ((3600, 10), True), ((), True)],
)
def test_nothing_is_decided_by_a_clock_that_differs_from_every_proxys(
    tmp_path: Path, skews: tuple[float, ...], decided: bool
) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    relayed = {proxy: [signed(query).to_bytes()] for proxy in (ONE, TWO)}
    network = Network(relayed=relayed, skews=dict(zip((ONE, TWO), skews, strict=False)))
    receipts, _ = device.once(network, at(3))
    if decided:
        assert [receipt.outcome for receipt in receipts] == ["answered"]
        return
    [receipt] = receipts
    assert (receipt.outcome, receipt.reason) == ("refused", "clock")
    assert ("behind" if skews[0] > 0 else "ahead of") in receipt.detail
    assert spent(device, query) == 0
    network.skews.clear()
    assert device.once(network, at(3))[0][0].outcome == "answered"  # the epoch was not decided


def test_the_epoch_is_the_one_at_the_end_of_the_network_work(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    now = [at(3, 590)]
    device.clock = lambda: now[0]

    class Slow(Network):
        def queries(self, proxy: str) -> list[bytes]:
            now[0] += 20
            return [signed(query).to_bytes()]

    [receipt] = device.once(Slow())[0]
    assert (receipt.outcome, receipt.epoch) == ("answered", 4)


# --- proxies that hang


class HungNetwork(Network):
    """One proxy takes the request and says nothing until it is let go."""

    def __init__(self, hung: str) -> None:
        super().__init__(concurrent=True)
        self.hung, self.free = hung, threading.Event()
        self.asked = 0

    def send(self, proxy: str, token: str, body: bytes) -> None:
        if proxy == self.hung:
            self.asked += 1
            self.free.wait(30)
        super().send(proxy, token, body)


def test_one_proxy_that_hangs_delays_no_other_and_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload_module = sys.modules["deniable.client.upload"]  # the package has a function of that name
    monkeypatch.setattr(upload_module, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(upload_module, "_SPARE", 0.2)
    query = asked()
    device = make_device(tmp_path, query, policy=make_policy(query, upload_within=0))
    network = HungNetwork(ONE)  # the first in the order of names
    for epoch in range(3):
        device.answer(signed(query), at(epoch))
        start = time.monotonic()
        done = device.upload(network, at(epoch))
        assert time.monotonic() - start < 5
        assert done.sent == 1
        assert done.problems == (f"{ONE}: still busy with an earlier request",)
    assert len(network.kept[TWO]) == 3
    assert network.asked == 1
    network.free.set()
    deadline = time.monotonic() + 20
    while len(network.kept.get(ONE, {})) < 3 and time.monotonic() < deadline:
        device.upload(network, at(3))
        time.sleep(0.02)
    assert len(network.messages()) == 3


# --- late answers


@pytest.mark.parametrize(("grace", "kept"), [(None, AGE), (EVERY, EVERY), (10 * AGE, AGE)])
def test_a_share_is_kept_as_long_as_both_the_owner_and_the_query_say(
    tmp_path: Path, grace: int | None, kept: int
) -> None:
    query = asked(grace=grace)
    device = careful(tmp_path, query)
    device.answer(signed(query), at(0))
    assert device.upload(Network(down={ONE, TWO}), at(1) + kept - 1).expired == 0
    assert device.upload(Network(), at(1) + kept).expired == 2


def test_query_check_says_when_devices_give_up_before_the_query_does() -> None:
    assert "after the end" not in summary(asked())
    assert "until 2 d after the end of their epoch" in summary(asked(grace="2 d"))
    assert "keep what they cannot deliver" not in summary(asked(grace="2 d"))
    assert "But by default, devices keep what they cannot deliver for 2 w" in summary(
        asked(grace="20 d")
    )


def test_a_proxy_that_failed_often_is_tried_again_before_its_shares_are_given_up(
    tmp_path: Path,
) -> None:
    """After many failures a proxy is left alone for up to six hours: not if what waits for it is
    given up earlier."""
    query = asked(grace=3600)
    device = make_device(tmp_path, query)
    device.answer(signed(query), at(0))
    with device.store.transaction() as transaction:
        for proxy in (ONE, TWO):
            for _ in range(12):
                transaction.outbox.failed(proxy, 0)
    now, expiry = at(1), at(1) + 3600
    assert device.upload(Network(down={ONE, TWO}), now).sent == 0
    with device.store.transaction() as transaction:
        waits = [
            retry_at for (retry_at,) in transaction._db.execute("SELECT retry_at FROM proxies")
        ]
    assert len(waits) == 2
    assert all(now < retry_at <= now + (expiry - now) // 2 for retry_at in waits)
