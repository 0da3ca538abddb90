"""A poll compared from outside: the page's files with this release's, the document and the queries
with what the link pins."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

import httpx

from deniable.errors import DeniableError
from deniable.poll.link import FORMAT, Link, key_fingerprint, page_policy, poll_fingerprint
from deniable.poll.page_files import page_files
from deniable.queries.header import digest_of
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import PublicKey
from deniable.queries.signed.signing import SignedQuery, authenticate_header

__all__ = ["PollFinding", "verify_link"]

_SECONDS = 20.0


class PollFinding(NamedTuple):
    """One thing that was compared."""

    what: str
    fault: str
    """What is wrong; empty if it is as it should be."""


def verify_link(link: Link, now: int) -> list[PollFinding]:
    """Compare everything that a link leads to."""
    with httpx.Client(timeout=_SECONDS, follow_redirects=False) as client:
        findings = [
            PollFinding(
                f"page file {name or 'index.html'}", _file_fault(client, link, name, each.hash)
            )
            for name, each in page_files().items()
        ]
        content, fault = _fetch(client, f"{link.page}/poll.json")
        if not fault and poll_fingerprint(content) != link.poll:
            fault = "is not the document that the link names"
        findings.append(PollFinding("poll", fault))
        if fault:
            return findings
        document = json.loads(content)
        if document.get("format") != FORMAT:
            return [*findings, PollFinding("poll", "has a format that this release does not know")]
        return findings + _of_document(client, link, document, now)


def _of_document(
    client: httpx.Client, link: Link, document: dict[str, Any], now: int
) -> list[PollFinding]:
    raw = bytes.fromhex(document["key"]["public"])
    right = key_fingerprint(raw) == link.key
    findings = [PollFinding("key", "" if right else "is not the key that the link names")]
    ring = KeyRing().add(PublicKey(document["key"]["owner"], raw))
    for question in document["questions"]:
        for proxy in document["proxies"]:
            fault = _query_fault(client, proxy["url"], question, ring, now)
            findings.append(PollFinding(f"query {question['query']} at {proxy['url']}", fault))
    expected = page_policy(document)
    sent = _policy(client, link)
    fault = "" if sent == expected else "lets the page reach other services"
    return [*findings, PollFinding("content security policy", fault)]


def _fetch(client: httpx.Client, url: str) -> tuple[bytes, str]:
    try:
        response = client.get(url)
    except httpx.HTTPError:
        return b"", "cannot be reached"
    if response.status_code != 200:
        return b"", f"is answered with status {response.status_code}"
    return response.content, ""


def _policy(client: httpx.Client, link: Link) -> str:
    try:
        return str(client.get(f"{link.page}/").headers.get("content-security-policy", ""))
    except httpx.HTTPError:
        return ""


def _file_fault(client: httpx.Client, link: Link, name: str, expected: str) -> str:
    content, fault = _fetch(client, f"{link.page}/{'' if name == 'index.html' else name}")
    if fault:
        return fault
    same = hashlib.sha256(content).hexdigest() == expected
    return "" if same else "differs from the one in this release"


def _query_fault(
    client: httpx.Client, proxy: str, question: dict[str, Any], ring: KeyRing, now: int
) -> str:
    content, fault = _fetch(client, f"{proxy}/v1/queries/{question['query']}")
    if fault:
        return fault
    try:
        signed = SignedQuery.from_bytes(content)
        authenticate_header(signed, ring, now)
    except DeniableError as error:
        return f"is refused: {error}"
    same = digest_of(signed.effective()).hex() == question["digest"]
    return "" if same else "is not the query that the poll names"
