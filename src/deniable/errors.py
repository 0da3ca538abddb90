"""Every error this library raises, in one tree, which docs/errors.md draws.

An Answer is what a person truly said. No error ever carries one, because it would end up in a log.
"""

from __future__ import annotations

from typing import Any, ClassVar

from deniable.error_bases import DeniableError as DeniableError  # noqa: PLC0414 - part of this tree
from deniable.error_bases import ParameterError as ParameterError  # noqa: PLC0414
from deniable.error_bases import _InvalidEntryError
from deniable.renames import current_export

for _base in (DeniableError, ParameterError, _InvalidEntryError):
    _base.__module__ = __name__  # where people import them from, and what a traceback says


def __getattr__(name: str) -> Any:
    return globals()[current_export(__name__, name)]


class AnswerError(DeniableError, ValueError):
    """A value to be randomized is unusable. The message gives its position, never the value."""

    def __init__(self, position: int | None, rule: str) -> None:
        self.position, self.rule = position, rule
        super().__init__(f"{'the value' if position is None else f'values[{position}]'} {rule}")


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
    """The bytes or arrays are not a report in a form this library writes. `position` says which
    one, if a single one is at fault."""

    def __init__(self, rule: str, position: int | None = None) -> None:
        self.rule, self.position = rule, position
        super().__init__(rule if position is None else f"values[{position}] {rule}")


class NoReportsError(ReportError):
    """There are no reports, so there is nothing to estimate."""


class HistoryCancelledError(ReportError):
    """Reading the history was cancelled, because nobody waits for it any more."""


class GraphError(DeniableError, ValueError):
    """A graph, or reports about one, cannot be used. Says where, never whom an edge connects."""

    def __init__(self, rule: str, position: int | None = None) -> None:
        self.rule, self.position = rule, position
        super().__init__(rule if position is None else f"edges[{position}] {rule}")


class SurveyError(DeniableError, ValueError):
    """A file of answers, or the description of its columns, cannot be used. Names the row, never an
    answer in it."""


class SurveyWarning(UserWarning):
    """What the person who runs a survey should know: losses that add up, dropped rows."""


class ReleaseError(DeniableError, ValueError):
    """A table cannot be released, or a generalisation hierarchy cannot be used. Names the row,
    never an answer in it."""


class ReleaseRowError(ReleaseError):
    """A row of a table cannot be released. The message begins with the row's number."""


class QueryError(DeniableError, ValueError):
    """A query cannot be used."""

    reason: ClassVar[str] = "unusable query"
    base: Any = None
    """The query as its analyst signed it, if only a controller's version of it is at fault."""


class QueryFileError(_InvalidEntryError, QueryError):
    """A query file has an invalid entry. The message names the key, the value, the rule and, if
    known, the line.

    >>> print(QueryFileError("schedule.every", "10 parsecs", "must be a duration such as '10 min'", "query.toml", 7))
    query.toml, line 7: schedule.every = '10 parsecs' must be a duration such as '10 min'
    """

    reason = "malformed query"


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
    """A controller's version is outside the envelope that the analyst signed, or there is none."""

    reason = "outside the envelope"


class ChannelError(QueryError):
    """A query is on a channel of another key, without a permission that its owner signed, or beyond
    it."""

    reason = "foreign channel"


class KeyFileError(QueryError):
    """A key or ring file cannot be read, or would be unsafe to use."""

    reason = "unusable key file"


class EncryptedKeyError(KeyFileError):
    """A key file is encrypted, and its password was not given."""

    reason = "encrypted key file"


class WireError(DeniableError, ValueError):
    """The bytes are not a message, share or block of this wire version. `reason` is the word
    counters use (docs/wire.md)."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(detail)


class VaultError(DeniableError):
    """A vault cannot be used, or a change to it is refused."""


class VaultBusyError(VaultError):
    """A vault cannot be read for the moment, because its owner is writing to it or was cut off
    while writing."""


class ImportDataError(VaultError, ValueError):
    """A file or row cannot be imported. The message says where, never what was there."""


class SandboxError(DeniableError):
    """An analyst's SQL was refused or stopped. Shown to the owner only: whether it was may depend
    on the data."""


class NotGrantedError(SandboxError):
    """The query names a table or column that is not granted or does not exist: the message is the
    same."""


class ForbiddenSqlError(SandboxError):
    """The query contains a statement, clause or function that is not allowed."""


class BadSqlError(SandboxError):
    """SQLite cannot run the query."""


class TooComplexError(SandboxError):
    """The query exceeds a limit on its length, its depth or its size when expanded."""


class DeadlineError(SandboxError):
    """The query ran longer than allowed."""


class SandboxBusyError(DeadlineError):
    """The machine gave the sandbox too little time, by the clock on the wall; that says nothing
    about the SQL."""


class TooManyRowsError(SandboxError):
    """The query returns more rows than allowed."""


class TooMuchMemoryError(SandboxError):
    """The query needs more memory than allowed."""


class CellError(SandboxError):
    """The query returns a blob, or a text that is too long or not UTF-8."""


class PolicyError(_InvalidEntryError):
    """A person's settings have an invalid entry. The message names the file, the key, the value and
    the rule.

    >>> print(PolicyError("queue.messages", 0, "must be at least 1", "policy.toml", 7))
    policy.toml, line 7: queue.messages = 0 must be at least 1
    """


class StoreError(DeniableError):
    """A device's store cannot be used."""


