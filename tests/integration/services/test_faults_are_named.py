"""Faults of a running system: each is named in health, log and metrics within its stated time, and
gone when it is mended.

Times are those of docs/monitoring.md with `silent` of a second: a probe a second, `silent`, and a
look a second. Five seconds more are for a busy machine.
"""

from __future__ import annotations

import signal
import sqlite3
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from deniable.analyst.analyst import Analyst
from deniable.queries.signed.signing import sign
from toolkit.crowds import KEY
from toolkit.servers.certificates import self_signed
from toolkit.servers.operated import OperatedSystem, _measured, small_disk, wait_until
from toolkit.servers.proxies import query_of_today
from toolkit.shares import body_of, make_columns

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]
SILENT, LOOK, BUSY = 1.0, 1.0, 5.0
SILENCE = SILENT + SILENT + LOOK + BUSY
"""Until a proxy that hangs is called silent: a probe every `silent` seconds, `silent` without an
answer, and a look."""
SOON = SILENT + LOOK + BUSY
DISK = 24 << 20
QUERY = query_of_today(proxies=["one", "two"])


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatedSystem]:
    folder = tmp_path_factory.mktemp("faults")
    good = self_signed(folder, "good", days=365)
    self_signed(folder, "wrong", days=365)
    with ExitStack() as stack:
        for place in ("two/data", "state"):
            try:
                stack.enter_context(small_disk(folder / place, DISK))
            except PermissionError as error:  # the tests that fill it are skipped, with this reason
                (folder / "no-small-disk").write_text(str(error))
        limits = 'silent = "1 s"\nreserve = "1 MiB"\n'
        system = OperatedSystem(
            folder, 'reserve = "2 MiB"\ndeadline = "1 s"\n', limits, {"SSL_CERT_FILE": str(good)}
        )
        system.write_proxy(1, good)
        stack.callback(system.stop)
        system.start()
        with Analyst(system.aggregator.address, system.token()) as analyst:
            analyst.publish(sign(QUERY, KEY))
        wait_until(lambda: not system.faults(), 20)
        yield system


def _logged(system: OperatedSystem, fault: str) -> bool:
    return f'"fault": "{fault}"' in system.proxies[1].errors()


# a log that is a file does not tell that its proxy hangs
@pytest.mark.parametrize(("i", "name"), [(0, "one"), (1, "two")])
def test_a_proxy_that_hangs_is_silent_and_nobody_else_is_blamed(
    system: OperatedSystem, i: int, name: str
) -> None:
    process = system.proxies[i].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        system.sees("proxy_silent", name, within=SILENCE)
        other = ("two", "one")[i]
        assert not [key for key in system.faults() if key[1] == other]
        assert httpx.get(f"{system.aggregator.address}/readyz").status_code == 200
    finally:
        process.send_signal(signal.SIGCONT)
    system.no_longer_sees("proxy_silent", name, within=SOON)


def test_a_token_file_that_vanished_is_named(system: OperatedSystem) -> None:
    file = system.folder / "two.token"
    aside = file.rename(file.with_suffix(".aside"))
    system.sees("token", "two", within=LOOK + BUSY)
    aside.rename(file)
    system.no_longer_sees("token", "two", within=LOOK + BUSY)


def test_a_certificate_that_is_not_trusted_is_named(system: OperatedSystem) -> None:
    proxy = system.proxies[1]
    for certificate, seen in (("wrong", True), ("good", False)):
        proxy.stop()
        system.write_proxy(1, system.folder / f"{certificate}.pem")
        proxy.start()
        if seen:
            system.sees("certificate", "two", within=SOON)
            assert "not trusted" in system.faults()["certificate", "two"]
        else:
            system.no_longer_sees("certificate", "two", within=SOON)


def _put(path: Path, content: bytes) -> None:
    """Put another file in the place of one."""
    half = path.with_suffix(".half")
    half.write_bytes(content)
    half.replace(path)


