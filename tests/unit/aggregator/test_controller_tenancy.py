"""A controller serves several analysts: what is wrong with the query of one does not stop those of
others."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np

from deniable.aggregator.counting.catalogue import publish, published
from deniable.aggregator.operations.controller import Change, Controller
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from toolkit.adaptive import CONTROLLER, AdaptiveRun, adaptive_query
from toolkit.crowds import KEY, ORIGIN

OTHER = AnalystKey("Mallory", bytes(range(1, 33)))


class Waiting(Controller):
    """Decides nothing yet."""

    def step(self, connection: sqlite3.Connection) -> list[Change]:
        return []


def test_a_query_adapts_although_that_of_another_analyst_whose_key_has_expired_cannot(
    tmp_path: Path,
) -> None:
    query = adaptive_query(60, 0.05, 50.0, id="mine")
    theirs = adaptive_query(60, 0.05, 50.0, id="a-query-that-comes-first", analyst=OTHER.owner)
    run = AdaptiveRun(tmp_path, query, 2000)
    assert run.crowd.state is not None
    connection = run.crowd.state.connection
    whole = KeyRing().add(KEY.public).add(OTHER.public, valid_until=ORIGIN + 60)
    publish(connection, sign(theirs, OTHER), whole, theirs.proxies, ORIGIN)
    run.controller = Waiting(CONTROLLER, lambda: whole, query.proxies, lambda: ORIGIN)
    for epoch in range(3):
        run.epoch(epoch, np.zeros(2000, dtype=np.intp))
    # The other analyst's query has the same counts and the same window: the same reason to change.
    for table, name in (("panes", "query"), ("results", "query")):
        columns = [
            row[1]
            for row in connection.execute(f"PRAGMA table_info({table})")
            if row[1] not in ("seq", name)
        ]
        listed = ", ".join(columns)
        connection.execute(
            f"INSERT INTO {table} ({name}, {listed}) SELECT ?, {listed} FROM {table} WHERE"  # noqa: S608
            f" {name} = ?",
            (theirs.id, query.id),
        )
    changes = Controller(CONTROLLER, lambda: whole, query.proxies, lambda: run.crowd.now).step(
        connection
    )
    assert [change.query for change in changes] == ["mine"]
    assert [len(published(connection, name)) for name in ("mine", theirs.id)] == [2, 1]
    run.close()
