"""Driver, executor, the reader of offsets and the broker are killed in a stream: every answer is
counted once, and none is lost.

Each answer has a bucket of its own, so any count other than 1 shows it. Afterwards the embedded
engine reads the same topics, undisturbed, and all that it counts is the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.state import State, connect
from deniable.devtools.broker import Broker
from deniable.logs.kafka_log import KafkaLog
from deniable.logs.kafka_settings import KafkaSettings
from deniable.logs.share_logs import KafkaShareLog
from deniable.queries.columns.column import Column
from deniable.queries.schedule import Schedule
from deniable.queries.signed.signing import sign
from deniable.randomness import seeded_source
from deniable.wire.blocks import cut
from deniable.wire.shares import split_columns
from toolkit.crowds import KEY, RING, minute_query
from toolkit.servers.sparks import LOCAL, state_contents

SOURCE = str(Path(__file__).parents[3] / "src")
JVM = LOCAL["spark.driver.extraJavaOptions"]
PER_EPOCH, EPOCHS, PARTITIONS = 60, 6, 4


class Submitted:
    """`deniable spark submit` in a process of its own, and what it prints."""

    def __init__(self, settings: Path, master: str) -> None:
        command = [
            sys.executable,
            "-c",
            "from deniable.cli import main; main()",
            "spark",
            "submit",
            str(settings),
            "--json",
        ]
        environment = {**os.environ, "PYTHONPATH": SOURCE, "SPARK_LOCAL_IP": "127.0.0.1"}
        self._out, self._errors = (settings.parent / f"submit.{name}" for name in ("out", "err"))
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - our own
                [*command, "--master", master],
                env=environment,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._out.read_text().splitlines()]

    @property
    def failures(self) -> list[str]:
        """Why streams ended that were started again."""
        lines = self._errors.read_text().splitlines()
        return [
            json.loads(line)["problem"] for line in lines if line.startswith('{"event": "failed"')
        ]

    @property
    def errors(self) -> str:
        return self._errors.read_text()[-3000:]

    def kill(self, which: str = "") -> bool:
        """SIGKILL to everything of it, or to those of its processes whose command line has a word;
        whether there was any."""
        if not which:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return True
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                session = int((place / "stat").read_text().rpartition(")")[2].split()[3])
                command = (
                    (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                continue
            if session == self.process.pid and which in command:
                found.append(int(place.name))
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return bool(found)


@contextmanager
def submitted(settings: Path, master: str) -> Iterator[Submitted]:
    running = Submitted(settings, master)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()


def wait_for(what: Callable[[], bool], running: Submitted, seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert running.process.poll() is None, running.errors
        assert time.monotonic() < deadline, (running.events[-3:], running.errors)
        time.sleep(0.1)


def counted(path: Path) -> int:
    connection = connect(path)
    try:
        return int(connection.execute("SELECT coalesce(sum(n), 0) FROM panes").fetchone()[0])
    finally:
        connection.close()


def test_kills_of_driver_executor_reader_and_broker_lose_and_repeat_nothing(
    broker: Broker, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    origin = int(time.time()) // 60 * 60 - 600
    n = PER_EPOCH * EPOCHS
    query = minute_query(
        columns=[Column("number", [f"[{i},{i + 1})" for i in range(n)], other=True)],
        proxies=["one", "two"],
        schedule=Schedule(origin=origin, expires=origin + 86400, every=60, window=120, slide=60),
    )
    topics = [
        KafkaSettings(broker.bootstrap, fresh_topic(f"proxy-{i}"), partitions=PARTITIONS)
        for i in range(2)
    ]
    logs = [KafkaLog(settings, 86400) for settings in topics]
    for name in ("spark.db", "embedded.db"):
        state = State(tmp_path / name, query.proxies)
        with state.transaction():
            publish(state.connection, sign(query, KEY), RING, query.proxies, origin)
        state.close()
    RING.save(tmp_path / "ring.json")
    proxies = "".join(
        f'[[proxies]]\nname = "{name}"\nurl = "http://{name}.example"\n[proxies.kafka]\n'
        f'bootstrap = "{broker.bootstrap}"\ntopic = "{settings.topic}"\n'
        for name, settings in zip(query.proxies, topics, strict=True)
    )
    settings = tmp_path / "aggregator.toml"
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.extraJavaOptions": JVM,
        "spark.executorEnv.PYTHONPATH": SOURCE,
    }
    settings.write_text(
        'state = "spark.db"\nring = "ring.json"\nengine = "spark"\n[spark]\ncheckpoint ='
        ' "checkpoint"\nrecords_a_batch = 12\n[spark.options]\n'
        + "".join(f'"{name}" = "{value}"\n' for name, value in options.items())
        + proxies
    )
    source = seeded_source(3)
    held: list[Any] = []

    def answer(epoch: int) -> None:
        """An epoch of answers. The second proxy is late with a third of them; the first one repeats
        some."""
        numbers = np.arange(epoch * PER_EPOCH, (epoch + 1) * PER_EPOCH)
        rows = query.mechanism.draw(numbers, source).reshape(PER_EPOCH, -1).view(np.uint8)
        shares = split_columns(rows, query.tag, epoch, query.size_class or 0, 2, source=source)
        held.append((epoch, shares[1][:, :20]))
        for log, part in (
            (logs[0], shares[0]),
            (logs[0], shares[0][:, :9]),
            (logs[1], shares[1][:, 20:]),
        ):
            log.append(cut(query.channel_tag, epoch, query.size_class or 0, part, 4)[0], origin)

    def complete(epoch: int) -> None:
        for of, part in held:
            logs[1].append(cut(query.channel_tag, of, query.size_class or 0, part, 4)[0], origin)
        held.clear()
        for log in logs:
            log.append([], origin, marks={query.channel_tag: epoch})

    answer(0)
    with submitted(settings, "local[2]") as running:
        wait_for(lambda: counted(tmp_path / "spark.db") > 0, running)
        answer(1)
        complete(1)
        time.sleep(0.3)
        running.kill()  # driver, JVM and workers, at work
    answer(2)
    with submitted(settings, "local-cluster[1,2,1024]") as running:
        seen = counted(tmp_path / "spark.db")
        wait_for(lambda: counted(tmp_path / "spark.db") > seen, running)
        answer(3)
        assert running.kill("CoarseGrainedExecutorBackend")
        complete(3)
        wait_for(lambda: counted(tmp_path / "spark.db") >= 3 * PER_EPOCH, running)
        assert running.kill("python_streaming_source_runner")  # what asks how far the logs reach
        answer(4)
        wait_for(lambda: bool(running.failures), running)
        seen = counted(tmp_path / "spark.db")
        wait_for(lambda: counted(tmp_path / "spark.db") > seen, running)
        broker.kill()
        time.sleep(1)
        broker.start()
        answer(5)
        complete(EPOCHS)
        wait_for(
            lambda: len(state_contents(tmp_path / "spark.db")["results"]) == EPOCHS - 1, running
        )
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
        assert running.events[-1] == {"event": "stopped"}

    state = State(tmp_path / "embedded.db", query.proxies)
    engine = Engine(state, [KafkaShareLog(each) for each in topics], EngineLimits())
    engine.drain()
    for reader in engine.logs:
        reader.close()
    engine.close()
    state.close()
    found = state_contents(tmp_path / "spark.db")
    assert found == state_contents(tmp_path / "embedded.db")
    counts = np.sum([np.frombuffer(row[-1], dtype="<i8") for row in found["panes"]], axis=0)
    assert list(counts[:n]) == [1] * n
    assert {(proxy, outcome): n for proxy, outcome, n in found["totals"]}[
        0, "duplicate"
    ] == 9 * EPOCHS
    for log in logs:
        log.close()
