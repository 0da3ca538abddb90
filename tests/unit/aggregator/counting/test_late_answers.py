"""Late answers: a query that waits for days has results at once, revised as answers come, and each
answer counts once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.state import State
from deniable.aggregator.windows.window import Window
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.errors import ParameterError, RefusedError
from deniable.logs.share_logs import EmbeddedLog
from deniable.privacy.ledger import Limit
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import channels_of
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.signing import sign
from deniable.randomness import seeded_source
from deniable.wire.shares import split_columns
from toolkit.crowds import KEY, ORIGIN, RING, minute_query
from toolkit.devices import KEY as DEVICE_KEY
from toolkit.devices import asked, at, make_vault
from toolkit.shares import body_of

HOUR, DAY = 3600, 86400
HOURLY = Schedule(origin=ORIGIN, expires=ORIGIN + 20 * DAY, every=HOUR, window=HOUR, slide=HOUR)
LATE = 2 * DAY


def patient_query(**changes: Any) -> Query:
    return minute_query(**{"schedule": HOURLY, "grace": "3 d", "minimum_cohort": 50, **changes})


class System:
    """Two proxies' intakes and an embedded aggregator, with one clock that is moved by hand."""

    def __init__(self, folder: Path, query: Query) -> None:
        self.query, self.now, self.source = query, ORIGIN, seeded_source(3)
        self.folders = [folder / name for name in ("one", "two")]
        self.intakes = [self._intake(each) for each in self.folders]
        self.state = State(folder / "state.db", query.proxies)
        with self.state.transaction():
            publish(self.state.connection, sign(query, KEY), RING, query.proxies, ORIGIN)
        logs = [EmbeddedLog(each / "log.db") for each in self.folders]
        self.engine = Engine(
            self.state,
            logs,
            EngineLimits(workers=1, bucket_bits=2, patience=1800),
            clock=lambda: self.now,
        )

    def _intake(self, folder: Path) -> Intake:
        intake = Intake(folder, IntakeRules(threshold=50, grace=600), lambda: self.now)
        intake.set_channels(channels_of([(self.query.header, None)]))
        return intake

    def shares(self, values: np.ndarray, epoch: int) -> list[bytes]:
        """What devices that answer so send to each proxy."""
        reports = self.query.mechanism.draw(values, self.source)
        rows = reports.reshape(len(reports), -1).view(np.uint8)
        columns = split_columns(
            rows, self.query.tag, epoch, self.query.size_class or 0, 2, source=self.source
        )
        return [body_of(self.query, epoch, each) for each in columns]

    def upload(self, bodies: list[bytes]) -> list[UploadReceipt | RefusedError]:
        return [
            intake.take([Upload(b"t" * 32, 10**6, body)])[0]
            for intake, body in zip(self.intakes, bodies, strict=True)
        ]

    def go(self, seconds: int) -> None:
        """Move the clock to so many seconds after the origin, and let everything happen that is
        due."""
        self.now = ORIGIN + seconds
        for intake in self.intakes:
            intake.tick()
            intake.flush()
        self.engine.drain()

    def restart(self) -> None:
        """Proxies that are killed and started again know what they had taken."""
        for i, folder in enumerate(self.folders):
            self.intakes[i].close()
            self.intakes[i] = self._intake(folder)

    def documents(self) -> list[dict[str, Any]]:
        rows = self.state.connection.execute("SELECT document FROM results ORDER BY seq").fetchall()
        return [json.loads(document) for (document,) in rows]

    def close(self) -> None:
        self.engine.close()
        for log in self.engine.logs:
            log.close()
        self.state.close()
        for intake in self.intakes:
            intake.close()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    made = System(tmp_path, patient_query())
    yield made
    made.close()


def told(document: dict[str, Any]) -> tuple[int, int, bool, int]:
    return document["index"], document["revision"], document["final"], document["n"]


