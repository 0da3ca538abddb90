"""The controller's rule: from the error that a window achieved to the sampling and coins of the
next epochs.

The target is a half-width w of the 95 % interval for every proportion. With M people who could
answer in a window, s of whom are sampled, and bits that are 1 with probability a for a true bucket
and b for another, the half-width for a proportion f is

    h = z sqrt( (lam (1 - lam) / (a - b)^2 - s R f (1 - f)) / (s M) ),        lam = b + (a - b) f,  z = 1.96

where R is the fraction of a stated population that could answer (0 if none is stated). For given
coins this determines s. Of the settings that meet the target, those that a person's budget can pay
for until the end of the query come first: ledgers count s times the local epsilon per epoch, and
devices whose budget is used up fall silent. Among them, the one with the smallest *sampled*
epsilon, ln(1 + s (E - 1)), is chosen, because that is what the analyst learns about a person. If
the budget lasts with none of them, the setting that spends it slowest is chosen.

Hysteresis. Plans aim at 0.85 w. Nothing changes while the expected error stays between 0.7 w and w,
so that chance alone changes nothing; a setting that was changed within the last three windows stays
unless the error would exceed 1.15 w.

Caution. Nothing is raised while people are still joining, because the error is about to fall by
itself. A change at most doubles the sampling, and an answer costs at most half as much again as
before; what protects people more is done at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AIM",
    "Coins",
    "Decision",
    "Limits",
    "Outlook",
    "Setting",
    "best_setting",
    "decide",
    "expected_error",
    "sustainable_rate",
]

AIM = 0.85
"""A plan's error, relative to the target."""
_SPARING, _URGENT = 0.7, 1.15
_WINDOWS_BETWEEN_CHANGES = 3
_SAMPLING_STEP, _EPSILON_STEP = 2.0, 1.5
"""The most by which one change may multiply the sampling, and the local epsilon."""
_Z = 1.959963984540054
_SPARE_COHORT = 1.25
_GAIN = 0.95
"""A change that cannot meet the target is made only if it reduces the error below this fraction."""
_Floats = NDArray[np.float64]
_P_STEPS, _Q_STEPS = 121, 61


@dataclass(frozen=True)
class Setting:
    """Sampling and coins, as a version of a query states them."""

    sampling: float
    coins: Mapping[str, float | bool]
    """`p`, `q` and, if answers are inverted, `inverted`; or `epsilon`."""

    def words(self) -> str:
        """In a few words: 's = 0.4, p = 0.3, q = 0.5'."""
        coins = [f"{name} = {value:g}" for name, value in self.coins.items() if name != "inverted"]
        inverted = ["inverted"] if self.coins.get("inverted") else []
        return ", ".join([f"s = {self.sampling:g}", *coins, *inverted])


@dataclass(frozen=True)
class Coins:
    """Coins to choose from: for each, its parameters, the channel (a, b) of a bit, and the local
    epsilon of a whole answer."""

    parameters: Sequence[Mapping[str, float | bool]]
    a: _Floats
    b: _Floats
    epsilon: _Floats

    @classmethod
    def two(
        cls,
        p: tuple[float, float],
        q: tuple[float, float],
        changes: int = 1,
        inversion: bool = False,
    ) -> Coins:
        """TwoCoin with p and q in these ranges, on a grid; an answer changes `changes` times the
        bits of a one-hot one.

        >>> coins = Coins.two((0.5, 0.5), (0.5, 0.5))
        >>> coins.parameters, coins.epsilon.round(4).tolist()
        ([{'p': 0.5, 'q': 0.5}], [2.1972])
        """
        ps, qs = _grid(p, _P_STEPS), _grid(q, _Q_STEPS)
        every_p, every_q = (axis.reshape(-1) for axis in np.meshgrid(ps, qs, indexing="ij"))
        keep = (every_p < 1) & (every_q < 1)
        every_p, every_q = every_p[keep], every_q[keep]
        b = (1 - every_p) * every_q
        a = b + every_p
        loss = changes * np.log(a * (1 - b) / (b * (1 - a)))
        named: list[Mapping[str, float | bool]] = [
            {"p": x, "q": y} for x, y in zip(every_p.tolist(), every_q.tolist(), strict=True)
        ]
        if not inversion:
            return cls(named, a, b, loss)
        inverted = [{**each, "inverted": True} for each in named]
        return cls(
            [*named, *inverted],
            np.concatenate([a, b]),
            np.concatenate([b, a]),
            np.concatenate([loss, loss]),
        )

    def through(self, step: Mapping[str, float] | None, changes: int = 1) -> Coins:
        """The same coins, whose bits are kept and reported through an instantaneous step; `epsilon`
        is then that of one report.

        >>> Coins.two((0.5, 0.5), (0.5, 0.5)).through({"p": 0.25, "q": 0.75}).epsilon.round(4).tolist()
        [1.0217]
        """
        if step is None:
            return self
        a, b = (step["p"] + (step["q"] - step["p"]) * one for one in (self.a, self.b))
        # inverted coins have a < b
        ratio = np.maximum(a * (1 - b) / (b * (1 - a)), b * (1 - a) / (a * (1 - b)))
        return Coins(self.parameters, a, b, changes * np.log(ratio))

    def within(self, ceiling: float) -> Coins:
        """Those whose answers cost at most `ceiling`."""
        kept = np.flatnonzero(self.epsilon <= ceiling * (1 - 1e-9))
        return Coins(
            [self.parameters[i] for i in kept.tolist()],
            self.a[kept],
            self.b[kept],
            self.epsilon[kept],
        )


