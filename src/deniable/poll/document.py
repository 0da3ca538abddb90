"""What the page reads, and the link that pins it.

The page's host serves one document: whose key signs, which queries ask, to which proxies answers
go, and the texts around them. The link's fragment, which browsers never send, holds the fingerprints of
the key and of that document, so a host that changes either is found out by the page. The document
holds the digests of the queries; the questions themselves come from the proxies, which must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deniable.errors import ParameterError
from deniable.poll.link import FORMAT
from deniable.poll.poll import Poll
from deniable.queries.signed import canonical
from deniable.queries.signed.keys import PublicKey

__all__ = ["document_bytes"]


def document_bytes(poll: Poll, key: PublicKey, digests: Sequence[bytes]) -> bytes:
    """The document of a poll whose queries have these digests."""
    if key.owner != poll.asker:
        raise ParameterError(
            "asker", poll.asker, f"must be {key.owner!r}, the owner of the key that signs"
        )
    questions = [
        {"query": poll.query_id(question), "digest": digest.hex(), **question.page_document()}
        for question, digest in zip(poll.questions, digests, strict=True)
    ]
    document: dict[str, Any] = {
        "format": FORMAT,
        "id": poll.id,
        "key": {"owner": key.owner, "public": key.raw.hex()},
        "proxies": [{"url": each.url, "by": each.by} for each in poll.operators],
        "aggregator": poll.aggregator,
        "answer": poll.answer,
        "results": poll.results,
        "minimum": poll.minimum,
        "end": poll.end,
        "contact": poll.contact,
        "texts": poll.page_texts(),
        "questions": questions,
    }
    return canonical.encode(document)
