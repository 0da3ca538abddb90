"""`import deniable` gives what the pages use and every error; a name is written once, in the
stub."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

import deniable
from deniable import errors, exports

ROOT = Path(__file__).parents[3]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.py")),
]
IMPORT = re.compile(r"^\s*(?:>>> )?from (deniable[\w.]*) import \(?([\w, *]+)\)?$", re.MULTILINE)
NAMED = re.compile(r"\bdeniable\.([A-Za-z]\w*)")
INNER = {"deniable.aggregator"}
"""A Spark job is put together from modules of the aggregator, and only there do pages look
inside."""


def gaps(imports: Iterable[tuple[str, str]], public: dict[str, list[str]]) -> list[str]:
    """Which of the imports are not of a public name; `public` has the names of each package."""
    missing = []
    for module, names in imports:
        for name in (each.strip() for each in names.split(",") if each.strip()):
            if name != "*" and name not in public.get(module, ()):
                missing.append(f"{module}.{name}")
    return missing


def public_names() -> dict[str, list[str]]:
    rooms = [name for name in deniable.__all__ if inspect.ismodule(getattr(deniable, name))]
    modules = [deniable, *(getattr(deniable, name) for name in rooms)]
    return {each.__name__: each.__all__ for each in modules if hasattr(each, "__all__")}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_what_a_page_imports_is_public(page: Path) -> None:
    found = IMPORT.findall(page.read_text(encoding="utf-8"))
    inner = [each for each in found if ".".join(each[0].split(".")[:2]) in INNER]
    assert gaps([each for each in found if each not in inner], public_names()) == []
    for module, names in inner:
        for name in names.split(","):
            assert hasattr(importlib.import_module(module), name.strip()), f"{module}.{name}"


def test_an_import_that_is_not_public_is_seen() -> None:
    page = (
        "text\n    >>> from deniable import Query, Reverie\n    from deniable.queries.signed.keys import"
        " AnalystKey\n"
    )
    planted = IMPORT.findall(page)
    assert gaps(planted, public_names()) == [
        "deniable.Reverie",
        "deniable.queries.signed.keys.AnalystKey",
    ]


ERROR_MODULES = (errors.__name__, "deniable.error_bases")


def error_tree() -> set[str]:
    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ in ERROR_MODULES
    ]
    return {
        kind.__name__
        for kind in kinds
        if issubclass(kind, Exception) and not kind.__name__.startswith("_")
    }


def drawn(kind: type, indent: str = "") -> list[str]:
    """The errors under this one, with the first sentence of each, as docs/errors.md draws them."""
    below = [
        each
        for each in vars(errors).values()
        if inspect.isclass(each) and public_parent(each) is kind
    ]
    lines = []
    for i, each in enumerate(below):
        last = i == len(below) - 1
        sentence = re.split(r"(?<=\.)\s", inspect.getdoc(each) or "", maxsplit=1)[0]
        lines.append(
            f"{indent}{'└' if last else '├'}── {each.__name__}: {' '.join(sentence.split())}"
        )
        lines += drawn(each, indent + ("    " if last else "│   "))
    return lines


def public_parent(kind: type) -> type | None:
    """The nearest base that is a public error; None for what is not one itself."""
    public = [each for each in kind.__mro__ if each.__name__ in error_tree()]
    return (
        max(public[1:], key=lambda each: len(each.__mro__), default=None)
        if kind in public
        else None
    )


def test_every_error_is_exported() -> None:
    assert error_tree() - set(deniable.__all__) == set()


def error_page() -> str:
    """docs/errors.md with the tree as the classes make it: to write it, run this file as a
    program."""
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    before, _, rest = page.partition("```text\n")
    tree = "\n".join(["DeniableError", *drawn(errors.DeniableError)])
    return f"{before}```text\n{tree}\n```{rest.partition('```')[2]}"


def test_the_page_draws_the_tree_of_errors() -> None:
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == error_page()


def test_an_error_class_that_is_not_exported_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = type("ForgottenError", (errors.DeniableError,), {"__module__": errors.__name__})
    monkeypatch.setattr(errors, "ForgottenError", planted, raising=False)
    assert error_tree() - set(deniable.__all__) == {"ForgottenError"}


@pytest.mark.parametrize(
    "name",
    ["DeniableError", "Window", "Column", "Schedule", "Policy", "sign", "AnalystKey", "planning"],
)
def test_names_the_pages_promise_are_there(name: str) -> None:
    assert name in deniable.__all__
    assert getattr(deniable, name).__name__.endswith(name)


def stubbed() -> list[ModuleType]:
    folder = Path(deniable.__file__).parent
    paths = sorted(path.parent.relative_to(folder.parent) for path in folder.rglob("__init__.pyi"))
    return [importlib.import_module(".".join(path.parts)) for path in paths]


@pytest.mark.parametrize("package", stubbed(), ids=lambda m: m.__name__)
def test_a_stub_s_names_are_there_sorted_and_written_once(package: ModuleType) -> None:
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    special = [name for name in dir(package) if name not in package.__all__]
    assert all(name.startswith("__") for name in special), special
    stub = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text(encoding="utf-8"))
    aliases = [
        alias for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    # else a type checker does not see it as exported
    assert all(alias.asname == alias.name for alias in aliases)
    assert len({alias.name for alias in aliases}) == len(aliases)
    source = Path(str(package.__file__)).read_text(encoding="utf-8")
    assert not [
        name
        for name in package.__all__
        if re.search(rf"\b{name}\b", source.partition('"""\n\n')[2])
    ]