def _grid(bounds: tuple[float, float], steps: int) -> _Floats:
    """Round numbers inside the bounds, with the bounds themselves."""
    low, high = bounds
    if low == high:
        return np.array([low])
    inner = np.round(np.linspace(low, high, steps), 3)
    return np.unique(np.concatenate([[low, high], inner[(inner > low) & (inner < high)]]))


@dataclass(frozen=True)
class Limits:
    """What a controller may choose from."""

    sampling: tuple[float, float]
    coins: Coins
    minimum_cohort: int = 1
    spending: float = math.inf
    """The expected local epsilon per person and epoch for which the budget lasts."""
    caps: _Floats | None = None
    """For each coin, the largest sampling that other budgets allow."""
    bound: str = "inside the envelope"
    """What ends the choice, in words."""

    def one_step_from(self, sampling: float, epsilon: float) -> Limits:
        """What one change may choose: at most twice the sampling, and answers that cost at most 1.5
        times as much.

        >>> step = Limits((0.1, 1.0), Coins.two((0.1, 0.9), (0.5, 0.5))).one_step_from(0.2, 2.0)
        >>> step.sampling, bool(step.coins.epsilon.max() <= 3.0)
        ((0.1, 0.4), True)
        """
        low, high = self.sampling
        most, coins = (
            max(low, _SAMPLING_STEP * sampling),
            self.coins.within(_EPSILON_STEP * epsilon),
        )
        if most >= high and len(coins.parameters) == len(self.coins.parameters):
            return self
        return replace(
            self, sampling=(low, min(high, most)), coins=coins, bound="that one step allows"
        )


@dataclass(frozen=True)
class Outlook:
    """What the next window is expected to look like if participation stays the same."""

    people: float
    """How many people could answer in it, each counted once per epoch: n / s of the newest epoch,
    for each epoch of a window."""
    proportions: Sequence[float] | None = None
    """The latest estimated proportions; None if there is no estimate, in which case the hardest
    ones are assumed."""
    reached: float = 0.0
    """The fraction of the stated population that could answer in an epoch; 0 if no population is
    stated."""

    def planned_proportions(self) -> _Floats:
        """The proportions to plan for."""
        if self.proportions is None:
            return np.linspace(0, 1, 21)
        return np.clip(np.asarray(self.proportions, dtype=np.float64), 0, 1)


@dataclass(frozen=True)
class Decision:
    """The setting for the next epochs, and why; `changed` says whether it is new."""

    setting: Setting
    changed: bool
    reason: str
    expected: float
    """The expected error of the setting."""


def _variances(coins: Coins, proportions: _Floats) -> _Floats:
    """n times the variance for each of the coins (rows) and proportions (columns), in an infinite
    population."""
    gap = coins.a - coins.b
    lam = coins.b[:, None] + gap[:, None] * proportions
    out: _Floats = lam * (1 - lam) / gap[:, None] ** 2
    return out


def expected_error(a: float, b: float, sampling: float, outlook: Outlook) -> float:
    """The half-width of the widest 95 % interval of a window.

    >>> round(expected_error(0.75, 0.25, 1.0, Outlook(people=10_000, proportions=[0.5])), 4)
    0.0196
    """
    proportions = outlook.planned_proportions()
    one = Coins([{}], np.array([a]), np.array([b]), np.zeros(1))
    spared = sampling * outlook.reached * proportions * (1 - proportions)
    worst = float((_variances(one, proportions)[0] - spared).max())
    return (
        _Z * math.sqrt(max(worst, 0.0) / (sampling * outlook.people))
        if outlook.people > 0
        else math.inf
    )


