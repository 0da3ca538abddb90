"""Who may upload, and how much at a time: the same for a proxy, for its workers, and for a
collector in front of it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deniable.errors import RefusedError
from deniable.proxy.intake.uploads import Upload, UploadReceipt
from deniable.proxy.intake.worker import Result, UploadWorker
from deniable.service.http.cross_origin import OpenPaths
from deniable.service.http.hot_path import Headers, Reply, header, refusal
from deniable.service.http.limits import ConnectionLimits
from deniable.service.http.request_rules import several_tokens
from deniable.service.query_feed import FEED_ADDRESS
from deniable.service.tokens import Role, Token

__all__ = ["DEVICE_PATHS", "SHARES", "Admission", "Listed", "OneQuery", "QueryList", "ShareUploads"]

SHARES = "application/octet-stream"
_SHARES = SHARES.encode()
_ONE_TAKEN = Reply(202, b"content-type: application/json\r\n", b'{"accepted":1,"already":0}')

_ONE_QUERY = re.compile(rb"/v1/queries/[^/?]+")
DEVICE_PATHS = OpenPaths(
    {
        b"/v1/shares": b"POST",
        b"/v1/queries": b"GET",
        b"/v1/answers": b"POST",
        b"/v1/enrol": b"POST",
        b"/v1/enrol/rotate": b"POST",
        FEED_ADDRESS.encode(): b"GET",
    },
    [(_ONE_QUERY, b"GET")],
)
"""What devices use of a proxy, and web pages if the operator names their origins."""


@dataclass
class _Holder:
    """Uploads in progress of one client."""

    n_uploads: int = 0
    n_bytes: int = 0


class Admission:
    """The known tokens, and the uploads in progress of each client."""

    def __init__(
        self,
        limits: ConnectionLimits,
        tokens: Callable[[], Mapping[bytes, Token]],
        workers_token: Token | None = None,
    ) -> None:
        """`tokens` returns all current tokens by hash; the token of a proxy's own workers is in no
        file."""
        self.limits, self._workers_token = limits, workers_token
        self.on_refused: Callable[[str, str, int], None] = lambda *_: None
        """Called with each refusal: whose token it was, the address and the status."""
        self._tokens = tokens
        self._known: Mapping[bytes, Token] | None = None
        self.n_receiving = 0
        """Bytes of bodies that have arrived and are still being received or examined. Announced
        bytes do not count."""
        self.holders: dict[bytes, _Holder] = {}
        """Holders of uploads in progress, by client."""

    def authorize(self, authorization: bytes, address: str, *roles: Role) -> Token:
        """The token in a header, if it has one of these roles. `address` is the requested
        endpoint."""
        scheme, _, shown = authorization.partition(b" ")
        token = self._find(shown.strip()) if scheme.lower() == b"bearer" else None
        if token is None:
            self.on_refused("unknown token" if shown else "no token", address, 401)
            raise RefusedError("token", 401, "a bearer token known to this proxy is required")
        if token.role not in roles:
            self.on_refused(f"token:{token.id}", address, 403)
            raise RefusedError(
                "role",
                403,
                f"this token has the role {token.role}; this request needs {' or '.join(roles)}",
            )
        return token

    def _find(self, shown: bytes) -> Token | None:
        name = hashlib.sha256(shown).digest()
        if self._workers_token is not None and name == self._workers_token.hash:
            return self._workers_token
        found = self.known().get(name)
        # it may have been created after tokens were last read in this round of the loop
        if found is None:
            self._known = None
            found = self.known().get(name)
        return found

    def known(self) -> Mapping[bytes, Token]:
        """All tokens by hash. Checked for changes once per round of the event loop, not once per
        request."""
        known = self._known
        if known is None:
            known = self._known = self._tokens()
            asyncio.get_running_loop().call_soon(self._forget)
        return known

    def _forget(self) -> None:
        self._known = None

    def hold(self, token: Token) -> _Holder:
        """Count one more upload under a token; refused if it has reached its limit of concurrent
        uploads."""
        most = self.limits.most_uploads_per_token
        holder = self.holders.get(token.client)
        if holder is None:
            holder = self.holders[token.client] = _Holder()
        elif holder.n_uploads >= most:
            raise RefusedError(
                "token_busy",
                429,
                f"at most {most} concurrent uploads are accepted under one token",
                retry_after=1,
            )
        holder.n_uploads += 1
        return holder


class ShareUploads:
    """`POST /v1/shares`: one or more share records. Either all are accepted or none; 202 once they
    are durable."""

    method, path = b"POST", b"/v1/shares"

    def __init__(
        self, admission: Admission, worker: UploadWorker, on_refusal: Callable[[str], None]
    ) -> None:
        self.admission, self.worker, self.on_refusal = admission, worker, on_refusal
        self.largest, self.deadline = (
            admission.limits.largest_body,
            float(admission.limits.body_deadline),
        )

    def begin(self, headers: Headers) -> _ShareUpload:
        """Authorize the sender and check the media type."""
        media_type, authorization = b"", None
        for name, value in headers:  # one pass, for it is done for every upload
            if name == b"authorization":
                if authorization is not None:
                    raise several_tokens()
                authorization = value
            elif name == b"content-type":
                media_type = value
        token = self.admission.authorize(authorization or b"", "POST /v1/shares", "device")
        if media_type != _SHARES and media_type.partition(b";")[0].strip().lower() != _SHARES:
            raise RefusedError("media_type", 415, f"shares must be sent as {SHARES}")
        return self.of(token)

    def of(self, token: Token) -> _ShareUpload:
        """An upload under a token that is known to be a device's."""
        return _ShareUpload(self, token, self.admission.hold(token))


