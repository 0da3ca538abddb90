"""Proxies and an aggregator as processes of this machine, with a query published, for tests of the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deniable.analyst.analyst import Analyst
from deniable.local.services import Address, Aggregator, Proxy, Services, free_ports
from deniable.queries.query import Query
from deniable.queries.signing import sign
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
    ports = free_ports(n_proxies + 1)
    proxies = [Proxy(f"proxy-{i}", Address(port=port), intake=intake) for i, port in enumerate(ports[1:])]
    aggregator = Aggregator(Address(port=ports[0]), limits={"patience": 300})
    services = Services(folder / "services", RING, proxies, aggregator)
    tokens = [services.token(proxy, quota=1_000_000) for proxy in proxies]
    with services, Analyst(aggregator.address.url, services.analyst_token_file.read_text().strip()) as analyst:
        query = ask([proxy.address.url for proxy in proxies])
        status = analyst.publish(sign(query, KEY))
        deadline = time.monotonic() + 30
        while set(status["relayed"].values()) != {"done"}:
            assert time.monotonic() < deadline, status
            time.sleep(0.05)
            (status,) = analyst.queries()
        yield System(services, query, analyst, tokens)
