"""The posterior of a prevalence after a survey, on a grid, by Bayes' rule and the design's exact
channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence, check_range
from deniable.display import Bar, Display, pandas
from deniable.errors import ParameterError
from deniable.results import Result, fields_of

__all__ = ["PrevalencePosterior", "prevalence_posterior"]

_Floats = NDArray[np.float64]
_POINTS = 4_001
_POINTS_A_SIDE = 501
_ZOOMS = 6
_LEVELS = 4_001
"""How many quantiles are kept: linear interpolation is then accurate to 1e-5 standard
deviations."""
_NEGLIGIBLE = 40.0
"""Where the log-density is this far below its maximum, a double has nothing left to add."""


@dataclass(frozen=True, eq=False)
class PrevalencePosterior(Result):
    """The posterior of one or more parameters, each by itself: mean, standard deviation and
    quantiles."""

    design: str
    names: tuple[str, ...]
    mean: _Floats
    sd: _Floats
    quantiles: _Floats
    """One row per parameter: the quantiles at equally spaced levels from 0 to 1."""
    prior: str
    n: tuple[int, ...]
    epsilon: float
    meanings: Mapping[str, str]

    @classmethod
    def of_points(cls, points: _Floats, weights: _Floats, **described: Any) -> PrevalencePosterior:
        """From points, one row each with one column per parameter, and their probabilities."""
        mean = weights @ points
        levels = np.linspace(0, 1, _LEVELS)
        rows = []
        for values in points.T:
            order = np.argsort(values, kind="stable")
            mass = weights[order]
            rows.append(np.interp(levels, np.cumsum(mass) - mass / 2, values[order]))
        return cls(
            mean=mean,
            sd=np.sqrt(weights @ (points - mean) ** 2),
            quantiles=np.array(rows),
            **described,
        )

    def quantile(self, level: float, name: str | None = None) -> float:
        """The value below which a parameter (by default the first) lies with this probability."""
        check_range("level", level, above=0, below=1)
        return float(np.interp(level, np.linspace(0, 1, _LEVELS), self._row(name)))

    def probability(self, low: float, high: float, name: str | None = None) -> float:
        """The probability that a parameter lies between two values."""
        start, end = np.interp(
            [low, high], self._row(name), np.linspace(0, 1, _LEVELS), left=0.0, right=1.0
        )
        return float(end - start)

    def credible_interval(
        self, confidence: float = 0.95, name: str | None = None, kind: str = "equal-tailed"
    ) -> tuple[float, float]:
        """Where a parameter lies with the given probability: with equal tails, or the shortest
        interval ("highest-density").

        It describes belief after this survey, given the prior; it is not a confidence interval,
        although on average over the prior it covers.
        """
        check_confidence(confidence)
        if kind not in {"equal-tailed", "highest-density"}:
            raise ParameterError("kind", kind, "must be 'equal-tailed' or 'highest-density'")
        if kind == "equal-tailed":
            return self.quantile((1 - confidence) / 2, name), self.quantile(
                (1 + confidence) / 2, name
            )
        starts, levels, values = (
            np.linspace(0, 1 - confidence, 2_001),
            np.linspace(0, 1, _LEVELS),
            self._row(name),
        )
        low, high = (
            np.interp(starts, levels, values),
            np.interp(starts + confidence, levels, values),
        )
        at = int((high - low).argmin())
        return float(low[at]), float(high[at])

    def _row(self, name: str | None) -> _Floats:
        wanted = self.names[0] if name is None else name
        if wanted not in self.names:
            raise ParameterError("name", wanted, f"must be one of {', '.join(self.names)}")
        return np.asarray(self.quantiles[self.names.index(wanted)])

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with medians and credible intervals."""
        limits = [self.credible_interval(confidence, name) for name in self.names]
        return {
            **fields_of(self),
            "median": [self.quantile(0.5, name) for name in self.names],
            "credible_low": [low for low, _ in limits],
            "credible_high": [high for _, high in limits],
            "confidence": confidence,
        }

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row per parameter."""
        document = self.to_dict(confidence)
        columns = ("mean", "sd", "median", "credible_low", "credible_high")
        return pandas().DataFrame(
            {column: document[column] for column in columns}, index=list(self.names)
        )

    def _display(self, confidence: float = 0.95) -> Display:
        rows: list[tuple[Any, ...]] = []
        for name, mean, sd in zip(self.names, self.mean, self.sd, strict=True):
            rows.append((name, float(mean), float(sd), *self.credible_interval(confidence, name)))
        bars = [
            Bar(self.meanings.get(name, "") or name, 100 * mean, 100 * low, 100 * high)
            for name, mean, _, low, high in rows
        ]
        columns = ("name", "mean", "sd", "credible_low", "credible_high")
        return Display(columns, rows, tuple(str(self).splitlines()[len(self.names) :]), bars, "%")

    def __str__(self) -> str:
        width, lines = max(map(len, self.names)), []
        for name, mean in zip(self.names, self.mean, strict=True):
            low, high = self.credible_interval(name=name)
            line = (
                f"{name:<{width}}  {100 * mean:6.2f} %, {100 * low:.2f} to {100 * high:.2f} %  "
                f" {self.meanings.get(name, '')}"
            )
            lines.append(line.rstrip())
        people = " + ".join(f"{n:,}" for n in self.n)
        loss = "infinite" if math.isinf(self.epsilon) else f"{self.epsilon:.4g}"
        lines.append(f"posterior mean and 95 % credible interval (equal tails), prior {self.prior}")
        shown = "" if math.isnan(self.epsilon) else f"; epsilon {loss}"
        return "\n".join([*lines, f"{self.design}: {people} people{shown}"])

    def __repr__(self) -> str:
        return f"<PrevalencePosterior of {', '.join(self.names)} by {self.design}>"


def prevalence_posterior(
    design: Any,
    counts: Any = None,
    *,
    n: Any = None,
    prior: Sequence[float] = (1.0, 1.0),
    rate_prior: Sequence[float] | None = None,
    **named: Any,
) -> PrevalencePosterior:
    """The posterior of a prevalence from counts of reports, given as for the design's
    `estimate_counts`.

    The likelihood is the product over reports u of (sum over v of P[u, v] pi_v)^count: that of the
    exact channel, without a normal approximation. `prior` is that of the prevalence, Beta(a, b):
    (1, 1) is uniform, (0.5, 0.5) Jeffreys' for a direct question. Unlike an unbiased estimate, the
    posterior never leaves 0 to 1. For a design with two samples (`yes` and `n` are pairs) the rate
    t, u or gamma has its own prior, `rate_prior`: uniform for t and u, and Beta(1, 2) for gamma, so
    that all proportions of honest carriers, honest others and cheaters are equally probable. The
    grid is refined until it holds all that matters. Winkler and Franklin, "Warner's randomized
    response model: a Bayesian approach", JASA 1979.

    >>> from deniable import Warner
    >>> print(prevalence_posterior(Warner(7 / 10), yes=412, n=1000))
    pi   28.04 %, 20.47 to 35.70 %
    posterior mean and 95 % credible interval (equal tails), prior Beta(1, 1)
    Warner(p='7/10'): 1,000 people; epsilon 0.8473
    """
    shape = _beta("prior", prior)
    if hasattr(design, "answer_chances"):
        return _two_samples(design, named.get("yes"), n, shape, rate_prior)
    if rate_prior is not None:
        raise ParameterError("rate_prior", rate_prior, "is for designs with two samples")
    tally = (
        design.counted(counts, n=n, **named)
        if hasattr(design, "counted")
        else design.gather(counts)
    )
    channel = design.channel()
    if not isinstance(channel, np.ndarray) or channel.shape[1] != 2:
        raise ParameterError("design", design, "must have two labels and reports that are numbered")
    if tally.n < 1:
        raise ParameterError("n", tally.n, "must be at least 1 person")
    reported = np.asarray(tally.counts, dtype=np.float64)

    def height(theta: _Floats) -> _Floats:
        proportion = np.sin(theta) ** 2
        rate = np.outer(1 - proportion, channel[:, 0]) + np.outer(proportion, channel[:, 1])
        with np.errstate(divide="ignore"):
            logs = np.where(reported > 0, reported * np.log(rate), 0.0).sum(axis=1)
        return np.asarray(logs + _prior_height(theta, shape))

    theta, weights = _zoomed(height)
    described = {
        "names": ("pi",),
        "prior": _name(shape),
        "n": (int(tally.n),),
        "epsilon": design.epsilon,
        "meanings": {},
    }
    return PrevalencePosterior.of_points(
        (np.sin(theta) ** 2)[:, None], weights, design=str(design), **described
    )


def _two_samples(
    design: Any, yes: Any, n: Any, shape: tuple[float, float], rate_prior: Any
) -> PrevalencePosterior:
    if yes is None or n is None:
        raise ParameterError(
            "yes", yes, message="yes and n must both be given, two numbers each: one per sample"
        )
    counts, people = design.counted(yes, n)
    cheats = design.compliance == "gamma"
    of_rate = _beta(
        "rate_prior", ((1.0, 2.0) if cheats else (1.0, 1.0)) if rate_prior is None else rate_prior
    )
    chances = np.array([design.answer_chances(sample) for sample in (0, 1)], dtype=np.float64)

    def height(theta: _Floats, phi: _Floats) -> _Floats:
        proportion, rate = np.sin(theta)[:, None] ** 2, np.sin(phi)[None, :] ** 2
        total = _prior_height(theta, shape)[:, None] + _prior_height(phi, of_rate)[None, :]
        for sample in (0, 1):
            (no, no_slope), (has, has_slope) = chances[sample]
            said = (1 - proportion) * (no + rate * no_slope) + proportion * (has + rate * has_slope)
            with np.errstate(divide="ignore", invalid="ignore"):
                for count, chance in (
                    (counts[sample], said),
                    (people[sample] - counts[sample], 1 - said),
                ):
                    total = total + (count * np.log(np.maximum(chance, 0)) if count else 0.0)
        return total

    theta, phi, weights = _zoomed_plane(height)
    proportion, rate = (
        np.repeat(np.sin(theta) ** 2, phi.size),
        np.tile(np.sin(phi) ** 2, theta.size),
    )
    columns = (
        [(1 - rate) * proportion, (1 - rate) * (1 - proportion), rate]
        if cheats
        else [proportion, rate]
    )
    believed = f"{_name(shape)}, of {design.compliance} {_name(of_rate)}"
    described = {
        "names": design.names,
        "prior": believed,
        "n": tuple(people),
        "epsilon": design.epsilon,
    }
    points = np.column_stack(columns)
    return PrevalencePosterior.of_points(
        points, weights.ravel(), design=str(design), meanings=design.meanings, **described
    )


def _beta(name: str, given: Sequence[float]) -> tuple[float, float]:
    if len(given) != 2 or not all(
        isinstance(x, int | float) and 0.5 <= x < math.inf for x in given
    ):
        raise ParameterError(
            name, list(given), "must be two numbers a, b of a Beta distribution, each at least 0.5"
        )
    return float(given[0]), float(given[1])


def _name(shape: tuple[float, float]) -> str:
    return f"Beta({shape[0]:g}, {shape[1]:g})"


def _prior_height(theta: _Floats, shape: tuple[float, float]) -> _Floats:
    """Log-density of Beta(a, b) in the angle whose squared sine is the proportion, where even
    Jeffreys' prior is finite at the ends."""
    a, b = shape
    return np.asarray((2 * a - 1) * np.log(np.sin(theta)) + (2 * b - 1) * np.log(np.cos(theta)))


