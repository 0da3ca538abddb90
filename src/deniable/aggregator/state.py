"""The aggregator's state: one SQLite file in which positions, marks, waiting shares, panes and accounts move together.

A step of the engine is one transaction. Killed at any point, the engine finds the state of its last finished step, and the logs
still have what came after: nothing is lost, and nothing is counted twice.

Waiting rows are only ever added. A row whose id is among the joined ones no longer waits, so joining does not rewrite the
waiting rows; both are deleted when their epoch is closed.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.conservation import OUTSIDE, Account, Ledger
from deniable.aggregator.history.file_catalogue import stage
from deniable.aggregator.panes import Pane, PaneKey, Reports
from deniable.errors import StateError
from deniable.service import row_checks
from deniable.service.database import keep_copy, make_private, one_line, storage_reason

__all__ = [
    "NOT_REVISED",
    "Revision",
    "State",
    "Step",
    "Stored",
    "connect",
    "look_into",
    "signed",
    "stored_panes",
    "transaction",
    "unsigned",
]

_Words = NDArray[np.uint64]
SCHEMA_VERSION = 5
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value);
CREATE TABLE proxies (proxy INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, identity TEXT, position TEXT NOT NULL);
CREATE TABLE marks (proxy INTEGER, partition INTEGER, channel INTEGER, epoch INTEGER NOT NULL,
    PRIMARY KEY (proxy, partition, channel)) WITHOUT ROWID;
CREATE TABLE queries (id TEXT, serial INTEGER, tag INTEGER UNIQUE NOT NULL, channel INTEGER NOT NULL, signed BLOB NOT NULL,
    published INTEGER NOT NULL, stopped INTEGER, analyst TEXT NOT NULL DEFAULT '', PRIMARY KEY (id, serial));
CREATE TABLE channels (channel INTEGER PRIMARY KEY, first INTEGER NOT NULL, front INTEGER NOT NULL);
CREATE TABLE closures (channel INTEGER, epoch INTEGER, missing TEXT NOT NULL, audited INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (channel, epoch)) WITHOUT ROWID;
CREATE TABLE waiting (seq INTEGER PRIMARY KEY, channel INTEGER, epoch INTEGER, bucket INTEGER, proxy INTEGER, words INTEGER,
    content BLOB);
CREATE INDEX waiting_epoch ON waiting (channel, epoch);
CREATE TABLE joined (seq INTEGER PRIMARY KEY, channel INTEGER, epoch INTEGER, bucket INTEGER, ids BLOB);
CREATE INDEX joined_epoch ON joined (channel, epoch);
CREATE TABLE panes (query TEXT, serial INTEGER, epoch INTEGER, stratum INTEGER, n INTEGER NOT NULL, silent INTEGER NOT NULL,
    counts BLOB NOT NULL, PRIMARY KEY (query, epoch, serial, stratum)) WITHOUT ROWID;
CREATE TABLE granules (query TEXT, epoch INTEGER, serial INTEGER, stratum INTEGER, first INTEGER, last INTEGER,
    n INTEGER NOT NULL, counts BLOB NOT NULL, joined INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (query, epoch, serial, stratum, first, last)) WITHOUT ROWID;
CREATE TABLE sealed (query TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE accounts (channel INTEGER, epoch INTEGER, proxy INTEGER, received INTEGER NOT NULL, counted INTEGER NOT NULL,
    orphaned INTEGER NOT NULL, duplicate INTEGER NOT NULL, late INTEGER NOT NULL, malformed INTEGER NOT NULL,
    PRIMARY KEY (channel, epoch, proxy)) WITHOUT ROWID;
CREATE TABLE totals (proxy INTEGER, outcome TEXT, n INTEGER NOT NULL, PRIMARY KEY (proxy, outcome)) WITHOUT ROWID;
CREATE TABLE refusals (proxy INTEGER, reason TEXT, n INTEGER NOT NULL, PRIMARY KEY (proxy, reason)) WITHOUT ROWID;
CREATE TABLE results (seq INTEGER PRIMARY KEY AUTOINCREMENT, query TEXT NOT NULL, number INTEGER NOT NULL, start INTEGER NOT NULL,
    condition TEXT NOT NULL, document TEXT NOT NULL, revision INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL DEFAULT 1,
    n INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL DEFAULT 0, UNIQUE (query, number, revision));
CREATE TABLE tokens (digest BLOB PRIMARY KEY, label TEXT NOT NULL, analyst TEXT NOT NULL, role TEXT NOT NULL,
    made INTEGER NOT NULL, used INTEGER);
CREATE TABLE grants (digest BLOB, analyst TEXT, rights TEXT NOT NULL, PRIMARY KEY (digest, analyst)) WITHOUT ROWID;
CREATE TABLE relays (id TEXT, serial INTEGER, proxy INTEGER, what TEXT NOT NULL, done INTEGER NOT NULL, problem TEXT,
    PRIMARY KEY (id, proxy)) WITHOUT ROWID;
"""
_MIGRATIONS = {
    1: """
CREATE TABLE located (proxy INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, identity TEXT, position TEXT NOT NULL);
INSERT INTO located SELECT proxy, name, identity, CASE offset WHEN 0 THEN '' ELSE CAST(offset AS TEXT) END FROM proxies;
DROP TABLE proxies;
ALTER TABLE located RENAME TO proxies;
CREATE TABLE marks (proxy INTEGER, partition INTEGER, channel INTEGER, epoch INTEGER NOT NULL,
    PRIMARY KEY (proxy, partition, channel)) WITHOUT ROWID;
""",
    2: """
CREATE TABLE revised (seq INTEGER PRIMARY KEY AUTOINCREMENT, query TEXT NOT NULL, number INTEGER NOT NULL, start INTEGER NOT NULL,
    condition TEXT NOT NULL, document TEXT NOT NULL, revision INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL DEFAULT 1,
    n INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL DEFAULT 0, UNIQUE (query, number, revision));
INSERT INTO revised (seq, query, number, start, condition, document)
    SELECT seq, query, number, start, condition, document FROM results;
DROP TABLE results;
ALTER TABLE revised RENAME TO results;
""",
    3: """
ALTER TABLE closures ADD COLUMN audited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queries ADD COLUMN analyst TEXT NOT NULL DEFAULT '';
UPDATE queries SET analyst = json_extract(json_extract(CAST(signed AS TEXT), '$.query'), '$.analyst');
CREATE TABLE grants (digest BLOB, analyst TEXT, rights TEXT NOT NULL, PRIMARY KEY (digest, analyst)) WITHOUT ROWID;
INSERT INTO grants SELECT digest, name, CASE role WHEN 'analyst' THEN 'read,publish,stop,delete' ELSE 'read' END FROM tokens;
INSERT OR IGNORE INTO grants SELECT digest, (SELECT min(analyst) FROM queries),
    CASE role WHEN 'analyst' THEN 'read,publish' ELSE 'read' END FROM tokens
    WHERE (SELECT count(DISTINCT analyst) FROM queries) = 1;
CREATE TABLE holders (digest BLOB PRIMARY KEY, label TEXT NOT NULL, analyst TEXT NOT NULL, role TEXT NOT NULL,
    made INTEGER NOT NULL, used INTEGER);
INSERT INTO holders SELECT digest, name, name, 'analyst', made, NULL FROM tokens;
DROP TABLE tokens;
ALTER TABLE holders RENAME TO tokens;
""",
    4: """
CREATE TABLE granules (query TEXT, epoch INTEGER, serial INTEGER, stratum INTEGER, first INTEGER, last INTEGER,
    n INTEGER NOT NULL, counts BLOB NOT NULL, joined INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (query, epoch, serial, stratum, first, last)) WITHOUT ROWID;
CREATE TABLE sealed (query TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO granules SELECT p.query, p.epoch, p.serial, p.stratum, p.epoch, p.epoch, p.n, p.counts, 0 FROM panes AS p
    JOIN queries AS q ON q.id = p.query AND q.serial = p.serial JOIN channels AS c ON c.channel = q.channel
    WHERE p.epoch < c.front AND p.n >= json_extract(json_extract(CAST(q.signed AS TEXT), '$.query'), '$.minimum_cohort');
INSERT INTO sealed SELECT q.id, max(c.front, coalesce((SELECT max((r.start
    + json_extract(json_extract(CAST(q.signed AS TEXT), '$.query'), '$.schedule.window')
    - json_extract(json_extract(CAST(q.signed AS TEXT), '$.query'), '$.schedule.origin'))
    / json_extract(json_extract(CAST(q.signed AS TEXT), '$.query'), '$.schedule.every'))
    FROM results AS r WHERE r.query = q.id AND NOT r.final), 0))
    FROM queries AS q JOIN channels AS c ON c.channel = q.channel GROUP BY q.id;
""",
}
"""Migrations from one schema version to the next. 1 to 2: logs got partitions; marks, which are read again, got a table. 2 to
3: windows got revisions; existing results are final. 3 to 4: queries and tokens belong to analysts. A token used to be valid for
all queries; now it is valid for those of the analyst it is named after. If all queries belong to one analyst, tokens with other
names can still read them (and publish them, which takes the analyst's signature), but can neither stop nor delete them. 4 to 5:
what is released became granules. Closed epochs with a cohort are granules; other epochs of which earlier releases published sums
are sealed, because what is new in them cannot be told from what is not."""
GUARDED = (
    *("meta", "proxies", "marks", "queries", "channels", "closures", "panes", "accounts", "totals", "refusals", "results"),
    *("granules", "sealed"),
    *("tokens", "grants", "relays", "history_files", "history_staged", "history_epochs", "history_removed", "history_receipts"),
)
"""Tables whose rows are checked when the file is opened. Waiting shares and joined ids are not: an altered share fits no tag, and
is counted as such."""
_LOSSES = (
    "CREATE TABLE IF NOT EXISTS losses (proxy INTEGER NOT NULL, channel INTEGER NOT NULL, first INTEGER NOT NULL, "
    "past INTEGER NOT NULL, why TEXT NOT NULL)"
)
"""Created only by a restore, because most states have no losses."""
NOT_REVISED = (
    "NOT EXISTS (SELECT 1 FROM results AS newer WHERE newer.query = results.query AND newer.number = results.number "
    "AND newer.revision > results.revision)"
)
"""The SQL condition for the newest revision of a window."""
_FIGURES = tuple(figure.name for figure in fields(Account))


