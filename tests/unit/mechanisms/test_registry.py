"""A mechanism is seen by every command that takes one, whichever package it comes from, and takes
no other's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deniable
from deniable import DirectEncoding, OptimizedUnary
from deniable.errors import ParameterError, ReportFormatError
from deniable.estimation.estimate import Estimate
from deniable.estimation.tables.statistic import Statistic
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.registry import (
    from_dict,
    known_mechanisms,
    mechanism_by_name,
    mechanisms_by_epsilon,
)
from deniable.planning.candidates import candidates
from deniable.registries import Registry
from deniable.reproduce.protocols import known_protocols
from deniable.results import Result, decode, encode

PLUGIN = '''
from dataclasses import dataclass
from typing import Any

from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.unary import OptimizedUnary


@dataclass(frozen=True, eq=False, repr=False)
class Careful(OptimizedUnary):
    """Unary encoding that spends half of what it is given."""

    def __post_init__(self) -> None:
        given = self.epsilon
        object.__setattr__(self, "epsilon", given / 2)
        super().__post_init__()
        object.__setattr__(self, "requested_epsilon", given)


@dataclass(frozen=True, eq=False, repr=False)
class Failing(DirectEncoding):
    """Cannot be built."""

    def __post_init__(self) -> None:
        raise ZeroDivisionError("no coins")
'''
BUILD_BACKEND = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme-ldp"
version = "1.0"

[project.entry-points."deniable.mechanisms"]
careful = "acme_ldp:Careful"
failing = "acme_ldp:Failing"
absent = "acme_ldp.absent:Nothing"
number = "acme_ldp:Any"
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package built as a wheel and unpacked, entry points and all, into a folder of its own."""
    source, target = tmp_path_factory.mktemp("acme"), tmp_path_factory.mktemp("target")
    (source / "pyproject.toml").write_text(BUILD_BACKEND)
    (source / "acme_ldp.py").write_text(PLUGIN)
    build = (
        "import sys; from hatchling.builders.wheel import WheelBuilder; "
        "print(*WheelBuilder(sys.argv[1]).build(directory=sys.argv[2]))"
    )
    wheel = run("-c", build, str(source), str(source / "dist")).stdout.split()[-1]
    run("-m", "zipfile", "-e", wheel, str(target))
    return target


def run(
    *arguments: str, path: Path | None = None, fails: bool = False
) -> subprocess.CompletedProcess[str]:
    folders = [str(Path(deniable.__file__).parents[1]), *([str(path)] if path else [])]
    command = [sys.executable, *arguments]
    done = subprocess.run(  # noqa: S603 - our own code
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )
    assert fails or done.returncode == 0, done.stderr
    return done


COMPARE = (
    "compare",
    "--values",
    "4",
    "--population",
    "1000",
    "--trials",
    "2",
    "--epsilon",
    "1",
    "--json",
)


@pytest.mark.slow
def test_a_mechanism_of_another_package_is_compared_and_one_that_raises_is_left_out(
    installed: Path,
) -> None:
    done = run("-m", "deniable", *COMPARE, path=installed)
    found = {each["protocol"]: each for each in json.loads(done.stdout)["protocols"]}
    assert found["acme_ldp.Careful"]["epsilon"] <= 0.5
    assert found["acme_ldp.Careful"]["report_bytes"] == 1
    assert "DirectEncoding" in found
    assert "acme_ldp.Failing" not in found
    assert "acme_ldp.Failing" in done.stderr
    assert "ZeroDivisionError: no coins" in done.stderr
    assert "'acme_ldp.absent:Nothing' cannot be loaded: ModuleNotFoundError" in done.stderr
    assert "'acme_ldp:Any' in deniable.mechanisms is not a subclass of Mechanism" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_without_the_package_no_command_knows_it() -> None:
    found = json.loads(run("-m", "deniable", *COMPARE).stdout)["protocols"]
    assert not [each for each in found if "acme" in each["protocol"]]


@pytest.mark.slow
def test_a_mechanism_of_another_package_is_audited_planned_and_has_a_privacy_figure(
    installed: Path,
) -> None:
    audit = (
        "audit",
        "mechanism",
        "Careful",
        "--epsilon",
        "2",
        "--values",
        "4",
        "--n-reports",
        "20000",
        "--json",
    )
    [verdict] = json.loads(run("-m", "deniable", *audit, path=installed).stdout)["audits"].values()
    assert verdict["holds"]
    assert max(each["claim"] for each in verdict["games"]) <= 1.0  # half of what it was given
    plan = ("plan", "--population", "100000", "--buckets", "4", "--epsilon", "1", "--json")
    planned = json.loads(run("-W", "ignore", "-m", "deniable", *plan, path=installed).stdout)
    assert "acme_ldp.Careful" in {each["mechanism"] for each in planned["alternatives"]}
    loss = (
        "privacy",
        "--mechanism",
        "acme_ldp.Careful",
        "--epsilon",
        "2",
        "--values",
        "4",
        "--reports",
        "1000",
        "--json",
    )
    local = json.loads(run("-m", "deniable", *loss, path=installed).stdout)["figures"][0]
    assert local["epsilon"] <= 1.0


