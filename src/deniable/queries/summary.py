"""A query in plain words: what is asked, how it is hidden, who sees what. For the analyst before
signing, for the owner after."""

from __future__ import annotations

from deniable.queries.header import USUAL_QUEUE_AGE
from deniable.queries.lasting import (
    linkability_words,
    sampled_life,
    silence_words,
    spending_words,
    worst_releases,
)
from deniable.queries.query import Query
from deniable.queries.releasing import release_words
from deniable.queries.schedule import spoken_duration
from deniable.queries.times import iso_time
from deniable.wire.sizes import row_words

__all__ = ["summary"]

_MOST_LABELS = 12


def summary(query: Query) -> str:
    """The summary, in some twenty lines."""
    sections = [
        (
            f"{query.id}, version {query.serial}, asked by {query.analyst}",
            [query.question] if query.question else [],
        ),
        ("What is asked", _asked(query)),
        ("When", _when(query)),
        ("How an answer is hidden", _hidden(query)),
        ("What it can cost one person", _cost(query)),
        *(
            [("What may change without the analyst", _changes(query))]
            if query.envelope is not None
            else []
        ),
        ("Who sees what", _seen(query)),
    ]
    return "\n\n".join(
        "\n".join([title, *(f"  {line}" for line in lines)]) for title, lines in sections
    )


def _form(query: Query) -> list[str]:
    """The questions of a form, and what can be chosen, in the first of its languages."""
    lines, others = (
        ["A person is asked, and chooses:"],
        (query.columns[0].form.languages[1:] if query.columns[0].form else ()),
    )
    for column in query.columns:
        if column.form is not None:
            labels = column.form.labels_in()
            more = (*labels[: _MOST_LABELS - 1], "…") if len(labels) > _MOST_LABELS else labels
            lines += [*column.form.question_in().splitlines(), f"  {'  '.join(more)}"]
    return [*lines, *([f"Also in {', '.join(others)}."] if others else [])]


def _source(query: Query) -> list[str]:
    if query.ask == "form":
        return _form(query)
    if query.ask == "value":
        columns = ", ".join(column.name for column in query.columns)
        return [f"What an app recorded as {query.value}: {columns}"]
    return query.sql.strip().splitlines()


def _asked(query: Query) -> list[str]:
    labels = (
        query.labels
        if len(query.labels) <= _MOST_LABELS
        else (*query.labels[: _MOST_LABELS - 1], "…")
    )
    rows = {
        "random": "If there are several rows, one is drawn at random each epoch.",
        "aggregate": (
            "The SQL must return one row; a device where it returns more answers as if it had none."
        ),
        "several": f"Up to {query.most_rows} rows are answered each epoch, and each one costs.",
        "all": "All rows are put into one answer.",
    }[query.rows]
    outside = (
        "An answer in no bucket is counted as other."
        if query.buckets.complete
        else 'An answer outside every bucket is sent, randomized, as "no bucket".'
    )
    if query.ask == "value":
        rows = rows.replace("The SQL must return one row", "There must be one row").replace(
            "it returns more", "there are more"
        )
    if query.ask == "form":
        rows = "Until the form is filled in, the device sends nothing."
    if query.ones > 1:
        rows += (
            f" An answer may be in up to {query.ones} buckets; for a person in more, {query.ones}"
            " are drawn."
        )
    return [*_source(query), rows, f"{len(query.labels)} buckets: {'  '.join(labels)}", outside]


def _when(query: Query) -> list[str]:
    schedule = query.schedule
    every, life = (
        spoken_duration(schedule.every),
        f"from {iso_time(schedule.origin)} to {iso_time(schedule.expires)}",
    )
    epochs = f"{schedule.n_epochs:,} epoch{'' if schedule.n_epochs == 1 else 's'}"
    return [
        (
            f"Once in all, {life}: {epochs} of {every}."
            if query.once
            else f"Once every {every}, {life}: {epochs}."
        ),
        (
            f"Results cover {spoken_duration(schedule.window)} and are released every"
            f" {spoken_duration(schedule.slide)}."
        ),
        *_late(query),
        *release_words(query),
    ]


def _late(query: Query) -> list[str]:
    if query.grace is None:
        return []
    lines = [
        f"Late answers are accepted until {spoken_duration(query.grace)} after the end of their"
        " epoch, and results are revised."
    ]
    if query.grace > USUAL_QUEUE_AGE:
        lines.append(
            "But by default, devices keep what they cannot deliver for"
            f" {spoken_duration(USUAL_QUEUE_AGE)}."
        )
    return lines


