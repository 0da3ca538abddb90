"""Java libraries from Maven Central, downloaded once into the user's cache and then used without a
network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from deniable.errors import ServiceError
from deniable.service.files.file_lock import lock_file

__all__ = ["cache_folder", "jars", "java"]

CACHE_VARIABLE = "DENIABLE_CACHE"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_SECONDS = 600
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>deniable</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>{}</dependencies></project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def cache_folder() -> Path:
    """Where libraries are kept: $DENIABLE_CACHE, or `deniable` in the user's cache folder (XDG)."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deniable"


def java() -> str:
    """The Java program: from $JAVA_HOME, or else from the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise ServiceError(
            f"java was not found {f'in JAVA_HOME = {home}' if home else 'on the path'}: install a"
            " JDK, 17 or newer"
        )
    return found


def jars(name: str, artifacts: Sequence[str]) -> Path:
    """A folder with these artifacts (`group:artifact:version`) and all their runtime dependencies.

    If the cache folder `name` already has them, nothing is downloaded. Processes that need the same
    artifacts at the same time wait for the first one; an interrupted process leaves nothing half
    done.
    """
    cache = cache_folder()
    folder = cache / name
    if folder.is_dir():
        return folder
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(cache / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ServiceError(
            f"the cache {cache} cannot be written: {error.strerror}; ${CACHE_VARIABLE} names"
            " another"
        ) from None
    try:
        lock_file(lock)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix=f"{name}.", dir=cache) as work:
                _copy(Path(work), artifacts)
                (Path(work) / "jars").rename(folder)
    finally:
        os.close(lock)
    return folder


def _copy(work: Path, artifacts: Sequence[str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceError("mvn was not found on the path: install Maven 3.6.3 or newer")
    wanted = "".join(
        _DEPENDENCY.format(*map(escape, artifact.split(":"))) for artifact in artifacts
    )
    (work / "pom.xml").write_text(_POM.format(wanted), encoding="utf-8")
    command = [
        maven,
        "-q",
        "-B",
        _COPY,
        "-DincludeScope=runtime",
        f"-DoutputDirectory={work / 'jars'}",
    ]
    try:
        done = subprocess.run(  # noqa: S603 - ours
            command, cwd=work, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ServiceError(
            f"Maven did not download {', '.join(artifacts)} within {_SECONDS} seconds"
        ) from None
    if done.returncode:
        said = re.findall(r"\[.*?ERROR.*?\] *(.+)", done.stdout + done.stderr)
        raise ServiceError(
            f"Maven could not download {', '.join(artifacts)}:"
            f" {said[0] if said else 'it did not say why'}"
        )
