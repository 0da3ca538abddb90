"""The header of a query: what anyone who only carries its shares may know.

A proxy reads this much of a signed query and no more. It must not be able to read an answer, so it loads neither the buckets nor
the mechanisms that a whole :class:`~deniable.queries.query.Query` needs.
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
from deniable.queries import canonical
from deniable.queries.schedule import Schedule, duration, spoken_duration
from deniable.queries.sizes import SIZE_CLASSES
from deniable.queries.texts import check_text

__all__ = ["FORMAT", "LONGEST_GRACE", "SEPARATOR", "QueryHeader", "digest_of"]

FORMAT = "deniable query 1"
SEPARATOR = FORMAT.encode() + b"\0"
"""The domain separator of digests and signatures, so that they can never be mistaken for anything else's."""
_CHANNEL_SEPARATOR = b"deniable channel 1\0"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)
_MOST_ROWS = 1000
LONGEST_GRACE = 30 * 86400


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
    """What proxies see: queries with the same channel, schedule and size class look alike to them. By default, its own."""
    digest: bytes = b""
    grace: int | None = None
    """Seconds after the end of an epoch in which its answers still count, if longer than the services' setting."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise ParameterError("id", self.id, "must be 1 to 64 of a-z, 0-9, '.', '_' and '-', starting with a letter or digit")
        check_text("analyst", self.analyst, 200, "who asks")
        object.__setattr__(self, "serial", whole("serial", self.serial, 1, (1 << 53) - 1))
        if not isinstance(self.schedule, Schedule):
            raise ParameterError("schedule", self.schedule, "must be a Schedule")
        object.__setattr__(self, "size_class", whole("size_class", self.size_class, 0, SIZE_CLASSES[-1]))
        object.__setattr__(self, "most_rows", whole("most_rows", self.most_rows, 1, _MOST_ROWS))
        if self.grace is not None:
            object.__setattr__(self, "grace", duration("grace", self.grace))
            if self.grace > LONGEST_GRACE:
                raise ParameterError("grace", self.grace, f"must be at most {spoken_duration(LONGEST_GRACE)}")
        if self.channel is not None:
            check_text("channel", self.channel, 200, "the name under which proxies see the query")

    @classmethod
    def from_content(cls, content: bytes) -> QueryHeader:
        """The header in a query's canonical bytes. The rest is ignored."""
        tree = canonical.decode(content)
        if not isinstance(tree, Mapping) or tree.get("format") != FORMAT:
            raise ParameterError("format", None, f"must be {FORMAT!r}, the only format this library reads")
        given = {name: tree.get(name) for name in ("id", "analyst", "serial", "size_class", "most_rows", "channel", "grace")}
        return cls(**given, schedule=_schedule(tree.get("schedule")), digest=digest_of(content))  # type: ignore[arg-type]

    @cached_property
    def channel_tag(self) -> int:
        """What proxies see: 64 bits derived from the channel's name, schedule and size class, but not the version."""
        named = {
            "name": f"{self.analyst}/{self.id}" if self.channel is None else self.channel,
            "origin": self.schedule.origin,
            "every": self.schedule.every,
            "size_class": self.size_class,
        }
        return int.from_bytes(hashlib.sha256(_CHANNEL_SEPARATOR + canonical.encode(named)).digest()[:8], "little")


def _schedule(given: Any) -> Schedule:
    names = ("origin", "expires", "every", "window", "slide")
    if not isinstance(given, Mapping) or set(given) != set(names):
        raise ParameterError("schedule", given, f"must be a table with the keys {', '.join(names)}")
    return Schedule(**given)


USUAL_QUEUE_AGE = 14 * 86_400
"""How many seconds devices keep undelivered shares by default."""
