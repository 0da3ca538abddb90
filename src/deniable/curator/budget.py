"""The budget of a table: what its releases may cost together, in memory or in a file that several
processes share.

A release is charged before its noise is drawn. The file is changed under a lock: its successor is
written, synced to disk and renamed. So whenever a process is killed, either nothing was charged and
nothing was revealed, or the charge is on record.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.checks import check_loss
from deniable.checksums import CheckSumError, checked_object, sealed_object
from deniable.errors import BudgetExceededError, BudgetFileError, ParameterError
from deniable.privacy.ledger import Accountant, Limit, PrivacyEvent
from deniable.service.files.file_lock import lock_file

__all__ = ["CuratorBudget"]

_FORMAT = "deniable curator budget 1"


class CuratorBudget:
    """The epsilon that may be spent on one table, all releases added up. Kept in memory; :meth:`at`
    keeps it in a file.

    >>> budget = CuratorBudget(1)
    >>> budget.charge(PrivacyEvent("analyst", "mean of age", 0, 0.4), {"table": "ages"})
    >>> str(budget.left)
    '3/5'

    A budget belongs to the table, the neighbour relation and the rows per person of its first
    release: another table, such as a filtered copy, is refused, because its size would be private.
    Losses under different relations cannot be added up.
    """

    def __init__(self, epsilon: Any) -> None:
        limit = _limit(epsilon)
        self.path: Path | None = None
        self._initial: Limit | None = None
        """The limit for a file that does not exist yet. Once seen, a missing file is an error, not
        a new budget."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._kept = _State(limit, {}, Accountant([limit]))

    @classmethod
    def at(cls, path: Path | str, epsilon: Any = None) -> CuratorBudget:
        """The budget in a file. Without such a file, the first release creates one with `epsilon`,
        which must then be given.

        An existing budget with another total is refused: raising it is a decision, not an option.
        """
        budget = cls.__new__(cls)
        budget.path = Path(path).resolve()  # one lock for all names of the file
        budget._initial = None if epsilon is None else _limit(epsilon)
        limit, kept = budget._initial, budget._read().limit
        if limit is not None and kept != limit:
            raise BudgetFileError(
                f"{budget.path} is a budget of epsilon {_text(kept.epsilon)}, not"
                f" {_text(limit.epsilon)}"
            )
        return budget

    @property
    def epsilon(self) -> Fraction:
        """The total."""
        total: Fraction = self._read().limit.epsilon
        return total

    @property
    def spent(self) -> Fraction:
        """What was charged so far."""
        return self._read().accountant.spent()

    @property
    def left(self) -> Fraction:
        """What may still be charged."""
        state = self._read()
        total: Fraction = state.limit.epsilon
        return total - state.accountant.spent()

    def check_basis(self, basis: Mapping[str, Any]) -> None:
        """Refuse a table other than that of the releases so far, or one whose losses are measured
        differently."""
        self._check_basis(self._read(), basis)

    def check(self, event: PrivacyEvent, basis: Mapping[str, Any]) -> None:
        """Raise what :meth:`charge` would raise. Nothing changes."""
        self._check(self._read(), event, basis)

    def charge(self, event: PrivacyEvent, basis: Mapping[str, Any]) -> None:
        """Record the release durably, or raise BudgetExceededError and leave everything unchanged.

        `basis` says what the losses are measured by: the table, the neighbour relation, the rows
        per person.
        """
        with self._lock if self.path is None else self._locked():
            state = self._read()
            self._check(state, event, basis)
            state.basis = dict(basis)
            state.accountant.record(event)
            # what is spent stays; the dates are only needed for limits in time
            state.accountant.forget(event.time)
            if self.path is not None:
                self._write(state)

    def _check_basis(self, state: _State, basis: Mapping[str, Any]) -> None:
        for name, value in state.basis.items():
            if basis.get(name) != value:
                differs = (
                    "is that of another table"
                    if name == "table"
                    else f"has {name} = {value!r}, not {basis.get(name)!r}"
                )
                raise BudgetFileError(
                    f"{self.path or 'the budget'} {differs}: a budget belongs to one table, counted"
                    " one way"
                )

    def _check(self, state: _State, event: PrivacyEvent, basis: Mapping[str, Any]) -> None:
        self._check_basis(state, basis)
        if state.accountant.check(event) is not None:
            total, left = state.limit.epsilon, state.limit.epsilon - state.accountant.spent()
            raise BudgetExceededError(
                f"epsilon {_text(event.cost)} was requested, but {_text(left)} of {_text(total)} is"
                " left"
            )

    def _read(self) -> _State:
        if self.path is None:
            if os.getpid() != self._owner:
                raise BudgetFileError(
                    "a budget in memory belongs to the process that made it: use CuratorBudget.at(file)"
                )
            return self._kept
        try:
            state = _State.from_dict(checked_object(json.loads(self.path.read_bytes())))
            self._initial = None
            return state
        except FileNotFoundError:
            if self._initial is None:
                raise BudgetFileError(
                    f"{self.path} does not exist, and a new budget needs its epsilon"
                ) from None
            return _State(self._initial, {}, Accountant([self._initial]))
        except OSError as error:
            raise BudgetFileError(f"{self.path} cannot be read: {error.strerror}") from None
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            reason = f": {error}" if isinstance(error, CheckSumError) else ""
            raise BudgetFileError(
                f"{self.path} is not a file of the format {_FORMAT!r}{reason}"
            ) from None

    def _write(self, state: _State) -> None:
        assert self.path is not None  # noqa: S101 - only called for files
        partial = self.path.with_name(self.path.name + ".partial")
        try:
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(
                    (
                        json.dumps(sealed_object(state.to_dict()), indent=1, ensure_ascii=False)
                        + "\n"
                    ).encode()
                )
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
            self._initial = None
            if os.name == "posix":  # elsewhere a folder cannot be opened, and need not be
                folder = os.open(self.path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except OSError as error:
            raise BudgetFileError(f"{self.path} cannot be written: {error.strerror}") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclusive access to the file among all processes and threads. The lock is released when
        its process ends."""
        assert self.path is not None  # noqa: S101 - only called for files
        name = self.path.with_name(self.path.name + ".lock")
        while True:
            try:
                handle = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise BudgetFileError(f"{name} cannot be written: {error.strerror}") from None
            try:
                lock_file(handle)
                # Someone may have removed the lock file while we waited: then others lock a
                # different one.
                if name.exists() and os.fstat(handle).st_ino == name.stat().st_ino:
                    yield
                    return
            finally:
                os.close(handle)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:  # a copy could be spent again
            raise TypeError("a budget in memory cannot be copied: use CuratorBudget.at(file)")
        return CuratorBudget.at, (self.path,)

    def __deepcopy__(self, memo: dict[int, Any]) -> CuratorBudget:
        return self

    def __copy__(self) -> CuratorBudget:
        return self

    def __repr__(self) -> str:
        state = self._read()
        where = "" if self.path is None else f" in {self.path}"
        return (
            f"<Budget of epsilon {_text(state.limit.epsilon)}{where},"
            f" {_text(state.accountant.spent())} spent>"
        )


class _State:
    """The contents of a budget file."""

    def __init__(self, limit: Limit, basis: dict[str, Any], accountant: Accountant) -> None:
        self.limit, self.basis, self.accountant = limit, basis, accountant

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "epsilon": str(self.limit.epsilon),
            "basis": self.basis,
            "ledger": self.accountant.to_dict(),
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> _State:
        if content["format"] != _FORMAT or set(content) != {"format", "epsilon", "basis", "ledger"}:
            raise ValueError(content["format"])
        limit = _limit(content["epsilon"])
        accountant = Accountant.from_dict([limit], content["ledger"])
        if not isinstance(content["basis"], dict) or accountant.spent() > limit.epsilon:
            raise ValueError(content["basis"])
        return cls(limit, content["basis"], accountant)


def release_event(analyst: str, query: str, epsilon: Any) -> PrivacyEvent:
    """A release that is about to happen, whose epsilon must be above 0."""
    event = PrivacyEvent(analyst, query, int(time.time()), epsilon)
    check_loss("epsilon", float(event.epsilon))
    if event.epsilon == 0:
        raise ParameterError("epsilon", epsilon, "must be above 0")
    return event


def _limit(epsilon: Any) -> Limit:
    limit = Limit(epsilon)
    if limit.epsilon == 0:
        raise ParameterError("epsilon", epsilon, "must be above 0")
    return limit


def _text(epsilon: Fraction) -> str:
    return f"{float(epsilon):.6g}"
