"""Which fraction of each stratum to ask: proportionally, or more where answers vary more (Neyman
1934).

With B_i people in stratum i, and reports whose standard deviation is sigma_i, the variance of the
total estimate is sum (B_i/B)^2 sigma_i^2 / n_i. For a given number of reports in all it is least
for n_i proportional to B_i sigma_i. Under randomized response sigma_i is mostly that of the coins,
which all strata share, so the gain is small unless the coins are nearly truthful.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["neyman"]


def neyman(
    sizes: Sequence[float],
    deviations: Sequence[float],
    people: Sequence[float],
    sampling: float,
    bounds: tuple[float, float],
) -> list[float]:
    """The sampling of each stratum for as many reports as `sampling` of all people would give,
    inside the bounds.

    `sizes` are the weights of the strata, `people` how many could answer in each. What a bound
    takes from one stratum goes to the others.

    >>> [round(s, 3) for s in neyman([100, 100], [0.5, 0.1], [100, 100], 0.3, (0.01, 1.0))]
    [0.5, 0.1]
    >>> [round(s, 3) for s in neyman([100, 100], [0.5, 0.1], [100, 100], 0.3, (0.01, 0.4))]
    [0.4, 0.2]
    """
    low, high = bounds
    wanted = [
        max(size * deviation, 1e-300) for size, deviation in zip(sizes, deviations, strict=True)
    ]
    out = [min(max(sampling, low), high)] * len(wanted)
    free = set(range(len(wanted)))
    left = sampling * sum(people)
    while free:
        total = sum(wanted[i] for i in free)
        tried = {i: left * wanted[i] / total / people[i] if people[i] > 0 else high for i in free}
        outside = {
            i: min(max(value, low), high) for i, value in tried.items() if not low <= value <= high
        }
        if not outside:
            out = [tried.get(i, value) for i, value in enumerate(out)]
            break
        # Fix the strata beyond the bound that costs most reports first, then try the others again.
        over = sum((tried[i] - high) * people[i] for i in outside if tried[i] > high)
        under = sum((low - tried[i]) * people[i] for i in outside if tried[i] < low)
        fixed = {i: value for i, value in outside.items() if (value == high) == (over >= under)}
        for i, value in fixed.items():
            out[i] = value
            free.discard(i)
            left -= value * people[i]
        left = max(left, 0.0)
    return out
