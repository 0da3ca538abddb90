"""The proxies' HTTP interface, as a device uses it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from deniable.client.upload import REQUEST_SECONDS
from deniable.errors import ResponseError, UploadError
from deniable.queries.signed.bounded_json import MOST_FIELDS, decode
from deniable.queries.signed.signing import LARGEST_LIST, MOST_LISTED
from deniable.service.http.reading import Answer, ask

__all__ = ["HttpTransport", "read_list", "refusal"]

_FINAL = frozenset({400, 409, 410, 413, 415})
"""A proxy's problems for shares it will never accept: not records, changed, closed epoch, too long,
not bytes."""
_EARLY = frozenset({404, 422})
"""Its problems for shares it does not accept yet: unknown query, or an epoch its clock has not
reached."""
_NOT_MODIFIED = 304
_LONGEST_REASON = 200
_KEY_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])", re.ASCII)
_MOST_REVOKED = 1024


class HttpTransport:
    """HTTP with httpx: `POST /v1/shares` with the device's token as bearer, and `GET /v1/queries`
    without.

    Polls use separate connections, so that a connection that has carried a token never carries a
    poll.
    """

    def __init__(self, timeout: float = REQUEST_SECONDS, client: Any = None) -> None:
        import httpx  # noqa: PLC0415 - slow to import

        if client is None:
            authorities = httpx.create_ssl_context()  # takes 40 ms: once for both
            self._client = httpx.Client(timeout=timeout, follow_redirects=False, verify=authorities)
            self._polling = httpx.Client(
                timeout=timeout, follow_redirects=False, verify=authorities
            )
        else:
            self._client = self._polling = client
        self._known: dict[str, tuple[str, list[bytes]]] = {}
        """For each proxy, the tag and the list of queries it last sent: while they are unchanged,
        it need not send them again."""
        self._skews: dict[str, float] = {}
        self._revoked: dict[str, frozenset[str]] = {}

    def __enter__(self) -> HttpTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._polling.close()

    concurrent = True

    def skew(self, proxy: str) -> float | None:
        """From the `Date` header of the proxy's last list of queries, which is in whole seconds."""
        return self._skews.get(proxy)

    def revoked(self, proxy: str) -> frozenset[str]:
        """From the `Revoked-Keys` header of the proxy's last list of queries."""
        return self._revoked.get(proxy, frozenset())

    def enrol(self, proxy: str, request: Mapping[str, str], token: str | None = None) -> str:
        """A token from a proxy: a first one or, given `token`, its replacement."""
        path = "/v1/enrol/rotate" if token else "/v1/enrol"
        answer = self._ask(
            "POST",
            proxy,
            path,
            token,
            json.dumps(dict(request)).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            said = decode(answer.content, MOST_FIELDS)["token"]
        except (KeyError, TypeError, ValueError):
            said = None
        if (
            not isinstance(said, str)
            or not said.isascii()
            or not said.isprintable()
            or not 16 <= len(said) <= 200
        ):
            raise UploadError("its response contains no token")
        return said

    def send(self, proxy: str, token: str, body: bytes) -> None:
        """Post the records."""
        self._ask(
            "POST", proxy, "/v1/shares", token, body, {"Content-Type": "application/octet-stream"}
        )

    def queries(self, proxy: str) -> list[bytes]:
        """Get the list of signed queries."""
        tag, known = self._known.get(proxy, ("", []))
        self._skews.pop(proxy, None)
        response = self._ask(
            "GET", proxy, "/v1/queries", None, headers={"If-None-Match": tag} if tag else {}
        )
        said = _date(response.headers.get("Date", ""))
        if said is not None:
            self._skews[proxy] = said - time.time()
        self._revoked[proxy] = frozenset(
            _KEY_ID.findall(response.headers.get("Revoked-Keys", ""))[:_MOST_REVOKED]
        )
        if tag and response.status == _NOT_MODIFIED:
            return known
        listed = read_list(response.content)
        self._known[proxy] = (response.headers.get("ETag", ""), listed)
        return listed

    def _ask(
        self,
        method: str,
        proxy: str,
        path: str,
        token: str | None,
        body: bytes | None = None,
        headers: Any = None,
    ) -> Answer:
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        client = self._client if token else self._polling
        try:
            response = ask(
                client,
                method,
                proxy.rstrip("/") + path,
                LARGEST_LIST,
                content=body,
                headers=headers,
            )
        except ResponseError as error:
            raise UploadError(error.detail, unsent=error.unsent) from None
        if response.is_success or (response.status == _NOT_MODIFIED and "If-None-Match" in headers):
            return response
        after = response.headers.get("Retry-After", "")
        wait = int(after) if after.isascii() and after.isdecimal() and len(after) < 8 else 0
        raise refusal(response.status, _reason(response), wait)


def refusal(status: int, reason: str = "", retry_after: int = 0) -> UploadError:
    """What a proxy's status means for the shares it did not accept."""
    return UploadError(
        f"answered {status}{reason}", retry_after, final=status in _FINAL, early=status in _EARLY
    )


def _reason(response: Answer) -> str:
    """What a proxy's problem document says, shortened: it is shown to the owner."""
    try:
        problem = decode(response.content, MOST_FIELDS)
    except ValueError:
        return ""
    said = problem.get("detail") or problem.get("title") if isinstance(problem, dict) else None
    return f" ({said[:_LONGEST_REASON]})" if isinstance(said, str) and said else ""


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def read_list(content: bytes) -> list[bytes]:
    """The signed queries in a proxy's list, each as bytes. They are not parsed here."""
    try:
        tree = decode(content, MOST_LISTED * MOST_FIELDS)
    except ValueError as error:
        raise UploadError(f"its list of queries is unusable: {error}") from None
    listed = tree.get("queries") if isinstance(tree, dict) else tree
    if not isinstance(listed, list) or len(listed) > MOST_LISTED:
        raise UploadError(f"its list of queries is not a list of at most {MOST_LISTED}")
    return [
        each.encode(errors="replace") if isinstance(each, str) else json.dumps(each).encode()
        for each in listed
    ]
