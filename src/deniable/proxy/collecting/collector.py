"""A collector: terminates connections close to the devices, and forwards their uploads to the one
proxy it belongs to.

It is part of that proxy: like the proxy, it sees who sends, and shares that are noise without those
of the other proxies. It must never serve two proxies of one query. It stores nothing, and
acknowledges an upload once its proxy has it durably. Tokens are checked here and again by the
proxy, which also counts quotas: only the proxy has seen every message id, so a retry costs nothing
and two collectors do not give a device two quotas.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Response
from starlette.concurrency import run_in_threadpool

from deniable.errors import RefusedError, ResponseError, SettingsError
from deniable.proxy.collecting.settings import CollectorSettings
from deniable.proxy.collecting.uplink import Uplink, UplinkWorker
from deniable.proxy.intake.admission import (
    DEVICE_PATHS,
    Admission,
    Listed,
    OneQuery,
    QueryList,
    ShareUploads,
)
from deniable.proxy.web.app_errors import add_errors
from deniable.proxy.web.documents import (
    COLLECTOR_OPERATIONS,
    CollectorHealthPage,
    describe_uploads,
)
from deniable.queries.signed.signing import LARGEST_LIST, SignedQuery
from deniable.service.background import Background
from deniable.service.certificate_expiry import certificate_families, end_of_file
from deniable.service.faults import (
    FaultWatch,
    ServiceFault,
    expiring,
    fault_families,
    health_document,
    name_of_error,
)
from deniable.service.http.cross_origin import PREFLIGHTS, CrossOrigin
from deniable.service.http.feed_api import FEED_OPERATIONS
from deniable.service.http.hosting import Endpoint, freeze_garbage, write_json_lines
from deniable.service.http.hot_path import HotAddress, HotFront
from deniable.service.http.openapi import describe
from deniable.service.http.server import Number
from deniable.service.metrics import CONTENT_TYPE, counter, exposition, gauge
from deniable.service.query_feed import FEED_ADDRESS, LARGEST_FEED_PAGE
from deniable.service.tokens import Token

__all__ = ["Collector", "create_collector_app", "serve_collector"]

_LOGGER = logging.getLogger("deniable.collector")
_HASH_BYTES = 32
_LARGEST_TOKEN_LIST = 1 << 30
_SWITCH = 0.0005
"""Seconds after which the thread that sends batches yields to the one that handles connections."""
_COUNTERS = {
    "uploads": ("uploads_forwarded_total", "Uploads whose outcome the proxy has reported."),
    "shares": ("shares_accepted_total", "Shares that the proxy accepted and made durable."),
    "batches": ("batches_total", "Requests that carried them to the proxy."),
    "failed": (
        "batches_failed_total",
        "Requests to which the proxy gave no usable answer; devices were asked to retry.",
    ),
}


class Collector:
    """The state of a running collector: what its proxy knew a few seconds ago, and what is in
    progress."""

    def __init__(self, settings: CollectorSettings) -> None:
        self.settings = settings
        verify = settings.trusted()
        token = settings.token()
        self.refusals: Counter[str] = Counter()
        self.worker = UplinkWorker(Uplink(settings.proxy, token, verify), self.refusals)
        self._reading = Uplink(settings.proxy, token, verify, seconds=settings.silent)
        self._following = Background("follower of the proxy", self._follow, _LOGGER)
        self._tokens: dict[bytes, Token] = {}
        self._queries: Listed | None = None
        self._by_id: tuple[str, dict[str, bytes]] = "", {}
        """The queries of the list with this ETag."""
        self._tokens_tag = ""
        self.admission = Admission(settings.limits, self._known_tokens)
        self._fault = "proxy_unreachable"
        self.watch = FaultWatch(self.faults, _LOGGER)

    def start(self) -> None:
        """Start accepting uploads."""
        self.worker.start()
        self._following.start()
        self.watch.start()

    def stop(self) -> None:
        """Forward what was handed in, and close the connections."""
        self.watch.stop()
        self._following.stop()
        self.worker.stop()
        self._reading.close()

    @property
    def problem(self) -> str:
        """Why it cannot serve devices; empty if it can."""
        if self._queries is None or self._following.problem:
            return self._following.problem or "the proxy has not been reached yet"
        return "" if self.worker.reachable else "the proxy cannot be reached"

    @property
    def alive(self) -> bool:
        """Whether all its threads are running: if one has ended, only a restart helps."""
        return not self._following.ended and not self.worker.failed

    def faults(self) -> list[ServiceFault]:
        """What is wrong now."""
        found = []
        if self.problem:
            name = (
                "ended"
                if not self.alive
                else self._fault
                if self._following.problem
                else self.worker.upstream_fault
            )
            found.append(
                ServiceFault(
                    name or "proxy_unreachable", self.settings.proxy, self.problem, stops=True
                )
            )
        try:
            self.settings.token()
        except SettingsError as error:
            found.append(ServiceFault("token", "token_file", str(error)))
        if self.settings.tls is not None:
            found += expiring(
                "tls.certificate", end_of_file(self.settings.tls.certificate), time.time()
            )
        return found

    def health_report(self) -> CollectorHealthPage:
        """The health page."""
        return {**health_document(self.faults()), "proxy": self.problem or "running"}

    def _follow(self) -> float:
        """Ask the proxy for its tokens and queries."""
        try:
            found = self._reading.fetch("/v1/tokens", self._tokens_tag, _LARGEST_TOKEN_LIST)
            if found is not None:
                content, self._tokens_tag, _ = found
                hashes = (content[i : i + _HASH_BYTES] for i in range(0, len(content), _HASH_BYTES))
                self._tokens = {each: Token(each, "device", None) for each in hashes}
            found = self._reading.fetch(
                "/v1/queries", self._queries[1] if self._queries else "", LARGEST_LIST + (1 << 16)
            )
            if found is not None:
                self._queries = found
        except ResponseError as error:
            self._fault = name_of_error(error)
            raise ConnectionError(f"the proxy {error.detail}") from None
        self.worker.reachable = True
        return float(self.settings.refresh)

    def _known_tokens(self) -> dict[bytes, Token]:
        # until the proxy is reached no token is known, and none must be refused for that
        self.listed()
        return self._tokens

    def listed(self) -> Listed:
        """The proxy's list of queries, its ETag, and the revoked keys."""
        if self._queries is None:
            raise RefusedError(
                "upstream",
                503,
                "the proxy behind this collector has not been reached yet",
                retry_after=5,
            )
        return self._queries

    def one(self, query_id: str) -> Listed | None:
        """One query of the proxy's list; None if it is not there."""
        content, etag, revoked = self.listed()
        if self._by_id[0] != etag:
            each = [
                json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode()
                for one in json.loads(content)
            ]
            self._by_id = etag, {SignedQuery.from_bytes(one).header().id: one for one in each}
        found = self._by_id[1].get(query_id)
        if found is None:
            return None
        return found, f'"{hashlib.sha256(found + revoked.encode()).hexdigest()[:32]}"', revoked

    def feed_page(self, after: int, limit: int) -> bytes:
        """A page of the proxy's public feed, unchanged."""
        try:
            found = self._reading.fetch(
                f"{FEED_ADDRESS}?after={after}&limit={limit}", "", 3 * LARGEST_FEED_PAGE
            )
        except ResponseError:
            found = None
        if found is None:
            raise RefusedError(
                "upstream", 503, "the proxy behind this collector cannot be reached", retry_after=5
            )
        return found[0]

    def metrics(self) -> bytes:
        """The text that Prometheus scrapes."""
        counters = [
            counter(name, text, self.worker.counters[key])
            for key, (name, text) in _COUNTERS.items()
        ]
        refusals = [
            ({"reason": reason}, n)
            for reason, n in sorted(self.refusals.items())
            if reason != PREFLIGHTS
        ]
        others = [
            counter(
                "refused_total",
                "Requests that were refused, by reason, here or by the proxy.",
                refusals,
            ),
            counter(
                "preflights_total",
                "Browsers that asked what a page may send.",
                self.refusals[PREFLIGHTS],
            ),
            gauge("proxy_away", "1 while the proxy cannot be reached.", int(self.problem != "")),
            gauge(
                "bytes_receiving",
                "Bytes of uploads received that wait for the proxy.",
                self.admission.n_receiving,
            ),
            gauge("tokens", "Tokens of devices that the proxy knows.", len(self._tokens)),
            gauge(
                "uploads_waiting",
                "Requests whose shares wait to be sent to the proxy.",
                self.worker.n_uploads_waiting,
            ),
            gauge(
                "take_seconds",
                "How long the last uploads took to be made durable.",
                self.worker.take_seconds,
            ),
            *certificate_families(self.settings.tls, time.time()),
            *fault_families(self.watch),
        ]
        return exposition("deniable_collector", counters + others)


