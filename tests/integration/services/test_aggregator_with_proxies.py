"""Proxies and aggregator as processes of their own, over real HTTP: windows equal counting the same
reports offline, exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.analyst.analyst import Analyst
from deniable.cli import cli
from deniable.devtools.broker import Broker
from deniable.mechanisms.reports import Reports
from deniable.queries.schedule import Schedule
from deniable.queries.signed.signing import sign
from deniable.randomness import seeded_source
from deniable.wire.shares import split_columns
from toolkit.crowds import KEY, RING
from toolkit.queries import make_query
from toolkit.servers import loopback
from toolkit.servers.proxies import ProxyProcess
from toolkit.servers.services import running
from toolkit.shares import body_of

NAMES = ["one", "two", "three"]
INTAKE = '[intake]\nthreshold = 500\ndeadline = "1 s"\ngrace = "12 s"\n'


@pytest.mark.parametrize("n_proxies", [2, 3])
def test_what_goes_through_proxies_comes_out_as_it_would_be_counted_offline(
    n_proxies: int, tmp_path: Path
) -> None:
    check_against_offline(n_proxies, tmp_path)


def test_the_same_comes_out_if_a_proxy_logs_to_kafka(
    tmp_path: Path, broker: Broker, fresh_topic: Callable[[str], str]
) -> None:
    check_against_offline(
        2,
        tmp_path,
        [f'bootstrap = "{broker.bootstrap}"', f'topic = "{fresh_topic("two")}"', "partitions = 8"],
    )


def check_against_offline(n_proxies: int, tmp_path: Path, kafka: Sequence[str] = ()) -> None:
    """The first proxy's log is read from its file, those of the others over HTTP, or, where `kafka`
    is given, from there."""
    now = int(time.time())
    schedule = Schedule(origin=now - 2, expires=now + 3600, every=3, window=3, slide=3)
    query = make_query(proxies=NAMES[:n_proxies], schedule=schedule)
    with ExitStack() as stack:
        logs = [[], *([["[kafka]", *kafka] if kafka else []] * (n_proxies - 1))]
        proxies = [
            stack.enter_context(ProxyProcess(tmp_path / name, INTAKE + "\n".join(log)))
            for name, log in zip(query.proxies, logs, strict=True)
        ]
        RING.save(tmp_path / "ring.json")
        lines = ['state = "state.db"', 'ring = "ring.json"', "port = 0"]
        for i, (name, proxy) in enumerate(zip(query.proxies, proxies, strict=True)):
            token = proxy.token("operator")["Authorization"].removeprefix("Bearer ")
            (tmp_path / f"{name}.token").write_text(token)
            lines += [
                "[[proxies]]",
                f'name = "{name}"',
                f'url = "{proxy.address}"',
                f'token_file = "{name}.token"',
            ]
            if i == 0:
                lines.append(f'log = "{name}/data/log.db"')
            elif kafka:
                lines += ["[proxies.kafka]", *kafka]
        settings = tmp_path / "aggregator.toml"
        settings.write_text("\n".join(lines))
        made = CliRunner().invoke(
            cli, ["aggregator", "token", str(settings), "--analyst", KEY.owner]
        )
        _, url = stack.enter_context(running(["aggregator", "run", str(settings)], tmp_path))
        analyst = stack.enter_context(Analyst(url, made.stdout.strip()))
        told = analyst.publish(sign(query, KEY))
        deadline = time.monotonic() + 20
        while (
            set(analyst.queries()[0]["relayed"].values()) != {"done"}
            and time.monotonic() < deadline
        ):
            time.sleep(0.05)
        for proxy in proxies:
            listed = loopback.get(f"{proxy.address}/v1/queries").json()
            assert [entry["query"] for entry in listed] == [query.content.decode()]

        epoch = schedule.epoch_of(told["published"])
        source = seeded_source(n_proxies)
        reports = query.mechanism.draw(np.arange(1500) % 11, source)
        shares = split_columns(reports, query.tag, epoch, 0, n_proxies, source=source)
        headers = [proxy.token("device", quota=10_000) for proxy in proxies]
        for start in range(0, 1500, 300):
            for proxy, rows, header in zip(proxies, shares, headers, strict=True):
                body = body_of(query, epoch, rows[:, start : start + 300])
                for _ in range(2):  # every upload is tried again
                    assert (
                        loopback.post(
                            f"{proxy.address}/v1/shares", content=body, headers=header
                        ).status_code
                        == 202
                    )
        window = next(analyst.follow(query, after=0))
    assert (window.index, window.condition, window.n) == (epoch, "complete", 1500)
    assert window.conservation["balanced"] is True
    for account in window.conservation["proxies"].values():
        assert {name: n for name, n in account.items() if n} == {"received": 1500, "counted": 1500}
    offline = query.mechanism.estimate(Reports(query.mechanism, reports))
    assert window.estimate is not None
    assert window.estimate.proportions.tolist() == offline.proportions.tolist()
