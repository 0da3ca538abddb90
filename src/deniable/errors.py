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
    │   ├── NoReportsError          an empty set has no estimate
    │   └── HistoryCancelledError   reading the history was cancelled, because nobody waits for it any more
    ├── GraphError              a graph or its reports cannot be used: ``position`` says which edge, never between whom
    ├── SurveyError             a file of answers or its columns cannot be used; says which row
    ├── ReleaseError            a table cannot be released, or a hierarchy cannot be used; says which row
    ├── QueryError              a query cannot be used; each kind has a ``reason``, the word receipts and counters use
    │   ├── QueryFileError          a query file has an invalid entry: ``name``, ``value``, ``rule`` and the ``line``
    │   ├── SignatureError          the signature does not fit the query, or the key is not its analyst's
    │   ├── UnknownKeyError         signed with a key that is not on the ring
    │   ├── KeyNotValidError        signed with a key outside its time of validity
    │   ├── RevokedKeyError         signed with a key that was revoked
    │   ├── ExpiredQueryError       past its expiry
    │   ├── RollbackError           older than a version already seen, or another one under the same serial
    │   ├── EnvelopeError           a controller's version of a query is outside what its analyst allows
    │   ├── ChannelError            a query is on a channel of another key, without or beyond its permission
    │   └── KeyFileError            a key or ring file cannot be read or would be unsafe to use
    ├── WireError               bytes that are not a message, share or block; ``reason`` is a word listed in docs/wire.md
    ├── VaultError              a vault cannot be used, or a change to it is refused
    │   └── ImportDataError         a file or row cannot be imported: says where, never what was there
    ├── SandboxError            an analyst's SQL was refused or stopped; shown to the owner only, as it may depend on the data
    │   ├── NotSharedError          it names a table or column that is not shared or does not exist (one message for both)
    │   ├── ForbiddenSqlError       a statement, clause or function that is not allowed
    │   ├── BadSqlError             SQLite cannot run it
    │   ├── TooComplexError         it exceeds a limit on length, depth or size
    │   ├── DeadlineError           it ran too long
    │   │   └── SandboxBusyError        by the clock on the wall, which says nothing about the SQL
    │   ├── TooManyRowsError        it returns more rows than allowed
    │   ├── TooMuchMemoryError      it needs more memory than allowed
    │   └── CellError               it returns a blob, or a text too long or not UTF-8
    ├── PolicyError             a person's settings have an invalid entry: ``name``, ``value``, ``rule`` and the ``line``
    ├── StoreError              a device's store cannot be used
    ├── ConformanceError        a port cannot be compared with the vectors: it does not start, exits early, or prints no JSON
    ├── UploadError             a proxy did not accept shares; ``final`` says whether it never will
    ├── BudgetExceededError     the ledger refuses an answer; the message gives the limit, the sum spent and the request
    ├── CuratorError            a curator's table, or a question about it, cannot be used; says which column and row
    │   └── BudgetFileError         a table's budget cannot be read or written, or is that of another table
    ├── PlanError               a request for a plan contradicts itself, or leaves nothing or too much open
    │   └── InfeasiblePlanError     no design satisfies it; `nearest` says what would be feasible
    ├── FitError                a model has no fit: collinear covariates, separation, no convergence
    ├── DocumentError           a result cannot be read from a document; says what is wrong with it
    ├── ServiceError            a proxy or another service cannot do what it is asked
    │   ├── SettingsError           a settings file has an invalid entry: ``name``, ``value``, ``rule`` and the ``line``
    │   ├── LogError                a proxy's log cannot be used, or does not contain what is requested
    │   │   └── LogAwayError            it cannot be reached at the moment: retry later, nothing is lost
    │   ├── StateError              the aggregator's state cannot be used
    │   ├── AuditLogError           an audit log or the public feed cannot be read or written
    │   ├── BackupError             a backup cannot be made, or not be restored
    │   ├── PublicationError        the aggregator does not accept this query
    │   ├── ResponseError           a service answered with a problem: ``status`` and the problem document's ``reason``
    │   └── RefusedError            an upload or request is refused; ``reason`` is the word counters use, ``status`` that of HTTP
    ├── RandomnessError         a scripted source was asked for more than its script has
    └── MissingExtraError       an optional dependency is not installed; says which extra installs it

