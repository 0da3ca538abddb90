from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.cli.person.client import client
from deniable.client.vaults.vault import Vault
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.signing import sign
from toolkit.devices import KEY, STRANGER, asked
from toolkit.servers.http_proxy import Proxy

Command = Callable[..., str]


@pytest.fixture
def proxies() -> Iterator[list[Proxy]]:
    started = [Proxy(), Proxy()]
    yield started
    for proxy in started:
        proxy.stop()


@pytest.fixture
def deniable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command in a folder with a vault; gives what it prints, and fails if the exit code is not
    the one expected."""
    monkeypatch.chdir(tmp_path)
    vault = Vault.create("ann.db")
    vault.import_rows("trips", {"distance": "REAL"}, [(3.5,)])
    vault.grant("trips", ["distance"])
    KeyRing([TrustedKey(KEY.public)]).save("ring.json")

    def command(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, ["client", *arguments])
        assert result.exit_code == code, result.output
        return result.output

    return command


def settings(proxies: list[Proxy], more: str = "") -> None:
    tables = "".join(
        f'[[proxies]]\naddress = "{proxy.address}"\ntoken = "my token"\n' for proxy in proxies
    )
    path = Path("ann.db.policy.toml")
    path.write_text(f'ring = "ring.json"\nupload_within = 0\n{more}\n{tables}', encoding="utf-8")
    path.chmod(0o600)


def question(proxies: list[Proxy], **changes: Any) -> Any:
    schedule = Schedule(
        origin=0, expires=1 << 39, every=86_400 * 365, window=86_400 * 365, slide=86_400 * 365
    )
    return asked(schedule=schedule, proxies=[proxy.address for proxy in proxies], **changes)


def test_from_settings_to_shares_at_both_proxies_and_a_log_in_plain_words(
    deniable: Command, proxies: list[Proxy]
) -> None:
    settings(proxies)
    query = question(proxies)
    for proxy in proxies:
        proxy.relayed = [
            sign(query, KEY).to_bytes(),
            sign(query.revised(minimum_cohort=1), STRANGER).to_bytes(),
        ]
    out = deniable("once", "ann.db")
    assert "2 shares sent, 0 shares still waiting." in out
    assert [list(proxy.shares) for proxy in proxies] == [list(proxies[0].shares)] * 2
    assert len(proxies[0].shares) == 1
    assert {token for proxy in proxies for token in proxy.tokens} == {"Bearer my token"}
    log = deniable("log", "ann.db").splitlines()
    assert "A query not signed by a key you trust was not read." in log[0]
    assert "Refused (unknown key): key" in log[0]
    assert (
        "City of Exampleton asked: How far do you go? (taxi-distance, version 1). Answered for"
        " epoch" in log[1]
    )
    assert "It cost 1.26" in log[1]
    assert (
        log[2]
        == f"City of Exampleton has cost {query.epsilon:.6g} in all; {10 - query.epsilon:.6g} is"
        " left now."
    )
    assert "epoch" in deniable("once", "ann.db")
    assert sum(proxy.counts["uploads"] for proxy in proxies) == 2, "the epoch was answered already"


def test_the_log_for_programs_holds_the_same(deniable: Command, proxies: list[Proxy]) -> None:
    settings(proxies, "epsilon_per_answer = 1.0")
    Path("query.json").write_bytes(sign(question(proxies), KEY).to_bytes())
    deniable("answer", "ann.db", "query.json")
    tree = json.loads(deniable("log", "ann.db", "--json"))
    [receipt] = tree["receipts"]
    assert (receipt["outcome"], receipt["reason"], receipt["epsilon"]) == (
        "refused",
        "over the ceiling",
        0,
    )
    assert tree["budget"] == [{"analyst": "City of Exampleton", "spent": 0.0, "left": 10.0}]
    [row] = csv.DictReader(io.StringIO(deniable("log", "ann.db", "--csv")))
    assert row["detail"] == receipt["detail"]
    assert "Nothing is waiting to be sent." in deniable("status", "ann.db")


def test_answers_wait_until_they_are_uploaded_and_status_shows_them(
    deniable: Command, proxies: list[Proxy]
) -> None:
    settings(proxies)
    Path("query.json").write_bytes(sign(question(proxies), KEY).to_bytes())
    assert "Answered for epoch" in deniable("answer", "ann.db", "query.json")
    status = deniable("status", "ann.db")
    for proxy in proxies:
        assert f"1 share for {proxy.address}, the next from" in status
    assert "epochs answered: 1" in status
    tree = json.loads(deniable("status", "ann.db", "--json"))
    assert [each["shares"] for each in tree["waiting"]] == [1, 1]
    assert deniable("upload", "ann.db") == "2 shares sent, 0 shares still waiting.\n"
    rows = list(csv.DictReader(io.StringIO(deniable("status", "ann.db", "--csv"))))
    assert {row["name"]: row["n"] for row in rows} == {"epochs answered": "1", "shares sent": "2"}


def test_a_proxy_that_is_down_is_named_and_its_share_waits(
    deniable: Command, proxies: list[Proxy]
) -> None:
    settings(proxies)
    Path("query.json").write_bytes(sign(question(proxies), KEY).to_bytes())
    deniable("answer", "ann.db", "query.json")
    proxies[0].stop()
    out = deniable("upload", "ann.db")
    assert "1 share sent, 1 share still waiting." in out
    assert f"{proxies[0].address}: cannot be reached" in out
    proxies.pop(0)


def test_run_goes_round_and_reports_only_what_is_new(
    deniable: Command, proxies: list[Proxy]
) -> None:
    settings(proxies)
    proxies[1].relayed = [sign(question(proxies), KEY).to_bytes()]
    out = deniable("run", "ann.db", "--every", "1", "--rounds", "2").splitlines()
    assert len(out) == 2
    assert "Answered" in out[0]
    assert out[1] == "2 shares sent, 0 shares still waiting."


def test_rounds_must_have_room_for_an_answer_however_long_its_sql_takes(
    deniable: Command, proxies: list[Proxy]
) -> None:
    settings(proxies)
    path = Path("ann.db.policy.toml")
    path.write_text(
        path.read_text().replace("upload_within = 0", 'upload_within = "10 min"\ndeadline = 3.0')
    )
    out = deniable("run", "ann.db", "--every", "29", code=2)
    assert (
        out
        == "deniable: every = 29 must be at least 30 seconds: half of a round is for answers, and"
        " one may take 15 seconds\n"
    )


def test_once_says_which_proxy_could_not_be_asked_and_fails_if_none_could(
    deniable: Command, proxies: list[Proxy]
) -> None:
    settings(proxies)
    path = Path("ann.db.policy.toml")
    dead = "http://127.0.0.1:9"
    one, two = (proxy.address for proxy in proxies)
    path.write_text(path.read_text().replace(one, dead))
    said = deniable("once", "ann.db")
    assert said.count(dead) == 1
    assert two not in said
    path.write_text(path.read_text().replace(two, "http://127.0.0.1:19"))
    said = deniable("once", "ann.db", code=1)
    assert said.count(dead) == said.count("http://127.0.0.1:19") == 1


def test_once_sends_what_it_answers_only_later_where_time_would_tell(
    deniable: Command, proxies: list[Proxy]
) -> None:
    settings(proxies)
    path = Path("ann.db.policy.toml")
    path.write_text(path.read_text().replace("upload_within = 0", 'upload_within = "10 min"'))
    proxies[0].relayed = [sign(question(proxies), KEY).to_bytes()]
    said = deniable("once", "ann.db")
    assert "Answered" in said
    assert "0 shares sent, 2 shares still waiting." in said
    assert sum(proxy.counts["uploads"] for proxy in proxies) == 0
    status = json.loads(deniable("status", "ann.db", "--json"))
    assert all(each["next"] >= time.time() for each in status["waiting"])


def test_a_fresh_policy_is_its_owners_alone_allows_no_proxy_and_is_not_overwritten(
    deniable: Command,
) -> None:
    deniable("policy", "ann.db", "--new")
    path = Path("ann.db.policy.toml")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "exists" in deniable("policy", "ann.db", "--new", code=2)
    path.write_text(
        path.read_text() + '[[proxies]]\naddress = "https://one.example"\ntoken = "secret"\n'
    )
    said = deniable("policy", "ann.db")
    assert "1 key is trusted. Shares may go to https://one.example." in said
    assert "at most 10 in any 30 days for each analyst, at most 30 in any 30 days" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    "arguments",
    [("log", "ann.db"), ("once", "ann.db"), ("status", "nobody.db"), ("answer", "ann.db", "lost")],
)
def test_an_error_is_one_line(
    deniable: Command, proxies: list[Proxy], arguments: tuple[str, ...]
) -> None:
    if arguments[0] == "answer":
        settings(proxies)
    out = deniable(*arguments, code=2)
    assert out.startswith("deniable: ")
    assert out.count("\n") == 1


def test_nobody_has_asked_yet(deniable: Command, proxies: list[Proxy]) -> None:
    settings(proxies)
    assert deniable("log", "ann.db") == "Nobody has asked anything yet.\n"


def test_every_command_is_on_the_clients_page_and_none_that_is_not_there() -> None:
    page = (Path(__file__).parents[3] / "docs" / "client.md").read_text(encoding="utf-8")
    rows = {
        line.split("`")[1].split()[2]
        for line in page.splitlines()
        if line.startswith("| `deniable client ")
    }
    assert rows == set(client.commands)
