"""The analyst's side of the interface, in Python."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from deniable.aggregator.history.request import HistoryRequest
from deniable.aggregator.windows.window import Window
from deniable.analyst.past_answer import PastAnswer
from deniable.errors import ParameterError, ResponseError
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery
from deniable.queries.times import moment
from deniable.service.http.event_stream import EVENT_STREAM, LAST_EVENT, parse_events
from deniable.service.http.reading import Answer, ask, lines, read

if TYPE_CHECKING:
    import httpx

__all__ = ["Analyst"]

_LONGEST_PAUSE = 10.0
_LARGEST_ANSWER = 64 << 20
"""Bytes of one answer, or of one event: a page of results ends after 8 MiB, and one result has some
MiB at most."""
_BEYOND = 1 << 62
"""A number that no result has."""


class Analyst:
    """Asks an aggregator: publishes queries and reads, or follows, their results.

    analyst = Analyst("https://aggregator.example", token)
    analyst.publish(signed)
    for window in analyst.follow(query):
        print(window)
    """

    def __init__(
        self, url: str, token: str, timeout: float = 30.0, client: httpx.Client | None = None
    ) -> None:
        import httpx  # noqa: PLC0415 - slow to import

        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ParameterError("url", url, "must start with http:// or https://")
        self._httpx = httpx
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._following = {
            **self._headers,
            "Accept": EVENT_STREAM,
            "Accept-Encoding": "identity",
        }
        self._client = client or httpx.Client(timeout=timeout)

    def __enter__(self) -> Analyst:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<analyst at {self.url}>"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def publish(self, signed: SignedQuery) -> dict[str, Any]:
        """Publish a signed query or its next version; returns the aggregator's record of it, and
        which proxies have it."""
        address = f"/v1/queries/{signed.unverified().id}"
        document: dict[str, Any] = self._ask("PUT", address, content=signed.to_bytes())
        return document

    def stop(self, query: Query | str) -> None:
        """Stop a query. Answers to the epoch that is running are still counted."""
        self._ask("DELETE", f"/v1/queries/{_id(query)}")

    def queries(self) -> list[dict[str, Any]]:
        """The aggregator's record of each of its queries."""
        document: list[dict[str, Any]] = self._ask("GET", "/v1/queries")
        return document

    def versions(self, query: Query | str) -> list[dict[str, Any]]:
        """All versions of a query, oldest first: when, with which parameters, and why."""
        found: list[dict[str, Any]] = self._ask("GET", f"/v1/queries/{_id(query)}/versions")[
            "versions"
        ]
        return found

    def capacity(self) -> dict[int, float]:
        """Answers per second that the aggregator sustained lately, by size class."""
        found = self._ask("GET", "/v1/capacity")["capacity"]
        return {int(each["size_class"]): float(each["answers_per_second"]) for each in found}

    def latest(self, query: Query | str) -> Window | None:
        """The newest window; None if there is none yet."""
        try:
            return Window.from_dict(self._ask("GET", f"/v1/queries/{_id(query)}/results/latest"))
        except ResponseError as error:
            if error.reason == "no_result":
                return None
            raise

    def range(
        self, query: Query | str, start: int | None = None, end: int | None = None
    ) -> Iterator[Window]:
        """The windows that begin from `start` on and before `end` (seconds of UTC), each as it was
        last revised."""
        after: int | None = 0
        while after is not None:
            parameters = {
                name: value
                for name, value in (("start", start), ("end", end), ("after", after))
                if value is not None
            }
            document = self._ask("GET", f"/v1/queries/{_id(query)}/results", params=parameters)
            yield from map(Window.from_dict, document["windows"])
            after = document["next"]

    def follow(
        self,
        query: Query | str,
        after: int | None = None,
        overdue: Callable[[dict[str, Any] | None], None] | None = None,
    ) -> Iterator[Window]:
        """Every window from now on, as it closes; with `after=0`, existing ones first.

        `overdue` is called with the `overdue` document of docs/aggregator.md when a window should
        have been released and was not, and with None once none is overdue any more.

        A window that is not final comes again, with a higher `revision`, when late answers have
        changed it. A broken connection is re-established, and no window is missed or returned
        twice. It continues until the loop is left.
        """
        address = f"{self.url}/v1/queries/{_id(query)}/results/stream"
        if after is None:
            page = self._ask(
                "GET", f"/v1/queries/{_id(query)}/results", params={"after": _BEYOND}, accept=(404,)
            )
            after = page.get("last", 0)
        pause = 0.1
        while True:
            headers = {**self._following, LAST_EVENT: str(after)}
            try:
                # A sign of life comes every 15 seconds: what is silent for longer is broken.
                limits = self._httpx.Timeout(10.0, read=45.0)
                with self._client.stream(
                    "GET", address, headers=headers, timeout=limits
                ) as response:
                    if response.status_code in (401, 403, 404):
                        raise _problem(read(response, _LARGEST_ANSWER))
                    if response.status_code == 200:
                        for event in parse_events(lines(response, _LARGEST_ANSWER)):
                            if event.number is not None and event.name == "window":
                                after, pause = event.number, 0.1
                                yield Window.from_dict(event.document)
                            elif event.name == "overdue" and overdue is not None:
                                overdue(event.document)
            except self._httpx.TransportError:
                pass  # the aggregator restarts, or the network is down: retry
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def history(
        self,
        query: Query | str,
        start: int | str | None = None,
        end: int | str | None = None,
        *,
        fraction: float | None = None,
        seconds: float | None = None,
        margin: float | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        merge: Sequence[str] | int = (),
        by: str | None = None,
        marginal: str | None = None,
        given: str | None = None,
        against: tuple[int | str, int | str] | None = None,
        source: str = "reports",
        progress: Callable[[float], None] | None = None,
    ) -> PastAnswer:
        """An answer from the stored reports of a period, in any cut (docs/history.md). Nobody is
        asked again, and no epsilon is spent.

        Times are seconds of UTC or texts of ISO 8601; without them, everything stored is used.
        `fraction`, `seconds` or `margin` says how much is read; `against` is a second period to
        compare with. `progress` is called with the fraction read. Leaving with Ctrl-C, or any error
        in `progress`, cancels the work at the aggregator.
        """
        parameters = {
            "from": start,
            "to": end,
            "fraction": fraction,
            "seconds": seconds,
            "margin": margin,
            "confidence": confidence,
            "simultaneous": simultaneous,
            "merge": [str(merge)] if isinstance(merge, int | str) else list(merge),
            "by": by,
            "marginal": marginal,
            "given": given,
            "against_from": None if against is None else against[0],
            "against_to": None if against is None else against[1],
            "source": source,
        }
        request = HistoryRequest.from_parameters(parameters)
        address = f"{self.url}/v1/queries/{_id(query)}/history"
        try:
            limits = self._httpx.Timeout(10.0, read=45.0)
            with self._client.stream(
                "GET",
                address,
                params=request.to_parameters(),
                headers=self._following,
                timeout=limits,
            ) as response:
                if response.status_code != 200:
                    raise _problem(read(response, _LARGEST_ANSWER))
                for event in parse_events(lines(response, _LARGEST_ANSWER)):
                    document = event.document
                    if event.name == "answer":
                        return PastAnswer(document)
                    if event.name == "problem":
                        raise ResponseError(
                            document["status"], document["reason"], document["detail"]
                        )
                    if progress is not None and document.get("of"):
                        progress(document["read"] / document["of"])
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            raise ResponseError(
                0, "unreachable", f"{self.url}: cannot be reached ({type(error).__name__})"
            ) from None
        raise ResponseError(0, "cut off", f"{self.url}: the answer ended before it was complete")

    def history_extent(self, query: Query | str) -> dict[str, Any]:
        """How many reports of a query are stored, and of which time (seconds of UTC)."""
        document: dict[str, Any] = self._ask("GET", f"/v1/queries/{_id(query)}/history/extent")
        return document

    def delete_history(self, query: Query | str) -> dict[str, Any]:
        """Delete all stored reports of a query; the receipt."""
        document: dict[str, Any] = self._ask("DELETE", f"/v1/queries/{_id(query)}/history")
        return document

    def deletion_receipts(self, query: Query | str) -> list[dict[str, Any]]:
        """The receipts of all deletions of a query's reports."""
        document: list[dict[str, Any]] = self._ask(
            "GET", f"/v1/queries/{_id(query)}/history/receipts"
        )
        return document

    def panes(
        self, query: Query | str, start: int | str | None = None, end: int | str | None = None
    ) -> dict[str, Any]:
        """The counts of each epoch of a period; those of too few answers are withheld."""
        bounds = {
            name: str(value) for name, value in (("from", start), ("to", end)) if value is not None
        }
        document: dict[str, Any] = self._ask(
            "GET", f"/v1/queries/{_id(query)}/panes", params=bounds
        )
        return document

    def sql(
        self,
        query: Query | str,
        start: int | str | None = None,
        end: int | str | None = None,
        answer: PastAnswer | None = None,
    ) -> Any:
        """A DuckDB connection with the views `panes` and `estimates` of a query and period, and of
        an answer from its history.

        `analyst.sql("trips").sql("SELECT label, avg(estimate) FROM estimates GROUP BY label").df()`
        """
        from deniable.analyst.history_sql import open_views  # noqa: PLC0415 - an extra

        described = self._ask("GET", f"/v1/queries/{_id(query)}")
        first, last = (
            None if bound is None else moment(name, str(bound))
            for name, bound in (("from", start), ("to", end))
        )
        return open_views(
            self.panes(query, start, end),
            described["labels"],
            self.range(query, first, last),
            answer,
        )

    def _ask(self, method: str, address: str, accept: tuple[int, ...] = (), **what: Any) -> Any:
        try:
            answer = ask(
                self._client,
                method,
                self.url + address,
                _LARGEST_ANSWER,
                headers=self._headers,
                **what,
            )
        except ResponseError as error:
            raise ResponseError(error.status, error.reason, f"{self.url}: {error.detail}") from None
        if not answer.is_success and not (
            answer.status in accept and _problem(answer).reason == "no_result"
        ):
            raise _problem(answer)
        if not answer.content:
            return None
        try:
            return json.loads(answer.content)
        except (ValueError, RecursionError):
            raise ResponseError(
                answer.status, "not JSON", f"{self.url} answered something that is not JSON"
            ) from None


def _id(query: Query | str) -> str:
    return query.id if isinstance(query, Query) else query


def _problem(answer: Answer) -> ResponseError:
    try:
        document = json.loads(answer.content)
        return ResponseError(answer.status, str(document["reason"]), str(document["detail"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return ResponseError(answer.status, "not a problem document", answer.text[:200])