An Answer is what a person truly said. No error ever carries one, because it would end up in a log.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AnswerError",
    "AnswerTypeError",
    "AuditLogError",
    "BackupError",
    "BadSqlError",
    "BudgetExceededError",
    "BudgetFileError",
    "CellError",
    "ChannelError",
    "ConformanceError",
    "CuratorError",
    "DeadlineError",
    "DeniableError",
    "EnvelopeError",
    "ExpiredQueryError",
    "FitError",
    "ForbiddenSqlError",
    "GraphError",
    "HistoryCancelledError",
    "ImportDataError",
    "InfeasiblePlanError",
    "KeyFileError",
    "KeyNotValidError",
    "LogAwayError",
    "LogError",
    "MissingAnswerError",
    "MissingExtraError",
    "NoReportsError",
    "NotSharedError",
    "OutOfDomainError",
    "ParameterError",
    "PlanError",
    "PolicyError",
    "PublicationError",
    "QueryError",
    "QueryFileError",
    "RandomnessError",
    "RefusedError",
    "ReleaseError",
    "ReportError",
    "ReportFormatError",
    "ReportMismatchError",
    "ResponseError",
    "RevokedKeyError",
    "RollbackError",
    "SandboxBusyError",
    "SandboxError",
    "ServiceError",
    "SettingsError",
    "SignatureError",
    "StateError",
    "StoreError",
    "SurveyError",
    "SurveyWarning",
    "TooComplexError",
    "TooManyRowsError",
    "TooMuchMemoryError",
    "UnknownKeyError",
    "UnknownLabelError",
    "UploadError",
    "VaultError",
    "WireError",
]


class DeniableError(Exception):
    """Base class of every error of this library."""


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


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"


class AnswerError(DeniableError, ValueError):
    """A value to be randomized is unusable. The message gives its position, never the value."""

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
    """The bytes or arrays are not a report in a form this library writes. `position` says which one, if a single one is at
    fault."""

    def __init__(self, rule: str, position: int | None = None) -> None:
        self.rule, self.position = rule, position
        super().__init__(rule if position is None else f"values[{position}] {rule}")

    def __reduce__(self) -> tuple[type[ReportFormatError], tuple[str, int | None]]:
        return type(self), (self.rule, self.position)


class NoReportsError(ReportError):
    """There are no reports, so there is nothing to estimate."""


class HistoryCancelledError(ReportError):
    """Reading the history was cancelled, because nobody waits for it any more."""


class GraphError(DeniableError, ValueError):
    """A graph, or reports about one, cannot be used. The message says where, never whom an edge connects."""

    def __init__(self, rule: str, position: int | None = None) -> None:
        self.rule, self.position = rule, position
        super().__init__(rule if position is None else f"edges[{position}] {rule}")

    def __reduce__(self) -> tuple[type[GraphError], tuple[str, int | None]]:
        return type(self), (self.rule, self.position)


class SurveyError(DeniableError, ValueError):
    """A file of answers, or the description of its columns, cannot be used. Names the row, never an answer in it."""


class SurveyWarning(UserWarning):
    """Something whoever runs a survey should know: losses that add up, rows that were dropped."""


class ReleaseError(DeniableError, ValueError):
    """A table cannot be released, or a generalisation hierarchy cannot be used. Names the row, never an answer in it."""


class QueryError(DeniableError, ValueError):
    """A query cannot be used."""

    reason: ClassVar[str] = "unusable query"
    base: Any = None
    """The query as its analyst signed it, if only a controller's version of it is at fault."""


class QueryFileError(QueryError):
    """A query file has an invalid entry. The message names the key, the value, the rule and, if known, the line.

    >>> print(QueryFileError("schedule.every", "10 parsecs", "must be a duration such as '10 min'", "query.toml", 7))
    query.toml, line 7: schedule.every = '10 parsecs' must be a duration such as '10 min'
    """

    reason = "malformed query"

    def __init__(self, name: str, value: object, rule: str, file: str, line: int | None = None) -> None:
        self.name, self.value, self.rule, self.file, self.line = name, value, rule, file, line
        super().__init__(f"{file}{f', line {line}' if line else ''}: {name} = {_shortened(value)} {rule}")

    def __reduce__(self) -> tuple[type[QueryFileError], tuple[str, object, str, str, int | None]]:
        return type(self), (self.name, self.value, self.rule, self.file, self.line)