def signed(word: int) -> int:
    """A 64-bit word as SQLite stores it."""
    return word - (1 << 64) if word >> 63 else word


def unsigned(number: int) -> int:
    """The word that :func:`signed` was given."""
    return number % (1 << 64)


def stored_panes(connection: sqlite3.Connection, query: str, epochs: range) -> dict[PaneKey, Pane]:
    """The panes of a query in these epochs, from a state file."""
    rows = connection.execute(
        "SELECT serial, epoch, stratum, n, silent, counts FROM panes WHERE query = ? AND epoch >= ? AND epoch < ?",
        (query, epochs.start, epochs.stop),
    )
    return {
        PaneKey(query, serial, epoch, stratum): Pane(np.frombuffer(counts, dtype="<i8").astype(np.int64), n, nothing)
        for serial, epoch, stratum, n, nothing, counts in rows
    }


def connect(path: str | Path) -> sqlite3.Connection:
    """A connection to a state file, which is created if missing, migrated if old, and refused if too new."""
    try:
        make_private(Path(path))  # it holds waiting shares
    except OSError as error:
        raise StateError(f"{path} cannot be used as the aggregator's state: {storage_reason(Path(path), error)}") from None
    try:
        connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise StateError(f"{path} cannot be used as the aggregator's state: {error}") from None
    try:
        connection.execute("PRAGMA page_size = 16384")  # for a new file: blobs of about 100 KB are read and written
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a finished step survives a power cut
        row_checks.prepare(connection)
        with transaction(connection):
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone()
            if not found:
                _run(connection, _SCHEMA)
                connection.execute("INSERT INTO meta VALUES ('schema', ?)", (SCHEMA_VERSION,))
            (version,) = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
            if version in _MIGRATIONS:
                keep_copy(Path(path), version)
                row_checks.unguard(connection)
            while version in _MIGRATIONS:
                _run(connection, _MIGRATIONS[version])
                version += 1
                connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (version,))
    except (sqlite3.DatabaseError, TypeError, UnicodeError) as error:  # in a damaged file even SQLite's messages may not be text
        connection.close()
        reason = storage_reason(Path(path), error) if isinstance(error, sqlite3.OperationalError) else one_line(error)
        raise StateError(f"{path} cannot be used as the aggregator's state: {reason}") from None
    if version != SCHEMA_VERSION:
        connection.close()
        raise StateError(f"{path} has schema version {version}, of a newer release; this one reads up to {SCHEMA_VERSION}")
    return connection


