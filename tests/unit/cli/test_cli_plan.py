"""`deniable plan`, as called from a shell."""

from __future__ import annotations

import doctest
import json
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import deniable
from deniable.cli import cli
from deniable.planning.rendering import percent

DOCS = Path(__file__).parents[3] / "docs"
PAPER = ["--population", "100000", "--sampled-epsilon", "0.7", "--cv", "0.05"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *arguments], catch_exceptions=False)


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from deniable.cli import main; main()"
    return subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


def test_json_is_one_object_with_the_plans_numbers() -> None:
    result = run(*PAPER, "--json")
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    made = deniable.plan(population=100_000, sampled_epsilon=0.7, cv=0.05)
    for name in (
        "sampling",
        "p",
        "q",
        "smallest_proportion",
        "epsilon_local",
        "epsilon_sampled",
        "epsilon_zero_knowledge",
    ):
        assert printed[name] == getattr(made, name), name
    assert printed["smallest_proportion"] <= 0.0788


def test_the_table_tells_parameters_precision_and_risk() -> None:
    result = run(*PAPER)
    text = " ".join(result.stdout.split())
    made = deniable.plan(population=100_000, sampled_epsilon=0.7, cv=0.05)
    assert f"tell the truth with p = {made.p:.4f}, else say yes with q = 0.5000" in text
    assert f"Local epsilon {made.epsilon_local:.4f}" in text
    assert text.index("Local epsilon") < text.index(
        "Sampled epsilon 0.7 in a crowd of 100,000 (delta 1e-06)"
    )
    assert "nobody's odds about you change by more than a factor of 4.74" in text
    assert "by at most a factor of 2.02" in text  # e^0.7 = 2.0138
    assert made.reason in text


def test_a_local_epsilon_above_the_one_asked_for_is_said_loudly() -> None:
    text = " ".join(run(*PAPER).stdout.split())
    made = deniable.plan(population=100_000, sampled_epsilon=0.7, cv=0.05)
    assert (
        f"Warning: The local epsilon, {made.epsilon_local:.4g}, is above the requested 0.7" in text
    )
    assert text.count("Warning") == text.count("the requested 0.7") == 1
    assert text.index("Warning") < text.index("What the person answering risks")
    local = " ".join(
        run("--population", "100000", "--epsilon", "0.7", "--cv", "0.05").stdout.split()
    )
    assert "Warning" not in local
    assert "Local epsilon 0.7000" in local


def test_the_documentation_shows_what_the_command_prints() -> None:
    blocks = re.findall(
        r"```console\n\$ deniable (.*?)\n(.*?)```",
        (DOCS / "planning.md").read_text(encoding="utf-8"),
        re.S,
    )
    assert len(blocks) == 3
    for command, shown in blocks:
        printed = CliRunner(env={"COLUMNS": "80"}).invoke(cli, shlex.split(command)).output
        assert "\n".join(line.rstrip() for line in printed.splitlines()) == shown.rstrip(), command


@pytest.mark.parametrize("page", ["planning.md", "privacy.md"])
def test_the_documentations_examples_run(page: str) -> None:
    failed, attempted = doctest.testfile(str(DOCS / page), module_relative=False)
    assert failed == 0
    assert attempted > 3