class SignatureError(QueryError):
    """The signature does not fit the query, or the key is not that of the analyst named in it."""

    reason = "bad signature"


class UnknownKeyError(QueryError):
    """The query is signed with a key that is not on the ring."""

    reason = "unknown key"


class KeyNotValidError(QueryError):
    """The query is signed with a key that is not valid yet, or no longer."""

    reason = "key not valid"


class RevokedKeyError(QueryError):
    """The query is signed with a key that was revoked."""

    reason = "revoked key"


class ExpiredQueryError(QueryError):
    """The query is past its expiry."""

    reason = "expired query"


class RollbackError(QueryError):
    """A newer version of the query is known, or another one under the same serial."""

    reason = "rolled-back query"


class EnvelopeError(QueryError):
    """A controller's version of a query is outside the envelope that the analyst signed, or there is none."""

    reason = "outside the envelope"


class ChannelError(QueryError):
    """A query is on a channel of another key, without a permission that its owner signed, or beyond it."""

    reason = "foreign channel"


class KeyFileError(QueryError):
    """A key or ring file cannot be read, or would be unsafe to use."""

    reason = "unusable key file"


class WireError(DeniableError, ValueError):
    """The bytes are not a message, share or block of this wire version. `reason` is the word counters use (docs/wire.md)."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(detail)

    def __reduce__(self) -> tuple[type[WireError], tuple[str, str]]:
        return type(self), (self.reason, self.detail)


class VaultError(DeniableError):
    """A vault cannot be used, or a change to it is refused."""


class VaultBusyError(VaultError):
    """A vault cannot be read for the moment, because its owner is writing to it or was cut off while writing."""


class ImportDataError(VaultError, ValueError):
    """A file or row cannot be imported. The message says where, never what was there."""


class SandboxError(DeniableError):
    """An analyst's SQL was refused or stopped. Shown to the owner only: whether it was may depend on the data."""


class NotSharedError(SandboxError):
    """The query names a table or column that is not shared or does not exist: the message is the same."""


class ForbiddenSqlError(SandboxError):
    """The query contains a statement, clause or function that is not allowed."""


class BadSqlError(SandboxError):
    """SQLite cannot run the query."""


class TooComplexError(SandboxError):
    """The query exceeds a limit on its length, its depth or its size when expanded."""


class DeadlineError(SandboxError):
    """The query ran longer than allowed."""


class SandboxBusyError(DeadlineError):
    """The machine gave the sandbox too little time, by the clock on the wall; that says nothing about the SQL."""


class TooManyRowsError(SandboxError):
    """The query returns more rows than allowed."""


class TooMuchMemoryError(SandboxError):
    """The query needs more memory than allowed."""


class CellError(SandboxError):
    """The query returns a blob, or a text that is too long or not UTF-8."""


class PolicyError(DeniableError, ValueError):
    """A person's settings have an invalid entry. The message names the file, the key, the value and the rule.

    >>> print(PolicyError("queue.messages", 0, "must be at least 1", "policy.toml", 7))
    policy.toml, line 7: queue.messages = 0 must be at least 1
    """

    def __init__(self, name: str, value: object, rule: str, file: str, line: int | None = None) -> None:
        self.name, self.value, self.rule, self.file, self.line = name, value, rule, file, line
        super().__init__(f"{file}{f', line {line}' if line else ''}: {name} = {_shortened(value)} {rule}")

    def __reduce__(self) -> tuple[type[PolicyError], tuple[str, object, str, str, int | None]]:
        return type(self), (self.name, self.value, self.rule, self.file, self.line)


class StoreError(DeniableError):
    """A device's store cannot be used."""


class ConformanceError(DeniableError):
    """A port, or the file of vectors that it is to be compared with, cannot be used."""


class UploadError(DeniableError):
    """A proxy did not accept shares. Retry after `retry_after` seconds; if `final`, it will never accept any of these, and if
    `early`, it will not accept them yet."""

    def __init__(self, detail: str, retry_after: int = 0, final: bool = False, early: bool = False) -> None:
        self.detail, self.retry_after, self.final, self.early = detail, retry_after, final, early
        super().__init__(detail)

    def __reduce__(self) -> tuple[type[UploadError], tuple[str, int, bool, bool]]:
        return type(self), (self.detail, self.retry_after, self.final, self.early)


