"""A running proxy: its intake, its board of queries, its tokens, and what is wrong with it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from deniable.errors import AuditLogError
from deniable.proxy.board import Board
from deniable.proxy.enrolment import Enrolment
from deniable.proxy.intake.admission import Admission
from deniable.proxy.intake.uploads import Intake
from deniable.proxy.intake.worker import IntakeWorker
from deniable.proxy.settings import ProxySettings
from deniable.proxy.web.peer import PEER
from deniable.queries.header import QueryHeader
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import SignedQuery
from deniable.service.audit_log import SERVICE, AuditLog, RefusalLog, last_event
from deniable.service.certificate_expiry import end_of_file
from deniable.service.faults import (
    FaultWatch,
    HealthDocument,
    ServiceFault,
    expiring,
    health_document,
    low_disk,
)
from deniable.service.files.ring import RingFile
from deniable.service.http.server import read_body
from deniable.service.query_feed import QueryFeed
from deniable.service.tokens import Role, Token, TokenStore

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["ProxyHealthPage", "ProxyService"]

_LOGGER = logging.getLogger("deniable.proxy")


class ProxyHealthPage(HealthDocument):
    """The health page of a proxy."""

    waiting: int
    """Shares that are not in the log yet."""
    log: str
    """ "running", or why its log cannot be written."""


class ProxyService:
    """The state of a running proxy. What was acknowledged is durable; `stop` flushes what is
    waiting."""

    def __init__(
        self,
        settings: ProxySettings,
        clock: Callable[[], int] | None = None,
        on_failure: Callable[[], None] = lambda: None,
        workers_token: str | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock or (lambda: int(time.time()))
        folder = settings.folder
        self.intake = Intake(folder, settings.intake, self.clock, settings.open_log)
        self.tokens = TokenStore(folder / "tokens.db")
        self.audit = AuditLog(settings.audit_path, self.clock, _LOGGER)
        self.refusal_log = RefusalLog(self.audit, time.monotonic, _LOGGER)
        self.feed = QueryFeed(settings.feed_path, self.clock)
        self.ring_file = RingFile(settings.ring, _LOGGER) if settings.ring else None
        self._checked: KeyRing | None = None
        self.board = Board(
            folder / "queries.db", self.clock, self.ring_file.ring if self.ring_file else None
        )
        self.intake.set_channels(self.board.channels(), self.board.tags())
        self.worker = IntakeWorker(self.intake, on_failure)
        self.refusals: Counter[str] = Counter()
        """What the service itself refused, by reason, in addition to the intake's refusals."""
        inside = (
            Token(sha256(workers_token.encode()).digest(), "collector", None)
            if workers_token
            else None
        )
        self.admission = Admission(settings.limits, self.tokens.by_hash, inside)
        self.admission.on_refused = self.refusal_log.note
        self.enrolment = Enrolment(folder, settings.enrolment, self.tokens, self.clock)
        self._has_workers = inside is not None
        self.watch = FaultWatch(self.faults, _LOGGER)

    def start(self) -> None:
        """Start accepting uploads."""
        before = last_event(self.audit.path, "service.started", "service.stopped")
        after = {"": "nothing", "service.stopped": "a stop"}.get(before, "a kill or a power cut")
        self.audit.record("service.started", after=after)
        self.refusal_log.start()
        newest = {}
        for query, signed, stopped in self.board.all():  # queries relayed before the feed existed
            self.feed.published(query, signed, self.clock())
            newest[query.id] = (query, stopped)
        for query, stopped in newest.values():  # earlier versions ended when it was published
            if stopped is not None:
                self.feed.stopped(query, stopped)
        self.follow_ring()
        self.worker.start()
        self.watch.start()

    def stop(self) -> None:
        """Flush, and close all files."""
        self.watch.stop()
        self.worker.stop()
        try:
            self.refusal_log.stop()
            self.audit.record("service.stopped")
        except AuditLogError as error:  # a full disk must not prevent a stop
            _LOGGER.error(
                "the stop could not be recorded", extra={"fields": {"problem": str(error)}}
            )
        self.audit.close()
        self.feed.close()
        self.enrolment.close()
        self.tokens.close()
        self.board.close()

    def address_of(self, request: Request) -> str:
        """The network address a request came from; for a request relayed by a worker, the address
        the worker names."""
        if self._has_workers:
            return request.headers.get(PEER, "")
        return request.client.host if request.client else ""

    def faults(self) -> list[ServiceFault]:
        """What is wrong now."""
        rules, intake, found = self.settings.intake, self.intake, []
        if self.worker.failed:
            detail = "the proxy's disk or log has failed; nothing that was acknowledged is lost"
            found.append(ServiceFault(self.worker.fault or "failing", "intake", detail, stops=True))
        found += low_disk(self.settings.folder, rules.reserve, "disk_full", stops=True)
        if intake.log_problem:
            found.append(ServiceFault("log_away", "log", intake.log_problem))
        if intake.is_full:
            found.append(
                ServiceFault(
                    "backlog_full",
                    "intake",
                    "the limit on waiting shares or message ids is reached",
                    stops=True,
                )
            )
        if problem := self.audit.problem():
            found.append(ServiceFault("damaged", "audit log", problem))
        if self.ring_file is not None and self.ring_file.problem:
            found.append(ServiceFault("failing", "ring", self.ring_file.problem))
        if self.settings.tls is not None:
            found += expiring(
                "tls.certificate", end_of_file(self.settings.tls.certificate), self.clock()
            )
        return found

    def health_report(self) -> ProxyHealthPage:
        """What is wrong, and how much waits."""
        return {
            **health_document(self.faults()),
            "waiting": self.intake.n_waiting,
            "log": self.intake.log_problem or "running",
        }

    def queries_changed(self) -> None:
        """Pass the board's current channels to the intake."""
        rules = self.settings.intake
        self.board.forget(self.clock() - rules.grace - rules.retention)
        channels, tags = self.board.channels(), self.board.tags()
        self.worker.call(lambda: self.intake.set_channels(channels, tags))

    def end_tokens(self) -> None:
        """Delete the tokens whose end has come, or whose query is over, and what is counted about
        them."""
        now = self.clock()
        bound = self.tokens.bound()
        if not bound:
            return
        over = self.board.over(now - self.settings.intake.grace)
        ended = [
            token
            for token in bound
            if token.bound is not None
            and ((token.bound.ends or now + 1) <= now or token.bound.query in over)
        ]
        if ended:
            self.tokens.delete(ended)
            clients = [token.client for token in ended]
            self.worker.call(lambda: self.intake.uses.forget(clients))
            self.audit.record("token.ended", actor=SERVICE, subject="tokens", count=len(ended))

    def follow_ring(self) -> None:
        """Remove from the board all queries whose key was revoked on the ring or is no longer on
        it."""
        ring = self.ring_file.ring() if self.ring_file else None
        if ring is None or ring is self._checked:
            return
        changed = self.revoke([trusted.key.id for trusted in ring if trusted.revoked], SERVICE)
        if self.board.withdraw_unknown(
            self._recorder("query.withdrawn", SERVICE, why="its key is not on the ring")
        ):
            changed = True
        self._checked = ring
        if changed:
            self.queries_changed()

    def revoke(self, keys: Sequence[str], actor: str) -> bool:
        """Stop relaying anything these keys signed, and notify devices; returns whether any key is
        newly revoked."""
        for key in keys:
            if key not in self.board.revoked:
                self.audit.record("key.revoked", actor=actor, subject=f"key:{key}")
                self.feed.revoked(key)
        return bool(
            self.board.revoke(
                keys, self._recorder("query.withdrawn", actor, why="its key was revoked")
            )
        )

    def _recorder(
        self, event: str, actor: str, **details: Any
    ) -> Callable[[QueryHeader, SignedQuery], None]:
        """A callback that records an event about a query before the change is committed."""

        def record(query: QueryHeader, signed: SignedQuery) -> None:
            named = {
                "analyst": query.analyst,
                "serial": query.serial,
                "key": signed.key_id,
                "digest": query.digest.hex(),
            }
            self.audit.record(event, actor=actor, subject=f"query:{query.id}", **named, **details)
            if event == "query.published":
                self.feed.published(query, signed, self.clock())
            else:
                self.feed.stopped(query, self.clock(), details.get("why", ""))

        return record

    def publish(self, query_id: str, content: bytes, actor: str) -> bool:
        """Start relaying a signed query; returns whether this version is new here."""
        fresh = self.board.publish(query_id, content, self._recorder("query.published", actor))
        self.queries_changed()
        return fresh

    def stop_query(self, query_id: str, actor: str) -> None:
        """Stop relaying a query."""
        self.board.stop(query_id, self._recorder("query.stopped", actor))
        self.queries_changed()

    def authorize(self, request: Request, *roles: Role) -> Token:
        """The token in the request, if it has one of these roles."""
        address = f"{request.method} {getattr(request.scope.get('route'), 'path', '')}"
        token = self.admission.authorize(
            request.headers.get("authorization", "").encode("latin-1"), address, *roles
        )
        self.tokens.note_use(token, self.clock())
        return token

    async def receive(self, request: Request, largest: int) -> bytes:
        """The body of a request, if it arrives in time and is not too long."""
        content = await read_body(request, largest, self.settings.limits.body_deadline)
        request.state.received = True
        return content

    def count(self, reason: str, n: int = 1) -> None:
        """Count refusals."""
        self.refusals[reason] += n
