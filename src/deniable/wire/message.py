"""The message: one randomized answer with what the aggregator needs to count it, and the key and
tag that reveal tampering.

In 64-bit little-endian words, of a row of `row_words(c)` words whose first two are the message id
(docs/wire.md):

    word 0      version, kind, stratum (16 bits), epoch (32 bits)
    word 1      query tag
    words 2 …   the report, padded with zeros
    last three  key (two words), SipHash-2-4 of all words before the key

XOR shares are malleable: anyone who flips a bit of a share flips it in the message. The key is
drawn for each message and travels inside it, so it is shared too and no proxy knows it; a proxy
that changes its share would have to guess the change of the tag, with one chance in 2**64 (the idea
of algebraic manipulation detection: Cramer, Dodis, Fehr, Padró and Wichs, EUROCRYPT 2008).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import is_whole, whole
from deniable.errors import ParameterError, WireError
from deniable.wire.sizes import SIZE_CLASSES, capacity, row_words
from deniable.wire.tags import siphash, siphash_columns

__all__ = [
    "ANSWER",
    "NOTHING",
    "VERSION",
    "Message",
    "MessageFault",
    "Opened",
    "check_stamp",
    "message_words",
    "open_columns",
    "seal_columns",
]

VERSION = 1
ANSWER = 0
"""The kind of a message with a randomized answer."""
NOTHING = 1
"""The kind of a message that says there is no answer; its report is zeros. Cover traffic, for
queries that ask for it."""
CHUNK = 16_384
"""Columns processed at once: the state of their hash stays in a core's cache."""

_Words = NDArray[np.uint64]


class MessageFault(IntEnum):
    """Why a joined message is not counted; checked in this order, and named in lower case as the
    reason of a `WireError`."""

    NONE = 0
    TAG = 1
    VERSION = 2
    KIND = 3
    EPOCH = 4
    PADDING = 5


def check_stamp(what: str, version: int, found: int, kind: int) -> None:
    """Refuse a record whose first two bytes are not this library's version and the expected
    kind."""
    if version != VERSION:
        raise WireError(
            "version", f"{what} of version {version}: this library reads version {VERSION}"
        )
    if found != kind:
        raise WireError(
            "kind", f"these bytes are not {what}: the second is {found:#04x}, not {kind:#04x}"
        )


def message_words(size_class: int) -> int:
    """The number of words of a message of this class."""
    if not is_whole(size_class) or size_class not in SIZE_CLASSES:
        raise WireError(
            "size_class", f"size class {size_class!r} is not one of 0 to {SIZE_CLASSES[-1]}"
        )
    return row_words(size_class) - 2


def _head(kind: int, stratum: int, epoch: int) -> int:
    for name, value, most in (
        ("kind", kind, NOTHING),
        ("stratum", stratum, (1 << 16) - 1),
        ("epoch", epoch, (1 << 32) - 1),
    ):
        whole(name, value, 0, most)
    return VERSION | kind << 8 | stratum << 16 | epoch << 32


