"""`new`, `check` and `show` of proxy, aggregator and collector: files that are valid as written,
and mistakes found by line."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from click.testing import CliRunner, Result

from deniable.aggregator.settings import AggregatorSettings
from deniable.aggregator.settings import read_settings as read_aggregator
from deniable.aggregator.state import State, connect
from deniable.aggregator.web.tokens import add_token
from deniable.cli import cli
from deniable.logs.sqlite_log import BlockLog
from deniable.proxy.collecting.settings import CollectorSettings, read_collector_settings
from deniable.proxy.settings import ProxySettings
from deniable.proxy.settings import read_settings as read_proxy
from deniable.queries.signed.key_ring import KeyRing
from deniable.service.files.settings import settings_of
from deniable.service.tokens import TokenStore
from toolkit.crowds import RING
from toolkit.servers.certificates import self_signed

KINDS: dict[str, Any] = {
    "proxy": ProxySettings,
    "aggregator": AggregatorSettings,
    "collector": CollectorSettings,
}
READ: dict[str, Any] = {
    "proxy": read_proxy,
    "aggregator": read_aggregator,
    "collector": read_collector_settings,
}


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


# --- new


def all_keys(kind: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting there is, with its default."""
    hints = get_type_hints(kind)
    for each in dataclasses.fields(kind):
        inner = next(
            (
                part
                for part in (hints[each.name], *get_args(hints[each.name]))
                if dataclasses.is_dataclass(part)
            ),
            None,
        )
        if inner is not None and each.name != "kafka":
            yield from all_keys(inner, f"{place}{each.name}.")
        else:
            made: Any = (
                each.default_factory()
                if each.default_factory is not dataclasses.MISSING
                else each.default
            )
            yield f"{place}{each.name}", list(made) if isinstance(made, tuple) else made


@pytest.mark.parametrize("service", KINDS)
def test_a_new_file_is_valid_and_names_every_setting_with_its_default(
    service: str, tmp_path: Path
) -> None:
    path = tmp_path / "one.toml"
    assert run(service, "new", path).exit_code == 0
    READ[service](path)
    # With every comment that is a setting turned into one, it is still TOML, and says what holds
    # without it.
    lines = path.read_text().splitlines()
    bare = "\n".join(re.sub(r"^# (?=\[|[a-z_]+ = )", "", line) for line in lines)
    tree = tomllib.loads(bare)
    tree.get("proxies", [{}])[0].pop("log", None)  # it excludes kafka
    full = settings_of(tree, KINDS[service], tmp_path)
    defaults = dict(all_keys(KINDS[service]))
    flat = dict(flattened(full))
    assert set(defaults) == {re.sub(r"\[\d+\]", "", key) for key in flat}
    differing = {
        key
        for key, value in flat.items()
        if (given := defaults[re.sub(r"\[\d+\]", "", key)]) not in (None, "", dataclasses.MISSING)
        and given != value
    }
    assert differing == ({"limits.most_connections"} if service == "collector" else set())


