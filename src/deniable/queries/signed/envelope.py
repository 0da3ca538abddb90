"""Envelopes: what an analyst lets a controller change, and the versions that a controller signs
inside one.

Devices obey only what an analyst signed. So that sampling and coins can follow the achieved error
without keeping the analyst's key on a server, the analyst signs *ranges* and names a controller's
public key; the controller signs versions, serial by serial. A version is a few numbers added to the
query as the analyst signed it:

    effective query = the analyst's query with serial, sampling (of each stratum, too) and coins replaced

Nothing else can be changed by a controller: not the SQL, the buckets, the schedule, the proxies or
the budget. This module reads and compares plain numbers and loads no mechanism, so that a proxy can
check what it relays.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deniable.checks import check_flag, check_range, whole
from deniable.errors import EnvelopeError, ParameterError
from deniable.queries.schedule import moment
from deniable.queries.signed import canonical

__all__ = ["VERSION_SEPARATOR", "Envelope", "Version", "applied", "key_bytes"]

VERSION_FORMAT = "deniable version 1"
VERSION_SEPARATOR = VERSION_FORMAT.encode() + b"\0"
"""The domain separator that controllers sign before a version's bytes."""
MOST_VERSIONS = 1 << 32
COINS = ("p", "q", "epsilon")
"""The parameters of a mechanism that a controller may change: those of TwoCoin, or the epsilon of
any other."""
_ALLOCATIONS = ("proportional", "neyman")
Range = tuple[float, float]


def key_bytes(name: str, text: Any) -> bytes:
    """The 32 bytes of a public key, written as 64 lower-case hexadecimal digits."""
    if not isinstance(text, str) or len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ParameterError(
            name, text, "must be the 64 lower-case hexadecimal digits of an Ed25519 public key"
        )
    return bytes.fromhex(text)


def _number(name: str, value: Any, most: float) -> float:
    return check_range(name, value, above=0, most=most)


def _range(name: str, given: Any, most: float) -> Range:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise ParameterError(name, given, "must be a range of two numbers, [least, most]")
    low, high = (_number(f"{name}[{i}]", bound, most) for i, bound in enumerate(given))
    if low > high:
        raise ParameterError(name, [low, high], "must have its smaller number first")
    return low, high


