"""A count of a store's changes, kept elsewhere, so that a store restored from an older copy is
noticed.

An older copy of a ledger does not know what has been spent since, so it could be spent again. If
both files are restored together, as with a whole disk, this cannot be noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from deniable.checks import whole
from deniable.checksums import checked_object, sealed_object
from deniable.errors import StoreError

__all__ = ["Witness"]


@dataclass(frozen=True)
class Witness:
    """The file that says which store is at a path, and at least how many changes it has seen."""

    path: Path

    @classmethod
    def of(cls, store: Path) -> Witness:
        """The witness of a store: among the user's state files, under a name derived from the
        store's path.

        These are in `$XDG_STATE_HOME/deniable`, or else in `~/.local/state/deniable`.
        """
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        name = hashlib.blake2b(os.fsencode(store.absolute()), digest_size=16).hexdigest()
        return cls(Path(state) / "deniable" / name)

    def check(self, store: Path, name: str, changes: int) -> None:
        """Refuse a store that is older than this device has seen: what it has spent since then is
        unknown."""
        try:
            seen = checked_object(json.loads(self.path.read_bytes()))
            expected, least = str(seen["store"]), whole("changes", seen["changes"], 0)
            if set(seen) != {"store", "changes"}:
                raise ValueError(seen)
        except (FileNotFoundError, NotADirectoryError):
            self._prepare()  # now, not after the store has changed
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StoreError(
                f"{self.path} cannot be read: it says how new the store {store} has to be"
            ) from None
        if name == expected and changes >= least:
            return
        missing = (
            f"{least - changes} changes"
            if name == expected
            else f"{least} changes of another store"
        )
        raise StoreError(
            f"{store} lacks {missing} that this device has made; it was replaced or restored from a"
            " backup, and what was spent since then is unknown. To go on with this ledger as it"
            f" is, delete {self.path}"
        )

    def _prepare(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{self.path.parent} cannot be made: {error.strerror}; XDG_STATE_HOME names another"
                " place"
            ) from None

    def write(self, name: str, changes: int) -> None:
        """Record how many changes the store has seen.

        Called after the store's commit: a process killed in between leaves a lower number, which
        raises no alarm.
        """
        scratch = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                json.dump(sealed_object({"store": name, "changes": changes}), file)
            scratch.replace(self.path)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from None