def test_an_unknown_name_is_an_attribute_error_and_star_imports_all(tmp_path: Path) -> None:
    with pytest.raises(AttributeError, match="module 'deniable' has no attribute 'Reverie'"):
        _ = deniable.Reverie  # type: ignore[attr-defined]
    program = "from deniable import *\nassert set(__import__('deniable').__all__) <= set(globals())"
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603 - our own code


def test_importing_the_package_reads_no_stub() -> None:
    program = "import sys, deniable; print({'ast', 'numpy', 'pkgutil'} & set(sys.modules))"
    out = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(deniable.__file__).parents[1])},
    )
    assert out.stdout == "set()\n"


@pytest.mark.slow
def test_the_wheel_has_the_stubs_and_its_names_load(tmp_path: Path) -> None:
    build = (
        "from hatchling.builders.wheel import WheelBuilder;"
        " print(*WheelBuilder(%r).build(directory=%r), sep='\\n')"
    )
    command = [sys.executable, "-c", build % (str(ROOT), str(tmp_path))]
    out = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    wheel = Path(out.stdout.split()[-1])
    assert "deniable/__init__.pyi" in zipfile.ZipFile(wheel).namelist()
    # from within the zip: the stub is read by the package's loader, not from a folder
    program = (
        "import deniable; print(deniable.__file__, deniable.Schedule.__name__,"
        " deniable.DirectEncoding(3, 1.0))"
    )
    out = subprocess.run(  # noqa: S603 - ours
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(wheel)},
    )
    assert out.stdout.startswith(str(wheel))
    assert out.stdout.rstrip().endswith("Schedule DirectEncoding(values=3, epsilon=1.0)")


def test_a_name_that_is_a_module_of_its_home_is_that_module() -> None:
    assert (
        exports.lazy_exports("deniable")[0]("statistics").__name__
        == "deniable.estimation.tables.statistics"
    )


def examples() -> list[errors.DeniableError]:
    """One error of every class, built from an example value for each parameter."""
    values: dict[str, object] = {
        "name": "p",
        "value": 1.2,
        "rule": "must be less",
        "file": "query.toml",
        "line": 7,
        "position": 3,
        "reason": "tag",
        "detail": "cut short",
        "retry_after": 5,
        "final": True,
        "early": True,
        "problem": "too few",
        "nearest": {"n": 3.0},
        "together": True,
        "status": 409,
        "package": "SciPy",
        "extra": "estimation",
        "purpose": "estimating",
        "message": "no",
        "unsent": True,
    }
    made = []
    for name in sorted(error_tree()):
        kind = getattr(errors, name)
        own = next(
            (
                each
                for each in kind.__mro__
                if each.__module__.startswith("deniable.") and "__init__" in vars(each)
            ),
            None,
        )
        parameters = list(inspect.signature(own).parameters) if own else []
        made.append(
            kind(**{each: values[each] for each in parameters}) if own else kind("a sentence")
        )
    return made


@pytest.mark.parametrize("error", examples(), ids=lambda e: type(e).__name__)
def test_an_error_that_crosses_processes_keeps_its_words_and_attributes(
    error: errors.DeniableError,
) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own pickle
    assert (type(copy), str(copy), repr(copy), vars(copy)) == (
        type(error),
        str(error),
        repr(error),
        vars(error),
    )


def test_a_parameter_error_takes_a_whole_sentence_and_keeps_name_and_value() -> None:
    error = errors.ParameterError("prior", [0.5, 0.6], message="sum(prior) = 1.1 must be 1")
    assert (str(error), error.name, error.value) == (
        "sum(prior) = 1.1 must be 1",
        "prior",
        [0.5, 0.6],
    )


if __name__ == "__main__":
    (ROOT / "docs" / "errors.md").write_text(error_page(), encoding="utf-8")
