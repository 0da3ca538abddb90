"""A poll's file together with what was signed of it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from deniable.errors import ServiceError
from deniable.poll.asking import expected_half_width, queries_of
from deniable.poll.document import document_bytes
from deniable.poll.files import read_poll
from deniable.poll.link import Link, key_fingerprint, poll_fingerprint
from deniable.poll.poll import Poll
from deniable.queries.query import Query
from deniable.queries.signed.keys import PublicKey

__all__ = ["PrintedPoll", "read_printed_poll"]


@dataclass(frozen=True)
class PrintedPoll:
    """A poll, the queries that ask it and, once it was opened, its link."""

    poll: Poll
    queries: tuple[Query, ...]
    link: Link | None = None

    @property
    def epsilon(self) -> float:
        """What one person loses at most by answering, as the queries say."""
        return sum(query.epsilon for query in self.queries)

    @property
    def factor(self) -> float:
        """By how much odds about a person change at most."""
        return math.exp(self.epsilon)

    def half_width(self, n_reports: int) -> float:
        """The largest half-width of a 95 % interval that so many answers give."""
        return expected_half_width(self.queries, n_reports)


def read_printed_poll(path: Path) -> PrintedPoll:
    """The poll in a TOML file, and its link if `deniable poll open` wrote a document beside it.

    A document that was made of another poll is refused: what is printed would not be what was
    signed.
    """
    poll = read_poll(path)
    queries = tuple(queries_of(poll))
    signed = path.with_suffix(".json")
    try:
        content = signed.read_bytes()
    except FileNotFoundError:
        return PrintedPoll(poll, queries)
    except OSError as error:
        raise ServiceError(f"{signed} cannot be read: {error.strerror}") from None
    try:
        described = json.loads(content)["key"]
        key = PublicKey(described["owner"], bytes.fromhex(described["public"]))
    except (ValueError, KeyError, TypeError):
        raise ServiceError(f"{signed} is not a poll that deniable poll open wrote") from None
    owned = key.owner == poll.asker
    if not owned or document_bytes(poll, key, [query.digest for query in queries]) != content:
        raise ServiceError(
            f"{signed} was signed from another poll than {path} holds now: restore the file, or"
            " open the poll again under another id"
        )
    link = Link(poll.page, key_fingerprint(key.raw), poll_fingerprint(content))
    return PrintedPoll(poll, queries, link)
