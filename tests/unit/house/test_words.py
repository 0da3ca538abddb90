"""One word for one meaning on every surface, and old words that are still read."""

from __future__ import annotations

import ast
import inspect
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel, create_model

import deniable
from deniable.cli import cli
from deniable.client.vaults.schema import DECLARATION
from deniable.console.design_plans import DesignRequest
from deniable.console.drafts import Draft
from deniable.estimation.tables.statistic import Statistic
from deniable.mechanisms.protocols.binary import BinaryResponse
from deniable.planning.plan import plan
from deniable.planning.request import PlanRequest
from deniable.queries.budget import Budget
from deniable.queries.files import read_query
from deniable.renames import (
    COMMANDS,
    EXPORTS,
    NAMES,
    OPTIONS,
    RenamedWarning,
    current_command_line,
)
from deniable.sql.guard import REASONS

WORDS = {
    "--proportion": ("--share", "--shares"),
    "--margin": ("--wish", "--error"),
    "--start": ("--from", "--since"),
    "--end": ("--to", "--until"),
    "--population": ("--users", "--people", "--clients"),
    "--n-reports": ("--n",),
    "--trials": ("--runs", "--repetitions"),
    "--output": ("--out", "--export"),
    "--memoize": ("--memoized", "--permanent"),
    "--sampled-epsilon": ("--epsilon-sampled",),
}
FORBIDDEN = {old: word for word, others in WORDS.items() for old in others}


