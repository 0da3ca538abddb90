"""`deniable privacy` and `deniable audit`, as called from a shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deniable import DirectEncoding, privacy
from deniable.cli import cli


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def figures(*arguments: str) -> dict[str, float | None]:
    result = run("privacy", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return {figure["name"]: figure["epsilon"] for figure in json.loads(result.stdout)["figures"]}


def test_every_figure_is_that_of_the_library() -> None:
    found = figures(
        "--epsilon",
        "0.1",
        "--sampling",
        "0.2",
        "--answers",
        "1e3",
        "--reports",
        "1e5",
        "--delta",
        "1e-7",
    )
    assert found == {
        "local": 0.1,
        "zero-knowledge": privacy.zero_knowledge_epsilon(0.1, 0.2),
        "composed": 100.0,
        "composed, delta": privacy.optimal_composition(0.1, 1000, 1e-7),
        "shuffled": privacy.shuffled_epsilon(0.1, 100_000, 1e-7),
    }


def test_a_sampled_figure_is_stated_for_a_crowd_or_not_at_all() -> None:
    assert "sampled" not in figures("--epsilon", "2", "--sampling", "0.05")
    few = [
        "--epsilon",
        "2",
        "--sampling",
        "0.05",
        "--mechanism",
        "DirectEncoding",
        "--values",
        "3",
        "--population",
        "10",
    ]
    found = json.loads(run("privacy", *few, "--delta", "1e-3", "--json").stdout)["figures"][1]
    assert (found["name"], found["delta"], found["crowd"]) == ("sampled", 1e-3, 10)
    # by enumeration; the formula says 0.277
    assert found["epsilon"] == pytest.approx(0.525, rel=0.01)
    assert (
        "which of 10 people took part, except with probability 0.001"
        in run("privacy", *few, "--delta", "1e-3").output
    )


def test_two_coins_are_a_bit_or_an_answer() -> None:
    assert figures("--p", "0.5", "--q", "0.5", "--bit") == {"local": privacy.bit_epsilon(0.5, 0.5)}
    assert figures("--p", "0.5", "--q", "0.5", "--ones", "2") == {
        "local": privacy.answer_epsilon(0.5, 0.5, 2)
    }


def test_a_named_mechanism_is_shuffled_by_its_own_channel() -> None:
    found = figures(
        "--epsilon", "1", "--mechanism", "DirectEncoding", "--values", "16", "--reports", "100000"
    )
    assert found["shuffled"] == privacy.blanket_epsilon(DirectEncoding(16, 1.0), 100_000, 1e-6)


def test_what_is_infinite_is_null_in_json_and_inf_in_the_table() -> None:
    assert figures("--epsilon", "1", "--sampling", "1")["zero-knowledge"] is None
    assert "zero-knowledge      inf" in run("privacy", "--epsilon", "1", "--sampling", "1").output


def test_shown_figures_are_rounded_up() -> None:
    line = run(
        "privacy", "--epsilon", "1", "--sampling", "0.1", "--population", "1e6"
    ).output.splitlines()[2]
    assert line.split()[:2] == ["sampled", "0.1586"]  # 0.158570...
    assert privacy.sampled_epsilon(1.0, 0.1) < 0.1586


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give --epsilon, or both --p and --q"),
        (["--epsilon", "1", "--p", "0.5", "--q", "0.5"], "give --epsilon, or both --p and --q"),
        (["--p", "0.5"], "give --epsilon, or both --p and --q"),
        (["--epsilon", "-1"], "epsilon = -1.0 must"),
        (["--epsilon", "1", "--reports", "2.5"], "reports = 2.5 must be a whole number"),
        (
            ["--epsilon", "1", "--mechanism", "Nope"],
            "mechanism = 'Nope' must be one of BasicRappor, BinaryResponse",
        ),
        (["--p", "0.5", "--q", "0.5", "--mechanism", "DirectEncoding"], "is made from --epsilon"),
    ],
)
def test_a_slip_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    result = run("privacy", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_audit_that_holds_ends_with_0_and_one_that_fails_with_1() -> None:
    held = run(
        "audit", "mechanism", "DirectEncoding", "--values", "4", "--n-reports", "5e4", "--json"
    )
    assert held.exit_code == 0
    printed = json.loads(held.stdout)
    assert printed["holds"] is True
    assert printed["audits"]["DirectEncoding"]["games"][0]["tightness"] > 0.8
    failed = run(
        "audit",
        "mechanism",
        "DirectEncoding",
        "--values",
        "4",
        "--n-reports",
        "50000",
        "--claim",
        "0.5",
    )
    assert failed.exit_code == 1
    assert "FAILS" in failed.stdout
    assert "MORE THAN CLAIMED" in failed.stdout


def test_an_audit_of_a_survey_takes_each_column(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv.toml"
    file.write_text(
        '[columns.smokes]\nmechanism = "BinaryResponse"\np = 0.5\nq = 0.5\n'
        '[columns.city]\nmechanism = "DirectEncoding"\nk = ["Oslo", "Rome"]\nepsilon = 1.0\n'
    )
    result = run("audit", "survey", str(file), "--n-reports", "30000")
    assert result.exit_code == 0, result.output
    assert "smokes: BinaryResponse" in result.stdout
    assert "city: DirectEncoding" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mechanism", "Nope"], "must be one of BasicRappor, BinaryResponse"),
        (["mechanism", "DirectEncoding", "--n-reports", "10"], "must be at least 2000 reports"),
        (
            ["mechanism", "DirectEncoding", "--epsilon", "0"],
            "epsilon = 0.0 must be finite and above 0",
        ),
        (["survey", "/nowhere.toml"], "cannot be read"),
    ],
)
def test_a_slip_in_an_audit_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    result = run("audit", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