class _ShareUpload:
    """An upload in progress, and how many of its bytes have arrived."""

    __slots__ = ("_holder", "_n_bytes", "_token", "_uploads")

    def __init__(self, uploads: ShareUploads, token: Token, holder: _Holder) -> None:
        self._uploads, self._token, self._holder = uploads, token, holder
        self._n_bytes = 0

    def received(self, n_bytes: int) -> None:
        """Count bytes that have arrived, and refuse them if one token, or all together, exceed
        their limit."""
        admission = self._uploads.admission
        self._n_bytes += n_bytes
        self._holder.n_bytes += n_bytes
        admission.n_receiving += n_bytes
        limits = admission.limits
        if self._holder.n_bytes > max(limits.largest_body, limits.most_waiting // 2):
            raise RefusedError(
                "token_busy",
                429,
                "too many bytes are being uploaded under one token; retry later",
                retry_after=1,
            )
        if admission.n_receiving > limits.most_waiting:
            raise RefusedError("busy", 503, "the proxy is at capacity; retry later", retry_after=1)

    def finish(self, body: bytes, send: Callable[[Reply], None]) -> None:
        """Hand it in, and respond once it is durable or refused."""

        def done(results: Sequence[Result]) -> None:
            (result,) = results
            if isinstance(result, UploadReceipt):
                send(_ONE_TAKEN if result == (1, 0) else _taken(result))
            else:
                self._uploads.on_refusal(result.reason)
                send(refusal(result))

        worker = self._uploads.worker
        token = self._token
        worker.hand_in([Upload(worker.sender(token), token.quota, body, token.bound)], done)

    def close(self) -> None:
        """Release what it held."""
        admission = self._uploads.admission
        self._holder.n_uploads -= 1
        self._holder.n_bytes -= self._n_bytes
        admission.n_receiving -= self._n_bytes
        if not self._holder.n_uploads:
            del admission.holders[self._token.client]


def _taken(receipt: UploadReceipt) -> Reply:
    return Reply(202, _ONE_TAKEN.headers, b'{"accepted":%d,"already":%d}' % receipt)


Listed = tuple[bytes, str, str]
"""What devices receive: content, its ETag, and the comma-separated ids of revoked keys."""


class QueryList:
    """`GET /v1/queries`: the signed queries that devices may answer, as a JSON list. No token is
    needed."""

    method, path = b"GET", b"/v1/queries"

    def __init__(self, limits: ConnectionLimits, listed: Callable[[], Listed]) -> None:
        self.largest, self.deadline = limits.largest_body, float(limits.body_deadline)
        self._listed = listed

    def begin(self, headers: Headers) -> _Poll:
        """Anyone may ask."""
        return _Poll(self._listed, header(headers, b"if-none-match"))


class OneQuery:
    """`GET /v1/queries/{id}`: one signed query. No token is needed."""

    method, path = b"GET", b"/v1/queries/"

    def __init__(self, limits: ConnectionLimits, find: Callable[[str], Listed | None]) -> None:
        self._limits, self._find = limits, find

    def at(self, path: bytes) -> _QueryAddress | None:
        """The address of one query."""
        return (
            _QueryAddress(self._limits, path, self._listed) if _ONE_QUERY.fullmatch(path) else None
        )

    def _listed(self, path: bytes) -> Listed:
        found = self._find(path.removeprefix(self.path).decode("latin-1"))
        if found is None:
            raise RefusedError("unknown_query", 404, "there is no such query on the board")
        return found


class _QueryAddress:
    method = b"GET"

    def __init__(
        self, limits: ConnectionLimits, path: bytes, listed: Callable[[bytes], Listed]
    ) -> None:
        self.largest, self.deadline, self.path = (
            limits.largest_body,
            float(limits.body_deadline),
            path,
        )
        self._listed = listed

    def begin(self, headers: Headers) -> _Poll:
        """Anyone may ask."""
        return _Poll(lambda: self._listed(self.path), header(headers, b"if-none-match"))


class _Poll:
    """A request for queries, and the ETags its sender already has."""

    __slots__ = ("_listed", "_shown")

    def __init__(self, listed: Callable[[], Listed], shown: bytes) -> None:
        self._listed, self._shown = listed, shown

    def received(self, n_bytes: int) -> None:
        """Ignore the body."""

    def finish(self, body: bytes, send: Callable[[Reply], None]) -> None:
        """Send them, or 304 if they have not changed."""
        content, etag, revoked = self._listed()
        lines = b"etag: %b\r\ncache-control: no-cache\r\n" % etag.encode()
        if revoked:
            lines += b"revoked-keys: %b\r\n" % revoked.encode()
        shown = self._shown.decode("latin-1")
        if shown and (
            shown.strip() == "*"
            or etag in (tag.strip().removeprefix("W/") for tag in shown.split(","))
        ):
            send(Reply(304, lines, b""))
        else:
            send(Reply(200, lines + b"content-type: application/json\r\n", content))

    def close(self) -> None:
        """Nothing to release."""
