"""Backups of a service: a folder of copied files and a manifest with the hash of each and the
service's state at the time.

A backup is written under another name and renamed once complete, so an interrupted one never looks
like a backup. It contains everything the service has, including tokens and keys: it has mode 0700
and needs the same protection as the service's files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from deniable.errors import BackupError
from deniable.queries.times import iso_time
from deniable.service.audit_log import OPERATOR, AuditLog
from deniable.service.files.database import copy_database

__all__ = [
    "BackupWriter",
    "check_backup",
    "copy_in",
    "listed_files",
    "move_aside",
    "note_in_audit_log",
    "restore_missing",
    "restored_settings",
]

_MANIFEST = "manifest.json"
_VERSION = 1
_Settings = TypeVar("_Settings")


class BackupWriter:
    """Collects the files of a backup."""

    def __init__(self, target: Path) -> None:
        if target.exists():
            raise BackupError(f"{target} exists: name a folder that does not")
        self._target, self.folder = target, target.with_name(f"{target.name}.new")
        try:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise BackupError(f"{target} cannot be made: {error.strerror}") from None

    def path(self, name: str) -> Path:
        """The path for a file of this name."""
        place = self.folder / name
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return place

    def database(self, source: Path, name: str) -> None:
        """Copy a consistent snapshot of an SQLite file."""
        copy_database(source, self.path(name))

    def file(self, source: Path, name: str) -> None:
        """Copy a file that is only ever appended to, or never changed."""
        place = self.path(name)
        place.write_bytes(source.read_bytes())
        place.chmod(0o600)

    def finish(self, kind: str, now: int, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Write the manifest, and give the folder its final name."""
        files = [
            {"name": name, "bytes": path.stat().st_size, "sha256": _digest(path)}
            for name, path in _files(self.folder)
        ]
        about = {
            "version": _VERSION,
            "kind": kind,
            "release": version("deniable"),
            "made": iso_time(now),
            "made_seconds": now,
        }
        document = {**about, **facts, "files": files}
        (self.folder / _MANIFEST).write_text(json.dumps(document, indent=2) + "\n")
        for _, path in _files(self.folder):
            _sync(path)
        _sync(self.folder)
        self.folder.rename(self._target)
        _sync(self._target.parent)
        return document


def check_backup(folder: Path, kind: str) -> dict[str, Any]:
    """The manifest of a backup, if every file is present and unchanged."""
    try:
        document = json.loads((folder / _MANIFEST).read_text())
        digests = {str(each["name"]): str(each["sha256"]) for each in document["files"]}
        number, found = document["version"], document["kind"]
    except FileNotFoundError:
        raise BackupError(f"{folder} is not a backup: it has no {_MANIFEST}") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise BackupError(f"{folder / _MANIFEST} cannot be read: it is damaged") from None
    if number != _VERSION:
        raise BackupError(
            f"{folder} is a backup of version {number}, of a newer release; this one reads version"
            f" {_VERSION}"
        )
    if found != kind:
        raise BackupError(f"{folder} is a backup of a service of kind {found!r}, not {kind!r}")
    for name, digest in digests.items():
        path = folder / name
        if (
            PurePosixPath(name).is_absolute()
            or ".." in PurePosixPath(name).parts
            or _leads_out(path, folder)
        ):
            raise BackupError(f"{folder} is not a backup of ours: {name!r} leads out of it")
        if not path.is_file():
            raise BackupError(f"{folder} is incomplete: {name} is missing")
        if _digest(path) != digest:
            raise BackupError(f"{folder} is damaged: {name} is not what was backed up")
    return dict(document)


def _leads_out(path: Path, folder: Path) -> bool:
    return any(each.is_symlink() for each in [path, *path.parents] if folder in each.parents)


def listed_files(manifest: Mapping[str, Any], within: str = "") -> list[str]:
    """The names of the files that a checked manifest lists, of one folder of the backup and below,
    or of its top.

    Whatever else lies in the backup's folder was never checked, and is not restored.
    """
    names = [str(each["name"]) for each in manifest["files"]]
    return sorted(
        name for name in names if (name.startswith(f"{within}/") if within else "/" not in name)
    )


def restored_settings(
    backup: Path,
    settings_file: Path,
    read: Callable[[Path], _Settings],
    paths: Callable[[_Settings], Iterable[Path]],
) -> _Settings:
    """The settings at their path or, if there are none, those of the backup, put there.

    Those of a backup say where everything else is written, and a backup may come from anywhere:
    they are only taken if all of that lies in the folder of the settings.
    """
    if settings_file.exists():
        return read(settings_file)
    copied, folder = backup / "settings" / "settings.toml", settings_file.parent.resolve()
    if not copied.is_file():
        raise BackupError(f"{backup} has no settings, and there are none at {settings_file}")
    copy_in(copied, settings_file)
    try:
        settings = read(settings_file)
        for path in paths(settings):
            if not path.resolve().is_relative_to(folder):
                what = f"the backup's settings would write to {path}, outside {folder}"
                raise BackupError(
                    f"{what}: if that is right, copy {copied} to {settings_file} and restore again"
                )
    except BaseException:
        settings_file.unlink()
        raise
    return settings


def copy_in(source: Path, target: Path) -> None:
    """Copy a file of a backup into place; it is on the disk when this returns."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    half = target.with_name(f"{target.name}.new")
    shutil.copyfile(source, half)
    half.chmod(0o600)
    _sync(half)
    half.rename(target)
    _sync(target.parent)


def restore_missing(
    backup: Path, manifest: Mapping[str, Any], files: Mapping[str, Path], report: Mapping[str, Any]
) -> None:
    """Restore those files of a backup that no longer exist, by their names in it; the report lists
    which were restored and which were kept."""
    listed = {each["name"] for each in manifest["files"]}
    for name, path in files.items():
        if path.exists():
            report["kept"].append(str(path))
        elif name in listed:
            copy_in(backup / name, path)
            report["restored"].append(str(path))


def move_aside(path: Path) -> Path:
    """Rename what is in the way of a restore, along with SQLite's files next to it."""
    aside = path.with_name(
        f"{path.name}.before-restore-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    )
    for end in ("", "-wal", "-shm"):
        place = path.with_name(path.name + end)
        if place.exists():
            place.rename(aside.with_name(aside.name + end))
    return aside


def note_in_audit_log(path: Path, event: str, **details: Any) -> None:
    """Record an operator's action in the service's audit log."""
    log = AuditLog(path)
    try:
        log.record(event, actor=OPERATOR, **details)
    finally:
        log.close()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / _MANIFEST:
            yield str(path.relative_to(folder)), path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
