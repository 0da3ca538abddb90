"""The aggregator as a process: queries in over HTTP, shares from logs, windows out to the
Analyst."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.aggregator.service import Service
from deniable.aggregator.settings import read_settings
from deniable.aggregator.state import connect
from deniable.aggregator.web.tokens import token_id
from deniable.analyst.analyst import Analyst
from deniable.cli import cli
from deniable.errors import DeniableError, ResponseError, SettingsError
from deniable.estimation.tables.table import Table
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.signing import SignedQuery, sign
from deniable.queries.times import iso_time, with_times
from toolkit.crowds import KEY, RING, Crowd, minute_query
from toolkit.servers import loopback
from toolkit.servers.services import Relays, running


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """What the condition gives, once it gives something."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


class RunningAggregator:
    """A crowd with two proxies' logs, and an aggregator as a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.relays = [Relays(), Relays()]
        now = int(time.time())
        # Epochs of a second, so that windows end while a test waits.
        schedule = Schedule(origin=now - 2, expires=now + 3600, every=1, window=2, slide=1)
        self.query = minute_query(schedule=schedule, proxies=[relay.url for relay in self.relays])
        self.crowd = Crowd(folder, self.query)
        RING.save(folder / "ring.json")
        (folder / "operator.token").write_text("deniable_operator\n")
        proxies = "".join(
            f'[[proxies]]\nname = "{relay.url}"\nlog = "log{i}.db"\ntoken_file = "operator.token"\n'
            for i, relay in enumerate(self.relays)
        )
        self.settings = folder / "aggregator.toml"
        head = 'state = "state.db"\nring = "ring.json"\nport = 0\nheader_deadline = "2 s"\n'
        self.settings.write_text(f'{head}{proxies}[limits]\npatience = "60 s"\nbehind = "30 s"\n')

    def token(self, role: str) -> str:
        may = ["--may", "read"] if role == "reader" else []
        arguments = ["aggregator", "token", str(self.settings), "--analyst", KEY.owner, *may]
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout.strip()

    def answer(self, published: int, epochs: int, n: int = 5) -> None:
        """Devices answer in each of the epochs from the one in which the query was published; the
        proxies mark them."""
        first = self.query.schedule.epoch_of(published)
        for epoch in range(first, first + epochs):
            self.crowd.answer([epoch % 12] * n, epoch)
        self.crowd.mark(first + epochs)

    def close(self) -> None:
        self.crowd.close_all()
        for relay in self.relays:
            relay.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[RunningAggregator]:
    house = RunningAggregator(tmp_path)
    yield house
    house.close()


def test_a_query_is_published_relayed_counted_followed_and_stopped(
    house: RunningAggregator,
) -> None:
    token = house.token("analyst")
    signed = sign(house.query, KEY)
    with (
        running(["aggregator", "run", str(house.settings)], house.folder) as (_, url),
        Analyst(url, token) as analyst,
    ):
        told = analyst.publish(signed)
        assert (told["id"], told["serial"], told["stopped"]) == (house.query.id, 1, None)
        for relay in house.relays:
            (request,) = relay.wait(1)
            assert request == (
                "PUT",
                f"/v1/queries/{house.query.id}",
                "Bearer deniable_operator",
                signed.to_bytes(),
            )
        assert analyst.latest(house.query) is None
        followed: list[Any] = []

        def follow() -> None:
            for window in analyst.follow(house.query):
                followed.append(window)
                if len(followed) == 3:
                    return

        thread = threading.Thread(target=follow)
        thread.start()
        time.sleep(0.5)
        house.answer(told["published"], epochs=4)
        thread.join(30)
        assert [window.n for window in followed] == [10, 10, 10]
        assert [window.index for window in followed] == list(
            range(followed[0].index, followed[0].index + 3)
        )
        assert all(
            window.condition == "complete" and window.conservation["balanced"]
            for window in followed
        )
        listed = list(analyst.range(house.query))
        assert [window.to_dict() for window in listed] == [window.to_dict() for window in followed]
        assert [
            w.index for w in analyst.range(house.query, start=listed[1].start, end=listed[2].start)
        ] == [listed[1].index]
        latest = analyst.latest(house.query)
        assert latest is not None
        assert latest.to_dict() == followed[-1].to_dict()
        epoch = latest.index + 1
        assert latest.estimate is not None
        assert np.allclose(
            latest.estimate.proportions[[epoch % 12, (epoch - 1) % 12]], 0.5, atol=1e-9
        )
        assert [w.index for w in islice(analyst.follow(house.query, after=0), 3)] == [
            w.index for w in listed
        ]
        analyst.stop(house.query)
        for relay in house.relays:
            assert relay.wait(2)[1][:2] == ("DELETE", f"/v1/queries/{house.query.id}")
        assert analyst.queries()[0]["stopped"] is not None
        with pytest.raises(ResponseError, match="was stopped"):
            analyst.publish(sign(house.query.revised(sampling=0.5), KEY))


def test_followers_survive_a_restart_and_miss_nothing(house: RunningAggregator) -> None:
    token = house.token("analyst")
    found: list[Any] = []
    port = 0
    with running(["aggregator", "run", str(house.settings)], house.folder) as (_, url):
        port = int(url.rpartition(":")[2])
        analyst = Analyst(url, token)
        told = analyst.publish(sign(house.query, KEY))
        house.answer(told["published"], epochs=3)
        stream = analyst.follow(house.query, after=0)
        found = [next(stream), next(stream)]
    house.settings.write_text(house.settings.read_text().replace("port = 0", f"port = {port}"))
    last = found[-1].index + 2
    for epoch in range(last, last + 2):
        house.crowd.answer([1] * 5, epoch)
    house.crowd.mark(last + 2)
    with running(["aggregator", "run", str(house.settings)], house.folder):
        found += [next(stream), next(stream)]
        del stream
    assert [window.index for window in found] == list(range(found[0].index, found[0].index + 4))
    assert [window.n for window in found] == [10] * 4
    analyst.close()


def test_a_proxy_that_cannot_be_told_is_told_later(house: RunningAggregator) -> None:
    house.relays[1].down = True
    token = house.token("analyst")
    with (
        running(["aggregator", "run", str(house.settings)], house.folder) as (_, url),
        Analyst(url, token) as analyst,
    ):
        analyst.publish(sign(house.query, KEY))
        name = house.query.proxies[1]
        assert wait_for(lambda: analyst.queries()[0]["relayed"][name].startswith("503"))
        assert analyst.queries()[0]["relayed"][house.query.proxies[0]] == "done"
        house.relays[1].down = False
        assert wait_for(lambda: analyst.queries()[0]["relayed"][name] == "done")


def test_health_and_metrics_tell_what_is_counted_and_who_is_down(house: RunningAggregator) -> None:
    house.settings.write_text(
        house.settings.read_text().replace("60 s", "6 s").replace("30 s", "2 s")
    )
    token = house.token("analyst")
    with (
        running(["aggregator", "run", str(house.settings)], house.folder) as (_, url),
        Analyst(url, token) as analyst,
    ):
        assert loopback.get(f"{url}/healthz").json()["status"] == "ok"
        told = analyst.publish(sign(house.query, KEY))
        house.answer(told["published"], epochs=2)
        wait_for(lambda: analyst.latest(house.query))
        house.crowd.mark(house.query.schedule.epoch_of(int(time.time())) + 3000, [0])
        text = loopback.get(f"{url}/metrics").text
        one, two = house.query.proxies
        assert f'deniable_aggregator_shares_received_total{{proxy="{one}"}} 10.0\n' in text
        assert f'deniable_aggregator_shares_total{{outcome="counted",proxy="{two}"}} 10.0\n' in text
        assert "deniable_aggregator_engine_running 1.0\n" in text
        # Only the first proxy has marked the epochs that follow.
        degraded = wait_for(
            lambda: (told := loopback.get(f"{url}/healthz").json())["status"] == "degraded" and told
        )
        assert [proxy["condition"] for proxy in degraded["proxies"]] == ["up", "behind"]
        down = wait_for(
            lambda: (
                (told := loopback.get(f"{url}/healthz").json())["proxies"][1]["condition"] == "down"
                and told
            )
        )
        assert down["proxies"][1]["name"] == two
        window = wait_for(
            lambda: (
                (w := analyst.latest(house.query)) is not None and w.condition == "proxy down" and w
            )
        )
        assert window.missing == (two,)


def test_bad_requests_are_answered_with_problems_and_counted_by_reason(
    house: RunningAggregator,
) -> None:
    analyst_token, reader_token = house.token("analyst"), house.token("reader")
    signed = sign(house.query, KEY).to_bytes()
    address = f"/v1/queries/{house.query.id}"
    tampered = json.loads(signed)
    tampered["query"] = tampered["query"].replace("SELECT distance", "SELECT salaries")
    other = Query.from_dict({**house.query.to_dict(), "proxies": ["a", "b"]})
    cases: list[tuple[str, str, str | None, bytes | None, int, str]] = [
        ("GET", "/v1/queries", None, None, 401, "token"),
        ("GET", "/v1/queries", "deniable_guessed", None, 401, "token"),
        ("PUT", address, reader_token, signed, 403, "right"),
        ("DELETE", address, reader_token, None, 404, "unknown_query"),
        ("GET", "/v1/queries/nobody/results/latest", reader_token, None, 404, "unknown_query"),
        ("GET", "/v1/queries/nobody/results/stream", reader_token, None, 404, "unknown_query"),
        ("PUT", address, analyst_token, b"garbage", 422, "unusable_query"),
        ("PUT", address, analyst_token, b"[" * 100_000, 422, "unusable_query"),
        ("PUT", address, analyst_token, b"x" * ((1 << 21) + 1), 413, "too_large"),
        ("PUT", "/v1/queries/another", analyst_token, signed, 422, "query_id"),
        ("PUT", address, analyst_token, json.dumps(tampered).encode(), 422, "bad_signature"),
        ("PUT", address, analyst_token, sign(other, KEY).to_bytes(), 409, "publication"),
        ("POST", address, analyst_token, b"", 405, "method"),
        ("GET", "/nothing", analyst_token, None, 404, "address"),
        ("GET", f"{address}/results?limit=many", analyst_token, None, 422, "parameters"),
    ]
    with running(["aggregator", "run", str(house.settings)], house.folder) as (_, url):
        for method, path, token, body, status, reason in cases:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            response = loopback.request(method, url + path, content=body, headers=headers)
            assert (response.status_code, response.json()["reason"]) == (status, reason), (
                method,
                path,
                response.text,
            )
            assert response.headers["content-type"] == "application/problem+json"
            assert {"type", "title", "status", "detail"} <= set(response.json())
        text = loopback.get(f"{url}/metrics").text
        assert 'deniable_aggregator_requests_refused_total{reason="token"} 2.0\n' in text
        assert 'deniable_aggregator_requests_refused_total{reason="unusable_query"} 2.0\n' in text
        document = loopback.get(f"{url}/openapi.json").json()
        assert (
            f"{address.replace(house.query.id, '{query_id}')}/results/stream" in document["paths"]
        )
        # A head that comes a byte at a time is cut off.
        host, _, port = url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=30) as slow:
            slow.sendall(b"GET /healthz HT")
            told = b""
            while part := slow.recv(4096):
                told += part
        assert told.startswith(b"HTTP/1.1 408 ")
        assert b'"reason": "slow_head"' in told
        # It is still up, and works.
        with Analyst(url, analyst_token) as analyst:
            assert analyst.publish(SignedQuery.from_bytes(signed))["serial"] == 1


def test_tokens_are_stored_hashed_and_can_be_revoked(house: RunningAggregator) -> None:
    token = house.token("analyst")
    stored = sqlite3.connect(house.folder / "state.db")
    content = "\n".join(stored.iterdump())
    stored.close()
    assert token not in content
    assert token.removeprefix("deniable_") not in content
    with (
        running(["aggregator", "run", str(house.settings)], house.folder) as (_, url),
        Analyst(url, token) as analyst,
    ):
        assert analyst.queries() == []
        result = CliRunner().invoke(
            cli, ["aggregator", "revoke", str(house.settings), token_id(token)]
        )
        assert result.output == f"Revoked {token_id(token)}.\n"
        with pytest.raises(ResponseError, match="401 token"):
            analyst.queries()


def test_settings_say_what_is_wrong_and_where(house: RunningAggregator) -> None:
    good = house.settings.read_text()
    for change, complaint in (
        (good.replace("port = 0", "port = 99999"), "line 3: port = 99999 must be a whole number"),
        (good.replace("patience =", "patients ="), "limits.patients = '60 s' is not a setting"),
        (good.replace('patience = "60 s"', "patience = 0"), "limits.patience = 0"),
        (good.replace('state = "state.db"\n', ""), "state = None is missing"),
        (good.replace("port = 0", "port ="), "is not TOML"),
    ):
        house.settings.write_text(change)
        with pytest.raises(SettingsError) as caught:
            read_settings(house.settings)
        assert complaint in str(caught.value)
        assert isinstance(caught.value, DeniableError)


def test_an_analyst_publishes_lists_reads_draws_and_stops_by_command(
    house: RunningAggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.folder / "token").write_text(house.token("analyst"))
    (house.folder / "query.signed.json").write_bytes(sign(house.query, KEY).to_bytes())
    drawn = house.folder / "newest.svg"

    def deniable(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, list(arguments))
        assert result.exit_code == code, result.output
        return result.output

    with running(["aggregator", "run", str(house.settings)], house.folder) as (_, url):
        monkeypatch.setenv("DENIABLE_AGGREGATOR", url)
        monkeypatch.setenv("DENIABLE_TOKEN_FILE", str(house.folder / "token"))
        assert deniable("query", "list") == "No query has been published.\n"
        published = json.loads(
            deniable("query", "publish", str(house.folder / "query.signed.json"), "--json")
        )
        assert published["id"] == house.query.id
        assert "no windows there yet" in deniable("results", house.query.id, code=2)
        house.answer(published["published"], epochs=4)
        with Analyst(url, house.token("reader")) as reader:
            wait_for(lambda: len(list(reader.range(house.query))) >= 3)
            windows = list(reader.range(house.query))
        shown = deniable("results", house.query.id)
        assert shown.startswith(f"{windows[-1].headline}\n")
        estimate = windows[-1].estimate
        assert estimate is not None
        assert estimate.privacy_line() in shown.splitlines()
        for label, proportion in zip(estimate.labels, estimate.proportions, strict=True):
            (line,) = (each for each in shown.splitlines() if each.startswith(f"{label} "))
            assert f"{100 * proportion:.2f} %" in line
            assert "┃" in line
        told = json.loads(deniable("results", house.query.id, "--all", "--json"))
        assert [each["index"] for each in told] == [window.index for window in windows]
        assert told[0] == with_times(windows[0].to_dict(), "start", "end")
        lines = deniable(
            "results", house.query.id, "--start", str(windows[1].start), "--csv"
        ).splitlines()
        assert len(lines) == 1 + 12 * (len(windows) - 1)
        assert lines[1].split(",")[1:3] == [iso_time(windows[1].start), iso_time(windows[1].end)]
        deniable("results", house.query.id, "--plot", str(drawn))
        assert b"<svg" in drawn.read_bytes()
        assert house.query.id in deniable("query", "list")
        deniable("query", "stop", house.query.id)
        assert "stopped at" in deniable("query", "list")
        assert "no query 'other' here" in deniable("results", "other", code=2)
        monkeypatch.delenv("DENIABLE_TOKEN_FILE")
        assert "--token-file" in deniable("query", "list", code=2)


def test_a_window_of_two_columns_is_served_and_printed_as_a_conditional_table(
    tmp_path: Path,
) -> None:
    house = RunningAggregator(tmp_path)
    columns = [Column(name, ["a", "b"], other=True, kind="text") for name in ("current", "next")]
    house.query = house.crowd.query = minute_query(
        schedule=house.query.schedule,
        proxies=house.query.proxies,
        columns=columns,
        sql="SELECT a, b FROM t",
    )
    token = house.token("analyst")
    (tmp_path / "token").write_text(token)
    with (
        running(["aggregator", "run", str(house.settings)], tmp_path) as (_, url),
        Analyst(url, token) as analyst,
    ):
        first = house.query.schedule.epoch_of(analyst.publish(sign(house.query, KEY))["published"])
        for epoch in range(first, first + 3):
            house.crowd.answer([0, 0, 0, 1, 3, 4, 4, 8] * 10, epoch)
        house.crowd.mark(first + 3)
        window = wait_for(lambda: analyst.latest(house.query))
        step = window.table(of="next", given="current")
        assert np.allclose(step.proportions[0], [0.75, 0.25, 0], atol=1e-9)
        assert np.allclose(step.proportions[1], [1 / 3, 2 / 3, 0], atol=1e-9)
        address = f"{url}/v1/queries/{house.query.id}/results/latest/table"
        headers = {"Authorization": f"Bearer {token}"}
        served = loopback.get(address, params={"of": "next", "given": "current"}, headers=headers)
        assert served.status_code == 200
        assert np.allclose(Table.from_dict(served.json()).proportions, step.proportions)
        assert (
            loopback.get(address, params={"given": "nowhere"}, headers=headers).status_code == 422
        )
        options = ["--aggregator", url, "--token-file", str(tmp_path / "token")]
        printed = CliRunner().invoke(
            cli, ["results", house.query.id, "--conditional", "next|current", *options]
        )
        assert printed.exit_code == 0, printed.output
        assert "75.00" in printed.output
        wrong = CliRunner().invoke(
            cli, ["results", house.query.id, "--conditional", "next", *options]
        )
        assert wrong.exit_code == 2
        assert "must be written as 'OF|GIVEN'" in wrong.output
    house.close()


def test_a_command_that_ends_leaves_the_state_of_a_running_aggregator_alone(
    house: RunningAggregator,
) -> None:
    # A service that closes any descriptor of its state drops its own locks on it; the next command
    # to end then takes itself for the last user, and deletes the write-ahead log under the service.
    service = Service(read_settings(house.settings))
    for _ in range(3):
        connect(house.folder / "state.db").close()
    command = (
        "import sys; from deniable.aggregator.state import connect; c = connect(sys.argv[1]);"
        " c.execute(sys.argv[2]); c.close()"
    )
    change = "INSERT INTO meta VALUES ('made', 1)"
    subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", command, str(house.folder / "state.db"), change], check=True
    )
    assert (house.folder / "state.db-wal").exists()
    with service.reading() as connection:
        assert connection.execute("SELECT value FROM meta WHERE name = 'made'").fetchone() == (1,)
    service.stop()