def test_a_device_two_days_late_is_counted_once_and_the_final_window_is_what_counting_offline_gives(
    system: System,
) -> None:
    random = np.random.default_rng(1)
    early, late = random.integers(0, 12, 300), random.integers(0, 12, 120)
    punctual, tardy = system.shares(early, 0), system.shares(late, 0)
    system.now += 100
    assert system.upload(punctual) == [UploadReceipt(300, 0)] * 2
    system.go(HOUR + 599)
    assert system.documents() == []
    system.go(HOUR + 600)
    assert [told(each) for each in system.documents()] == [(0, 0, False, 300)]

    system.go(HOUR + LATE - 1)  # nobody else has answered: nothing new to say
    assert len(system.documents()) == 1
    system.restart()
    assert system.upload(tardy) == [UploadReceipt(120, 0)] * 2
    assert system.upload(tardy) == [UploadReceipt(0, 120)] * 2, "a retry counts once"
    system.go(HOUR + LATE + HOUR)
    assert [told(each) for each in system.documents()] == [(0, 0, False, 300), (0, 1, False, 420)]

    system.go(HOUR + 3 * DAY - 1)
    assert system.upload(punctual) == [UploadReceipt(0, 300)] * 2, "days later it is still known"
    system.go(HOUR + 3 * DAY)
    assert [told(each) for each in system.documents()][-1] == (0, 2, True, 420)
    assert [each.reason for each in system.upload(tardy) if isinstance(each, RefusedError)] == [
        "late"
    ] * 2

    final = system.documents()[-1]
    offline = np.bincount(np.concatenate([early, late]), minlength=12) / 420
    assert np.allclose(final["estimate"], offline, atol=1e-9)
    accounts = final["conservation"]
    assert accounts["balanced"]
    assert {
        (each["received"], each["counted"], each["waiting"])
        for each in accounts["proxies"].values()
    } == {(420, 420, 0)}


def test_a_revision_is_complete_in_itself_and_accounts_for_shares_whose_partners_have_not_come(
    system: System,
) -> None:
    values = np.random.default_rng(2).integers(0, 12, 200)
    system.upload(system.shares(values, 0))
    half, _ = system.shares(values[:30], 0)
    assert system.intakes[0].take([Upload(b"t" * 32, 10**6, half)]) == [UploadReceipt(30, 0)]
    system.go(HOUR + 600)
    (first,) = system.documents()
    assert (first["n"], first["condition"], len(first["estimate"])) == (200, "complete", 12)
    assert first["open_until"] == ORIGIN + HOUR + 3 * DAY
    accounts = first["conservation"]
    assert accounts["balanced"]
    assert [each["waiting"] for each in accounts["proxies"].values()] == [30, 0]
    assert [each["received"] for each in accounts["proxies"].values()] == [230, 200]
    text = str(Window.from_dict(first))
    assert "revision 0, not final: answers may come until" in text
    assert Window.from_dict(first).to_dict() == first


def test_how_many_may_still_come_is_told_from_the_last_window_that_came_to_its_end(
    system: System,
) -> None:
    random = np.random.default_rng(4)
    system.upload(system.shares(random.integers(0, 12, 300), 0))
    system.go(HOUR + 600)
    assert system.documents()[0]["expected"] is None
    system.go(HOUR + DAY)
    system.upload(system.shares(random.integers(0, 12, 120), 0))
    system.go(HOUR + 3 * DAY)
    assert [told(each) for each in system.documents()][-1] == (0, 1, True, 420)
    epoch = 80
    system.now = ORIGIN + epoch * HOUR + 10
    system.upload(system.shares(random.integers(0, 12, 200), epoch))
    system.go((epoch + 1) * HOUR + 600)
    newest = system.documents()[-1]
    assert told(newest) == (epoch, 0, False, 200)
    assert newest["expected"] == 80  # 300 became 420, so 200 become 280
    assert "some 80 more" in str(Window.from_dict(newest))


@pytest.mark.slow
def test_revisions_come_at_ages_that_double_and_differ_by_the_minimum_cohort(
    system: System,
) -> None:
    random = np.random.default_rng(5)
    system.upload(system.shares(random.integers(0, 12, 60), 0))
    ages, seen = [], 0
    for step in range(1, 130):
        system.upload(system.shares(random.integers(0, 12, 5), 0))
        system.go(HOUR + 150 * step)
        if len(system.documents()) > seen:
            seen = len(system.documents())
            ages.append(150 * step)
    sizes = [each["n"] for each in system.documents()]
    # Five answers in 150 s: the next 50 take 1500 s, which is longer than the first doublings.
    assert ages == [600, 600 + 1500, 2100 + 1500, 3600 + 1500, 9600, 19200]
    assert np.diff(sizes).min() >= 50


