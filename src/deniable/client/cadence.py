"""When a device asks for queries, answers and uploads: at times drawn in advance, however long the
work in between takes.

A client that slept *after* its work would put the duration of an analyst's SQL between two polls,
where a proxy can read it. So time is cut into rounds of equal length. In the first half of a round,
at times drawn for it, the device talks to its proxies: once to ask for queries, once to upload what
is due. The second half is for answering, and nothing is sent in it. Each answer has a slot of fixed
length (:attr:`Policy.slot`), longer than SQL that is cut off at its deadline can take; only as many
queries are answered in a round as fit, and their answers are sent in later rounds.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deniable.client.device import Device
from deniable.client.receipts import Receipt
from deniable.client.upload import Transport, Uploaded
from deniable.errors import ParameterError
from deniable.randomness import Source

__all__ = ["Cadence", "Round", "rounds"]

_PARTS = 1000
_LATE = 1
"""How many seconds late a machine may wake up: slots have more to spare."""


@dataclass(frozen=True)
class Round:
    """The times of one round, in seconds of a clock that only goes forward."""

    fetch: float
    upload: float
    answer: float
    end: float


@dataclass(frozen=True)
class Cadence:
    """Rounds of `every` seconds, for answers that have `slot` seconds each.

    >>> from deniable import seeded_source
    >>> cadence = Cadence(every=60, slot=6)
    >>> cadence.room(30), cadence.room(20)
    (5, 3)
    >>> one = next(cadence.times(1000, seeded_source(1)))
    >>> 1000 <= one.fetch < 1030 and 1000 <= one.upload < 1030 and (one.answer, one.end) == (1030, 1060)
    True
    """

    every: int
    slot: int

    def __post_init__(self) -> None:
        least = max(1, 2 * self.slot)
        if isinstance(self.every, bool) or not isinstance(self.every, int) or self.every < least:
            rule = (
                f"must be at least {least} seconds: half of a round is for answers, and one may"
                f" take {self.slot} seconds"
            )
            raise ParameterError("every", self.every, rule)

    def room(self, seconds: float) -> int | None:
        """How many answers fit into the rest of a round: fewer if the network was slow."""
        if not self.slot:
            return None
        return max(0, min(self.every // 2, int(seconds + _LATE)) // self.slot)

    def times(self, start: float, source: Source) -> Iterator[Round]:
        """The rounds from `start` on, each drawn before it begins, from coins only."""
        for i in itertools.count():
            begin, half = start + i * self.every, self.every / 2
            fetch, upload = (half * int(part) / _PARTS for part in source.below(_PARTS, 2))
            yield Round(begin + fetch, begin + upload, begin + half, begin + self.every)


def rounds(
    device: Device,
    transport: Transport,
    cadence: Cadence,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[list[Receipt], Uploaded]]:
    """Run the rounds; yields the result of each at its end. Rounds that the machine slept through
    are skipped."""

    def until(moment: float) -> None:
        sleep(max(0.0, moment - clock()))

    for each in cadence.times(clock(), device.source):
        if each.end <= clock():
            continue
        found: list[bytes] | None = None
        uploaded = Uploaded()
        for moment, fetches in sorted([(each.fetch, True), (each.upload, False)]):
            until(moment)
            if fetches:
                found = device.fetch(transport)
            else:
                uploaded = device.upload(transport)
        until(each.answer)
        receipts = device.answer_all(found, most=cadence.room(each.end - clock()))
        until(each.end)
        yield receipts, uploaded