def flattened(settings: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    for each in dataclasses.fields(settings):
        value = getattr(settings, each.name)
        if dataclasses.is_dataclass(value) and each.name != "kafka":
            yield from flattened(value, f"{place}{each.name}.")
        elif isinstance(value, list | tuple) and value and dataclasses.is_dataclass(value[0]):
            yield from flattened(value[0], f"{place}{each.name}[0].")
        else:
            yield f"{place}{each.name}", list(value) if isinstance(value, tuple) else value


def test_new_takes_the_few_values_that_matter_and_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    options = [
        "--proxy",
        "https://one.example",
        "--proxy",
        "https://two.example",
        "--host",
        "0.0.0.0",  # noqa: S104
        "--port",
        "9000",
    ]
    tls = ["--certificate", "c.pem", "--key", "k.pem", "--controller", "c.key", "--ring", "r.json"]
    assert run("aggregator", "new", path, *options, *tls).exit_code == 0
    made = read_aggregator(path)
    assert [proxy.name for proxy in made.proxies] == ["https://one.example", "https://two.example"]
    assert made.tls is not None
    assert (made.host, made.port, made.tls.key, made.controller) == (
        "0.0.0.0",  # noqa: S104
        9000,
        tmp_path / "k.pem",
        tmp_path / "c.key",
    )
    before = path.read_bytes()
    again = run("aggregator", "new", path)
    assert (again.exit_code, "already exists and is not overwritten" in again.stderr) == (2, True)
    assert path.read_bytes() == before
    assert (
        "--proxy = ['https://one.example'] must be given at least twice"
        in run("aggregator", "new", tmp_path / "b.toml", "--proxy", "https://one.example").stderr
    )
    assert (
        "--key = None is missing"
        in run("proxy", "new", tmp_path / "b.toml", "--certificate", "c.pem").stderr
    )
    assert not (tmp_path / "b.toml").exists()
    assert (
        run(
            "proxy",
            "new",
            tmp_path / "p.toml",
            "--kafka",
            "k:1",
            "--topic",
            "t",
            "--ring",
            "r.json",
        ).exit_code
        == 0
    )
    kafka = read_proxy(tmp_path / "p.toml").kafka
    assert kafka is not None
    assert (kafka.bootstrap, kafka.topic) == ("k:1", "t")


# --- show


def test_show_prints_what_is_in_force_and_the_line_that_says_so_without_secrets(
    tmp_path: Path,
) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(
        'folder = "data"\n[intake]\ngrace = 1200\n[kafka]\nbootstrap = "k:1"\ntopic ='
        ' "t"\n[kafka.options]\n"security.protocol" ='
        ' "SASL_SSL"\n"sasl.oauthbearer.token.endpoint.url" ='
        ' "https://user:pass@x.example"\n[kafka.secrets]\n"sasl.password" = "file:password"\n'
    )
    shown = run("proxy", "show", path, "--json")
    rows = {each["key"]: each for each in json.loads(shown.stdout)["settings"]}
    assert (rows["intake.grace"]["value"], rows["intake.grace"]["line"]) == ("20 min", 3)
    assert (rows["intake.deadline"]["value"], rows["intake.deadline"]["source"]) == (
        "10 s",
        "default",
    )
    assert rows["limits.largest_body"]["value"] == "4 MiB"
    assert rows["folder"] == {
        "key": "folder",
        "value": str(tmp_path / "data"),
        "source": "file",
        "line": 1,
    }
    assert rows["kafka.options.security.protocol"]["source"] == "file"
    assert rows["kafka.partitions"]["source"] == "default"
    assert "pass@" not in shown.stdout
    assert rows["kafka.secrets.sasl.password"]["value"] == f"file:{tmp_path / 'password'}"
    lines = run("proxy", "show", path).stdout.splitlines()
    assert any(
        re.fullmatch(r'intake\.grace +"20 min" +proxy\.toml, line 3', line) for line in lines
    )
    assert any(re.fullmatch(r"tls +\(not set\) +default", line) for line in lines)


# --- check


def findings(result: Result) -> list[tuple[str, int | None, str]]:
    told = json.loads(result.stdout)
    assert result.exit_code == (0 if told["ok"] else 2)
    return [(each["level"], each["line"], each["key"]) for each in told["findings"]]


def test_check_finds_every_mistake_at_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "proxy.toml"
    path.write_text(
        'folder = "data"\nprot = 8600\n[intake]\ngrace = "10 parsecs"\n[limits]\nmost_connections ='
        ' "many"\n'
    )
    result = run("proxy", "check", path)
    assert result.exit_code == 2
    first, second, third, last = result.stdout.splitlines()
    assert first.startswith(
        "error: proxy.toml, line 4: intake.grace = '10 parsecs' must be a number of whole seconds"
    )
    assert (
        second
        == "error: proxy.toml, line 6: limits.most_connections = 'many' must be a whole number"
    )
    assert third.startswith(
        "error: proxy.toml, line 2: prot = 8600 is not a setting; did you mean 'port'?"
    )
    assert last == "proxy.toml: 3 errors, no warnings in 1 check."
    path.write_text("folder = ")
    assert findings(run("proxy", "check", path, "--json")) == [("error", None, "file")]
    assert findings(run("proxy", "check", tmp_path / "none.toml", "--json")) == [
        ("error", None, "file")
    ]


def good_proxy(folder: Path, rest: str = "") -> Path:
    (folder / "data").mkdir(mode=0o700)
    store = TokenStore(folder / "data" / "tokens.db")
    store.add("operator")
    store.add("device")
    store.close()
    RING.save(folder / "ring.json")
    self_signed(folder, "cert", days=90, hosts=("proxy.example",))
    (folder / "cert.key").chmod(0o600)
    path = folder / "proxy.toml"
    path.write_text(
        'folder = "data"\nring = "ring.json"\nport = 0\n[tls]\ncertificate = "cert.pem"\nkey ='
        ' "cert.key"\n' + rest
    )
    return path


def test_check_of_a_proxy_in_order_finds_nothing(tmp_path: Path) -> None:
    result = run("proxy", "check", good_proxy(tmp_path), "--url", "https://proxy.example")
    assert (result.exit_code, result.stdout) == (
        0,
        "proxy.toml: no errors, no warnings in 7 checks.\n",
    )


def test_check_of_a_proxy_finds_what_each_file_lacks(tmp_path: Path) -> None:
    path = good_proxy(tmp_path)
    result = run("proxy", "check", path, "--url", "https://other.example")
    assert result.exit_code == 2
    assert "line 5: tls.certificate = " in result.stdout
    assert (
        "must name other.example, or they refuse it; it is valid for proxy.example, 127.0.0.1"
        in result.stdout
    )
    KeyRing().save(tmp_path / "ring.json")
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "cert.key").chmod(0o644)
    self_signed(tmp_path, "cert", days=3)
    (tmp_path / "cert.key").chmod(0o644)
    found = findings(run("proxy", "check", path, "--json"))
    assert found == [
        ("warning", 1, "folder"),
        ("warning", 2, "ring"),
        ("warning", 5, "tls.certificate"),
        ("warning", 6, "tls.key"),
    ]
    (tmp_path / "data" / "tokens.db").unlink()
    (tmp_path / "ring.json").write_text("{}")
    self_signed(tmp_path, "cert", days=-3)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path.write_text(path.read_text().replace("port = 0", f"port = {taken.getsockname()[1]}"))
        found = findings(run("proxy", "check", path, "--json"))
    assert [each for each in found if each[0] == "error"] == [
        ("error", 2, "ring"),
        ("error", 3, "port"),
        ("error", 5, "tls.certificate"),
    ]


