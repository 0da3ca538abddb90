"""Schemathesis against what the services really answer: no 5xx, no status that is not documented,
every answer of its schema, without a key that is not described.

Requests are drawn by a fixed rule, so that a run finds what the last one found.
`DENIABLE_OPENAPI_EXAMPLES` asks for more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis
from hypothesis.strategies import booleans
from schemathesis import checks

from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.public_results import PUBLIC_RESULTS
from deniable.console.console_app import add_console
from deniable.proxy.collecting.collector import Collector, create_collector_app
from deniable.proxy.collecting.settings import CollectorSettings
from deniable.proxy.enrolment import EnrolmentRules
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings
from deniable.proxy.web.api import create_app as create_proxy_app
from deniable.queries.times import iso_time
from deniable.service.query_feed import FEED_ADDRESS
from toolkit.closed_schemas import closed
from toolkit.servers.consoles import SeededConsole, console_query
from toolkit.servers.proxies import query_of_today, signed
from toolkit.servers.served import served

EXAMPLES = int(os.environ.get("DENIABLE_OPENAPI_EXAMPLES", "12"))
CHECKS: list[Any] = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.allow_header_conformance,
]
SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)


def explore(client: httpx.Client, headers: list[dict[str, str]], known: str) -> dict[str, set[int]]:
    """Draw requests for every operation, with each of the tokens and without, and check the
    answers; the statuses that came."""
    schema = schemathesis.openapi.from_url(f"{str(client.base_url).rstrip('/')}/openapi.json")
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    return {
        f"{each.method.upper()} {each.path}": answers_of(each, headers, known)
        for each in operations
    }


def answers_of(operation: Any, headers: list[dict[str, str]], known: str) -> set[int]:
    """The statuses with which requests for one operation are answered; half of those for a query
    are for one that is there."""
    statuses: set[int] = set()

    # The simplest example comes first, whatever else is drawn: it is for the query that is there.
    @SETTINGS
    @hypothesis.given(case=operation.as_strategy(), elsewhere=booleans())
    def check(case: Any, elsewhere: bool) -> None:
        if not elsewhere and "query_id" in (case.path_parameters or {}):
            case.path_parameters["query_id"] = known
        own = case.headers or {}
        for shown in [{}, *headers]:
            response = case.call_and_validate(headers={**own, **shown}, checks=CHECKS, timeout=30)
            statuses.add(response.status_code)

    check()
    return statuses


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def console(tmp_path: Path) -> Iterator[SeededConsole]:
    console = SeededConsole(tmp_path, history=HistorySettings(str(tmp_path / "history")))
    yield console
    console.close()


@pytest.mark.slow
def test_the_aggregator_answers_as_its_description_says(
    console: SeededConsole, tmp_path: Path
) -> None:
    query = console.publish(console_query(console.proxies))
    console.write(query, range(4), [1 / 11] * 11, 400)
    app = create_app(console.service, ending=lambda: True)  # streams end at once
    add_console(app, console.service)
    app.openapi_schema = closed(app.openapi())
    with served(app) as client:
        statuses = explore(client, [bearer(console.analyst), bearer(console.reader)], query.id)
    reading = [name for name in statuses if name.startswith("GET /v1/queries/{query_id}/results")]
    assert reading
    assert all(200 in statuses[name] for name in reading if not name.endswith("table"))
    assert all(
        401 in found for name, found in statuses.items() if name.startswith("GET /v1/queries")
    )


@pytest.mark.slow
def test_the_proxy_answers_as_its_description_says(tmp_path: Path) -> None:
    proxy = ProxyService(
        ProxySettings(
            tmp_path / "data",
            enrolment=EnrolmentRules("open", per_hour_and_address=1 << 20, per_second=1 << 16),
        )
    )
    tokens = [
        bearer(proxy.tokens.add(role)[0]) for role in ("operator", "device", "collector", "reader")
    ]
    query = query_of_today()
    proxy.publish(query.id, signed(query).to_bytes(), "test")
    front = create_proxy_app(proxy)
    front.app.openapi_schema = closed(front.app.openapi())
    with served(front) as client:
        statuses = explore(client, tokens, query.id)
    assert {201, 401, 403} & statuses["PUT /v1/queries/{query_id}"]
    assert 200 in statuses["GET /v1/log"]
    assert 201 in statuses["POST /v1/enrol"]


@pytest.mark.slow
def test_the_collector_answers_as_its_description_says(tmp_path: Path) -> None:
    proxy = ProxyService(ProxySettings(tmp_path / "data"))
    (tmp_path / "token").write_text(proxy.tokens.add("collector")[0])
    device = bearer(proxy.tokens.add("device")[0])
    with served(create_proxy_app(proxy)) as behind:
        collector = Collector(
            CollectorSettings(str(behind.base_url).rstrip("/"), tmp_path / "token")
        )
        front = create_collector_app(collector)
        front.app.openapi_schema = closed(front.app.openapi())
        with served(front) as client:
            while client.get("/readyz").status_code != 200:
                pass
            statuses = explore(client, [device], "none")
    assert 200 in statuses["GET /v1/queries"]


@pytest.mark.slow
def test_every_operation_says_who_may_ask_and_what_every_status_means(
    console: SeededConsole, tmp_path: Path
) -> None:
    app = create_app(console.service)
    add_console(app, console.service)
    proxy = ProxyService(ProxySettings(tmp_path / "data"))
    described = [app.openapi(), create_proxy_app(proxy).app.openapi()]
    proxy.start()
    proxy.stop()
    public = {
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/public/queries",
        PUBLIC_RESULTS,
        FEED_ADDRESS,
        "/v1/session",
    }
    public |= {"/v1/enrol", "/v1/answers"}
    for document in described:
        for path, methods in document["paths"].items():
            for method, about in methods.items():
                at = f"{method} {path}"
                assert "400" in about["responses"], (
                    f"{at} is not declared among the operations of its service"
                )
                relayed = "proxy" in document["info"]["title"] and at in (
                    "get /v1/queries",
                    "get /v1/queries/{query_id}",
                )
                assert ("security" in about) or path in public or relayed, at
                for status, response in about["responses"].items():
                    body = response.get("content", {})
                    wanted = (
                        status not in ("201", "200") or "proxy" not in document["info"]["title"]
                    )
                    assert body or status in ("204", "304") or not wanted, (at, status)
                    if int(status) >= 400 and "application/json" not in body:
                        assert body["application/problem+json"]["schema"] == {
                            "$ref": "#/components/schemas/ProblemDocument"
                        }
        assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_a_time_in_an_address_may_be_iso_or_seconds_and_a_wrong_one_gets_the_reason(
    console: SeededConsole,
) -> None:
    query = console.publish(console_query(console.proxies))
    console.write(query, range(4), [1 / 11] * 11, 400)
    start = query.schedule.bounds_of_window(2)[0]
    with served(create_app(console.service)) as client:
        client.headers.update(bearer(console.reader))
        address = f"/v1/queries/{query.id}/results"
        whole = client.get(address).json()["windows"]
        times = [(window["start"], window["start_time"], window["end_time"]) for window in whole]
        assert times[2][1] == iso_time(start)
        for written in (str(start), iso_time(start), iso_time(start).replace("Z", "+00:00")):
            found = client.get(address, params={"start": written}).json()["windows"]
            assert found == whole[2:]
        refused = client.get(address, params={"start": "yesterday"})
        assert refused.status_code == 422
        assert "start: must be a time such as 2026-01-01" in refused.json()["detail"]
        assert "or whole seconds since 1970" in refused.json()["detail"]
