"""The extended crosswise model: two samples with opposite probabilities, which together show
whether people follow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.mechanisms import solving
from deniable.mechanisms.designs.crosswise import Crosswise
from deniable.mechanisms.designs.parameters import chance
from deniable.mechanisms.designs.two_group import TwoGroupDesign
from deniable.mechanisms.reports import Reports
from deniable.randomness import Source

__all__ = ["ExtendedCrosswise"]

_DAYS = (31, Fraction(113, 4), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Of the months, February over four years."""
_DOUBTFUL = 0.05


@dataclass(frozen=True)
class ExtendedCrosswise:
    """Crosswise in two samples, in which the other answer is yes with probability `p` and 1 - p
    (Heck et al. 2018).

    P(same) = p pi + (1 - p)(1 - pi) in the first sample, and 1 minus that in the second. So "same"
    in the first and "different" in the second mean alike, and pi has the error of a
    :class:`Crosswise` of all people together. What the second sample adds is a test: if the two
    rates of "same" do not sum to 1, people did not answer as told (:meth:`fit`). Those who answer
    by chance, saying "same" half of the time, pull pi towards 1/2 in both samples alike, which no
    such test can see: `estimate_counts(random=…)` corrects for a known proportion,
    :meth:`estimate_with_anchor` for one that is measured.

    Heck, Hoffmann and Moshagen, "Detecting nonadherence without loss in efficiency", Behavior
    Research Methods 50, 2018; Sayed, Cruyff, van der Heijden and Petróczi, "Refinement of the
    extended crosswise model with a number sequence randomizer", PLoS One 2022, e0279741.

    >>> print(ExtendedCrosswise(1 / 4).estimate_counts(same=(325, 175), n=(500, 500)))
    pi   20.00 %   14.18 to 25.99
    ExtendedCrosswise(p='1/4'): 500 + 500 people; epsilon 1.099
    intervals cover 95 %; standard errors by n - 1
    fit of both samples: chi-square 0.00 (1 degree of freedom), p = 1
    """

    p: Any

    names: ClassVar[tuple[str, ...]] = ("pi",)
    power_values: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", Crosswise(self.p).p)

    @classmethod
    def birthday(cls, months: Sequence[int]) -> ExtendedCrosswise:
        """The other answer is a birthday, for example the mother's, in these months (1 to 12), or
        not in them.

        >>> str(ExtendedCrosswise.birthday([11, 12]))
        "ExtendedCrosswise(p='244/1461')"
        """
        chosen = sorted(set(months))
        if not chosen or not all(isinstance(month, int) and 1 <= month <= 12 for month in chosen):
            raise ParameterError("months", list(months), "must be months from 1 to 12")
        return cls(Fraction(sum(_DAYS[month - 1] for month in chosen)) / sum(_DAYS))

    @classmethod
    def draws(cls, winning: int, of: int = 6) -> ExtendedCrosswise:
        """The other answer is whether a die shows one of `winning` of its faces, or a number drawn
        from `of` is one of those.

        >>> str(ExtendedCrosswise.draws(1)), str(ExtendedCrosswise.draws(2, of=10))
        ("ExtendedCrosswise(p='1/6')", "ExtendedCrosswise(p='1/5')")
        """
        whole = isinstance(winning, int) and isinstance(of, int)
        if not whole or not 0 < winning < of:
            raise ParameterError("winning", winning, f"must be a whole number from 1 to {of} - 1")
        return cls(Fraction(winning, of))

    @property
    def epsilon(self) -> float:
        """The loss against anyone who does not know the other answer: the same in both samples."""
        return float(self.group(0).epsilon)

    def group(self, index: int) -> Crosswise:
        """The instruction of one sample, as a design of its own."""
        return Crosswise(self.p if index == 0 else 1 - self.p)

    def rates(self, pi: float) -> NDArray[np.float64]:
        """The expected proportions of "same" in both samples."""
        first = float(self.p) * pi + (1 - float(self.p)) * (1 - pi)
        return np.array([first, 1 - first])

    def privatize(self, values: Any, index: int, source: Source | None = None) -> Reports:
        """What people of one sample say."""
        return self.group(index).privatize(values, source)

    def pooled(self, reports: Any, group: Any) -> Reports:
        """The answers of both samples as those of the first: "same" in the second sample counts as
        "different".

        They are reports of :class:`Crosswise`, for regressions and all other analyses. `reports`
        are "same" and "different" (or 1 and 0), `group` is the sample of each person, 0 and 1, or 1
        and 2.
        """
        said, index = np.asarray(reports), np.asarray(group)
        same = said == "same" if said.dtype.kind in "UO" else said.astype(np.float64) == 1
        index = index - 1 if index.size and index.min() == 1 else index
        if index.shape != same.shape or not np.isin(index, [0, 1]).all():
            raise ParameterError(
                "group", "…", f"must be 0 or 1 (or 1 or 2) for each of the {same.size} reports"
            )
        if said.dtype.kind in "UO" and not np.isin(said, ["same", "different"]).all():
            raise ParameterError("reports", "…", "must be 'same' or 'different'")
        design = self.group(0)
        return Reports(design, np.where(index == 0, same, ~same).astype(design.layout[0]))

    def fit(self, *, same: Sequence[int], n: Sequence[int]) -> solving.ModelFitTest:
        """Whether the rates of "same" in both samples sum to 1, as they do if everyone follows the
        instruction.

        The chi-square test of two equal proportions, "same" in the first sample and "different" in
        the second. It detects people who prefer one of the two words, but not those who choose
        between them by chance.

        >>> print(ExtendedCrosswise(1 / 4).fit(same=(340, 210), n=(500, 500)))
        fit of both samples: chi-square 10.73 (1 degree of freedom), p = 0.00106
        """
        counts, people = TwoGroupDesign.counted(same, n, "same")
        whole = sum(people)
        rate = (counts[0] + people[1] - counts[1]) / whole
        gap = counts[0] / people[0] + counts[1] / people[1] - 1
        spread = rate * (1 - rate) * (1 / people[0] + 1 / people[1])
        return solving.ModelFitTest(
            "fit of both samples", gap**2 / spread if spread > 0 else 0.0, 1
        )

    def estimate_counts(
        self, *, same: Sequence[int], n: Sequence[int], random: Any = 0
    ) -> solving.DesignEstimate:
        """The prevalence from how many of `n` people in each sample said "same".

        `random` is the known proportion of people who answer by chance: pi = 1/2 + (naive - 1/2)/(1
        - random).
        """
        counts, people = TwoGroupDesign.counted(same, n, "same")
        by_chance = float(chance("random", random, edges=True))
        if by_chance >= 1:
            raise ParameterError(
                "random", random, "must be less than 1: nobody would answer the question"
            )
        p = float(self.p)
        slope = 1 / ((2 * p - 1) * (1 - by_chance))
        # naive = (lam - (1 - p))/(2p - 1), so 1/2 + (naive - 1/2)/(1 - g) = slope (lam - 1/2) +
        # 1/2.
        weights, shift = np.array([[slope]]), np.array([0.5 - slope / 2])
        bounds = [
            (
                (1 - by_chance) * min(p, 1 - p) + by_chance / 2,
                (1 - by_chance) * max(p, 1 - p) + by_chance / 2,
            )
        ]
        pooled = [counts[0] + people[1] - counts[1]]
        rates = solving.GroupRates.of(pooled, [sum(people)], bounds, weights, shift)
        fit = self.fit(same=same, n=n)
        notes = [str(fit)]
        if fit.p_value < _DOUBTFUL:
            notes.append(
                "the samples do not fit together: some people did not answer as told, and pi may be"
                " biased"
            )
        if by_chance:
            notes.append(
                f"corrected for {100 * by_chance:g} % of people who answer by chance, taken as"
                " known"
            )
        made = solving.DesignEstimate.linear(
            rates, str(self), self.names, self.epsilon, notes=tuple(notes)
        )
        return made.replaced(n=tuple(people))

    def estimate(self, groups: Sequence[Any], random: Any = 0) -> solving.DesignEstimate:
        """The prevalence from the answers of both samples: columns of "same" and "different", or of
        1 and 0."""
        if len(groups) != 2:
            raise ParameterError("len(groups)", len(groups), "must be 2")
        said = [self.pooled(group, np.zeros(len(group), dtype=int)).data for group in groups]
        return self.estimate_counts(
            same=[int(part.sum()) for part in said], n=[part.size for part in said], random=random
        )

    def estimate_with_anchor(
        self,
        *,
        same: Sequence[int],
        anchor_same: Sequence[int],
        both: Sequence[int],
        n: Sequence[int],
    ) -> solving.DesignEstimate:
        """Prevalence corrected for people who answer by chance, with a second question of
        prevalence 0 asked in the same way.

        As :meth:`Crosswise.estimate_with_anchor`, with one number per sample: how many said "same"
        to the sensitive question, to the anchor, and to both.
        """
        counts, people = TwoGroupDesign.counted(same, n, "same")
        anchors, _ = TwoGroupDesign.counted(anchor_same, n, "anchor_same")
        together, _ = TwoGroupDesign.counted(both, n, "both")
        found = self.group(0).estimate_with_anchor(
            same=counts[0] + people[1] - counts[1],
            anchor_same=anchors[0] + people[1] - anchors[1],
            both=together[0] + people[1] - counts[1] - anchors[1] + together[1],
            n=sum(people),
        )
        return found.replaced(
            design=f"{self} with an anchor", n=tuple(people), notes=(str(self.fit(same=same, n=n)),)
        )

    def expected_stderr(self, n: Sequence[float], pi: float, parameter: str = "pi") -> float:
        """The standard error from `n` people in both samples."""
        if parameter != "pi":
            raise ParameterError("parameter", parameter, "must be 'pi'")
        rate = float(self.rates(pi)[0])
        return math.sqrt(rate * (1 - rate) / sum(n)) / abs(2 * float(self.p) - 1)

    def __str__(self) -> str:
        return f"ExtendedCrosswise(p={str(self.p)!r})"
