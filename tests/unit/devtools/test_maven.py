"""Java libraries: where they are kept, and what is said when they cannot be had."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from deniable.devtools.maven import cache_folder, jars, java
from deniable.errors import ServiceError


def make_maven(folder: Path, script: str) -> None:
    """An mvn that does what the script says; $OUT is where the libraries are wanted."""
    mvn = folder / "mvn"
    find = (
        'for word in "$@"; do case "$word" in -DoutputDirectory=*) OUT="${word#*=}";; esac; done\n'
    )
    mvn.write_text(f"#!/bin/sh\n{find}{script}\n")
    mvn.chmod(mvn.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("DENIABLE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_libraries_are_asked_for_once_by_many_at_the_same_time(place: Path) -> None:
    make_maven(
        place / "bin",
        f'echo run >> {place}/runs; sleep 0.3; mkdir -p "$OUT"; cp pom.xml "$OUT/a.jar"',
    )
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(jars("some", ["g:a:1.0", "h:b:2.0"])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [place / "cache" / "some"] * 4
    assert (place / "runs").read_text() == "run\n"
    told = (found[0] / "a.jar").read_text()
    assert "<groupId>h</groupId><artifactId>b</artifactId><version>2.0</version>" in told
    assert sorted(path.name for path in (place / "cache").iterdir()) == ["some", "some.lock"]


def test_a_failure_is_told_and_leaves_nothing_half_done(place: Path) -> None:
    make_maven(
        place / "bin",
        'mkdir -p "$OUT"; touch "$OUT/half.jar"; echo "[ERROR] no such artifact"; exit 1',
    )
    with pytest.raises(ServiceError, match=r"could not download g:a:1\.0: no such artifact"):
        jars("some", ["g:a:1.0"])
    assert [path.name for path in (place / "cache").iterdir()] == ["some.lock"]


def test_what_is_not_installed_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(
        ServiceError, match="java was not found on the path: install a JDK, 17 or newer"
    ):
        java()
    with pytest.raises(ServiceError, match="mvn was not found on the path: install Maven"):
        jars("some", ["g:a:1.0"])


def test_what_is_in_the_cache_needs_no_maven(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "cache" / "some").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(place / "bin"))
    assert jars("some", ["g:a:1.0"]) == place / "cache" / "some"


def test_java_home_goes_before_the_path(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (place / "bin", place / "home" / "bin"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "java").write_text("#!/bin/sh\n")
        (folder / "java").chmod(0o700)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java() == str(place / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(place / "home"))
    assert java() == str(place / "home" / "bin" / "java")
    monkeypatch.setenv("JAVA_HOME", str(place / "nowhere"))
    with pytest.raises(ServiceError, match=r"java was not found in JAVA_HOME = .*nowhere"):
        java()


def test_the_cache_is_where_the_system_says_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DENIABLE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/deniable")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "deniable"
