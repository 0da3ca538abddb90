"""Attacks on a running service: they succeed where they should, and fail on ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deniable.aggregator.state import connect
from deniable.aggregator.web.tokens import RIGHTS, add_token
from deniable.analyst.analyst import Analyst
from deniable.audit.deployed import channel_attacks
from deniable.audit.deployed.attempts import ServiceAudit, ServiceTarget
from deniable.audit.deployed.channel_attacks import ForeignChannel
from deniable.audit.deployed.service_attacks import audit_service
from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.local.services import Address, Aggregator, LocalProxy, Services, free_ports
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from toolkit.attacks.weak_service import weak_service
from toolkit.crowds import KEY
from toolkit.servers.consoles import SeededConsole, console_query, seeded_console
from toolkit.servers.operated import wait_until
from toolkit.servers.proxies import ProxyProcess, query_of_today

pytestmark = pytest.mark.slow

OTHER = AnalystKey("Mallory", bytes(range(1, 33)))
BOARD = [json.loads(sign(query_of_today(analyst=KEY.owner), KEY).to_bytes())]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        found.publish(console_query(found.proxies))
        yield found


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with ProxyProcess(tmp_path_factory.mktemp("proxy") / "proxy") as found:
        found.publish(query_of_today())
        yield found


def verdicts(found: ServiceAudit) -> dict[str, str]:
    return {each.name: each.verdict for each in found.attempts}


def foreign() -> ForeignChannel:
    return ForeignChannel(KEY, OTHER, "deniable_good", query_of_today(analyst=KEY.owner))


def test_every_attack_succeeds_on_a_service_with_the_weaknesses_that_ours_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a tag that does not depend on the key
    monkeypatch.setattr(channel_attacks, "channel_tag_of", lambda _: 7)
    with weak_service(BOARD) as weak:
        target = ServiceTarget(weak.url, "deniable_good")
        found = audit_service(target, ServiceTarget(weak.url, "deniable_device"), foreign())
    assert set(verdicts(found).values()) == {"broken"}, str(found)
    assert len(found.attempts) == 8
    assert not found.holds
    assert weak.sent["stopped"] == 2, "what was published is stopped again"
    assert ServiceAudit.from_dict(found.to_dict()) == found


def test_what_is_mended_is_said_to_hold() -> None:
    with weak_service(BOARD, "public", "channel", "quota") as weak:
        target = ServiceTarget(weak.url, "deniable_good")
        found = verdicts(
            audit_service(target, ServiceTarget(weak.url, "deniable_device"), foreign())
        )
    assert [name for name, verdict in found.items() if verdict == "holds"] == [
        "cost of what anyone may read",
        "another analyst's channel",
        "quota after a rotation",
    ]


def test_a_query_on_a_channel_whose_tag_is_the_analyst_s_own_is_no_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tags = iter(range(100))
    monkeypatch.setattr(channel_attacks, "channel_tag_of", lambda _: next(tags))
    with weak_service(BOARD) as weak:
        found = verdicts(audit_service(ServiceTarget(weak.url, "deniable_good"), None, foreign()))
    assert found["another analyst's channel"] == "holds"
    assert found["quota after a rotation"] == "not tried"


def test_our_own_services_hold(console: SeededConsole, proxy: ProxyProcess) -> None:
    device = proxy.token(quota=100_000)["Authorization"].removeprefix("Bearer ")
    found = audit_service(
        ServiceTarget(console.url, console.analyst), ServiceTarget(proxy.address, device)
    )
    untried = ("another analyst's channel", "quota after a rotation")
    expected = {name: "not tried" if name in untried else "holds" for name in verdicts(found)}
    assert verdicts(found) == expected, str(found)


def test_our_own_services_refuse_another_s_channel_and_a_rotated_quota(tmp_path: Path) -> None:
    ports = free_ports(3)
    proxies = [LocalProxy(f"proxy-{i}", Address(port=port)) for i, port in enumerate(ports[1:])]
    url = Address(port=ports[0]).url
    ring = KeyRing().add(KEY.public).add(OTHER.public)
    services = Services(tmp_path, ring, proxies, Aggregator(Address(port=ports[0]), history=None))
    with closing(connect(tmp_path / "aggregator.db")) as connection:
        tokens = [add_token(connection, key.owner, RIGHTS, 0) for key in (KEY, OTHER)]
    relay = ServiceTarget(proxies[0].address.url, services.token(proxies[0], quota=3))
    query = query_of_today(analyst=KEY.owner, proxies=[proxy.address.url for proxy in proxies])
    with services, Analyst(url, tokens[0]) as analyst:
        analyst.publish(sign(query, KEY))
        wait_until(lambda: set(analyst.queries()[0]["relayed"].values()) == {"done"}, 60)
        given = ForeignChannel(KEY, OTHER, tokens[1], query)
        found = audit_service(ServiceTarget(url, tokens[0]), relay, given)
    assert set(verdicts(found).values()) == {"holds"}, str(found)
    seen = {each.name: each.seen for each in found.attempts}
    assert seen["another analyst's channel"] == "the second query got 201", (
        "it is taken, under a tag of its own"
    )
    assert seen["quota after a rotation"] == "3 messages, 429, a new token, 429"


def test_without_rights_or_a_service_nothing_is_tried_and_nothing_claimed(
    console: SeededConsole,
) -> None:
    with console.service.writing() as connection:
        useless = add_token(connection, "Nobody", [], 0)
    found = verdicts(audit_service(ServiceTarget(console.url, useless)))
    assert (
        found["compile bomb"]
        == found["oversized simulation"]
        == found["streams at once"]
        == "not tried"
    )
    away = audit_service(ServiceTarget("http://127.0.0.1:9", "x"))
    assert set(verdicts(away).values()) == {"not tried"}
    with pytest.raises(ParameterError, match="must be the address of a service"):
        ServiceTarget("localhost:8700")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["audit", "service", *map(str, arguments)])


def test_the_command_says_what_was_tried_and_its_code_says_whether_it_holds(
    console: SeededConsole, tmp_path: Path
) -> None:
    with console.service.writing() as connection:
        token = add_token(connection, KEY.owner, RIGHTS, 0)
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    held = run(console.url, "--token-file", file)
    assert held.exit_code == 0, held.output
    assert f"{console.url}: holds (6 of 8 attacks tried)" in held.output
    assert held.output.count("    tried: ") == held.output.count("    seen: ") == 8
    assert token not in held.output
    file.write_text("deniable_good\n")
    with weak_service(BOARD) as weak:
        broken = run(weak.url, "--token-file", file, "--json")
    assert broken.exit_code == 1
    told = json.loads(broken.output)
    assert told["holds"] is False
    assert {each["verdict"] for each in told["attempts"]} == {"broken", "not tried"}
    for arguments in (("--proxy", weak.url), ("--key", file), ("--device-token-file", file)):
        refused = run(weak.url, "--token-file", file, *arguments)
        assert (refused.exit_code, "must be given together" in refused.output) == (2, True)