class BudgetExceededError(DeniableError):
    """The answer would exceed a limit of the person's ledger."""


class CuratorError(DeniableError, ValueError):
    """A curator's table, or a question about it, cannot be used. Names the column and the row, never a value in it."""


class BudgetFileError(CuratorError):
    """A table's budget cannot be read or written, or is that of another table."""


class PlanError(DeniableError, ValueError):
    """The requirements of a plan contradict each other, or leave nothing, or too much, to be found."""


class InfeasiblePlanError(PlanError):
    """No design satisfies the request.

    `nearest` maps requirements to nearby feasible values: each if it is changed alone or, if `together`, all of them.
    """

    def __init__(self, problem: str, nearest: dict[str, float], together: bool = False) -> None:
        self.problem, self.nearest, self.together = problem, nearest, together
        changes = (" with " if together else ", or ").join(f"{name} = {value:.10g}" for name, value in nearest.items())
        super().__init__(f"{problem}; feasible would be {changes}" if changes else problem)

    def __reduce__(self) -> tuple[type[InfeasiblePlanError], tuple[str, dict[str, float], bool]]:
        return type(self), (self.problem, self.nearest, self.together)


class FitError(DeniableError, ValueError):
    """A model has no fit to these reports; the message says what to change."""


class DocumentError(DeniableError):
    """A result cannot be read from a document: a key is missing, or a value is of the wrong kind."""


class ServiceError(DeniableError):
    """A proxy or another service cannot do what it is asked."""


class SettingsError(ServiceError, ValueError):
    """A settings file has an invalid entry. The message names the key, the value, the rule and, if known, the line."""

    def __init__(self, name: str, value: object, rule: str, file: str, line: int | None = None) -> None:
        self.name, self.value, self.rule, self.file, self.line = name, value, rule, file, line
        super().__init__(f"{file}{f', line {line}' if line else ''}: {name} = {_shortened(value)} {rule}")

    def __reduce__(self) -> tuple[type[SettingsError], tuple[str, object, str, str, int | None]]:
        return type(self), (self.name, self.value, self.rule, self.file, self.line)


class LogError(ServiceError):
    """A proxy's log cannot be used, or does not contain what is requested."""


class LogAwayError(LogError):
    """A proxy's log cannot be reached at the moment. Retry later."""


class StateError(ServiceError):
    """The aggregator's state cannot be used."""


class AuditLogError(ServiceError):
    """An audit log, or the public feed of queries, cannot be read or written."""


class BackupError(ServiceError):
    """A backup cannot be made, or not be restored."""


class PublicationError(ServiceError, ValueError):
    """The aggregator does not accept this query."""


class ResponseError(ServiceError):
    """A service answered with a problem."""

    def __init__(self, status: int, reason: str, detail: str) -> None:
        self.status, self.reason, self.detail = status, reason, detail
        super().__init__(f"{status} {reason}: {detail}")

    def __reduce__(self) -> tuple[type[ResponseError], tuple[int, str, str]]:
        return type(self), (self.status, self.reason, self.detail)


class RefusedError(ServiceError):
    """A request is refused, and nothing of it was accepted. Never carries a share, a token or an address."""

    def __init__(self, reason: str, status: int, detail: str, retry_after: int | None = None) -> None:
        self.reason, self.status, self.detail, self.retry_after = reason, status, detail, retry_after
        super().__init__(detail)

    def __reduce__(self) -> tuple[type[RefusedError], tuple[str, int, str, int | None]]:
        return type(self), (self.reason, self.status, self.detail, self.retry_after)


class WholeNumbersWarning(SurveyWarning):
    """A column of whole numbers is treated as numbers from an interval, which would bias its mean."""


class RandomnessError(DeniableError):
    """A scripted source was asked for more than its script holds, or for another kind of draw."""


class MissingExtraError(DeniableError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra, self.purpose = package, extra, purpose
        super().__init__(f"{purpose} needs {package}: pip install 'deniable[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        return type(self), (self.package, self.extra, self.purpose)
