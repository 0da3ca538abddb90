"""A key or a token is revoked while services run: boards, devices, streams and audit logs follow
within seconds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from deniable.aggregator.web.tokens import token_id
from deniable.analyst.analyst import Analyst
from deniable.cli import cli
from deniable.client.device import Device
from deniable.client.feed_check import Asked, check_feed, feed_client
from deniable.client.http_transport import HttpTransport
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.errors import ResponseError
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.service.audit_log import read_events
from deniable.service.query_feed import read_feed
from toolkit.crowds import KEY
from toolkit.devices import asked, make_vault
from toolkit.servers.proxies import ProxyProcess
from toolkit.servers.services import running

pytestmark = pytest.mark.slow

MOST_SECONDS = 5.0
OTHER = AnalystKey("A newspaper", bytes(range(1, 33)))


def deniable(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout


def seconds_until(holds: Callable[[], bool]) -> float:
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < 4 * MOST_SECONDS
        time.sleep(0.02)
    return time.monotonic() - start


def test_a_revoked_key_leaves_the_boards_devices_refuse_its_query_and_the_logs_tell(
    tmp_path: Path,
) -> None:
    ring = tmp_path / "ring.json"
    KeyRing().add(KEY.public).add(OTHER.public).save(ring)
    with ExitStack() as stack:
        # One follows the ring itself, with workers in front; the other has none, and has to be told
        # by the aggregator.
        settings = [f'ring = "{ring}"\nworkers = 1\n', ""]
        proxies = [
            stack.enter_context(ProxyProcess(tmp_path / f"proxy-{i}", text))
            for i, text in enumerate(settings)
        ]
        now = int(time.time())
        schedule = Schedule(
            origin=now - 600, expires=now + 86_400, every=600, window=600, slide=600
        )
        names = [proxy.address for proxy in proxies]
        mine = asked(id="mine", proxies=names, schedule=schedule)
        theirs = asked(id="theirs", proxies=names, schedule=schedule, analyst=OTHER.owner)
        lines = ['state = "state.db"', 'ring = "ring.json"', "port = 0"]
        for i, proxy in enumerate(proxies):
            (tmp_path / f"{i}.token").write_text(
                proxy.token("operator")["Authorization"].removeprefix("Bearer ")
            )
            lines += ["[[proxies]]", f'name = "{proxy.address}"', f'token_file = "{i}.token"']
        file = tmp_path / "aggregator.toml"
        file.write_text("\n".join(lines))
        tokens = [
            deniable("aggregator", "token", str(file), "--analyst", key.owner).strip()
            for key in (KEY, OTHER)
        ]
        _, url = stack.enter_context(running(["aggregator", "run", str(file)], tmp_path))
        analysts = [stack.enter_context(Analyst(url, token)) for token in tokens]
        analysts[0].publish(sign(mine, KEY))
        analysts[1].publish(sign(theirs, OTHER))

        def boards() -> list[set[str]]:
            listed = [httpx.get(f"{proxy.address}/v1/queries").json() for proxy in proxies]
            return [{json.loads(each["query"])["id"] for each in one} for one in listed]

        seconds_until(lambda: boards() == [{"mine", "theirs"}] * 2)
        policy = Policy(
            KeyRing.load(ring),
            dict.fromkeys(names, "token"),
            epsilon_per_answer=10,
            upload_within=0,
        )
        devices = [
            Device(
                make_vault(tmp_path / f"{name}.db", [1.0]),
                policy,
                Store(tmp_path / f"{name}.client", durable=False),
            )
            for name in ("had it", "new")
        ]
        transport = stack.enter_context(HttpTransport())
        had = devices[0].fetch(transport)
        assert had is not None
        assert len(had) == 2
        had.sort(key=lambda content: b'"theirs' in content)

        deniable("ring", "revoke", str(ring), KEY.public.id)
        took = seconds_until(lambda: boards() == [{"theirs"}] * 2)
        assert took < MOST_SECONDS, took

        # Their own rings still trust the key: it is the proxies that tell.
        devices[0].fetch(transport)
        outcomes = {
            receipt.query: (receipt.outcome, receipt.reason)
            for receipt in devices[0].answer_all(had)
        }
        assert outcomes == {"mine": ("refused", "revoked key"), "theirs": ("answered", "")}
        # after a restart, without a poll
        again = Device(devices[0].vault, policy, devices[0].store)
        assert again.answer(had[0]).reason == "revoked key"
        owners = Device(
            devices[1].vault, replace(policy, ring=KeyRing.load(ring)), devices[1].store
        )
        assert owners.answer(had[0]).reason == "revoked key"

        with devices[0].store.transaction() as transaction:
            asked_versions = [Asked(*row) for row in transaction.versions.asked()]
        # what was refused was not accepted
        assert {each.query for each in asked_versions} == {"theirs"}
        with feed_client() as network:
            for address in (*names, url):
                finding = check_feed(devices[0].store, network, address, asked_versions)
                assert finding.holds, finding
                (announced,) = [page.lines for page in read_feed(network, address)]
                told = [
                    (each["event"], each.get("query") or each.get("key"))
                    for each in map(json.loads, announced)
                ]
                assert ("query.withdrawn", "mine") in told
                assert ("key.revoked", KEY.public.id) in told

        with pytest.raises(ResponseError, match="revoked"):
            analysts[0].publish(sign(mine.revised(question="Again?"), KEY))
        assert analysts[0].queries()[0]["stopped"] is not None
        assert analysts[1].queries()[0]["stopped"] is None

    logs = [tmp_path / "state.db.audit.jsonl", *(proxy.data / "audit.jsonl" for proxy in proxies)]
    for log, command in zip(
        logs,
        [["aggregator", str(file)], *(["proxy", str(proxy.file)] for proxy in proxies)],
        strict=True,
    ):
        told = [(event["event"], event.get("subject")) for event in read_events(log)]
        assert ("key.revoked", f"key:{KEY.public.id}") in told, log
        assert ("query.withdrawn", "query:mine") in told, log
        assert ("query.withdrawn", "query:theirs") not in told, log
        verified = ["audit", command[1], "--verify"]
        assert "the chain verifies" in deniable(command[0], *verified)
        content = log.read_bytes()
        log.write_bytes(content.replace(b"key.revoked", b"key.rewoked"))
        deniable(command[0], *verified, code=1)


def test_a_revoked_token_is_refused_at_once_and_its_open_streams_end(tmp_path: Path) -> None:
    KeyRing().add(KEY.public).save(tmp_path / "ring.json")
    proxies = "".join(f'[[proxies]]\nname = "http://127.0.0.1:{port}"\n' for port in (8, 9))
    file = tmp_path / "aggregator.toml"
    file.write_text(f'state = "state.db"\nring = "ring.json"\nport = 0\n{proxies}')
    token = deniable(
        "aggregator", "token", str(file), "--analyst", KEY.owner, "--label", "dashboard"
    ).strip()
    with running(["aggregator", "run", str(file)], tmp_path) as (_, url):
        headers = {"Authorization": f"Bearer {token}"}
        ended = threading.Event()
        began = threading.Event()

        def follow() -> None:
            with httpx.stream("GET", f"{url}/v1/stream", headers=headers, timeout=30) as answer:
                for _ in answer.iter_bytes():
                    began.set()
            ended.set()

        thread = threading.Thread(target=follow)
        thread.start()
        assert began.wait(20)
        listed = json.loads(deniable("aggregator", "tokens", str(file), "--json"))
        assert [(row["id"], row["label"], row["rights"]) for row in listed] == [
            (token_id(token), "dashboard", {KEY.owner: ["read", "publish", "stop"]})
        ]
        deniable("aggregator", "revoke", str(file), token_id(token)[:8])
        start = time.monotonic()
        assert httpx.get(f"{url}/v1/queries", headers=headers).status_code == 401
        assert ended.wait(MOST_SECONDS)
        assert time.monotonic() - start < MOST_SECONDS
        thread.join()
        deniable("aggregator", "revoke", str(file), token_id(token), code=2)
    told = [
        (event["event"], event.get("actor"), event.get("subject"))
        for event in read_events(tmp_path / "state.db.audit.jsonl")
    ]
    assert ("token.made", "operator", f"token:{token_id(token)}") in told
    assert ("token.revoked", "operator", f"token:{token_id(token)}") in told
