"""The loop: answers through shares, logs and engine to windows, and from windows through the
controller to the next answers."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.aggregator.counting.catalogue import published, stop
from deniable.aggregator.operations.version_history import versions_of
from deniable.analyst.analyst import Analyst
from deniable.cli import cli
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.simulation.fleet_ledger import FleetLedger
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.privacy.ledger import Limit
from deniable.queries.schedule import Schedule
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign, verify
from deniable.queries.strata import Stratum
from toolkit.adaptive import CONTROLLER, YES_NO, AdaptiveRun, adaptive_query, envelope
from toolkit.crowds import KEY, ORIGIN, RING, Crowd
from toolkit.servers.services import Relays, running

PEOPLE, LIMIT, WISH = 2000, 110, 0.05


def whole_device(folder: Path, proxies: Any, limit: Any) -> Device:
    """A device with a vault, a store and a policy: all of it real."""
    vault = Vault.create(folder / "ann.db")
    vault.import_rows("trips", {"distance": "REAL"}, [(0.5,)])
    vault.grant("trips", ["distance"])
    policy = Policy(
        RING,
        dict.fromkeys(proxies, "token"),
        epsilon_per_answer=2.5,
        limits=(Limit(limit),),
        upload_within=0,
    )
    return Device(vault, policy, Store(folder / "ann.db.client", durable=False), isolated=False)


def test_the_error_follows_the_wish_while_the_population_drifts_and_half_of_it_leaves(
    tmp_path: Path,
) -> None:
    """2 % to 40 % over 100 epochs; participation halves at epoch 50. Seeds 3 and 5; the bound of 90
    % is the requirement's.

    Every device of the fleet has a ledger under a limit for life of 110, and a whole device answers
    the same versions.
    """
    query = adaptive_query(100, WISH, float(LIMIT))
    ledger = FleetLedger(PEOPLE, [Limit(LIMIT)], 2.5)
    run = AdaptiveRun(tmp_path, query, PEOPLE, ledger, seed=3)
    device = whole_device(tmp_path, query.proxies, 40)
    rng = np.random.default_rng(5)

    def ask(signed: SignedQuery, now: int) -> None:
        device.answer_all([signed], now)

    for epoch in range(100):
        share = 0.02 + 0.38 * epoch / 99
        present = rng.random(PEOPLE) < (1.0 if epoch < 50 else 0.5)
        run.epoch(epoch, (rng.random(PEOPLE) < share).astype(int), present, ask)
    errors = run.errors()
    assert len(errors) == 98
    assert np.mean(errors[5:] <= 1.2 * WISH) >= 0.9
    # The envelope is never left, and each version is signed and verifies.
    assert run.crowd.state is not None
    entries = published(run.crowd.state.connection)
    assert 2 <= len(entries) <= 8
    for entry in entries:
        found = verify(entry.signed, RING, ORIGIN)
        assert 0.02 <= found.sampling <= 1
        assert found.epsilon_local <= 2.5
    # The halving is answered in the epoch after it.
    assert any(
        50 <= epoch <= 52 and change.after.sampling > change.before.sampling
        for epoch, change in run.changes
    )
    # No device passes its limit, and what the ledgers hold is what the versions cost.
    spent = ledger.spent()
    assert len(spent) == PEOPLE
    assert max(spent) <= LIMIT
    answers = sum(
        Fraction(repr(entry.query.epsilon_local)) * n
        for entry in entries
        for (n,) in run.crowd.state.connection.execute(
            "SELECT sum(n) FROM panes WHERE serial = ?", (entry.query.serial,)
        )
    )
    assert sum(spent) == answers
    with device.store.transaction() as transaction:
        receipts = transaction.journal.receipts()
        assert 0 < transaction.charges.spent_on(query.analyst, query.id) <= 40
        assert sum(r.epsilon for r in receipts) == transaction.charges.spent_on(
            query.analyst, query.id
        )
    assert receipts[-1].reason == "budget", (
        "a limit of 40 does not last for 100 epochs, and then the device is silent"
    )
    run.close()


def test_parameters_settle_while_the_population_stands_still(tmp_path: Path) -> None:
    """45 epochs at 20 %; at most one change in any three windows, and none after the first ones.
    Seeds 1 and 7."""
    run = AdaptiveRun(tmp_path, adaptive_query(45, WISH, 200.0), PEOPLE)
    rng = np.random.default_rng(7)
    for epoch in range(45):
        run.epoch(epoch, (rng.random(PEOPLE) < 0.2).astype(int))
    epochs = [epoch for epoch, _ in run.changes]
    assert 1 <= len(epochs) <= 2, "it begins far below the wish, spares people, and then stays"
    assert all(later - earlier >= 3 for earlier, later in pairwise(epochs))
    assert epochs[-1] < 10
    assert run.errors()[5:].max() <= WISH
    run.close()


def test_the_history_says_when_from_what_to_what_and_why(tmp_path: Path) -> None:
    run = AdaptiveRun(tmp_path, adaptive_query(20, WISH, 200.0), PEOPLE)
    rng = np.random.default_rng(7)
    for epoch in range(6):
        run.epoch(epoch, (rng.random(PEOPLE) < 0.2).astype(int))
    assert run.crowd.state is not None
    first, second = versions_of(run.crowd.state.connection, run.query.id)
    assert (first["serial"], first["reason"], first["achieved"]) == (
        1,
        "published by the analyst",
        None,
    )
    assert second["serial"] == 2
    assert second["from_epoch"] == 3
    assert second["from"] == "2023-11-14T22:16:20Z"
    assert set(second["parameters"]) == {"sampling", "p", "q"}
    assert "far below the target of ± 5.00" in second["reason"]
    assert second["wish"] == WISH
    assert second["achieved"] == run.crowd.windows()[0].half_width
    assert second["epsilon"]["sampled"] < first["epsilon"]["sampled"]
    json.dumps([first, second], allow_nan=False)
    run.close()


def test_a_controller_decides_each_window_once_and_only_about_its_own_queries(
    tmp_path: Path,
) -> None:
    run = AdaptiveRun(tmp_path, adaptive_query(20, WISH, 200.0), PEOPLE)
    rng = np.random.default_rng(7)
    for epoch in range(3):
        run.epoch(epoch, (rng.random(PEOPLE) < 0.2).astype(int))
    assert len(run.changes) == 1
    assert run.crowd.state is not None
    connection = run.crowd.state.connection
    assert run.controller.step(connection) == []
    connection.execute("DELETE FROM controlled")
    run.controller.key = AnalystKey("another", bytes([8]) * 32)
    assert run.controller.step(connection) == []
    run.controller.key = CONTROLLER
    stop(connection, run.query.id, run.crowd.now)
    assert run.controller.step(connection) == []
    run.close()


def test_answers_that_a_proxy_lost_are_not_taken_for_people_who_left(tmp_path: Path) -> None:
    run = AdaptiveRun(tmp_path, adaptive_query(20, WISH, 200.0), PEOPLE)
    rng = np.random.default_rng(7)
    for epoch in range(4):
        run.epoch(epoch, (rng.random(PEOPLE) < 0.2).astype(int))
    before = len(run.changes)
    run.crowd.now = ORIGIN + 60 * 5 + 10_000
    run.crowd.mark(6, [0])  # the other proxy is away beyond all patience
    run.engine.drain()
    assert run.crowd.windows()[-1].condition == "proxy down"
    assert run.crowd.state is not None
    assert run.controller.step(run.crowd.state.connection) == []
    assert len(run.changes) == before
    run.close()


def test_a_window_says_when_the_wish_is_not_fulfilled(tmp_path: Path) -> None:
    run = AdaptiveRun(tmp_path, adaptive_query(20, 0.001, 200.0, envelope=None), 500)
    for epoch in range(3):
        run.epoch(epoch, np.zeros(500, dtype=int))
    [window] = run.crowd.windows()
    assert window.margin == 0.001
    assert window.half_width is not None
    assert (
        f"the widest interval is ± {100 * window.half_width:.2f} points; the target was ± 0.10"
        in str(window)
    )
    assert run.changes == []
    run.close()


@pytest.mark.parametrize(
    "mechanism",
    [{"name": "OptimizedUnary", "epsilon": 1.0}, {"name": "SymmetricUnary", "epsilon": 1.0}],
)
def test_mechanisms_with_an_epsilon_adapt_too(tmp_path: Path, mechanism: dict[str, Any]) -> None:
    ranges = envelope(p=None, q=None, epsilon=(0.5, 2.5))
    query = adaptive_query(
        20, 0.06, 200.0, mechanism=mechanism, envelope=ranges, columns=YES_NO, sampling=0.2
    )
    run = AdaptiveRun(tmp_path, query, PEOPLE)
    rng = np.random.default_rng(7)
    for epoch in range(11):  # two steps up, and a window that has only the second
        run.epoch(epoch, (rng.random(PEOPLE) < 0.2).astype(int))
    assert run.changes
    assert run.errors()[-1] <= 0.06
    run.close()


def test_a_running_aggregator_adapts_and_serves_the_history(tmp_path: Path) -> None:
    relays = [Relays(), Relays()]
    now = int(time.time())
    schedule = Schedule(origin=now - 2, expires=now + 3600, every=1, window=2, slide=1)
    query = adaptive_query(
        20, 0.2, 20_000.0, schedule=schedule, proxies=[relay.url for relay in relays]
    )
    crowd = Crowd(tmp_path, query)
    RING.save(tmp_path / "ring.json")
    CONTROLLER.save(tmp_path / "controller.key")
    (tmp_path / "operator.token").write_text("deniable_operator\n")
    proxies = "".join(
        f'[[proxies]]\nname = "{relay.url}"\nlog = "log{i}.db"\ntoken_file = "operator.token"\n'
        for i, relay in enumerate(relays)
    )
    settings = tmp_path / "aggregator.toml"
    head = 'state = "state.db"\nring = "ring.json"\nport = 0\ncontroller = "controller.key"\n'
    settings.write_text(f"{head}{proxies}")
    token = (
        CliRunner()
        .invoke(cli, ["aggregator", "token", str(settings), "--analyst", KEY.owner])
        .stdout.strip()
    )
    with (
        running(["aggregator", "run", "aggregator.toml"], tmp_path) as (_, url),
        Analyst(url, token) as analyst,
    ):
        first = schedule.epoch_of(analyst.publish(sign(query, KEY))["published"])
        for epoch in range(first, first + 3):
            crowd.answer([0] * 800, epoch)
        crowd.mark(first + 3)
        deadline = time.monotonic() + 30
        while len(found := analyst.versions(query)) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [each["serial"] for each in found] == [1, 2]
        for relay in relays:
            relayed = SignedQuery.from_bytes(relay.wait(2)[-1][-1])
            assert verify(relayed, RING, int(time.time())).serial == 2
    crowd.close_all()
    for relay in relays:
        relay.close()


def test_the_demonstration_shows_error_wish_and_moving_parameters_within_a_minute() -> None:
    """One run of 4,000 people. That 90 % of its windows keep to the wish is the requirement; in
    trials all of them did."""
    began = time.monotonic()
    result = CliRunner().invoke(cli, ["demo", "--adaptive", "--json"])
    assert time.monotonic() - began < 60
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["within_1_2_of_wish"] >= 0.9
    assert told["changes"] >= 2
    assert told["most_spent"] <= told["limit"]
    settings = {tuple(each["parameters"].values()) for each in told["results"]}
    assert 2 <= len(settings) <= told["changes"] + 1
    assert any("is above the target" in (each["change"] or "") for each in told["results"])


@pytest.mark.parametrize("allocation", ["proportional", "neyman"])
def test_strata_are_sampled_alike_or_by_their_deviations_in_the_last_window(
    tmp_path: Path, allocation: str
) -> None:
    """Half of the people say yes in one case of fifty, the other half in one of two; coins are
    nearly truthful. Seeds 1 and 9."""
    ranges = envelope(p=(0.9, 0.9), q=(0.5, 0.5), epsilon_per_answer=6.0, allocation=allocation)
    strata = [Stratum("rare", population=3000), Stratum("even", population=3000)]
    coins = {"name": "TwoCoin", "p": 0.9, "q": 0.5}
    query = adaptive_query(
        20, 0.02, 2_000.0, strata=strata, envelope=ranges, mechanism=coins, sampling=0.9
    )
    belongs = np.repeat([0, 1], 3000)
    run = AdaptiveRun(tmp_path, query, 6000, strata=belongs)
    rng = np.random.default_rng(9)
    for epoch in range(6):
        run.epoch(epoch, (rng.random(6000) < np.where(belongs == 0, 0.02, 0.5)).astype(int))
    assert run.changes
    assert run.crowd.state is not None
    newest = published(run.crowd.state.connection)[-1].query
    rare, even = (stratum.sampling or 0.0 for stratum in newest.strata)
    if allocation == "proportional":
        assert rare == even == newest.sampling
    else:
        assert 1.2 * rare < even
        assert (rare + even) / 2 == pytest.approx(newest.sampling, rel=0.01), (
            "as many reports in all"
        )
    window = run.crowd.windows()[-1]
    assert window.estimate is not None
    assert window.estimate.proportions[1] == pytest.approx(0.26, abs=0.03)
    assert run.errors()[-1] <= 0.02 * 1.2
    run.close()
