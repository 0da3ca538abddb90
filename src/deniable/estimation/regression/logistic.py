"""Logistic regression of an answer on covariates and on other answers, any of which may be
randomized."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import NoReportsError, ParameterError
from deniable.estimation.likelihood import ReportLikelihood, clear_answers, likelihoods
from deniable.estimation.regression.answer_models import AnswerModel, BinaryModel
from deniable.estimation.regression.covariates import check_rank, design_matrix, named_columns
from deniable.estimation.regression.fitting import Model, maximise
from deniable.estimation.regression.maximum import RegressionFit
from deniable.estimation.regression.predictor_model import (
    PredictorModel,
    answer_predictor,
    combinations,
    joint_basis,
    joint_channel,
)
from deniable.estimation.regression.random_intercept import RandomInterceptModel
from deniable.estimation.regression.result import Regression
from deniable.estimation.surveys.sampling import Sample

__all__ = ["Regression", "regress"]

_Floats = NDArray[np.float64]
_MOST_COMBINATIONS = 64


def regress(
    mechanism: ReportLikelihood | Any,
    reports: Any,
    covariates: Any = None,
    *,
    randomized: Mapping[str, tuple[ReportLikelihood, Any]] | None = None,
    group: Any = None,
    random_intercept: Any = None,
    sample: Sample | None = None,
    errors: str | None = None,
    intercept: bool = True,
    names: Sequence[str] | None = None,
    max_iterations: int = 100,
) -> Regression:
    """How the true answer depends on covariates, from randomized answers: maximum likelihood with
    standard errors.

    The model: P(answer v | x) = exp(x'beta_v) / sum over w of exp(x'beta_w), beta of the first
    label being 0 (with two labels, logistic regression), and P(report u | x) = sum over v of P[u,
    v] P(answer v | x). For a yes/no answer, P(yes reported | x) = b + (a - b) / (1 + exp(-x'beta)).
    Assumptions: the covariates are not randomized, and the answers are independent given them.
    `covariates` is an array with one row per report, or a DataFrame, whose column names are kept.

    - `mechanism` is None if the outcome was asked directly. A design with two samples
      (`CheaterDetection`, `StochasticLieDetector`, `UnrelatedQuestion.unknown`) needs `group`, the
      sample of each person (0 and 1, or 1 and 2), and its rate t, gamma or u, the same for
      everybody, is estimated too. With cheaters the log-odds are those of honest people.
    - `randomized` are answers that predict: a mapping from names to (mechanism, reports). See
      :class:`PredictorModel`. Every label of a :class:`~deniable.MultipleChoice` is a predictor of
      its own; as an outcome, take one label with its `option`. A number
      (:class:`~deniable.SquareWave`) is one column with its value, and its distribution is taken to
      be smooth.
    - `random_intercept` names the cluster of each person: the log-odds of a yes/no answer have a
      normal intercept per cluster, with standard deviation sigma (adaptive Gauss-Hermite
      quadrature).
    - `sample` holds weights, strata and clusters: pseudo-likelihood with linearised errors.
    - `errors` is "observed" (the inverse of the observed information; the default), "expected",
      "scores" (the outer product of scores), or "sandwich", which a `sample` has and needs.

    Newton's method on the likelihood. It may have several maxima; the search starts where the
    covariates have no effect. Van den Hout, van der Heijden and Gilchrist, "The logistic regression
    model with response variables subject to randomized response", Computational Statistics & Data
    Analysis 2007; Heck and Moshagen, "RRreg", Journal of Statistical Software 85(2), 2018.

    >>> from deniable import BinaryResponse, seeded_source
    >>> survey, rng = BinaryResponse.from_epsilon(2.0), np.random.default_rng(1)
    >>> age = rng.uniform(-2, 2, 2_000)
    >>> truth = rng.random(2_000) < 1 / (1 + np.exp(1 - 0.8 * age))
    >>> print(regress(survey, survey.privatize(truth, seeded_source(1)), age, names=["age"]))
    log-odds of 1 against 0
      (intercept)    -1.0071   -1.1771 to -0.8371   z = -11.61   p < 1e-16
      age            +0.8723   +0.7160 to +1.0286   z = +10.94   p < 1e-16
    2,000 reports; epsilon 2 per report; log-likelihood -1208.71; intervals cover 95 %, ...
    """
    outcome = _outcome(mechanism, reports, group)
    found, columns = named_columns(covariates, names, outcome.n)
    for name, n in (
        ("covariates", len(columns)),
        ("sample", outcome.n if sample is None else sample.n),
    ):
        if n != outcome.n:
            raise ParameterError(f"len({name})", n, f"must be the number of reports, {outcome.n}")
    design = design_matrix(columns, intercept)
    all_names = ("(intercept)", *found) if intercept else found
    check_rank(design, all_names)
    width = np.sqrt((design**2).mean(axis=0))
    rates: tuple[str, ...] = () if outcome.rate is None else (outcome.rate,)
    epsilon = outcome.epsilon
    if randomized:
        if random_intercept is not None or outcome.rate is not None or not intercept:
            raise ParameterError(
                "randomized",
                list(randomized),
                "cannot be combined with a random intercept, two samples, or no intercept",
            )
        model, predictor_names, scales = _with_predictors(outcome, design / width, randomized)
        all_names = (*all_names, *predictor_names)
        start: _Floats = model.start()
        columns_scale = np.concatenate([width, scales])
        scale = np.concatenate(
            [np.tile(columns_scale, len(outcome.labels) - 1), np.tile(width, model.n_functions)]
        )
        epsilon += sum(other.epsilon for other, _ in randomized.values())
        fitted: Model = model
    else:
        people = outcome.model(design / width)
        start, fitted = people.start(intercept), people
        scale = np.concatenate([np.tile(width, len(outcome.labels) - 1), np.ones(len(rates))])
        if random_intercept is not None:
            if sample is not None:
                raise ParameterError(
                    "sample",
                    "…",
                    "cannot be combined with a random intercept: use its clusters instead",
                )
            fitted = RandomInterceptModel(outcome.binary(design / width), random_intercept)
            start, scale, rates = (
                _with_sigma(outcome, design / width, intercept, max_iterations),
                np.append(scale, 1.0),
                (*rates, "sigma"),
            )
    weights = None if sample is None else sample.weights
    parameters, value = maximise(fitted, start, weights, None, max_iterations)
    if "sigma" in rates:
        parameters[-1] = abs(parameters[-1])
    fit = RegressionFit(fitted, parameters, scale, value, sample)
    size = (len(outcome.labels) - 1) * len(all_names)
    kind = ("observed" if sample is None else "sandwich") if errors is None else errors
    kept = size + len(rates)
    shown = fit.shown()
    return Regression(
        labels=outcome.labels,
        names=all_names,
        coefficients=shown[:size].reshape(-1, len(all_names)),
        covariance=fit.covariance(kind)[:kept, :kept],
        log_likelihood=value,
        n=outcome.n,
        intercept=intercept,
        mechanism=outcome.name,
        epsilon=epsilon,
        rates=dict(zip(rates, shown[size:kept].tolist(), strict=True)),
        errors=kind,
        degrees=math.inf if sample is None else sample.effective_degrees,
        notes=_notes(outcome, fitted, sample),
        typical=fit.scale[:size],
        reference_error=None if rates or randomized else fit.reference_error(size),
        _fit=fit,
    )


@dataclass(frozen=True, eq=False)
class _Outcome:
    """The answers to be explained: their likelihoods, or the coins of a design with two samples."""

    labels: tuple[Any, ...]
    n: int
    name: str
    epsilon: float
    likelihood: _Floats | None = None
    channel: _Floats | None = None
    rate: str | None = None
    given: tuple[_Floats, _Floats] | None = None
    """P(report | yes), P(report | no) of the report given: constant and slope by the rate."""
    other: tuple[_Floats, _Floats] | None = None

    def model(self, design: _Floats) -> AnswerModel | BinaryModel:
        if self.likelihood is not None:
            return AnswerModel(self.likelihood, design, self.channel)
        return self.binary(design)

    def binary(self, design: _Floats) -> BinaryModel:
        if self.given is not None:
            return BinaryModel(design, *self.given, self.rate is not None, self.other)
        assert self.likelihood is not None  # noqa: S101 - one of the two is set
        if len(self.labels) != 2:
            raise ParameterError("answers", len(self.labels), "must be 2 for a random intercept")
        flat = np.zeros(self.n)
        no, yes = (np.column_stack([column, flat]) for column in self.likelihood.T)
        return BinaryModel(design, yes, no, False)


def _outcome(mechanism: Any, reports: Any, group: Any) -> _Outcome:
    if hasattr(mechanism, "answer_chances"):
        return _two_samples(mechanism, reports, group)
    if group is not None:
        raise ParameterError(
            "group",
            "…",
            f"is for designs with two samples, which {type(mechanism).__name__} is not",
        )
    if mechanism is None:
        labels, likelihood = clear_answers(reports)
        if len(labels) < 2:
            raise ParameterError("different answers", len(labels), "must be at least 2")
        return _Outcome(labels, len(likelihood), "", 0.0, likelihood, np.eye(len(labels)))
    likelihood = likelihoods(mechanism, reports)
    if not len(likelihood):
        raise NoReportsError("there are no reports, so there is nothing to regress")
    channel = mechanism.channel()
    matrix = channel if isinstance(channel, np.ndarray) else None
    return _Outcome(
        tuple(mechanism.labels),
        len(likelihood),
        type(mechanism).__name__,
        mechanism.epsilon,
        likelihood,
        matrix,
    )


def _two_samples(design: Any, reports: Any, group: Any) -> _Outcome:
    if group is None:
        raise ParameterError(
            "group", None, "must be given: the sample of each person, 0 or 1 (or 1 or 2)"
        )
    answers = np.asarray(reports)
    if not answers.size:
        raise NoReportsError("there are no reports, so there is nothing to regress")
    said = (
        np.isin(answers, ["yes"]) if answers.dtype.kind in "UO" else answers.astype(np.float64) == 1
    )
    index = np.asarray(group)
    index = index - 1 if index.size and index.min() == 1 else index
    if index.shape != said.shape or not np.isin(index, [0, 1]).all():
        raise ParameterError(
            "group", "…", f"must be 0 or 1 (or 1 or 2) for each of the {said.size} reports"
        )
    # sample, truth, (constant, slope)
    chances = np.array([design.answer_chances(sample) for sample in (0, 1)], dtype=np.float64)
    yes_said = chances[index.astype(np.intp)]
    no_said = np.array([1.0, 0.0]) - yes_said
    given, other = (
        np.where(said[:, None, None] == asked, yes_said, no_said) for asked in (True, False)
    )
    pairs = [(part[:, 1], part[:, 0]) for part in (given, other)]
    return _Outcome(
        ("no", "yes"),
        said.size,
        type(design).__name__,
        design.epsilon,
        rate=design.compliance,
        given=pairs[0],
        other=pairs[1],
    )


def _with_predictors(
    outcome: _Outcome, design: _Floats, randomized: Mapping[str, tuple[ReportLikelihood, Any]]
) -> tuple[PredictorModel, tuple[str, ...], list[float]]:
    """The model, the names of its columns, and what they were divided by."""
    assert outcome.likelihood is not None  # noqa: S101 - two samples were refused
    predictors = [answer_predictor(name, *given) for name, given in randomized.items()]
    for name, predictor in zip(randomized, predictors, strict=True):
        if len(predictor.likelihood) != outcome.n:
            raise ParameterError(
                f"len({name})",
                len(predictor.likelihood),
                f"must be that of the outcome, {outcome.n}",
            )
    count = math.prod(len(predictor.columns) for predictor in predictors)
    if count > _MOST_COMBINATIONS:
        raise ParameterError(
            "combinations of answers", count, f"must be at most {_MOST_COMBINATIONS}"
        )
    joint, columns = combinations(predictors)
    together = joint_channel(predictors)
    channels = None if outcome.channel is None or together is None else (outcome.channel, together)
    names = tuple(name for predictor in predictors for name in predictor.names)
    scales = [
        scale
        for predictor in predictors
        for scale in predictor.scales or (1.0,) * len(predictor.names)
    ]
    return (
        PredictorModel(
            outcome.likelihood, joint, design, columns, joint_basis(predictors), channels
        ),
        names,
        scales,
    )


def _with_sigma(
    outcome: _Outcome, design: _Floats, intercept: bool, max_iterations: int
) -> _Floats:
    """No cluster effects, and a moderate sigma: at 0 the likelihood is flat in it."""
    people = outcome.binary(design)
    alone, _ = maximise(people, people.start(intercept), None, None, max_iterations)
    return np.append(alone, 0.5)


def _notes(outcome: _Outcome, model: Model, sample: Sample | None) -> tuple[str, ...]:
    notes = []
    if outcome.rate == "gamma":
        notes.append(
            "the log-odds are those of people who follow the instructions; gamma is the proportion"
            " of the others, who say no"
        )
    if isinstance(model, RandomInterceptModel):
        notes.append(
            f"sigma is the standard deviation of the intercepts of {model.n_clusters:,} clusters"
        )
    if sample is not None:
        notes.append(
            f"weighted pseudo-likelihood; {sample.effective_degrees:.4g} degrees of freedom"
        )
    return tuple(notes)
