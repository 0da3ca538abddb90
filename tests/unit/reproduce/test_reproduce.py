"""The papers' experiments: each quick form runs, its verdicts are computed, and the page is what the
kept runs say.

Verdicts of quick runs are not asserted: they depend on few trials, and for times on the machine.
What they would have to be for wrong figures is tested in test_planted_figures.py.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.errors import DeniableError, ParameterError
from deniable.reproduce.catalogue import EXPERIMENTS, chosen, page_of
from deniable.reproduce.experiment import Claim, Compared, Context, Experiment
from deniable.reproduce.kept import KeptRun
from deniable.reproduce.real_data import bucket_counts
from deniable.reproduce.verdicts import VERDICTS, summary


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_quick_form_runs_and_is_judged_and_drawn(name: str, tmp_path: Path) -> None:
    experiment = EXPERIMENTS[name]
    outcome = experiment(Context(seed=1), quick=True)
    assert outcome.findings
    assert {finding.verdict for finding in outcome.findings} <= set(VERDICTS)
    written = experiment.write(outcome, tmp_path)
    assert [path.suffix for path in written] == [".csv", ".svg", ".png"]
    with written[0].open() as file:
        rows = list(csv.reader(file))
    assert len(rows) == len(outcome.rows) + 1
    assert {len(row) for row in rows} == {len(outcome.measured.header)}
    assert written[1].read_text().rstrip().endswith("</svg>")
    assert written[2].read_bytes().startswith(b"\x89PNG")
    # what is kept is judged as what was measured
    path = tmp_path / "run.json"
    KeptRun.of(outcome, 1, 0.0).write(path)
    again = KeptRun.read(path).outcome(experiment)
    assert [each.row for each in again.findings] == [each.row for each in outcome.findings]


def test_a_verdict_follows_from_the_numbers_and_both_standard_errors() -> None:
    assert Compared("x", "1.0", 1.09).verdict == "agrees", "a unit of the last digit"
    assert Compared("x", "1.0", 1.11).verdict == "differs"
    assert Compared("x", "1.00", 1.06, stderr=0.02).verdict == "agrees"
    assert Compared("x", "1.00", 1.06, stderr=0.01).verdict == "differs"
    assert Compared("x", "1.00", 1.06, paper_stderr=0.02).verdict == "agrees"
    assert Compared("x", "1.00", 1.06, stderr=0.3).verdict == "not measured", "too vague to say"
    assert Compared("x", "1.00", 9.0, stderr=0.3).verdict == "differs"
    assert Compared("x", "1.00", None).verdict == "not measured"
    assert Compared("x", "1.00", 1.0, fitted=True).verdict == "fitted"
    assert Compared("x", "1.00", 2.0, ours=1.0).verdict == "differs", "ours does not count"
    assert [Claim("y", each).verdict for each in (True, False, None)] == [
        "holds",
        "does not hold",
        "not measured",
    ]
    assert summary({"holds": 2, "differs": 1, "fitted": 1}) == "2 hold, 1 fitted, 1 differs"


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
    assert outcome.measured.figures["largest"] == 0.5
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


DOCS = Path(__file__).parents[3] / "docs"


def kept_runs() -> dict[str, KeptRun]:
    return {name: KeptRun.read(DOCS / "reproduction" / f"{name}.json") for name in EXPERIMENTS}


def test_the_page_is_what_the_code_makes_of_the_kept_runs() -> None:
    page, pictures = DOCS / "reproduction.md", DOCS / "reproduction"
    assert page.read_text() == page_of(kept_runs(), page, pictures), (
        "deniable reproduce --kept docs/reproduction --page docs/reproduction.md"
    )
    for name in EXPERIMENTS:
        assert (pictures / f"{name}.png").exists()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_kept_run_had_the_settings_that_the_code_has(name: str) -> None:
    run = KeptRun.read(DOCS / "reproduction" / f"{name}.json")
    assert run.settings == EXPERIMENTS[name].settings_of(quick=False), f"run {name} again"


@pytest.mark.parametrize(
    "name", ["quoc-figure-7", "quoc-figure-12", "wang-figure-2", "published-designs"]
)
def test_exact_experiments_still_give_the_figures_that_are_kept(name: str) -> None:
    run = KeptRun.read(DOCS / "reproduction" / f"{name}.json")
    again = EXPERIMENTS[name](Context(run.seed)).measured
    assert again.header == run.measured.header
    for ours, kept in zip(again.rows, run.measured.rows, strict=True):
        assert ours == pytest.approx(kept, rel=1e-9)


def test_kept_runs_are_judged_again_from_the_command_line(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["quoc-figure-12"]
    KeptRun.of(experiment(Context(1)), 1, 0.0).write(tmp_path / "quoc-figure-12.json")
    page = tmp_path / "page.md"
    code, output = run("quoc-figure-12", "--kept", str(tmp_path), "--page", str(page))
    assert code == 0, output
    assert "2 hold" in output
    assert "Figure 12" in page.read_text()
    assert (tmp_path / "quoc-figure-12.png").exists()
    (tmp_path / "quoc-figure-12.json").write_text("{}")
    code, output = run("quoc-figure-12", "--kept", str(tmp_path))
    assert code == 2
    assert "quoc-figure-12.json is not a kept run" in output


def test_an_experiment_shows_its_setting() -> None:
    for experiment in EXPERIMENTS.values():
        assert isinstance(experiment, Experiment)
        assert set(experiment.quick) <= set(experiment.settings), experiment.name
        assert experiment.title