def look_into(path: str | Path) -> tuple[sqlite3.Connection, int]:
    """A read-only connection to a state file, and the file's version. Nothing is created or migrated."""
    try:
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=5, isolation_level=None)
        try:
            (version,) = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
        except BaseException:
            connection.close()
            raise
    except (sqlite3.DatabaseError, TypeError, UnicodeError) as error:
        raise StateError(f"{path} cannot be used as the aggregator's state: {one_line(error)}") from None
    if version > SCHEMA_VERSION:
        connection.close()
        raise StateError(f"{path} has schema version {version}, of a newer release; this one reads up to {SCHEMA_VERSION}")
    return connection, version


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Run several statements inside the open transaction."""
    for statement in script.split(";\n"):
        connection.execute(statement)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything done with the connection in the body, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@dataclass
class Stored:
    """Stored rows of a bucket: the waiting rows of one proxy, or (proxy None) the joined ids."""

    channel: int
    epoch: int
    bucket: int
    proxy: int | None
    rows: _Words


class Revision(NamedTuple):
    """Which result of a window it is, whether it is the last, its number of answers, and when it was made."""

    number: int
    final: bool
    n: int
    made: int


@dataclass
class Step:
    """What one step of the engine changes."""

    positions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    marks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """By proxy, partition and channel: the epoch before which the partition is complete."""
    identities: dict[int, str] = field(default_factory=dict)
    stored: list[Stored] = field(default_factory=list)
    panes: dict[PaneKey, Pane] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    reports: Reports = field(default_factory=list)
    """Counted reports that are to be kept."""

    def __bool__(self) -> bool:
        return bool(self.positions or self.marks or self.identities or self.stored or self.panes or self.ledger)


class State:
    """The state of one engine. Only one process at a time may have it open."""

    def __init__(self, path: str | Path, proxies: Sequence[str]) -> None:
        self.path, self.proxies = Path(path), tuple(proxies)
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StateError(f"another aggregator is running on {path}") from None
        try:
            self.connection = connect(path)
            self._validate_rows()
            self._validate_proxies()
        except BaseException:
            os.close(self._lock)
            raise

    def _validate_rows(self) -> None:
        """Refuse a file whose rows are not as they were written: its figures would be wrong, and nothing would show it."""
        try:
            with self.transaction():
                row_checks.guard(self.connection, GUARDED)
            table = row_checks.damaged(self.connection)
            (problem,) = self.connection.execute("PRAGMA quick_check(1)").fetchone()
            problem = " ".join(str(problem).split())
        except (sqlite3.DatabaseError, UnicodeError) as error:
            table, problem = None, one_line(error)
        if table is not None or problem != "ok":
            self._refuse(f"the rows of {table} do not fit their check sum" if table else problem)

    def _refuse(self, what: str) -> NoReturn:
        self.connection.close()
        raise StateError(f"{self.path} is damaged: {what}. Restore the file from a backup") from None

    def _validate_proxies(self) -> None:
        try:
            rows = self.connection.execute("SELECT name FROM proxies ORDER BY proxy").fetchall()
        except sqlite3.DatabaseError as error:  # the text of the schema is damaged, which no check of rows or pages shows
            self._refuse(one_line(error))
        names = tuple(name for (name,) in rows)
        if not names:
            with self.transaction():
                self.connection.executemany("INSERT INTO proxies VALUES (?, ?, NULL, '')", list(enumerate(self.proxies)))
        elif names != self.proxies:
            self.connection.close()
            raise StateError(f"{self.path} was written for the proxies {list(names)}, not {list(self.proxies)}")

    def close(self) -> None:
        """Release the state."""
        self.connection.close()
        os.close(self._lock)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done in the body, or nothing."""
        with transaction(self.connection):
            yield

    def settle_engine(self, name: str) -> None:
        """Record, inside a transaction, which engine counts into this state: another one would count everything again."""
        known = self.connection.execute("SELECT value FROM meta WHERE name = 'engine'").fetchone()
        if known is None:
            self.connection.execute("INSERT INTO meta VALUES ('engine', ?)", (name,))
        elif known[0] != name:
            raise StateError(f"{self.path} belongs to engine {known[0]!r}; give engine {name!r} its own state file")

    # --- what is lost -----------------------------------------------------------------------------------------------

    def note_loss(self, proxy: int, channel: int, epochs: range, why: str) -> None:
        """Record, inside a transaction, that shares of a proxy are lost for these epochs: their windows will say so."""
        self.connection.execute(_LOSSES)
        row = (proxy, signed(channel), epochs.start, epochs.stop, why)
        self.connection.execute("INSERT INTO losses (proxy, channel, first, past, why) VALUES (?, ?, ?, ?, ?)", row)

    def lost(self, channel: int, epoch: int) -> set[int]:
        """The proxies that have lost shares of an epoch."""
        if not self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'losses'").fetchone():
            return set()
        rows = self.connection.execute(
            "SELECT proxy FROM losses WHERE channel = ? AND first <= ? AND past > ?", (signed(channel), epoch, epoch)
        )
        return {proxy for (proxy,) in rows}

    def restored_at(self) -> int | None:
        """When the state was last restored from a backup; None if it never was."""
        row = self.connection.execute("SELECT value FROM meta WHERE name = 'restored'").fetchone()
        return None if row is None else int(row[0])

    # --- what the engine starts from --------------------------------------------------------------------------------

    def positions(self) -> list[tuple[int, ...]]:
        """How far each proxy's log is counted: one offset per partition, or nothing if it was never read."""
        rows = self.connection.execute("SELECT position FROM proxies ORDER BY proxy")
        return [tuple(map(int, position.split())) for (position,) in rows]

    def marks(self) -> dict[tuple[int, int, int], int]:
        """By proxy, partition and channel: the epoch before which the partition is complete, as far as it is counted."""
        rows = self.connection.execute("SELECT proxy, partition, channel, epoch FROM marks")
        return {(proxy, partition, unsigned(channel)): epoch for proxy, partition, channel, epoch in rows}

    def identities(self) -> list[str | None]:
        """The identity of each proxy's log, if it was ever read. Positions have a meaning only together with it."""
        return [identity for (identity,) in self.connection.execute("SELECT identity FROM proxies ORDER BY proxy")]

    def fronts(self) -> dict[int, int]:
        """For each channel, the first epoch that is not closed."""
        return {unsigned(channel): front for channel, front in self.connection.execute("SELECT channel, front FROM channels")}

    def firsts(self) -> dict[int, int]:
        """For each channel, the first epoch that was ever counted."""
        return {unsigned(channel): first for channel, first in self.connection.execute("SELECT channel, first FROM channels")}

    def stored(self) -> Iterator[Stored]:
        """The joined ids of all open epochs, then all rows that ever waited (the joined ones no longer do)."""
        still_open = "(SELECT 1 FROM channels WHERE channels.channel = {0}.channel AND {0}.epoch >= front)"
        joined = f"SELECT channel, epoch, bucket, ids FROM joined WHERE EXISTS {still_open.format('joined')}"  # noqa: S608 - no input
        for channel, epoch, bucket, content in self.connection.execute(joined):
            yield Stored(unsigned(channel), epoch, bucket, None, np.frombuffer(content, dtype="<u8").reshape(2, -1))
        waiting = f"SELECT channel, epoch, bucket, proxy, words, content FROM waiting WHERE EXISTS {still_open.format('waiting')}"  # noqa: S608
        for channel, epoch, bucket, proxy, words, content in self.connection.execute(waiting):
            rows = np.frombuffer(content, dtype="<u8").reshape(words, -1)
            yield Stored(unsigned(channel), epoch, bucket, proxy, rows)

    # --- what the engine changes (inside a transaction) -------------------------------------------------------------

    def apply(self, step: Step) -> None:
        """Apply everything that a step changes."""
        run = self.connection.executemany
        positions = [(" ".join(map(str, position)), proxy) for proxy, position in step.positions.items()]
        run("UPDATE proxies SET position = ? WHERE proxy = ?", positions)
        reached = [(proxy, part, signed(channel), epoch) for (proxy, part, channel), epoch in step.marks.items()]
        run("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)", reached)
        run("UPDATE proxies SET identity = ? WHERE proxy = ?", [(name, proxy) for proxy, name in step.identities.items()])
        for part in step.stored:
            place = (signed(part.channel), part.epoch, part.bucket)
            content = np.ascontiguousarray(part.rows, dtype="<u8").data
            if part.proxy is None:
                self.connection.execute("INSERT INTO joined (channel, epoch, bucket, ids) VALUES (?, ?, ?, ?)", (*place, content))
            else:
                self.connection.execute(
                    "INSERT INTO waiting (channel, epoch, bucket, proxy, words, content) VALUES (?, ?, ?, ?, ?, ?)",
                    (*place, part.proxy, len(part.rows), content),
                )
        for key, pane in step.panes.items():
            self._add_pane(key, pane)
        if step.reports:
            stage(self.connection, step.reports)
        self.enter(step.ledger)

    def _add_pane(self, key: PaneKey, pane: Pane) -> None:
        place = (key.query, key.serial, key.epoch, key.stratum)
        known = self.connection.execute(
            "SELECT n, silent, counts FROM panes WHERE query = ? AND serial = ? AND epoch = ? AND stratum = ?", place
        ).fetchone()
        total = Pane(pane.counts.copy(), pane.n, pane.nothing)
        if known:
            total += Pane(np.frombuffer(known[2], dtype="<i8"), known[0], known[1])
        self.connection.execute(
            "INSERT OR REPLACE INTO panes (query, serial, epoch, stratum, n, silent, counts) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*place, total.n, total.nothing, total.counts.astype("<i8").tobytes()),
        )

    def enter(self, ledger: Ledger) -> None:
        """Add the entries of a ledger to the accounts, the totals, and the refusals by reason."""
        added = ", ".join(f"{figure} = {figure} + excluded.{figure}" for figure in _FIGURES)
        self.connection.executemany(
            f"INSERT INTO accounts (channel, epoch, proxy, {', '.join(_FIGURES)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608
            f"ON CONFLICT DO UPDATE SET {added}",
            [
                (OUTSIDE if epoch == OUTSIDE else signed(channel), epoch, proxy, *(getattr(account, f) for f in _FIGURES))
                for (proxy, channel, epoch), account in ledger.accounts.items()
            ],
        )
        totals: dict[tuple[int, str], int] = {}
        for (proxy, _, _), account in ledger.accounts.items():
            for figure in _FIGURES:
                totals[proxy, figure] = totals.get((proxy, figure), 0) + getattr(account, figure)
        for table, column, entries in (("totals", "outcome", totals), ("refusals", "reason", ledger.reasons)):
            self.connection.executemany(
                f"INSERT INTO {table} (proxy, {column}, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",  # noqa: S608
                [(*key, n) for key, n in entries.items() if n],
            )

    def close_epoch(self, channel: int, epoch: int, missing: Iterable[int]) -> None:
        """Close this epoch and all before it: none of their shares is counted any more. `missing` are the absent proxies."""
        self.connection.executemany(
            "INSERT INTO closures (channel, epoch, missing) VALUES (?, ?, ?)",
            [(signed(channel), epoch, " ".join(map(str, chosen))) for chosen in [sorted(missing)] if chosen],
        )
        self.connection.execute("UPDATE channels SET front = ? WHERE channel = ?", (epoch + 1, signed(channel)))

    def missing(self, channel: int, epochs: range) -> set[int]:
        """The proxies without which some of these epochs were closed."""
        rows = self.connection.execute(
            "SELECT missing FROM closures WHERE channel = ? AND epoch >= ? AND epoch < ?",
            (signed(channel), epochs.start, epochs.stop),
        )
        return {int(proxy) for (text,) in rows for proxy in text.split()}

    def drop_waiting(self, channel: int, epoch: int, proxy: int) -> None:
        """Give up the waiting shares of a proxy in an epoch."""
        self.connection.execute(
            "DELETE FROM waiting WHERE channel = ? AND epoch = ? AND proxy = ?", (signed(channel), epoch, proxy)
        )

    def panes(self, query: str, epochs: range) -> dict[PaneKey, Pane]:
        """The panes of a query in these epochs."""
        return stored_panes(self.connection, query, epochs)

    def accounts(self, channel: int, epochs: range) -> dict[int, Account]:
        """What became of the shares of each proxy in these epochs of a channel."""
        totals = ", ".join(f"sum({figure})" for figure in _FIGURES)
        rows = self.connection.execute(
            f"SELECT proxy, {totals} FROM accounts WHERE channel = ? AND epoch >= ? AND epoch < ? GROUP BY proxy",  # noqa: S608
            (OUTSIDE if epochs.start == OUTSIDE else signed(channel), epochs.start, epochs.stop),
        )
        return {proxy: Account(*figures) for proxy, *figures in rows}

    def release(self, query: str, window: int, start: int, condition: str, document: str, revision: Revision) -> None:
        """Store a result of a window."""
        self.connection.execute(
            "INSERT INTO results (query, number, start, condition, document, revision, final, n, made) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (query, window, start, condition, document, *revision),
        )

    def last_revision(self, query: str, window: int) -> Revision | None:
        """The newest result of a window, if there is one."""
        row = self.connection.execute(
            "SELECT revision, final, n, made FROM results WHERE query = ? AND number = ? ORDER BY revision DESC LIMIT 1",
            (query, window),
        ).fetchone()
        return None if row is None else Revision(row[0], bool(row[1]), *row[2:])

    def document(self, query: str, window: int, revision: int) -> str:
        """A stored result of a window, as it was released."""
        (document,) = self.connection.execute(
            "SELECT document FROM results WHERE query = ? AND number = ? AND revision = ?", (query, window, revision)
        ).fetchone()
        return str(document)

    def revisions_before(self, query: str, window: int) -> tuple[int, list[Revision]]:
        """The last revised window before a given one that is final, and all its results, first to final; no results if there is
        no such window.
        """
        rows = self.connection.execute(
            "SELECT number, revision, final, n, made FROM results WHERE query = ?1 AND number = (SELECT max(number) FROM results "
            "WHERE query = ?1 AND number < ?2 AND final AND revision > 0) ORDER BY revision",
            (query, window),
        ).fetchall()
        return rows[0][0] if rows else 0, [Revision(row[1], bool(row[2]), *row[3:]) for row in rows]

    # --- garbage ----------------------------------------------------------------------------------------------------

    def collect_garbage(self, most_rows: int) -> int:
        """Delete up to this many rows of closed epochs; returns how many were deleted. Call again while there are some."""
        deleted = 0
        for table in ("joined", "waiting"):
            closed = f"SELECT seq FROM {table} JOIN channels USING (channel) WHERE epoch < front LIMIT ?"  # noqa: S608 - no input
            cursor = self.connection.execute(f"DELETE FROM {table} WHERE seq IN ({closed})", (most_rows - deleted,))  # noqa: S608
            deleted += cursor.rowcount
        return deleted

    def forget(self, channel: int, before_epoch: int, queries: Iterable[str], before_time: int) -> None:
        """Delete accounts and results whose retention has passed."""
        self.connection.execute(
            "DELETE FROM accounts WHERE channel = ? AND epoch < ? AND epoch >= 0", (signed(channel), before_epoch)
        )
        self.connection.execute("DELETE FROM closures WHERE channel = ? AND epoch < ?", (signed(channel), before_epoch))
        for query in queries:
            self.connection.execute("DELETE FROM results WHERE query = ? AND start < ?", (query, before_time))

    def forget_panes(self, queries: Iterable[str], before_epoch: int) -> None:
        """Delete panes whose retention has passed, and the granules that have one of them: no granule is ever split."""
        for query in queries:
            self.connection.execute("DELETE FROM panes WHERE query = ? AND epoch < ?", (query, before_epoch))
            self.connection.execute("DELETE FROM granules WHERE query = ? AND first < ?", (query, before_epoch))


Clock = Callable[[], int]
"""Tells the time in whole seconds of UTC; injected, so that tests and simulations can run faster."""
