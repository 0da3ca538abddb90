"""Regression of the sensitive item of a list experiment: linear with interactions, or by maximum
likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.regression.covariates import check_rank, design_matrix, named_columns
from deniable.estimation.regression.fitting import Model, maximise
from deniable.estimation.regression.linear import LinearRegression, regress_linear
from deniable.estimation.regression.maximum import RegressionFit
from deniable.estimation.regression.result import Regression
from deniable.estimation.surveys.sampling import Sample

__all__ = ["regress_list"]

_Floats = NDArray[np.float64]


class _List(Protocol):
    @property
    def items(self) -> int: ...

    @property
    def epsilon(self) -> float: ...


def regress_list(
    design: _List,
    counts: Any,
    treated: Any,
    covariates: Any = None,
    *,
    method: str = "ml",
    names: Sequence[str] | None = None,
    sample: Sample | None = None,
    errors: str | None = None,
) -> Regression | LinearRegression:
    """How the sensitive item of an :class:`~deniable.ItemCount` depends on covariates.

    `counts` are the numbers of items that apply; `treated` marks those who had the longer list.
    Imai, "Multivariate regression analysis for the item count technique", JASA 2011:

    - ``"linear"``: least squares of the count on x and treated × x; the coefficients named
      "sensitive: …" are those of the proportion. Standard errors are HC3. It assumes little but has
      large errors.
    - ``"ml"``: the sensitive item is logistic in x, the number of harmless items binomial with
      logistic chances in x, and both independent given x. A treated count mixes y harmless items,
      and y - 1 of them with the sensitive one.

    >>> from deniable import ItemCount
    >>> rng, n = np.random.default_rng(1), 3_000
    >>> age, treated = rng.normal(size=n), np.arange(n) % 2
    >>> has = rng.random(n) < 1 / (1 + np.exp(1 - age))
    >>> counts = rng.binomial(3, 0.5, n) + treated * has
    >>> print(regress_list(ItemCount(3), counts, treated, age, names=["age"]))  # doctest: +ELLIPSIS
    log-odds of yes against no
      (intercept)    -1.3608   -1.7035 to -1.0182   z = -7.78   p = 7.05e-15
      age            +1.1264   +0.7589 to +1.4939   z = +6.01   p = 1.89e-09
    3,000 reports; epsilon infinite per report; log-likelihood -3981.29; ...
    assumes that the harmless items are binomial, and independent of the sensitive one given the covariates
    """
    y, has_list = _counts(design, counts, treated)
    found, columns = named_columns(covariates, names, y.size)
    if len(columns) != y.size:
        raise ParameterError(
            "len(covariates)", len(columns), f"must be the number of counts, {y.size}"
        )
    x = design_matrix(columns, True)
    all_names = ("(intercept)", *found)
    check_rank(x, all_names)
    if method == "linear":
        if errors is not None:
            raise ParameterError("errors", errors, "is for method = 'ml'")
        both = np.hstack([x, x * has_list[:, None]])
        named = [
            *(f"harmless: {name}" for name in all_names),
            *(f"sensitive: {name}" for name in all_names),
        ]
        return regress_linear(
            y, both, names=named, intercept=False, sample=sample, outcome_name="the number of items"
        )
    if method != "ml":
        raise ParameterError("method", method, "must be 'ml' or 'linear'")
    scale = np.sqrt((x**2).mean(axis=0))
    model = ListModel(x / scale, y, has_list, design.items)
    weights = None if sample is None else sample.weights
    parameters, value = maximise(model, model.start(), weights)
    fit = RegressionFit(model, parameters, np.tile(scale, 2), value, sample)
    kind = ("observed" if sample is None else "sandwich") if errors is None else errors
    size = len(all_names)
    return Regression(
        labels=("no", "yes"),
        names=all_names,
        coefficients=fit.shown()[:size][None],
        covariance=fit.covariance(kind)[:size, :size],
        log_likelihood=value,
        n=y.size,
        intercept=True,
        mechanism="ItemCount",
        epsilon=design.epsilon,
        errors=kind,
        degrees=np.inf if sample is None else sample.effective_degrees,
        notes=(
            (
                "assumes that the harmless items are binomial, and independent of the sensitive one"
                " given the covariates"
            ),
        ),
        typical=scale,
        _fit=fit,
    )


@dataclass(frozen=True, eq=False)
class ListModel:
    """The parameters are the sensitive item's coefficients, then those of a harmless one."""

    design: _Floats
    counts: _Floats
    treated: NDArray[np.bool_]
    items: int

    def start(self) -> _Floats:
        """No covariate effects; a harmless item is as frequent as in the control sample, the
        sensitive one rather rare."""
        width = self.design.shape[1]
        proportion = np.clip(self.counts[~self.treated].mean() / self.items, 0.05, 0.95)
        start = np.zeros(2 * width)
        start[[0, width]] = (
            np.array([-1.0, np.log(proportion / (1 - proportion))]) / self.design[0, 0]
        )
        return start

    def evaluate(self, parameters: _Floats) -> tuple[_Floats, _Floats]:
        width = self.design.shape[1]
        sensitive, harmless = (
            np.exp(-np.logaddexp(0, -self.design @ part))
            for part in (parameters[:width], parameters[width:])
        )
        with_it = np.where(self.treated, sensitive, 0.0)
        none, one = (_binomial(self.counts - extra, self.items, harmless) for extra in (0, 1))
        joint = np.stack([(1 - with_it) * none, with_it * one])
        total = joint.sum(axis=0)
        if not np.all(total > 0):
            return np.full(total.size, -np.inf), np.zeros((total.size, parameters.size))
        posterior = joint[1] / total
        of_sensitive = np.where(self.treated, posterior - sensitive, 0.0)
        of_harmless = self.counts - posterior - self.items * harmless
        return np.log(total), np.hstack(
            [of_sensitive[:, None] * self.design, of_harmless[:, None] * self.design]
        )

    def information(self, parameters: _Floats, weights: _Floats | None) -> None:
        return None

    def alternatives(self) -> Iterator[Model] | None:
        return None


def _binomial(y: _Floats, items: int, p: _Floats) -> _Floats:
    """P(y of the items), 0 if there are fewer."""
    from scipy.special import gammaln, xlog1py, xlogy  # noqa: PLC0415 - slow to import

    inside = (y >= 0) & (y <= items)
    k = np.where(inside, y, 0)
    log = (
        gammaln(items + 1)
        - gammaln(k + 1)
        - gammaln(items - k + 1)
        + xlogy(k, p)
        + xlog1py(items - k, -p)
    )
    return np.where(inside, np.exp(log), 0.0)


def _counts(design: _List, counts: Any, treated: Any) -> tuple[_Floats, NDArray[np.bool_]]:
    y = np.asarray(counts, dtype=np.float64).reshape(-1)
    longer = np.asarray(treated).reshape(-1)
    if longer.shape != y.shape or not np.isin(longer, [0, 1]).all():
        raise ParameterError("treated", "…", f"must be 0 or 1 for each of the {y.size} counts")
    has_list = longer.astype(bool)
    most = design.items + has_list
    bad = ~((y >= 0) & (y <= most) & (y == np.floor(y)))
    if bad.any():
        at = int(bad.argmax())
        raise ParameterError(
            f"counts[{at}]", "…", f"must be a whole number from 0 to {int(most[at])}"
        )
    if has_list.all() or not has_list.any():
        raise ParameterError(
            "sum(treated)", int(has_list.sum()), "must leave people with each of the two lists"
        )
    return y, has_list
