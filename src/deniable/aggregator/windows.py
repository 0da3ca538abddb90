"""Windows: panes added up and solved, with an error that covers sampling, randomization, strata and a finite population.

A window's estimate is of the mean, over its epochs, of the population's proportions, each epoch weighted by the people who
could answer in it: by its reports or, if versions of the query sampled differently, by its reports divided by the sampling. With
n_e reports of U people in epoch e, and n in all, panes are independent given the answers, and the variance of their pooled
estimate is

    V = V_infinite - V_s / U_w,        U_w = U n^2 / sum n_e^2

which is MATHS 1 for one epoch, and the formula for a population of m U for m equal epochs. A query without a stated population
gets V_infinite, which is never smaller.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.estimate_documents import LARGEST_SENT, LARGEST_SOLVED, describe_estimate, read_estimate
from deniable.aggregator.panes import Pane, PaneKey
from deniable.aggregator.shuffled_loss import sampled_loss, shuffled_loss
from deniable.display import Display, loss_text
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate, ReportCounts, covariances_up_to
from deniable.estimation.pooling import stratified, with_estimated_sizes
from deniable.estimation.tables import Table
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.permanent import MemoizedMechanism
from deniable.mechanisms.reports import Tally
from deniable.queries.lasting import own_limits, silence
from deniable.queries.query import Query
from deniable.queries.times import iso_time
from deniable.randomness import ONE
from deniable.results import Result, encode, fields_of

__all__ = ["COMPLETE", "MALFORMED", "NO_COUNTERPART", "PROXY_DOWN", "WITHHELD", "Window", "assemble", "estimate_period"]

COMPLETE = "complete"
WITHHELD = "withheld"
"""Fewer answers than the query's minimum cohort can be released: there is no estimate."""
PROXY_DOWN = "proxy down"
"""Some epochs were closed without one of the proxies: answers are missing, and it is not known whose."""
MALFORMED = "malformed"
"""So many shares were malformed that the answers behind them could move a proportion beyond its 95 % interval."""
NO_COUNTERPART = "have no counterpart at another proxy"
"""Part of a window's note when a proxy's unmatched shares represent answers that could move a proportion beyond its ±."""
_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Window(Result):
    """The result of one window. Printed, it is the estimate under a line with its time and what is missing."""

    query: str
    serial: int
    """The newest version counted in it."""
    index: int
    start: int
    end: int
    """In seconds of UTC; the first second after the window."""
    condition: str
    n: int
    """The answers that the estimate is based on."""
    nothing: int
    """Messages that said there was nothing to report."""
    estimate: Estimate | None
    missing: tuple[str, ...] = ()
    """The proxies without which some of its epochs were closed."""
    conservation: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What became of the shares of its channel and epochs, per proxy."""
    influence: float | None = None
    """The largest change that one lying report can make to the estimate of any label; the changes of several liars add up."""
    revision: int = 0
    """Which result of the window it is, counted from 0. Each is based on all answers that had arrived by then."""
    final: bool = True
    """Whether no later answer can count."""
    open_until: int | None = None
    """Until which second answers may still arrive, while it is not final."""
    expected: int | None = None
    """How many more answers to expect, judging by those that came late in an earlier window; None if there is none yet."""
    wish: float | None = None
    """The half-width of the 95 % interval that the analyst wished for, for each proportion."""
    silent_from: int | None = None
    """When devices that answer as often as expected will have used up the query's budget; None if it lasts to the end."""
    columns: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """The buckets of each column of the answer; labels are their combinations, with the first column most significant."""
    complete: bool = True
    """Whether every answer is in some bucket, so that proportions make up a whole."""
    epsilon_shuffled: float | None = None
    """An upper bound for one answer, to anyone who sees only the shuffled reports, except with probability `delta_shuffled`. None
    where no such claim is made: without an estimate, and for memoized answers."""
    delta_shuffled: float | None = None
    shuffled_among: int | None = None
    """How many reports the least hidden answer was shuffled among: those of its epoch, stratum and version."""
    held_back: int = 0
    """Answers of its epochs that it does not have: too few to be released by themselves, or released together with epochs outside
    the window."""

    def table(self, of: str | Sequence[str] | None = None, given: str | Sequence[str] | None = None) -> Table:
        """The joint table of the query's columns or, with `of` and `given`, the conditional one, P(of | given).

        Its cells have the covariance of the estimate, so that marginals, slices, conditionals and what :mod:`deniable.statistics`
        derives from them have honest errors. `window.table(of="next", given="current")` is an event chain's step.
        """
        if self.estimate is None:
            n = self.n + self.held_back
            raise ParameterError("window", self.index, f"has no estimate: {self.condition}, {n:,} answers")
        if not self.columns:
            raise ParameterError("window", self.index, "does not list its columns: it comes from an older aggregator")
        if not self.complete:
            rule = "must have other = true: without it some answers are in no bucket, and the buckets make up no whole"
            raise ParameterError("columns", list(self.columns), rule)
        whole = Table.of(self.estimate, next(iter(self.columns)))
        if len(self.columns) > 1:
            whole = whole.unfolded({name: tuple(labels) for name, labels in self.columns.items()})
        if given is None:
            return whole if of is None else whole.marginal(*_several(of))
        others = [name for name in self.columns if name not in _several(given)]
        return whole.conditional(tuple(others if of is None else _several(of)), tuple(_several(given)))

    def chain(self, *columns: str) -> list[Table]:
        """The steps of an event chain: P(second | first), P(third | second), … for the named columns, or for all in order."""
        names = columns or tuple(self.columns)
        return [self.table(after, before) for before, after in pairwise(names)]

    @property
    def error(self) -> float | None:
        """The half-width of the widest 95 % interval, which is compared with the wish; None without an estimate."""
        return None if self.estimate is None else widest(self.estimate)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """As JSON data, which :meth:`from_dict` reads. Covariances of many labels are left out if the counts determine them."""
        out = fields_of(self, "estimate")
        if self.estimate is not None:
            out |= describe_estimate(self.estimate, confidence)
            out["error"] = encode(widest(self.estimate))
        return out

    @classmethod
    def _arguments(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        known = {name: value for name, value in document.items() if name not in ("estimate", "error")}
        arguments = super()._arguments({**known, "estimate": None})
        if "estimate" in document:
            arguments["estimate"] = read_estimate(document, (document["start"], document["end"]))
        return arguments

    def _display(self, confidence: float = 0.95) -> Display:
        head = str(self).splitlines()[0]
        if self.estimate is None:
            return Display(("label", "estimate", "stderr", "low", "high"), [], (head,))
        shown = self.estimate._display(confidence)
        return dataclasses.replace(shown, notes=(head, *shown.notes))

    def __str__(self) -> str:
        head = f"{self.query}, window {self.index}, {iso_time(self.start)} to {iso_time(self.end)}: {self.condition}"
        if self.missing:
            head += f", closed without {', '.join(self.missing)}"
        if not self.final or self.revision:
            head += f"\n{self._spoken_revision()}"
        if self.estimate is None:
            return f"{head}, no estimate ({self.n + self.held_back:,} answers)"
        liar = (
            "" if self.influence is None else f"\none lying report moves a proportion by up to {100 * self.influence:.2g} points"
        )
        quiet = ""
        if self.silent_from is not None:
            end = iso_time(self.silent_from)
            quiet = f"\nat this schedule the query's budget is used up about {end}, and devices fall silent"
        return f"{head}\n{self.estimate}{self._spoken_shuffled()}{liar}{quiet}"

    def _spoken_shuffled(self) -> str:
        if self.epsilon_shuffled is None:
            return ""
        shown = loss_text(self.epsilon_shuffled)
        crowd = f"shuffled among {self.shuffled_among:,} or more"
        return f"\nepsilon {shown} per answer for anyone who sees only the reports, {crowd} (delta {self.delta_shuffled:g})"

    def _spoken_revision(self) -> str:
        if self.final:
            return f"revision {self.revision}, final: no later answer counts"
        until = "" if self.open_until is None else f" until {iso_time(self.open_until)}"
        more = "how many is not known yet" if self.expected is None else f"some {self.expected:,} more, as in an earlier window"
        return f"revision {self.revision}, not final: answers may come{until} ({more})"

    def __repr__(self) -> str:
        n = self.n if self.estimate is not None else self.n + self.held_back
        return f"<window {self.index} of {self.query!r}: {self.condition}, {n:,} answers>"


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def widest(estimate: Estimate, confidence: float = 0.95) -> float:
    """The half-width of the widest interval of an estimate."""
    low, high = estimate.interval(confidence).T
    return float((high - low).max() / 2)


def assemble(
    versions: Sequence[Query],
    index: int,
    panes: Mapping[PaneKey, Pane],
    missing: Iterable[str] = (),
    conservation: Mapping[str, Any] | None = None,
    *,
    held_back: int = 0,
    nothing: int | None = None,
) -> Window:
    """The result of a window of a query, from the released panes of its epochs; `versions` are the query's, oldest first.

    `held_back` is the number of answers that are not released; `nothing` counts the messages with nothing to report, if the
    panes do not.
    """
    start, end = versions[-1].schedule.bounds_of_window(index)
    missing = tuple(missing)
    newest, n, estimate = estimate_period(versions, panes, (start, end))
    half_width = 0.0 if estimate is None else widest(estimate)  # only notes are added from here on
    if estimate is not None and missing:
        note = f"some epochs were closed without {', '.join(missing)}: answers are missing"
        estimate = dataclasses.replace(estimate, notes=(*estimate.notes, note))
    wish = newest.budget.wish
    if estimate is not None and wish is not None and half_width > wish:
        note = f"the widest ± is {100 * half_width:.2f} points, and ± {100 * wish:.2f} was wished for"
        estimate = dataclasses.replace(estimate, notes=(*estimate.notes, note))
    spoiled, alone = (_lost(conservation or {}, outcome) for outcome in ("malformed", "orphaned"))
    condition = PROXY_DOWN if missing else COMPLETE if estimate is not None else WITHHELD
    if estimate is not None and spoiled.proportion > half_width:
        condition = PROXY_DOWN if missing else MALFORMED
        estimate = dataclasses.replace(estimate, notes=(*estimate.notes, spoiled.note("were malformed")))
    if estimate is not None and not missing and alone.proportion > half_width:
        # A proxy that was away for longer than its grace marks epochs whose shares it refused: only the others' shares show this.
        note = alone.note(NO_COUNTERPART)
        estimate = dataclasses.replace(estimate, notes=(*estimate.notes, note))
    if estimate is not None and held_back and held_back / (held_back + n) > half_width:
        note = (
            f"{held_back:,} answers are held back: they are too few to be released by themselves, "
            "and could move a proportion further than ± says"
        )
        estimate = dataclasses.replace(estimate, notes=(*estimate.notes, note))
    if nothing is None:
        nothing = sum(pane.nothing for pane in panes.values())
    influence = None if estimate is None else _influence(versions, panes)
    accounts = conservation or {}
    about = (newest.id, newest.serial, index, start, end, condition, n, nothing)
    quiet = silence(newest, own_limits(newest))
    silent_from = None if quiet is None else quiet.at
    columns = {column.name: column.labels for column in newest.columns}
    more: dict[str, Any] = {"wish": wish, "silent_from": silent_from, "columns": columns, "complete": newest.buckets.complete}
    more["held_back"] = held_back
    shuffled = None if estimate is None else shuffled_loss(_counted(versions, panes)[2], panes)
    if shuffled is not None:
        more |= {"epsilon_shuffled": shuffled.epsilon, "delta_shuffled": shuffled.delta, "shuffled_among": shuffled.crowd}
    return Window(*about, estimate, missing, accounts, influence, **more)


class _Lost(NamedTuple):
    """The proxy that lost the largest proportion of its shares."""

    proxy: str = ""
    proportion: float = 0.0

    def note(self, what: str) -> str:
        """What it means for the estimate."""
        shares = f"{100 * self.proportion:.2g} % of the shares of {self.proxy} {what}"
        return f"{shares}: the answers behind them are missing, and could move a proportion further than ± says"


def _lost(conservation: Mapping[str, Any], outcome: str) -> _Lost:
    """How large a part of a window's answers may be missing because a share was malformed or had no counterpart.

    If a proportion m of the answers is missing, the proportion of all answers is within m of that of the others, whatever the
    missing ones said. That is a bias, which no interval of the others covers; so m is compared with its half-width.
    """
    found = _Lost()
    for name, account in conservation.get("proxies", {}).items():
        if lost := account.get(outcome, 0):
            found = max(found, _Lost(name, lost / (lost + account["counted"])), key=_second)
    return found


_second = itemgetter(1)


def estimate_period(
    versions: Sequence[Query], panes: Mapping[PaneKey, Pane], period: tuple[int, int]
) -> tuple[Query, int, Estimate | None]:
    """The newest version in some panes, how many answers can be used with it, and their estimate if there are enough."""
    counted, newest, same = _counted(versions, panes)
    used = {key: pane for key, pane in panes.items() if any(key.serial == query.serial for query in same)}
    n = sum(pane.n for pane in used.values())
    if n < max(query.minimum_cohort for query in [newest, *same]):
        return newest, n, None
    estimate = _estimate(same, used, period)
    if len(same) < len(counted):
        notes = (*estimate.notes, "answers to earlier versions with other buckets are left out")
        estimate = dataclasses.replace(estimate, notes=notes)
    return newest, n, estimate


def _counted(versions: Sequence[Query], panes: Mapping[PaneKey, Pane]) -> tuple[list[Query], Query, list[Query]]:
    """The versions that have answers, the newest of them, and those with the same labels as it."""
    counted = [query for query in versions if any(key.serial == query.serial and pane.n for key, pane in panes.items())]
    newest = counted[-1] if counted else versions[-1]
    # Shares of other buckets say nothing about these: a version that changed the labels starts afresh.
    return counted, newest, [query for query in counted if query.labels == newest.labels]


def _influence(versions: Sequence[Query], panes: Mapping[PaneKey, Pane]) -> float:
    """The largest change that one lying report can make: in the stratum and version where it weighs most."""
    used = [(query, _by_stratum(query, panes)) for query in _counted(versions, panes)[2]]
    people = [_people(query, strata) for query, strata in used]
    worst = 0.0
    for (query, strata), mine in zip(used, people, strict=True):
        sizes = {stratum: _size(query, stratum, epochs) for stratum, epochs in strata.items()}
        of_version = mine / sum(people)
        for stratum, epochs in strata.items():
            weight = of_version * sizes[stratum] / sum(sizes.values())
            worst = max(worst, weight * float(query.mechanism.influence(sum(pane.n for pane in epochs)).max()))
    return worst


def _by_stratum(query: Query, panes: Mapping[PaneKey, Pane]) -> dict[int, list[Pane]]:
    """The panes of a version that have answers, by stratum."""
    mine = [(key.stratum, pane) for key, pane in panes.items() if key.serial == query.serial and pane.n]
    return {stratum: [pane for of, pane in mine if of == stratum] for stratum in sorted({of for of, _ in mine})}


def _people(query: Query, strata: Mapping[int, Sequence[Pane]]) -> float:
    """How many people could answer a version, each counted once per epoch: its answers divided by the sampling."""
    return sum(sum(pane.n for pane in epochs) / (query.sampling_of(stratum) / ONE) for stratum, epochs in strata.items())


def _size(query: Query, stratum: int, epochs: Sequence[Pane]) -> float:
    """How many people a stratum represents: as stated, or else estimated from its answers."""
    of = query.strata[stratum].population if query.strata else query.population
    return float(of) if of is not None else sum(pane.n for pane in epochs) / (query.sampling_of(stratum) / ONE)


def _size_variance(query: Query, stratum: int, epochs: Sequence[Pane]) -> float:
    """The variance of a stratum's size if it is estimated from its answers, each of which was sampled with probability s."""
    of = query.strata[stratum].population if query.strata else query.population
    s = query.sampling_of(stratum) / ONE
    return 0.0 if of is not None else sum(pane.n for pane in epochs) * (1 - s) / s**2


def _estimate(versions: Sequence[Query], panes: Mapping[PaneKey, Pane], window: tuple[int, int]) -> Estimate:
    parts = []
    for query in versions:
        mine = {key: pane for key, pane in panes.items() if key.serial == query.serial and pane.n}
        parts.append(_estimate_version(query, mine))
    if len(parts) == 1:
        total = parts[0]
    else:
        # These are the same people, and asking them in two ways does not make them more: so the parts state no population.
        bare = [dataclasses.replace(part, population=None, support=None, score_law=None) for part in parts]
        people = [_people(query, _by_stratum(query, panes)) for query in versions]
        total = _pooled(bare, people, f"{len(parts)} versions of the query, weighted by the people they were put to")
        total = dataclasses.replace(total, population=parts[-1].population)
        total = _without_small_parts(total, max(query.minimum_cohort for query in versions))
    sampled = sampled_loss(versions, panes)
    return dataclasses.replace(
        total,
        epsilon=max(query.epsilon_local for query in versions),
        exclusive=all(query.ones == 1 for query in versions),
        sampled_epsilon=None if sampled is None else sampled.epsilon,
        sampled_delta=None if sampled is None else sampled.delta,
        sampled_crowd=None if sampled is None else sampled.crowd,
        window=window,
    )


def _estimate_version(query: Query, panes: Mapping[PaneKey, Pane]) -> Estimate:
    notes = []
    strata = _by_stratum(query, panes)
    parts, sizes, known = [], [], True
    for stratum, epochs in strata.items():
        of = query.strata[stratum].population if query.strata else query.population
        known = known and of is not None
        parts.append(_estimate_stratum(query, epochs, of, query.sampling_of(stratum) / ONE))
        sizes.append(_size(query, stratum, epochs))
    if query.ones > 1:
        notes.append(f"a person may be in up to {query.ones} buckets: proportions need not add up to 1")
    if query.recipe.get("inverted"):
        notes.append("answers were inverted: devices randomized for each bucket that they are not in it")
    if query.rows == "several":
        notes.append("a person may have sent several rows; intervals treat them as independent")
    if query.memoize and len({key.epoch for key in panes}) > 1:
        notes.append("devices answer from permanent answers: intervals allow for people who are counted in several epochs")
    silent = [each.name for i, each in enumerate(query.strata) if i not in strata]
    if silent:
        notes.append(f"too few answers from {', '.join(silent)}: the estimate is of the other strata")
    if not query.strata:
        total = parts[0]
    else:
        how = "by their size" if known else "by their size, estimated from the answers where it is not stated"
        names = ", ".join(query.strata[stratum].name for stratum in strata)
        total = _pooled(parts, sizes, f"strata {names}, weighted {how}")
        total = _without_small_parts(total, query.minimum_cohort)
        if not known and len(parts) > 1:
            spread = [_size_variance(query, stratum, epochs) for stratum, epochs in strata.items()]
            total = with_estimated_sizes(total, parts, sizes, spread)
    return dataclasses.replace(total, notes=(*total.notes, *notes))


def _without_small_parts(total: Estimate, minimum_cohort: int) -> Estimate:
    """The estimate, without its parts if a stratum or version has fewer reports than the minimum cohort."""
    if min(part.n for _, part in total.strata) >= minimum_cohort:
        return total
    sent = total.covariance if len(total.labels) <= LARGEST_SENT else None
    return dataclasses.replace(total, strata=(), covariance=sent)


def _estimate_stratum(query: Query, panes: Sequence[Pane], population: int | None, sampling: float) -> Estimate:
    mechanism = query.mechanism
    counts = np.array([pane.counts for pane in panes]).sum(axis=0)
    tally = Tally(mechanism, counts, sum(pane.n for pane in panes))
    note: tuple[str, ...] = ()
    person_epochs = None
    if population is not None and query.rows != "several":
        if max(pane.n for pane in panes) > population:
            note = (f"more answers in an epoch than the {population:,} people stated: treated as an unbounded population",)
        else:
            person_epochs = tally.n**2 * population // sum(pane.n**2 for pane in panes)
    with covariances_up_to(LARGEST_SOLVED):
        estimate: Estimate = mechanism.estimate(tally, person_epochs).without_bias()
    if query.ones > 1:  # how many people are in two buckets at once is unknown, and so is how their errors correlate
        estimate = dataclasses.replace(estimate, covariance=None, exclusive=False)
    estimate = dataclasses.replace(estimate, notes=_notes(query, estimate, tally, panes))
    repeated = _repeated(query, panes, sampling) if query.memoize else 1.0
    if query.memoize:
        covariance = None if estimate.covariance is None else estimate.covariance * repeated
        estimate = dataclasses.replace(
            estimate,
            variance=estimate.variance * repeated,
            covariance=covariance,
            support=None,
            score_law=None,
        )
    # An interval made from the support would take `population` for what n was drawn from; over several epochs it is not.
    if person_epochs not in (None, population):
        estimate = dataclasses.replace(estimate, support=None, score_law=None)
    reports = ReportCounts(_described(mechanism), counts, person_epochs, repeated) if query.ones == 1 else None
    return dataclasses.replace(estimate, population=population, notes=(*estimate.notes, *note), reports=reports)


def _repeated(query: Query, panes: Sequence[Pane], sampling: float) -> float:
    """How many times larger the variance is because people answer from the same permanent answer in several epochs.

    Two reports of one person have a correlation r (1 where permanent answers are sent as they are, less where each report
    randomizes them once more), and of the n reports of an epoch at most a proportion s is expected to come from people who are
    also in another one, since every device tosses a coin of its own in each. So the variance of the mean grows by the factor
    1 + r s (sum over pairs of different epochs of the smaller n) / (sum of all n).
    """
    mechanism = query.mechanism
    correlation = mechanism.replay_correlation() if isinstance(mechanism, MemoizedMechanism) else 1.0
    sizes = np.sort(np.array([pane.n for pane in panes], dtype=np.float64))[::-1]
    shared = 2 * float(sizes @ np.arange(sizes.size))  # each epoch is the smaller one beside all that are larger
    return 1 + correlation * sampling * shared / float(sizes.sum())


def _described(mechanism: Mechanism) -> dict[str, Any]:
    """The mechanism without its labels, which are in the estimate."""
    described = mechanism.to_dict()
    return {**described, "values": len(mechanism.domain)} if "values" in described else described


def _notes(query: Query, estimate: Estimate, tally: Tally, panes: Sequence[Pane]) -> tuple[str, ...]:
    """The notes of an estimate, including what is improbable for reports that this query draws."""
    mechanism, unlabelled = query.mechanism, not query.buckets.complete
    if query.ones == 1 and not query.memoize and not unlabelled:
        return estimate.notes  # the mechanism assumes the same
    assumed = mechanism.doubts(tally.counts, tally.n) if estimate.notes else ()
    other = tuple(note for note in estimate.notes if note not in assumed)
    largest = max(panes, key=lambda pane: pane.n)  # within an epoch the coins are independent
    if query.memoize and largest.n < query.minimum_cohort:
        return other  # what a part of a granule looks like is not published
    if query.ones > 1:
        honest = largest if query.memoize else tally
        return (*other, *mechanism.doubts_of_sets(honest.counts, honest.n, unlabelled, query.ones))
    if not query.memoize:
        return (*other, *mechanism.doubts(tally.counts, tally.n, unlabelled))
    if query.rows == "several":
        return other  # one person's rows may replay the same coins, and the distribution of their sum is unknown
    return (*other, *mechanism.doubts(largest.counts, largest.n, unlabelled))


def _pooled(parts: Sequence[Estimate], sizes: Sequence[float], note: str) -> Estimate:
    """The mean of independent estimates, weighted by the sizes of their groups (Quoc 2017, 3.3.1), with a note that says so."""
    total = stratified(parts, sizes)
    return dataclasses.replace(total, notes=(*total.notes[:-1], note))
