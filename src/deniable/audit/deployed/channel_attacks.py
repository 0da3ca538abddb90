"""Attacks on a deployed service that publish on another's channel or outlive a quota."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from deniable.audit.deployed.attempts import (
    Attempt,
    ServiceTarget,
)
from deniable.audit.deployed.requests import LARGEST_ANSWER, document
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import LARGEST_LIST, SignedQuery, sign
from deniable.service.http.reading import Answer, ask, bearer
from deniable.wire.shares import Share, record_bytes

__all__ = ["ForeignChannel", "attack_foreign_channel", "attack_rotated_quota", "channel_tag_of"]


_MOST_MESSAGES = 64


@dataclass(frozen=True)
class ForeignChannel:
    """What trying to publish on another's channel takes: two analysts' keys, a token of the other,
    and a query to vary."""

    key: AnalystKey
    other_key: AnalystKey
    other_token: str
    query: Query


def channel_tag_of(signed: SignedQuery) -> int:
    """The tag of the channel on which shares of a query come."""
    return signed.header().channel_tag


def attack_foreign_channel(
    client: Any, target: ServiceTarget, given: ForeignChannel | None
) -> Attempt:
    """Publish on another analyst's channel, with a token and a key of one's own."""
    name, tried = (
        "another analyst's channel",
        "a query of each analyst, both on a channel of one name; they are stopped afterwards",
    )
    if given is None:
        return Attempt(
            name,
            "nothing",
            "needs two analysts' keys, a second token and a query to vary",
            "not tried",
        )
    channel = f"audit-{secrets.token_hex(8)}"
    signed = [_on_channel(given.query, key, channel) for key in (given.key, given.other_key)]
    tokens, statuses = (target.token, given.other_token), []
    for each, token in zip(signed, tokens, strict=True):
        address = f"{target.url.rstrip('/')}/v1/queries/{each.unverified().id}"
        answer = ask(
            client, "PUT", address, LARGEST_ANSWER, content=each.to_bytes(), headers=bearer(token)
        )
        statuses.append(answer.status)
        if not statuses[0] < 300:
            return Attempt(
                name,
                tried,
                f"{answer.status}: the first query was refused: {answer.text[:200]}",
                "not tried",
            )
    for each, token, status in zip(signed, tokens, statuses, strict=True):
        if status < 300:
            ask(
                client,
                "DELETE",
                f"{target.url.rstrip('/')}/v1/queries/{each.unverified().id}",
                LARGEST_ANSWER,
                headers=bearer(token),
            )
    shared = statuses[1] < 300 and len({channel_tag_of(each) for each in signed}) == 1
    seen = f"the second query got {statuses[1]}" + (
        ", and both have one channel tag" if shared else ""
    )
    return Attempt(name, tried, seen, "broken" if shared else "holds")


def _on_channel(query: Query, key: AnalystKey, channel: str) -> SignedQuery:
    """The query as one of this analyst on a channel, under an id of its own."""
    fields = {
        **query.to_dict(),
        "id": f"audit-{secrets.token_hex(8)}",
        "analyst": key.owner,
        "channel": channel,
        "serial": 1,
    }
    return sign(
        Query.from_dict({name: value for name, value in fields.items() if name != "format"}), key
    )


# --- a proxy


def attack_rotated_quota(client: Any, proxy: ServiceTarget | None) -> Attempt:
    """Use a device's quota up, rotate its token, and try to use it again."""
    name, tried = (
        "quota after a rotation",
        "messages until the device's quota is used up, then a new token, then one more message",
    )
    if proxy is None:
        return Attempt(
            name,
            "nothing",
            "needs a proxy's address and a device's token, which is replaced",
            "not tried",
        )
    base = proxy.url.rstrip("/")
    board = ask(client, "GET", f"{base}/v1/queries", LARGEST_LIST)
    query = _current(board, time.time())
    if query is None:
        return Attempt(
            name, tried, "there is no query on the board whose epochs are running", "not tried"
        )

    # One epoch for all messages: a quota is per epoch, and another may begin meanwhile.
    header, epoch = query.header, query.schedule.epoch_of(int(time.time()))

    def send(token: str) -> Answer:
        message_id, payload = (
            secrets.token_bytes(16),
            secrets.token_bytes(record_bytes(header.size_class) - 32),
        )
        # noise, without a partner
        record = Share(header.channel_tag, epoch, header.size_class, message_id, payload).to_bytes()
        headers = {**bearer(token), "Content-Type": "application/octet-stream"}
        return ask(
            client, "POST", f"{base}/v1/shares", LARGEST_ANSWER, content=record, headers=headers
        )

    answers = [send(proxy.token)]
    while answers[-1].status == 202 and len(answers) < _MOST_MESSAGES:
        answers.append(send(proxy.token))
    if answers[-1].status != 429:
        return Attempt(
            name,
            tried,
            f"{len(answers)} messages, and then {answers[-1].status}: no quota was reached",
            "not tried",
        )
    rotated = ask(
        client, "POST", f"{base}/v1/enrol/rotate", LARGEST_ANSWER, headers=bearer(proxy.token)
    )
    if not rotated.is_success:
        return Attempt(name, tried, f"{rotated.status}: the token cannot be rotated", "holds")
    more = send(str(document(rotated)["token"]))
    seen = f"{len(answers) - 1} messages, 429, a new token, {more.status}"
    if more.status not in (202, 429):  # the epoch is closed, say
        return Attempt(name, tried, seen, "not tried")
    return Attempt(name, tried, seen, "broken" if more.status == 202 else "holds")


def _current(board: Answer, now: float) -> Query | None:
    """A query on a board whose epochs are running."""
    for each in document(board) if board.is_success else []:
        query = SignedQuery.from_bytes(json.dumps(each).encode()).unverified()
        if query.schedule.origin <= now < query.schedule.expires:
            return query
    return None
