"""What is built and installed: the wheel is the same wherever it is built, and CI installs what the lock says."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILT_FROM = ("src/deniable", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md")


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
                waiting += sorted(requirement.extras)  # a set, whose order differs from one process to the next
            else:
                found.append(requirement)
    return found


def pins() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pinned = Requirement(line)
            (specifier,) = pinned.specifier
            assert specifier.operator == "=="
            found.setdefault(canonicalize_name(pinned.name), []).append(specifier.version)
    return found


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_ci_installs_a_pinned_version_that_the_project_allows(requirement: Requirement) -> None:
    versions = pins().get(canonicalize_name(requirement.name))
    assert versions, f"{requirement.name} is not in .ci/constraints.txt: run .ci/lock"
    for version in versions:
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement.name} {version}: run .ci/lock"


def test_the_lock_names_no_index_and_no_file() -> None:
    text = (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8")
    assert not re.search(r"https?://|file:|--index|--find-links|@ ", text)


def test_ci_installs_by_the_lock_with_the_readmes_own_command() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "PIP_CONSTRAINT=" in script
    assert "test command" in script
    assert "constraint" not in (ROOT / "README.md").read_text(encoding="utf-8")


def copy_of_the_sources(folder: Path, reverse: bool) -> None:
    """The files that a build reads, written in another order and at other times."""
    files = []
    for name in BUILT_FROM:
        place = ROOT / name
        files += [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    chosen = [path for path in files if "__pycache__" not in path.parts]
    for i, path in enumerate(sorted(chosen, reverse=reverse)):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(0o600 if reverse else 0o644)
        os.utime(target, (1_500_000_000 + 1000 * i + reverse, 1_600_000_000 + 7 * i + reverse))


def build(folder: Path, zone: str) -> Path:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "TZ": zone, "PYTHONHASHSEED": str(len(zone))}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
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
    assert not [name for name in names if "test" in name.lower() and not name.startswith("deniable/")]