def best_setting(limits: Limits, outlook: Outlook, target: float) -> tuple[Setting, float]:
    """The best setting whose error is at most `target`, and its error. If there is none, the
    setting with the smallest error."""
    coins, proportions = limits.coins, outlook.planned_proportions()
    low, high = limits.sampling
    people = max(outlook.people, 1e-9)
    variances = _variances(coins, proportions)
    spared = outlook.reached * proportions * (1 - proportions)
    needed = (_Z**2 * variances / (target**2 * people + _Z**2 * spared)).max(axis=1)
    most = np.full(needed.size, high) if limits.caps is None else np.minimum(limits.caps, high)
    least = max(low, min(high, _SPARE_COHORT * limits.minimum_cohort / people))
    sampling = np.minimum(np.maximum(needed, least), most)
    feasible = needed <= most
    spent = sampling * coins.epsilon
    if (feasible & (spent <= limits.spending)).any():
        goal = np.where(
            feasible & (spent <= limits.spending),
            np.log1p(sampling * np.expm1(coins.epsilon)),
            math.inf,
        )
    elif feasible.any():
        goal = np.where(feasible, spent, math.inf)
    else:
        sampling = most
        goal = (variances - most[:, None] * spared).max(axis=1) / (most * people)
    chosen = int(np.flatnonzero(goal <= goal.min() * (1 + 1e-9))[0])
    setting = Setting(
        _rounded_up(float(sampling[chosen]), float(most[chosen])), dict(coins.parameters[chosen])
    )
    return setting, expected_error(
        float(coins.a[chosen]), float(coins.b[chosen]), setting.sampling, outlook
    )


def sustainable_rate(budget: float, epochs: int, dearest: float) -> float:
    """The expected spending per person and epoch with which a budget lasts for some epochs with
    probability 97.5 %.

    A device answers each epoch with probability s. With rate r = s epsilon, it spends r T in T
    epochs, with a standard deviation of at most sqrt(r epsilon T), so that r T + 2 sqrt(r epsilon
    T) must be within the budget; `dearest` is the largest epsilon.

    >>> round(sustainable_rate(100.0, 100, 1.0), 3)
    0.819
    """
    if epochs <= 0:
        return math.inf
    spread = math.sqrt(dearest * epochs)
    return ((math.sqrt(dearest * epochs + epochs * max(budget, 0.0)) - spread) / epochs) ** 2


def _rounded_up(value: float, most: float) -> float:
    """To three significant digits, and not above `most`."""
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return min(math.ceil(value * scale - 1e-9) / scale, most)


def decide(
    margin: float,
    present: Setting,
    channel: tuple[float, float],
    limits: Limits,
    outlook: Outlook,
    windows_since_change: int | None = None,
    *,
    joining: bool = False,
) -> Decision:
    """The parameters for the next epochs. `channel` is (a, b) of the current coins; `joining` says
    that the number of people is still growing.

    >>> limits = Limits((0.1, 1.0), Coins.two((0.2, 0.5), (0.5, 0.5)))
    >>> half, channel = Setting(0.5, {"p": 0.5, "q": 0.5}), (0.75, 0.25)
    >>> decide(0.05, half, channel, limits, Outlook(10_000, [0.1])).reason
    'the expected error, ± 2.54 points, is far below the target of ± 5.00'
    >>> decide(0.03, half, channel, limits, Outlook(10_000, [0.1])).changed
    False
    >>> decide(0.02, half, channel, limits, Outlook(10_000, [0.1])).setting.words()
    's = 1, p = 0.5, q = 0.5'
    """
    expected = expected_error(*channel, present.sampling, outlook)
    recent = windows_since_change is not None and windows_since_change < _WINDOWS_BETWEEN_CHANGES
    stays = Decision(present, False, "", expected)
    shown = f"the expected error, {_points(expected)}"
    if expected > (margin * _URGENT if recent else margin):
        if joining:
            return stays
        reason = f"{shown}, is above the target of ± {100 * margin:.2f}"
    elif expected < _SPARING * margin and not recent:
        reason = f"{shown}, is far below the target of ± {100 * margin:.2f}"
    else:
        return stays
    setting, reached = best_setting(limits, outlook, AIM * margin)
    if setting == present:
        return stays
    if reached > margin:
        if reached > _GAIN * expected:  # at the edge of the envelope: nothing to be gained
            return stays
        reason += f"; {_points(reached)} is the least {limits.bound}"
    return Decision(setting, True, reason, reached)


def _points(error: float) -> str:
    return f"± {100 * error:.2f} points"
