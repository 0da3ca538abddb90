"""Checks of a query while it is being written: each field by the rules that will apply to the
whole, with the same messages."""

from __future__ import annotations

import re
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, Field, model_validator

from deniable.console.draft_schedule import draft_schedule
from deniable.console.risk import RiskDocument, query_risk
from deniable.errors import DeniableError, ParameterError
from deniable.queries.asking import check_value
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.summary import summary
from deniable.renames import current_names
from deniable.sql.checking import check_sql

__all__ = ["Draft", "DraftCheck", "DraftChecks", "check_draft"]

_PLACE = re.compile(r"buckets\[(\d+)\]")


class DraftColumn(BaseModel):
    """A column of the answer, as drafted."""

    name: str = Field(max_length=200)
    buckets: list[str] = Field(max_length=1 << 10)
    other: bool = False
    question: dict[str, str] | None = Field(default=None, max_length=50)
    """What a person is asked in a form, by language."""
    labels: dict[str, list[str]] | None = Field(default=None, max_length=50)
    """What a form calls each bucket, by language."""


class Draft(BaseModel):
    """A query that is being written."""

    id: str = Field(default="", max_length=200)
    serial: int = Field(default=1, ge=1, le=1 << 31)
    analyst: str = Field(default="", max_length=200)
    question: str = Field(default="", max_length=4000)
    ask: Literal["sql", "form", "value"] = "sql"
    """Where the answer comes from."""
    sql: str = Field(default="", max_length=20_000)
    value: str = Field(default="", max_length=200)
    """With `ask="value"`, the name under which apps record."""
    columns: list[DraftColumn] = Field(max_length=8)
    every: str = Field(default="1 d", max_length=40)
    window: str | None = Field(default=None, max_length=40)
    end: str = Field(default="", max_length=40)
    budget: float | None = None
    margin: float | None = None
    memoize: bool = False
    once: bool = False
    public_results: bool = False
    mechanism: dict[str, Any] | None = None
    sampling: float = 1.0
    population: int | None = None
    minimum_cohort: int = 100

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        return current_names("Draft", given) if isinstance(given, dict) else given


class DraftCheck(TypedDict):
    """What is right or wrong with a field."""

    field: str
    level: Literal["ok", "hint", "bad"]
    text: str
    place: int | None
    """Which bucket or column, if it is one."""


class CheckedQuery(TypedDict):
    """A query without errors, with the bytes to sign."""

    id: str
    content: str
    digest: str
    epsilon_local: float
    affordable_epochs: int | None
    size_class: int | None
    summary: str
    risk: list[RiskDocument]


class DraftChecks(TypedDict):
    """The checks of a draft."""

    checks: list[DraftCheck]
    labels: list[str]
    schedule: dict[str, int] | None
    query: CheckedQuery | None


def check_draft(draft: Draft, proxies: list[str], now: int) -> DraftChecks:
    """What is right and wrong with each field and, if nothing is wrong, the query's canonical bytes
    to sign."""
    checks: list[DraftCheck] = []

    def note(
        field: str, level: Literal["ok", "hint", "bad"], text: str, place: int | None = None
    ) -> None:
        checks.append({"field": field, "level": level, "text": text, "place": place})

    if draft.ask == "sql":
        _check_sql(draft, note)
    labels = _check_columns(draft, note)
    if draft.ask == "value":
        _check_value(draft, note)
    schedule = _check_times(draft, now, note)
    query = None
    if (
        draft.mechanism is not None
        and schedule is not None
        and not any(each["level"] == "bad" for each in checks)
    ):
        try:
            query = _query(draft, schedule, proxies)
        except DeniableError as error:
            name = error.name if isinstance(error, ParameterError) else "query"
            note(_field_of(name), "bad", str(error))
    answer: DraftChecks = {
        "checks": checks,
        "labels": labels,
        "schedule": schedule,
        "query": None,
    }
    if query is not None:
        checked: CheckedQuery = {
            "id": query.id,
            "content": query.content.decode(),
            "digest": query.digest.hex(),
            "epsilon_local": query.epsilon_local,
            "affordable_epochs": query.affordable_epochs,
            "size_class": query.size_class,
            "summary": summary(query),
            "risk": query_risk(query),
        }
        answer["query"] = checked
    return answer


