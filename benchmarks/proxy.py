"""How many shares a second proxies take, in uploads of thousands: `python benchmarks/proxy.py`.

First the intake alone, in this process; then one proxy, and two at once, each in its own process,
over HTTP on loopback, with the senders on the same cores. Every figure is given by the clock and by
the processor time that the proxies themselves used, because a loaded machine slows the clock's
figure down. All of it is durable: each upload is on the disk before it is acknowledged, and at the
end all shares are in the logs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from deniable.logs.sqlite_log import LogReader
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import Channel
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.service.tokens import TokenStore

_SERVE = "from deniable.cli import main; main()"


def question() -> Query:
    origin = int(time.time()) // 600 * 600 - 6000
    return Query(
        id="distance",
        analyst="City",
        sql="SELECT distance FROM trips",
        columns=[Column("distance", [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"])],
        schedule=Schedule(origin, origin + 864_000, 600, 600, 600),
        proxies=["https://one.example", "https://two.example"],
        mechanism={"name": "TwoCoin", "p": 0.3, "q": 0.6},
    )


def bodies(query: Query, n_uploads: int, n_rows: int) -> list[bytes]:
    """Uploads of shares as they would come: random ids, random payloads."""
    random = np.random.default_rng(1)
    head = 1 | ord("S") << 8 | query.schedule.epoch_of(int(time.time())) << 32
    made = []
    for _ in range(n_uploads):
        records = random.integers(0, 1 << 64, (n_rows, 10), dtype=np.uint64)
        records[:, 0], records[:, 1] = head, query.channel_tag
        made.append(records.tobytes())
    return made


def intake_alone(query: Query, uploads: list[bytes], folder: Path) -> tuple[float, float]:
    intake = Intake(folder, IntakeRules(threshold=100_000), lambda: int(time.time()))
    intake.set_channels({query.channel_tag: Channel.of_query(query.header)})
    clock, cpu = time.perf_counter(), time.process_time()
    for start in range(0, len(uploads), 4):
        results = intake.take(
            [Upload(b"client", 1 << 40, content) for content in uploads[start : start + 4]]
        )
        assert all(isinstance(result, UploadReceipt) and not result.already for result in results)
        intake.tick()
    intake.flush()
    elapsed = time.perf_counter() - clock, time.process_time() - cpu
    intake.close()
    return elapsed


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send(address: str, token: str, uploads: list[bytes]) -> None:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    for content in uploads:
        connection.request("POST", "/v1/shares", content, headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 202, text
    connection.close()


class Running:
    """A proxy in its own process, to which the query is published."""

    def __init__(self, query: Query, folder: Path) -> None:
        self.log = folder / "data" / "log.db"
        self.log.parent.mkdir(parents=True)
        (folder / "proxy.toml").write_text(
            'folder = "data"\nport = 0\n[intake]\nthreshold = 100000\n'
        )
        book = TokenStore(self.log.parent / "tokens.db")
        (operator,), (self.device,) = book.add("operator"), book.add("device", quota=1 << 40)
        book.close()
        command = [sys.executable, "-c", _SERVE, "proxy", "run", str(folder / "proxy.toml")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().removeprefix("listening on ").strip()
        parts = urlsplit(self.address)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        signed = sign(query, AnalystKey.generate(query.analyst)).to_bytes()
        connection.request(
            "PUT", f"/v1/queries/{query.id}", signed, {"Authorization": f"Bearer {operator}"}
        )
        assert connection.getresponse().status == 201
        connection.close()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)


def over_http(
    query: Query, uploads: list[bytes], folder: Path, n_proxies: int, n_connections: int
) -> tuple[float, float]:
    """Every proxy is sent all uploads, as a share of each message goes to each proxy."""
    proxies: list[Running] = []
    try:
        proxies += [Running(query, folder / str(i)) for i in range(n_proxies)]
        senders = [
            threading.Thread(
                target=send, args=(proxy.address, proxy.device, uploads[i::n_connections])
            )
            for proxy in proxies
            for i in range(n_connections)
        ]
        clock, cpu = time.perf_counter(), sum(cpu_seconds(proxy.process.pid) for proxy in proxies)
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        elapsed = (
            time.perf_counter() - clock,
            sum(cpu_seconds(proxy.process.pid) for proxy in proxies) - cpu,
        )
    finally:
        for proxy in proxies:
            proxy.stop()
    n = sum(logged(proxy.log) for proxy in proxies)
    assert n * 80 == n_proxies * sum(map(len, uploads)), n
    return elapsed


def logged(path: Path) -> int:
    reader = LogReader(path)
    (n,) = reader._connection.execute("SELECT sum(n) FROM blocks").fetchone()
    reader.close()
    return int(n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shares", type=int, default=4_000_000)
    parser.add_argument("--rows", type=int, default=8192, help="shares in one upload")
    parser.add_argument("--connections", type=int, default=4, help="to each proxy")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    query = question()
    uploads = bodies(query, given.shares // given.rows, given.rows)
    n = len(uploads) * given.rows
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, n_proxies in (("intake", 1), ("one proxy", 1), ("two proxies", 2)):
            place = folder / what
            elapsed = (
                intake_alone(query, uploads, place)
                if what == "intake"
                else over_http(query, uploads, place, n_proxies, given.connections)
            )
            found[what] = {
                "shares": n * n_proxies,
                "shares_per_second": n * n_proxies / elapsed[0],
                "shares_per_cpu_second": n * n_proxies / elapsed[1],
            }
        assert logged(folder / "intake" / "log.db") == n
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        by_clock, by_cpu = figures["shares_per_second"], figures["shares_per_cpu_second"]
        print(
            f"{name:<11} {figures['shares']:,} shares: {by_clock:>9,.0f} a second (bar 500,000),"
            f" {by_cpu:>9,.0f} a second of the proxies' processor time"
        )


if __name__ == "__main__":
    main()