@dataclass(frozen=True)
class Envelope:
    """The ranges that an analyst signs, and the key that may sign versions inside them.

    >>> ranges = Envelope("00" * 32, sampling=(0.2, 1.0), p=(0.3, 0.6), q=(0.4, 0.6), epsilon_per_answer=3.0)
    >>> ranges.key_id
    '8ded264b736cfa06'
    """

    controller: str
    """The public key of the controller, in hexadecimal digits."""
    sampling: Range
    """The range of the sampling probability, also for every stratum."""
    epsilon_per_answer: float
    """The largest local epsilon of one epoch's answer. The ceiling on the total is the query's
    `budget.epsilon`."""
    p: Range | None = None
    q: Range | None = None
    epsilon: Range | None = None
    """The range of the mechanism's epsilon, for mechanisms other than TwoCoin."""
    inversion: bool = False
    """Whether the controller may have devices report the inverted bits of TwoCoin."""
    until: int | None = None
    """The controller's key is not trusted from this time on; None means as long as the query
    runs."""
    versions: int = 1000
    """How many serials after the query's own the controller may use. The next serial is the
    analyst's again, so that a stolen controller's key cannot outrun the query that revokes it."""
    allocation: str = "proportional"
    """How strata are sampled: `proportional` (equally) or `neyman` (more where answers in earlier
    windows varied more)."""

    def __post_init__(self) -> None:
        key_bytes("envelope.controller", self.controller)
        self._set("sampling", _range("envelope.sampling", self.sampling, 1.0))
        self._set(
            "epsilon_per_answer",
            _number("envelope.epsilon_per_answer", self.epsilon_per_answer, 1e6),
        )
        for name in COINS:
            if getattr(self, name) is not None:
                self._set(
                    name,
                    _range(
                        f"envelope.{name}", getattr(self, name), 1e6 if name == "epsilon" else 1.0
                    ),
                )
        check_flag("envelope.inversion", self.inversion)
        if self.until is not None:
            self._set("until", moment("envelope.until", self.until))
        if self.allocation not in _ALLOCATIONS:
            raise ParameterError(
                "envelope.allocation", self.allocation, f"must be one of {', '.join(_ALLOCATIONS)}"
            )
        self._set("versions", whole("envelope.versions", self.versions, 1, MOST_VERSIONS))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def key_id(self) -> str:
        """The id of the controller's key, as rings and messages write it."""
        return hashlib.sha256(b"deniable key 1\0" + bytes.fromhex(self.controller)).hexdigest()[:16]

    def ranges(self) -> dict[str, Range]:
        """The ranges that are given, by name."""
        return {
            name: getattr(self, name)
            for name in ("sampling", *COINS)
            if getattr(self, name) is not None
        }

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON values."""
        tree = dataclasses.asdict(self)
        if self.allocation == "proportional":  # as before there were others
            del tree["allocation"]
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in tree.items()
        }

    @classmethod
    def from_dict(cls, tree: Any) -> Envelope:
        """What :meth:`to_dict` wrote, or a table of a query file."""
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(tree, Mapping) or set(tree) - set(names):
            unknown = sorted(set(tree) - set(names)) if isinstance(tree, Mapping) else tree
            raise ParameterError(
                "envelope", unknown, f"must be a table with the keys {', '.join(names)}"
            )
        required = ("controller", "sampling", "epsilon_per_answer")
        return cls(**{**dict.fromkeys(required), **tree})

    def check(self, serial: int, version: Version) -> None:
        """Refuse a version that is outside; `serial` is that of the query as the analyst signed
        it."""
        last = serial + self.versions
        if not serial < version.serial <= last:
            raise EnvelopeError(
                f"version {version.serial} is outside the envelope, which allows {serial + 1} to"
                f" {last}"
            )
        low, high = self.sampling
        for value in (version.sampling, *(version.strata or ())):
            if not low <= value <= high:
                raise EnvelopeError(
                    f"sampling = {value:g} is outside the envelope, which allows {low:g} to"
                    f" {high:g}"
                )
        for name, value in version.mechanism.items():
            if name == "inverted":
                if value and not self.inversion:
                    raise EnvelopeError("inverted answers are outside the envelope")
                continue
            allowed = getattr(self, name)
            if allowed is None or not allowed[0] <= value <= allowed[1]:
                bounds = (
                    "does not allow it to change"
                    if allowed is None
                    else f"allows {allowed[0]:g} to {allowed[1]:g}"
                )
                raise EnvelopeError(
                    f"mechanism.{name} = {value:g} is outside the envelope, which {bounds}"
                )


@dataclass(frozen=True)
class Version:
    """What a controller signs: the numbers that replace the query's own.

    >>> Version("ab" * 32, 2, 0.5, {"p": 0.4, "q": 0.5}).serial
    2
    """

    query: str
    """The digest of the analyst's query, in hexadecimal digits: a version belongs to one query
    only."""
    serial: int
    sampling: float
    mechanism: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """New values of `p`, `q` and `inverted`, or of `epsilon`."""
    strata: Sequence[float] | None = None
    """The sampling probability of each stratum; None leaves them as they are."""

    def __post_init__(self) -> None:
        if (
            not isinstance(self.query, str)
            or len(self.query) != 64
            or set(self.query) - set("0123456789abcdef")
        ):
            raise ParameterError(
                "query", self.query, "must be the 64 hexadecimal digits of a query's digest"
            )
        object.__setattr__(self, "serial", whole("serial", self.serial, 2, (1 << 53) - 1))
        object.__setattr__(self, "sampling", _number("sampling", self.sampling, 1.0))
        if not isinstance(self.mechanism, Mapping) or set(self.mechanism) - {*COINS, "inverted"}:
            raise ParameterError(
                "mechanism",
                self.mechanism,
                f"must be a table with some of {', '.join(COINS)}, inverted",
            )
        coins = {
            name: _flag(value) if name == "inverted" else _number(f"mechanism.{name}", value, 1e6)
            for name, value in self.mechanism.items()
        }
        object.__setattr__(self, "mechanism", coins)
        if self.strata is not None:
            if not isinstance(self.strata, list | tuple):
                raise ParameterError(
                    "strata", self.strata, "must be a list of sampling probabilities"
                )
            given = tuple(
                _number(f"strata[{i}]", value, 1.0) for i, value in enumerate(self.strata)
            )
            object.__setattr__(self, "strata", given)

    @property
    def content(self) -> bytes:
        """The canonical bytes: what is signed."""
        tree = {
            "format": VERSION_FORMAT,
            "query": self.query,
            "serial": self.serial,
            "sampling": self.sampling,
            "mechanism": dict(self.mechanism),
            "strata": None if self.strata is None else list(self.strata),
        }
        return canonical.encode(tree)

    @classmethod
    def from_content(cls, content: bytes) -> Version:
        """The version with these canonical bytes."""
        tree = canonical.decode(content)
        names = {"format", *(field.name for field in dataclasses.fields(cls))}
        if not isinstance(tree, Mapping) or set(tree) != names or tree["format"] != VERSION_FORMAT:
            raise ParameterError(
                "version", "…", message=f"the version is not of the format {VERSION_FORMAT!r}"
            )
        version = cls(**{name: value for name, value in tree.items() if name != "format"})
        if version.content != content:
            raise ParameterError("version", "…", message="the version is not in canonical form")
        return version


def _flag(value: Any) -> bool:
    return check_flag("mechanism.inverted", value)


def applied(content: bytes, version: Version) -> bytes:
    """The canonical bytes of the effective query, from those that the analyst signed.

    >>> version = Version("ab" * 32, 2, 0.5, {"p": 0.25})
    >>> query = {"mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.5}, "sampling": 1.0, "serial": 1, "strata": []}
    >>> canonical.decode(applied(canonical.encode(query), version))["mechanism"]["p"]
    0.25
    """
    tree = canonical.decode(content)
    coins = {
        name: value for name, value in version.mechanism.items() if name != "inverted" or value
    }
    kept = {
        name: value
        for name, value in tree["mechanism"].items()
        if name != "inverted" or "inverted" not in version.mechanism
    }
    tree |= {"serial": version.serial, "sampling": version.sampling, "mechanism": {**kept, **coins}}
    if version.strata is not None:
        if len(version.strata) != len(tree["strata"]):
            raise ParameterError(
                "strata",
                len(version.strata),
                f"must be {len(tree['strata'])}: one for each of the query's",
            )
        tree["strata"] = [
            {**table, "sampling": s}
            for table, s in zip(tree["strata"], version.strata, strict=True)
        ]
    return canonical.encode(tree)
