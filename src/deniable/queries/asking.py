"""Where a query's answer comes from: SQL, a value that an app records, or a form that a person
fills in."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deniable.errors import ParameterError
from deniable.queries.texts import check_text, first_repeated

if TYPE_CHECKING:
    from deniable.queries.columns.column import Column

__all__ = [
    "ASKS",
    "FormTexts",
    "check_form",
    "check_value",
    "form_statement",
    "form_table",
    "form_tables",
    "value_statement",
]

ASKS = ("sql", "form", "value")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{1,8})*", re.ASCII)
_LONGEST_LANGUAGE = 35
_MOST_LANGUAGES = 50
_LONGEST_QUESTION, _LONGEST_LABEL, _LONGEST_FORM = 500, 200, 100_000
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_TAKEN_NAMES = frozenset({"rowid", "oid", "_rowid_"})
_TAKEN_PREFIXES = ("sqlite_", "pragma_", "deniable_")


@dataclass(frozen=True)
class FormTexts:
    """What a person reads of one column: a question, and a label for each bucket, in several
    languages.

    >>> texts = FormTexts.of({"en": "Tea?", "de": "Tee?"}, {"en": ["yes", "no"], "de": ["ja", "nein"]}, 2)
    >>> texts.languages, texts.question_in("de-AT"), texts.labels_in("fr")
    (('de', 'en'), 'Tee?', ('ja', 'nein'))
    """

    question: tuple[tuple[str, str], ...]
    labels: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, question: Any, labels: Any, n_buckets: int) -> FormTexts:
        """The texts of a column with so many buckets, `other` included."""
        for name, given in (("question", question), ("labels", labels)):
            if not isinstance(given, Mapping) or not 1 <= len(given) <= _MOST_LANGUAGES:
                rule = (
                    f"must be a table with 1 to {_MOST_LANGUAGES} languages, such as {{ en = … }}"
                )
                raise ParameterError(name, given, rule)
            for language in given:
                _check_language(name, language)
        if set(question) != set(labels):
            rule = f"must have the languages of question, {', '.join(sorted(question))}"
            raise ParameterError("labels", sorted(labels), rule)
        for language, text in question.items():
            check_text(
                f"question.{language}",
                text,
                _LONGEST_QUESTION,
                "what a person is asked",
                lines=True,
            )
        for language, listed in labels.items():
            _check_labels(f"labels.{language}", listed, n_buckets)
        named = tuple((language, tuple(listed)) for language, listed in sorted(labels.items()))
        return cls(tuple(sorted(question.items())), named)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages, in the order of their bytes."""
        return tuple(language for language, _ in self.question)

    @property
    def n_characters(self) -> int:
        """How long all texts are together."""
        return sum(len(text) for _, text in self.question) + sum(
            len(label) for _, each in self.labels for label in each
        )

    def question_in(self, *wanted: str) -> str:
        """The question in the first of these languages that there is, or else in the first that
        there is."""
        return dict(self.question)[self._language(wanted)]

    def labels_in(self, *wanted: str) -> tuple[str, ...]:
        """The labels in the same language."""
        return dict(self.labels)[self._language(wanted)]

    def _language(self, wanted: Sequence[str]) -> str:
        known = self.languages
        for language in wanted:
            if language in known:
                return language
            base = language.partition("-")[0]
            for each in known:
                if each.partition("-")[0] == base:
                    return each
        return known[0]

    def to_dict(self) -> dict[str, Any]:
        """As a column writes it."""
        return {
            "question": dict(self.question),
            "labels": {language: list(each) for language, each in self.labels},
        }


def _check_language(name: str, language: Any) -> None:
    if (
        not isinstance(language, str)
        or len(language) > _LONGEST_LANGUAGE
        or not _LANGUAGE.fullmatch(language)
    ):
        raise ParameterError(
            name, language, "must name languages by tags such as 'en', 'de' or 'pt-BR'"
        )


def _check_labels(name: str, listed: Any, n_buckets: int) -> None:
    if not isinstance(listed, list | tuple) or len(listed) != n_buckets:
        found = len(listed) if isinstance(listed, list | tuple) else listed
        rule = (
            f"must be a list of {n_buckets} texts: one for each bucket, and for `other` if it is"
            " true"
        )
        raise ParameterError(name, found, rule)
    for i, label in enumerate(listed):
        check_text(f"{name}[{i}]", label, _LONGEST_LABEL, "what a bucket is called")
    twice = first_repeated(listed)
    if twice is not None:
        raise ParameterError(
            f"{name}[{twice}]",
            listed[twice],
            "is repeated: a person could not tell which bucket is meant",
        )


def check_form(columns: Sequence[Column], rows: str) -> None:
    """Refuse columns that cannot be a form."""
    if rows == "several":
        raise ParameterError(
            "rows", rows, "must be another one with ask = 'form': a person gives one answer"
        )
    for i, column in enumerate(columns):
        place = f"columns[{i}]"
        if column.form is None:
            raise ParameterError(
                f"{place}.question", None, "must be given with ask = 'form', and labels with it"
            )
        if column.overlapping:
            raise ParameterError(
                f"{place}.overlapping",
                True,
                "must be false with ask = 'form': a person chooses a bucket",
            )
        for k, choice in enumerate(column.choices):
            if choice is None:
                rule = (
                    "must be a plain text or a single number with ask = 'form': a person chooses it"
                )
                raise ParameterError(f"{place}.buckets[{k}]", column.labels[k], rule)
        first = columns[0].form
        if first is not None and column.form.languages != first.languages:
            rule = f"must have the languages of the first column, {', '.join(first.languages)}"
            raise ParameterError(f"{place}.question", list(column.form.languages), rule)
    n_characters = sum(column.form.n_characters for column in columns if column.form is not None)
    if n_characters > _LONGEST_FORM:
        rule = f"must have at most {_LONGEST_FORM} in all questions and labels"
        raise ParameterError("columns", f"{n_characters} characters", rule)


def check_value(value: Any, columns: Sequence[Column]) -> None:
    """Refuse names that an app could not record under."""
    for name, given in (
        ("value", value),
        *((f"columns[{i}].name", column.name) for i, column in enumerate(columns)),
    ):
        if not isinstance(given, str) or not _NAME.fullmatch(given):
            rule = (
                "must be 1 to 63 of a-z, 0-9 and _, not starting with a digit, with ask = 'value'"
            )
            raise ParameterError(name, given, rule)
        if given in _TAKEN_NAMES or given.startswith(_TAKEN_PREFIXES):
            raise ParameterError(name, given, "is a name that a vault keeps for itself")


def value_statement(value: str, columns: Sequence[Column]) -> str:
    """The SQL that reads what an app recorded."""
    names = ", ".join(f'"{column.name}"' for column in columns)
    return f'SELECT {names} FROM "{value}"'  # noqa: S608 - checked names


def form_tables(analyst: str, query_id: str) -> str:
    """How the names of the tables begin in which a device keeps what a person chose: they say
    nothing, and each query has its own."""
    return f"form_{_hashed([analyst, query_id])}_"


def form_table(analyst: str, query_id: str, question: str, columns: Sequence[Column]) -> str:
    """The table in which a device keeps what a person chose in this form: a version that asks
    something else, or in other words, does not find what was chosen before."""
    asked = [question, [column.to_dict() for column in columns]]
    return form_tables(analyst, query_id) + _hashed(asked)


def _hashed(what: list[Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]


def form_statement(table: str, n_columns: int) -> str:
    """The SQL that reads it."""
    return f'SELECT {", ".join(f"c{i}" for i in range(n_columns))} FROM "{table}"'  # noqa: S608 - our own names
