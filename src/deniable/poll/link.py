"""The link of a poll, and what it pins: fingerprints of the key and of the poll's document.

Browsers never send what follows `#`, so nobody on the way, not even the page's host, sees which
fingerprints the page will insist on.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Any

from deniable.errors import ParameterError

__all__ = ["FORMAT", "Link", "key_fingerprint", "page_policy", "poll_fingerprint"]

FORMAT = "deniable poll 1"
_DIGITS = 26
"""Characters of base32: 130 bits."""
_LINK = re.compile(
    r"(?P<page>https?://[^/#?]+)/"
    r"#(?P<key>[A-Z2-7]{26}),(?P<poll>[A-Z2-7]{26})(,(?P<code>[A-Z2-7]+))?",
    re.ASCII,
)


def _fingerprint(separator: str, content: bytes) -> str:
    digest = hashlib.sha256(separator.encode() + b"\0" + content).digest()
    return base64.b32encode(digest).decode()[:_DIGITS]


def key_fingerprint(raw: bytes) -> str:
    """The fingerprint of a public key: more digits of what its id begins with."""
    return _fingerprint("deniable key 1", raw)


def poll_fingerprint(content: bytes) -> str:
    """The fingerprint of a poll's document."""
    return _fingerprint(FORMAT, content)


def page_policy(document: dict[str, Any]) -> str:
    """The page's content security policy: it may reach the poll's services and nothing else."""
    services = [each["url"] for each in document["proxies"]] + [document["aggregator"]]
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src"
        f" 'self' {' '.join(dict.fromkeys(services))}; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types poll"
    )


@dataclass(frozen=True)
class Link:
    """What people are given: where the page is, and what it must show.

    >>> link = Link("https://poll.example", "A" * 26, "B" * 26)
    >>> Link.read(str(link)) == link
    True
    """

    page: str
    key: str
    poll: str
    code: str = ""

    def __str__(self) -> str:
        return f"{self.page}/#{self.key},{self.poll}{',' if self.code else ''}{self.code}"

    @classmethod
    def read(cls, text: str) -> Link:
        """The link in a text."""
        found = _LINK.fullmatch(text)
        if found is None:
            raise ParameterError("link", text, "must be a poll's link: https://…/#KEY,POLL")
        return cls(found["page"], found["key"], found["poll"], found["code"] or "")
