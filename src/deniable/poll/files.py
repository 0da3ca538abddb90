"""Polls written as TOML. Errors name the file, the line, the key, the value and what would be
accepted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError
from deniable.poll.poll import Operator, Poll, epsilon_of_factor, read_optional
from deniable.poll.questions import read_question, read_texts
from deniable.queries.times import iso_time, moment
from deniable.toml_file import TomlFile

__all__ = ["TEMPLATE", "poll_of_tree", "poll_text", "read_poll"]

_KEYS = (
    "id", "asker", "language", "title", "why", "results_to", "contact", "start", "end", "epsilon",
    "factor", "answer", "results", "minimum", "population", "page", "aggregator", "proxies",
    "questions",
)  # fmt: skip
_PROXY = ("url", "by")

TEMPLATE = """\
# A poll by link: docs/poll.md explains every key.
id = {id}
asker = "Staff council"  # who asks: the owner of the key that signs
title = {title}
why = ""  # why you ask, in a sentence or two; leave the line out if the question says it
results_to = "everyone who was asked"
contact = "council@hospital.example"
start = {start}
end = {end}
factor = 3  # nobody's odds about a person change by more than this; or epsilon = 1.1
answer = "open"  # anyone with the link; "codes": one answer for each code
results = "live"  # or "end": when the poll has ended; "private": only to you
minimum = 100  # nothing is shown below so many answers
# population = 300  # how many people are asked

page = "https://poll.example"  # serves the page: deniable poll serve
aggregator = "https://count.example"

[[proxies]]
url = "https://one.example"
by = "the works council"

[[proxies]]
url = "https://two.example"
by = "the university's computing centre"

[[questions]]
kind = "yesno"  # "one", "several" (with most), "scale", "number" (low, high, step), "list"
text = {title}
# options = ["Yes", "No"]
# optional = true  # one may also say "Rather not say"
"""


def read_poll(path: str | Path) -> Poll:
    """The poll in a TOML file."""
    return TomlFile.read(path).made(poll_of_tree)


def poll_of_tree(tree: Mapping[str, Any]) -> Poll:
    """The poll in a table of TOML."""
    _check_keys("", tree, _KEYS)
    for name in ("id", "asker", "start", "end", "page", "aggregator", "proxies", "questions"):
        if name not in tree:
            raise ParameterError(name, None, "is missing")
    language = tree.get("language", "en")
    if not isinstance(language, str):
        raise ParameterError("language", language, "must be a tag such as 'en'")
    questions = tuple(
        read_question(f"questions[{i}]", each, language)
        for i, each in enumerate(_tables("questions", tree["questions"]))
    )
    if not questions:
        raise ParameterError("questions", 0, "must be at least one table, [[questions]]")
    languages = tuple(questions[0].text)
    given = {"language": languages[0]} | dict(tree)
    return Poll(
        id=tree["id"],
        asker=tree["asker"],
        title=read_texts("title", tree.get("title", dict(questions[0].text)), given["language"]),
        questions=questions,
        operators=tuple(
            _operator(i, each) for i, each in enumerate(_tables("proxies", tree["proxies"]))
        ),
        aggregator=tree["aggregator"],
        page=tree["page"],
        start=_time("start", tree["start"]),
        end=_time("end", tree["end"]),
        epsilon=_epsilon(tree),
        why=read_optional("why", tree.get("why") or None, languages),
        results_to=read_optional("results_to", tree.get("results_to"), languages),
        **{
            name: tree[name]
            for name in ("answer", "results", "minimum", "population", "contact")
            if name in tree
        },
    )


def _epsilon(tree: Mapping[str, Any]) -> float:
    if ("epsilon" in tree) == ("factor" in tree):
        raise ParameterError("epsilon", tree.get("epsilon"), "or factor must be given, not both")
    name = "epsilon" if "epsilon" in tree else "factor"
    value = tree[name]
    low, high = (0.1, 10) if name == "epsilon" else (1.1, 20_000)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ParameterError(name, value, f"must lie between {low} and {high}")
    return float(value) if name == "epsilon" else epsilon_of_factor(value)


def _operator(i: int, given: Mapping[str, Any]) -> Operator:
    _check_keys(f"proxies[{i}].", given, _PROXY)
    try:
        return Operator(given.get("url", ""), given.get("by", ""))
    except ParameterError as error:
        raise error.named(f"proxies[{i}].{error.name}") from None


def _time(name: str, given: Any) -> int:
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return moment(name, given.isoformat() if hasattr(given, "isoformat") else str(given))


def _tables(name: str, given: Any) -> list[Mapping[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise ParameterError(name, given, f"must be tables, [[{name}]]")
    return given


def _check_keys(place: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name, value in table.items():
        if name not in known:
            rule = f"is not a key here; there are {', '.join(known)}"
            raise ParameterError(f"{place}{name}", value, rule)


def poll_text(poll: Poll) -> str:
    """The poll as TOML, which :func:`read_poll` reads again."""

    def written(value: Any) -> str:
        if isinstance(value, Mapping):
            return f"{{ {', '.join(f'{json.dumps(k)} = {written(v)}' for k, v in value.items())} }}"
        if isinstance(value, tuple):
            value = list(value)
        return json.dumps(value, ensure_ascii=False)

    fields: dict[str, Any] = {
        "id": poll.id,
        "asker": poll.asker,
        "language": poll.languages[0],
        "title": poll.title,
        "why": poll.why,
        "results_to": poll.results_to,
        "contact": poll.contact or None,
        "start": iso_time(poll.start),
        "end": iso_time(poll.end),
        "epsilon": poll.epsilon,
        "answer": poll.answer,
        "results": poll.results,
        "minimum": poll.minimum,
        "population": poll.population,
        "page": poll.page,
        "aggregator": poll.aggregator,
    }
    lines = [f"{name} = {written(value)}" for name, value in fields.items() if value is not None]
    for operator in poll.operators:
        lines += [
            "",
            "[[proxies]]",
            f"url = {written(operator.url)}",
            f"by = {written(operator.by)}",
        ]
    for question in poll.questions:
        lines += [
            "",
            "[[questions]]",
            f"id = {written(question.id)}",
            f"kind = {written(question.kind)}",
        ]
        lines.append(f"text = {written(question.text)}")
        if question.kind != "number":
            options = {
                tag: each[: len(each) - question.optional] for tag, each in question.options.items()
            }
            lines.append(f"options = {written(options)}")
        extra = {name: value for name, value in question.page_document().items() if name != "kind"}
        lines += [f"{name} = {written(value)}" for name, value in extra.items()]
    return "\n".join([*lines, ""])
