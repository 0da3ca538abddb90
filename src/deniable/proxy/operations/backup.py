"""Backup and restore of a proxy: its log, spool, tokens, queries and invitations, all as of one
moment.

A restored proxy's log has a new identity and records which log it continues and up to which offset.
An aggregator that had read further continues from the end of what both have, so nothing is counted
twice, and closes epochs that may lack shares as epochs without this proxy. Shares that were
acknowledged after the backup, and that no aggregator had read, are lost.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from deniable.errors import BackupError, LogError
from deniable.logs.sqlite_log import BlockLog
from deniable.proxy.board import Board
from deniable.proxy.settings import ProxySettings, read_settings
from deniable.service.files.backups import (
    BackupWriter,
    check_backup,
    copy_in,
    listed_files,
    move_aside,
    note_in_audit_log,
    restore_missing,
    restored_settings,
)
from deniable.service.files.database import lock

__all__ = ["back_up_proxy", "restore_proxy"]

_KIND = "proxy"
_TRIES = 100
_DATABASES = ("tokens.db", "queries.db", "enrolment.db", "uses.db")
_FILES = ("name", "audit.jsonl.head", "audit.jsonl", "public.jsonl.head", "public.jsonl")
"""The head of a log first: lines added meanwhile go beyond it, whereas a head beyond the lines
would look like a loss."""


def back_up_proxy(settings_file: Path, target: Path, now: int) -> dict[str, Any]:
    """Write a backup of a running or stopped proxy into a new folder; returns its manifest."""
    settings = read_settings(settings_file)
    folder = settings.folder
    if not folder.is_dir():
        raise BackupError(f"{folder} is not there: there is nothing to back up yet")
    writer = BackupWriter(target)
    for name in _DATABASES:
        if (folder / name).is_file():
            writer.database(folder / name, name)
    for name in _FILES:
        if (folder / name).is_file():
            writer.file(folder / name, name)
    for name, path in _other_files(settings_file, settings).items():
        if path.is_file():
            writer.file(path, name)
    _copy_shares(settings, writer)
    manifest = writer.finish(_KIND, now, _facts(writer.folder))
    note_in_audit_log(settings.audit_path, "service.backed_up", to=str(target))
    return manifest


def _other_files(settings_file: Path, settings: ProxySettings) -> dict[str, Path]:
    found: dict[str, Path | None] = {
        "settings/settings.toml": settings_file,
        "settings/ring": settings.ring,
    }
    if settings.tls is not None:
        found["settings/tls.certificate"], found["settings/tls.key"] = (
            settings.tls.certificate,
            settings.tls.key,
        )
        found["settings/tls.password"] = settings.tls.password_file
    return {name: path for name, path in found.items() if path is not None}


def _copy_shares(settings: ProxySettings, writer: BackupWriter) -> None:
    """Copy the spool, then the log, until nothing is moved from one to the other during the copy.

    Every share acknowledged before is then in exactly one of them.
    """
    log = settings.folder / "log.db"
    for _ in range(_TRIES):
        before = _end(log) if log.is_file() else 0
        try:
            for path in sorted((settings.folder / "spool").glob("*")):
                writer.file(path, f"spool/{path.name}")
        except FileNotFoundError:  # it was moved to the log
            before = -1
        if settings.kafka is not None or not log.is_file():
            return
        if before >= 0:
            writer.database(log, "log.db")
            if _end(writer.folder / "log.db") == before:
                return
        for path in (writer.folder / "spool").glob("*"):
            path.unlink()
    raise BackupError(
        f"{settings.folder} is too busy for a consistent copy: shares were moved to the log in"
        f" {_TRIES} tries"
    )


def _end(log: Path) -> int:
    with closing(
        sqlite3.connect(f"{log.absolute().as_uri()}?mode=ro", uri=True, timeout=30)
    ) as connection:
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'blocks'").fetchone()
    return row[0] if row else 0


def _facts(folder: Path) -> dict[str, Any]:
    spooled = sum(path.stat().st_size for path in (folder / "spool").glob("*"))
    if not (folder / "log.db").is_file():
        return {"log": None, "spool_bytes": spooled}
    with closing(sqlite3.connect(folder / "log.db")) as connection:
        [(identity,)] = connection.execute("SELECT value FROM facts WHERE name = 'identity'")
        marks = dict(
            connection.execute("SELECT channel, epoch FROM marks ORDER BY channel").fetchall()
        )
    return {
        "log": {"identity": identity, "end": _end(folder / "log.db"), "closed_before": marks},
        "spool_bytes": spooled,
    }


def restore_proxy(backup: Path, settings_file: Path, replace: bool, now: int) -> dict[str, Any]:
    """Restore a backup to where the settings point, and report what is lost. `replace` moves
    existing data aside."""
    manifest = check_backup(backup, _KIND)
    settings = restored_settings(
        backup,
        settings_file,
        read_settings,
        lambda found: [found.folder, *_other_files(settings_file, found).values()],
    )
    folder = settings.folder
    report: dict[str, Any] = {
        "backup": manifest["made"],
        "folder": str(folder),
        "restored": [],
        "kept": [],
    }
    aside = None
    if folder.exists() and any(folder.iterdir()):
        if not replace:
            raise BackupError(f"{folder} exists: give --replace to move it aside")
        try:
            lock(folder / "lock").close()
        except LogError:
            raise BackupError(f"a proxy is running on {folder}: stop it first") from None
        aside = move_aside(folder)
        report["moved_aside"] = str(aside)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    restore_missing(backup, manifest, _other_files(settings_file, settings), report)
    for name in listed_files(manifest):
        newer = (
            aside / name
            if aside is not None and name.startswith(("audit.", "public."))
            else backup / name
        )
        copy_in(newer if newer.is_file() else backup / name, folder / name)
        report["restored"].append(str(folder / name))
    (folder / "spool").mkdir(mode=0o700, exist_ok=True)
    for name in listed_files(manifest, "spool"):
        copy_in(backup / name, folder / name)
    if settings.kafka is None:
        log = BlockLog(folder / "log.db")
        log.restored()
        report["log"] = {"identity": log.identity, "end": log.end}
        log.close()
    report["lost"] = _lost(folder, manifest, now)
    note_in_audit_log(
        settings.audit_path, "service.restored", backup=manifest["made"], losses=len(report["lost"])
    )
    return report


def _lost(folder: Path, manifest: dict[str, Any], now: int) -> list[dict[str, Any]]:
    """The epochs of each channel whose shares may have been acknowledged after the backup."""
    board = Board(folder / "queries.db", lambda: now)
    marks = (manifest["log"] or {"closed_before": {}})["closed_before"]
    found = []
    for tag, channel in sorted(board.channels().items()):
        first, last = (
            marks.get(f"{tag:016x}", 0),
            min(channel.n_epochs - 1, channel.schedule.epochs_over(now)),
        )
        if first <= last:
            found.append(
                {"channel": f"{tag:016x}", "epochs": [first, last], "after": manifest["made"]}
            )
    board.close()
    return found
