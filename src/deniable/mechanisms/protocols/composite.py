"""Composite buckets: several attributes in one report, over all combinations of their labels
(Lavengood 2017, 5.3.1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import AnswerError, AnswerTypeError, ParameterError, ReportMismatchError
from deniable.mechanisms import solving
from deniable.mechanisms.domain import LARGEST_DOMAIN, Domain

__all__ = ["Composite", "composite"]


@dataclass(frozen=True)
class Composite:
    """The Cartesian product of several attributes' labels, numbered by mixed radix: the last
    attribute varies fastest.

    With sub-indices x_i and b_i labels of attribute i, the bucket is the sum over i of x_i times
    the product of all later b_j.
    """

    axes: tuple[str, ...]
    domains: tuple[Domain, ...]

    def __len__(self) -> int:
        return prod(len(domain) for domain in self.domains)

    @property
    def labels(self) -> list[tuple[Hashable, ...]]:
        """One tuple per bucket, in order: the `values` of a mechanism."""
        return list(product(*(domain.labels for domain in self.domains)))

    @property
    def texts(self) -> list[str]:
        """The same, as a query of these columns names its buckets."""
        return [
            ", ".join(f"{axis}={label}" for axis, label in zip(self.axes, labels, strict=True))
            for labels in self.labels
        ]

    def index(self, columns: Any) -> NDArray[np.intp]:
        """The bucket of each person, from one column per attribute (a mapping or a data frame).

        These are the answers of a mechanism of `len(self)` numbered values.

        >>> composite({"first": ["a", "b", "c"], "then": ["d", "e"]}).index({"first": ["b"], "then": ["e"]}).tolist()
        [3]
        """
        out: NDArray[np.intp] | None = None
        for axis, domain in zip(self.axes, self.domains, strict=True):
            if axis not in columns:
                raise ParameterError("columns", list(columns), f"must hold the attribute {axis!r}")
            try:
                places = domain.indices(columns[axis])
            except AnswerError as error:
                raise type(error)(error.position, f"of {axis!r} {error.rule}") from None
            if out is not None and out.size != places.size:
                raise AnswerTypeError(
                    None,
                    f"of {axis!r} must have {out.size} rows like the others, not {places.size}",
                )
            out = places.copy() if out is None else out * len(domain) + places
        assert out is not None  # noqa: S101 - there are at least two axes
        return out

    def table(self, estimate: solving.Estimate | solving.Table) -> solving.Table:
        """An estimate over these buckets as a table of the attributes.

        From an Estimate of up to 512 buckets, a window's estimate of up to 1,024, or `joint` with
        the mechanism as its only attribute, which has no limit.
        """
        flat = estimate if isinstance(estimate, solving.Table) else solving.Table.of(estimate)
        if (
            flat.labels[0] not in (tuple(range(len(self))), tuple(self.labels), tuple(self.texts))
            or len(flat.labels) > 1
        ):
            raise ReportMismatchError(f"not an estimate of these {len(self)} buckets: {flat!r}")
        return flat.unfolded(
            {
                axis: tuple(domain.labels)
                for axis, domain in zip(self.axes, self.domains, strict=True)
            }
        )


def composite(labels: Mapping[str, int | Iterable[Hashable]]) -> Composite:
    """Composite buckets of the named attributes, each given by its labels or their number.

    One report then covers all attributes for a single epsilon, so that event chains and
    correlations can be estimated:

    >>> from deniable import DirectEncoding, seeded_source
    >>> steps = composite({"current": ["short", "long"], "next": ["short", "long"]})
    >>> mechanism = DirectEncoding(steps.labels, epsilon=2.0)
    >>> tweets = [("short", "short")] * 6000 + [("short", "long")] * 2000 + [("long", "long")] * 2000
    >>> estimate = mechanism.estimate(mechanism.privatize(tweets, seeded_source(1)))
    >>> print(steps.table(estimate).conditional("next", given="current"))
             next, %
    current                   short                    long
    short    75.24 (73.68 to 76.80)  24.76 (23.20 to 26.32)
    long        4.91 (0.53 to 9.28)  95.09 (90.72 to 99.47)
    10,000 reports; epsilon 2 per person, all attributes together; intervals cover 95 %
    """
    if len(labels) < 2:
        raise ParameterError("labels", list(labels), "must name at least two attributes")
    made = Composite(tuple(labels), tuple(Domain.of(values) for values in labels.values()))
    if len(made) > LARGEST_DOMAIN:
        raise ParameterError(
            "labels", list(labels), f"combine to {len(made)} buckets, more than {LARGEST_DOMAIN}"
        )
    return made
