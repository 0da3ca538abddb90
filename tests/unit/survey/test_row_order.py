"""Randomized rows come out in an order that says nothing about whose they are; CSV files for people
hold no formula."""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from scipy.stats import chi2

from deniable import DirectEncoding
from deniable.analyst.history_sql import write_table
from deniable.cli import cli
from deniable.cli.output import as_csv
from deniable.randomness import seeded_source
from deniable.survey import estimate_file, randomize_file, reading, row_order
from deniable.survey.row_order import in_random_order

ROWS = 4
CHANCE = 1e-9
COLUMN = ("-c", "city=DirectEncoding:values=Oslo|Rome,epsilon=2")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def shuffled(chunk: int, whole: bool, times: int = 4800) -> Counter[tuple[int, ...]]:
    """How often each order of four rows came out, added one by one; without `whole`, only rows of a
    chunk are shuffled."""
    source, found = seeded_source("row order"), Counter[tuple[int, ...]]()
    written: list[int] = []
    for _ in range(times):
        written.clear()
        for first in range(0, ROWS, ROWS if whole else chunk):
            with in_random_order(lambda rows: written.extend(rows["x"]), ["x"], source) as add:
                for i in range(first, min(ROWS, first + (ROWS if whole else chunk))):
                    add({"x": [i]})
        found[tuple(written)] += 1
    return found


def surprise(found: Counter[tuple[int, ...]]) -> float:
    """The chance of frequencies this uneven, if all orders are equally likely."""
    orders = list(permutations(range(ROWS)))
    expected = found.total() / len(orders)
    return float(
        chi2.sf(sum((found[order] - expected) ** 2 / expected for order in orders), len(orders) - 1)
    )


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_every_order_is_equally_likely_in_memory_and_on_disk(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(reading, "CHUNK_ROWS", chunk)
    monkeypatch.setattr(row_order, "_PARTS", 3)
    assert surprise(shuffled(chunk, whole=True)) > CHANCE
    if chunk < ROWS:
        assert surprise(shuffled(chunk, whole=False)) < CHANCE, "the test can fail"


def write_answers(path: Path, n: int) -> Path:
    path.write_text(
        "person,city\n" + "".join(f"p{i:05},{('Oslo', 'Rome')[i % 2]}\n" for i in range(n))
    )
    return path


def people(path: Path) -> list[str]:
    return [row["person"] for row in csv.DictReader(path.read_text().splitlines())]


@pytest.mark.parametrize("chunk", [1 << 16, 100])
def test_rows_are_written_whole_once_each_and_not_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(reading, "CHUNK_ROWS", chunk)
    answers, output = write_answers(tmp_path / "a.csv", 1000), tmp_path / "o.csv"
    sure = {"city": DirectEncoding(["Oslo", "Rome"], 40.0)}
    assert randomize_file(answers, output, sure, keep=["person"]) == 1000
    there = people(output)
    assert sorted(there) == [f"p{i:05}" for i in range(1000)]
    assert there != sorted(there)
    assert sum(a < b for a, b in pairwise(there)) < 700, "nor nearly so"
    rows = list(csv.DictReader(output.read_text().splitlines()))
    assert all(row["city"] == ("Oslo", "Rome")[int(row["person"][1:]) % 2] for row in rows), (
        "a row stays together"
    )
    assert estimate_file(output).n == 1000


def test_the_command_hides_the_order_or_says_what_it_costs_to_keep_it(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "a.csv", 300)
    hidden = run("randomize", answers, *COLUMN, "--keep", "person", "-o", tmp_path / "hidden.csv")
    assert "the order of the input" not in hidden.output
    assert people(tmp_path / "hidden.csv") != people(answers)
    kept = run(
        "randomize",
        answers,
        *COLUMN,
        "--keep",
        "person",
        "--keep-order",
        "--again",
        "-o",
        tmp_path / "kept.csv",
    )
    assert "NOT PROTECTED: the rows are in the order of the input." in kept.output
    assert people(tmp_path / "kept.csv") == people(answers)


def test_a_file_that_cannot_be_randomized_leaves_nothing(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "a.csv", 300)
    answers.write_text(answers.read_text() + "p9,Atlantis\n")
    assert run("randomize", answers, *COLUMN, "-o", tmp_path / "o.csv").exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv"]


# --- formulas

FORMULAS = ["=1+1", "+1+1", "-1-1", "@SUM(A1)", "\t=1", "=", "-"]
HARMLESS: list[Any] = ["Oslo", "[-5,0)", "-5", "+2.5", "-1e-9", -5, -0.25, None, "", "a=1", "1-2"]


def test_no_cell_of_a_csv_file_is_a_formula_and_numbers_stay_numbers() -> None:
    assert as_csv(["x"], [["\r=1"]]) == "x\n'\r=1"
    written = as_csv([*FORMULAS[:2]], [[cell, 0] for cell in [*FORMULAS, *HARMLESS]])
    header, *rows = csv.reader(io.StringIO(written, newline=""))
    assert header == ["'=1+1", "'+1+1"]
    assert [row[0] for row in rows[: len(FORMULAS)]] == [f"'{cell}" for cell in FORMULAS]
    assert [row[0] for row in rows[len(FORMULAS) :]] == [
        "" if cell is None else str(cell) for cell in HARMLESS
    ]


def test_an_exported_history_follows_the_same_rule(tmp_path: Path) -> None:
    texts = [*FORMULAS, *(cell for cell in HARMLESS if isinstance(cell, str) or cell is None)]
    write_table(pa.table({"=label": texts, "n": [-1] * len(texts)}), tmp_path / "o.csv")
    with (tmp_path / "o.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["'=label", "n"]
    expected = [f"'{cell}" if cell in FORMULAS else cell or "" for cell in texts]
    assert [row[0] for row in rows[1:]] == expected
    assert {row[1] for row in rows[1:]} == {"-1"}