def test_every_option_reaches_the_plan() -> None:
    options = {
        "--proportion": "0.2",
        "--margin": "0.02",
        "--sampled-epsilon": "3",
        "--epsilon": "9",
        "--buckets": "5",
        "--epochs": "6",
        "--distinct": "2",
        "--rate": "1000",
        "--every": "50",
        "--bytes": "8",
        "--confidence": "0.9",
        "--mechanism": "OptimizedUnary",
    }
    flat = [part for pair in options.items() for part in pair]
    printed = json.loads(
        run("--population", "1e6", *flat, "--memoize", "--finite", "--json").stdout
    )
    made = deniable.plan(
        population=1_000_000,
        proportion=0.2,
        margin=0.02,
        sampled_epsilon=3,
        epsilon=9,
        buckets=5,
        epochs=6,
        memoize=True,
        distinct=2,
        rate=1000,
        every=50,
        report_bytes=8,
        confidence=0.9,
        finite=True,
        mechanism="OptimizedUnary",
    )
    assert printed == json.loads(json.dumps(made.to_dict()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--population", "-5"], "deniable: population = -5 must be a whole number of at least 1"),
        (["--cv", "0"], "deniable: cv = 0.0 must be finite and above 0"),
        (["--sampled-epsilon", "0"], "deniable: sampled_epsilon = 0.0 must be finite and above 0"),
        (["--buckets", "0"], "deniable: buckets = 0 must be a whole number of at least 1"),
        (
            ["--epsilon", "0.0001"],
            (
                "deniable: with epsilon = 0.0001 and sampled_epsilon = 0.7 the answers of 100,000"
                " people cannot show any proportion"
            ),
        ),
        (
            ["--proportion", "0.01"],
            "deniable: with sampled_epsilon = 0.7 the ± at a proportion of 0.01 is",
        ),
        (["--margin", "0.1"], "deniable: cv and margin are two ways to state the target"),
        (
            ["--population", "nan"],
            "deniable: population = nan must be a whole number of at least 1",
        ),
        (
            ["--population", "many"],
            "deniable: Invalid value for '--population': 'many' is not a number.",
        ),
        (
            ["--sampled-epsilon", "small"],
            "deniable: Invalid value for '--sampled-epsilon': 'small' is not a valid float.",
        ),
        (["--colour", "red"], "deniable: No such option"),
        (["extra"], "deniable: Got unexpected extra argument (extra)"),
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(changes: list[str], message: str) -> None:
    result = run(*PAPER, *changes)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_a_shell_sees_the_same_without_a_traceback() -> None:
    result = shell("plan", "--population", "0", "--sampled-epsilon", "1", "--cv", "0.1")
    assert result.returncode == 2
    assert result.stderr == "deniable: population = 0 must be a whole number of at least 1\n"


def test_a_cold_start_takes_less_than_a_second_of_computing() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = shell("plan", *PAPER, "--buckets", "20")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.returncode == 0
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


def test_help_lists_the_command_and_loads_nothing_heavy() -> None:
    heavy = ["scipy", "pandas", "matplotlib", "rich"]
    code = (
        "import sys; from deniable.cli import cli; cli.main(['--help'], standalone_mode=False); "
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert re.search(r"^  plan +Find whichever of population, proportion", out.stdout, re.MULTILINE)
    assert out.stdout.splitlines()[-1] == "[]"


def test_planning_does_not_load_scipy() -> None:
    code = (
        "import sys, deniable; deniable.plan(population=1e5, epsilon=0.7, cv=0.05, buckets=9);"
        " print('scipy' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert out.stdout.strip() == "False"


def test_the_plot_is_a_picture_that_changes_with_the_plan(tmp_path: Path) -> None:
    for name, options in (("one.png", PAPER), ("two.png", [*PAPER, "--epsilon", "1"])):
        assert run(*options, "--plot", str(tmp_path / name)).exit_code == 0
    one, two = (tmp_path / name for name in ("one.png", "two.png"))
    assert one.read_bytes().startswith(b"\x89PNG")
    assert one.read_bytes() != two.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ["--proportion", "0.1", "--cv", "0.05", "--sampled-epsilon", "0.7"],
        ["--population", "1e5", "--proportion", "0.1", "--sampled-epsilon", "0.7"],
        ["--population", "1e5", "--proportion", "0.1", "--cv", "0.05"],
        ["--population", "1e5", "--margin", "0.02", "--epsilon", "2"],
    ],
)
def test_every_kind_of_plan_can_be_drawn_and_shown(options: list[str], tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    result = run(*options, "--plot", str(picture))
    assert result.exit_code == 0
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert "What the person answering risks" in result.stdout


def test_a_picture_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    for name, rule in (
        ("plan.txt", "must end in .png, .svg, .pdf"),
        ("none/plan.png", "cannot be written: No such file or directory"),
    ):
        result = run(*PAPER, "--plot", str(tmp_path / name))
        assert result.exit_code == 2
        assert result.stderr.endswith(f"{rule}\n")


def test_without_matplotlib_the_plot_says_which_extra_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run(*PAPER, "--plot", str(tmp_path / "plan.png"))
    assert result.exit_code == 2
    assert result.stderr == "deniable: --plot needs matplotlib: pip install 'deniable[plot]'\n"


def test_people_are_counted_and_nearly_all_is_not_called_all() -> None:
    shown = run("--population", "20000", "--proportion", "0.1", "--margin", "0.02").output
    assert "about 19,999 of 20,000 people, each with probability 0.9999" in shown
    assert not re.search(r"99\.\d+ % of", shown)
    assert percent(0.999994) == "99.99 %"
    assert (
        "all 20,000 people"
        in run("--population", "20000", "--proportion", "0.1", "--epsilon", "1").output
    )


def test_no_two_columns_of_the_comparison_are_the_same() -> None:
    shown = run("--population", "20000", "--proportion", "0.1", "--margin", "0.02").output
    head, *rows = shown.partition("Mechanisms compared\n")[2].splitlines()[:8]
    assert head.count("local epsilon") == 1
    columns = list(zip(*(row.split() for row in rows), strict=True))
    assert len(set(columns)) == len(columns)
    other = run("--population", "20000", "--epsilon", "1").output
    assert "smallest proportion  bytes  local epsilon" in other