@dataclass(frozen=True)
class Message:
    """One randomized answer on its way. The report is padded with zeros to the capacity of its size
    class."""

    query_tag: int
    epoch: int
    report: bytes
    stratum: int = 0
    kind: int = ANSWER

    def __repr__(self) -> str:
        return f"<message for query {self.query_tag:016x}, epoch {self.epoch}>"

    def seal(self, size_class: int, key: tuple[int, int]) -> bytes:
        """The message's bytes, tagged under a fresh random key."""
        message_words(size_class)
        space = capacity(size_class)
        if len(self.report) > space:
            rule = f"must fit in the {space} bytes of size class {size_class}"
            raise ParameterError("report", f"{len(self.report)} bytes", rule)
        if self.kind == NOTHING and any(self.report):
            raise ParameterError(
                "report", f"{len(self.report)} bytes", "must be zeros in an empty message"
            )
        body = struct.pack(
            "<QQ", _head(self.kind, self.stratum, self.epoch), self.query_tag
        ) + self.report.ljust(space, b"\0")
        words = struct.unpack(f"<{len(body) // 8}Q", body)
        return body + struct.pack("<QQQ", *key, siphash(key, words))

    @classmethod
    def open(cls, content: bytes, size_class: int, epoch: int) -> Message:
        """The message in these bytes, if its tag, version, kind and epoch are valid; `epoch` is
        what its shares said in clear."""
        n_words = message_words(size_class)
        if len(content) != 8 * n_words:
            reason = "truncated" if len(content) < 8 * n_words else "trailing"
            raise WireError(
                reason,
                f"a message of size class {size_class} has {8 * n_words} bytes, not {len(content)}",
            )
        *words, key0, key1, tag = struct.unpack(f"<{n_words}Q", content)
        if siphash((key0, key1), words) != tag:
            raise WireError(
                "tag",
                "the tag does not match: a share was changed, or the shares belong to different"
                " messages",
            )
        version, kind, stratum, stated = struct.unpack_from("<BBHI", content)
        report = content[16:-24]
        if version != VERSION:
            raise WireError(
                "version", f"a message of version {version}: this library reads version {VERSION}"
            )
        if kind > NOTHING:
            raise WireError(
                "kind", f"a message of kind {kind}: only {ANSWER} and {NOTHING} are known"
            )
        if stated != epoch:
            raise WireError(
                "epoch", f"the message is of epoch {stated}, but its shares came as epoch {epoch}"
            )
        if kind == NOTHING and any(report):
            raise WireError("padding", "an empty message has contents")
        return cls(words[1], stated, report, stratum, kind)

    def trimmed(self, n_bytes: int) -> bytes:
        """The report without its padding, for a query whose reports take `n_bytes`; refused if the
        padding is not zeros."""
        if n_bytes > len(self.report) or any(self.report[n_bytes:]):
            raise WireError("padding", f"what follows the {n_bytes} bytes of report is not zeros")
        return self.report[:n_bytes]