def _check_sql(draft: Draft, note: Any) -> None:
    verdict = check_sql(draft.sql)
    if verdict.problem:
        note("sql", "bad", f"{verdict.problem[:1].upper()}{verdict.problem[1:]}")
        return
    note("sql", "ok", "One SELECT, read-only, functions allowed")
    wanted = len(draft.columns)
    if verdict.n_columns != wanted:
        given = f"{verdict.n_columns} column{'' if verdict.n_columns == 1 else 's'}"
        note("sql", "bad", f"Returns {given}, but there are buckets for {wanted}")
    else:
        note("sql", "ok", f"{wanted} column{'' if wanted == 1 else 's'}, matching the buckets")
    if verdict.tables:
        note("sql", "hint", f"Answered by devices whose owners grant {', '.join(verdict.tables)}")
    note("sql", "hint", "Several rows: one is drawn at random each epoch")


def _check_columns(draft: Draft, note: Any) -> list[str]:
    labels: list[str] = []
    for i, column in enumerate(draft.columns):
        try:
            made = _column(draft, column)
        except ParameterError as error:
            place = _PLACE.search(error.name)
            field = "buckets" if place or error.name == "buckets" else "columns"
            if error.name.startswith(("question", "labels")):
                field = "form"
            note(
                field,
                "bad",
                f"{error.value!r} {error.rule}" if place else str(error),
                int(place[1]) if place else i,
            )
            continue
        labels = [str(label) for label in made.labels]
        if made.form is not None:
            _check_form(made, note)
        note(
            "buckets",
            "ok",
            "Ascending, without overlap" if made.kind == "number" else "Different from each other",
        )
        if not column.other:
            note(
                "buckets",
                "hint",
                'An answer outside every bucket is sent, randomized, as "no bucket"',
            )
    return labels


def _column(draft: Draft, column: DraftColumn) -> Column:
    """The column. A form's texts that are missing are refused as those that are wrong."""
    texts: dict[str, Any] = {}
    if draft.ask == "form":
        texts = {"question": column.question or {}, "labels": column.labels or {}}
    return Column(column.name, column.buckets, other=column.other, **texts)


def _check_form(column: Column, note: Any) -> None:
    for i, choice in enumerate(column.choices):
        if choice is None:
            text = f"{column.labels[i]!r} must be a plain text or a single number: a person chooses"
            note("buckets", "bad", f"{text} it", i)
    if column.form is not None:
        note("form", "ok", f"A question and labels in {', '.join(column.form.languages)}")
    note("form", "hint", "Answered by people who fill it in; devices of the others wait")


def _check_value(draft: Draft, note: Any) -> None:
    try:
        columns = [Column(column.name, ["a"]) for column in draft.columns]
        check_value(draft.value, columns)
    except ParameterError as error:
        note("value", "bad", str(error))
        return
    names = ", ".join(column.name for column in columns)
    note("value", "ok", f"Reads {names} of what apps record as {draft.value}")
    note("value", "hint", "Several rows: one is drawn at random each epoch")


def _check_times(draft: Draft, now: int, note: Any) -> dict[str, int] | None:
    try:
        return draft_schedule(draft.every, draft.end, now, draft.window)
    except ParameterError as error:
        note(error.name, "bad", str(error))
        return None


def _field_of(name: str) -> str:
    known = {
        "id": "id",
        "analyst": "analyst",
        "question": "question",
        "sql": "sql",
        "value": "value",
        "memoize": "memoize",
        "budget": "budget",
        "schedule": "every",
    }
    return next((field for start, field in known.items() if name.startswith(start)), "query")


def _written(draft: Draft, column: DraftColumn) -> dict[str, Any]:
    texts = {"question", "labels"}
    return column.model_dump(exclude=set() if draft.ask == "form" else texts)


def _query(draft: Draft, schedule: dict[str, int], proxies: list[str]) -> Query:
    return Query.from_dict(
        {
            "id": draft.id,
            "serial": draft.serial,
            "analyst": draft.analyst,
            "question": draft.question,
            "sql": draft.sql if draft.ask == "sql" else "",
            "ask": draft.ask,
            "value": draft.value if draft.ask == "value" else None,
            "once": draft.once,
            "public_results": draft.public_results,
            "columns": [_written(draft, column) for column in draft.columns],
            "schedule": schedule,
            "proxies": proxies,
            "mechanism": draft.mechanism,
            "sampling": draft.sampling,
            "population": draft.population,
            "minimum_cohort": draft.minimum_cohort,
            "budget": {"epsilon": draft.budget, "error": draft.margin},
            "memoize": draft.memoize,
            "instantaneous": "default",
        }
    )
