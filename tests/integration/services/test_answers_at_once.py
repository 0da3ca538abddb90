"""Services answer when they have an answer: no packet waits for the acknowledgement of the one
before it (Nagle's algorithm)."""

from __future__ import annotations

import http.client
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from deniable.queries.query import Query
from toolkit.queries import make_query
from toolkit.servers.systems import running_system

DELAYED = 0.040
"""Seconds for which Linux puts off an acknowledgement: an answer in two packets takes that long
where Nagle's algorithm is on."""


def shortest(url: str, n: int = 40) -> float:
    """The quickest of some answers on one connection: a busy machine makes some of them slow, and
    never one quick.

    The first do not count: a young connection is acknowledged without delay.
    """
    at = urlsplit(url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=30)
    took = []
    for _ in range(n):
        clock = time.perf_counter()
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        took.append(time.perf_counter() - clock)
        assert answer.status == 200
    connection.close()
    return min(took[10:])


def test_proxies_and_aggregator_answer_at_once(tmp_path: Path) -> None:
    def ask(proxies: Sequence[str]) -> Query:
        return make_query(proxies=proxies)

    with running_system(tmp_path, ask, 2, {}) as system:
        for url in (*system.query.proxies, system.services.aggregator.address.url):
            assert shortest(url) < DELAYED / 2, url
