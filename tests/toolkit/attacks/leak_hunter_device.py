"""The life of one device of a scenario, and everything that can be seen of it.

The device, its store, its uploads, its rounds and the process that runs the SQL are the real
ones. The clock is virtual: it moves when the device sleeps, and by the processor time that the
device uses, in its own process and in those it started. Waiting costs nothing, so a busy machine
does not look like a device that works.
"""

from __future__ import annotations

import logging
import math
import resource
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deniable.audit.observing import LEDGER_TABLES
from deniable.client.cadence import Cadence, rounds
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.receipts import Receipt, fault_words
from deniable.client.sandbox.interface import BUSY
from deniable.client.storage.store import Store, StoreTransaction
from deniable.client.vaults.vault import Vault
from deniable.privacy.ledger import Limit
from deniable.queries.query import Query
from toolkit.attacks.leak_hunter_scenarios import DISTANCES, EPOCH, Contents, Scenario
from toolkit.attacks.observed import Observed, PositionedSource, RecordingNetwork, VirtualClock
from toolkit.devices import ORIGIN, make_policy

__all__ = [
    "HONEST",
    "SLOWNESS",
    "Conduct",
    "Life",
    "ProcessorClock",
    "Rounds",
    "live",
    "processor_seconds",
]

SLOWNESS = 4.0
"""Seconds that pass on the device per second of processor time here: it is so much slower.

All that one answer may take here (compiling and SQL up to a deadline each, starting two processes)
must fit into a slot at this speed with room to spare, or a busy machine would look like a leak."""
_QUANTUM = 0.5  # seconds of the device's clock: less processor time than this is not told from none
_DEADLINE = 0.3  # seconds; while three of them take less than one, a slot is as short as can be
_MEMORY = 8 << 20
_MOST_ROWS = 1_000
_LAST_ROUNDS = 6  # in which nothing is asked any more, and what waits is uploaded


# --- time -----------------------------------------------------------------------------------------


def processor_seconds() -> float:
    """The processor time of this process and of all that descend from it, ended or not."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    running = sum(map(_time_of, _descendants("self")))
    return time.process_time() + ended.ru_utime + ended.ru_stime + running


def _descendants(process: str) -> Iterator[int]:
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = task.read_text(encoding="ascii").split()
        except OSError:
            continue  # the thread has ended
        for child in children:
            yield int(child)
            yield from _descendants(child)


def _time_of(pid: int) -> float:
    """The processor time of another process, from its clock on Linux: clock_getcpuclockid(3)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0  # it has ended


class ProcessorClock(VirtualClock):
    """A clock that moves by sleeping and, in steps of half a second, by processor time."""

    def __init__(self, start: float) -> None:
        super().__init__(start)
        self._mark = processor_seconds()
        self._told = start

    def __call__(self) -> float:
        used = SLOWNESS * (processor_seconds() - self._mark)
        self._told = self.time + math.floor(used / _QUANTUM) * _QUANTUM
        return self._told

    def sleep(self, seconds: float) -> None:
        """Let time pass, from the time last told: what the call itself takes is not charged."""
        self.time = self._told
        super().sleep(seconds)
        self._told, self._mark = self.time, processor_seconds()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Time in which others than the device work."""
        before = processor_seconds()
        yield
        self._mark += processor_seconds() - before


# --- what is seen ---------------------------------------------------------------------------------


@dataclass
class Life(Observed):
    """Everything that can be seen of one device."""

    rounds: list[float] = field(default_factory=list)
    """When each round was over: whatever the device does next, it cannot do earlier."""
    errors: list[tuple[str, str]] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    reports: list[bytes] = field(default_factory=list)
    """What the last proxy was sent, payloads included. The other proxies' shares are equal, so they
    differ as the reports do, which may depend on what is granted and on nothing else."""
    stored: list[tuple[tuple[str, int, int], ...]] = field(default_factory=list)
    """After each round, how many rows each table of the store has, and how many bytes: anyone who
    sees the size of a disk or of a backup sees that."""

    MUST_BE_EQUAL = (
        *("polls", "sends", "rounds", "outcomes", "ledger", "queue", "errors", "logged", "stored"),
    )

    def differing(self, other: Life, reports: bool) -> tuple[str, ...]:
        """The names of all that differ."""
        parts = (*self.MUST_BE_EQUAL, "reports") if reports else self.MUST_BE_EQUAL
        return tuple(part for part in parts if getattr(self, part) != getattr(other, part))


class _Listener(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


# --- a life ---------------------------------------------------------------------------------------

Rounds = Callable[[Device, RecordingNetwork, Cadence, ProcessorClock], Iterator[list[Receipt]]]


def by_cadence(
    device: Device,
    network: RecordingNetwork,
    cadence: Cadence,
    clock: ProcessorClock,
) -> Iterator[list[Receipt]]:
    """The rounds of `deniable client run`."""
    for receipts, _ in rounds(device, network, cadence, clock=clock, sleep=clock.sleep):
        yield receipts


@dataclass(frozen=True)
class Conduct:
    """How devices behave: the client's own way, or with a leak planted in it."""

    device: type[Device] = Device
    rounds: Rounds = by_cadence


