"""A count of a store's changes that is kept elsewhere, so that a store that was put back is noticed.

A copy of a ledger from before is a ledger from before: with it, what was spent since would be spent again. Where both files are
put back together, as with a whole disk, nothing can be noticed.
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
    """The file that says which store is at a path, and how many changes it has seen at least."""

    path: Path

    @classmethod
    def of(cls, store: Path) -> Witness:
        """The witness of a store: among the user's state files, under a name made of the store's path.

        These are in `$XDG_STATE_HOME/deniable`, or else in `~/.local/state/deniable`.
        """
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        name = hashlib.blake2b(os.fsencode(store.absolute()), digest_size=16).hexdigest()
        return cls(Path(state) / "deniable" / name)

    def check(self, store: Path, name: str, changes: int) -> None:
        """Refuse a store that is older than what this device has seen of it: what it spent since then is not known."""
        try:
            seen = checked_object(json.loads(self.path.read_bytes()))
            expected, least = str(seen["store"]), whole("changes", seen["changes"], 0)
            if set(seen) != {"store", "changes"}:
                raise ValueError(seen)
        except (FileNotFoundError, NotADirectoryError):
            self._prepare()  # now, and not when the store has changed
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise StoreError(f"{self.path} cannot be read: it says how new the store {store} has to be") from None
        if name == expected and changes >= least:
            return
        missing = f"{least - changes} changes" if name == expected else f"{least} changes of another store"
        raise StoreError(
            f"{store} lacks {missing} that this device has made; it was replaced or restored from a backup, and what was spent"
            f" since then is unknown. To go on with this ledger as it is, delete {self.path}"
        )

    def _prepare(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path.parent} cannot be made: {error.strerror}; XDG_STATE_HOME names another place") from None

    def write(self, name: str, changes: int) -> None:
        """Note how many changes the store has seen.

        After the store's commit: a process that is killed in between leaves a lower number, which accuses nobody.
        """
        scratch = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                json.dump(sealed_object({"store": name, "changes": changes}), file)
            scratch.replace(self.path)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from None