def create_collector_app(collector: Collector) -> HotFront:
    """A collector's HTTP application: the endpoints devices use, and those an operator needs."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        collector.start()
        yield
        await asyncio.get_running_loop().run_in_executor(None, collector.stop)

    app = FastAPI(
        title="deniable collector",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_errors(app, collector.refusals)

    describe_uploads(app)
    describe(app, {**COLLECTOR_OPERATIONS, **FEED_OPERATIONS})

    @app.get("/healthz")
    async def liveness() -> Response:
        """200 while the collector runs, whether or not it can forward uploads to the proxy."""
        return Response(
            json.dumps(collector.health_report()),
            200 if collector.alive else 503,
            media_type="application/json",
        )

    @app.get("/readyz")
    async def readiness() -> Response:
        """200 while uploads can be forwarded to the proxy, 503 otherwise."""
        report = collector.health_report()
        return Response(
            json.dumps(report),
            503 if report["status"] == "failed" else 200,
            media_type="application/json",
        )

    @app.get(FEED_ADDRESS)
    async def public_feed(after: Number = 0, limit: Number = 1000) -> Response:
        """The public feed of the proxy behind this collector, unchanged."""
        return Response(
            await run_in_threadpool(collector.feed_page, after, limit),
            media_type="application/json",
        )

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counters and gauges for Prometheus."""
        return Response(collector.metrics(), media_type=CONTENT_TYPE)

    def count(reason: str) -> None:
        collector.refusals[reason] += 1

    limits = collector.settings.limits
    addresses: list[HotAddress] = [
        ShareUploads(collector.admission, collector.worker, count),
        QueryList(limits, collector.listed),
    ]
    pages = CrossOrigin.of(collector.settings.browser, DEVICE_PATHS)
    return HotFront(app, addresses, collector.refusals, [OneQuery(limits, collector.one)], pages)


def serve_collector(
    settings: CollectorSettings, announce: Callable[[str], None] = lambda _: None
) -> None:
    """Run a collector until SIGTERM or SIGINT."""
    write_json_lines("deniable.collector")
    sys.setswitchinterval(_SWITCH)
    place = Endpoint(settings.host, settings.port, settings.tls)
    _ = place.tls_context  # report a mistake in it before anything is opened
    collector = Collector(settings)
    listener = place.listen()
    server = place.server(create_collector_app(collector), settings.limits, collector.refusals)

    def stop(*_: object) -> None:
        server.should_exit = True

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    announce(place.address(listener))
    _LOGGER.info(
        "started",
        extra={"fields": {"port": listener.getsockname()[1], "tls": settings.tls is not None}},
    )
    freeze_garbage()
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
    _LOGGER.info("stopped", extra={"fields": {"forwarded": collector.worker.counters["uploads"]}})
