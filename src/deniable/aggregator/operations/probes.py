"""Asking each proxy every few seconds whether it is ready: a log on a shared disk or in Kafka does
not show that it hangs."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from deniable.aggregator.settings import ProxySource
from deniable.errors import ResponseError
from deniable.service.background import Background
from deniable.service.certificate_expiry import end_of_peer
from deniable.service.faults import FAULTS, ServiceFault, name_of_error
from deniable.service.http.reading import Answer, ask

__all__ = ["ProxyProbe", "probes_of"]

SECONDS_BETWEEN_PROBES = 5.0
_LARGEST_ANSWER = 1 << 16


class ProxyProbe:
    """Probes one proxy, in its own thread."""

    def __init__(self, settings: ProxySource, silent: float, logger: logging.Logger) -> None:
        import httpx  # noqa: PLC0415 - slow to import

        self.name, self._url, self._silent = settings.name, settings.url.rstrip("/"), silent
        self._client = httpx.Client(timeout=silent)
        self.fault: ServiceFault | None = None
        self.certificate_ends: float | None = None
        """When the certificate that it presents expires; None without TLS."""
        self._background = Background(f"probe of {settings.name}", self.step, logger)
        self.start = self._background.start

    def stop(self) -> None:
        """Stop probing. The connection is closed first: a proxy that does not respond is not waited
        for."""
        self._client.close()
        self._background.stop()

    def step(self) -> float:
        """Probe once."""
        try:
            answer = ask(
                self._client,
                "GET",
                f"{self._url}/readyz",
                _LARGEST_ANSWER,
                self._silent,
                look=self._note_certificate,
            )
        except ResponseError as error:
            self.fault = ServiceFault(name_of_error(error), self.name, error.detail)
        except RuntimeError:  # the client was closed because the service is stopping
            return SECONDS_BETWEEN_PROBES
        else:
            self.fault = self._failing(answer) if answer.status == 503 else None
        return min(SECONDS_BETWEEN_PROBES, self._silent)

    def _note_certificate(self, response: Any) -> None:
        self.certificate_ends = end_of_peer(response)

    def _failing(self, answer: Answer) -> ServiceFault:
        """What it says is wrong with it: only names known here, because the rest of the text is the
        proxy's own."""
        try:
            told = [str(each["fault"]) for each in json.loads(answer.content)["faults"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            told = []
        names = sorted({name for name in told if name in FAULTS})
        return ServiceFault(
            "proxy_failing",
            self.name,
            f"says that it is not ready: {', '.join(names) or 'no reason given'}",
        )


def probes_of(
    proxies: Sequence[ProxySource], silent: float, logger: logging.Logger
) -> list[ProxyProbe]:
    """A probe for each proxy whose address is known."""
    return [
        ProxyProbe(each, silent, logger)
        for each in proxies
        if each.url.startswith(("http://", "https://"))
    ]
