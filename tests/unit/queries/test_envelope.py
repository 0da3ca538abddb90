"""Envelopes: a controller's version is obeyed inside the ranges that the analyst signed, and
refused with a receipt elsewhere."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from deniable.aggregator.counting.catalogue import publish, published
from deniable.aggregator.state import connect
from deniable.errors import (
    EnvelopeError,
    KeyNotValidError,
    ParameterError,
    PublicationError,
    QueryError,
    RefusedError,
    RevokedKeyError,
    SignatureError,
)
from deniable.proxy.board import Board
from deniable.queries.budget import Budget
from deniable.queries.files import parse_query
from deniable.queries.query import Query
from deniable.queries.signed.envelope import Envelope, Version
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey, PublicKey
from deniable.queries.signed.signing import SignedQuery, sign, sign_version, verify
from deniable.queries.strata import Stratum
from deniable.queries.summary import summary
from toolkit.devices import KEY, at, make_device, make_policy, opened, queued
from toolkit.queries import make_query

CONTROLLER = AnalystKey("controller", bytes([7]) * 32)
ENVELOPE = Envelope(
    CONTROLLER.public.raw.hex(),
    sampling=(0.3, 1.0),
    epsilon_per_answer=2.0,
    p=(0.2, 0.4),
    q=(0.4, 0.6),
    versions=10,
)
RING = KeyRing([TrustedKey(KEY.public)])
NOW = at(0)


def adaptive(**changes: Any) -> Query:
    given = {
        "sampling": 1.0,
        "question": "How far do you go?",
        "envelope": ENVELOPE,
        "budget": Budget(epsilon=50.0),
    }
    return make_query(**{**given, **changes})


def versioned(
    query: Query, serial: int = 2, key: AnalystKey = CONTROLLER, **changes: Any
) -> SignedQuery:
    given: dict[str, Any] = {"sampling": 1.0, "mechanism": {"p": 0.25, "q": 0.5}, **changes}
    return sign_version(sign(query, KEY), Version(query.digest.hex(), serial, **given), key)


def test_a_version_inside_the_envelope_replaces_sampling_and_coins_and_nothing_else() -> None:
    query = adaptive()
    signed = SignedQuery.from_bytes(versioned(query, sampling=0.5).to_bytes())
    found = verify(signed, RING, NOW)
    assert (found.serial, found.sampling, found.recipe) == (
        2,
        0.5,
        {"name": "TwoCoin", "p": 0.25, "q": 0.5},
    )
    assert found == query.revised(sampling=0.5, mechanism={"name": "TwoCoin", "p": 0.25, "q": 0.5})
    assert found.channel_tag == query.channel_tag
    assert found.tag != query.tag


def test_a_query_without_an_envelope_has_the_bytes_it_had() -> None:
    assert b"envelope" not in make_query().content
    assert set(json.loads(sign(make_query(), KEY).to_bytes())) == {
        "format",
        "query",
        "key",
        "signature",
    }


OUTSIDE: list[tuple[str, dict[str, Any], str]] = [
    ("sampling below", {"sampling": 0.29}, "sampling = 0.29"),
    ("p above", {"mechanism": {"p": 0.41, "q": 0.5}}, "mechanism.p = 0.41"),
    ("q below", {"mechanism": {"p": 0.25, "q": 0.39}}, "mechanism.q = 0.39"),
    ("another parameter", {"mechanism": {"epsilon": 1.0}}, "mechanism.epsilon"),
    ("inversion", {"mechanism": {"p": 0.25, "q": 0.5, "inverted": True}}, "inverted"),
    ("the query's own serial", {"serial": 1 + 11}, "allows 2 to 11"),
]


@pytest.mark.parametrize(
    ("changes", "said"), [case[1:] for case in OUTSIDE], ids=[case[0] for case in OUTSIDE]
)
def test_a_version_outside_the_envelope_is_refused_with_a_receipt_and_nothing_is_sent(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    query = adaptive()
    device = make_device(tmp_path, query)
    receipts = device.answer_all([versioned(query, **changes)], NOW)
    assert [(r.outcome, r.reason, r.query, r.analyst) for r in receipts] == [
        ("refused", "outside the envelope", query.id, query.analyst)
    ]
    assert said in receipts[0].detail
    assert "How far do you go?" in str(receipts[0])
    assert queued(device) == []
    with device.store.transaction() as transaction:
        assert transaction.journal.counters() == {"refused: outside the envelope": 1}
        assert transaction.charges.spent_on(query.analyst, query.id) == 0
        assert [r.reason for r in transaction.journal.receipts()] == ["outside the envelope"]


def test_an_answer_that_would_cost_more_than_the_envelope_allows_is_refused() -> None:
    """p = 0.4 and q = 0.4 are each in range; the loss of an answer, ln(0.64 0.76 / (0.24 0.36)) =
    1.728, is not."""
    query = adaptive(envelope=dataclasses.replace(ENVELOPE, epsilon_per_answer=1.7))
    with pytest.raises(EnvelopeError, match=r"epsilon_per_answer = 1\.7 must allow .* 1\.728"):
        verify(versioned(query, mechanism={"p": 0.4, "q": 0.4}), RING, NOW)


def test_a_stale_serial_is_refused_with_a_receipt_after_a_newer_one(tmp_path: Path) -> None:
    query = adaptive()
    device = make_device(tmp_path, query)
    assert [r.outcome for r in device.answer_all([versioned(query, 5)], at(0))] == ["answered"]
    sent = len(queued(device))
    for stale in (versioned(query, 4), sign(query, KEY)):
        [receipt] = device.answer_all([stale], at(1))
        assert (receipt.outcome, receipt.reason) == ("refused", "rolled-back query")
    assert len(queued(device)) == sent
    [receipt] = device.answer_all([versioned(query, 5, sampling=0.9)], at(2))
    assert receipt.reason == "rolled-back query", "another content under the same serial"


def test_an_expired_revoked_or_foreign_key_signs_nothing_that_a_device_sends(
    tmp_path: Path,
) -> None:
    expired = adaptive(envelope=dataclasses.replace(ENVELOPE, until=at(1)))
    assert verify(versioned(expired), RING, at(0)).serial == 2
    with pytest.raises(KeyNotValidError):
        verify(versioned(expired), RING, at(1))
    query = adaptive()
    revoked = make_policy(query, ring=RING.ban(CONTROLLER.public))
    device = make_device(tmp_path, query, policy=revoked)
    [receipt] = device.answer_all([versioned(query)], NOW)
    assert (receipt.outcome, receipt.reason, receipt.query) == ("refused", "revoked key", query.id)
    with pytest.raises(RevokedKeyError):
        verify(versioned(query), RING.ban(CONTROLLER.public), NOW)
    stranger = AnalystKey("stranger", bytes([9]) * 32)
    [receipt] = device.answer_all([versioned(query, key=stranger)], at(1))
    assert receipt.outcome == "refused"
    device.policy = make_policy(query)
    [receipt] = device.answer_all([versioned(query, key=stranger)], at(2))
    assert receipt.reason == "bad signature"
    assert queued(device) == []
    with device.store.transaction() as transaction:
        assert transaction.journal.counters() == {
            "refused: revoked key": 2,
            "refused: bad signature": 1,
        }


def test_the_analyst_cannot_sign_in_the_place_of_the_controller() -> None:
    with pytest.raises(SignatureError):
        verify(versioned(adaptive(), key=KEY), RING, NOW)


def test_a_version_of_another_query_or_of_one_without_an_envelope_is_refused() -> None:
    query, plain = adaptive(), make_query()
    moved = versioned(query)
    other = sign(adaptive(minimum_cohort=7), KEY)
    with pytest.raises(EnvelopeError, match="another query"):
        verify(
            dataclasses.replace(
                other, version=moved.version, version_signature=moved.version_signature
            ),
            RING,
            NOW,
        )
    bare = sign(plain, KEY)
    with pytest.raises(EnvelopeError, match="does not allow a controller"):
        verify(
            dataclasses.replace(
                bare, version=moved.version, version_signature=moved.version_signature
            ),
            RING,
            NOW,
        )
    with pytest.raises(EnvelopeError, match="another query"):
        sign_version(other, Version.from_content(moved.version or b""), CONTROLLER)


def test_a_person_s_own_ceiling_is_never_widened_by_an_envelope(tmp_path: Path) -> None:
    query = adaptive()
    device = make_device(tmp_path, query, policy=make_policy(query, epsilon_per_answer=1.2))
    assert verify(versioned(query, mechanism={"p": 0.35, "q": 0.5}), RING, NOW).epsilon_local > 1.2
    [receipt] = device.answer_all([versioned(query, mechanism={"p": 0.35, "q": 0.5})], NOW)
    assert receipt.reason == "over the ceiling"
    assert queued(device) == []


def test_answers_to_versions_are_charged_their_own_cost_up_to_the_total_that_the_analyst_signed(
    tmp_path: Path,
) -> None:
    query = adaptive(budget=Budget(epsilon=4.0))
    device = make_device(tmp_path, query)
    costs = []
    for serial, p in ((2, 0.2), (3, 0.4), (4, 0.4), (5, 0.4)):
        signed = versioned(query, serial, mechanism={"p": p, "q": 0.5})
        [receipt] = device.answer_all([signed], at(serial))
        costs.append(
            (
                receipt.outcome,
                receipt.epsilon,
                Fraction(repr(verify(signed, RING, at(serial)).epsilon_local)),
            )
        )
    assert [cost[0] for cost in costs] == ["answered", "answered", "refused", "refused"]
    answered = [cost for cost in costs if cost[0] == "answered"]
    assert all(charged == stated for _, charged, stated in answered)
    assert sum(charged for _, charged, _ in answered) <= 4
    tags = {message.query_tag for message in opened(device)}
    assert len(tags) == len(answered), "a message names the version that it answers"


def test_a_proxy_relays_versions_and_refuses_those_outside(tmp_path: Path) -> None:
    query = adaptive()
    board = Board(tmp_path / "board", lambda: NOW, lambda: RING)
    assert board.publish(query.id, sign(query, KEY).to_bytes())
    assert board.publish(query.id, versioned(query, 2).to_bytes())
    assert not board.publish(query.id, versioned(query, 2).to_bytes())
    for bad in (versioned(query, 3, sampling=0.1), versioned(query, 3, key=KEY)):
        with pytest.raises(RefusedError):
            board.publish(query.id, bad.to_bytes())
    with pytest.raises(RefusedError):
        board.publish(query.id, sign(query, KEY).to_bytes())
    [shown] = json.loads(board.content)
    assert SignedQuery.from_bytes(json.dumps(shown).encode()) == versioned(query, 2)
    assert len(board.channels()) == 1
    board.close()


def test_the_aggregator_counts_versions_and_keeps_the_controller_s_serials_from_the_analyst(
    tmp_path: Path,
) -> None:
    query = adaptive()
    connection = connect(tmp_path / "state")
    for signed in (sign(query, KEY), versioned(query, 2), versioned(query, 3, sampling=0.5)):
        publish(connection, signed, RING, query.proxies, NOW)
    assert [(each.query.serial, each.query.sampling) for each in published(connection)] == [
        (1, 1.0),
        (2, 1.0),
        (3, 0.5),
    ]
    with pytest.raises(PublicationError, match="use 12 or higher"):
        publish(connection, sign(adaptive(serial=4, envelope=None), KEY), RING, query.proxies, NOW)
    publish(connection, sign(adaptive(serial=12, envelope=None), KEY), RING, query.proxies, NOW)
    with pytest.raises(QueryError):
        publish(connection, versioned(query, 11), RING, query.proxies, NOW)
    connection.close()


def test_strata_are_sampled_as_the_version_says() -> None:
    strata = [Stratum("north", sampling=0.5), Stratum("south")]
    query = adaptive(strata=strata)
    found = verify(versioned(query, strata=[0.4, 0.8]), RING, NOW)
    assert [stratum.sampling for stratum in found.strata] == [0.4, 0.8]
    with pytest.raises(EnvelopeError):
        verify(versioned(query, strata=[0.4, 0.2]), RING, NOW)
    with pytest.raises(QueryError):
        verify(versioned(query, strata=[0.4]), RING, NOW)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"budget": Budget()}, "budget.epsilon = None must be given with an envelope"),
        ({"sampling": 0.2}, "must contain the query's own sampling = 0.2"),
        (
            {"mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.5}},
            "must contain the query's own p = 0.5",
        ),
        (
            {"mechanism": {"name": "OptimizedUnary", "epsilon": 1.0}},
            r"envelope.p = \(0.2, 0.4\) must be left out",
        ),
        ({"memoize": True}, "must be one value with memoize"),
        (
            {"envelope": dataclasses.replace(ENVELOPE, epsilon_per_answer=1.0)},
            "must allow the query's own local epsilon",
        ),
    ],
)
def test_an_envelope_that_does_not_fit_its_query_is_refused_before_it_is_signed(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ParameterError, match=said):
        adaptive(**changes)


def test_a_file_states_an_envelope_and_the_summary_says_what_may_change() -> None:
    text = f"""