def test_a_damaged_log_is_named_and_the_other_is_counted_on(system: OperatedSystem) -> None:
    proxy = system.proxies[0]
    proxy.stop()
    log = proxy.data / "log.db"
    with closing(sqlite3.connect(log)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    kept = log.read_bytes()
    _put(log, b"\xff" * 4096 + kept[4096:])
    system.sees("log_damaged", "one", within=LOOK + BUSY)
    assert not [key for key in system.faults() if key[1] == "two"]
    _put(log, kept)
    system.no_longer_sees("log_damaged", "one", within=LOOK + BUSY)
    proxy.start()
    wait_until(lambda: not system.faults(), SOON)


def _fill(system: OperatedSystem, place: Path) -> Path:
    """Take all that is left of a disk."""
    refused = system.folder / "no-small-disk"
    if refused.exists():
        pytest.skip(f"a small disk cannot be mounted here: {refused.read_text()}")
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return ballast


def test_a_proxy_whose_disk_is_full_says_so_takes_nothing_and_goes_on_when_there_is_room(
    system: OperatedSystem,
) -> None:
    proxy, url = system.proxies[1], system.url(1)
    headers = proxy.token(quota=1000)
    epoch = QUERY.schedule.epoch_of(int(time.time()))
    body = body_of(QUERY, epoch, make_columns(QUERY, epoch, 5)[1])
    with httpx.Client(
        verify=ssl.create_default_context(cafile=system.folder / "good.pem")
    ) as client:
        wait_until(
            lambda: (
                client.post(f"{url}/v1/shares", content=body, headers=headers).status_code == 202
            ),
            20,
        )
        ballast = _fill(system, proxy.data)
        wait_until(lambda: client.get(f"{url}/readyz").status_code == 503, LOOK + BUSY)
        told = client.get(f"{url}/readyz").json()
        assert [each["fault"] for each in told["faults"] if each["fault"] != "log_away"] == [
            "disk_full"
        ]
        assert client.get(f"{url}/healthz").status_code == 200  # a restart would not help
        answer = client.post(f"{url}/v1/shares", content=body, headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (503, "disk_full")
        wait_until(lambda: _logged(system, "disk_full"), LOOK + BUSY)
        assert ("disk_full", str(proxy.data)) in _told_by(client, url)
        system.sees("proxy_failing", "two", within=SOON)
        assert "disk_full" in system.faults()["proxy_failing", "two"]
        ballast.unlink()
        wait_until(lambda: client.get(f"{url}/readyz").status_code == 200, LOOK + BUSY)
        assert client.post(f"{url}/v1/shares", content=body, headers=headers).json() == {
            "accepted": 0,
            "already": 5,
        }
    system.no_longer_sees("proxy_failing", "two", within=SOON)
    assert proxy.process is not None
    assert proxy.process.poll() is None


def _told_by(client: httpx.Client, url: str) -> set[tuple[str, str]]:
    found = set()
    for line in client.get(f"{url}/metrics").text.splitlines():
        if line.startswith("deniable_proxy_fault{"):
            _, fault, _, subject, _ = line.split('"')
            found.add((fault, subject))
    return found


def test_an_aggregator_whose_disk_is_full_says_so_and_goes_on_when_there_is_room(
    system: OperatedSystem,
) -> None:
    ballast = _fill(system, system.folder / "state")
    epoch = QUERY.schedule.epoch_of(int(time.time()))
    with httpx.Client(
        verify=ssl.create_default_context(cafile=system.folder / "good.pem")
    ) as client:
        for i, rows in enumerate(make_columns(QUERY, epoch, 2000)):
            body, headers = body_of(QUERY, epoch, rows), system.proxies[i].token(quota=10_000)
            assert (
                client.post(f"{system.url(i)}/v1/shares", content=body, headers=headers).status_code
                == 202
            )
    system.sees("disk_full", "engine", within=LOOK + BUSY)  # at its next write
    assert httpx.get(f"{system.aggregator.address}/readyz").status_code == 503
    assert httpx.get(f"{system.aggregator.address}/healthz").status_code == 200
    ballast.unlink()
    system.no_longer_sees("disk_full", "engine", within=30 + LOOK)
    assert httpx.get(f"{system.aggregator.address}/readyz").status_code == 200
    assert _measured(system.aggregator.address, "aggregator") == set()
