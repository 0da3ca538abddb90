"""Proxies and an aggregator as processes of this machine, with a query published, for tests of the
whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deniable.analyst.analyst import Analyst
from deniable.local.services import Services, publish_everywhere
from deniable.queries.query import Query
from deniable.queries.signed.signing import sign
from toolkit.crowds import KEY, RING


@dataclass(frozen=True)
class System:
    """A system that runs, and who may use it."""

    services: Services
    query: Query
    analyst: Analyst
    tokens: list[str]
    """For each proxy a device's token without a narrow quota."""


@contextmanager
def running_system(
    folder: Path, ask: Callable[[Sequence[str]], Query], n_proxies: int, intake: Mapping[str, int]
) -> Iterator[System]:
    """Start everything and publish the query; end everything afterwards."""
    services = Services.on_free_ports(folder / "services", RING, n_proxies, intake, patience=300)
    tokens = [services.token(proxy, quota=1_000_000) for proxy in services.proxies]
    with services, services.analyst() as analyst:
        query = ask([proxy.address.url for proxy in services.proxies])
        publish_everywhere(analyst, sign(query, KEY))
        yield System(services, query, analyst, tokens)
