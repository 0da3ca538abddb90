"""Every error this library raises, in one tree.

    DeniableError
    ├── ParameterError          a parameter breaks its rule: ``name``, ``value`` and ``rule`` are attributes
    ├── AnswerError             a value to be randomized is unusable: ``position`` and ``rule``; never the value
    │   ├── UnknownLabelError       not one of the domain's labels
    │   ├── OutOfDomainError        a number outside the domain
    │   ├── MissingAnswerError      NaN, None or null
    │   └── AnswerTypeError         neither a value nor a column of values
    ├── ReportError             a report cannot be used
    │   ├── ReportMismatchError     made by another mechanism, or with other parameters
    │   ├── ReportFormatError       bytes or arrays that no mechanism of this library writes
    │   └── NoReportsError          an empty set has no estimate
    ├── BudgetExceededError     the ledger refuses an answer; the message says which limit, what is spent and what was asked
    ├── PlanError               the wishes for a plan contradict each other or leave nothing, or too much, to be found
    │   └── InfeasiblePlanError     no design fulfils them; `nearest` says what would be feasible
    ├── SurveyError             a file of answers or its columns cannot be used; says which row
    ├── RandomnessError         a scripted source was asked for more than its script holds
    └── MissingExtraError       an optional dependency is not installed; says which extra brings it

An Answer is what a person truly said. No error here ever carries one: it would end up in a log.
"""

from __future__ import annotations

__all__ = [
    "AnswerError",
    "AnswerTypeError",
    "BudgetExceededError",
    "DeniableError",
    "InfeasiblePlanError",
    "MissingAnswerError",
    "MissingExtraError",
    "NoReportsError",
    "OutOfDomainError",
    "ParameterError",
    "PlanError",
    "RandomnessError",
    "ReportError",
    "ReportFormatError",
    "ReportMismatchError",
    "SurveyError",
    "UnknownLabelError",
]


class DeniableError(Exception):
    """What every error of this library is."""


class ParameterError(DeniableError, ValueError):
    """A parameter breaks its rule.

    >>> ParameterError("p", 1.2, "must lie strictly between 0 and 1")
    ParameterError('p = 1.2 must lie strictly between 0 and 1')
    """

    def __init__(self, name: str, value: object, rule: str) -> None:
        self.name, self.value, self.rule = name, value, rule
        super().__init__(f"{name} = {value!r} {rule}")

    def __reduce__(self) -> tuple[type[ParameterError], tuple[str, object, str]]:
        return type(self), (self.name, self.value, self.rule)


class AnswerError(DeniableError, ValueError):
    """A value to be randomized is unusable. The message says where it stands, never what it was."""

    def __init__(self, position: int | None, rule: str) -> None:
        self.position, self.rule = position, rule
        super().__init__(f"{'the value' if position is None else f'values[{position}]'} {rule}")

    def __reduce__(self) -> tuple[type[AnswerError], tuple[int | None, str]]:
        return type(self), (self.position, self.rule)


class UnknownLabelError(AnswerError):
    """The value is not one of the domain's labels."""


class OutOfDomainError(AnswerError):
    """The value is a number outside the domain."""


class MissingAnswerError(AnswerError):
    """The value is NaN, None or null."""


class AnswerTypeError(AnswerError, TypeError):
    """What was given is neither a value of the domain nor a column of them."""


class ReportError(DeniableError, ValueError):
    """A report cannot be used."""


class ReportMismatchError(ReportError):
    """The report was made by another mechanism, or with other parameters."""


class ReportFormatError(ReportError):
    """The bytes or arrays are not a report in a form this library writes. `position` tells which one, where one is at fault."""

    def __init__(self, rule: str, position: int | None = None) -> None:
        self.rule, self.position = rule, position
        super().__init__(rule if position is None else f"values[{position}] {rule}")

    def __reduce__(self) -> tuple[type[ReportFormatError], tuple[str, int | None]]:
        return type(self), (self.rule, self.position)


class NoReportsError(ReportError):
    """There are no reports, so there is nothing to estimate."""


class BudgetExceededError(DeniableError):
    """The answer would break a limit of the person's ledger."""


class PlanError(DeniableError, ValueError):
    """The wishes for a plan contradict each other, or leave nothing, or too much, to be found."""


class InfeasiblePlanError(PlanError):
    """No design fulfils the wishes.

    `nearest` maps wishes to near values that would be feasible: each if it is changed alone or, if `together`, all of them.
    """

    def __init__(self, problem: str, nearest: dict[str, float], together: bool = False) -> None:
        self.problem, self.nearest, self.together = problem, nearest, together
        changes = (" with " if together else ", or ").join(f"{name} = {value:.10g}" for name, value in nearest.items())
        super().__init__(f"{problem}; feasible would be {changes}" if changes else problem)

    def __reduce__(self) -> tuple[type[InfeasiblePlanError], tuple[str, dict[str, float], bool]]:
        return type(self), (self.problem, self.nearest, self.together)


class SurveyError(DeniableError, ValueError):
    """A file of answers, or the description of its columns, cannot be used. Names the row, never an answer in it."""


class RandomnessError(DeniableError):
    """A scripted source was asked for more than its script holds, or for another kind of draw."""


class MissingExtraError(DeniableError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra, self.purpose = package, extra, purpose
        super().__init__(f"{purpose} needs {package}: pip install 'deniable[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        return type(self), (self.package, self.extra, self.purpose)
