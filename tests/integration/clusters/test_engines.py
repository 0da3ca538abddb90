"""The engine suite: one share log through every engine, and the outcome is the same, answer for
answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.aggregator.counting.conservation import OUTSIDE
from deniable.devtools.broker import Broker
from toolkit.servers.engines import (
    EmbeddedEngine,
    KafkaLogs,
    Outcome,
    SqliteLogs,
    adaptive_log,
    play,
    share_log,
)
from toolkit.servers.sparks import SparkEngine

SCENARIOS = {n_proxies: share_log(n_proxies) for n_proxies in (2, 3)}
ADAPTIVE = adaptive_log()
_OUTCOMES: dict[int, Outcome] = {}


def on_sqlite(n_proxies: int, folder: Path) -> Outcome:
    """The outcome of the embedded engine on SQLite, with which all others are compared; made
    once."""
    if n_proxies not in _OUTCOMES:
        scenario = SCENARIOS[n_proxies]
        _OUTCOMES[n_proxies] = play(
            scenario, EmbeddedEngine(scenario, folder, SqliteLogs(folder, n_proxies))
        )
    return _OUTCOMES[n_proxies]


@pytest.mark.parametrize("n_proxies", [2, 3])
def test_the_embedded_engine_counts_what_the_answers_say(n_proxies: int, tmp_path: Path) -> None:
    scenario, outcome = SCENARIOS[n_proxies], on_sqlite(n_proxies, tmp_path)
    assert {key: counts for key, (_, _, counts) in outcome.panes.items()} == scenario.counted
    assert all(n == sum(counts) for n, _, counts in outcome.panes.values())
    for proxy, expected in enumerate(scenario.totals):
        found = dict.fromkeys(expected, 0)
        for (of, _, _), account in outcome.accounts.items():
            if of == proxy:
                found = {name: found[name] + account.get(name, 0) for name in found}
        assert found == expected
    assert not any("waiting" in account for account in outcome.accounts.values())


@pytest.mark.parametrize("n_proxies", [2, 3])
def test_the_share_log_has_every_case_in_it(n_proxies: int, tmp_path: Path) -> None:
    outcome = on_sqlite(n_proxies, tmp_path)
    reasons = {reason for _, reason in outcome.refusals}
    joined = {"tag", "query", "stratum", "report", "epoch"}
    assert reasons >= joined | {
        "truncated",
        "trailing",
        "version",
        "channel",
        "size_class",
        "future",
        "expired",
    }
    assert {outcome for account in outcome.accounts.values() for outcome in account} == {
        *("received", "counted", "orphaned", "duplicate", "late", "malformed")
    }
    assert any(epoch == OUTSIDE for _, _, epoch in outcome.accounts)
    assert {window["condition"] for window in outcome.windows["distance"]} == {
        "complete",
        "proxy down",
    }
    assert {key.serial for key in outcome.panes if key.query == "distance"} == {1, 2}
    assert {key.stratum for key in outcome.panes} == {0, 1}
    assert any(nothing for _, nothing, _ in outcome.panes.values())


@pytest.mark.parametrize("n_proxies", [2, 3])
def test_the_embedded_engine_on_kafka_gives_the_same_as_on_sqlite(
    n_proxies: int, broker: Broker, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    scenario = SCENARIOS[n_proxies]
    logs = KafkaLogs(broker.bootstrap, [fresh_topic(f"proxy-{i}") for i in range(n_proxies)])
    (tmp_path / "kafka").mkdir()
    assert play(scenario, EmbeddedEngine(scenario, tmp_path / "kafka", logs)) == on_sqlite(
        n_proxies, tmp_path
    )


@pytest.mark.parametrize(
    ("n_proxies", "sizes"), [(2, (2, 1, 1, 2, 2)), (3, (1, 3, 1, 1, 2))], ids=["2", "3"]
)
def test_spark_on_kafka_gives_the_same_as_the_embedded_engine(
    n_proxies: int,
    sizes: tuple[int, ...],
    broker: Broker,
    spark: Any,
    fresh_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """A drain of Spark takes seconds, so stages are merged. The outcome is that of all of them,
    each drained alone."""
    scenario = SCENARIOS[n_proxies].merged(*sizes)
    logs = KafkaLogs(broker.bootstrap, [fresh_topic(f"proxy-{i}") for i in range(n_proxies)])
    (tmp_path / "spark").mkdir()
    assert play(scenario, SparkEngine(scenario, tmp_path / "spark", logs, spark)) == on_sqlite(
        n_proxies, tmp_path
    )


def test_versions_of_a_controller_strata_and_several_ones_are_counted_and_pooled(
    tmp_path: Path,
) -> None:
    outcome = play(ADAPTIVE, EmbeddedEngine(ADAPTIVE, tmp_path, SqliteLogs(tmp_path, 2)))
    assert {key: counts for key, (_, _, counts) in outcome.panes.items()} == ADAPTIVE.counted
    assert {key.serial for key in outcome.panes} == {1, 2, 3, 4}
    assert {key.stratum for key in outcome.panes} == {0, 1}
    windows = outcome.windows["adaptive"]
    assert [window["index"] for window in windows] == [0, 1, 2, 3]
    for window in windows:
        assert any(
            "versions of the query, weighted by the people they were put to" in note
            for note in window["notes"]
        )
        assert any("up to 2 buckets" in note for note in window["notes"])
        assert window["wish"] == 0.05
    assert any("inverted" in note for note in windows[-1]["notes"])


def test_spark_agrees_on_versions_strata_and_several_ones(
    broker: Broker, spark: Any, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    logs = KafkaLogs(broker.bootstrap, [fresh_topic(f"adaptive-{i}") for i in range(2)])
    for name in ("spark", "embedded"):
        (tmp_path / name).mkdir()
    embedded = play(
        ADAPTIVE,
        EmbeddedEngine(ADAPTIVE, tmp_path / "embedded", SqliteLogs(tmp_path / "embedded", 2)),
    )
    assert play(ADAPTIVE, SparkEngine(ADAPTIVE, tmp_path / "spark", logs, spark)) == embedded
