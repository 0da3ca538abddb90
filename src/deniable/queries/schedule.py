"""When a query is answered and when its results are due: epochs and sliding windows, in whole
seconds of UTC. No floats."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import is_whole
from deniable.errors import ParameterError

__all__ = ["Schedule", "duration", "moment", "spoken_duration"]

LATEST = 1 << 40
"""The latest time, some 35,000 years away, so that sums of times stay far inside 64 bits."""
MOST_EPOCHS = 1 << 32
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"\s*(\d{1,12})\s*([a-z]+)\s*", re.ASCII)
DURATION_RULE = (
    "must be a number of whole seconds or a text such as '90 s', '10 min', '1 h', '7 d' or '2 w'"
)


def duration(name: str, given: Any) -> int:
    """A duration as whole seconds.

    >>> duration("every", "10 min")
    600
    """
    seconds = given
    if isinstance(given, str):
        found = _DURATION.fullmatch(given)
        if not found or found[2] not in _UNITS:
            raise ParameterError(name, given, DURATION_RULE)
        seconds = int(found[1]) * _UNITS[found[2]]
    if not is_whole(seconds):
        raise ParameterError(name, given, DURATION_RULE)
    if not 1 <= seconds <= LATEST:
        raise ParameterError(name, given, f"must lie between 1 second and {LATEST} seconds")
    return int(seconds)


def moment(name: str, given: Any) -> int:
    """A time in whole seconds since 1970 UTC."""
    if not is_whole(given) or not 0 <= given <= LATEST:
        raise ParameterError(name, given, "must be a whole number of seconds since 1970 UTC")
    return int(given)


def spoken_duration(seconds: int) -> str:
    """A duration in its largest whole unit: '10 min'."""
    unit = next(unit for unit in ("w", "d", "h", "min", "s") if seconds % _UNITS[unit] == 0)
    return f"{seconds // _UNITS[unit]} {unit}"


@dataclass(frozen=True)
class Schedule:
    """Epoch e is [origin + e every, origin + (e + 1) every); window w is [origin + w slide, origin
    + w slide + window).

    Devices answer once per epoch; a result is due once a window has passed. Windows consist of
    whole epochs.

    >>> hourly = Schedule(origin=0, expires=86400, every=600, window=3600, slide=1200)
    >>> hourly.epoch_of(1799), list(hourly.epochs_of_window(1)), list(hourly.windows_of_epoch(6))
    (2, [2, 3, 4, 5, 6, 7], [1, 2, 3])
    """

    origin: int
    expires: int
    every: int
    window: int
    slide: int

    def __post_init__(self) -> None:
        for name in ("origin", "expires"):
            object.__setattr__(self, name, moment(f"schedule.{name}", getattr(self, name)))
        for name in ("every", "window", "slide"):
            object.__setattr__(self, name, duration(f"schedule.{name}", getattr(self, name)))
        for name in ("window", "slide"):
            if getattr(self, name) % self.every:
                rule = f"must be a multiple of every = {self.every}: windows are whole epochs"
                raise ParameterError(f"schedule.{name}", getattr(self, name), rule)
        if self.slide > self.window:
            raise ParameterError(
                "schedule.slide",
                self.slide,
                f"must not exceed window = {self.window}: epochs would be lost",
            )
        if self.expires < self.origin + self.window:
            raise ParameterError(
                "schedule.expires", self.expires, "must leave time for one window after the origin"
            )
        if self.n_epochs > MOST_EPOCHS:
            raise ParameterError(
                "schedule.every",
                self.every,
                f"makes more than {MOST_EPOCHS} epochs before the query expires",
            )

    @property
    def n_epochs(self) -> int:
        """The number of whole epochs before the query expires."""
        return (self.expires - self.origin) // self.every

    @property
    def n_windows(self) -> int:
        """The number of whole windows before the query expires."""
        return (self.n_epochs * self.every - self.window) // self.slide + 1

    def epoch_of(self, time: int) -> int:
        """The epoch that contains a time."""
        if not is_whole(time):
            raise ParameterError("time", time, "must be a whole number of seconds since 1970 UTC")
        epoch = (int(time) - self.origin) // self.every
        if not 0 <= epoch < self.n_epochs:
            life = f"{self.origin} to {self.end_of_epoch(self.n_epochs - 1)}"
            raise ParameterError("time", time, f"must lie in the query's life, {life}")
        return epoch

    def epochs_of(self, times: NDArray[Any]) -> NDArray[np.int64]:
        """The epoch of each of many times, -1 for times outside the query's life."""
        times = np.asarray(times)
        if times.dtype.kind not in "iu":
            raise ParameterError(
                "times", times.dtype, "must be whole numbers of seconds since 1970 UTC"
            )
        epochs = (times.astype(np.int64) - self.origin) // self.every
        return np.where((epochs >= 0) & (epochs < self.n_epochs), epochs, -1)

    def start_of_epoch(self, epoch: int) -> int:
        """The first second of an epoch."""
        return self.origin + epoch * self.every

    def end_of_epoch(self, epoch: int) -> int:
        """The first second after an epoch."""
        return self.origin + (epoch + 1) * self.every

    def bounds_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Start and end of an epoch."""
        return self.start_of_epoch(epoch), self.end_of_epoch(epoch)

    def epochs_over(self, time: int) -> int:
        """How many epochs, counted from the first, have ended at a time.

        >>> hourly = Schedule(origin=0, expires=7200, every=3600, window=3600, slide=3600)
        >>> [hourly.epochs_over(time) for time in (-1, 3599, 3600, 90000)]
        [0, 0, 1, 2]
        """
        return min(max(0, (time - self.origin) // self.every), self.n_epochs)

    def epochs_begun(self, time: int) -> int:
        """How many epochs have begun at a time: those that are over, and the current one."""
        return min(max(0, (time - self.origin) // self.every + 1), self.n_epochs)

    def bounds_of_window(self, window: int) -> tuple[int, int]:
        """The first second of a window, and the first after it."""
        start = self.origin + window * self.slide
        return start, start + self.window

    def epochs_of_window(self, window: int) -> range:
        """The epochs of a window."""
        if not 0 <= window < self.n_windows:
            raise ParameterError("window", window, f"must lie between 0 and {self.n_windows - 1}")
        first = window * self.slide // self.every
        return range(first, first + self.window // self.every)

    def windows_of_epoch(self, epoch: int) -> range:
        """The windows that contain an epoch."""
        if not 0 <= epoch < self.n_epochs:
            raise ParameterError("epoch", epoch, f"must lie between 0 and {self.n_epochs - 1}")
        step, length = self.slide // self.every, self.window // self.every
        return range(
            max(0, -(-(epoch - length + 1) // step)), min(epoch // step + 1, self.n_windows)
        )

    def to_dict(self) -> dict[str, int]:
        """The constructor's arguments."""
        return {
            name: getattr(self, name) for name in ("origin", "expires", "every", "window", "slide")
        }
