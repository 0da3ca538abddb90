"""Enrolment: who gets a device's token from a proxy, how often, and what a flood of requests can
and cannot do."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.errors import ParameterError, RefusedError
from deniable.proxy import enrolment as enrolment_module
from deniable.proxy.enrolment import Enrolment, EnrolmentRules, add_invitations, invite
from deniable.proxy.intake.admission import Admission
from deniable.service.http.limits import ConnectionLimits
from deniable.service.tokens import Bound, Token, TokenStore

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw().hex()
NOW = 1_700_000_000


class EnrolmentScenario:
    """An enrolment with clocks of its own."""

    def __init__(self, folder: Path, **rules: Any) -> None:
        self.ticks, self.now = 0.0, NOW
        self.tokens = TokenStore(folder / "tokens.db")
        self.enrolment = Enrolment(
            folder, EnrolmentRules(**rules), self.tokens, lambda: self.now, lambda: self.ticks
        )

    def ask(self, request: Any = None, address: str = "192.0.2.1") -> str:
        """The reason of the refusal, or `enrolled`."""
        try:
            token = self.enrolment.enrol({} if request is None else request, address)
        except RefusedError as error:
            return error.reason
        found = self.tokens.find(token)
        assert found is not None
        assert found.role == "device"
        return "enrolled"


def ticket(
    nonce: int, until: int = NOW + 600, key: Ed25519PrivateKey = KEY, **bound: Any
) -> dict[str, str]:
    content = json.dumps({"nonce": nonce.to_bytes(16, "big").hex(), "until": until, **bound})
    return {
        "ticket": content,
        "signature": key.sign(b"deniable ticket 1\0" + content.encode()).hex(),
    }


def test_a_proxy_hands_out_nothing_unless_its_operator_says_so(tmp_path: Path) -> None:
    assert EnrolmentScenario(tmp_path).ask() == "enrolment_closed"


def test_one_address_gets_so_many_tokens_an_hour_and_others_are_not_affected(
    tmp_path: Path,
) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="open", per_hour_and_address=3)
    assert [scenario.ask() for _ in range(5)] == ["enrolled"] * 3 + ["enrolment_rate"] * 2
    assert scenario.ask(address="192.0.2.2") == "enrolled"
    scenario.ticks = 1200  # a third of an hour: room for one more
    assert [scenario.ask(), scenario.ask()] == ["enrolled", "enrolment_rate"]
    assert scenario.enrolment.counters == Counter(enrolled=5, enrolment_rate=3)


def test_the_addresses_of_one_ipv6_network_are_one_address(tmp_path: Path) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="open", per_hour_and_address=2)
    same = ["2001:db8::1", "2001:db8:0:0:ffff::2", "2001:0db8::3%eth0"]
    assert [scenario.ask(address=address) for address in same] == [
        "enrolled",
        "enrolled",
        "enrolment_rate",
    ]
    assert scenario.ask(address="2001:db8:0:1::1") == "enrolled"


def test_an_invitation_is_good_once_and_for_a_while(tmp_path: Path) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="invitation")
    first, second, old = [*invite(tmp_path, 2, NOW + 100), *invite(tmp_path, 1, NOW)]
    assert [
        scenario.ask({"invitation": code})
        for code in (first, first, second, old, "guessed", None, 7)
    ] == [
        *(
            "enrolled",
            "invitation",
            "enrolled",
            "invitation",
            "invitation",
            "invitation",
            "invitation",
        ),
    ]
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("enrolment.db*"))
    assert first.encode() not in stored
    assert second.encode() not in stored


def test_a_list_of_codes_that_is_added_again_makes_no_used_code_good_again(tmp_path: Path) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="invitation")
    used, unused = codes = ["a" * 22, "b" * 22]
    assert add_invitations(tmp_path, codes, NOW + 100) == 2
    assert scenario.ask({"invitation": used}) == "enrolled"
    assert add_invitations(tmp_path, [*codes, "c" * 22], NOW + 100) == 1
    assert scenario.ask({"invitation": used}) == "invitation"
    assert scenario.ask({"invitation": unused}) == "enrolled"


def test_a_ticket_is_the_apps_servers_own_and_good_once(tmp_path: Path) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="ticket", ticket_key=PUBLIC)
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    changed = {**ticket(5), "ticket": ticket(6)["ticket"]}
    asked: tuple[dict[str, Any], ...] = (
        ticket(1),
        ticket(1),
        ticket(2),
        ticket(3, NOW),
        ticket(4, NOW + 10**6),
        ticket(7, key=other),
        changed,
        {},
        {"ticket": 7},
    )
    assert [scenario.ask(each) for each in asked] == [
        "enrolled",
        "ticket",
        "enrolled",
        *["ticket"] * 6,
    ]
    scenario.now += 601  # what was used is forgotten when it is too old to be used
    assert scenario.ask(ticket(8, NOW + 900)) == "enrolled"
    assert scenario.enrolment._db.execute("SELECT count(*) FROM used").fetchone() == (1,)


def test_a_token_is_exchanged_for_a_new_one_and_ends(tmp_path: Path) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="open")
    old = scenario.enrolment.enrol({}, "192.0.2.1")
    new = scenario.enrolment.rotate(old, "192.0.2.1")
    assert scenario.tokens.find(old) is None
    assert scenario.tokens.find(new) is not None
    (operator,) = scenario.tokens.add("operator")
    for shown in (old, operator, "", "guessed"):
        with pytest.raises(RefusedError, match="bearer token"):
            scenario.enrolment.rotate(shown, "192.0.2.1")


@pytest.mark.parametrize("body", [None, [], "x", {"more": 1}])
def test_a_body_that_is_no_request_is_refused(tmp_path: Path, body: Any) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="open")
    with pytest.raises(RefusedError, match="JSON object"):
        scenario.enrolment.enrol(body, "192.0.2.1")


@pytest.mark.parametrize(
    "rules",
    [
        {"mode": "ticket"},
        {"ticket_key": PUBLIC},
        {"mode": "ticket", "ticket_key": "00"},
        {"per_second": 0},
    ],
)
def test_rules_that_make_no_sense_are_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"ticket_key|per_second"):
        EnrolmentRules(**rules)


def test_a_school_is_one_address_and_everyone_with_a_code_or_a_ticket_gets_in(
    tmp_path: Path,
) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="invitation", per_hour_and_address=3)
    codes = invite(tmp_path, 40, NOW + 100)
    assert {scenario.ask({"invitation": code}) for code in codes[:20]} == {"enrolled"}
    guesses = [scenario.ask({"invitation": "guessed"}) for _ in range(5)]
    assert guesses == ["invitation"] * 3 + ["enrolment_rate"] * 2  # wrong ones count, and only they
    assert {scenario.ask({"invitation": code}) for code in codes[20:]} == {"enrolled"}
    assert scenario.ask({"invitation": codes[0]}) == "enrolment_rate"  # a used one is a wrong one
    (tmp_path / "tickets").mkdir()
    signed = EnrolmentScenario(
        tmp_path / "tickets", mode="ticket", ticket_key=PUBLIC, per_hour_and_address=3
    )
    assert {signed.ask(ticket(i)) for i in range(20)} == {"enrolled"}


def test_a_device_that_comes_too_fast_keeps_its_invitation(tmp_path: Path) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="invitation", per_second=1)
    first, second = invite(tmp_path, 2, NOW + 100)
    assert [scenario.ask({"invitation": first}), scenario.ask({"invitation": second})] == [
        "enrolled",
        "enrolment_busy",
    ]
    scenario.ticks = 5
    assert scenario.ask({"invitation": second}) == "enrolled"


def test_an_invitation_and_a_ticket_bind_their_tokens(tmp_path: Path) -> None:
    bound = Bound("poll", 1, NOW + 50)
    scenario = EnrolmentScenario(tmp_path, mode="invitation")
    (code,) = invite(tmp_path, 1, NOW + 100, bound)
    found = scenario.tokens.find(scenario.enrolment.enrol({"invitation": code}, "192.0.2.1"))
    assert found is not None
    assert found.bound == bound
    (tmp_path / "tickets").mkdir()
    signed = EnrolmentScenario(tmp_path / "tickets", mode="ticket", ticket_key=PUBLIC)
    limited = signed.tokens.find(
        signed.enrolment.enrol(ticket(1, query="poll", uses=1, ends=NOW + 50), "192.0.2.1")
    )
    assert limited is not None
    assert limited.bound == bound
    for wrong in (
        {"uses": 1},
        {"query": "No id"},
        {"query": "poll", "uses": 0},
        {"query": "poll", "ends": "tomorrow"},
    ):
        assert signed.ask(ticket(9, **wrong)) == "ticket"


@pytest.mark.slow
def test_a_flood_from_many_addresses_uses_bounded_memory_and_lets_the_invited_in_within_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,000 requests in a minute from 50,000 addresses, and twenty people with an invitation,
    each from their own."""
    monkeypatch.setattr(enrolment_module, "_MOST_ADDRESSES", 10_000)
    scenario = EnrolmentScenario(tmp_path, mode="invitation", per_hour_and_address=5)
    codes = invite(tmp_path, 20, NOW + 100)
    outcomes: Counter[str] = Counter()
    for i in range(100_000):
        scenario.ticks = i * 60 / 100_000
        outcomes[
            scenario.ask({"invitation": "guessed"}, f"10.{i % 50_000 // 256}.{i % 256}.1")
        ] += 1
        if i % 5_000 == 0:
            assert (
                scenario.ask({"invitation": codes[i // 5_000]}, f"192.0.2.{i // 5_000}")
                == "enrolled"
            )
    assert set(outcomes) <= {"invitation", "enrolment_rate"}
    assert len(scenario.tokens.tokens()) == 20
    assert len(scenario.enrolment._addresses) == 10_000


def test_an_open_proxy_hands_out_no_more_a_second_than_it_says(tmp_path: Path) -> None:
    scenario = EnrolmentScenario(tmp_path, mode="open", per_second=10)
    outcomes: Counter[str] = Counter()
    for i in range(3_000):
        scenario.ticks = i * 10 / 3_000  # ten seconds
        outcomes[scenario.ask(address=f"10.0.{i // 256}.{i % 256}")] += 1
    assert outcomes["enrolled"] <= 10 + 10 * 10
    assert outcomes["enrolled"] >= 100
    assert outcomes["enrolled"] + outcomes["enrolment_busy"] == 3_000


def test_a_token_made_while_the_loop_is_busy_with_one_round_is_known_in_it() -> None:
    """Tokens are read once for all requests of a round: one that is missing is looked for again."""
    tokens: dict[bytes, Token] = {}
    admission = Admission(ConnectionLimits(), lambda: dict(tokens))

    async def one_round() -> str:
        with pytest.raises(RefusedError, match="a bearer token"):
            admission.authorize(b"Bearer early", "", "device")
        name = hashlib.sha256(b"made just now").digest()
        tokens[name] = Token(name, "device", None)
        return admission.authorize(b"Bearer made just now", "", "device").role

    assert asyncio.run(one_round()) == "device"
