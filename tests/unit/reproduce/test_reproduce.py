"""The papers' experiments: each quick form runs, its verdicts are computed, and what the papers
print is met or explained.

Coins are seeded but for OpenDP's, in the curator's figures, whose claims allow for four standard
errors (false alarm 1e-4 each). Times are not asserted here but for one: XOR is ahead of public-key
schemes by a factor of ten.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.errors import DeniableError, ParameterError
from deniable.reproduce.catalogue import EXPERIMENTS, chosen
from deniable.reproduce.experiment import Claim, Compared, Context, Experiment, ExperimentOutcome
from deniable.reproduce.papers import quoc_history, quoc_speed
from deniable.reproduce.real_data import bucket_counts

# What is known to differ from the paper, and why is said in the finding's note. All else must agree
# or be explained.
DIFFERS = {
    "quoc-table-1": 1,  # "the closer q is to the proportion, the smaller the loss"
    "quoc-figure-4b": 1,  # "losses can be added"
    "quoc-figure-5a": 1,  # the same as in table 1
    "lavengood-table-6.1": 1,  # 5,000 people, 5 %: a slip of the thesis
    "galanis-table-3.2": 2,  # two rows of the table contradict others
    "galanis-figure-4.3": 1,  # direct encoding overtakes the unary one at epsilon 2.8
    "galanis-figure-4.5": 1,  # "unary is the worst with few users"
    "galanis-figure-4.9": 1,  # "the distance-sensitive protocol is the best between 2 and 2.5"
    "galanis-figure-4.11": 1,  # in the quick form there are too few users for the bias to show
    "wang-figure-2": 1,  # "two to three orders of magnitude"
    "wang-figure-4": 1,  # chi-square under heavy noise
    "wang-figure-6": 1,  # LM, not RR, falls behind the curator where epsilon is small
}
TIMED = {each.name for each in (*quoc_speed.EXPERIMENTS, *quoc_history.EXPERIMENTS)} - {
    "quoc-table-2"
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_a_paper_says_is_met_or_explained_in_the_quick_form(name: str, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[name]
    outcome = experiment(Context(seed=1), quick=True)
    assert outcome.findings
    bad = [
        finding.row
        for finding in outcome.findings
        if finding.verdict in {"differs", "does not hold"}
    ]
    if name not in TIMED:
        assert len(bad) <= DIFFERS.get(name, 0), bad
        assert all(note for *_, note in bad), "a finding that differs says why"
    else:
        assert all(
            number > 0 for row in outcome.rows for number in row if isinstance(number, float)
        )
    written = experiment.write(outcome, tmp_path)
    assert [path.suffix for path in written] == [".csv", ".svg", ".png"]
    with written[0].open() as file:
        rows = list(csv.reader(file))
    assert len(rows) == len(outcome.rows) + 1
    assert {len(row) for row in rows} == {len(outcome.header)}
    assert written[1].read_text().rstrip().endswith("</svg>")
    assert written[2].read_bytes().startswith(b"\x89PNG")


def test_a_verdict_follows_from_the_numbers() -> None:
    assert Compared("x", 1.0, 1.04, 0.05).verdict == "agrees"
    assert Compared("x", 1.0, 1.06, 0.05).verdict == "differs"
    assert Compared("x", 1.0, 2.0, 0.05, by_paper=1.01).verdict == "explained"
    assert Compared("x", 1.0, 2.0, 0.05, by_paper=1.2).verdict == "differs"
    findings = (Compared("x", 1.0, 2.0, 0.05), Claim("y", True), Claim("z", False))
    assert ExperimentOutcome(findings, (), (), lambda figure: None).verdict == "1 agree, 2 differ"


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    experiment = EXPERIMENTS["quoc-figure-5a"]
    first, again, other = (experiment(Context(seed), quick=True).rows for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_streams_of_random_numbers_with_different_salts_differ() -> None:
    context = Context(1)
    drawn = {context.random(*salt).random() for salt in ((), (0,), (0, 0), (1,), (1, 0))}
    assert len(drawn) == 5


def test_experiments_are_found_by_the_beginning_of_their_names() -> None:
    assert [experiment.name for experiment in chosen(("quoc-table-1",))] == ["quoc-table-1"]
    assert {experiment.name for experiment in chosen(("wang",))} == {
        f"wang-figure-{i}" for i in range(1, 7)
    }
    with pytest.raises(ParameterError, match="is not an experiment"):
        chosen(("euler",))


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["reproduce", *arguments])
    if isinstance(result.exception, DeniableError):
        return 2, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_the_command_prints_ours_beside_the_paper_and_writes_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    code, output = run(
        "quoc-figure-12",
        "published-arx",
        "--quick",
        "--output",
        str(tmp_path / "out"),
        "--page",
        str(page),
    )
    assert code == 0, output
    assert "holds" in output
    text = page.read_text()
    assert "| Quoc et al. 2017 | Figure 12" in text
    assert (
        "![Figure 12: zero-knowledge beside differential privacy](out/quoc-figure-12.png)" in text
    )
    assert (tmp_path / "out" / "quoc-figure-12.png").exists()


def test_the_list_names_every_experiment() -> None:
    code, output = run("--list")
    assert code == 0
    assert [line.split()[0] for line in output.splitlines()[1:]] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ((), "must be given, or --all, or --list"),
        (("--all", "quoc-table-1"), "must be given, or --all, or --list"),
        (("euler",), "is not an experiment"),
        (("quoc-table-1", "--page", "x.md"), "needs --output"),
        (("quoc-table-1", "--data", "x.csv"), "reads no file"),
        (("quoc-figure-9", "--data", "missing.csv"), "cannot be read"),
    ],
)
def test_bad_input_gets_one_line(arguments: tuple[str, ...], rule: str) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert rule in output


def test_real_files_are_read_as_they_are_published(tmp_path: Path) -> None:
    debs = tmp_path / "debs.csv"
    debs.write_text(
        "".join(
            f"a,b,2013,2013,60,{miles},0,0,0,0,CSH,1,0,0,0,0,1\n"
            for miles in [0.5, 1.5, 1.2, 7.0] * 20
        )
    )
    outcome = EXPERIMENTS["quoc-figure-9"](Context(1, debs), quick=True)
    assert len(outcome.rows) == 45
    power = tmp_path / "household_power_consumption.txt"
    minutes = [0.5] * 30 * 30 + [4.0] * 30 * 10  # 30 half hours of 0.25 kWh, 10 of 2 kWh
    lines = "".join(f"16/12/2006;17:24:00;{kw};0.4;234;18;0;1;17\n" for kw in minutes)
    power.write_text(
        "Date;Time;Global_active_power;Global_reactive_power;V;I;S1;S2;S3\n"
        + lines
        + "1/1/2007;0:0:0;?;?;?;?;?;?;\n"
    )
    assert bucket_counts(power).tolist() == [30, 0, 0, 10, 0, 0]
    assert bucket_counts(debs).tolist() == [20, 40, 0, 0, 0, 0, 0, 20, 0, 0, 0]
    short = tmp_path / "short.csv"
    short.write_text("a,b,c\n")
    with pytest.raises(DeniableError, match="needs at least 30"):
        EXPERIMENTS["quoc-figure-9"](Context(1, short), quick=True)


def test_the_generated_page_has_every_experiment_with_its_picture() -> None:
    docs = Path(__file__).parents[3] / "docs"
    page = (docs / "reproduction.md").read_text()
    for name in EXPERIMENTS:
        assert f"[`{name}`](#{name.replace('.', '')})" in page, (
            f"{name}: generate docs/reproduction.md again"
        )
        assert (docs / "reproduction" / f"{name}.png").exists()


def test_an_experiment_shows_its_setting() -> None:
    for experiment in EXPERIMENTS.values():
        assert isinstance(experiment, Experiment)
        assert set(experiment.quick) <= set(experiment.settings), experiment.name
        assert experiment.title
