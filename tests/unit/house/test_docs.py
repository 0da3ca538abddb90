"""The pages tell what is there: every command and every mechanism has its place, links lead
somewhere, examples run."""

from __future__ import annotations

import doctest
import re
from importlib.metadata import version
from pathlib import Path

import click
import pytest
import yaml

import deniable
from deniable.cli import cli
from deniable.mechanisms.registry import known_mechanisms

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}


def commands(group: click.Group, prefix: str) -> list[str]:
    context = click.Context(group)
    found: list[str] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += (
            commands(command, f"{prefix} {name}")
            if isinstance(command, click.Group)
            else [f"{prefix} {name}"]
        )
    return found


@pytest.mark.parametrize("command", commands(cli, "deniable"))
def test_every_command_is_documented(command: str) -> None:
    assert any(command in text for text in TEXT.values())


@pytest.mark.parametrize("command", commands(cli, "deniable"))
def test_every_command_explains_itself(command: str) -> None:
    step: click.Command = cli
    for name in command.split()[1:]:
        assert isinstance(step, click.Group)
        found = step.get_command(click.Context(step), name)
        assert found is not None
        step = found
    assert step.help
    for parameter in step.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{command} {parameter.opts[0]} has no help"


def test_every_mechanism_is_documented_and_exported() -> None:
    page = TEXT[ROOT / "docs" / "mechanisms.md"]
    for name, kind in known_mechanisms().items():
        if kind.__module__.startswith("deniable.mechanisms."):
            assert f"`{name}(" in page, name
            assert getattr(deniable, name) is kind


def test_the_citation_names_the_version_that_is_installed() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["license"]) == (version("deniable"), "Apache-2.0")


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda p: p.name
)
def test_an_issue_form_asks_for_something_that_must_be_given(form: Path) -> None:
    described = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert described["name"]
    assert described["description"]
    fields = [each for each in described["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["attributes"]["label"] for each in fields)
    assert any(each.get("validations", {}).get("required") for each in fields)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXT[page]):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [p for p in PAGES if ">>> " in TEXT[p]], ids=lambda p: p.name)
def test_the_examples_of_a_page_print_what_it_says(page: Path) -> None:
    results = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert results.attempted > 0
    assert results.failed == 0
