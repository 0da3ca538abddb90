"""Every claim in the threat model names a test that is there, and what is not claimed is said."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import click
import pytest

from deniable.cli import cli

ROOT = Path(__file__).parents[3]
CLAIMS = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
LIMITS = (ROOT / "docs" / "known-limits.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w./]+?)(?:::(\w+))?`")
COMMAND = re.compile(r"`(deniable(?: [a-z-]+)+)`")


def rows(page: str) -> list[str]:
    """The rows of the tables of claims: what is claimed, and what tries it."""
    part = page[page.index("## Claims, and what tries to break them") :]
    return [
        line
        for line in part.splitlines()
        if line.startswith("| ") and not line.startswith("| claim")
    ]


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


@pytest.mark.parametrize("page", [CLAIMS, LIMITS], ids=["threat-model", "known-limits"])
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = NAMED.findall(page)
    assert len(named) >= 8
    for file, name in named:
        path = ROOT / file
        assert path.exists(), file
        if name:
            assert name in functions_of(path), f"{file} has no {name}"


@pytest.mark.parametrize("row", rows(CLAIMS), ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_claim_names_what_tries_it(row: str) -> None:
    _, claim, tried, _ = row.split("|")
    assert claim.strip()
    assert NAMED.search(tried), f"nothing tries: {claim}"


@pytest.mark.parametrize("page", [CLAIMS, LIMITS], ids=["threat-model", "known-limits"])
def test_every_command_that_a_page_names_is_there(page: str) -> None:
    for command in COMMAND.findall(page):
        step: click.Command = cli
        for name in command.split()[1:]:
            assert isinstance(step, click.Group)
            found = step.get_command(click.Context(step), name)
            assert found is not None, command
            step = found


@pytest.mark.parametrize(
    "said",
    [
        "Sybils",
        "A global observer",
        "Collusion of all proxies",
        "A dead proxy",
        "A lying device",
        "Missing answers",
    ],
)
def test_what_is_not_claimed_is_said_in_so_many_words(said: str) -> None:
    assert f"**{said}" in LIMITS
    assert "known-limits.md" in CLAIMS


@pytest.mark.parametrize(
    "other", ["Prio3 by DAP", "STAR", "a trusted enclave", "a trusted curator"]
)
def test_what_may_be_the_better_choice_is_named_with_its_price(other: str) -> None:
    (row,) = [line for line in LIMITS.splitlines() if line.startswith(f"| **{other}")]
    _, choose, where, accept, _ = row.split("|")
    assert all(len(cell.strip()) > 10 for cell in (choose, where, accept))
