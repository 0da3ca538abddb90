"""What a survey design learns: one or several parameters with standard errors, from rates of answers in one or more samples."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.intervals import p_text, score_limits, square_and_add
from deniable.estimation.statistic import Statistic, normal_reach

__all__ = ["AgreementTest", "DesignEstimate", "GroupRates", "ParameterTest", "agreement_test"]

_Floats = NDArray[np.float64]


def jeffreys_limits(yes: int, n: int, confidence: float) -> _Floats:
    """Low and high of a rate: equal tails of Beta(yes + 1/2, n - yes + 1/2), from 0 if nobody said yes and to 1 if all did.

    Brown, Cai and DasGupta, "Interval estimation for a binomial proportion", Statistical Science 2001. Its coverage stays
    nearer to what it claims than that of Wilson's interval, which at n = 500 falls to 93.9 % at some rates.
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - slow to import

    tail = (1 - confidence) / 2
    low = 0.0 if yes == 0 else float(betaincinv(yes + 0.5, n - yes + 0.5, tail))
    high = 1.0 if yes == n else float(betaincinv(yes + 0.5, n - yes + 0.5, 1 - tail))
    return np.array([low, high])


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Rates of "yes" in one or more samples, and the parameters that are linear in them: values = weights @ rates + shift."""

    rates: _Floats
    sizes: tuple[int, ...]
    nearest: _Floats
    """The rates as the errors take them: never 0 or 1, nor less than half of what the coins alone make them."""
    weights: _Floats = field(default_factory=lambda: np.zeros((0, 1)))
    shift: _Floats = field(default_factory=lambda: np.zeros(0))
    ratio: tuple[int, int] | None = None
    """The rows of numerator and denominator, where the last parameter is not linear but their ratio."""
    coins: tuple[float, float] | None = None
    """P(yes | carrier) and P(yes | other), where there is one sample: what a finite population's variance needs."""

    @classmethod
    def of(cls, counts: Sequence[int], sizes: Sequence[int], bounds: Sequence[tuple[float, float]]) -> GroupRates:
        """From counts of yes; `bounds` are the least and the largest rate that the design allows in each sample."""
        rates = np.array(counts, dtype=np.float64) / np.array(sizes, dtype=np.float64)
        low, high = np.array(bounds, dtype=np.float64).T
        half = 0.5 / np.array(sizes, dtype=np.float64)  # half a person: where all say the same, the next one still might not
        nearest = np.clip(rates, np.maximum(low / 2, half), np.minimum((1 + high) / 2, 1 - half))
        return cls(rates, tuple(int(n) for n in sizes), nearest)

    def linear(
        self,
        names: tuple[str, ...],
        weights: _Floats,
        shift: _Floats,
        *,
        design: str,
        epsilon: float,
        notes: tuple[str, ...] = (),
        population: int | None = None,
        coins: tuple[float, float] | None = None,
    ) -> DesignEstimate:
        """The parameters weights @ rates + shift, with both kinds of standard error."""
        full = dataclasses.replace(self, weights=np.asarray(weights), shift=np.asarray(shift), coins=coins)
        values = full.weights @ self.rates + full.shift
        covariances = {kind: full.covariance(kind, population) for kind in ("n-1", "n")}
        return DesignEstimate(
            design, names, values, covariances, self.sizes, epsilon, notes=notes, population=population, groups=full
        )

    def covariance(self, kind: str, population: int | None = None) -> _Floats:
        """Of the linear parameters; in a finite population (1 - n/U) V/(n - 1) + V_rr/U, V_rr being the coins' part of V."""
        less = 1 if kind == "n-1" else 0
        spread = self.nearest * (1 - self.nearest) / np.maximum(np.array(self.sizes) - less, 1)
        if population is not None and self.coins is not None:
            a, b = self.coins
            share = min(max((float(self.nearest[0]) - b) / (a - b), 0.0), 1.0)
            coins = share * a * (1 - a) + (1 - share) * b * (1 - b)
            spread = (1 - self.sizes[0] / population) * spread + coins / population
        return np.asarray((self.weights * spread) @ self.weights.T)

    def limits(self, values: _Floats, confidence: float, population: int | None) -> _Floats:
        """Limits by Jeffreys' interval of each rate, put together by square-and-add; a ratio's by Fieller's theorem.

        Of one sample out of a finite population the score interval is taken, whose variance knows of the population.
        """
        z = normal_reach(confidence)
        if population is not None and self.coins is not None:
            a, b = (np.array([p]) for p in self.coins)
            return score_limits(values, (a, b), self.sizes[0], population, z)
        alone = [jeffreys_limits(round(rate * n), n, confidence) for rate, n in zip(self.rates, self.sizes, strict=True)]
        out = np.empty((len(self.weights), 2))
        linear = self.weights @ self.rates + self.shift
        for row, weights in enumerate(self.weights):
            parts = [
                (1.0, np.array([w * rate]), np.sort(w * limits)[None])
                for w, rate, limits in zip(weights, self.rates, alone, strict=True)
            ]
            out[row] = square_and_add(linear[row : row + 1], parts)[0]
        if self.ratio is not None:
            top, bottom = self.ratio
            out[-1] = self._fieller(linear[top], linear[bottom], top, bottom, z)
        return out

    def _fieller(self, above: float, below: float, top: int, bottom: int, z: float) -> tuple[float, float]:
        """The ratios r for which above - r below lies within z of its standard errors of 0."""
        spread = self.nearest * (1 - self.nearest) / np.maximum(np.array(self.sizes) - 1, 1)
        u, v = self.weights[top], self.weights[bottom]
        vuu, vuv, vvv = (float((x * spread) @ y) for x, y in ((u, u), (u, v), (v, v)))
        square, linear, constant = below**2 - z**2 * vvv, above * below - z**2 * vuv, above**2 - z**2 * vuu
        inside = linear**2 - square * constant
        if square <= 0 or inside < 0:  # the denominator may be 0: no ratio is excluded
            return -math.inf, math.inf
        return (linear - math.sqrt(inside)) / square, (linear + math.sqrt(inside)) / square

    def to_dict(self) -> dict[str, Any]:
        """Plain lists."""
        return {
            "rates": self.rates.tolist(),
            "sizes": list(self.sizes),
            "nearest": self.nearest.tolist(),
            "weights": self.weights.tolist(),
            "shift": self.shift.tolist(),
            "ratio": None if self.ratio is None else list(self.ratio),
            "coins": None if self.coins is None else list(self.coins),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> GroupRates:
        """What :meth:`to_dict` described."""
        return cls(
            np.array(document["rates"]),
            tuple(document["sizes"]),
            np.array(document["nearest"]),
            np.array(document["weights"]),
            np.array(document["shift"]),
            None if document["ratio"] is None else (document["ratio"][0], document["ratio"][1]),
            None if document["coins"] is None else (document["coins"][0], document["coins"][1]),
        )


@dataclass(frozen=True)
class ParameterTest:
    """Whether a parameter has a given value: how far the estimate is from it, and how often chance alone goes as far."""

    name: str
    estimate: float
    value: float
    stderr: float

    @property
    def z(self) -> float:
        """The distance in standard errors."""
        return (
            (self.estimate - self.value) / self.stderr if self.stderr > 0 else math.copysign(math.inf, self.estimate - self.value)
        )

    @property
    def p_value(self) -> float:
        """Of both sides."""
        return math.erfc(abs(self.z) / math.sqrt(2))

    def __str__(self) -> str:
        return f"{self.name} = {self.value:g}: estimate {self.estimate:.4g}, z = {self.z:+.2f}, {p_text(self.p_value)}"


@dataclass(frozen=True, eq=False)
class DesignEstimate:
    """Estimated parameters of a survey design, with their covariance.

    Standard errors come in two kinds, and `errors` says which one is shown: with a divisor of "n-1" or "n" for estimates that
    are linear in the counts ("n" is also what both the observed and the expected information give for them), and by the
    "observed" or the "expected" information for maximum likelihood. :meth:`with_errors` switches.
    """

    design: str
    names: tuple[str, ...]
    values: _Floats
    covariances: Mapping[str, _Floats]
    """By kind; the first is the one shown."""
    n: tuple[int, ...]
    """People in each sample."""
    epsilon: float
    """The loss of the instruction, for people who follow it; infinite where an answer can be conclusive."""
    method: str = "moment"
    notes: tuple[str, ...] = ()
    population: int | None = None
    meanings: Mapping[str, str] = field(default_factory=dict)
    groups: GroupRates | None = None
    proportions: bool = True
    """Whether the parameters are proportions, to be shown as percentages and cut to [0, 1]."""

    @property
    def errors(self) -> str:
        """The kind of standard errors that is shown."""
        return next(iter(self.covariances))

    @property
    def covariance(self) -> _Floats:
        """Of the parameters."""
        return self.covariances[self.errors]

    @property
    def stderr(self) -> _Floats:
        """Standard error of each parameter."""
        return np.sqrt(np.diagonal(self.covariance))

    def with_errors(self, kind: str) -> DesignEstimate:
        """The same with the other kind of standard errors."""
        if kind not in self.covariances:
            raise ParameterError("errors", kind, f"must be one of {', '.join(map(repr, self.covariances))}")
        first = {kind: self.covariances[kind]}
        return self.replaced(covariances=first | {name: c for name, c in self.covariances.items() if name != kind})

    def __getitem__(self, name: str) -> Statistic:
        """One parameter, as a value with its standard error."""
        at = self._place(name)
        return Statistic(name, float(self.values[at]), float(self.stderr[at]), sum(self.n))

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ParameterError("parameter", name, f"must be one of {', '.join(self.names)}")
        return self.names.index(name)

    def interval(self, confidence: float = 0.95, method: str | None = None) -> _Floats:
        """One row a parameter: low and high.

        "jeffreys" puts Jeffreys' intervals of the samples' rates together (a ratio's by Fieller's theorem) and is cut to [0,
        1]: at 500 people it covers 94 to 96 % whatever the rate is from 5 to 95 %. "wald" is the estimate ± the normal quantile
        times the standard error, which most packages print. By default the first, where there are rates to take it from.
        """
        z = normal_reach(confidence)
        if method not in {None, "jeffreys", "wald"}:
            raise ParameterError("method", method, "must be 'jeffreys' or 'wald'")
        if method == "jeffreys" and self.groups is None:
            raise ParameterError("method", method, "needs an estimate from rates of yes; use 'wald' for this one")
        if self.groups is None or method == "wald":
            return np.column_stack([self.values - z * self.stderr, self.values + z * self.stderr])
        limits = self.groups.limits(self.values, confidence, self.population)
        return np.clip(limits, 0, 1) if self.proportions else limits

    def test(self, name: str, value: float = 0.0) -> ParameterTest:
        """Whether a parameter has the given value, by its standard error (Wald)."""
        at = self._place(name)
        return ParameterTest(name, float(self.values[at]), float(value), float(self.stderr[at]))

    # --- made from another ------------------------------------------------------------------------------------------

    def replaced(self, **changes: Any) -> DesignEstimate:
        """The same with some fields changed."""
        return dataclasses.replace(self, **changes)

    def transformed(self, names: tuple[str, ...], matrix: Any, shift: _Floats) -> DesignEstimate:
        """Linear combinations of the parameters: matrix @ values + shift."""
        by = np.asarray(matrix, dtype=np.float64)
        groups = self.groups
        if groups is not None:
            groups = dataclasses.replace(groups, weights=by @ groups.weights, shift=by @ groups.shift + shift)
        covariances = {kind: by @ covariance @ by.T for kind, covariance in self.covariances.items()}
        return self.replaced(names=names, values=by @ self.values + shift, covariances=covariances, groups=groups)

    def ratio(self, name: str, numerator: int, denominator: int) -> DesignEstimate:
        """The denominator's parameter, and the numerator's over it, by the delta method."""
        above, below = float(self.values[numerator]), float(self.values[denominator])
        gradient = np.zeros((2, len(self.names)))
        gradient[0, denominator] = 1
        gradient[1, numerator], gradient[1, denominator] = 1 / below, -above / below**2
        groups = self.groups
        if groups is not None:
            order = [denominator, numerator]
            groups = dataclasses.replace(groups, weights=groups.weights[order], shift=groups.shift[order], ratio=(1, 0))
        covariances = {kind: gradient @ covariance @ gradient.T for kind, covariance in self.covariances.items()}
        values = np.array([below, above / below])
        return self.replaced(names=(self.names[denominator], name), values=values, covariances=covariances, groups=groups)

    # --- other forms ------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON: what :meth:`from_dict` reads back without loss."""
        return {
            "design": self.design,
            "names": list(self.names),
            "values": self.values.tolist(),
            "stderr": self.stderr.tolist(),
            "covariances": {kind: covariance.tolist() for kind, covariance in self.covariances.items()},
            "n": list(self.n),
            "epsilon": "infinite" if math.isinf(self.epsilon) else None if math.isnan(self.epsilon) else self.epsilon,
            "method": self.method,
            "notes": list(self.notes),
            "population": self.population,
            "meanings": dict(self.meanings),
            "groups": None if self.groups is None else self.groups.to_dict(),
            "proportions": self.proportions,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> DesignEstimate:
        """The estimate that :meth:`to_dict` described."""
        kept = {name: document[name] for name in ("design", "method", "population", "meanings", "proportions")}
        epsilon = {"infinite": math.inf, None: math.nan}.get(document["epsilon"], document["epsilon"])
        return cls(
            names=tuple(document["names"]),
            values=np.array(document["values"]),
            covariances={kind: np.array(covariance) for kind, covariance in document["covariances"].items()},
            n=tuple(document["n"]),
            epsilon=epsilon,
            notes=tuple(document["notes"]),
            groups=None if document["groups"] is None else GroupRates.from_dict(document["groups"]),
            **kept,
        )

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, DesignEstimate) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row a parameter, with estimate, stderr, low and high."""
        from deniable.estimation.estimate import pandas  # noqa: PLC0415 - an extra, and slow to import

        low, high = self.interval(confidence).T
        columns = {"estimate": self.values, "stderr": self.stderr, "low": low, "high": high}
        return pandas().DataFrame(columns, index=list(self.names))

    def _cells(self) -> list[tuple[str, str, str, str]]:
        """Name, value, ± and meaning of each parameter, as texts."""
        reach = normal_reach(0.95) * self.stderr
        if self.proportions:
            shown = [(f"{100 * v:.2f} %", f"{100 * r:.2f}") for v, r in zip(self.values, reach, strict=True)]
        else:
            shown = [(f"{v:.5g}", f"{r:.3g}") for v, r in zip(self.values, reach, strict=True)]
        return [(name, *pair, self.meanings.get(name, "")) for name, pair in zip(self.names, shown, strict=True)]

    def _provenance(self) -> list[str]:
        people = " + ".join(f"{n:,}" for n in self.n)
        of = "" if self.population is None else f" of {self.population:,}"
        loss = "infinite" if math.isinf(self.epsilon) else f"{self.epsilon:.4g}"
        kind = {"n-1": "by n - 1", "n": "by n"}.get(self.errors, f"by the {self.errors} information")
        lines = [f"{self.design}: {people} people{of}; epsilon {loss}; ± covers 95 %, standard errors {kind}"]
        outside = [name for name, value in zip(self.names, self.values, strict=True) if self.proportions and not 0 <= value <= 1]
        if outside:
            lines.append(f"{' and '.join(outside)} outside 0 to 100 %: by chance, or people did not follow the instructions")
        return [*lines, *self.notes]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[column]) for row in cells) for column in range(3)]
        rows = [f"{a:<{widths[0]}}  {b:>{widths[1] + 1}} ± {c:>{widths[2]}}   {d}".rstrip() for a, b, c, d in cells]
        return "\n".join([*rows, *self._provenance()])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(a)}</th><td>{b}</td><td>± {c}</td><td>{html.escape(d)}</td></tr>"
            for a, b, c, d in self._cells()
        )
        notes = "".join(f"<p>{html.escape(line)}</p>" for line in self._provenance())
        return f"<table><tbody>{rows}</tbody></table>{notes}"

    def __repr__(self) -> str:
        return f"<DesignEstimate of {', '.join(self.names)} by {self.design}>"


@dataclass(frozen=True)
class AgreementTest:
    """Whether two samples, asked in different ways, say the same: the first's estimate less the second's."""

    parameter: str
    first: str
    second: str
    difference: float
    stderr: float

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return self.difference / self.stderr

    @property
    def p_value(self) -> float:
        """How probable so large a difference would be, either way, if both said the same."""
        return math.erfc(abs(self.z) / math.sqrt(2))

    @property
    def p_more(self) -> float:
        """The same for the one-sided question whether the first says *more*: what is asked where people hide what they did."""
        return 0.5 * math.erfc(self.z / math.sqrt(2))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high of the difference."""
        reach = normal_reach(confidence) * self.stderr
        return self.difference - reach, self.difference + reach

    def __str__(self) -> str:
        reach = 100 * normal_reach(0.95) * self.stderr
        return (
            f"{self.parameter}: {self.first} less {self.second}: {100 * self.difference:+.2f} % ± {reach:.2f}; "
            f"z = {self.z:+.2f}, {p_text(self.p_value)} for a difference, {p_text(self.p_more)} for more"
        )


def agreement_test(randomized: DesignEstimate, direct: DesignEstimate, parameter: str = "pi") -> AgreementTest:
    """Whether a randomized and a direct question (or any two designs) put to different people give the same estimate.

    If randomizing makes people admit more, the randomized estimate is the larger one ("more is better", which holds only where
    nobody says yes falsely). z = difference over the root of both variances; with the rates of some hundred people it is normal.

    >>> from deniable import Crosswise, DirectQuestion
    >>> print(agreement_test(Crosswise(1 / 4).estimate_counts(same=198, n=310), DirectQuestion().estimate_counts(yes=7, n=96)))
    pi: Crosswise less DirectQuestion: +14.97 % ± 11.92; z = +2.46, p = 0.0139 for a difference, p = 0.00693 for more
    """
    parts = [(e[parameter], e.design.partition("(")[0]) for e in (randomized, direct)]
    (one, first), (other, second) = parts
    return AgreementTest(parameter, first, second, one.value - other.value, math.hypot(one.stderr, other.stderr))
