"""Requests that only collectors and workers send to a proxy: batches of gathered uploads, and the
list of known tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from deniable.errors import RefusedError, WireError
from deniable.proxy.collecting.uplink import REFUSALS_HEADER, parse_refusals
from deniable.proxy.intake.admission import SHARES, Admission
from deniable.proxy.intake.uploads import Upload
from deniable.proxy.intake.worker import Result, UploadWorker
from deniable.service.http.hot_path import Headers, Reply, header
from deniable.service.http.request_rules import check_authorization
from deniable.service.tokens import Token
from deniable.wire.batches import LARGEST_BATCH, UploadOutcome, pack_outcomes, unpack_batch

__all__ = ["BatchUploads", "TokenList"]

_REFUSALS_HEADER = REFUSALS_HEADER.lower().encode()
_BINARY = f"content-type: {SHARES}\r\n".encode()


class BatchUploads:
    """`POST /v1/batches`: the uploads of many devices. Each is accepted or refused whole,
    independently of the others.

    Tokens are looked up again here: a revoked one is refused at once, even if the collector does
    not know of it yet.
    """

    method, path = b"POST", b"/v1/batches"
    largest = LARGEST_BATCH

    def __init__(
        self, admission: Admission, worker: UploadWorker, count: Callable[[str, int], None]
    ) -> None:
        self.admission, self.worker, self.count = admission, worker, count
        self.deadline = float(admission.limits.body_deadline)

    def begin(self, headers: Headers) -> _Batch:
        """Authorize the sender."""
        self.admission.authorize(check_authorization(headers), "POST /v1/batches", "collector")
        for reason, n in parse_refusals(
            header(headers, _REFUSALS_HEADER).decode("latin-1")
        ).items():
            self.count(reason, n)
        return _Batch(self)


class _Batch:
    def __init__(self, batches: BatchUploads) -> None:
        self._batches = batches
        self._n_bytes = 0

    def received(self, n_bytes: int) -> None:
        """Count bytes that have arrived, and refuse them if all requests together exceed the
        limit."""
        admission = self._batches.admission
        self._n_bytes += n_bytes
        admission.n_receiving += n_bytes
        if admission.n_receiving > admission.limits.most_waiting + LARGEST_BATCH:
            raise RefusedError("busy", 503, "the proxy is at capacity; retry later", retry_after=1)

    def finish(self, body: bytes, send: Callable[[Reply], None]) -> None:
        """Hand in the uploads whose tokens are known, and respond for all of them."""
        try:
            brought = unpack_batch(body)
        except WireError as error:
            raise RefusedError(error.reason, 400, error.detail) from None
        known = self._batches.admission.known()
        tokens = [known.get(client) for client, _ in brought]
        good = [token is not None and token.role == "device" for token in tokens]
        uploads = [
            Upload(token.client, token.quota, content, token.bound)
            for (_, content), token in zip(brought, tokens, strict=True)
            if token is not None and token.role == "device"
        ]

        def done(results: Sequence[Result]) -> None:
            left = iter(results)
            outcomes = [self._outcome(next(left)) if each else _UNKNOWN for each in good]
            send(Reply(200, _BINARY, pack_outcomes(outcomes)))

        if uploads:
            self._batches.worker.hand_in(uploads, done)
        else:
            done([])

    def _outcome(self, result: Result) -> UploadOutcome:
        if isinstance(result, RefusedError):
            return UploadOutcome(
                0, 0, (result.reason, result.status, result.detail, result.retry_after)
            )
        return UploadOutcome(*result)

    def close(self) -> None:
        """Release what it held."""
        self._batches.admission.n_receiving -= self._n_bytes


_UNKNOWN = UploadOutcome(
    0, 0, ("token", 401, "a bearer token known to this proxy is required", None)
)


class TokenList:
    """`GET /v1/tokens`: the SHA-256 of each device's token, 32 bytes each, so that a collector can
    check tokens itself."""

    method, path = b"GET", b"/v1/tokens"
    largest = 0

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.deadline = float(admission.limits.body_deadline)
        self._listed: tuple[Mapping[bytes, Token], bytes, bytes] | None = None

    def begin(self, headers: Headers) -> _TokenRequest:
        """Authorize the sender."""
        self.admission.authorize(check_authorization(headers), "GET /v1/tokens", "collector")
        return _TokenRequest(self, header(headers, b"if-none-match"))

    def listed(self) -> tuple[bytes, bytes]:
        """The hashes and their ETag, recomputed when the tokens have changed."""
        known = self.admission.known()
        if self._listed is None or self._listed[0] is not known:
            content = b"".join(
                sorted(token.hash for token in known.values() if token.role == "device")
            )
            self._listed = known, content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'.encode()
        return self._listed[1:]


class _TokenRequest:
    def __init__(self, tokens: TokenList, shown: bytes) -> None:
        self._tokens, self._shown = tokens, shown

    def received(self, n_bytes: int) -> None:
        """Ignore the body."""

    def finish(self, body: bytes, send: Callable[[Reply], None]) -> None:
        """Send the list, or 304 if it has not changed."""
        content, tag = self._tokens.listed()
        lines = _BINARY + b"etag: " + tag + b"\r\n"
        send(Reply(304, lines, b"") if self._shown == tag else Reply(200, lines, content))

    def close(self) -> None:
        """Nothing to release."""
