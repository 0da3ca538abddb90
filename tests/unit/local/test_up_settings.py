"""The file of `deniable up`: what it may hold, for both modes, and what is said where it is
wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.aggregator.settings import read_settings as read_aggregator
from deniable.cli import cli
from deniable.client.vaults.vault import Vault
from deniable.errors import SettingsError
from deniable.local.own_data import simulate_own
from deniable.local.people import Answers
from deniable.local.services import Services
from deniable.local.up_settings import read_settings
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.keys import AnalystKey
from toolkit.queries import make_query

QUERY = """
id = "trip-distance"
analyst = "City of Exampleton"
sql = "SELECT miles FROM trips"
proxies = ["https://one.example:8601", "http://127.0.0.1:8602"]
sampling = 0.5
[schedule]
origin = 2026-01-01T00:00:00Z
expires = 2027-01-01T00:00:00Z
every = "1 h"
window = "4 h"
slide = "2 h"
[mechanism]
name = "TwoCoin"
p = 0.5
q = 0.5
[budget]
epsilon = 20.0
[[columns]]
name = "miles"
buckets = ["[0,2)", "[2,5)", "[5,inf)"]
"""
UP = """
mode = "simulation"
query = "trips.toml"
seconds = 30

[data]
table = "trips.csv"
owner = "taxi"

[simulation]
every = "3 s"
devices = 2

[services]
keys = ["city.key.pub"]
start = ["one", "aggregator"]

[[services.proxies]]
name = "one"
host = "0.0.0.0"
port = 8601
url = "https://one.example:8601"
certificate = "one.pem"
key = "one.key"

[[services.proxies]]
name = "two"
port = 8602
token_file = "two.token"