def seal_columns(
    reports: NDArray[Any],
    query_tag: int,
    epoch: int,
    strata: Any,
    kinds: Any,
    keys: _Words,
    size_class: int,
    out: _Words,
) -> None:
    """Write many messages into the columns of `out`, `message_words` rows of words: the bulk form
    of :meth:`Message.seal`.

    `reports` has one row per message; `keys` two rows of words; `strata` and `kinds` are numbers or
    one for each message.
    """
    n, length = reports.shape
    if length > capacity(size_class):
        rule = f"must fit in the {capacity(size_class)} bytes of size class {size_class}"
        raise ParameterError("reports", f"{length} bytes", rule)
    head = np.full(n, _head(ANSWER, 0, epoch), dtype=np.uint64)
    for name, values, shift, most in (
        ("kinds", kinds, 8, NOTHING),
        ("strata", strata, 16, (1 << 16) - 1),
    ):
        column = np.asarray(values)
        if column.size and (
            column.dtype.kind not in "iub" or column.min() < 0 or column.max() > most
        ):
            raise ParameterError(name, "an array", f"must hold whole numbers from 0 to {most}")
        head |= column.astype(np.uint64) << np.uint64(shift)
    said = (
        reports
        if not np.any(kinds)
        else reports * (np.asarray(kinds) != NOTHING).astype(np.uint8).reshape(-1, 1)
    )
    out[0], out[1] = head, query_tag
    n_words = -(-length // 8)
    padded = np.zeros((n, 8 * n_words), dtype=np.uint8)
    padded[:, :length] = said
    out[2 : 2 + n_words] = padded.view("<u8").T
    out[2 + n_words : -3] = 0
    out[-3:-1] = keys
    for start in range(0, n, CHUNK):
        part = slice(start, start + CHUNK)
        out[-1, part] = siphash_columns(out[-3, part], out[-2, part], out[:-3, part])


@dataclass(frozen=True, repr=False)
class Opened:
    """Many joined messages: their words, and what is wrong with each of them, if anything."""

    words: _Words
    faults: NDArray[np.uint8]

    def __len__(self) -> int:
        return int(self.words.shape[1])

    def __repr__(self) -> str:
        return f"<{len(self):,} messages, {np.count_nonzero(self.faults):,} of them at fault>"

    @property
    def query_tags(self) -> _Words:
        """The query tag of each message."""
        tags: _Words = self.words[1]
        return tags

    @property
    def kinds(self) -> NDArray[np.uint8]:
        """The kind of each message."""
        return np.asarray(self.words[0] >> np.uint64(8)).astype(np.uint8)

    @property
    def strata(self) -> NDArray[np.uint16]:
        """The stratum of each message."""
        return np.asarray(self.words[0] >> np.uint64(16)).astype(np.uint16)

    def reports(self, query_tag: int, n_bytes: int) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
        """The reports of one query, one row each, and their positions among the messages.

        Marks messages padded with anything but zeros as faulty; leaves out faulty and empty ones.
        """
        if not 1 <= n_bytes <= 8 * (len(self.words) - 5):
            raise ParameterError(
                "n_bytes", n_bytes, f"must lie between 1 and {8 * (len(self.words) - 5)}"
            )
        mine = (self.words[1] == np.uint64(query_tag)) & (self.faults == 0) & (self.kinds == ANSWER)
        whole, spare = divmod(n_bytes, 8)
        first_free = 2 + whole + (spare > 0)
        dirty = self.words[first_free:-3].any(axis=0)
        if spare:
            dirty |= self.words[first_free - 1] >> np.uint64(8 * spare) != 0
        self.faults[mine & dirty] = MessageFault.PADDING
        places = np.flatnonzero(mine & ~dirty)
        rows = (
            np.ascontiguousarray(self.words[2:first_free, places].T)
            .view(np.uint8)
            .reshape(places.size, 8 * (first_free - 2))
        )
        return np.ascontiguousarray(rows[:, :n_bytes]), places

    def counts_by_fault(self) -> dict[str, int]:
        """How many messages there are of each fault, by its name in lower case."""
        found = np.bincount(self.faults, minlength=len(MessageFault))
        return {fault.name.lower(): int(found[fault]) for fault in MessageFault if fault}


def open_columns(words: _Words, epoch: int) -> Opened:
    """Check many joined messages, given as columns of words: the bulk form of
    :meth:`Message.open`."""
    n = words.shape[1]
    faults = np.empty(n, dtype=np.uint8)
    for start in range(0, n, CHUNK):
        part = words[:, start : start + CHUNK]
        tags = siphash_columns(part[-3], part[-2], part[:-3])
        head = part[0]
        # The usual head: this version, an answer, this epoch; any stratum. Only what differs is
        # examined further.
        usual = head & np.uint64(0xFFFFFFFF0000FFFF) == np.uint64(_head(ANSWER, 0, epoch))
        found = faults[start : start + CHUNK]
        found[:] = tags != part[-1]
        rest = np.flatnonzero(~usual & (found == 0))
        if rest.size:
            found[rest] = _faults_of_heads(part[:, rest], epoch)
    return Opened(words, faults)


def _faults_of_heads(words: _Words, epoch: int) -> NDArray[np.uint8]:
    head = words[0]
    kind = head >> np.uint64(8) & np.uint64(0xFF)
    out = np.zeros(head.size, dtype=np.uint8)
    out[(kind == NOTHING) & words[2:-3].any(axis=0)] = MessageFault.PADDING
    out[head >> np.uint64(32) != np.uint64(epoch)] = MessageFault.EPOCH
    out[kind > NOTHING] = MessageFault.KIND
    out[head & np.uint64(0xFF) != VERSION] = MessageFault.VERSION
    return out