class ConformanceError(DeniableError):
    """A port, or the file of vectors that it is to be compared with, cannot be used."""


class UploadError(DeniableError):
    """A proxy did not accept shares. Retry after `retry_after` seconds; if `final`, it will never
    accept any of these, if `early` not yet, and if `unsent`, no byte of them left."""

    def __init__(
        self,
        detail: str,
        retry_after: int = 0,
        final: bool = False,
        early: bool = False,
        unsent: bool = False,
    ) -> None:
        self.detail, self.retry_after, self.final, self.early = detail, retry_after, final, early
        self.unsent = unsent
        super().__init__(detail)


class BudgetExceededError(DeniableError):
    """The answer would exceed a limit of the person's ledger."""


class CuratorError(DeniableError, ValueError):
    """A curator's table, or a question about it, cannot be used. Names the column and the row,
    never a value in it."""


class BudgetFileError(CuratorError):
    """A table's budget cannot be read or written, or is that of another table."""


class PlanError(DeniableError, ValueError):
    """The requirements of a plan contradict each other, or leave nothing, or too much, to be
    found."""


class InfeasiblePlanError(PlanError):
    """No design satisfies the request.

    `nearest` maps requirements to nearby feasible values: each if it is changed alone or, if
    `together`, all of them.
    """

    def __init__(self, problem: str, nearest: dict[str, float], together: bool = False) -> None:
        self.problem, self.nearest, self.together = problem, nearest, together
        changes = (" with " if together else ", or ").join(
            f"{name} = {value:.10g}" for name, value in nearest.items()
        )
        super().__init__(f"{problem}; feasible would be {changes}" if changes else problem)


class FitError(DeniableError, ValueError):
    """A model has no fit to these reports; the message says what to change."""


class DocumentError(DeniableError):
    """A result cannot be read from a document: a key is missing, or a value is of the wrong
    kind."""


class ServiceError(DeniableError):
    """A proxy or another service cannot do what it is asked."""


class SettingsError(_InvalidEntryError, ServiceError):
    """A settings file has an invalid entry. The message names the key, the value, the rule and, if
    known, the line."""


class LogError(ServiceError):
    """A proxy's log cannot be used, or does not contain what is requested."""


class DamagedLogError(LogError):
    """A proxy's log is damaged, or is another file."""


class LogInUseError(LogError):
    """A proxy's folder is used by another process."""


class LogAwayError(LogError):
    """A proxy's log cannot be reached at the moment. Retry later."""


class StateError(ServiceError):
    """The aggregator's state cannot be used."""


class AuditLogError(ServiceError):
    """An audit log, or the public feed of queries, cannot be read or written."""


class BackupError(ServiceError):
    """A backup cannot be made or restored."""


class PublicationError(ServiceError, ValueError):
    """The aggregator does not accept this query."""


class ResponseError(ServiceError):
    """A service answered with a problem or not at all; if `unsent`, no byte of the request left."""

    def __init__(self, status: int, reason: str, detail: str, unsent: bool = False) -> None:
        self.status, self.reason, self.detail, self.unsent = status, reason, detail, unsent
        super().__init__(f"{status} {reason}: {detail}")


class RefusedError(ServiceError):
    """A request is refused, and nothing of it was accepted. Never carries a share, a token or an
    address."""

    def __init__(
        self, reason: str, status: int, detail: str, retry_after: int | None = None
    ) -> None:
        self.reason, self.status, self.detail, self.retry_after = (
            reason,
            status,
            detail,
            retry_after,
        )
        super().__init__(detail)


class WholeNumbersWarning(SurveyWarning):
    """A column of whole numbers is treated as numbers from an interval, which would bias its
    mean."""


class RandomnessError(DeniableError):
    """A scripted source was asked for more than its script holds, or for another kind of draw."""


class MissingExtraError(DeniableError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra, self.purpose = package, extra, purpose
        super().__init__(f"{purpose} needs {package}: pip install 'deniable[{extra}]'")
