"""Backup and restore of an aggregator: its state at one moment, the history it refers to, settings,
ring, tokens and keys.

The state records how far each proxy's log is counted, so a restored aggregator resumes from there:
what it had counted after the backup is counted again, once, because the restored state knows
nothing of it. Records that a log has deleted by then are lost and reported: the epochs concerned
are closed without that proxy. Results that may have been released before are released under higher
revision numbers (:mod:`deniable.aggregator.windows.closing`).
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from deniable.aggregator.counting.catalogue import Catalogue, publish, published
from deniable.aggregator.history.file_catalogue import files
from deniable.aggregator.settings import AggregatorSettings, ProxySource, read_settings
from deniable.aggregator.state import State, unsigned
from deniable.aggregator.windows.granules import seal
from deniable.errors import BackupError, DeniableError, QueryError, ResponseError
from deniable.logs.share_logs import Reading
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import LARGEST_LIST, SignedQuery
from deniable.queries.times import iso_time
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
from deniable.service.files.file_lock import lock_file
from deniable.service.http.reading import ask

__all__ = ["back_up_aggregator", "restore_aggregator"]

_KIND = "aggregator"
_TRIES = 5
_NUMBERS = 1_000_000_000
"""Result numbers jump ahead by this much at a restore: followers ask for what comes after the last
one they received."""
_BEGINS = re.compile(r"begins after offset (\d{1,19})\b")


def back_up_aggregator(settings_file: Path, target: Path, now: int) -> dict[str, Any]:
    """Write a backup of a running or stopped aggregator into a new folder; returns what it
    contains."""
    settings = read_settings(settings_file)
    if settings.engine != "embedded":
        rule = (
            "its progress is recorded in its checkpoint: stop its driver, and copy state and"
            " checkpoint together"
        )
        raise BackupError(f"the engine is {settings.engine!r}: {rule}")
    if not settings.state.is_file():
        raise BackupError(f"{settings.state} does not exist: there is nothing to back up yet")
    writer = BackupWriter(target)
    for attempt in range(_TRIES):
        writer.database(settings.state, "state.db")
        try:
            history = _copy_history(settings, writer)
            break
        # merged since the state was copied: merged files are kept for only a minute
        except FileNotFoundError:
            if attempt == _TRIES - 1:
                raise BackupError(
                    f"files of the history in {settings.history} keep changing: try again later"
                ) from None
    for name, path in _other_files(settings_file, settings).items():
        if path.is_file():
            writer.file(path, name)
    manifest = writer.finish(_KIND, now, {**_facts(writer.folder / "state.db"), "history": history})
    note_in_audit_log(settings.audit_path, "service.backed_up", to=str(target))
    return manifest


def _copy_history(settings: AggregatorSettings, writer: BackupWriter) -> str:
    if settings.history is None:
        return "none"
    if "://" in settings.history.folder:
        return f"not included: it is at {settings.history.folder}"
    with closing(sqlite3.connect(writer.folder / "state.db")) as connection:
        known = connection.execute(  # not in a state of an earlier release without history
            "SELECT 1 FROM sqlite_master WHERE name = 'history_files'"
        ).fetchone()
        paths = [entry.path for entry in files(connection)] if known else []
    for path in paths:
        writer.file(Path(settings.history.folder) / path, f"history/{path}")
    return f"{len(paths)} files"


def _other_files(settings_file: Path, settings: AggregatorSettings) -> dict[str, Path]:
    """The other files that a restored aggregator needs, by name in the backup."""
    found: dict[str, Path | None] = {
        "settings/settings.toml": settings_file,
        "settings/ring": settings.ring,
    }
    found["settings/controller"] = settings.controller
    for i, proxy in enumerate(settings.proxies):
        found[f"settings/proxy-{i}.token"] = proxy.token_file
    if settings.tls is not None:
        found["settings/tls.certificate"], found["settings/tls.key"] = (
            settings.tls.certificate,
            settings.tls.key,
        )
        found["settings/tls.password"] = settings.tls.password_file
    for name, path in (("audit.jsonl", settings.audit_path), ("public.jsonl", settings.feed_path)):
        # The head first: lines added in between go beyond it, whereas a head beyond the lines would
        # look like a loss.
        found[f"{name}.head"], found[name] = path.with_name(f"{path.name}.head"), path
    return {name: path for name, path in found.items() if path is not None}


def _facts(state: Path) -> dict[str, Any]:
    """How far the copied state had got."""
    with closing(sqlite3.connect(state)) as connection:
        [(schema,)] = connection.execute("SELECT value FROM meta WHERE name = 'schema'")
        proxies = [
            {
                "name": name,
                "identity": identity,
                "position": [int(each) for each in position.split()],
            }
            for name, identity, position in connection.execute(
                "SELECT name, identity, position FROM proxies ORDER BY proxy"
            )
        ]
        channels = {
            f"{unsigned(channel):016x}": {"first_epoch": first, "closed_before": front}
            for channel, first, front in connection.execute(
                "SELECT channel, first, front FROM channels"
            )
        }
        [(last,)] = connection.execute("SELECT coalesce(max(seq), 0) FROM results")
        queries = connection.execute(
            "SELECT id, max(serial) FROM queries GROUP BY id ORDER BY id"
        ).fetchall()
    listed = [{"id": name, "serial": serial} for name, serial in queries]
    return {
        "schema": schema,
        "proxies": proxies,
        "channels": channels,
        "last_result": last,
        "queries": listed,
    }


# --- restoring


def restore_aggregator(
    backup: Path, settings_file: Path, replace: bool, now: int
) -> dict[str, Any]:
    """Restore a backup to where the settings point, and report what is lost.

    If there are no settings at that path yet, those of the backup are put there. Existing files are
    left as they are; a state is only replaced if that is asked for, and is then moved aside.
    """
    manifest = check_backup(backup, _KIND)
    settings = restored_settings(
        backup, settings_file, read_settings, lambda found: _written(settings_file, found)
    )
    report: dict[str, Any] = {
        "backup": manifest["made"],
        "state": str(settings.state),
        "restored": [],
        "kept": [],
    }
    with _alone(settings.state):
        if settings.state.exists():
            if not replace:
                raise BackupError(f"{settings.state} exists: give --replace to move it aside")
            report["moved_aside"] = str(move_aside(settings.state))
        restore_missing(backup, manifest, _other_files(settings_file, settings), report)
        report["restored"] += _restore_history(backup, manifest, settings)
        copy_in(backup / "state.db", settings.state)
    report["restored"].append(str(settings.state))
    state = State(settings.state, [proxy.name for proxy in settings.proxies])
    try:
        with state.transaction():
            connection = state.connection
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('restored', ?)", (now,))
            connection.execute(
                "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'results'", (_NUMBERS,)
            )
            shown = _boards(settings)
            report["published_again"] = _publish_again(
                connection, settings, shown or [], int(manifest["made_seconds"])
            )
            report["not_shown"] = [] if shown is None else _not_shown(connection, shown, now)
            report["sealed"] = _seal(connection, now, settings.limits.early)
            report["lost"] = [
                loss
                for i, proxy in enumerate(settings.proxies)
                for loss in _losses(state, i, proxy)
            ]
    finally:
        state.close()
    note_in_audit_log(
        settings.audit_path, "service.restored", backup=manifest["made"], losses=len(report["lost"])
    )
    return report


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Make sure that no aggregator is running on a state."""
    state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(f"{state}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock_file(handle, wait=False)
        yield
    except BlockingIOError:
        raise BackupError(f"another aggregator is running on {state}: stop it first") from None
    finally:
        os.close(handle)


def _written(settings_file: Path, settings: AggregatorSettings) -> Iterator[Path]:
    """Where a restore writes."""
    yield from (settings.state, *_other_files(settings_file, settings).values())
    if settings.history is not None and "://" not in settings.history.folder:
        yield Path(settings.history.folder)


def _restore_history(
    backup: Path, manifest: dict[str, Any], settings: AggregatorSettings
) -> list[str]:
    if settings.history is None or "://" in settings.history.folder:
        return []
    found = listed_files(manifest, "history")
    for name in found:
        copy_in(backup / name, Path(settings.history.folder) / name.removeprefix("history/"))
    return [f"{len(found)} files of the history"] if found else []


def _boards(settings: AggregatorSettings) -> list[SignedQuery] | None:
    """The queries that the proxies show to devices; None if no proxy could be asked."""
    import httpx  # noqa: PLC0415 - slow to import

    found: list[SignedQuery] = []
    answered = False
    with httpx.Client(timeout=settings.limits.silent) as client:
        for proxy in settings.proxies:
            if not proxy.url.startswith(("http://", "https://")):
                continue
            try:
                answer = ask(
                    client, "GET", f"{proxy.url.rstrip('/')}/v1/queries", LARGEST_LIST + (1 << 16)
                )
                found += [
                    SignedQuery.from_bytes(json.dumps(each).encode())
                    for each in json.loads(answer.content)
                ]
            # it is unreachable, or its list is not ours: ask the next one
            except (ResponseError, QueryError, ValueError):
                continue
            answered = True
    return found if answered else None


def _publish_again(
    connection: sqlite3.Connection,
    settings: AggregatorSettings,
    shown: list[SignedQuery],
    made: int,
) -> list[str]:
    """Add the queries that proxies show and the backup does not contain: they were published after
    it.

    They are counted from the time of the backup, which is before they were published, so none of
    their answers is lost.
    """
    ring, names = KeyRing.load(settings.ring), [proxy.name for proxy in settings.proxies]
    known = {(entry.query.id, entry.query.serial) for entry in published(connection)}
    taken: list[str] = []
    for each in shown:
        query = each.unverified()
        if (query.id, query.serial) in known:
            continue
        known.add((query.id, query.serial))
        try:
            publish(connection, each, ring, names, made)
        # signed by a key that is not trusted here: no device answers it either
        except DeniableError:
            continue
        taken.append(f"{query.id}, version {query.serial}")
    return taken


def _seal(connection: sqlite3.Connection, now: int, early: int) -> list[dict[str, Any]]:
    """Release no answers of windows that may have been released after the backup; names their
    queries.

    Which answers those results had is not known any more. The same window could have a few more or
    fewer now: late ones, or those of an epoch that was closed without a proxy. The difference would
    expose them. Where the minimum cohort is 1, nothing is promised about differences, so everything
    is released again.
    """
    versions: dict[str, list[Query]] = {}
    for entry in published(connection):
        versions.setdefault(entry.query.id, []).append(entry.query)
    sealed = []
    for name, each in versions.items():
        newest = each[-1]
        # With a grace, proxies mark an epoch no sooner than that after its end, and the first early
        # result is due after `early`.
        soonest = 0 if newest.grace is None else min(early, newest.grace)
        before = newest.schedule.epochs_over(now - soonest)
        if before and max(query.minimum_cohort for query in each) > 1:
            seal(connection, name, before)
            sealed.append(
                {"query": name, "before": iso_time(newest.schedule.start_of_epoch(before))}
            )
    return sealed


def _not_shown(connection: sqlite3.Connection, shown: list[SignedQuery], now: int) -> list[str]:
    """Queries that are running according to the backup but that no proxy shows: they may have been
    stopped after it."""
    ids = {each.unverified().id for each in shown}
    running = {
        entry.query.id
        for entry in published(connection)
        if entry.stopped is None and entry.query.schedule.expires > now
    }
    return sorted(running - ids)


def _losses(state: State, proxy: int, settings: ProxySource) -> Iterator[dict[str, Any]]:
    """Records after the backup that a proxy's log no longer has; noted in the state, so that
    windows report them."""
    position = state.positions()[proxy]
    log = settings.open_log()
    try:
        reading = log.read(position, 1)
    finally:
        log.close()
    if not reading.problem:
        return
    begins = _BEGINS.search(reading.problem)
    if begins is None or len(position) > 1:
        yield {
            "proxy": settings.name,
            "problem": f"what it still holds could not be checked: {reading.problem}",
        }
        return
    dropped = int(begins[1])
    marks = _marks_of(settings, dropped)
    before = state.marks()
    for channel in Catalogue.load(state.connection).channels.values():
        first = max(before.get((proxy, 0, channel.tag), 0), state.fronts()[channel.tag])
        past = marks.get(channel.tag, first)  # only blocks of marked epochs are ever deleted
        if first < past:
            state.note_loss(
                proxy,
                channel.tag,
                range(first, past),
                f"offsets {_after(position) + 1} to {dropped} were deleted",
            )
            yield {
                "proxy": settings.name,
                "offsets": [_after(position) + 1, dropped],
                "channel": f"{channel.tag:016x}",
                "queries": sorted(channel.queries()),
                "epochs": [first, past - 1],
            }
    state.connection.execute(
        "UPDATE proxies SET position = ? WHERE proxy = ?", (str(dropped), proxy)
    )


def _after(position: tuple[int, ...]) -> int:
    return position[0] if position else 0


def _marks_of(settings: ProxySource, after: int) -> dict[int, int]:
    log = settings.open_log()
    try:
        reading: Reading = log.read((after,), 1)
    finally:
        log.close()
    return {mark.channel: mark.epoch for mark in reading.marks}
