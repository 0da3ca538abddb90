"""Rings: the analysts' keys that someone trusts, and for how long."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deniable.checks import check_flag
from deniable.errors import (
    KeyFileError,
    KeyNotValidError,
    ParameterError,
    RevokedKeyError,
    UnknownKeyError,
)
from deniable.queries.schedule import LATEST, moment
from deniable.queries.signed.key_files import (
    from_hex,
    made_from,
    read_fields,
    write_new,
)
from deniable.queries.signed.keys import PublicKey

__all__ = ["KeyRing", "TrustedKey"]


_RING_FORMAT = "deniable key ring 1"


@dataclass(frozen=True)
class TrustedKey:
    """A public key on a ring, with the time it is trusted: from `valid_from` to before
    `valid_until`, in seconds of UTC."""

    key: PublicKey
    valid_from: int = 0
    valid_until: int = LATEST
    revoked: bool = False
    """Nothing a revoked key ever signed is trusted: a thief can write any date into a query."""

    def __post_init__(self) -> None:
        for name in ("valid_from", "valid_until"):
            object.__setattr__(self, name, moment(name, getattr(self, name)))
        if self.valid_from >= self.valid_until:
            raise ParameterError(
                "valid_until", self.valid_until, f"must come after valid_from = {self.valid_from}"
            )
        check_flag("revoked", self.revoked)


class KeyRing:
    """The keys a device trusts. Immutable: adding, rotating and revoking give a new ring.

    >>> from deniable.queries.signed.keys import AnalystKey
    >>> old, new = AnalystKey.generate("City"), AnalystKey.generate("City")
    >>> ring = KeyRing([TrustedKey(old.public)]).rotate(old.public.id, new.public, at=1000, overlap=100)
    >>> ring.trusted(old.public.id, now=1050).owner, ring.trusted(new.public.id, now=1050).owner
    ('City', 'City')
    >>> ring.trusted(old.public.id, now=1100)
    Traceback (most recent call last):
    deniable.errors.KeyNotValidError: ...
    """

    def __init__(self, keys: Iterable[TrustedKey] = ()) -> None:
        self._keys = {trusted.key.id: trusted for trusted in keys}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[TrustedKey]:
        return iter(self._keys.values())

    def __repr__(self) -> str:
        return f"<ring of {len(self)} keys>"

    def trusted(self, key_id: str, now: int) -> PublicKey:
        """The key with this id, if it is trusted now; otherwise an error that says why not."""
        found = self._keys.get(key_id)
        if found is None:
            raise UnknownKeyError(f"key {key_id} is not on the ring")
        if found.revoked:
            raise RevokedKeyError(f"key {key_id} of {found.key.owner!r} was revoked")
        if now < found.valid_from:
            raise KeyNotValidError(
                f"key {key_id} of {found.key.owner!r} is valid from {found.valid_from} on; it is"
                f" now {now}"
            )
        if now >= found.valid_until:
            raise KeyNotValidError(
                f"key {key_id} of {found.key.owner!r} was valid before {found.valid_until}; it is"
                f" now {now}"
            )
        return found.key

    def check_delegate(self, key_id: str, now: int) -> None:
        """Refuse a controller's key that is on the ring and not trusted now. For one that is not on
        it, the analyst vouches."""
        if key_id in self._keys:
            self.trusted(key_id, now)

    def add(self, key: PublicKey, valid_from: int = 0, valid_until: int = LATEST) -> KeyRing:
        """The ring with one more key. A key already on the ring is refused, revoked or not."""
        if key.id in self._keys:
            raise ParameterError("key", key.id, "is already on the ring")
        return KeyRing([*self, TrustedKey(key, valid_from, valid_until)])

    def rotate(self, old_id: str, new: PublicKey, at: int, overlap: int = 0) -> KeyRing:
        """The ring with `new` trusted from `at` on, and the old key of the same owner until `at` +
        `overlap`."""
        old = self._get(old_id)
        if new.owner != old.key.owner:
            raise ParameterError(
                "owner",
                new.owner,
                f"must be {old.key.owner!r}: a key is replaced by one of the same owner",
            )
        kept = dataclasses.replace(old, valid_until=min(old.valid_until, at + overlap))
        return KeyRing([kept if trusted is old else trusted for trusted in self]).add(
            new, valid_from=at
        )

    def revoke(self, key_id: str) -> KeyRing:
        """The ring with this key revoked. It stays on the ring, so that it cannot be added
        again."""
        lost = self._get(key_id)
        return KeyRing(
            [
                dataclasses.replace(lost, revoked=True) if trusted is lost else trusted
                for trusted in self
            ]
        )

    def ban(self, key: PublicKey) -> KeyRing:
        """The ring with this key revoked, whether or not it was on it: a controller's key never
        is."""
        return (self if key.id in self._keys else self.add(key)).revoke(key.id)

    def _get(self, key_id: str) -> TrustedKey:
        if key_id not in self._keys:
            raise UnknownKeyError(f"key {key_id} is not on the ring")
        return self._keys[key_id]

    def save(self, path: str | Path) -> None:
        """Write the ring atomically, replacing an older one."""
        path = Path(path)
        keys = [
            {
                "owner": t.key.owner,
                "public": t.key.raw.hex(),
                "valid_from": t.valid_from,
                "valid_until": t.valid_until,
                "revoked": t.revoked,
            }
            for t in self
        ]
        fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
        write_new(fresh, {"format": _RING_FORMAT, "keys": keys}, 0o644)
        fresh.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> KeyRing:
        """The ring in a file that :meth:`save` wrote."""
        path = Path(path)
        entries = read_fields(path, _RING_FORMAT, ("keys",))["keys"]
        wanted = {"owner", "public", "valid_from", "valid_until", "revoked"}
        if not isinstance(entries, list) or not all(
            isinstance(e, dict) and set(e) == wanted for e in entries
        ):
            raise KeyFileError(
                f"{path}: each key of a ring has the fields {', '.join(sorted(wanted))}"
            )
        times = [(e["valid_from"], e["valid_until"], e["revoked"]) for e in entries]
        keys = [(e["owner"], e["public"]) for e in entries]
        return made_from(
            path,
            lambda: cls(
                TrustedKey(PublicKey(o, from_hex(p)), *time)
                for (o, p), time in zip(keys, times, strict=True)
            ),
        )