def options(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """All options of a command and of those below it."""
    for option in command.params:
        if isinstance(option, click.Option):
            yield from ((" ".join(path), name) for name in option.opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from options(inner, (*path, name))


def forbidden(command: click.Command) -> list[str]:
    """The options whose meaning has another word."""
    return [
        f"{path} {name}: {FORBIDDEN[name]}" for path, name in options(command) if name in FORBIDDEN
    ]


def test_every_option_has_the_word_of_its_meaning() -> None:
    assert forbidden(cli) == []


def test_another_word_is_seen() -> None:
    planted = click.Command("plan", params=[click.Option(["--share"])])
    assert forbidden(click.Group("deniable", {"plan": planted})) == ["plan --share: --proportion"]


def test_each_old_option_is_read_as_one_that_exists() -> None:
    known = set(options(cli))
    for path, renamed in OPTIONS.items():
        below = {name for at, name in known if f"{at} ".startswith(f"{path} ")}
        assert set(renamed.values()) <= below
        assert not below & set(renamed)


def test_an_old_option_works_and_one_line_says_its_new_name() -> None:
    old = CliRunner().invoke(cli, ["plan", "--population=20000", "--share=0.1", "--margin", "0.02"])
    new = CliRunner().invoke(
        cli, ["plan", "--population=20000", "--proportion=0.1", "--margin", "0.02"]
    )
    assert old.exit_code == new.exit_code == 0
    assert old.stdout == new.stdout
    assert new.stderr == ""
    assert old.stderr == (
        "deniable: --share is now called --proportion; the next release will not read the old"
        " name\n"
    )


def test_each_old_command_is_read_as_one_that_exists(tmp_path: Path) -> None:
    known = {path for path, _ in options(cli)}
    assert set(COMMANDS.values()) <= known
    assert not known & set(COMMANDS)
    file = str(tmp_path / "ann.db")
    vault = deniable.Vault.create(file)
    vault.import_rows("rides", {"km": "REAL"}, [(3.5,)])
    shared = CliRunner().invoke(cli, ["vault", "share", file, "rides", "km"])
    assert (shared.exit_code, shared.stdout) == (
        0,
        "rides (1 row): Granted: km. Nothing is withheld.\n",
    )
    assert shared.stderr == (
        "deniable: vault share is now called vault grant; the next release will not read the old"
        " name\n"
    )
    with pytest.warns(RenamedWarning, match="unshare is now called withdraw"):
        vault.unshare("rides")  # type: ignore[attr-defined]
    assert vault.grants() == {}
    with pytest.warns(RenamedWarning, match="unshared is now called withheld"):
        assert vault.tables()[0].unshared == ("km",)  # type: ignore[attr-defined]


def test_each_old_export_is_the_new_one() -> None:
    for old, new in EXPORTS.items():
        for module in (deniable, deniable.errors):
            with pytest.warns(RenamedWarning, match=f"{old} is now called {new}"):
                assert getattr(module, old) is getattr(module, new)
            assert old not in dir(module)
    with pytest.raises(AttributeError, match="has no attribute 'Reverie'"):
        deniable.errors.Reverie  # noqa: B018


def test_an_old_name_in_a_file_is_read_and_one_line_says_the_new_one(tmp_path: Path) -> None:
    printed = {}
    for name in ("share", "proportion"):
        file = tmp_path / f"{name}.toml"
        file.write_text(
            f'[questions.a]\nlabels = ["no", "yes"]\n{name} = 0.2\n'
            f'[questions.b]\nlabels = ["no", "yes"]\n{name} = 0.1\n',
            encoding="utf-8",
        )
        line = ["plan", "--population=5000", "--epsilon=2", "--questions", str(file)]
        printed[name] = CliRunner().invoke(cli, line)
    assert printed["share"].exit_code == printed["proportion"].exit_code == 0
    assert printed["share"].stdout == printed["proportion"].stdout
    assert printed["proportion"].stderr == ""
    assert printed["share"].stderr == (
        "deniable: share is now called proportion; the next release will not read the old name\n"
    )


def test_an_old_name_in_a_query_file_is_read_with_a_warning(tmp_path: Path) -> None:
    new = tmp_path / "new.toml"
    assert CliRunner().invoke(cli, ["query", "new", str(new)]).exit_code == 0
    template = new.read_text(encoding="utf-8")
    read = {}
    for name in ("error", "margin"):
        file = tmp_path / f"{name}.toml"
        file.write_text(template.replace("# margin = 0.02", f"{name} = 0.02"), encoding="utf-8")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            read[name] = read_query(file)
        assert [str(each.message).partition(";")[0] for each in said] == (
            ["error is now called margin"] if name == "error" else []
        )
    assert read["error"] == read["margin"]
    assert read["margin"].budget.margin == 0.02
    # what is signed keeps its key
    assert read["margin"].to_dict()["budget"]["error"] == 0.02
    with pytest.warns(RenamedWarning, match="wish is now called target"):
        assert read["margin"].budget.wish == 0.02  # type: ignore[attr-defined]


def test_other_commands_and_words_after_a_double_dash_are_left_alone() -> None:
    with pytest.warns(RenamedWarning, match="--from is now called --start"):
        line = current_command_line(["history", "q", "--from=2026-01-01", "--", "--to"])
    assert line == ["history", "q", "--start=2026-01-01", "--", "--to"]
    assert current_command_line(["vault", "show", "--from", "x"]) == [
        "vault",
        "show",
        "--from",
        "x",
    ]


def signatures(source: str) -> Iterator[tuple[str, str]]:
    """Parameters of public functions, fields of public classes and keys that models read."""
    for node in ast.walk(ast.parse(source)):
        name = getattr(node, "name", "")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not name.startswith("_"):
            given = node.args
            yield from (
                (name, each.arg) for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)
            )
        elif isinstance(node, ast.ClassDef) and not name.startswith("_"):
            for part in node.body:
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    yield name, part.target.id


def keys(source: str) -> Iterator[str]:
    """Keys of documents that are written as literals."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Dict):
            for key in node.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value


PROPORTIONS = ("share", "shares", "smallest_share", "worst_share", "class_shares")
"""Rooms without secret pieces: here each of these would be a part of a crowd."""
CROWD_ROOMS = ("planning", "estimation", "mechanisms", "privacy", "graphs", "curator", "survey")


def misnamed(source: str) -> list[str]:
    """What a room without secret pieces calls a share."""
    named = [f"{where}({name})" for where, name in signatures(source) if name in PROPORTIONS]
    return named + [f"key {key}" for key in keys(source) if key in PROPORTIONS]


@pytest.mark.parametrize("room", CROWD_ROOMS)
def test_a_part_of_the_crowd_is_a_proportion(room: str) -> None:
    folder = Path(deniable.__file__).parent / room
    found = {
        str(path.relative_to(folder)): misnamed(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.py")
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_a_share_of_the_crowd_is_seen_as_parameter_field_and_key() -> None:
    planted = "def plan(share): return {'share': share}\nclass Plan:\n    share: float\n"
    assert sorted(misnamed(planted)) == ["Plan(share)", "key share", "plan(share)"]


REQUESTS = (DesignRequest, Draft)
REQUEST_WORDS = {old[2:].replace("-", "_"): word for old, word in FORBIDDEN.items()}


def misnamed_parameters(model: type[BaseModel]) -> list[str]:
    return [name for name in model.model_fields if name in REQUEST_WORDS]


@pytest.mark.parametrize("model", REQUESTS)
def test_requests_over_http_have_the_words_of_the_command_line(model: type[BaseModel]) -> None:
    assert misnamed_parameters(model) == []
    assert set(NAMES[model.__name__].values()) <= set(model.model_fields)


def test_another_word_in_a_request_is_seen() -> None:
    planted = create_model("Planted", people=(int, 1), until=(str, ""))
    assert misnamed_parameters(planted) == ["people", "until"]


def test_old_parameters_of_requests_are_read_with_the_new_name() -> None:
    old = {"people": 2_000, "share": 0.1, "runs": 3, "until": "2099-01-01", "buckets": 2}
    with pytest.warns(RenamedWarning) as said:
        request = DesignRequest.model_validate(old)
    assert (request.population, request.proportion, request.trials) == (2_000, 0.1, 3)
    assert request.end == "2099-01-01"
    assert {str(each.message).partition(";")[0] for each in said} == {
        f"{name} is now called {NAMES['DesignRequest'][name]}" for name in old if name != "buckets"
    }


def test_old_keywords_and_attributes_are_read_with_the_new_name() -> None:
    with pytest.warns(RenamedWarning, match="share is now called proportion"):
        old = plan(population=20_000, share=0.1, margin=0.02)  # type: ignore[call-arg]
    new = plan(population=20_000, proportion=0.1, margin=0.02)
    assert old == new
    with pytest.warns(RenamedWarning, match="share is now called proportion"):
        assert new.share == new.proportion  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="share"):
        plan(population=20_000, share=0.1, proportion=0.1)  # type: ignore[call-arg]


def test_documents_with_old_keys_are_read() -> None:
    made = PlanRequest(population=20_000, proportion=0.1, margin=0.02, memoize=True)
    document = made.to_dict()
    old = {**document, "share": document["proportion"], "memoized": document["memoize"]}
    del old["proportion"], old["memoize"]
    assert PlanRequest.from_dict(old) == made == PlanRequest.from_dict(document)


def test_documents_that_name_a_class_by_its_old_name_are_read() -> None:
    found = BinaryResponse.from_epsilon(2.0).estimate([0] * 300 + [1] * 200)[1]
    written = json.dumps(found.to_dict())
    assert '"ProportionLaw"' in written
    old = json.loads(written.replace('"ProportionLaw"', '"ShareLaw"'))
    assert Statistic.from_dict(old) == found


# --- the public names of Python, and the keys that stay

MEANINGS = {
    "proportion": ("share", "shares"),
    "granted": ("shared", "unshared"),
    "margin": ("wish",),
    "start": ("since", "valid_from"),
    "end": ("until", "valid_until"),
    "population": ("users", "people", "clients"),
    "trials": ("runs", "repetitions"),
    "output": ("out", "export"),
    "memoize": ("memoized",),
}
OLD_WORDS = {old for words in MEANINGS.values() for old in words}
NOT_YET = {
    "audit.rehearse(people)",
    "planning.people_to_invite(people)",
    "sizing.Demand(clients)",
    "sizing.Demand.of_mechanism(clients)",
    "sizing.Demand.of_query(clients)",
}
"""Parameters that are still to be renamed: this set only shrinks."""
KEPT = {
    "KeyRing.add(valid_from)": "the keys of ring files",
    "KeyRing.add(valid_until)": "the keys of ring files",
    "TrustedKey(valid_from)": "the keys of ring files",
    "TrustedKey(valid_until)": "the keys of ring files",
}


def public_things(module: ModuleType) -> Iterator[tuple[str, object]]:
    """What a package exports, and what the modules that it exports do."""
    for name in module.__all__:
        thing = getattr(module, name)
        if isinstance(thing, ModuleType):
            inner = getattr(thing, "__all__", ())
            yield from ((f"{name}.{each}", getattr(thing, each)) for each in inner)
        else:
            yield name, thing


def old_words(name: str, thing: object) -> Iterator[str]:
    """The parameters of a function or class, and of its public methods, under an old word."""
    if inspect.isfunction(thing):
        parameters = inspect.signature(thing).parameters
        yield from (f"{name}({each})" for each in parameters if each in OLD_WORDS)
    elif inspect.isclass(thing):
        for member, value in vars(thing).items():
            inner = getattr(value, "__func__", value)
            if member == "__init__":
                yield from old_words(name, inner)
            elif not member.startswith("_") and inspect.isfunction(inner):
                yield from old_words(f"{name}.{member}", inner)


def test_public_parameters_have_the_word_of_their_meaning() -> None:
    found = {each for name, thing in public_things(deniable) for each in old_words(name, thing)}
    assert found == NOT_YET | set(KEPT)


def test_an_old_word_in_a_public_function_or_class_is_seen() -> None:
    class Planted:
        def __init__(self, wish: float) -> None:
            """An old word."""

        @classmethod
        def of(cls, users: int) -> None:
            """Another."""

    planted = ModuleType("planted")
    vars(planted).update(__all__=["Planted"], Planted=Planted)
    found = [each for name, thing in public_things(planted) for each in old_words(name, thing)]
    assert found == ["Planted(wish)", "Planted.of(users)"]


def test_keys_that_are_signed_stored_or_served_stay() -> None:
    """Each has the word of release 0.1.0 outside, and that of the table inside."""
    assert Budget(margin=0.1).to_dict()["error"] == 0.1
    window = deniable.Window(
        "q", 1, 0, 0, 60, "withheld", 0, 0, None, margin=0.1
    )  # what a stored window of release 0.1.0 has
    assert window.to_dict()["wish"] == 0.1
    assert deniable.Window.from_dict(window.to_dict()).margin == 0.1
    assert "not shared" in REASONS  # of refusals, in vectors and in every client
    assert DECLARATION == "deniable_shared"  # in each vault