id = "x"
analyst = "City"
sql = "SELECT 1"
proxies = ["one", "two"]
mechanism = {{ name = "TwoCoin", p = 0.3, q = 0.5 }}
budget = {{ epsilon = 9.0 }}
columns = [{{ name = "x", buckets = ["[0,1)", "[1,2)"] }}]
[schedule]
origin = 2026-01-01T00:00:00Z
expires = 2027-01-01T00:00:00Z
every = "1 h"
window = "1 h"
slide = "1 h"
[envelope]
controller = "{CONTROLLER.public.raw.hex()}"
sampling = [0.2, 1]
p = [0.2, 0.5]
q = [0.5, 0.5]
epsilon_per_answer = 2.5
until = 2026-06-01T00:00:00Z
"""
    query = parse_query(text)
    assert query.envelope is not None
    assert query.envelope.key_id == CONTROLLER.public.id
    assert Query.from_content(query.content) == query
    said = summary(query)
    assert (
        f"The controller with key {CONTROLLER.public.id} may sign versions 2 to 1001, before"
        " 2026-06-01" in said
    )
    assert "sampling from 0.2 to 1, p from 0.2 to 0.5, q from 0.5 to 0.5; nothing else" in said
    assert "publish version 1002 or later without it" in said


# --- vectors

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "version-v1.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", VECTORS["good"], ids=lambda case: case["name"])
def test_good_vectors_hold_by_the_formulas_of_the_documentation_and_in_the_library(
    case: dict[str, Any],
) -> None:
    signed = SignedQuery.from_bytes(json.dumps(case["signed"]).encode())
    content, version = case["signed"]["query"].encode(), case["signed"]["version"].encode()
    tree, numbers = json.loads(content), json.loads(version)
    assert numbers["query"] == hashlib.sha256(b"deniable query 1\0" + content).hexdigest()
    controller = Ed25519PublicKey.from_public_bytes(bytes.fromhex(tree["envelope"]["controller"]))
    controller.verify(
        bytes.fromhex(case["signed"]["version_signature"]), b"deniable version 1\0" + version
    )
    tree |= {name: numbers[name] for name in ("serial", "sampling")}
    tree["mechanism"] |= numbers["mechanism"]
    for table, sampling in zip(
        tree["strata"], numbers["strata"] or [], strict=bool(numbers["strata"])
    ):
        table["sampling"] = sampling
    effective = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert hashlib.sha256(b"deniable query 1\0" + effective).hexdigest() == case["digest"]

    ring = KeyRing([TrustedKey(PublicKey(tree["analyst"], bytes.fromhex(case["public"])))])
    query = verify(signed, ring, VECTORS["now"])
    assert query.digest.hex() == case["digest"]
    assert f"{query.tag:016x}" == case["query_tag"]
    assert query.content == effective


@pytest.mark.parametrize("case", VECTORS["bad"], ids=lambda case: case["name"])
def test_bad_vectors_are_refused_for_the_stated_reason(case: dict[str, Any]) -> None:
    ring = KeyRing([TrustedKey(PublicKey("City of Exampleton", bytes.fromhex(case["public"])))])
    with pytest.raises(QueryError) as caught:
        verify(SignedQuery.from_bytes(json.dumps(case["signed"]).encode()), ring, VECTORS["now"])
    assert caught.value.reason == case["reason"]
