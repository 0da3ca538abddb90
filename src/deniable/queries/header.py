"""The header of a query: what anyone who only carries its shares may know.

A proxy reads this much of a signed query and no more. It must not be able to read an answer, so it
loads neither the buckets nor the mechanisms that a whole :class:`~deniable.queries.query.Query`
needs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.queries.schedule import Schedule, duration, spoken_duration
from deniable.queries.signed import canonical
from deniable.queries.signed.envelope import key_bytes
from deniable.queries.signed.permissions import LONGEST_GRACE, MOST_MESSAGES, ChannelPermission
from deniable.queries.texts import check_text
from deniable.wire.sizes import SIZE_CLASSES

__all__ = [
    "FORMAT",
    "FORMAT_OWNED",
    "LONGEST_GRACE",
    "SEPARATOR",
    "QueryHeader",
    "check_format",
    "digest_of",
]

FORMAT = "deniable query 1"
FORMAT_OWNED = "deniable query 2"
"""The format of queries that name the key to which their channel belongs. Earlier releases refuse
it: they would compute another channel tag."""
SEPARATOR = FORMAT.encode() + b"\0"
"""The domain separator of digests and signatures, so that they can never be mistaken for anything
else's."""
_CHANNEL_SEPARATOR = b"deniable channel 1\0"
_OWNED_CHANNEL_SEPARATOR = b"deniable channel 2\0"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


def digest_of(content: bytes) -> bytes:
    """SHA-256 of the separator and a query's canonical bytes: identifies this exact version."""
    return hashlib.sha256(SEPARATOR + content).digest()


@dataclass(frozen=True)
class QueryHeader:
    """Whose query it is, which version, when it is answered, and how long its shares are."""

    id: str
    analyst: str
    """Who asks; the key that signs the query must be theirs."""
    serial: int
    """The version. Devices refuse to go back."""
    schedule: Schedule
    size_class: int
    """How long shares are."""
    most_rows: int
    """How many messages a device sends in an epoch."""
    channel: str | None
    """What proxies see: queries with the same channel, schedule and size class look alike to them.
    By default, its own."""
    digest: bytes = b""
    grace: int | None = None
    """Seconds after the end of an epoch in which its answers still count, if longer than the
    services' setting."""
    channel_owner: str | None = None
    """The public key to which the named channel belongs, in hexadecimal digits; None in queries of
    format 1."""
    permission: ChannelPermission | None = None
    """The owner's permission to use the channel, if another key signs the query."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise ParameterError(
                "id",
                self.id,
                "must be 1 to 64 of a-z, 0-9, '.', '_' and '-', starting with a letter or digit",
            )
        check_text("analyst", self.analyst, 200, "who asks")
        object.__setattr__(self, "serial", whole("serial", self.serial, 1, (1 << 53) - 1))
        if not isinstance(self.schedule, Schedule):
            raise ParameterError("schedule", self.schedule, "must be a Schedule")
        object.__setattr__(
            self, "size_class", whole("size_class", self.size_class, 0, SIZE_CLASSES[-1])
        )
        object.__setattr__(self, "most_rows", whole("most_rows", self.most_rows, 1, MOST_MESSAGES))
        if self.grace is not None:
            object.__setattr__(self, "grace", duration("grace", self.grace))
            if self.grace > LONGEST_GRACE:
                raise ParameterError(
                    "grace", self.grace, f"must be at most {spoken_duration(LONGEST_GRACE)}"
                )
        if self.channel is not None:
            check_text("channel", self.channel, 200, "the name under which proxies see the query")
        if self.channel_owner is not None:
            key_bytes("channel_owner", self.channel_owner)
            if self.channel is None:
                raise ParameterError(
                    "channel_owner", self.channel_owner, "must be left out without channel"
                )
        if self.permission is None:
            return
        if not isinstance(self.permission, ChannelPermission):
            raise ParameterError("permission", self.permission, "must be a ChannelPermission")
        if self.permission.owner != self.channel_owner:
            raise ParameterError(
                "permission.owner", self.permission.owner, "must be the query's channel_owner"
            )

    @classmethod
    def from_content(cls, content: bytes) -> QueryHeader:
        """The header in a query's canonical bytes. The rest is ignored."""
        tree = canonical.decode(content)
        if not isinstance(tree, Mapping):
            raise ParameterError("query", "…", message="the query is not a table")
        check_format(tree.get("format"), tree.get("channel_owner"))
        names = (
            "id",
            "analyst",
            "serial",
            "size_class",
            "most_rows",
            "channel",
            "grace",
            "channel_owner",
        )
        given = {name: tree.get(name) for name in names}
        if tree.get("permission") is not None:
            given["permission"] = ChannelPermission.from_dict(tree["permission"])
        return cls(**given, schedule=_schedule(tree.get("schedule")), digest=digest_of(content))  # type: ignore[arg-type]

    @cached_property
    def channel_tag(self) -> int:
        """What proxies see: 64 bits derived from the channel's owner and name, schedule and size
        class, but not the version."""
        named = {
            "name": self.own_channel if self.channel is None else self.channel,
            "origin": self.schedule.origin,
            "every": self.schedule.every,
            "size_class": self.size_class,
        }
        separator = _CHANNEL_SEPARATOR
        if self.channel_owner is not None:
            separator, named["owner"] = _OWNED_CHANNEL_SEPARATOR, self.channel_owner
        return int.from_bytes(
            hashlib.sha256(separator + canonical.encode(named)).digest()[:8], "little"
        )

    @property
    def own_channel(self) -> str:
        """The name of the channel of a query that names none: its analyst's, whose keys rings list,
        and nobody else's."""
        return f"{self.analyst}/{self.id}"

    @property
    def channel_holder(self) -> str:
        """To whom the channel belongs: a key or, in format 1, an analyst."""
        return (
            f"analyst {self.analyst}" if self.channel_owner is None else f"key {self.channel_owner}"
        )


def check_format(stated: Any, channel_owner: Any) -> None:
    """Refuse a format that is not known, or not the one for a query with, or without, the key of
    its channel's owner."""
    if stated not in (FORMAT, FORMAT_OWNED):
        raise ParameterError(
            "format",
            stated,
            f"must be {FORMAT!r} or {FORMAT_OWNED!r}, the only formats this library reads",
        )
    if (stated == FORMAT_OWNED) != (channel_owner is not None):
        rule = f"must be given in a query of the format {FORMAT_OWNED!r}, and only there"
        raise ParameterError("channel_owner", channel_owner, rule)


def _schedule(given: Any) -> Schedule:
    names = ("origin", "expires", "every", "window", "slide")
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise ParameterError("schedule", given, f"must be a table with the keys {', '.join(names)}")
    return Schedule(**given)


USUAL_QUEUE_AGE = 14 * 86_400
"""How many seconds devices keep undelivered shares by default."""
