"""A whole run with processes, and then a search: planted answers and secrets are where they belong,
and nowhere else."""

from __future__ import annotations

import base64
import os
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from deniable.client.vaults.vault import Vault
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from toolkit.attacks.traces import ProcessWatch, encodings, find_traces, traces_in
from toolkit.crowds import KEY, RING
from toolkit.queries import make_query
from toolkit.servers.systems import running_system

ANSWERS = {"answer 0": 0.39126485017263, "answer 1": 1.77319402665121, "answer 2": 2.11845933709217}
UNSHARED = {f"diary {i}": f"Wutheringsham-{i}-7f3a91" for i in range(3)}
INTAKE = {"deadline": 1, "grace": 8, "skew": 60}  # a client on a busy machine takes its time
SECONDS = 60


def ask(proxies: Sequence[str]) -> Query:
    now = int(time.time())
    return make_query(
        proxies=proxies, schedule=Schedule(now, now + 3600, 4, 4, 4), sampling=1.0, minimum_cohort=1
    )


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="process listings are looked at in /proc"
)
def test_answers_and_secrets_are_nowhere_but_where_they_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    # of all processes that are started: what they leave there is looked at too
    monkeypatch.setenv("TMPDIR", str(scratch))
    watch = ProcessWatch(os.getpid())
    secrets: dict[str, bytes | str | float | int] = {
        **ANSWERS,
        **UNSHARED,
        "the analyst's key": KEY._secret,
    }
    homes = {"the analyst's key": set[str]()}
    with running_system(tmp_path, ask, 2, INTAKE) as system, watch.watching():
        services = system.services
        secrets["the analyst's token"] = services.analyst_token_file.read_text().strip()
        homes["the analyst's token"] = {"services/analyst-token"}
        for proxy in services.proxies:
            file = services.folder / f"{proxy.name}.operator-token"
            secrets[f"the operator's token of {proxy.name}"] = file.read_text().strip()
            homes[f"the operator's token of {proxy.name}"] = {f"services/{file.name}"}
        RING.save(tmp_path / "ring.json")
        clients = []
        for i in range(3):
            path = tmp_path / f"person-{i}.db"
            vault = Vault.create(path)
            rows = [(ANSWERS[f"answer {i}"], UNSHARED[f"diary {i}"])]
            vault.import_rows("trips", {"distance": "REAL", "diary": "TEXT"}, rows)
            vault.grant("trips", ["distance"])
            tokens = [services.token(proxy) for proxy in services.proxies]
            for proxy, token in zip(services.proxies, tokens, strict=True):
                secrets[f"token {i} of {proxy.name}"] = token
                homes[f"token {i} of {proxy.name}"] = {f"person-{i}.db.policy.toml"}
            homes[f"answer {i}"] = homes[f"diary {i}"] = {path.name}
            write_policy(path.with_name(f"{path.name}.policy.toml"), system.query.proxies, tokens)
            clients.append(start_client(path))
        outputs = [client.communicate(timeout=SECONDS)[0] for client in clients]
        for client, output in zip(clients, outputs, strict=True):
            assert client.returncode == 0, output
            assert "2 shares sent" in output
            assert list(traces_in(output.encode(), secrets)) == []
        give_up = time.monotonic() + SECONDS
        while sum(window.n for window in system.analyst.range(system.query)) < 3:
            assert time.monotonic() < give_up
            time.sleep(0.2)
        watch.look()
    found = find_traces(tmp_path, secrets)
    assert {
        name: set(files) - homes[name] for name, files in found.items() if set(files) - homes[name]
    } == {}
    # The search can find: everything that has a home is found there.
    assert {name for name, home in homes.items() if home} == set(found)
    assert len(watch.seen) >= 3 + 3  # the services, and one process at least for each client
    for (pid, command), shown in watch.seen.items():
        assert list(traces_in(shown, secrets)) == [], f"process {pid}: {command[:60]!r}"


def write_policy(path: Path, proxies: Sequence[str], tokens: Sequence[str]) -> None:
    tables = "".join(
        f'[[proxies]]\naddress = "{proxy}"\ntoken = "{token}"\n'
        for proxy, token in zip(proxies, tokens, strict=True)
    )
    path.write_text(
        f'ring = "ring.json"\nupload_within = 0\nepsilon_per_answer = 20\n{tables}',
        encoding="utf-8",
    )
    path.chmod(0o600)


def start_client(vault: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "deniable", "client", "once", str(vault)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603 - our own command


@pytest.mark.parametrize("encoding", list(encodings(ANSWERS["answer 1"])))
def test_the_search_finds_an_answer_in_every_encoding(encoding: str, tmp_path: Path) -> None:
    form = encodings(ANSWERS["answer 1"])[encoding]
    (tmp_path / "proxy.log").write_bytes(b'{"event": "x", "value": "' + form + b'"}\n')
    assert list(find_traces(tmp_path, ANSWERS)) == ["answer 1"]


@pytest.mark.parametrize("before", [b"", b"a", b"ab"])
def test_the_search_finds_an_answer_within_a_longer_base64_text(
    before: bytes, tmp_path: Path
) -> None:
    content = before + struct.pack("<d", ANSWERS["answer 2"]) + b"and more"
    (tmp_path / "log").write_bytes(base64.b64encode(content))
    assert list(find_traces(tmp_path, ANSWERS)) == ["answer 2"]
    (tmp_path / "log").write_bytes(base64.urlsafe_b64encode(content))
    assert list(find_traces(tmp_path, ANSWERS)) == ["answer 2"]


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="process listings are looked at in /proc"
)
def test_the_watch_sees_what_a_process_is_given() -> None:
    watch = ProcessWatch(os.getpid())
    command = [sys.executable, "-c", "input()", UNSHARED["diary 0"]]
    environment = {**os.environ, "TOKEN": UNSHARED["diary 1"]}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as process:  # noqa: S603 - our own command
        give_up = time.monotonic() + SECONDS
        found: set[str] = set()
        while len(found) < 2 and time.monotonic() < give_up:
            watch.look()
            found = {
                name for shown in watch.seen.values() for name, _ in traces_in(shown, UNSHARED)
            }
        process.communicate(b"\n")
    assert found == {"diary 0", "diary 1"}
