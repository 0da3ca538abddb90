"""The best channel for a utility, beside all staircase mechanisms and beside known optima."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.optimize import linprog

from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.privacy.utility import best_channel


def staircases(worth: np.ndarray, epsilon: float, prior: np.ndarray) -> float:
    """The best expected utility by another programme: over the weights of the 2^k - 1 patterns of 1
    and e^epsilon that a row can have (Kairouz, Oh and Viswanath 2016, theorem 4), each read as
    the report that is worth most."""
    k = worth.shape[1]
    patterns = [
        np.where(pattern, math.exp(epsilon), 1.0)
        for pattern in itertools.product([False, True], repeat=k)
    ]
    gains = [float((worth * prior * row).sum(axis=1).max()) for row in patterns]
    found = linprog(
        [-gain for gain in gains],
        A_eq=np.array(patterns).T,
        b_eq=np.ones(k),
        bounds=(0, None),
        method="highs",
    )
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_staircase_is_worth_more_than_the_best_channel(epsilon: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(6):
        reports, values = rng.integers(2, 6, 2)
        worth = rng.normal(size=(reports, values))
        prior = rng.dirichlet(np.ones(values))
        best = best_channel(worth, epsilon, prior)
        assert best.utility == pytest.approx(staircases(worth, epsilon, prior), abs=1e-6)
        matrix = best.matrix
        assert matrix.sum(axis=0) == pytest.approx(np.ones(values))
        used = matrix[matrix.max(axis=1) > 0]
        assert np.log(used.max(axis=1) / used.min(axis=1)).max() <= epsilon + 1e-9
        assert best.epsilon <= epsilon


def test_right_guesses_alone_need_direct_encoding_and_the_worst_value_is_its_own_bound() -> None:
    growth = math.exp(1.0)
    best = best_channel(np.eye(4), 1.0)
    assert best.utility == pytest.approx(growth / (growth + 3), abs=1e-6)
    assert best.by_value == pytest.approx(np.full(4, best.utility), abs=1e-6)
    # distances on a line: the best for the worst value is not worse there than that for a prior
    line = -np.abs(np.subtract.outer(np.arange(5), np.arange(5))).astype(float)
    fair = best_channel(line, 1.0)
    for prior in np.random.default_rng(1).dirichlet(np.ones(5), 20):
        assert best_channel(line, 1.0, prior).by_value.min() <= fair.utility + 1e-6
        assert fair.utility <= best_channel(line, 1.0, prior).utility + 1e-6, "minimax"


@pytest.mark.parametrize(
    ("utility", "prior", "name"),
    [
        ([[1, 2]], None, "utility"),
        ([[1, math.inf], [1, 2]], None, "utility"),
        ("none", None, "utility"),
        ([[1, 0], [0, 1]], [0.5, 0.6], "prior"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(
    utility: object, prior: object, name: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        best_channel(utility, 1.0, prior)
    assert caught.value.name == name


def test_the_command_reads_a_table_and_writes_the_channel(tmp_path: Path) -> None:
    file, out = tmp_path / "worth.csv", tmp_path / "channel.csv"
    file.write_text("report,low,middle,high\nlow,1,0,-1\nhigh,-1,0,1\n")
    run = CliRunner().invoke(
        cli,
        [
            *(["plan", "--epsilon", "1", "--prior", "0.4,0.2,0.4", "--utility"]),
            str(file),
            "--output",
            str(out),
        ],
    )
    assert run.exit_code == 0, run.output
    a = math.e / (1 + math.e)
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[0] == ["report", "low", "middle", "high"]
    assert float(rows[1][1]) == pytest.approx(a, abs=1e-6)
    assert float(rows[2][3]) == pytest.approx(a, abs=1e-6)
    file.write_text("report,low\nlow,x\n")
    run = CliRunner().invoke(cli, ["plan", "--utility", str(file), "--epsilon", "1"])
    assert run.exit_code == 2
    assert "worth.csv" in run.output
