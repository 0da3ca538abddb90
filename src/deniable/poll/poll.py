"""A poll: questions, texts, who may answer, when results show, and through whose hands answers go.

It is what an organiser writes. :mod:`deniable.poll.asking` makes signed queries of it, and
:mod:`deniable.poll.document` what the page reads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.poll.questions import PollQuestion, Texts, read_texts
from deniable.queries.schedule import LATEST
from deniable.queries.texts import check_text, first_repeated
from deniable.service.http.cross_origin import BrowserRules

__all__ = ["ANSWER", "RESULTS", "Operator", "Poll", "epsilon_of_factor"]

ANSWER = ("open", "codes")
"""Who may answer: anyone with the link, or one answer for each code."""
RESULTS = ("live", "end", "private")
"""When results show: while the poll runs, when it has ended, or only to the organiser."""
_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,39}", re.ASCII)
_MOST_QUESTIONS = 20
_LONGEST_LIFE = 366 * 86400


def epsilon_of_factor(factor: float) -> float:
    """The largest epsilon in floating point by which odds change by no more than a factor.

    >>> round(epsilon_of_factor(3), 4)
    1.0986
    """
    return math.nextafter(math.log(factor), 0)


@dataclass(frozen=True)
class Operator:
    """A proxy, and who runs it."""

    url: str
    by: str = ""

    def __post_init__(self) -> None:
        check_address("url", self.url)
        check_text("by", self.by, 200, "who runs this proxy", empty=True)


def check_address(name: str, url: Any) -> str:
    """The address, if it is an origin as browsers write it: no path, no slash at the end."""
    try:
        BrowserRules((url,))
        plain = isinstance(url, str) and url != "*" and urlsplit(url).scheme in ("http", "https")
    except ParameterError:
        plain = False
    if not plain:
        raise ParameterError(
            name, url, "must be an address such as 'https://one.example', without a path"
        )
    return str(url)


@dataclass(frozen=True)
class Poll:
    """What an organiser asks, of whom, and how."""

    id: str
    asker: str
    """Who asks; the key that signs must be theirs."""
    title: Texts
    questions: tuple[PollQuestion, ...]
    operators: tuple[Operator, ...]
    aggregator: str
    """Where the results are read."""
    page: str
    """The origin that serves the page; proxies must name it (`[browser] origins`)."""
    start: int
    end: int
    epsilon: float
    """What one person can lose by answering all questions."""
    answer: str = "open"
    results: str = "live"
    minimum: int = 100
    """Below so many answers nothing is shown."""
    population: int | None = None
    why: Texts | None = None
    results_to: Texts | None = None
    """Who gets to see the results, in words."""
    contact: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise ParameterError(
                "id", self.id, "must be 1 to 40 of a-z, 0-9 and -, starting with a letter or digit"
            )
        check_text("asker", self.asker, 200, "who asks")
        check_text("contact", self.contact, 200, "whom to ask", empty=True)
        for name, known in (("answer", ANSWER), ("results", RESULTS)):
            if getattr(self, name) not in known:
                rule = f"must be one of {', '.join(map(repr, known))}"
                raise ParameterError(name, getattr(self, name), rule)
        whole("minimum", self.minimum, 10, 1 << 30)
        if self.population is not None:
            whole("population", self.population, 1, 1 << 30)
        whole("start", self.start, 0, LATEST)
        if not self.start + 60 <= self.end <= self.start + _LONGEST_LIFE:
            raise ParameterError("end", self.end, "must be a minute to a year after the start")
        check_address("aggregator", self.aggregator)
        check_address("page", self.page)
        self._check_operators()
        self._check_questions()

    def _check_operators(self) -> None:
        if len(self.operators) != 2:
            raise ParameterError("proxies", len(self.operators), "must be two tables, [[proxies]]")
        if self.operators[0].url == self.operators[1].url:
            raise ParameterError(
                "proxies[1].url", self.operators[1].url, "must differ from that of the first"
            )

    def _check_questions(self) -> None:
        if not 1 <= len(self.questions) <= _MOST_QUESTIONS:
            raise ParameterError(
                "questions", len(self.questions), f"must be 1 to {_MOST_QUESTIONS} tables"
            )
        twice = first_repeated(question.id for question in self.questions)
        if twice is not None:
            raise ParameterError(
                f"questions[{twice}].id", self.questions[twice].id, "must differ from the others"
            )
        for i, question in enumerate(self.questions):
            for name, texts in (("text", question.text), ("title", self.title)):
                if set(texts) != set(self.questions[0].text):
                    place = name if name == "title" else f"questions[{i}].text"
                    rule = (
                        "must have the languages of the first question,"
                        f" {', '.join(sorted(self.questions[0].text))}"
                    )
                    raise ParameterError(place, sorted(texts), rule)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of its texts, the one it was written in first."""
        return tuple(self.questions[0].text)

    @property
    def epsilon_each(self) -> float:
        """What each question may cost."""
        return self.epsilon / len(self.questions)

    def query_id(self, question: PollQuestion) -> str:
        """The id of the query that asks a question."""
        return self.id if len(self.questions) == 1 else f"{self.id}.{question.id}"

    def page_texts(self) -> dict[str, Any]:
        """What the page shows beside the questions, by language."""
        given: Mapping[str, Texts | None] = {
            "title": self.title,
            "why": self.why,
            "results_to": self.results_to,
        }
        return {
            language: {name: texts[language] for name, texts in given.items() if texts}
            for language in self.languages
        }


def read_optional(name: str, given: Any, languages: tuple[str, ...]) -> Texts | None:
    """A text in the poll's languages, if there is one."""
    if given is None:
        return None
    texts = read_texts(name, given, languages[0])
    if set(texts) != set(languages):
        rule = f"must have the languages of the questions, {', '.join(sorted(languages))}"
        raise ParameterError(name, sorted(texts), rule)
    return texts
