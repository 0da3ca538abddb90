"""What a device reads of its vault: in confined processes, and in time.

Whether SQL compiles on what is granted is found out by a process without data, before anything is
read. From there on nothing is refused: whatever goes wrong while the data are read may be caused by
them (:mod:`deniable.client.device` says why that matters).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from deniable.client.forms import Forms
from deniable.client.permanent_answers import PermanentAnswers
from deniable.client.policy import Policy
from deniable.client.sandbox import interface as sandbox
from deniable.client.storage.store import StoreTransaction
from deniable.client.vaults.vault import Vault
from deniable.errors import (
    BadSqlError,
    DeadlineError,
    ForbiddenSqlError,
    NotGrantedError,
    SandboxBusyError,
    SandboxError,
    TooComplexError,
    TooMuchMemoryError,
    VaultBusyError,
    VaultError,
)
from deniable.queries.query import Query
from deniable.randomness import Source
from deniable.sql.guard import Shape

__all__ = ["ConfinedReader", "Stop"]

# seconds that a busy machine may take to start a process or copy a vault, in addition to the SQL's
# deadline
_START_UP = 2.0
_UNHURRIED = 60.0  # the same where answers have no slot
_VERDICTS = (ForbiddenSqlError, BadSqlError, TooComplexError, DeadlineError, TooMuchMemoryError)
"""Verdicts on SQL: they depend on its text and on the names that are granted. A deadline is one of
processor time."""

_T = TypeVar("_T")


class Stop(Exception):  # noqa: N818 - not an error: the walk ends here, with a receipt
    """Where the walk ends, and why."""

    def __init__(self, outcome: str, reason: str, detail: str) -> None:
        self.outcome, self.reason, self.detail = outcome, reason, detail
        super().__init__(outcome, reason, detail)


class _Late(Exception):  # noqa: N818 - not an error: the slot is over
    pass


class ConfinedReader:
    """What is granted, whether a query's SQL may run on it, and what it finds."""

    def __init__(
        self,
        vault: Vault,
        policy: Policy,
        *,
        source: Source,
        clock: Callable[[], float],
        isolated: bool,
    ) -> None:
        self.vault, self.policy = vault, policy
        self.forms = Forms.beside(vault.path)
        self.clock, self.source = clock, source
        self._isolated = isolated

    def _check_sql(self, transaction: StoreTransaction, query: Query) -> None:
        """Refuse SQL that does not compile on what is granted: the last possible refusal, before
        the data are read."""
        policy = self.policy
        if query.ask == "form":
            return  # it reads what was chosen in it, by a statement of ours
        try:
            shape = self._granted(transaction)
            caps: Any = {"deadline": policy.deadline, "max_memory": policy.max_memory}
            n_columns = self._in_time(lambda: sandbox.compiles(shape, query.statement, **caps))
        except NotGrantedError as error:
            raise Stop("refused", "not shared", str(error)) from None
        except (SandboxError, _Late) as error:
            if not isinstance(error, _VERDICTS) or isinstance(error, SandboxBusyError):
                # the machine is starved, perhaps by a large copy: refusing would reveal that
                return
            raise Stop("refused", "forbidden SQL", str(error)) from None
        except VaultError as error:
            raise Stop("refused", "vault", str(error)) from None
        if n_columns not in (None, len(query.columns)):
            detail = (
                f"the SQL returns {n_columns} columns, but the query has buckets for"
                f" {len(query.columns)}"
            )
            raise Stop("refused", "columns", detail)

    def _granted(self, transaction: StoreTransaction) -> Shape:
        """What is granted; while the owner is writing, what was granted when the vault could last
        be read.

        Refusing would reveal when, and for how long, the owner is writing.
        """
        try:
            shape = self._in_time(
                lambda: sandbox.granted(
                    self.vault, patience=self.policy.deadline, isolated=self._isolated
                )
            )
        except (VaultBusyError, _Late):
            known = transaction.granted()
            if known is None:
                raise VaultError(
                    "what you grant could not be read yet: the vault is in use, or the device is"
                    " too busy"
                ) from None
            return known
        transaction.keep_granted(shape)
        return shape

    def _found(
        self, query: Query, kept: PermanentAnswers | None, epoch: int
    ) -> sandbox.SandboxAnswer:
        """The buckets of the true answer, always `most_rows` of them, whatever the data and
        whatever goes wrong."""
        memo = None if kept is None else kept.memo
        task = sandbox.SandboxTask(
            query.statement,
            query.buckets.plain,
            query.rows,
            query.most_rows,
            query.ones,
            memo,
            query.schedule.bounds_of_epoch(epoch),
        )
        try:
            return self._read(query, task)
        except _Late:
            return task.nothing()._replace(fault=sandbox.BUSY)
        except Exception:  # any error here may be caused by the data, and silence would reveal it
            return task.nothing()

    def _read(self, query: Query, task: sandbox.SandboxTask) -> sandbox.SandboxAnswer:
        """What the SQL finds, in the sandbox's process."""
        policy = self.policy
        within = policy.deadline + (_START_UP if policy.slot else _UNHURRIED)
        over = threading.Event()

        def draw(n: int, most: int) -> list[int]:
            if over.is_set():
                raise _Late  # the coins are for others now
            return self._some(n, most)

        def work() -> sandbox.SandboxAnswer:
            ends = time.monotonic() + within
            caps: Any = {
                "deadline": policy.deadline,
                "max_rows": policy.max_rows,
                "max_memory": policy.max_memory,
            }
            if query.ask == "form":
                return sandbox.answer(
                    self.forms.vault, task, draw, within=within, isolated=self._isolated, **caps
                )
            with suppress(VaultError):  # an owner who is writing keeps old rows a little longer
                self.vault.forget(int(self.clock()), patience=within / 4)
            left = ends - time.monotonic()
            return sandbox.answer(
                self.vault, task, draw, within=left, isolated=self._isolated, **caps
            )

        try:
            return self._in_time(work)
        finally:
            over.set()

    def _in_time(self, work: Callable[[], _T]) -> _T:
        """The result of the work, if it finishes within its part of the slot; otherwise nobody
        waits for it.

        All work ends by itself at that time. This is for what nothing can end, such as a file
        system that hangs.
        """
        if not self.policy.slot:
            return work()
        done: queue.SimpleQueue[tuple[_T | None, Exception | None]] = queue.SimpleQueue()

        def attempt() -> None:
            try:
                done.put((work(), None))
            except Exception as error:
                done.put((None, error))

        threading.Thread(target=attempt, daemon=True).start()
        try:
            result, error = done.get(timeout=self.policy.deadline + _START_UP)
        except queue.Empty:
            raise _Late from None
        if error is not None:
            raise error
        return cast("_T", result)

    def _some(self, n: int, most: int) -> list[int]:
        """Up to `most` of `n` rows, every choice equally likely (the first steps of a Fisher-Yates
        shuffle)."""
        places = list(range(n))
        for i in range(min(n, most)):
            if n - i > 1:
                j = i + int(self.source.below(n - i, 1)[0])
                places[i], places[j] = places[j], places[i]
        return places[:most]