def test_a_proxy_that_runs_may_hold_its_port(tmp_path: Path) -> None:
    from deniable.service.files.database import lock  # noqa: PLC0415

    path = good_proxy(tmp_path)
    held = lock(tmp_path / "data" / "lock")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path.write_text(path.read_text().replace("port = 0", f"port = {taken.getsockname()[1]}"))
        assert run("proxy", "check", path).exit_code == 0
        held.close()
        assert run("proxy", "check", path).exit_code == 2


def test_check_of_an_aggregator_looks_at_state_logs_tokens_and_keys(tmp_path: Path) -> None:
    RING.save(tmp_path / "ring.json")
    (tmp_path / "one.token").write_text("deniable_x")
    (tmp_path / "one.token").chmod(0o600)
    BlockLog(tmp_path / "log.db").close()
    connection = connect(tmp_path / "state.db")
    add_token(connection, "City", ["read"], 0)
    connection.close()
    State(tmp_path / "state.db", ["one", "two"]).close()
    proxies = "".join(
        f'[[proxies]]\nname = "{name}"\nlog = "log.db"\ntoken_file = "one.token"\n'
        for name in ("one", "two")
    )
    path = tmp_path / "aggregator.toml"
    path.write_text(f'state = "state.db"\nring = "ring.json"\nport = 0\n{proxies}')
    assert findings(run("aggregator", "check", path, "--json")) == []
    bad = path.read_text().replace(
        'name = "two"\nlog = "log.db"', 'name = "three"\nlog = "none.db"'
    )
    path.write_text(
        'controller = "none.key"\nengine = "spark"\n' + bad + '[history]\nfolder = "one.token"\n'
    )
    found = findings(run("aggregator", "check", path, "--json"))
    assert found == [
        ("error", 6, "proxies"),
        ("error", 12, "proxies[1].log"),
        ("error", 1, "controller"),
        ("error", 15, "history.folder"),
        ("error", None, "spark"),
    ]


@pytest.mark.parametrize(
    ("absent", "found"), [("duckdb", []), ("pyarrow", [("error", None, "history")])]
)
def test_check_asks_only_for_what_an_aggregator_with_a_history_imports(
    absent: str, found: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RING.save(tmp_path / "ring.json")
    State(tmp_path / "state.db", ["one", "two"]).close()
    BlockLog(tmp_path / "log.db").close()
    proxies = "".join(f'[[proxies]]\nname = "{name}"\nlog = "log.db"\n' for name in ("one", "two"))
    path = tmp_path / "aggregator.toml"
    path.write_text(
        f'state = "state.db"\nring = "ring.json"\nport = 0\n{proxies}[history]\nfolder ='
        ' "history"\n'
    )
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == absent else find_spec(name)
    )
    findings_of_history = [
        each
        for each in findings(run("aggregator", "check", path, "--json"))
        if each[2] == "history"
    ]
    assert [(level, None, key) for level, _, key in findings_of_history] == found


def test_no_two_services_listen_on_the_same_port_by_default() -> None:
    ports = [dict(all_keys(kind))["port"] for kind in KINDS.values()]
    assert len(set(ports)) == len(ports)


def test_check_says_which_neighbour_cannot_be_reached_within_seconds(tmp_path: Path) -> None:
    (tmp_path / "edge.token").write_text("deniable_x")
    (tmp_path / "edge.token").chmod(0o600)
    path = tmp_path / "edge.toml"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    path.write_text(f'proxy = "http://127.0.0.1:{port}"\ntoken_file = "edge.token"\nport = 0\n')
    result = run("collector", "check", path)
    assert result.exit_code == 2
    assert (
        f"error: edge.toml, line 1: proxy = 'http://127.0.0.1:{port}' cannot be reached: nobody"
        " listens there" in result.stdout
    )
