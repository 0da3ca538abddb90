"""RAPPOR: any text in a Bloom filter, randomized once permanently and again in each report."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_range, whole
from deniable.errors import AnswerTypeError, MissingAnswerError, ParameterError, ReportFormatError
from deniable.mechanisms import solving
from deniable.mechanisms.bits import count_columns, row_bytes
from deniable.mechanisms.domain import column, missing
from deniable.mechanisms.protocols.permanent import (
    MemoizedMechanism,
    TwoSteps,
    equal_steps,
    flip_within,
)
from deniable.mechanisms.reports import require_reports
from deniable.randomness import Source

__all__ = ["Rappor", "bloom_positions"]

MOST_BITS, MOST_HASHES, MOST_COHORTS = 8192, 8, 1024
_COHORT = np.dtype("<u2")
_PERSON = b"deniable rappor1"


def bloom_positions(text: str, cohort: int, hashes: int, bits: int) -> tuple[int, ...]:
    """The bits of a text in a cohort's Bloom filter; some may coincide.

    BLAKE2b with a digest of 64 bytes, the personalization "deniable rappor1" and as salt the
    cohort's number in 8 little-endian bytes, of the text in UTF-8 as it stands (not normalised).
    Hash i is the i-th little-endian 64-bit word of the digest, modulo `bits`. All of it is public:
    anyone who wants to look for a text has to be able to compute its bits.

    >>> bloom_positions("www.example.com", cohort=3, hashes=2, bits=128) == bloom_positions("www.example.com", 3, 2, 128)
    True
    """
    return _positions(text.encode(), cohort, hashes, bits)


def _positions(content: bytes, cohort: int, hashes: int, bits: int) -> tuple[int, ...]:
    digest = hashlib.blake2b(content, person=_PERSON, salt=cohort.to_bytes(8, "little")).digest()
    return tuple(int.from_bytes(digest[8 * i : 8 * i + 8], "little") % bits for i in range(hashes))


@dataclass(frozen=True, eq=False, repr=False)
class Rappor(MemoizedMechanism):
    """Reports of any text, from which the frequent ones among given candidates can be found.

    The sender draws a cohort, sets the `hashes` bits that the text has in that cohort's Bloom
    filter of `bits` bits (:func:`bloom_positions`), flips each bit with probability f/2 (the
    permanent step, kept together with the cohort), and reports a permanent 1 as 1 with probability
    `q` and a permanent 0 with probability `p` < `q`. With q* and p* as for :class:`BasicRappor`,
    and h hashes,

    * `epsilon` = h ln( q* (1 - p*) / (p* (1 - q*)) ), the loss of one report;
    * `lifetime_epsilon` = 2 h ln( (1 - f/2) / (f/2) ), the loss of any number of replays of one
      permanent answer.

    Another text clears at most h bits and sets at most h others: both figures bound the loss for
    every pair of texts, and are reached by those that have h bits each and none in common. The
    cohort does not depend on the text and reveals nothing about it.

    A report is the cohort (2 bytes, little-endian) and the packed bits.
    Erlingsson, Pihur and Korolova, "RAPPOR", CCS 2014: theorems 1 and 2; section 4 for decoding.

    >>> from deniable import seeded_source
    >>> pages = Rappor(bits=64, hashes=2, cohorts=32, f=0.2, p=0.2, q=0.8)
    >>> reports = pages.privatize(["/home"] * 6000 + ["/help"] * 4000, source=seeded_source(1))
    >>> found = pages.estimate(reports, candidates=["/home", "/help", "/jobs"])
    >>> found.detected.tolist()
    [True, True, False]
    """

    bits: int
    hashes: int
    cohorts: int
    f: float
    p: float
    q: float

    def __post_init__(self) -> None:
        bits = whole("bits", self.bits, 2, MOST_BITS)
        hashes = whole("hashes", self.hashes, 1, MOST_HASHES)
        if 2 * hashes > bits:
            raise ParameterError("hashes", hashes, f"must be at most half of bits = {bits}")
        cohorts = whole("cohorts", self.cohorts, 1, MOST_COHORTS)
        steps = TwoSteps.of(self.f, self.p, self.q)
        self._set(
            bits=bits,
            hashes=hashes,
            cohorts=cohorts,
            f=float(self.f),
            p=float(self.p),
            q=float(self.q),
            _steps=steps,
        )
        self._set(
            epsilon=steps.report_epsilon(hashes), lifetime_epsilon=steps.lifetime_epsilon(hashes)
        )

    @classmethod
    def from_epsilon(cls, epsilon: float, *, values: Any = None) -> Rappor:
        """With 32 bits, two hashes, 8 cohorts and two equal steps; `values` does not matter, for
        they are texts.

        >>> round(Rappor.from_epsilon(1.0).epsilon, 6)
        1.0
        """
        return cls(32, 2, 8, *equal_steps(epsilon, 2))

    @classmethod
    def from_lifetime_epsilon(
        cls,
        bits: int,
        hashes: int,
        cohorts: int,
        lifetime_epsilon: float,
        p: float = 0.5,
        q: float = 0.75,
    ) -> Rappor:
        """With the least permanent noise that keeps within the given lifetime loss; `p` and `q` are
        the paper's.

        >>> 3.999999 < Rappor.from_lifetime_epsilon(128, 2, 64, lifetime_epsilon=4.0).lifetime_epsilon <= 4
        True
        """
        return cls(
            bits,
            hashes,
            cohorts,
            flip_within(lifetime_epsilon, whole("hashes", hashes, 1, MOST_HASHES)),
            p,
            q,
        )

    def parameters(self) -> dict[str, Any]:
        names = ("bits", "hashes", "cohorts", "f", "p", "q")
        return {name: getattr(self, name) for name in names}

    @property
    def labels(self) -> tuple[Any, ...]:
        """None: the domain is any text. An estimate has the labels of its candidates."""
        return ()

    @property
    def layout(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return np.dtype(np.uint8), (_COHORT.itemsize + row_bytes(self.bits),)

    @property
    def cells(self) -> int:
        """For each cohort, the number of its reports, then how many of them have each bit."""
        return self.cohorts * (1 + self.bits)

    def encode(self, values: Any) -> NDArray[np.object_]:
        """The texts in UTF-8."""
        array = column(values)
        out = np.empty(array.size, dtype=object)
        for position, value in enumerate(array.tolist()):
            if missing(value):
                raise MissingAnswerError(position, "is missing (NaN or null)")
            if not isinstance(value, str):
                raise AnswerTypeError(position, "is not a text")
            content = _utf8(value)
            if content is None:
                raise AnswerTypeError(position, "is not valid Unicode text")
            out[position] = content
        return out

    def draw_permanent(self, encoded: NDArray[Any], source: Source) -> NDArray[np.uint8]:
        cohorts = source.below(self.cohorts, encoded.size)
        kept = self._steps.permanent(self._filters(encoded, cohorts), self.bits, source)
        return np.hstack([cohorts.astype(_COHORT)[:, None].view(np.uint8), kept])

    def draw_report(self, permanent: NDArray[np.uint8], source: Source) -> NDArray[np.uint8]:
        cohort, kept = np.hsplit(permanent, [_COHORT.itemsize])
        return np.hstack([cohort, self._steps.instantaneous(kept, self.bits, source)])

    def _filters(self, contents: NDArray[Any], cohorts: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The true Bloom filters. A text that occurs more than once in a cohort is hashed once."""
        number: dict[bytes, int] = {}
        codes = np.array(
            [number.setdefault(content, len(number)) for content in contents], dtype=np.int64
        )
        texts = list(number)
        pairs, inverse = np.unique(codes * self.cohorts + cohorts, return_inverse=True)
        hashed = [
            _positions(texts[pair // self.cohorts], pair % self.cohorts, self.hashes, self.bits)
            for pair in pairs.tolist()
        ]
        positions = np.array(hashed, dtype=np.int64).reshape(-1, self.hashes)
        filters = np.zeros((len(pairs), row_bytes(self.bits)), dtype=np.uint8)
        rows = np.arange(len(pairs))
        for place in positions.T:
            filters[rows, place >> 3] |= np.uint8(1) << (place & 7).astype(np.uint8)
        return filters[inverse]

    def check(self, data: NDArray[Any]) -> None:
        if len(data) and self._cohort(data).max() >= self.cohorts:
            raise ReportFormatError(f"a report's cohort lies outside 0 to {self.cohorts - 1}")
        spare = self.bits % 8
        if spare and (data[:, -1] >> spare).any():
            raise ReportFormatError(f"a report of {self.bits} bits has bits set beyond them")

    @staticmethod
    def _cohort(data: NDArray[np.uint8]) -> NDArray[np.uint16]:
        return np.ascontiguousarray(data[:, : _COHORT.itemsize]).view(_COHORT)[:, 0]

    def check_counts(self, counts: NDArray[np.int64], n: int) -> None:
        super().check_counts(counts, n)
        table = counts.reshape(self.cohorts, -1)
        if sum(table[:, 0].tolist()) != n or (table[:, 1:] > table[:, :1]).any():
            raise ReportFormatError(
                f"a tally of {n} reports has counts that its cohorts do not add up to"
            )

    def count(self, data: NDArray[Any]) -> NDArray[np.int64]:
        cohort = self._cohort(data)
        ordered = data[np.argsort(cohort, kind="stable"), _COHORT.itemsize :]
        counts = np.zeros((self.cohorts, 1 + self.bits), dtype=np.int64)
        counts[:, 0] = np.bincount(cohort, minlength=self.cohorts)
        ends = np.cumsum(counts[:, 0])
        for j in np.flatnonzero(counts[:, 0]):
            counts[j, 1:] = count_columns(ordered[ends[j] - counts[j, 0] : ends[j]], self.bits)
        return counts.reshape(-1)

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        """For each cohort and bit, the unbiased proportion of senders whose true filter has it; NaN
        if a cohort has no reports."""
        a, b = self.channel()
        table = counts.reshape(self.cohorts, -1)
        size = table[:, :1].astype(np.float64)
        rate = np.divide(
            table[:, 1:], size, out=np.full((self.cohorts, self.bits), np.nan), where=size > 0
        )
        variance = rate * (1 - rate) / ((a - b) ** 2 * np.maximum(size - 1, 1))
        return ((rate - b) / (a - b)).reshape(-1), variance.reshape(-1), None

    def estimate(
        self,
        reports: Any,
        population: int | None = None,
        candidates: Iterable[str] | None = None,
        significance: float = 0.05,
        correction: str = "bonferroni",
    ) -> solving.CandidateEstimate:
        """The proportion of each candidate text, and which candidates were detected.

        The proportions are unbiased if all texts sent are candidates. If some are not, their bits
        fall on those of the candidates by chance: the proportions are then unbiased on average over
        the hash, and `misfit`, the error bars and the p-values say how far off they can be by
        chance. `others` is the remaining proportion.

        `correction` accounts for the number of candidates: with "bonferroni" or "holm" the
        probability of any false detection is at most `significance`; with "fdr" (Benjamini and
        Hochberg) that is the expected proportion of false detections. A detection needs a dozen or
        so bits over all cohorts: with fewer, a candidate cannot be distinguished from another text
        with the same bits.
        """
        texts = _candidates(candidates)
        check_range("significance", significance, above=0, below=1)
        solving.check_correction(correction)
        tally = self.gather(reports)
        n = require_reports(tally.n)
        if self.rounds(tally) > 1:
            rule = (
                "hold several replays of the same permanent answers, which are not independent:"
                " estimate each round by itself"
            )
            raise ParameterError("reports", f"{n:,} reports", rule)
        population = solving.check_population(population, n)
        filters = self.solve(tally.counts, n)[0].reshape(self.cohorts, self.bits)
        sizes = tally.counts.reshape(self.cohorts, -1)[:, 0]
        found = solving.decode(filters, sizes, self._positions_of(texts), *self.channel())
        proportions, variance, covariance = solving.finite(
            (found.proportions, np.diagonal(found.covariance), found.covariance), population
        )
        spread = 0.0 if covariance is None else max(float(covariance.sum()), 0.0)
        others = 1 - float(proportions.sum()), math.sqrt(spread)
        detected = solving.adjust(found.p_values, correction) <= significance
        return solving.CandidateEstimate(
            labels=texts,
            proportions=proportions,
            variance=variance,
            covariance=covariance if len(texts) <= solving.LARGEST_COVARIANCE else None,
            n=n,
            population=population,
            mechanism=type(self).__name__,
            epsilon=self.epsilon,
            p_value=found.p_values,
            detected=detected,
            significance=significance,
            correction=correction,
            others=others,
            misfit=found.misfit,
            notes=(
                (
                    f"{detected.sum()} of {len(texts)} candidates found (significance"
                    f" {significance:g}, {correction})"
                ),
                f"other texts: {100 * others[0]:.2f} %, standard error {100 * others[1]:.2f}",
            ),
        )

    def influence(
        self,
        n: int,
        liars: int = 1,
        candidates: Iterable[str] | None = None,
        sizes: Iterable[int] | None = None,
    ) -> NDArray[np.float64]:
        """For each candidate, the largest change that `liars` among `n` reports can make to its
        estimated proportion.

        A liar sends any bits in place of a report of the same cohort; `sizes` are the reports per
        cohort, by default equal. The regression weights cohorts by their sizes, so a candidate that
        only a small cohort distinguishes from the others can be moved further: without `sizes` and
        `candidates` there is no bound.
        """
        texts = _candidates(candidates)
        n = whole("n", n, 1, 2**63 - 1)
        liars = whole("liars", liars, 0, n)
        given = (
            np.full(self.cohorts, n / self.cohorts)
            if sizes is None
            else np.array(list(sizes), dtype=np.float64)
        )
        if given.shape != (self.cohorts,) or given.min() < 0 or not math.isclose(given.sum(), n):
            raise ParameterError(
                "sizes",
                given.tolist(),
                f"must be the reports of {self.cohorts} cohorts, {n} in all",
            )
        a, b = self.channel()
        return solving.bit_ranges(given, self._positions_of(texts), self.bits) * (liars / (a - b))

    def _positions_of(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """positions[v, j]: the bits of text v in cohort j."""
        hashed = [
            [bloom_positions(text, j, self.hashes, self.bits) for j in range(self.cohorts)]
            for text in texts
        ]
        return np.array(hashed, dtype=np.int64)


def _utf8(text: str) -> bytes | None:
    """The text's bytes, or None for a lone surrogate, whose own error would carry the text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _candidates(candidates: Iterable[str] | None) -> tuple[str, ...]:
    if (
        candidates is None
        or isinstance(candidates, str | bytes)
        or not isinstance(candidates, Iterable)
    ):
        raise ParameterError(
            "candidates",
            candidates,
            "must be a list of the texts to look for: the domain is any text",
        )
    texts = tuple(candidates)
    if not texts:
        raise ParameterError("candidates", [], "must hold at least 1 text")
    for text in texts:
        if not isinstance(text, str) or _utf8(text) is None:
            raise ParameterError("candidates", text, "must be texts")
    if len(set(texts)) < len(texts):
        twice = next(text for i, text in enumerate(texts) if text in texts[:i])
        raise ParameterError("candidates", twice, "must not be listed twice")
    return tuple(str(text) for text in texts)