[services.aggregator]
port = 8700
"""
CSV = "taxi,miles\na,1.5\na,7\nb,3\nc,\nd,100\nd,4\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trips.toml").write_text(QUERY)
    (tmp_path / "trips.csv").write_text(CSV)
    AnalystKey.generate("City of Exampleton").public.save(tmp_path / "city.key.pub")
    (tmp_path / "up.toml").write_text(UP)
    return tmp_path


def test_one_file_describes_the_simulation_and_the_services(folder: Path) -> None:
    simulated = read_settings(folder / "up.toml")
    served = read_settings(folder / "up.toml", "services")
    assert (simulated.mode, served.mode) == ("simulation", "services")
    assert (simulated.seconds, simulated.every, simulated.devices) == (30, 3, 2)
    plan = served.services
    assert plan is not None
    assert [(proxy.name, proxy.here, proxy.address.url) for proxy in plan.proxies] == [
        ("one", True, "https://one.example:8601"),
        ("two", False, "http://127.0.0.1:8602"),
    ]
    assert plan.proxies[0].address.settings() == {
        "host": "0.0.0.0",  # noqa: S104 - as in the file
        "port": 8601,
        "tls": {"certificate": str(folder / "one.pem"), "key": str(folder / "one.key")},
    }
    assert plan.proxies[1].token_file == folder / "two.token"
    assert (plan.aggregator.here, plan.aggregator.address.url) == (True, "http://127.0.0.1:8700")
    assert [key.key.owner for key in plan.ring] == ["City of Exampleton"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            'mode = "simulation"',
            'mode = "party"',
            "line 2: mode = 'party' must be one of 'simulation', 'services'",
        ),
        (
            "seconds = 30",
            "secnds = 30",
            "line 4: secnds = 30 is not a setting here; did you mean 'seconds'? There are",
        ),
        ("seconds = 30", "seconds = 0", "line 4: seconds = 0 must be a whole number from 1 to"),
        (
            'query = "trips.toml"',
            "",
            "query = None must be the path of a query's TOML file, or a table [query]",
        ),
        ('owner = "taxi"', "", "line 6: data.owner = None must be a non-empty text"),
        (
            'table = "trips.csv"',
            'table = "none.csv"',
            "line 7: data.table = 'none.csv' must be a file: .csv, .parquet",
        ),
        ('table = "trips.csv"', "", "data = ['owner'] must have either vaults, a folder, or table"),
        (
            'every = "3 s"',
            'every = "3 m"',
            "line 11: simulation.every = '3 m' must be a number of whole seconds or a text",
        ),
        (
            'start = ["one", "aggregator"]',
            'start = ["ten"]',
            "services.start = ['ten'] must be a list of some of one, two, aggregator",
        ),
        (
            'keys = ["city.key.pub"]',
            "",
            "line 14: services.keys = None must be a list of public key files; or give ring",
        ),
        (
            'key = "one.key"',
            "",
            "services.proxies[0].key = None is missing: TLS needs a certificate and its key",
        ),
        (
            'token_file = "two.token"',
            "",
            "services.proxies[1].token_file = None is missing: the aggregator needs",
        ),
        (
            "port = 8602",
            "",
            "services.proxies[1].port = None must be a whole number from 1 to 65535",
        ),
        (
            'name = "two"',
            'name = "one"',
            "services.proxies = ['one', 'one'] must have different names",
        ),
        (
            "port = 8602",
            "port = 8602\nprot = 1",
            "line 29: services.proxies[1].prot = 1 is not a setting here; did you mean 'port'",
        ),
        (
            "port = 8602",
            'port = 8602\nintake = { graec = "1 s" }',
            (
                "line 29: services.proxies[1].intake.graec = '1 s' is not a setting; did you mean"
                " 'grace'? There are threshold"
            ),
        ),
        (
            "port = 8700",
            'port = 8700\nlimits = { patience = "soon" }',
            (
                "line 33: services.aggregator.limits.patience = 'soon' must be a number of whole"
                " seconds"
            ),
        ),
        (
            "port = 8700",
            "port = 8700\n[services.aggregator.history]\nkeep = 0",
            "line 34: services.aggregator.history.keep = 0 must lie between 1 second",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key_and_what_would_be_accepted(
    folder: Path, before: str, after: str, message: str
) -> None:
    assert before in UP
    (folder / "up.toml").write_text(UP.replace(before, after))
    result = CliRunner().invoke(cli, ["up", str(folder / "up.toml")])
    assert result.exit_code == 2
    assert result.stderr.startswith("deniable: up.toml")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_simulation_that_is_too_short_for_a_window_is_refused(folder: Path) -> None:
    result = CliRunner().invoke(cli, ["up", str(folder / "up.toml"), "--seconds", "11"])
    assert result.exit_code == 2
    assert (
        result.stderr == "deniable: seconds = 11 must be at least 12, the length of a window (see"
        " simulation.every)\n"
    )


def test_services_must_be_those_that_the_query_names(folder: Path) -> None:
    (folder / "up.toml").write_text(UP.replace("port = 8602", "port = 8603"))
    read_settings(folder / "up.toml")  # a simulation does not mind
    with pytest.raises(SettingsError, match="must be the proxies that the query names"):
        read_settings(folder / "up.toml", "services")


def test_a_simulation_needs_no_key_and_a_host_of_a_proxy_needs_neither_data_nor_the_analysts_key(
    folder: Path,
) -> None:
    text = UP.replace("[services]", '[services]\nanalyst_key = "city.key"')
    (folder / "up.toml").write_text(text)
    kept = (folder / "city.key.pub").read_bytes()
    (folder / "city.key.pub").unlink()
    assert read_settings(folder / "up.toml").mode == "simulation"
    (folder / "trips.csv").unlink()
    with pytest.raises(SettingsError, match=r"data\.table = 'trips\.csv' must be a file"):
        read_settings(folder / "up.toml")
    (folder / "city.key.pub").write_bytes(kept)
    plan = read_settings(folder / "up.toml", "services", ["one"]).services
    assert plan is not None
    assert (plan.analyst_key, [proxy.here for proxy in plan.proxies], plan.aggregator.here) == (
        None,
        [True, False],
        False,
    )
    with pytest.raises(
        SettingsError,
        match=r"line 15: services\.analyst_key = 'city\.key' must be the file of a key",
    ):
        read_settings(folder / "up.toml", "services")


def test_services_have_the_controllers_key_that_the_envelope_names(folder: Path) -> None:
    key, other = AnalystKey.generate("controller"), AnalystKey.generate("another")
    key.save(folder / "controller.key")
    other.save(folder / "other.key")
    ranges = "sampling = [0.1, 1.0]\np = [0.2, 0.5]\nq = [0.5, 0.5]\nepsilon_per_answer = 3.0\n"
    envelope = f'[envelope]\ncontroller = "{key.public.raw.hex()}"\n{ranges}'
    (folder / "trips.toml").write_text(QUERY.replace("[budget]", f"{envelope}[budget]"))
    # a simulation asks without it
    assert read_settings(folder / "up.toml").query.envelope is not None
    with pytest.raises(
        SettingsError,
        match=r"services\.aggregator\.controller = None is missing: the query has an envelope",
    ):
        read_settings(folder / "up.toml", "services")
    # only the aggregator's host has it
    assert read_settings(folder / "up.toml", "services", ["one"]).services is not None
    (folder / "up.toml").write_text(UP + 'controller = "other.key"\n')
    with pytest.raises(SettingsError, match="must be the key that the query's envelope names"):
        read_settings(folder / "up.toml", "services")
    (folder / "up.toml").write_text(UP + 'controller = "controller.key"\n')
    plan = read_settings(folder / "up.toml", "services").services
    assert plan is not None
    Services(folder / "made", plan.ring, plan.proxies, plan.aggregator)
    assert (
        read_aggregator(folder / "made" / "aggregator.toml").controller == folder / "controller.key"
    )


def test_a_query_may_stand_in_the_file_itself(folder: Path) -> None:
    inline = QUERY.replace("[[columns]]", "[[query.columns]]")
    for table in ("schedule", "mechanism", "budget"):
        inline = inline.replace(f"[{table}]", f"[query.{table}]")
    (folder / "up.toml").write_text(UP.replace('query = "trips.toml"', "") + "[query]\n" + inline)
    (folder / "two.toml").write_text(UP)
    assert read_settings(folder / "up.toml").query == read_settings(folder / "two.toml").query


def people_of(folder: Path, text: str) -> tuple[Query, Answers, list[Path]]:
    (folder / "up.toml").write_text(text)
    simulation, n_people = simulate_own(read_settings(folder / "up.toml"))
    query = simulation._ask(["http://a", "http://b"], 1000)
    answers, vaults = simulation._make_people(query, folder / "made")
    assert len(answers) == n_people
    return query, answers, [vault.path for vault in vaults]


def make_csv(folder: Path) -> str:
    return UP


def make_sqlite(folder: Path) -> str:
    connection = sqlite3.connect(folder / "trips.db")
    connection.execute("CREATE TABLE trips (taxi TEXT, miles DOUBLE)")
    rows = [line.split(",") for line in CSV.splitlines()[1:]]
    connection.executemany(
        "INSERT INTO trips VALUES (?, ?)",
        [(who, float(miles) if miles else None) for who, miles in rows],
    )
    connection.commit()
    connection.close()
    return UP.replace("trips.csv", "trips.db")


def make_vault_folder(folder: Path) -> str:
    (folder / "vaults").mkdir()
    people: dict[str, list[float | None]] = {
        "a": [1.5, 7.0],
        "b": [3.0],
        "c": [None],
        "d": [100.0, 4.0],
    }
    for who, miles in people.items():
        vault = Vault.create(folder / "vaults" / f"{who}.db")
        vault.import_rows("trips", {"miles": "REAL"}, [(each,) for each in miles])
        vault.grant("trips", ["miles"])
    return UP.replace('table = "trips.csv"', 'vaults = "vaults"').replace('owner = "taxi"', "")


@pytest.mark.parametrize("make", [make_csv, make_sqlite, make_vault_folder])
def test_people_and_their_truth_come_from_a_table_or_from_vaults(
    make: Callable[[Path], str], folder: Path
) -> None:
    query, answers, vaults = people_of(folder, make(folder))
    # a: one short, one long; b: middle; c: none; d: one long, one middle. One row is drawn at
    # random.
    assert answers.truth.tolist() == [0.5 / 4, 1.5 / 4, 1.0 / 4]
    assert len(vaults) == 2
    drawn = np.array([answers.draw(np.random.default_rng(seed)) for seed in range(200)])
    assert [set(column.tolist()) for column in drawn.T] == [{0, 2}, {1}, {-1}, {1, 2}]
    # as many epochs a window as in the file
    assert query.schedule == Schedule(1000, 1000 + 86400, 3, 12, 6)
    assert query.budget.epsilon is None


def test_simulating_leaves_ones_own_vaults_as_they_were(folder: Path) -> None:
    text = make_vault_folder(folder)
    before = {path: path.read_bytes() for path in sorted((folder / "vaults").iterdir())}
    people_of(folder, text)
    assert {path: path.read_bytes() for path in sorted((folder / "vaults").iterdir())} == before


def test_answers_are_drawn_and_filled_up_as_a_device_does() -> None:
    several = make_query(rows="several", most_rows=2)
    answers = Answers(several, [[0, 1, 2], [5], []])
    rows = answers.draw(np.random.default_rng(1))
    assert rows.shape == (3, 2)
    assert len(set(rows[0].tolist())) == 2
    assert rows[1:].tolist() == [[5, -1], [-1, -1]]
    assert answers.truth[[0, 1, 2, 5]] == pytest.approx([1 / 9, 1 / 9, 1 / 9, 1 / 6])
    single = make_query(rows="aggregate")
    assert Answers(single, [[0, 1], [3]]).truth[3] == 0.5
    # two rows where one is allowed: no answer
    assert Answers(single, [[0, 1], [3]]).truth.sum() == 0.5


def test_the_file_on_the_page_is_one_that_can_be_read(folder: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text(encoding="utf-8")
    text = page.partition("<!-- up -->\n```toml\n")[2].partition("```")[0]
    (folder / "city.toml").write_text(text)
    proxies = 'proxies = ["https://proxy-one.example", "https://proxy-two.example"]'
    (folder / "trips.toml").write_text(
        QUERY.replace('proxies = ["https://one.example:8601", "http://127.0.0.1:8602"]', proxies)
    )
    assert read_settings(folder / "city.toml").seconds == 30
    plan = read_settings(folder / "city.toml", "services", ["proxy-1"]).services
    assert plan is not None
    assert [proxy.here for proxy in plan.proxies] == [True, False]
    assert not plan.aggregator.here
