"""`backup` and `restore` of an aggregator and of a proxy."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from deniable.cli.output import emit, output_options

__all__ = ["add_backup_commands"]

_PATH = click.Path(path_type=Path)
Back = Callable[[Path, Path, int], dict[str, Any]]
Restore = Callable[[Path, Path, bool, int], dict[str, Any]]


def add_backup_commands(
    group: click.Group, what: str, functions: Callable[[], tuple[Back, Restore]]
) -> None:
    """Add both commands to the group of a service. `functions` gives what does the work: it is
    loaded when it is needed."""

    @group.command(
        "backup", help=f"Back up the {what} of SETTINGS, running or not, into the new folder DEST."
    )
    @click.argument("settings", type=_PATH)
    @click.argument("dest", type=_PATH)
    @output_options
    def backup(settings: Path, dest: Path) -> None:
        manifest = functions()[0](settings, dest, int(time.time()))
        emit(manifest, lambda: _manifest_lines(dest, manifest))

    @group.command(
        "restore",
        help=f"Restore the {what} of SETTINGS from the folder BACKUP, and say what is lost.",
    )
    @click.argument("backup", type=_PATH)
    @click.argument("settings", type=_PATH)
    @click.option("--replace", is_flag=True, help="Move aside what is there now.")
    @output_options
    def restore(backup: Path, settings: Path, replace: bool) -> None:
        report = functions()[1](backup, settings, replace, int(time.time()))
        emit(report, lambda: _spoken(report))


def _manifest_lines(dest: Path, manifest: dict[str, Any]) -> list[str]:
    n_bytes = sum(each["bytes"] for each in manifest["files"])
    lines = [
        f"Backed up to {dest}: {len(manifest['files'])} files, {n_bytes:,} bytes, as of"
        f" {manifest['made']}."
    ]
    for proxy in manifest.get("proxies", ()):
        lines.append(
            f"  {proxy['name']}: counted up to offset"
            f" {' '.join(map(str, proxy['position'])) or '0'}"
        )
    if manifest.get("log"):
        lines.append(f"  log {manifest['log']['identity']}: up to offset {manifest['log']['end']}")
    return [*lines, "It holds tokens and keys: keep it as safe as the service."]


def _spoken(report: dict[str, Any]) -> list[str]:
    lines = [f"restored the backup of {report['backup']}"]
    if "moved_aside" in report:
        lines.append(f"moved aside: {report['moved_aside']}")
    lines += [f"left as it is: {path}" for path in report["kept"]]
    lines += [
        f"published after the backup, and counted again: {name}"
        for name in report.get("published_again", ())
    ]
    for name in report.get("not_shown", ()):
        lines.append(
            f"runs again, though no proxy shows it: {name}; stop it if it was stopped after the"
            " backup"
        )
    for sealed in report.get("sealed", ()):
        why = (
            "results released since the backup may have some of them, and a second one could expose"
            " the others"
        )
        what = f"answers to {sealed['query']} of epochs before {sealed['before']}"
        lines.append(f"held back, as far as no result in the backup has them: {what}; {why}")
    for loss in report["lost"]:
        lines.append(f"lost: {_spoken_loss(loss)}")
    if not report["lost"]:
        lines.append("lost: nothing; the logs still hold everything that came after the backup")
    lines.append(
        f"Tokens that were revoked after {report['backup']} are valid again, and those made since"
        " are not known."
    )
    return lines


def _spoken_loss(loss: dict[str, Any]) -> str:
    if "problem" in loss:
        return f"{loss['proxy']}: {loss['problem']}"
    first, last = loss["epochs"]
    if "proxy" in loss:
        a, b = loss["offsets"]
        whose = f"{loss['proxy']}: offsets {a} to {b} were deleted by retention"
        return (
            f"{whose}; epochs {first} to {last} of {', '.join(loss['queries'])} are closed"
            " without it"
        )
    unread = "what was acknowledged after the backup and not yet read by the aggregator"
    return f"channel {loss['channel']}, epochs {first} to {last}: {unread} (after {loss['after']})"
