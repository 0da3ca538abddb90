"""Whose fault it is: a proxy is blamed for the marks that are missing from its own log, and for
nothing that another did."""

from __future__ import annotations

import sqlite3
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.aggregator.counting.limits import EngineLimits
from deniable.errors import ResponseError, SettingsError
from deniable.logs.share_logs import Position, Reading, ShareLog
from deniable.service.certificate_expiry import end_of_file
from deniable.service.faults import FAULTS, ServiceFault, expiring, health_document, name_of_error
from toolkit.crowds import Crowd, minute_query
from toolkit.servers.certificates import self_signed


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(
        tmp_path,
        minute_query(
            proxies=("https://one.example", "https://two.example", "https://three.example")
        ),
    )
    yield crowd
    crowd.close_all()


class HangingLog:
    """A log whose proxy accepts the request and says nothing until it is let go on."""

    def __init__(self, log: ShareLog) -> None:
        self._log, self.going_on = log, threading.Event()

    def read(self, after: Position, most_bytes: int) -> Reading:
        assert self.going_on.wait(30)
        return self._log.read(after, most_bytes)

    def close(self) -> None:
        self._log.close()


def test_one_proxy_that_hangs_is_blamed_alone_and_the_others_are_counted_on(crowd: Crowd) -> None:
    engine = crowd.engine(patience=600, behind=60, silent=1)
    hanging = HangingLog(engine.logs[1])
    engine.logs[1] = hanging
    crowd.answer([1] * 30)
    crowd.mark(1)
    crowd.now += 60 + 100
    engine.step()  # it waits a second for the one that hangs, which is then called silent
    engine.step()
    assert [(each.condition, each.fault) for each in engine.health] == [
        ("up", ""),
        ("behind", "proxy_silent"),
        ("up", ""),
    ]
    assert engine.health[1].problem == "has not answered for 1 seconds"
    assert [bool(position) for position in engine.positions] == [True, False, True]
    crowd.answer([1] * 10, epoch=1, proxies=[0, 2])  # what the others log meanwhile is read
    engine.step()
    assert [each.waiting for each in engine.health] == [40, 0, 40]
    hanging.going_on.set()
    engine.drain()
    assert [(each.condition, each.fault) for each in engine.health] == [("up", "")] * 3
    assert crowd.counts(range(1)).sum() == 30


def test_a_proxy_whose_log_is_left_alone_because_another_is_down_is_not_called_down(
    crowd: Crowd,
) -> None:
    engine = crowd.engine(patience=600, behind=60, most_waiting=20)
    # more shares than may wait: the logs of the first and the third are left alone
    for _ in range(2):
        crowd.answer([1] * 30, proxies=[0, 2])
        engine.step()
    crowd.mark(3, [0, 2])  # behind what is read
    crowd.answer([2] * 5, epoch=1, proxies=[0, 2])
    crowd.now += 60 + 100
    engine.step()
    assert [each.condition for each in engine.health] == ["up", "behind", "up"]
    crowd.now += 3 * 60 + 600
    engine.drain()
    assert [window.missing for window in crowd.windows()][:1] == [("https://two.example",)]


def test_an_aggregator_that_is_behind_itself_blames_nobody(crowd: Crowd) -> None:
    engine = crowd.engine(patience=600, behind=60, step_bytes=1)
    for _ in range(40):
        crowd.answer([1] * 4)
    crowd.mark(1)
    crowd.now += 60 + 100
    engine.step()
    assert {each.condition for each in engine.health} == {"up"}
    assert all(each.backlog > 0 for each in engine.health)
    engine.drain()
    assert [each.backlog for each in engine.health] == [0] * 3
    assert [each.mark_age for each in engine.health] == [0] * 3
    crowd.now += 7
    engine.step()
    assert [each.mark_age for each in engine.health] == [7] * 3


def _sqlite_error(statement: str, path: Path) -> sqlite3.Error:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA max_page_count = 2")
        connection.execute(statement)
    except sqlite3.Error as error:
        return error
    finally:
        connection.close()
    raise AssertionError(statement)


def test_errors_are_named_by_what_an_operator_can_do_about_them(tmp_path: Path) -> None:
    (tmp_path / "damaged.db").write_bytes(b"no database" * 100)
    errors: dict[str, list[Exception]] = {
        "disk_full": [
            OSError(28, "No space left on device"),
            _sqlite_error("CREATE TABLE t AS SELECT zeroblob(100000)", tmp_path / "full.db"),
        ],
        "damaged": [_sqlite_error("SELECT * FROM sqlite_master", tmp_path / "damaged.db")],
        "certificate": [
            ssl.SSLCertVerificationError(1, "unknown authority"),
            ResponseError(0, "certificate", "not trusted"),
        ],
        "proxy_silent": [ResponseError(0, "silent", "did not answer in time")],
        "proxy_unreachable": [ResponseError(0, "unreachable", "nobody listens there")],
        "token": [
            SettingsError("token_file", "a", "cannot be read", "settings"),
            ResponseError(401, "token", "not known"),
        ],
        "failing": [OSError(5, "Input/output error"), ZeroDivisionError()],
    }
    for name, examples in errors.items():
        assert name in FAULTS
        assert [name_of_error(error) for error in examples] == [name] * len(examples)


def test_a_service_is_failed_only_by_a_fault_that_stops_it() -> None:
    low, full = (
        ServiceFault("disk_low", "state", "little is free"),
        ServiceFault("disk_full", "engine", "nothing is free", stops=True),
    )
    assert dict(health_document([])) == {"status": "ok", "faults": []}
    assert health_document([low])["status"] == "degraded"
    told = health_document([low, full])
    assert told["status"] == "failed"
    assert told["faults"][1] == {
        "fault": "disk_full",
        "subject": "engine",
        "detail": "nothing is free",
    }


def test_a_certificate_that_ends_soon_is_told_beforehand(tmp_path: Path) -> None:
    now = time.time()
    for days, told in ((30, 0), (13, 1)):
        ends = end_of_file(self_signed(tmp_path, f"of-{days}-days", days=days))
        assert ends is not None
        assert ends - now == pytest.approx(days * 86400, abs=60)
        found = expiring("tls.certificate", ends, now)
        assert [(each.name, each.stops) for each in found] == [
            ("certificate_expiring", False)
        ] * told
    (tmp_path / "none.pem").write_text("nothing")
    assert end_of_file(tmp_path / "none.pem") is None


def test_limits_of_seeing_are_checked() -> None:
    with pytest.raises(ValueError, match="silent = 0 must be"):
        EngineLimits(silent=0)
