"""What is built and installed: the wheel is the same wherever it is built, and CI installs what the
lock says."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from toolkit.references.sqlite_versions import VERSIONS

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILT_FROM = (
    "src/deniable",
    "clients/js/src",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)


def requirements() -> list[Requirement]:
    """The direct dependencies of the package and of all extras that `dev` brings."""
    extras = PROJECT["optional-dependencies"]
    found = [Requirement(text) for text in PROJECT["dependencies"]]
    waiting, seen = ["dev"], set()
    while waiting:
        extra = waiting.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for text in extras[extra]:
            requirement = Requirement(text)
            if requirement.name == "deniable":
                # a set, whose order differs from one process to the next
                waiting += sorted(requirement.extras)
            else:
                found.append(requirement)
    return found


LOCKS = ("constraints.txt", "build.txt", *(f"sqlites/{version}.txt" for version in VERSIONS))


def locked(name: str) -> Iterator[tuple[Requirement, list[str]]]:
    """What a file of the lock pins, each with its hashes."""
    text = (ROOT / ".ci" / name).read_text(encoding="utf-8").replace("\\\n", "")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            pinned, *hashes = line.split("--hash=")
            yield Requirement(pinned), [each.strip() for each in hashes]


def pins(name: str = "constraints.txt") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pinned, _ in locked(name):
        (specifier,) = pinned.specifier
        assert specifier.operator == "=="
        found.setdefault(canonicalize_name(pinned.name), []).append(specifier.version)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_everything_that_ci_installs_is_pinned_by_its_hash(name: str) -> None:
    entries = list(locked(name))
    assert entries
    for pinned, hashes in entries:
        assert hashes, f"{pinned} has no hash: run .ci/lock"
        assert all(re.fullmatch("sha256:[0-9a-f]{64}", each) for each in hashes)


def test_what_builds_this_package_is_locked_too() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"][
        "requires"
    ]
    tools, versions = pins("build.txt"), pins()
    for name in [
        *(canonicalize_name(Requirement(text).name) for text in required),
        "editables",
        "setuptools",
    ]:
        assert name in tools, f"{name} is not in .ci/build.txt: run .ci/lock"
    assert {name: tools[name] for name in tools if name in versions} == {
        name: versions[name] for name in tools if name in versions
    }


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_ci_installs_a_pinned_version_that_the_project_allows(requirement: Requirement) -> None:
    versions = pins().get(canonicalize_name(requirement.name))
    assert versions, f"{requirement.name} is not in .ci/constraints.txt: run .ci/lock"
    for version in versions:
        assert requirement.specifier.contains(version, prereleases=True), (
            f"{requirement.name} {version}: run .ci/lock"
        )


def test_the_versions_of_sqlite_that_are_locked_are_those_that_are_tried() -> None:
    for version, requirement in VERSIONS.items():
        ((pinned, _),) = locked(f"sqlites/{version}.txt")
        wanted = Requirement(requirement)
        assert (canonicalize_name(pinned.name), pinned.specifier) == (
            canonicalize_name(wanted.name),
            wanted.specifier,
        )


def test_the_lock_names_no_index_and_no_file() -> None:
    for name in LOCKS:
        text = (ROOT / ".ci" / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|file:|--index|--find-links|@ ", text)


def test_ci_installs_by_the_lock_with_the_readmes_own_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert (
        script.index(".ci/install")
        < script.index("PIP_NO_INDEX=1")
        < script.index('bash -c "$test_command"')
    )
    assert "test command" in script
    installs = re.findall(
        r"^.*\b(?:install|download) .*$",
        (ROOT / ".ci" / "install").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    commands = [line for line in installs if not line.startswith("#")]
    assert len(commands) == 3
    assert all("--require-hashes" in line for line in commands)
    assert "constraint" not in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tools_of_the_console_s_tests_are_locked_by_their_hashes() -> None:
    folder = ROOT / ".ci" / "console"
    wanted = json.loads((folder / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert {f"node_modules/{name}" for name in wanted} <= packages.keys()
    assert all(each["integrity"].startswith("sha512-") for path, each in packages.items() if path)
    assert "npm ci" in (ROOT / ".ci" / "node").read_text(encoding="utf-8")


def copy_of_the_sources(folder: Path, reverse: bool) -> None:
    """The files that a build reads, written in another order and at other times."""
    files = []
    for name in BUILT_FROM:
        place = ROOT / name
        files += (
            [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
        )
    chosen = [path for path in files if "__pycache__" not in path.parts]
    for i, path in enumerate(sorted(chosen, reverse=reverse)):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(0o600 if reverse else 0o644)
        os.utime(target, (1_500_000_000 + 1000 * i + reverse, 1_600_000_000 + 7 * i + reverse))


def build(folder: Path, zone: str) -> Path:
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": "1700000000",
        "TZ": zone,
        "PYTHONHASHSEED": str(len(zone)),
    }
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(folder / "dist"),
    ]
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


@pytest.mark.slow
def test_two_builds_in_different_places_are_the_same_to_the_byte(tmp_path: Path) -> None:
    wheels = []
    for name, reverse, zone in (("one", False, "UTC"), ("a-longer/second", True, "Asia/Tokyo")):
        folder = tmp_path / name
        copy_of_the_sources(folder, reverse)
        wheels.append(build(folder, zone))
    one, two = (hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels)
    assert one == two
    with zipfile.ZipFile(wheels[0]) as archive:
        names = archive.namelist()
        assert {entry.date_time[:3] for entry in archive.infolist()} == {
            (2023, 11, 14)
        }  # SOURCE_DATE_EPOCH, not the files' times
    assert "deniable/console/static/js/ask.js" in names  # what is not Python comes along
    assert {"deniable/poll/static/js/app.js", "deniable/poll/client/client.js"} <= set(names)
    assert not [
        name for name in names if "test" in name.lower() and not name.startswith("deniable/")
    ]
