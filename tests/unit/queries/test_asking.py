"""Queries without SQL, one answer per device, and public results: their bytes, their rules, and
what a device does."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.errors import ParameterError, QueryError
from deniable.queries.columns.column import Column
from deniable.queries.lasting import lifetime_epsilon, silence
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import PublicKey
from deniable.queries.signed.signing import SignedQuery, sign, verify
from deniable.queries.summary import summary
from toolkit import ask_vectors
from toolkit.ask_vectors import STARS, TRAVEL, asked
from toolkit.queries import make_query
from toolkit.references import client_vectors
from toolkit.references.client_vectors import CITY, RING, at
from toolkit.references.reference_client import ReferenceDevice

QUERIES: dict[str, Any] = json.loads(ask_vectors.QUERIES.read_text(encoding="utf-8"))
CLIENTS: dict[str, Any] = json.loads(ask_vectors.CLIENTS.read_text(encoding="utf-8"))
RINGED = KeyRing([TrustedKey(PublicKey("City", bytes.fromhex(QUERIES["public"])))])


# --- vectors


def test_the_library_makes_the_vectors_of_bytes() -> None:
    assert ask_vectors.make_queries() == QUERIES


@pytest.mark.slow
def test_the_library_makes_the_vectors_of_devices() -> None:
    assert ask_vectors.make_clients() == CLIENTS


@pytest.mark.parametrize("case", QUERIES["good"], ids=lambda case: case["name"])
def test_good_vectors_are_read_and_written_again(case: dict[str, Any]) -> None:
    query = verify(SignedQuery.from_bytes(case["signed"].encode()), RINGED, QUERIES["now"])
    assert query.content.decode() == case["content"]
    assert Query.from_content(query.content) == query
    tree = json.loads(case["content"])
    assert (
        json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        == case["content"]
    )


@pytest.mark.parametrize("case", QUERIES["bad"], ids=lambda case: case["name"])
def test_bad_vectors_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(QueryError) as caught:
        verify(SignedQuery.from_bytes(case["signed"].encode()), RINGED, QUERIES["now"])
    assert caught.value.reason == case["reason"]


def differences(make: Callable[[dict[str, Any]], ReferenceDevice]) -> list[str]:
    out = []
    for case in CLIENTS["cases"]:
        device = make(case)
        for step in case["steps"]:
            try:
                made = device.answer(step, CLIENTS["queries"][step["query"]])
            except (EOFError, LookupError):
                made = {"used": -1}
            same = all(made.get(name) == value for name, value in step["expect"].items())
            if not same or made["used"] != len(step["random"]) // 2:
                out.append(case["name"])
    return out


def reference(
    case: dict[str, Any], kind: type[ReferenceDevice] = ReferenceDevice
) -> ReferenceDevice:
    policy = {**case["policy"], "proxies": CLIENTS["proxies"]}
    return kind(policy, CLIENTS["ring"], bytes.fromhex(CLIENTS["secret"]))


def test_a_client_written_from_the_documents_makes_every_byte_of_them() -> None:
    assert differences(reference) == []


class AnswersAgain(ReferenceDevice):
    """A port that knows nothing of `once`."""

    def _verified(self, signed: str, now: int) -> tuple[dict[str, Any], bytes]:
        query, digest = super()._verified(signed, now)
        return {name: value for name, value in query.items() if name != "once"}, digest


class ForgetsTheAsk(ReferenceDevice):
    """A port that leaves `ask` and `value` out of the scope of permanent answers."""

    def _verified(self, signed: str, now: int) -> tuple[dict[str, Any], bytes]:
        query, digest = super()._verified(signed, now)
        return {
            name: value for name, value in query.items() if name not in ("ask", "value")
        }, digest


@pytest.mark.parametrize("kind", [AnswersAgain, ForgetsTheAsk])
def test_a_port_that_is_wrong_differs_from_the_vectors(kind: type[ReferenceDevice]) -> None:
    assert differences(lambda case: reference(case, kind))


# --- rules and words


def test_a_query_that_says_nothing_new_has_the_bytes_it_had() -> None:
    plain = make_query()
    written = make_query(ask="sql", value=None, once=False, public_results=False)
    assert written.content == plain.content
    assert not {"ask", "value", "once", "public_results"} & set(plain.to_dict())


def test_once_costs_one_epoch_over_the_whole_life() -> None:
    often, once = make_query(), make_query(once=True)
    assert once.releases.life.epsilon == once.epsilon_local
    assert (
        lifetime_epsilon(make_query(once=True, budget=type(often.budget)())) == once.epsilon_local
    )
    assert often.releases.life.epsilon > 1000 * once.epsilon_local
    assert silence(once, [(once.epsilon_local, None, "a limit")]) is None
    assert silence(often, [(often.epsilon_local, None, "a limit")]) is not None


def test_the_summary_says_who_is_asked_how_often_and_who_reads_the_results() -> None:
    text = summary(asked(ask="form", columns=[TRAVEL], once=True, public_results=True))
    for words in (
        "A person is asked",
        "Wie kamst du?",
        "Zu Fuß  Rad  Bus  Anders",
        "Also in en, pt-BR.",
        "Once in all",
    ):
        assert words in text, words
    assert "Everyone: results of at least 100 answers" in text
    assert "answers once at most" in text
    value = summary(asked(ask="value", value="trips", columns=[ask_vectors.A]))
    assert "What an app recorded as trips: a" in value
    assert "The analyst: results of at least" in value
    assert "SQL" not in text + value


def test_a_mistake_in_a_form_names_the_place() -> None:
    with pytest.raises(ParameterError, match=r"columns\[0\]\.labels\.en"):
        Query.from_dict(
            {**asked(ask="form", columns=[TRAVEL]).to_dict(), "columns": [_short_labels()]}
        )
    with pytest.raises(ParameterError, match="memoize = True must be false with once"):
        make_query(once=True, memoize=True)
    with pytest.raises(ParameterError, match=r"sql = .* must be left out with ask = 'form'"):
        asked(ask="form", sql="SELECT 1", columns=[TRAVEL])


def _short_labels() -> dict[str, Any]:
    tree = TRAVEL.to_dict()
    return {**tree, "labels": {**tree["labels"], "en": ["one"]}}


# --- a device


def device(folder: Path, **changes: Any) -> Device:
    vault = Vault.create(folder / "vault.db")
    given: dict[str, Any] = {"upload_within": 0, "epsilon_per_answer": 10, "limits": (), **changes}
    policy = Policy(ring=RING, proxies=dict.fromkeys(client_vectors.PROXIES, "token"), **given)
    return Device(
        vault, policy, Store(folder / "store", durable=False), isolated=False, clock=lambda: at(7)
    )


def certain(**changes: Any) -> Query:
    """A query whose reports are the truth, so that a test can see which bucket was read."""
    return asked(
        **{"mechanism": {"name": "UnaryEncoding", "a": 0.999999, "b": 0.000001}, **changes}
    )


def test_a_form_is_sent_when_it_is_filled_in_and_then_forgotten(tmp_path: Path) -> None:
    mine = device(tmp_path, epsilon_per_answer=100)
    form = sign(certain(ask="form", columns=[TRAVEL]), CITY)
    assert mine.answer(form, at(7)).outcome == "waiting"
    assert not mine.forms.path.exists()
    mine.fill(form, [{"travel": "bike"}])
    assert mine.answer(form, at(7)).outcome == "answered"
    assert not mine.forms.filled(form.unverified())
    assert b"bike" not in mine.forms.path.read_bytes()  # overwritten, not only unlinked
    assert mine.answer(form, at(8)).outcome == "waiting"
    assert mine.vault.grants() == {}  # nothing of it is in the vault that analysts may ask


@pytest.mark.parametrize("changed", ["question", "labels", "text"])
def test_a_choice_answers_no_version_that_asks_something_else(tmp_path: Path, changed: str) -> None:
    mine = device(tmp_path, epsilon_per_answer=100)
    first = certain(ask="form", columns=[TRAVEL], memoize=False)
    form = sign(first, CITY)
    mine.fill(form, [{"travel": "bike"}])
    tree = TRAVEL.to_dict()
    if changed == "question":
        tree["question"] = dict.fromkeys(tree["question"], "Which of these have you stolen?")
    if changed == "labels":
        tree["labels"] = {name: each[::-1] for name, each in tree["labels"].items()}
    text = {"question": "What have you stolen?"} if changed == "text" else {}
    later = sign(first.revised(columns=[Column(**tree)], **text), CITY)
    assert mine.answer(later, at(7)).outcome == "waiting"
    assert b"bike" not in mine.forms.path.read_bytes()
    mine.fill(later, [{"travel": "bus"}])
    assert mine.answer(later, at(7)).outcome == "answered"


def test_a_choice_stays_for_a_version_that_asks_the_same(tmp_path: Path) -> None:
    mine = device(tmp_path, epsilon_per_answer=100)
    first = certain(ask="form", columns=[TRAVEL])
    mine.fill(sign(first, CITY), [{"travel": "bike"}])
    assert mine.answer(sign(first.revised(sampling=0.999), CITY), at(7)).outcome != "waiting"


def test_a_choice_that_is_no_bucket_is_refused_without_being_shown(tmp_path: Path) -> None:
    mine = device(tmp_path)
    form = sign(asked(ask="form", columns=[TRAVEL, Column(**_with_languages(STARS))]), CITY)
    for wrong in (
        {"travel": "secret plane"},
        {"travel": 1},
        {"stars": True},
        {"stars": "1"},
        {"stars": 1.5},
    ):
        with pytest.raises(ParameterError) as caught:
            mine.fill(form, [wrong])
        assert "secret" not in str(caught.value)
    with pytest.raises(ParameterError, match="is not a column"):
        mine.fill(form, [{"colour": "red"}])
    for rows in ([], [{"travel": "foot"}, {"travel": "bus"}]):
        with pytest.raises(ParameterError, match=r"rows = . must be 1 to 1"):
            mine.fill(form, rows)
    with pytest.raises(ParameterError, match="nobody is asked"):
        mine.fill(sign(asked(), CITY), [{"a": 1}])


def _with_languages(column: Column) -> dict[str, Any]:
    tree = column.to_dict()
    for name in ("question", "labels"):
        tree[name] = dict.fromkeys(("de", "en", "pt-BR"), tree[name]["en"])
    return tree


def test_a_form_of_a_stranger_is_not_filled_in(tmp_path: Path) -> None:
    mine = device(tmp_path)
    with pytest.raises(QueryError):
        mine.fill(
            sign(asked(ask="form", columns=[TRAVEL]), client_vectors.STRANGER), [{"travel": "foot"}]
        )
    assert not mine.forms.path.exists()


def test_a_value_is_read_only_if_the_owner_shares_it(tmp_path: Path) -> None:
    mine = device(tmp_path)
    value = sign(asked(ask="value", value="trips", columns=[ask_vectors.A]), CITY)
    assert mine.answer(value, at(7)).reason == "not shared"
    mine.vault.record("trips", {"a": 1.5}, at=at(7))
    assert mine.answer(value, at(8)).reason == "not shared"
    mine.vault.grant("trips", ["a"])
    assert mine.answer(value, at(9)).outcome == "answered"


def test_once_is_charged_once_whatever_versions_follow(tmp_path: Path) -> None:
    mine = device(tmp_path)
    mine.vault.record("t", {"a": 1.5}, at=at(7))
    mine.vault.grant("t", ["a"])
    once = asked(once=True)
    outcomes = [mine.answer(sign(once, CITY), at(epoch)) for epoch in (7, 8, 9, 7, 6)]
    assert [each.outcome for each in outcomes] == ["answered", *["again"] * 4]
    later = once.revised(once=False)
    assert mine.answer(sign(later, CITY), at(50)).outcome == "again"
    with mine.store.transaction() as transaction:
        assert transaction.charges.spent_on("City", once.id) == outcomes[0].epsilon > Fraction(0)


def test_once_is_not_decided_by_a_refusal_before_the_coin(tmp_path: Path) -> None:
    mine = device(tmp_path, queue_messages=1)
    mine.vault.record("t", {"a": 1.5}, at=at(7))
    mine.vault.grant("t", ["a"])
    assert mine.answer(sign(asked(id="first"), CITY), at(7)).outcome == "answered"
    once = sign(asked(id="second", once=True), CITY)
    assert mine.answer(once, at(7)).reason == "queue full"
    with mine.store.transaction() as transaction:
        transaction._db.execute("DELETE FROM queue")
    assert mine.answer(once, at(8)).outcome == "answered"
