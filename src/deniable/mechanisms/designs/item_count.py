"""The item count technique (list experiment): say only how many items of a list apply to you."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.mechanisms import solving
from deniable.mechanisms.designs.parameters import count

__all__ = ["ItemCount"]

_Floats = NDArray[np.float64]
NOT_PRIVATE = (
    "no coin protects an answer: a count of none or of all items gives the truth away, and epsilon"
    " is infinite"
)


@dataclass(frozen=True)
class ItemCount:
    """One sample counts how many of `items` harmless items apply; another includes the sensitive
    one in the count (Miller 1984).

    The prevalence is the difference of the two mean counts. **This is not private by coins**: what
    hides a person is that others with the same count differ, and a treated person who counts none,
    or all, of the items gives the answer away. So `epsilon` is infinite, which no mechanism of this
    library would accept; it is here because much of what is known about sensitive behaviour was
    asked this way.

    >>> survey = ItemCount(items=3)
    >>> print(survey.estimate_counts(control=[8, 132, 222, 227], treated=[19, 123, 229, 219, 34]))
    pi   6.78 %   -2.95 to 16.51
    ItemCount(items=3): 589 + 624 people; epsilon infinite
    intervals cover 95 %; standard errors by n - 1
    no coin protects an answer: a count of none or of all items gives the truth away, and epsilon is infinite
    """

    items: int

    def __post_init__(self) -> None:
        whole("items", self.items, 1, 100)

    @property
    def epsilon(self) -> float:
        """Infinite: no randomness is involved."""
        return math.inf

    def channel(self) -> _Floats:
        """P[count, type] of a treated person, all 0 or 1.

        A type is how many harmless items apply: first the types without the sensitive item, then
        those with it.
        """
        size = self.items + 1
        matrix = np.zeros((size + 1, 2 * size))
        matrix[np.arange(size), np.arange(size)] = 1
        matrix[np.arange(size) + 1, size + np.arange(size)] = 1
        return matrix

    def estimate_counts(
        self, *, control: Sequence[int], treated: Sequence[int]
    ) -> solving.DesignEstimate:
        """The prevalence: the difference of means, from how many people in each sample counted 0,
        1, … items."""
        lists = self._check(control, treated)
        means, spreads = zip(*(_mean(counts) for counts in lists), strict=True)
        sizes = [int(counts.sum()) for counts in lists]
        variances = {
            kind: sum(spread / (n - less) for spread, n in zip(spreads, sizes, strict=True))
            for kind, less in (("n-1", 1), ("n", 0))
        }
        made = self._estimate(
            ("pi",),
            np.array([means[1] - means[0]]),
            {k: np.array([[v]]) for k, v in variances.items()},
            sizes,
        )
        return made.replaced(
            degrees=(_degrees([s / (n - 1) for s, n in zip(spreads, sizes, strict=True)], sizes),)
        )

    def types(self, *, control: Sequence[int], treated: Sequence[int]) -> solving.DesignEstimate:
        """The proportions of the types: people to whom y harmless items apply, without (pi_y0) and
        with (pi_y1) the sensitive one.

        pi_y1 = F0(y) - F1(y), pi_y0 = F1(y) - F0(y - 1), where F0 and F1 are the distributions of
        the control's and the treated's counts (Blair and Imai 2012, equations 2 and 3). A clearly
        negative value shows that an item's presence changed the other answers.
        """
        lists = self._check(control, treated)
        (f0, f1), sizes = (
            [np.cumsum(counts) / counts.sum() for counts in lists],
            [int(counts.sum()) for counts in lists],
        )
        before = np.concatenate([[0.0], f0[:-1]])
        last = f1[: self.items + 1]
        values = np.concatenate([last - before, f0 - last])
        # Both are differences of one proportion per sample, so the variance is the sum of two
        # binomial variances.
        own = [f * (1 - f) for f in (f1[: self.items + 1], f0, before)]
        covariances = {}
        for kind, less in (("n-1", 1), ("n", 0)):
            n0, n1 = (n - less for n in sizes)
            covariances[kind] = np.diag(
                np.concatenate([own[0] / n1 + own[2] / n0, own[0] / n1 + own[1] / n0])
            )
        names = tuple(f"pi_{y}{z}" for z in (0, 1) for y in range(self.items + 1))
        return self._estimate(names, values, covariances, sizes).replaced(
            notes=(NOT_PRIVATE, "errors of single types; their covariances are not kept")
        )

    def estimate_with_direct(
        self,
        *,
        control_no: Sequence[int],
        treated_no: Sequence[int],
        control_yes: Sequence[int],
        treated_yes: Sequence[int],
    ) -> solving.DesignEstimate:
        """Prevalence if everyone was also asked directly: admissions count as such, and the list is
        used for the others.

        mu = D + (1 - D)(V1 - V0 among those who said no), where D is the proportion that said yes
        (Aronow, Coppock, Crawford and Green 2015). It assumes that nobody admits falsely;
        `placebo`, the difference of means among those who said yes, is 1 if that and the list's own
        assumptions hold. Standard errors "n-1" and "n" condition on how many of either sample said
        no; "published" is the paper's equation 3, in which only the proportions of the treated and
        of those who said no appear.
        """
        no = self._check(control_no, treated_no)
        yes = self._check(control_yes, treated_yes)
        n_no, n_yes = (sum(int(counts.sum()) for counts in pair) for pair in (no, yes))
        n = n_no + n_yes
        direct = n_yes / n
        (v0, s0), (v1, s1) = (_mean(counts) for counts in no)
        (w0, r0), (w1, r1) = (_mean(counts) for counts in yes)
        gap = v1 - v0
        value = direct + (1 - direct) * gap
        covariances = {}
        for kind, less in (("n-1", 1), ("n", 0)):
            within = s0 / (int(no[0].sum()) - less) + s1 / (int(no[1].sum()) - less)
            of_direct = direct * (1 - direct) / (n - less)
            placebo = r0 / (int(yes[0].sum()) - less) + r1 / (int(yes[1].sum()) - less)
            pi = (1 - gap) ** 2 * of_direct + (1 - direct) ** 2 * within
            cross = (1 - gap) * of_direct
            covariances[kind] = np.array(
                [[pi, cross, 0.0], [cross, of_direct, 0.0], [0.0, 0.0, placebo]]
            )
        part = sum(int(counts.sum()) for counts in (no[1], yes[1])) / n
        of_direct = direct * (1 - direct) / n
        pi = (1 - gap) ** 2 * of_direct + (1 - direct) * (s1 / part + s0 / (1 - part)) / n
        published = covariances["n"].copy()
        published[0, 0] = pi
        covariances["published"] = published
        values = np.array([value, direct, w1 - w0])
        return self._estimate(("pi", "direct", "placebo"), values, covariances, [n]).replaced(
            meanings={
                "direct": "people who admitted it when asked directly",
                "placebo": "1 if those who admitted it did the list right",
            },
            notes=(
                NOT_PRIVATE,
                "those who were asked directly and said yes have no protection at all",
            ),
            proportions=False,
        )

    def estimate_two_lists(self, *, first: Any, second: Any) -> solving.DesignEstimate:
        """Prevalence if everyone counts two lists, A and B, and the sensitive item is in A for one
        sample and in B for the other.

        `first` and `second` hold two columns, each person's counts of A and B, of the sample with
        the item in A and in B. Each list gives a difference of means, and pi is their mean: half
        the difference between the samples of the mean of A - B, whose variance counts how a
        person's two answers go together (Droitcour et al. 1991; Glynn, "What can we learn with
        statistical truth serum?", Public Opinion Quarterly 77, 2013). Everyone is asked about the
        item, so the variance is less than half of a single list's if the lists are alike.
        `difference` is that of the two lists' estimates, 0 if the item is answered alike in both.

        >>> with_a, with_b = [[2, 1], [1, 1], [3, 2], [2, 2], [1, 0]], [[1, 2], [1, 1], [2, 2], [2, 3], [0, 1]]
        >>> print(ItemCount(items=3).estimate_two_lists(first=with_a, second=with_b)["pi"])
        pi: 0.600, 0.201 to 0.999 (95 %, from 10 reports)
        """
        lists = [self._pairs(name, given) for name, given in (("first", first), ("second", second))]
        sums = [counts.sum(axis=1) for counts in lists]
        gaps = [counts[:, 0] - counts[:, 1] for counts in lists]
        sizes = [len(counts) for counts in lists]
        # pi = (mean gap of the first - of the second)/2; the lists' estimates differ by the
        # samples' mean sums.
        values = np.array([(gaps[0].mean() - gaps[1].mean()) / 2, sums[0].mean() - sums[1].mean()])
        covariances = {}
        for kind, less in (("n-1", 1), ("n", 0)):
            spread = np.zeros((2, 2))
            for gap, total, sign in zip(gaps, sums, (1, -1), strict=True):
                spread += np.cov(sign * gap / 2, sign * total, ddof=0) / (len(gap) - less)
            covariances[kind] = spread
        made = self._estimate(("pi", "difference"), values, covariances, sizes)
        degrees = tuple(
            _degrees([part.var(ddof=1) / part.size for part in parts], sizes)
            for parts in (gaps, sums)
        )
        return made.replaced(
            degrees=degrees,
            meanings={
                "difference": "of the two lists' estimates: 0 if the item is answered alike in both"
            },
            proportions=False,
        )

    def _pairs(self, name: str, given: Any) -> _Floats:
        counts = np.asarray(given, dtype=np.float64)
        if counts.ndim != 2 or counts.shape[1] != 2 or len(counts) < 2:
            raise ParameterError(
                f"{name}.shape",
                counts.shape,
                "must be two columns, of lists A and B, for at least 2 people",
            )
        most = np.array(
            [self.items + 1, self.items] if name == "first" else [self.items, self.items + 1]
        )
        if not ((counts >= 0) & (counts <= most) & (counts == np.round(counts))).all():
            raise ParameterError(
                name,
                "…",
                f"must hold whole numbers of items: up to {most[0]} of list A, {most[1]} of list B",
            )
        return counts

    def expected_stderr(
        self, n: Sequence[float], pi: float, spread: float, parameter: str = "pi"
    ) -> float:
        """The standard error from `n` people in both samples, if the harmless count has the
        standard deviation `spread`.

        The sensitive item is assumed to be independent of the others.
        """
        if parameter != "pi":
            raise ParameterError("parameter", parameter, "must be 'pi'")
        control, treated = n
        return math.sqrt(spread**2 / control + (spread**2 + pi * (1 - pi)) / treated)

    def _check(self, control: Sequence[int], treated: Sequence[int]) -> tuple[_Floats, _Floats]:
        out = []
        for name, counts, size in (
            ("control", control, self.items + 1),
            ("treated", treated, self.items + 2),
        ):
            if len(counts) != size:
                raise ParameterError(
                    name,
                    list(counts),
                    f"must be {size} numbers of people, who counted 0 to {size - 1} items",
                )
            people = np.array(
                [count(f"{name}[{y}]", value) for y, value in enumerate(counts)], dtype=np.float64
            )
            if people.sum() < 2:
                raise ParameterError(name, list(counts), "must hold at least 2 people")
            out.append(people)
        return out[0], out[1]

    def _estimate(
        self, names: tuple[str, ...], values: _Floats, covariances: Any, sizes: Sequence[int]
    ) -> solving.DesignEstimate:
        return solving.DesignEstimate(
            repr(self), names, values, covariances, tuple(sizes), self.epsilon, notes=(NOT_PRIVATE,)
        )


def _degrees(variances: Sequence[float], sizes: Sequence[int]) -> float:
    return float(solving.welch_degrees(variances, [n - 1 for n in sizes]))


def _mean(counts: _Floats) -> tuple[float, float]:
    """The mean count, and the variance of one person's."""
    y = np.arange(counts.size)
    proportion = counts / counts.sum()
    mean = float(y @ proportion)
    return mean, float(((y - mean) ** 2) @ proportion)