def _hidden(query: Query) -> list[str]:
    lines = []
    samplings = [
        f"{s.name}: {query.sampling if s.sampling is None else s.sampling:g}" for s in query.strata
    ]
    if samplings:
        lines.append(
            "A device answers with a probability that depends on its stratum:"
            f" {', '.join(samplings)}."
        )
    elif query.sampling < 1:
        lines.append(
            f"A device answers with probability {query.sampling:g}, and otherwise stays silent."
        )
    else:
        lines.append("Every device answers.")
    if query.recipe["name"] == "TwoCoin":
        p, q = query.recipe["p"], query.recipe["q"]
        lines.append(
            f"For each bucket it tells the truth with probability {p:g}, and otherwise says yes"
            f" with probability {q:g}."
        )
        if query.recipe.get("inverted"):
            lines.append("It does so for the inverted question: whether it is not in the bucket.")
    else:
        settings = ", ".join(
            f"{name} = {value}" for name, value in query.recipe.items() if name not in ("name", "P")
        )
        lines.append(
            "The answer is randomized by"
            f" {query.recipe['name']}{f' with {settings}' if settings else ''}."
        )
    if query.memoize:
        answers = f"{query.distinct} true answer{'s' if query.distinct > 1 else ''}"
        rows = f" in each of {query.most_rows} rows" if query.most_rows > 1 else ""
        lines.append(
            f"A permanent answer is drawn and kept for up to {answers}{rows}, and every answer is"
            " made from it."
        )
        lines.append("Any other true answer repeats the permanent answer sent last.")
        lines += linkability_words(query)
    return lines


def _cost(query: Query) -> list[str]:
    lines = [
        f"epsilon, local: {query.epsilon_local:.4f} per epoch, against anyone who sees that the"
        " device answered."
    ]
    if query.most_rows > 1:
        lines.append(f"That is {query.epsilon:.4f} for each of up to {query.most_rows} rows.")
    lines += _sampled(query)
    lines += spending_words(query)
    if query.memoize:
        reserved = query.releases.life.epsilon
        lines.append(
            f"A device reserves {reserved:.4f} when it first answers, and pays nothing for later"
            " epochs."
        )
    if query.budget.epsilon is not None and query.memoize:
        lines.append(f"The query may spend {query.budget.epsilon:g} in all.")
    elif query.once and query.budget.epsilon is not None:
        lines.append(
            f"The query may spend {query.budget.epsilon:g} in all, and spends"
            f" {query.epsilon_local:.4g}."
        )
    elif query.affordable_epochs is not None:
        lines.append(
            f"The query may spend {query.budget.epsilon:g} in all: enough for"
            f" {query.affordable_epochs:,} epochs."
        )
        lines += silence_words(query)
    else:
        lines.append("The query sets no limit of its own: only the device's limits apply.")
    return lines


def _sampled(query: Query) -> list[str]:
    """The losses against anyone who cannot tell who took part: of one epoch, and over the life of
    the query."""
    if query.most_sampling == 1:
        return [
            "Every device answers, so the loss is the same for those who cannot tell whether a"
            " device answered."
        ]
    life = sampled_life(query)
    lines = [
        (
            f"epsilon, sampled: {query.sampled_loss} per epoch, against anyone who cannot tell"
            " whether the device answered:"
        ),
        (
            "the aggregator and the analyst. Of fewer people, or knowing who took part, they learn"
            " more."
        ),
    ]
    chosen = ", whatever the controller chooses" if query.envelope is not None else ""
    if query.memoize:
        heard = f"{100 * worst_releases(query).heard:.3g} % of the devices answer at least once"
        lines.append(
            f"Over the query's life it is {life}{chosen}: {heard}, always from the same permanent"
            " answer."
        )
    else:
        lines.append(f"Over the query's life it is at most {life}{chosen}.")
    return lines


def _changes(query: Query) -> list[str]:
    envelope = query.envelope
    if envelope is None:
        return []
    last = query.serial + envelope.versions
    until = "" if envelope.until is None else f", before {iso_time(envelope.until)}"
    names = {"sampling": "sampling", "p": "p", "q": "q", "epsilon": "the mechanism's epsilon"}
    ranges = ", ".join(
        f"{names[name]} from {low:g} to {high:g}" for name, (low, high) in envelope.ranges().items()
    )
    return [
        (
            f"The controller with key {envelope.key_id} may sign versions {query.serial + 1} to"
            f" {last}{until}."
        ),
        (
            f"It may change {ranges}{', and invert the answers' if envelope.inversion else ''};"
            " nothing else."
        ),
        (
            f"No answer costs more than {envelope.epsilon_per_answer:g}, all together no more than"
            f" {query.budget.epsilon:g}."
        ),
        f"To withdraw this, publish version {last + 1} or later without it.",
    ]


def _seen(query: Query) -> list[str]:
    size = 8 * row_words(query.size_class or 0)
    answers = "which devices sent something" if query.cover else "which devices answered"
    strata = ", and the stratum of each" if query.strata else ""
    channel = f"{query.channel_tag:016x}"
    if query.channel is not None and query.channel_owner is None:
        channel = f"{query.channel!r} of the key that signs the query"
    return [
        (
            f"Each of the {len(query.proxies)} proxies: {answers} in channel {channel}, in which"
            f" epoch, and {size} bytes of noise from each."
        ),
        f"All {len(query.proxies)} proxies together: the randomized answers, and whose they are.",
        f"The aggregator: randomized answers without names{strata}.",
        (
            f"{'Everyone' if query.public_results else 'The analyst'}: results of at least"
            f" {query.minimum_cohort:,} answers, which also differ by at least as many."
        ),
        "Nobody: a true answer.",
    ]
