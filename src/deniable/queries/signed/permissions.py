"""Permissions: how the owner of a channel lets another analyst's queries use it, and how much they
may add to it.

A channel's tag is derived from its owner's key, so that nobody else can publish on it by choosing
its name. Sharing it takes two signatures: the owner's over a permission that names the guest's key
and the limits, and the guest's over the query that carries the permission. Every device, proxy and
aggregator verifies both.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deniable.checks import whole
from deniable.errors import ChannelError, ParameterError, QueryError
from deniable.queries.schedule import duration, moment, spoken_duration
from deniable.queries.signed import canonical
from deniable.queries.signed.bounded_json import MOST_FIELDS, decode
from deniable.queries.signed.envelope import key_bytes
from deniable.queries.signed.keys import AnalystKey, PublicKey
from deniable.queries.texts import check_text

__all__ = ["LONGEST_GRACE", "MOST_MESSAGES", "ChannelPermission", "permit"]

_FORMAT = "deniable channel permission 1"
_SEPARATOR = _FORMAT.encode() + b"\0"
"""The domain separator that owners sign before a permission's bytes."""
LONGEST_GRACE = 30 * 86400
MOST_MESSAGES = 1000
"""The most messages that one query may ask of a device in an epoch."""
_LARGEST_FILE = 1 << 13


@dataclass(frozen=True)
class ChannelPermission:
    """What the owner of a channel lets the queries of one other key add to it.

    >>> owner, guest = AnalystKey("City", bytes(32)), AnalystKey("Bus company", bytes(range(32)))
    >>> permission = permit(owner, "traffic", guest.public, end=2_000_000_000, messages=2)
    >>> permission.is_signed, permission.guest == guest.public.raw.hex()
    (True, True)
    """

    owner: str
    """The public key whose channel it is, in hexadecimal digits."""
    channel: str
    guest: str
    """The public key whose queries may use the channel, in hexadecimal digits."""
    end: int
    """The guest's queries must expire at this time or before."""
    messages: int = 1
    """How many messages the guest's queries may together ask of a device in an epoch."""
    grace: int = 0
    """The longest grace of a guest's query, in seconds; 0 if they must not have one of their
    own."""
    signature: str = ""
    """The owner's signature, in hexadecimal digits."""

    def __post_init__(self) -> None:
        key_bytes("permission.owner", self.owner)
        key_bytes("permission.guest", self.guest)
        check_text("permission.channel", self.channel, 200, "the channel's name")
        self._set("end", moment("permission.end", self.end))
        self._set("messages", whole("permission.messages", self.messages, 1, MOST_MESSAGES))
        if self.grace != 0 or isinstance(self.grace, bool):
            self._set("grace", duration("permission.grace", self.grace))
        if self.grace > LONGEST_GRACE:
            rule = f"must be at most {spoken_duration(LONGEST_GRACE)}"
            raise ParameterError("permission.grace", self.grace, rule)
        signature = self.signature
        if (
            not isinstance(signature, str)
            or len(signature) != 128
            or set(signature) - set("0123456789abcdef")
        ):
            rule = "must be the 128 lower-case hexadecimal digits of an Ed25519 signature"
            raise ParameterError("permission.signature", signature, rule)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def owner_id(self) -> str:
        """The id of the owner's key, as rings and messages write it."""
        return PublicKey("owner", bytes.fromhex(self.owner)).id

    @property
    def is_signed(self) -> bool:
        """Whether the owner's key signed exactly this."""
        key = PublicKey("owner", bytes.fromhex(self.owner))
        return key.verifies(bytes.fromhex(self.signature), _signed_bytes(self.to_dict()))

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, tree: Any) -> ChannelPermission:
        """What :meth:`to_dict` wrote, or a table of a query file."""
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(tree, Mapping) or set(tree) - set(names):
            unknown = sorted(set(tree) - set(names)) if isinstance(tree, Mapping) else tree
            raise ParameterError(
                "permission", unknown, f"must be a table with the keys {', '.join(names)}"
            )
        return cls(**{**dict.fromkeys(("owner", "channel", "guest", "end")), **tree})

    def to_bytes(self) -> bytes:
        """The file that carries it to the guest: JSON."""
        fields = {"format": _FORMAT, **self.to_dict()}
        return (json.dumps(fields, indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> ChannelPermission:
        """What :meth:`to_bytes` wrote; its signature is not verified yet."""
        if len(content) > _LARGEST_FILE:
            raise QueryError(f"a permission has at most {_LARGEST_FILE} bytes, not {len(content)}")
        try:
            fields = decode(content, MOST_FIELDS)
        except ValueError as error:
            raise QueryError(f"these bytes are not a permission: {error}") from None
        if not isinstance(fields, dict) or fields.pop("format", None) != _FORMAT:
            raise QueryError(f"these bytes are not a permission of the format {_FORMAT!r}")
        try:
            return cls.from_dict(fields)
        except ParameterError as error:
            raise QueryError(f"these bytes are not a permission: {error}") from None

    def check(self, channel: str, guest: bytes, most_rows: int, grace: int, expires: int) -> None:
        """Refuse a guest's query on a channel that the owner did not permit, or not as much of
        it."""
        if not self.is_signed:
            raise ChannelError(
                f"the permission for channel {channel!r} is not signed by its owner, key"
                f" {self.owner_id}"
            )
        if self.channel != channel:
            raise ChannelError(
                f"the permission is for channel {self.channel!r}, not for {channel!r}"
            )
        if bytes.fromhex(self.guest) != guest:
            raise ChannelError(f"the permission for channel {channel!r} was given to another key")
        limits = {
            "most_rows": (most_rows, self.messages),
            "grace": (grace, self.grace),
            "expires": (expires, self.end),
        }
        for name, (value, most) in limits.items():
            if value > most:
                raise ChannelError(
                    f"{name} = {value} exceeds the {most} that the owner of channel {channel!r}"
                    " permits"
                )


def permit(
    owner: AnalystKey,
    channel: str,
    guest: PublicKey,
    end: int,
    messages: int = 1,
    grace: int | str = 0,
) -> ChannelPermission:
    """A permission for a guest's key to use a channel of the owner's, signed by the owner."""
    if guest.raw == owner.public.raw:
        raise ParameterError("guest", guest.id, "must be another key: an owner needs no permission")
    fields = {
        "owner": owner.public.raw.hex(),
        "channel": channel,
        "guest": guest.raw.hex(),
        "end": end,
    }
    unsigned = ChannelPermission(**fields, messages=messages, grace=grace, signature="0" * 128)  # type: ignore[arg-type]
    return dataclasses.replace(
        unsigned, signature=owner.sign(_signed_bytes(unsigned.to_dict())).hex()
    )


def _signed_bytes(fields: dict[str, Any]) -> bytes:
    return _SEPARATOR + canonical.encode(
        {name: value for name, value in fields.items() if name != "signature"}
    )