def _middles(low: float, high: float, points: int) -> _Floats:
    return np.asarray(low + (np.arange(points) + 0.5) * (high - low) / points)


def _kept(heights: _Floats, low: float, high: float) -> tuple[float, float]:
    """The part of the range that matters, with one extra point on either side."""
    width = (high - low) / heights.size
    inside = np.flatnonzero(heights > heights.max() - _NEGLIGIBLE)
    return max(low, low + (inside[0] - 1) * width), min(high, low + (inside[-1] + 2) * width)


def _zoomed(height: Callable[[_Floats], _Floats]) -> tuple[_Floats, _Floats]:
    low, high = 0.0, math.pi / 2
    for _ in range(_ZOOMS):
        theta = _middles(low, high, _POINTS)
        heights = height(theta)
        closer = _kept(heights, low, high)
        if closer[1] - closer[0] > 0.5 * (high - low):
            break
        low, high = closer
    weights = np.exp(heights - heights.max())
    return theta, weights / weights.sum()


def _zoomed_plane(
    height: Callable[[_Floats, _Floats], _Floats],
) -> tuple[_Floats, _Floats, _Floats]:
    sides = [(0.0, math.pi / 2), (0.0, math.pi / 2)]
    for _ in range(_ZOOMS):
        theta, phi = (_middles(*side, _POINTS_A_SIDE) for side in sides)
        heights = height(theta, phi)
        closer = [_kept(heights.max(axis=1), *sides[0]), _kept(heights.max(axis=0), *sides[1])]
        if all(
            b - a > 0.5 * (high - low) for (a, b), (low, high) in zip(closer, sides, strict=True)
        ):
            break
        sides = closer
    weights = np.exp(heights - heights.max())
    return theta, phi, weights / weights.sum()
