"""What `deniable proxy check --origin` tries: the requests that a browser sends for a page of that
origin."""

from __future__ import annotations

from typing import Any

import httpx

from deniable.errors import ParameterError
from deniable.proxy.collecting.settings import CollectorSettings
from deniable.proxy.settings import ProxySettings
from deniable.service.http.cross_origin import ANY_ORIGIN
from deniable.service.http.cross_origin import check_origin as check_written
from deniable.service.http.hosting import Endpoint
from deniable.service.inspection import SECONDS_TO_REACH, Inspection

__all__ = ["check_origin"]


def check_origin(
    settings: ProxySettings | CollectorSettings, found: Inspection, url: str | None, origin: str
) -> None:
    """Look for an origin in the settings and, if the service answers, send what a browser would.

    Without `url`, the service is tried where it listens; there a certificate is not verified,
    because it names another host.
    """
    with found.looking_at("browser.origins", origin):
        check_written(origin)
        named = settings.browser.origins
        if origin not in named and ANY_ORIGIN not in named:
            rule = f"must contain {origin}: browsers keep its pages from using the service"
            raise ParameterError("browser.origins", list(named), rule)
        place = Endpoint(
            settings.host if settings.host != "0.0.0.0" else "127.0.0.1",  # noqa: S104
            settings.port,
            settings.tls,
        )
        address = url or place.url_of(settings.port)
        try:
            with httpx.Client(
                base_url=address, timeout=SECONDS_TO_REACH, verify=bool(url), trust_env=bool(url)
            ) as client:
                _try(client, address, origin)
        except httpx.TransportError as error:
            found.warn(
                "browser.origins",
                origin,
                f"was not tried: {address} does not answer ({type(error).__name__})",
            )


def _try(client: httpx.Client, address: str, origin: str) -> None:
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    preflight = client.request("OPTIONS", "/v1/shares", headers=asked)
    _require(address, "OPTIONS /v1/shares", preflight, origin)
    allowed = preflight.headers.get("Access-Control-Allow-Headers", "").lower()
    if preflight.status_code >= 300 or "authorization" not in allowed:
        rule = (
            "must allow the header Authorization; OPTIONS /v1/shares was answered with"
            f" {preflight.status_code}"
        )
        raise ParameterError("browser.origins", address, rule)
    _require(
        address, "GET /v1/queries", client.get("/v1/queries", headers={"Origin": origin}), origin
    )


def _require(address: str, request: str, answer: Any, origin: str) -> None:
    shown = answer.headers.get_list("Access-Control-Allow-Origin")
    if shown not in ([origin], [ANY_ORIGIN]):
        written = ", ".join(shown) or "none"
        rule = (
            f"must answer {request} with this origin; it named {written} (a server in front may"
            " drop or repeat the header)"
        )
        raise ParameterError("browser.origins", address, rule)
