"""SQLite in several versions, out of wheels that carry it: the sandbox must hold on all of them,
not on the one at hand.

    python tests/toolkit/references/sqlite_versions.py FOLDER        # fetches them with pip, checked by the hashes in .ci/sqlites
    python tests/toolkit/references/sqlite_versions.py               # lists them, for .ci/lock
    DENIABLE_SQLITES=FOLDER python -m pytest tests/unit/test_sandbox_versions.py

A wheel's extension module exports SQLite's own functions. Loaded for the whole process before
Python's `sqlite3`, it stands in for the library that `sqlite3` was linked with.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["VARIABLE", "VERSIONS", "extension"]

VARIABLE = "DENIABLE_SQLITES"
VERSIONS = {
    "3.40.0": "pysqlite3-binary==0.5.0",
    "3.41.2": "sqlcipher3-binary==0.5.1",
    "3.42.0": "pysqlite3-binary==0.5.1",
    "3.43.1": "pysqlite3-binary==0.5.2",
    "3.44.0": "sqlean.py==0.21.8.5",
    "3.45.1": "sqlean.py==3.45.1",
    "3.46.1": "pysqlite3-binary==0.5.3.post1",
    "3.47.0": "sqlean.py==3.47.0",
    "3.50.4": "sqlean.py==3.50.4.5",
}
_LOCKS = Path(__file__).parents[3] / ".ci" / "sqlites"


def extension(version: str) -> Path | None:
    """The file that carries this version, None if no folder was given. A folder without it is an
    error, not a reason to skip."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    found = sorted(
        (Path(folder) / version).glob("*/_sqlite3.cpython-*.so"),
        key=lambda path: path.stat().st_size,
    )
    if not found:
        raise FileNotFoundError(
            f"{folder} holds no SQLite {version}: fetch it with tests/toolkit/references/sqlite_versions.py"
        )
    return found[-1].absolute()  # one wheel carries an empty copy beside


def _fetch(folder: Path) -> None:
    for version in VERSIONS:
        if not (folder / version).exists():
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--require-hashes",
            ]
            command += ["--target", str(folder / version), "-r", str(_LOCKS / f"{version}.txt")]
            subprocess.run(command, check=True)  # noqa: S603 - our own command


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _fetch(Path(sys.argv[1]))
    else:
        sys.stdout.writelines(
            f"{version} {requirement}\n" for version, requirement in VERSIONS.items()
        )