def test_fewer_answers_than_the_minimum_cohort_have_no_early_result(system: System) -> None:
    system.upload(system.shares(np.zeros(49, dtype=np.intp), 0))
    system.go(HOUR + 600)
    assert system.documents() == []
    system.go(HOUR + 3 * DAY)
    (only,) = [each for each in system.documents() if each["index"] == 0]
    assert (only["condition"], only["final"], only["revision"]) == ("withheld", True, 0)


@pytest.mark.parametrize("once", [True, False])
def test_a_window_that_began_before_anybody_was_asked_has_a_result_only_where_each_answers_once(
    tmp_path: Path, once: bool
) -> None:
    """Published four hours after the schedule's origin, with windows of four hours: those that end
    in the next hours hold all answers so far."""
    schedule = Schedule(ORIGIN - 4 * HOUR, ORIGIN + 4 * HOUR, HOUR, 4 * HOUR, HOUR)
    system = System(tmp_path, patient_query(schedule=schedule, once=once))
    for hour, n in enumerate((60, 30, 30)):
        system.go(hour * HOUR + 10)
        system.upload(system.shares(np.zeros(n, dtype=np.intp), 4 + hour))
    system.go(3 * HOUR + 700)
    newest = {each["index"]: each["n"] for each in system.documents()}
    # 30 answers are fewer than the cohort of 50, and wait for 30 more
    assert newest == ({1: 60, 2: 60, 3: 120} if once else {})
    system.close()


def test_a_query_without_a_grace_of_its_own_has_one_result_for_each_window(tmp_path: Path) -> None:
    system = System(tmp_path, patient_query(grace=None))
    system.upload(system.shares(np.zeros(100, dtype=np.intp), 0))
    system.go(HOUR + 599)
    assert system.documents() == []
    system.go(HOUR + 600)
    assert [told(each) for each in system.documents()] == [(0, 0, True, 100)]
    system.close()


def test_a_channel_waits_as_long_as_the_most_patient_of_its_queries() -> None:
    patient, other = (
        patient_query(channel="shared"),
        patient_query(id="other", channel="shared", grace=None),
    )
    (channel,) = channels_of([(patient.header, None), (other.header, None)]).values()
    assert channel.grace == 3 * DAY
    assert patient.header.grace == Query.from_content(patient.content).grace == 3 * DAY
    assert "grace" not in other.to_dict()


@pytest.mark.parametrize("grace", [0, -5, 31 * DAY, "soon", 1.5, True])
def test_a_grace_that_makes_no_sense_is_refused_by_name(grace: object) -> None:
    with pytest.raises(ParameterError, match="grace"):
        patient_query(grace=grace)


@pytest.mark.parametrize(
    ("grace", "kept"), [(None, 14 * DAY), ("2 d", 2 * DAY), ("20 d", 14 * DAY)]
)
def test_a_device_keeps_a_share_as_long_as_it_can_count_and_its_owner_allows(
    tmp_path: Path, grace: str | None, kept: int
) -> None:
    query = asked(grace=grace, sampling=1.0)
    make_vault(tmp_path / "ann.db", [3.5])
    proxies = dict.fromkeys(query.proxies, "token")
    policy = Policy(
        ring=KeyRing([TrustedKey(DEVICE_KEY.public)]),
        proxies=proxies,
        limits=(Limit(1000),),
        epsilon_per_answer=100,
    )
    device = Device(Vault(tmp_path / "ann.db"), policy, Store(tmp_path / "ann.client"))
    assert device.answer(sign(query, DEVICE_KEY), at(0)).outcome == "answered"
    with sqlite3.connect(tmp_path / "ann.client") as connection:
        expires = {each for (each,) in connection.execute("SELECT expires FROM queue")}
    connection.close()
    assert expires == {query.schedule.end_of_epoch(0) + kept}