HONEST = Conduct()


def live(folder: Path, scenario: Scenario, contents: Contents, conduct: Conduct = HONEST) -> Life:
    """A device with these contents lives through the scenario."""
    folder.mkdir()
    queries = scenario.queries()
    proxies = queries[0][0].proxies
    owner = _Owner(_make_vault(folder / "ann.db", contents), contents)
    store = Store(_same_store(folder), durable=False)
    # From here on the device works: making a large vault is not charged to it.
    clock, source = ProcessorClock(ORIGIN), PositionedSource(f"coins {scenario.seed}")

    def on_step(name: str) -> None:
        source.step(name)
        if name == "allowed":
            with clock.stopped():
                owner.interrupt()

    policy = _policy(scenario, queries[0][0])
    device = conduct.device(owner.vault, policy, store, source=source, clock=clock, on_step=on_step)
    seen = Life()
    network = RecordingNetwork(clock=clock, last=proxies[-1], seen=seen)
    listener = _Listener(seen.logged)
    logging.getLogger().addHandler(listener)
    cadence = Cadence(2 * policy.slot, policy.slot)
    n_rounds = math.ceil(scenario.n_epochs * EPOCH / cadence.every)
    boards = [[relayed for _, relayed in queries]] * n_rounds + [[]] * _LAST_ROUNDS
    running = conduct.rounds(device, network, cadence, clock)
    try:
        for number, board in enumerate(boards):
            network.relayed = dict.fromkeys(proxies, board)
            with clock.stopped():
                owner.begin(int(clock() - ORIGIN) // EPOCH, number)
            seen.outcomes += [_shown(receipt) for receipt in next(running)]
            seen.rounds.append(clock.time)
            with clock.stopped():
                owner.end()
                seen.queue += _queue(store)
                seen.stored.append(_stored(store))
    except Exception as error:
        seen.errors.append((type(error).__name__, str(error)))
    finally:
        owner.end()
        logging.getLogger().removeHandler(listener)
    with store.transaction() as transaction:
        for table in LEDGER_TABLES:
            seen.ledger[table] = _rows(transaction, table)
    seen.reports = [body for proxy, _, body in network.bodies if proxy == proxies[-1]]
    return seen


def _policy(scenario: Scenario, query: Query) -> Policy:
    return make_policy(
        query,
        limits=(Limit(scenario.limit),),
        epsilon_per_answer=100,
        strata=("south",),
        deadline=_DEADLINE,
        max_rows=_MOST_ROWS,
        max_memory=_MEMORY,
    )


def _shown(receipt: Receipt) -> tuple[Any, ...]:
    names = receipt.analyst, receipt.query, receipt.serial, receipt.epoch
    return (
        receipt.time,
        receipt.outcome,
        receipt.reason,
        _unhurried(receipt.detail),
        *names,
        receipt.epsilon,
        receipt.left,
    )


def _unhurried(text: str) -> str:
    """A text without what is told to the owner of a machine that is too busy by the clock on the
    wall. The clock here is virtual: that this machine is busy is not the data's doing."""
    for words in (f". {fault_words(BUSY)}", fault_words(BUSY)):
        text = text.replace(words, "")
    return text


def _rows(transaction: StoreTransaction, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table of the store, without what is :func:`_unhurried`."""
    rows = transaction._db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
    return [
        tuple(_unhurried(cell) if isinstance(cell, str) else cell for cell in row)
        for row in rows
        if f"answers without data: {BUSY}" not in row
    ]


def _queue(store: Store) -> list[tuple[Any, ...]]:
    with store.transaction() as transaction:
        sql = "SELECT proxy, due, expires, length(record) FROM queue ORDER BY place"
        return list(transaction._db.execute(sql))


def _stored(store: Store) -> tuple[tuple[str, int, int], ...]:
    found = []
    with store.transaction() as transaction:
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'row_checks'"
        for (table,) in transaction._db.execute(
            tables
        ).fetchall():  # the sums in row_checks are random
            rows = _rows(transaction, table)
            cells = [cell if isinstance(cell, bytes) else str(cell) for row in rows for cell in row]
            found.append((table, len(rows), sum(map(len, cells))))
    return tuple(found)


def _same_store(folder: Path) -> Path:
    """A new store with the other device's secret, which helps to choose rows, like a coin."""
    template = folder.parent / "store"
    if not template.exists():
        with Store(template, durable=False).transaction():
            pass
    return Path(shutil.copy(template, folder / "store"))


# --- the owner ------------------------------------------------------------------------------------


def _make_vault(path: Path, contents: Contents) -> Vault:
    vault = Vault.create(path)
    vault.import_rows("trips", {"distance": "REAL", "note": "TEXT", "secret": "TEXT"}, [])
    vault.grant("trips", ["distance", "note"])
    with closing(sqlite3.connect(path)) as connection:
        if contents.owner == "writes":
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE diary (page BLOB)")
        with connection:
            for kilobytes in (contents.deleted, contents.hidden):
                connection.execute("DELETE FROM diary")
                connection.execute("INSERT INTO diary VALUES (zeroblob(?))", (kilobytes << 10,))
        if contents.deleted > contents.hidden:
            assert connection.execute("PRAGMA freelist_count").fetchone()[0] > 0
    return vault


class _Owner:
    """Changes the trips from epoch to epoch, and does with the vault what the contents say."""

    def __init__(self, vault: Vault, contents: Contents) -> None:
        self.vault, self._contents = vault, contents
        self._epoch = -1
        self._busy: sqlite3.Connection | None = None

    def begin(self, epoch: int, number: int) -> None:
        """Before a round."""
        epochs = self._contents.epochs
        if epoch > self._epoch:
            if self._epoch < 0 or epoch < len(epochs):
                self._write(epochs[min(epoch, len(epochs) - 1)])
            self._epoch = epoch
        owner = self._contents.owner
        if (owner == "locks" and number == 1) or (owner == "writes" and number):
            self._busy = sqlite3.connect(self.vault.path, isolation_level=None)
            self._busy.execute("BEGIN EXCLUSIVE" if owner == "locks" else "BEGIN IMMEDIATE")
            self._busy.execute("DELETE FROM trips")

    def end(self) -> None:
        """After it: what was begun is undone."""
        if self._busy is not None:
            self._busy.close()
        self._busy = None

    def interrupt(self) -> None:
        """While the device answers."""
        if self._contents.owner == "commits":
            with closing(sqlite3.connect(self.vault.path)) as connection, connection:
                connection.execute("INSERT INTO diary VALUES (x'00')")

    def _write(self, trips: tuple[str, ...]) -> None:
        note = ("ab" * self._contents.note)[: self._contents.note]
        rows = [(DISTANCES[trip], note, "x") for trip in trips] * self._contents.copies
        with closing(sqlite3.connect(self.vault.path)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("DELETE FROM trips")
            connection.executemany("INSERT INTO trips VALUES (?, ?, ?)", rows)
