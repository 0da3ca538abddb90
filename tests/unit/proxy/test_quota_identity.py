"""A device's quota follows the device: neither a new token nor another way in gives it a second
one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from deniable.errors import RefusedError
from deniable.proxy.enrolment import Enrolment, EnrolmentRules
from deniable.proxy.intake.admission import Admission
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings
from deniable.proxy.web.api import create_app
from deniable.queries.query import Query
from deniable.service.http.limits import ConnectionLimits
from deniable.service.tokens import TokenStore, token_hash
from deniable.wire.batches import pack_batch, unpack_outcomes
from toolkit.servers.proxies import query_of_today, signed
from toolkit.servers.served import served
from toolkit.shares import make_columns, records_of

BINARY = {"Content-Type": "application/octet-stream"}


def rotated(store: TokenStore, token: str) -> str:
    fresh = store.rotate(token)
    assert fresh is not None
    return fresh


class RunningProxy:
    """A proxy that is served, with a query on its board, and the uploads of one device."""

    def __init__(self, proxy: ProxyService, client: httpx.Client, query: Query) -> None:
        self.proxy, self.client, self.query = proxy, client, query
        self.epoch = query.schedule.epoch_of(proxy.clock())
        self._records = iter(records_of(query, self.epoch, make_columns(query, self.epoch, 60)[0]))

    def send(self, token: str) -> tuple[int, str]:
        """Send one more answer; the status, and the reason of a refusal."""
        headers = {"Authorization": f"Bearer {token}", **BINARY}
        answer = self.client.post("/v1/shares", content=next(self._records), headers=headers)
        return answer.status_code, answer.json().get("reason", "")

    def send_by_collector(self, token: str, collector: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {collector}", **BINARY}
        body = pack_batch([token_hash(token)], [next(self._records)])
        (outcome,) = unpack_outcomes(
            self.client.post("/v1/batches", content=body, headers=headers).content
        )
        return (202, "") if outcome.refusal is None else (outcome.refusal[1], outcome.refusal[0])

    def rotate(self, token: str) -> str:
        answer = self.client.post("/v1/enrol/rotate", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningProxy]:
    query = query_of_today()
    now = query.schedule.start_of_epoch(10) + 5
    proxy = ProxyService(
        ProxySettings(tmp_path_factory.mktemp("proxy") / "data"), clock=lambda: now
    )
    with served(create_app(proxy)) as client:
        (operator,) = proxy.tokens.add("operator")
        headers = {"Authorization": f"Bearer {operator}"}
        put = client.put(
            f"/v1/queries/{query.id}", content=signed(query).to_bytes(), headers=headers
        )
        assert put.status_code == 201
        yield RunningProxy(proxy, client, query)


def test_a_token_that_is_rotated_keeps_its_count_of_the_epoch(running: RunningProxy) -> None:
    (token,) = running.proxy.tokens.add("device")
    assert running.send(token) == (202, "")
    for _ in range(3):
        token = running.rotate(token)
        assert running.send(token) == (429, "quota")


def test_a_quota_of_ones_own_goes_with_the_token_and_is_spent_once(running: RunningProxy) -> None:
    (token,) = running.proxy.tokens.add("device", quota=3, label="a phone")
    assert running.send(token) == (202, "")
    token = running.rotate(token)
    assert [running.send(token)[0] for _ in range(3)] == [202, 202, 429]
    assert "a phone" in {row["label"] for row in running.proxy.tokens.listed()}


def test_another_way_in_counts_the_same_device(running: RunningProxy) -> None:
    (collector,) = running.proxy.tokens.add("collector")
    (token,) = running.proxy.tokens.add("device")
    assert running.send_by_collector(token, collector) == (202, "")
    token = running.rotate(token)
    assert running.send_by_collector(token, collector) == (429, "quota")
    assert running.send(token) == (429, "quota")


def test_a_collector_is_told_of_tokens_that_devices_just_got(running: RunningProxy) -> None:
    (collector,) = running.proxy.tokens.add("collector")
    headers = {"Authorization": f"Bearer {collector}"}

    def listed() -> set[bytes]:
        content = running.client.get("/v1/tokens", headers=headers).content
        return {content[i : i + 32] for i in range(0, len(content), 32)}

    listed()
    (first,) = running.proxy.tokens.add("device")
    assert token_hash(first) in listed()
    second = running.rotate(first)
    assert token_hash(second) in listed()
    assert token_hash(first) not in listed()


def test_a_device_is_the_same_after_a_restart_and_for_another_process(tmp_path: Path) -> None:
    store, other = TokenStore(tmp_path / "tokens.db"), TokenStore(tmp_path / "tokens.db")
    (first,) = store.add("device")
    found = store.find(first)
    assert found is not None
    second = rotated(store, first)
    third = rotated(other, second)
    store.close()
    reopened = TokenStore(tmp_path / "tokens.db")
    for each in (other, reopened):
        seen = each.find(third)
        assert seen is not None
        assert seen.client == found.client
        assert each.find(first) is each.find(second) is None
        assert len(each.tokens()) == 1
        each.close()


def test_a_token_is_rotated_once_and_never_after_it_was_revoked(tmp_path: Path) -> None:
    mine, theirs = TokenStore(tmp_path / "tokens.db"), TokenStore(tmp_path / "tokens.db")
    enrolments = [Enrolment(tmp_path, EnrolmentRules(), book, lambda: 0) for book in (mine, theirs)]
    (first,) = mine.add("device")
    assert theirs.find(first) is not None
    second = enrolments[0].rotate(first, "192.0.2.1")
    for enrolment in enrolments:
        with pytest.raises(RefusedError, match="a device's bearer token"):
            enrolment.rotate(first, "192.0.2.1")
    found = theirs.find(second)
    assert found is not None
    mine.revoke(found.id)
    with pytest.raises(RefusedError, match="a device's bearer token"):
        enrolments[1].rotate(second, "192.0.2.1")
    assert mine.tokens() == theirs.tokens() == []
    for enrolment, book in zip(enrolments, (mine, theirs), strict=True):
        enrolment.close()
        book.close()


def test_two_devices_are_never_one_and_a_device_is_named_by_no_token_in_clear(
    tmp_path: Path,
) -> None:
    store = TokenStore(tmp_path / "tokens.db")
    tokens = [rotated(store, token) for token in store.add("device", count=5)] + store.add(
        "device", count=5
    )
    clients = [token.client for token in store.tokens()]
    assert len(set(clients)) == 10
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert not any(token.removeprefix("deniable_").encode() in content for token in tokens)
    store.close()


def test_uploads_in_progress_under_an_old_and_a_new_token_are_one_devices(tmp_path: Path) -> None:
    store = TokenStore(tmp_path / "tokens.db")
    admission = Admission(ConnectionLimits(most_uploads_per_token=2), store.by_hash)
    (first,) = store.add("device")
    before = store.find(first)
    assert before is not None
    admission.hold(before)
    after = store.find(rotated(store, first))
    assert after is not None
    admission.hold(after)
    with pytest.raises(RefusedError, match="at most 2 concurrent uploads"):
        admission.hold(after)
    store.close()
