"""Opening a poll: its queries are signed, its document and its link made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deniable.poll.asking import queries_of
from deniable.poll.codes import invitation_of, new_code
from deniable.poll.document import document_bytes
from deniable.poll.link import Link, key_fingerprint, poll_fingerprint
from deniable.poll.poll import Poll
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign

__all__ = ["OpenPoll", "invitations_for", "open_poll"]


@dataclass(frozen=True)
class OpenPoll:
    """A poll that has been signed."""

    poll: Poll
    queries: tuple[Query, ...]
    signed: tuple[SignedQuery, ...]
    document: bytes
    link: Link

    @property
    def epsilon(self) -> float:
        """What one person loses at most by answering, as the queries say."""
        return sum(query.epsilon for query in self.queries)


def open_poll(poll: Poll, key: AnalystKey) -> OpenPoll:
    """Sign a poll."""
    queries = queries_of(poll)
    document = document_bytes(poll, key.public, [query.digest for query in queries])
    link = Link(poll.page, key_fingerprint(key.public.raw), poll_fingerprint(document))
    signed = tuple(sign(query, key) for query in queries)
    return OpenPoll(poll, tuple(queries), signed, document, link)


def invitations_for(poll: Poll, count: int) -> tuple[list[str], dict[tuple[str, str], list[str]]]:
    """New codes for people, and for each proxy and query the invitations that its operator
    needs, sorted, so that their order tells nothing."""
    codes = [new_code() for _ in range(count)]
    places: Sequence[tuple[str, str]] = [
        (operator.url, poll.query_id(question))
        for operator in poll.operators
        for question in poll.questions
    ]
    return codes, {place: sorted(invitation_of(code, *place) for code in codes) for place in places}
