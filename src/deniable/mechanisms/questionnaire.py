"""Several questions to the same people under one budget: all of them, some of them, or one hidden
among made-up answers.

**All** questions answered, the losses add up. **Sampled** (SMP): each person answers `ask` of the
questions, drawn at random, and the row says which; so each answer may spend more, but fewer people
answer each question. **With fake data** (RS+FD): one question is drawn, and the others are answered
with values drawn at random from a law that no answer enters, so that nobody sees which.

What the last one protects needs care. With s_j the probability that question j is drawn, M_j its
mechanism and F_j the law of its fakes,

    P(row | answers) = prod_i F_i(y_i) * sum_j s_j r_j,    r_j = M_j(y_j | v_j) / F_j(y_j).

If all answers of a person change, every r_j may go from its largest value to its smallest one, and
the row's loss is that of the mechanisms themselves: fakes hide which answer is true, not the
person. If one answer changes, the other terms stay, and the loss about that answer is amplified by
sampling: with d equal questions, ln(1 + (e^epsilon - 1)/d). The latter is the epsilon of the paper.
Both are computed here from the integers of the coins.

Arcolezi, Couchot, Al Bouna and Xiao, "Random sampling plus fake data: multidimensional frequency
estimates with local differential privacy", CIKM 2021, sections 3 and 4: RS+FD[GRR] for direct
encoding and RS+FD[UE-z] for unary encoding.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_number, check_range, whole
from deniable.counts import Counts
from deniable.errors import ParameterError
from deniable.mechanisms import exact, solving
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.unary import UnaryEncoding, UnaryMechanism
from deniable.mechanisms.registry import from_dict
from deniable.mechanisms.reports import Reports
from deniable.randomness import ONE, Source, source_or_system

__all__ = ["Answered", "Questionnaire"]


class Answered(NamedTuple):
    """The reports of one question, and who gave them."""

    asked: NDArray[np.bool_] | None
    """For each person, whether the row contains their report; None if all rows do."""
    reports: Reports
    """The reports of those who were asked, in order."""


@dataclass(frozen=True)
class Questionnaire:
    """One mechanism per question, and how many of the questions each person answers.

    `ask` is that number (None: all); the set is drawn for every person, all sets of that size being
    equally likely; with `ask=1`, `weights` may set how often each question is drawn. With
    `fake=True` one question is drawn and all others get made-up answers.

    >>> from deniable import seeded_source
    >>> survey = Questionnaire({"a": DirectEncoding(2, 2.0), "b": DirectEncoding(2, 2.0)}, fake=True)
    >>> survey.epsilon, round(survey.answer_epsilon("a"), 4), round(math.log(1 + math.expm1(2.0) / 2), 4)
    (2.0, 1.4338, 1.4338)
    >>> rows = survey.privatize({"a": [1] * 6000, "b": [0] * 6000}, seeded_source(1))
    >>> print(survey.estimate("a", rows["a"].reports))
    0    -1.38 %      0.00 to 1.71
    1   101.38 %   98.29 to 100.00
    6,000 reports; epsilon 1.434 per report; intervals cover 95 %
    """

    mechanisms: Mapping[str, Mechanism]
    ask: int | None = None
    weights: Mapping[str, float] | None = None
    fake: bool = False
    _numerators: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)
    """How often each question is drawn, over 2**64, if one is."""

    def __post_init__(self) -> None:
        d = len(self.mechanisms)
        if not d:
            raise ParameterError(
                "mechanisms", {}, "must name at least one question and its mechanism"
            )
        if self.fake and self.ask not in (None, 1):
            raise ParameterError(
                "ask",
                self.ask,
                "must be 1 with fake data: one answer is true, the others are made up",
            )
        if self.fake and d < 2:
            raise ParameterError(
                "fake",
                True,
                "needs at least two questions, because the fakes are the answers to the others",
            )
        ask = 1 if self.fake else d if self.ask is None else whole("ask", self.ask, 1, d)
        if self.weights is not None and ask != 1:
            raise ParameterError(
                "weights",
                dict(self.weights),
                message="weights set how often each question is asked, and need ask = 1",
            )
        if self.fake:
            for name, mechanism in self.mechanisms.items():
                if not isinstance(mechanism, DirectEncoding | UnaryMechanism):
                    raise ParameterError(
                        f"mechanisms[{name!r}]",
                        type(mechanism).__name__,
                        "has no fake answers: use direct or unary encoding",
                    )
        object.__setattr__(self, "ask", ask)
        object.__setattr__(self, "mechanisms", dict(self.mechanisms))
        if ask == 1:
            object.__setattr__(
                self, "_numerators", tuple(exact.integer_columns([self._probabilities()])[0])
            )

    def _probabilities(self) -> list[Fraction]:
        if self.weights is None:
            return [Fraction(1)] * len(self.mechanisms)
        if set(self.weights) != set(self.mechanisms):
            raise ParameterError(
                "weights",
                sorted(self.weights),
                f"must be given for {', '.join(self.mechanisms)} and no others",
            )
        found = []
        for name in self.mechanisms:
            weight = check_number(f"weights[{name!r}]", self.weights[name])
            check_range(f"weights[{name!r}]", weight, above=0)
            found.append(Fraction(weight))
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The questions, in order."""
        return tuple(self.mechanisms)

    @property
    def sampled(self) -> bool:
        """Whether a row leaves out questions that the person was not asked."""
        return not self.fake and self.ask != len(self.mechanisms)

    @property
    def kind(self) -> str:
        """In words."""
        if self.fake:
            return "one question answered, the others with fake data"
        d = len(self.mechanisms)
        return (
            f"{self.ask} of {d} questions answered, drawn for each person"
            if self.sampled
            else "all questions answered"
        )

    def inclusion(self, name: str) -> float:
        """The probability that a person's own answer to this question goes into the row."""
        return float(self._inclusion(name))

    def _inclusion(self, name: str) -> Fraction:
        if self.ask == 1:
            return Fraction(self._numerators[self.names.index(name)], ONE)
        assert self.ask is not None  # noqa: S101 - set when the questionnaire was made
        return Fraction(self.ask, len(self.mechanisms))

    # --- losses

    @property
    def epsilon(self) -> float:
        """The exact loss of a person's whole row, whatever the answers."""
        if not self.fake:
            return math.fsum(
                sorted((m.epsilon for m in self.mechanisms.values()), reverse=True)[: self.ask]
            )
        most, least = zip(*(self._ratios(name) for name in self.names), strict=True)
        return exact.log_ratio(sum(most, Fraction(0)) / sum(least, Fraction(0)))

    def answer_epsilon(self, name: str) -> float:
        """The exact loss of a person's whole row about one answer, against anyone who knows all
        other answers."""
        return self._answer_epsilons[name]

    def _answer_epsilon(self, name: str) -> float:
        if not self.fake:
            return self.mechanisms[name].epsilon
        most, least = self._ratios(name)
        others = sum((self._ratios(other)[1] for other in self.names if other != name), Fraction(0))
        return exact.log_ratio((most + others) / (least + others))

    def _ratios(self, name: str) -> tuple[Fraction, Fraction]:
        """The largest and the smallest s r of a question: its chance times P(report | answer) over
        P(report as a fake)."""
        mechanism, chance = self.mechanisms[name], self._inclusion(name)
        if isinstance(mechanism, DirectEncoding):
            k = len(mechanism.domain)
            truthful = Fraction(mechanism._truthful, ONE)
            return chance * k * truthful, chance * k * (1 - truthful) / (k - 1)
        assert isinstance(mechanism, UnaryMechanism)  # noqa: S101 - checked before
        a, b = Fraction(mechanism._a, ONE), Fraction(mechanism._b, ONE)
        return chance * a / b, chance * (1 - a) / (1 - b)

    # --- drawing

    def choose(self, n: int, source: Source | None = None) -> NDArray[np.bool_]:
        """One row per person, one column per question: which are answered. Independent of the
        answers."""
        source = source_or_system(source)
        d = len(self.mechanisms)
        if self.ask == d:
            return np.ones((n, d), dtype=np.bool_)
        if self.ask == 1:
            drawn = source.pick(exact.thresholds([self._numerators]), np.zeros(n, dtype=np.intp))
            return np.asarray(drawn[:, None] == np.arange(d))
        assert self.ask is not None  # noqa: S101 - set when the questionnaire was made
        rows = source.subsets(n, d, self.ask)
        return np.unpackbits(rows, axis=1, count=d, bitorder="little").astype(np.bool_)

    def privatize(self, columns: Any, source: Source | None = None) -> dict[str, Answered]:
        """Randomize rows of answers, given as one column per question (a mapping or a data frame).

        All answers are read and checked, including those to questions not asked: whether a file is
        refused must not depend on the coins.
        """
        source = source_or_system(source)
        for name in self.names:
            if name not in columns:
                raise ParameterError("columns", list(columns), f"must hold the question {name!r}")
        n = len(columns[self.names[0]])
        asked = self.choose(n, source)
        return {name: self.answer(name, columns[name], asked, source) for name in self.names}

    def answer(
        self, name: str, values: Any, asked: NDArray[np.bool_], source: Source | None = None
    ) -> Answered:
        """One question, for rows where :meth:`choose` said who is asked what."""
        source = source_or_system(source)
        mechanism, chosen = self.mechanisms[name], asked[:, self.names.index(name)]
        if self.fake:
            indices = mechanism.indices(values)
            self._check_rows(name, indices.size, chosen.size)
            return Answered(None, _with_fakes(mechanism, indices, chosen, source))
        reports = mechanism.privatize(values, source)
        self._check_rows(name, len(reports), chosen.size)
        return Answered(chosen, reports[chosen]) if self.sampled else Answered(None, reports)

    @staticmethod
    def _check_rows(name: str, size: int, n: int) -> None:
        if size != n:
            raise ParameterError(f"len(columns[{name!r}])", size, f"must be {n}, as for the others")

    # --- estimating

    def estimator(self, name: str) -> Mechanism:
        """The mechanism whose channel is that of the question's reports: its own, or, with fake
        data, its own diluted by them.

        A report of direct encoding is true with probability s a + (1 - s)/k, and each other one
        with s b + (1 - s)/k; a bit of unary encoding is 1 with s a + (1 - s) b or b. Both have the
        form of the mechanism itself, at a smaller epsilon.
        """
        return self._estimators[name]

    @cached_property
    def _estimators(self) -> dict[str, Mechanism]:
        return {
            name: self._diluted(name) if self.fake else mechanism
            for name, mechanism in self.mechanisms.items()
        }

    @cached_property
    def _answer_epsilons(self) -> dict[str, float]:
        return {name: self._answer_epsilon(name) for name in self.names}

    def _diluted(self, name: str) -> Mechanism:
        mechanism, s = self.mechanisms[name], self._inclusion(name)
        if isinstance(mechanism, DirectEncoding):
            k = len(mechanism.domain)
            truthful = Fraction(mechanism._truthful, ONE)
            a, b = s * truthful + (1 - s) / k, s * (1 - truthful) / (k - 1) + (1 - s) / k
            return DirectEncoding(mechanism.domain, exact.log_ratio(a / b))
        assert isinstance(mechanism, UnaryMechanism)  # noqa: S101 - checked before
        a, b = Fraction(mechanism._a, ONE), Fraction(mechanism._b, ONE)
        return UnaryEncoding(mechanism.domain, float(s * a + (1 - s) * b), float(b))

    def estimate(
        self, name: str, reports: Any, population: int | None = None, **options: Any
    ) -> solving.Estimate:
        """What the reports (or a tally) of one question say about everybody, including those not
        asked."""
        mechanism = self.mechanisms[name]
        tally = mechanism.gather(reports)
        if not self.fake:
            return mechanism.estimate(tally, population, **options)
        diluted = self.estimator(name)
        estimate = diluted.estimate(Counts(tally.counts, tally.n), population, **options)
        described = f"{type(mechanism).__name__} with fake data"
        return dataclasses.replace(estimate, epsilon=self.answer_epsilon(name), mechanism=described)

    # --- other forms

    def to_dict(self) -> dict[str, Any]:
        """A JSON document, which :meth:`from_dict` reads."""
        return {
            "mechanisms": {
                name: mechanism.to_dict() for name, mechanism in self.mechanisms.items()
            },
            **self.rule(),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Questionnaire:
        """The questionnaire that :meth:`to_dict` described."""
        mechanisms = {
            name: from_dict(description) for name, description in document["mechanisms"].items()
        }
        return cls(
            mechanisms, document.get("ask"), document.get("weights"), document.get("fake", False)
        )

    def rule(self) -> dict[str, Any]:
        """Which questions are asked, as recorded beside the mechanisms; empty if all are."""
        if self.fake:
            found: dict[str, Any] = {"fake": True}
        elif self.sampled:
            found = {"ask": self.ask}
        else:
            return {}
        return found | ({"weights": dict(self.weights)} if self.weights is not None else {})


def _with_fakes(
    mechanism: Mechanism, indices: NDArray[np.intp], asked: NDArray[np.bool_], source: Source
) -> Reports:
    """Reports of those who were asked, and fakes of the others: a uniform label, or the bits of an
    answer without labels."""
    if isinstance(mechanism, UnaryMechanism):
        return Reports(mechanism, mechanism.draw(np.where(asked, indices, -1), source))
    data = np.empty(indices.size, dtype=mechanism.layout[0])
    data[asked] = mechanism.draw(indices[asked], source)
    data[~asked] = source.below(len(mechanism.domain), int(np.count_nonzero(~asked)))
    return Reports(mechanism, data)
