"""From a question to a release: checked, computed, charged, and only then drawn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_count
from deniable.curator.budget import CuratorBudget, release_event
from deniable.curator.protection import Protection
from deniable.curator.questions import CuratorQuestion, QuestionRows
from deniable.curator.results import Preview
from deniable.curator.table import CuratedTable, Filter
from deniable.errors import CuratorError, ParameterError
from deniable.privacy.ledger import PrivacyEvent

__all__ = ["CuratedView"]


@dataclass(frozen=True)
class Planned:
    """A question, and what will be drawn for it."""

    question: CuratorQuestion
    protection: Protection
    epsilon: Fraction
    """Its part of what is charged."""
    noise: Any


@dataclass(frozen=True)
class CuratedView:
    """Rows of a table that are chosen by public rules, and the budget that everything about them is
    paid from."""

    table: CuratedTable
    budget: CuratorBudget
    protection: Protection
    person: str | None
    drop_missing: bool
    analyst: str
    filters: tuple[Filter, ...] = ()
    group_column: str | None = None
    group_keys: tuple[Hashable, ...] = ()

    @property
    def basis(self) -> dict[str, Any]:
        """What losses are measured by."""
        return {"table": self.table.digest, "person": self.person, **self.protection.terms()}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that choose rows."""
        return (
            *(rule.column for rule in self.filters),
            *([] if self.group_column is None else [self.group_column]),
        )

    def title(self, question: CuratorQuestion) -> str:
        """The question, with the rows it is about."""
        where = f" where {' and '.join(map(str, self.filters))}" if self.filters else ""
        return f"{question.name}{where}{'' if self.group_column is None else f' by {self.group_column}'}"

    def protection_of(self, question: CuratorQuestion) -> Protection:
        """The protection that holds for these rows: the size is public only if nobody can be in or
        out of them."""
        if self.group_column is not None:
            return replace(self.protection, groups=len(self.group_keys))
        fixed = not self.protection.joins and self.protection.rows == 1 and not self.filters
        fixed = fixed and not (self.drop_missing and question.columns)
        return replace(self.protection, size=self.table.size) if fixed else self.protection

    def check(self, column: str, numeric: bool) -> None:
        """Refuse a column that is not there, or has cells that cannot be used.

        The whole column is checked, whatever rows are asked about: if refusals depended on the
        analyst's filters, they would reveal something about single people.
        """
        if numeric:
            self.table.numbers(column)
        missing = ~self.table.present(column)
        if missing.any() and not self.drop_missing:
            row = int(missing.argmax()) + 1
            raise CuratorError(
                f"column {column!r}, row {row}: the value is missing (missing='drop' leaves such"
                " rows out)"
            )

    def rows(self, question: CuratorQuestion) -> list[QuestionRows]:
        """The rows asked about: all in one or, if they are grouped, one after another."""
        chosen: NDArray[np.bool_] = np.ones(self.table.size, dtype=np.bool_)
        for rule in self.filters:
            chosen &= self.table.passes(rule)
        for column in question.columns:
            chosen &= self.table.present(column)
        if self.group_column is None:
            return [QuestionRows(self.table, chosen)]
        codes = self.table.codes(self.group_column, self.group_keys)
        return [
            QuestionRows(self.table, chosen & (codes == place))
            for place in range(len(self.group_keys))
        ]

    def plan(
        self, questions: Sequence[CuratorQuestion], epsilon: Any
    ) -> tuple[PrivacyEvent, list[Planned]]:
        """What will be charged, and what will be drawn for each question. Depends on public things
        only.

        The questions share epsilon evenly, but for those whose answer is public; if all are,
        nothing is charged.
        """
        if not questions:
            raise ParameterError("questions", [], "must hold at least one question")
        event = release_event(self.analyst, "; ".join(map(self.title, questions)), epsilon)
        protections = [self.protection_of(question) for question in questions]
        paid = [
            not question.public(protection)
            for question, protection in zip(questions, protections, strict=True)
        ]
        part: Fraction = event.epsilon / max(sum(paid), 1)
        planned = [
            Planned(
                question,
                protection,
                part if pays else Fraction(0),
                question.noise(protection, part),
            )
            for question, protection, pays in zip(questions, protections, paid, strict=True)
        ]
        return event if any(paid) else replace(event, epsilon=0), planned

    def release(self, questions: Sequence[CuratorQuestion], epsilon: Any) -> list[list[Any]]:
        """One list of results per question, one result per group.

        All is checked and computed before anything is charged, and all is charged before any noise
        is drawn. What is public is charged with 0, so that the budget knows which table and which
        neighbours made it public.
        """
        event, planned = self.plan(questions, epsilon)
        self.budget.check(event, self.basis)
        for plan in planned:
            for column in plan.question.columns:
                self.check(column, plan.question.numeric)
        for column in self.columns:
            self.check(column, numeric=False)
        exact = [
            [plan.question.exact(rows, plan.protection) for rows in self.rows(plan.question)]
            for plan in planned
        ]
        self.budget.charge(event, self.basis)
        return [
            [
                plan.question.answer(numbers, plan.noise, plan.protection, plan.epsilon)
                for numbers in found
            ]
            for plan, found in zip(planned, exact, strict=True)
        ]

    def previews(
        self, questions: Sequence[CuratorQuestion], epsilon: Any, size: int | None
    ) -> list[Preview]:
        """What :meth:`release` would cost, and how large its errors would be."""
        expected = None if size is None else check_count("size", size)
        event, planned = self.plan(questions, epsilon)
        left = float(self.budget.left - event.cost)
        return [_preview(plan, self.title(plan.question), left, expected) for plan in planned]


def _preview(plan: Planned, title: str, left: float, size: int | None) -> Preview:
    seen = plan.question.foresee(plan.noise, plan.protection, size)
    mechanism = plan.question.mechanism(plan.noise)
    return Preview(
        title,
        float(plan.epsilon),
        left,
        plan.protection,
        mechanism,
        seen.error,
        seen.unit,
        seen.bound,
    )
