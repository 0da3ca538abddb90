"""Whether a query's windows can be released: answers to expect, beside the minimum cohort that
every release must hold.

An aggregator publishes sums of groups of answers that hold the minimum cohort each and are never
split (docs/aggregator.md). The shortest run of epochs that windows do not cut should therefore
bring a cohort, from every stratum.
"""

from __future__ import annotations

from deniable.queries.query import Query
from deniable.queries.schedule import spoken_duration
from deniable.randomness import ONE

__all__ = ["release_words"]


def release_words(query: Query, people: float | None = None) -> list[str]:
    """Warnings about windows that would be withheld or incomplete, in words; none if the population
    is not known.

    `people` is the number of devices to expect, if it is not the query's stated population.
    """
    lines = []
    schedule, cohort = query.schedule, query.minimum_cohort
    rest = schedule.window % schedule.slide
    segment = min(rest, schedule.slide - rest) if rest else schedule.slide
    for name, answers in _answers_per_epoch(query, people).items():
        per_window, per_segment = (
            answers * seconds / schedule.every for seconds in (schedule.window, segment)
        )
        whom = f" from {name}" if name else ""
        if per_window < cohort:
            result = (
                f"{name} would be left out of every result"
                if name
                else "no result would be released"
            )
            lines.append(
                f"A window has about {per_window:,.0f} answers{whom}, and the minimum cohort is"
                f" {cohort:,}: {result}."
            )
        elif per_segment < cohort:
            span = spoken_duration(segment)
            lines.append(
                f"About {per_segment:,.0f} answers{whom} come in {span}, and the minimum cohort is"
                f" {cohort:,}: they are released together with those of the next {span}, and"
                " windows that would separate them leave them out. A longer slide or a smaller"
                " cohort avoids this."
            )
    return lines


def _answers_per_epoch(query: Query, people: float | None) -> dict[str, float]:
    """The answers to expect in an epoch from each stratum whose size is known, or from everybody
    under an empty name."""
    # answers that come once are spread over the epochs
    each = 1 / ONE / (query.schedule.n_epochs if query.once else 1)
    if query.strata:
        known = [
            (i, stratum) for i, stratum in enumerate(query.strata) if stratum.population is not None
        ]
        return {
            stratum.name: (stratum.population or 0) * query.sampling_of(i) * each
            for i, stratum in known
        }
    expected = people if people is not None else query.population
    return {} if expected is None else {"": expected * query.sampling_of(0) * each}
