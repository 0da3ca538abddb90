"""`deniable size`, as called from a shell."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deniable.cli import cli
from deniable.cli.person.client import run as client_run
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.sizing.demand import Demand
from deniable.sizing.figures import SizingFigures
from deniable.sizing.supply import size
from toolkit.queries import make_query


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["size", *arguments], catch_exceptions=False)


def test_json_is_one_object_with_the_numbers_of_the_arithmetic() -> None:
    result = run(
        "--population", "1e6", "--sampling", "0.6", "--every", "10 min", "--front", "--json"
    )
    assert result.exit_code == 0
    made = size(Demand(10**6, every=600, sampling=0.6), front=True)
    printed = json.loads(result.stdout)
    assert {name: printed[name] for name in made.to_dict()} == json.loads(
        json.dumps(made.to_dict())
    )
    assert printed["simulated"]["late"] == 0


def test_the_table_names_the_first_bottleneck_and_its_relief() -> None:
    told = " ".join(run("--population", "1e6").stdout.split())
    assert "First bottleneck: proxy process" in told
    assert "keeps connections" in told
    relieved = " ".join(run("--population", "1e7", "--collected", "8192", "--front").stdout.split())
    assert "First bottleneck: proxy memory (one is enough for now)" in relieved
    assert re.search(r"collectors \d+ processes", relieved)
    assert "collectors" not in told


def test_devices_ask_as_often_as_the_client_does_unless_it_is_told() -> None:
    (every,) = (option.default for option in client_run.params if option.name == "every")
    assert json.loads(run("--population", "1000", "--json").stdout)["demand"]["poll"] == every
    assert (
        json.loads(run("--population", "1000", "--poll", "30 min", "--json").stdout)["demand"][
            "poll"
        ]
        == 1800
    )


def test_a_query_file_plain_or_signed_says_epochs_sampling_and_size(tmp_path: Path) -> None:
    query = make_query()
    key = AnalystKey.generate(query.analyst)
    file = tmp_path / "trips.signed"
    file.write_bytes(sign(query, key).to_bytes())
    printed = json.loads(run(str(file), "--population", "5000", "--poll", "1", "--json").stdout)[
        "demand"
    ]
    assert (printed["every"], printed["sampling"], printed["buckets"]) == (
        query.schedule.every,
        query.sampling,
        len(query.labels),
    )
    refused = run(str(file), "--population", "5000", "--sampling", "0.5")
    assert refused.exit_code == 2
    assert "trips.signed" in refused.stderr
    new = tmp_path / "new.toml"
    assert CliRunner().invoke(cli, ["query", "new", str(new)]).exit_code == 0
    assert run(str(new), "--population", "5000").exit_code == 0


def test_figures_can_be_given_one_by_one_or_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("uploads = 7\n")
    printed = json.loads(
        run(
            "--population", "10", "--figures", str(file), "--set", "polls=9", "--json", "--sources"
        ).stdout
    )
    assert (printed["figures"]["uploads"], printed["figures"]["polls"]) == (7, 9)
    assert set(printed["sources"]) == set(SizingFigures.names())
    assert all(
        name in run("--population", "10", "--sources").stdout for name in SizingFigures.names()
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--population", "0"), "clients = 0 must be a whole number"),
        (("--population", "many"), "'many' is not a number"),
        (("--population", "10.5"), "clients = 10.5 must be a whole number"),
        (("--population", "nan"), "clients = nan must be a whole number"),
        (("--population", "inf"), "clients = inf must be a whole number"),
        (("--population", "10", "--sampling", "2"), "sampling = 2.0 must be a probability"),
        (("--population", "10", "--every", "1 fortnight"), "every = '1 fortnight' must be"),
        (("--population", "10", "--every", "30 s"), "poll = 60 must not exceed every = 30"),
        (("--population", "10", "--proxies", "1"), "proxies = 1 must be"),
        (("--population", "10", "--buckets", "1"), "buckets = 1 must be at least 2"),
        (("--population", "10", "--report-bytes", "9999"), "9999 bytes"),
        (("--population", "10", "--replication", "0"), "replication = 0 must be"),
        (("--population", "10", "--set", "speed=3"), "must be NAME=VALUE"),
        (("--population", "10", "--set", "uploads=fast"), "uploads = 'fast' must be a number"),
        (("--population", "10", "--set", "uploads=0"), "uploads = 0.0 must be above 0"),
        (("--population", "10", "--price-core", "-1"), "core = -1.0 must be a price"),
        (("--population", "10", "--figures", "/nowhere.toml"), "cannot be read"),
        ((), "Missing option '--population'"),
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
