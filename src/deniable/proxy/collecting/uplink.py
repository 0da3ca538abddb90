"""From a process that terminates devices' connections to the proxy that takes their shares: all
waiting uploads in one request.

Nothing is stored here: an upload is acknowledged once the proxy has it durably. If the proxy is
unreachable or does not respond, the device is asked to retry, and the proxy recognises what it has
already taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx

from deniable.errors import RefusedError, ResponseError, WireError
from deniable.proxy.intake.uploads import Upload, UploadReceipt
from deniable.proxy.intake.worker import Result, UploadWorker
from deniable.service.faults import name_of_error
from deniable.service.http.reading import ask
from deniable.service.tokens import Token
from deniable.wire.batches import (
    LARGEST_BATCH,
    UploadOutcome,
    batched_bytes,
    pack_batch,
    unpack_outcomes,
)

__all__ = ["REFUSALS_HEADER", "Uplink", "UplinkWorker"]

REFUSALS_HEADER = "Deniable-Refused"
"""What a worker has refused itself since its last report, as `reason=count,…`."""
_LARGEST_ANSWER = 64 << 20
_SECONDS = 60.0


class Uplink:
    """Requests to one proxy, under one token. Used by one thread at a time."""

    def __init__(
        self,
        address: str,
        token: str,
        verify: Any = True,
        socket: str | None = None,
        seconds: float = _SECONDS,
    ) -> None:
        """`socket` is the path of a Unix socket on which the proxy listens; the address is then
        only a name."""
        transport = httpx.HTTPTransport(
            verify=verify, uds=socket, limits=httpx.Limits(max_keepalive_connections=2)
        )
        self._client = httpx.Client(
            transport=transport, timeout=seconds, follow_redirects=False, trust_env=False
        )
        self._address, self._headers = address.rstrip("/"), {"Authorization": f"Bearer {token}"}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def send(self, uploads: Sequence[Upload], refusals: str = "") -> list[UploadOutcome]:
        """The outcomes of the uploads; raises :class:`RefusedError` if the proxy does not report
        them."""
        body = pack_batch([each.client for each in uploads], [each.content for each in uploads])
        headers = {**self._headers, "Content-Type": "application/octet-stream"}
        if refusals:
            headers[REFUSALS_HEADER] = refusals
        try:
            answer = ask(
                self._client,
                "POST",
                f"{self._address}/v1/batches",
                _LARGEST_ANSWER,
                content=body,
                headers=headers,
            )
            if answer.status != 200:
                raise ResponseError(answer.status, "refused", f"answered {answer.status}")
            outcomes = unpack_outcomes(answer.content)
            if len(outcomes) != len(uploads):
                raise WireError("count", f"{len(outcomes)} outcomes of {len(uploads)} uploads")
        except (ResponseError, WireError) as error:
            detail = "the proxy behind this collector cannot take shares now; retry later"
            raise RefusedError("upstream", 503, detail, retry_after=5) from error
        return outcomes

    def fetch(self, path: str, tag: str, largest: int) -> tuple[bytes, str, str] | None:
        """The content at a path of the proxy, its ETag, and the revoked keys; None if `tag` is
        still current."""
        headers = {**self._headers, **({"If-None-Match": tag} if tag else {})}
        answer = ask(self._client, "GET", f"{self._address}{path}", largest, headers=headers)
        if answer.status == 304 and tag:
            return None
        if answer.status != 200:
            raise ResponseError(
                answer.status, "refused", f"GET {path} was answered with {answer.status}"
            )
        return (
            answer.content,
            answer.headers.get("ETag", ""),
            answer.headers.get("Revoked-Keys", ""),
        )


class UplinkWorker(UploadWorker):
    """Sends all waiting uploads to the proxy in as few requests as possible."""

    def __init__(self, uplink: Uplink, refusals: Counter[str], tell_refusals: bool = False) -> None:
        """With `tell_refusals`, the proxy adds what is refused here to its own counts."""
        super().__init__(lambda: None, "uplink")
        self._uplink, self._refusals, self._tell = uplink, refusals, tell_refusals
        self._told: Counter[str] = Counter()
        self.counters: Counter[str] = Counter()
        """uploads, shares, batches: acknowledged since the start; failed: batches whose outcome the
        proxy did not report."""
        self.reachable = True
        self.upstream_fault = ""
        """The name of the fault that last made the proxy unreachable."""

    def sender(self, token: Token) -> bytes:
        """The token's hash: the proxy looks the token up again, and counts its holder's quota."""
        return token.hash

    def take(self, uploads: Sequence[Upload]) -> Sequence[Result]:
        """Send them, and return the proxy's result for each."""
        results: list[Result] = []
        for batch in _batches(uploads):
            try:
                outcomes = self._send(batch)
            except RefusedError as error:
                self.counters["failed"] += 1
                results += [error] * len(batch)
                continue
            results += map(_result, outcomes)
            self.counters["batches"] += 1
            self.counters["uploads"] += len(batch)
            self.counters["shares"] += sum(each.accepted for each in outcomes)
        return results

    def _send(self, batch: Sequence[Upload]) -> list[UploadOutcome]:
        news = Counter(self._refusals) - self._told if self._tell else Counter()
        try:
            outcomes = self._uplink.send(
                batch, ",".join(f"{reason}={n}" for reason, n in news.items())
            )
        except RefusedError as error:
            self.reachable = False
            self.upstream_fault = name_of_error(error.__cause__ or error)
            raise
        self._told += news
        self.reachable = True
        return outcomes

    def tick(self) -> None:
        """Report to the proxy what was refused here, if no batch has done so."""
        if self._tell and Counter(self._refusals) - self._told:
            try:
                self._send([])
            except RefusedError:
                return

    def end(self) -> None:
        """Close the connections."""
        self._uplink.close()


def _batches(uploads: Sequence[Upload]) -> list[Sequence[Upload]]:
    batches, start, n_bytes = [], 0, 0
    for i, upload in enumerate(uploads):
        n_bytes += batched_bytes(upload.content)
        if n_bytes > LARGEST_BATCH - 1024 and i > start:
            batches.append(uploads[start:i])
            start, n_bytes = i, batched_bytes(upload.content)
    return [*batches, uploads[start:]]


def _result(outcome: UploadOutcome) -> Result:
    return (
        RefusedError(*outcome.refusal)
        if outcome.refusal
        else UploadReceipt(outcome.accepted, outcome.already)
    )


def parse_refusals(text: str) -> Counter[str]:
    """The counts in :data:`REFUSALS_HEADER`; empty if it cannot be parsed."""
    found: Counter[str] = Counter()
    for part in text.split(","):
        reason, _, n = part.partition("=")
        if reason.replace("_", "").isalpha() and n.isascii() and n.isdecimal() and len(n) < 12:
            found[reason] += int(n)
    return found