def test_what_commands_list_is_what_the_classes_offer() -> None:
    """Each of our mechanisms whose constructor has `values` and `epsilon`, or that builds itself
    from an epsilon."""
    offered = set(mechanisms_by_epsilon())
    for name, kind in known_mechanisms().items():
        if kind.__module__.startswith("deniable."):
            fields = set(getattr(kind, "__dataclass_fields__", {}))
            by_epsilon = {"values", "epsilon"} <= fields or "from_epsilon" in vars(kind)
            assert (name in offered) == (kind.exclusive and by_epsilon), name
    comparable = {name for name, kind in mechanisms_by_epsilon().items() if not kind.generic}
    assert comparable <= set(known_protocols())
    planned = {candidate.name for buckets in (1, 4) for candidate in candidates(buckets)}
    assert planned == {
        name
        for name, kind in mechanisms_by_epsilon().items()
        if not hasattr(kind, "draw_permanent")
        and mechanism_by_name(name, 1.0, 2).support() is not None
    }


@pytest.mark.parametrize("name", mechanisms_by_epsilon())
def test_every_listed_mechanism_is_built_within_its_epsilon_and_says_its_bytes(name: str) -> None:
    mechanism = mechanism_by_name(name, 1.0, 2)
    assert 0 < mechanism.epsilon <= 1.0
    row = (
        mechanism.draw(mechanism.indices([mechanism.labels[0]]), deniable.seeded_source(1))
        if mechanism.labels
        else None
    )
    assert row is None or row.nbytes == mechanism.report_bytes


def test_a_class_that_cannot_be_built_from_an_epsilon_says_so() -> None:
    with pytest.raises(
        ParameterError, match=r"^Mangat cannot be built from an epsilon and a number of values$"
    ):
        deniable.Mangat.from_epsilon(1.0, values=2)
    with pytest.raises(
        ParameterError, match="mechanism = 'Mangat' must be one of BasicRappor, BinaryResponse, "
    ):
        mechanism_by_name("Mangat", 1.0, 2)


# --- names of classes


def shadow(base: type[Any], name: str, module: str = "acme.shadow") -> type[Any]:
    """A class of another module with the name of one of ours, registered only while a test runs."""
    return type(name, (base,), {"__module__": module, "__qualname__": name})


@pytest.fixture
def _clean_registries() -> Any:
    registries: list[Registry[Any]] = [Mechanism._registry, Result._registry]
    before = [dict(registry.items()) for registry in registries]
    yield
    for registry, kinds in zip(registries, before, strict=True):
        registry._kinds = kinds


@pytest.mark.usefixtures("_clean_registries")
def test_a_class_of_our_name_defined_elsewhere_does_not_take_our_place() -> None:
    other = shadow(DirectEncoding, "DirectEncoding")
    document = DirectEncoding(4, 1.0).to_dict()
    assert document["mechanism"] == "DirectEncoding"  # as in every file and query so far
    assert type(from_dict(document)) is DirectEncoding
    theirs = other(4, 1.0).to_dict()
    assert theirs["mechanism"] == "acme.shadow.DirectEncoding"
    assert type(from_dict(theirs)) is other
    assert from_dict(theirs) != from_dict(document)


@pytest.mark.usefixtures("_clean_registries")
def test_a_result_of_our_name_defined_elsewhere_does_not_take_our_place() -> None:
    estimate = OptimizedUnary(2, 1.0).estimate(
        OptimizedUnary(2, 1.0).privatize([0, 1] * 50, deniable.seeded_source(1))
    )
    written = encode(estimate)
    other = shadow(Estimate, "Estimate")
    assert written["type"] == "Estimate"
    assert type(decode(Result, written)) is Estimate
    assert type(decode(Result, {**written, "type": "acme.shadow.Estimate"})) is other


@pytest.mark.usefixtures("_clean_registries")
def test_a_bare_name_of_the_last_release_is_read_unless_two_packages_have_it() -> None:
    """The last release wrote the bare name of a class from anywhere."""
    first = shadow(DirectEncoding, "Ternary", "acme.one")
    document = {**first(3, 1.0).to_dict(), "mechanism": "Ternary"}
    assert type(from_dict(document)) is first
    shadow(DirectEncoding, "Ternary", "acme.two")
    with pytest.raises(
        ReportFormatError, match="mechanism = 'Ternary' is not one this library knows"
    ):
        from_dict(document)


def test_two_classes_of_one_name_in_this_package_are_refused() -> None:
    registry: Registry[type] = Registry()
    registry.add(Statistic)
    again = type("Statistic", (), {"__module__": "deniable.elsewhere", "__qualname__": "Statistic"})
    with pytest.raises(
        TypeError,
        match=r"^Statistic is defined in deniable.estimation.tables.statistic and in deniable.elsewhere$",
    ):
        registry.add(again)
