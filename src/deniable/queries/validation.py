"""The rules for a query's fields: each is checked, and brought into its one form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deniable.checks import check_flag, whole
from deniable.errors import ParameterError
from deniable.mechanisms.protocols.memoized_unary import MemoizedUnary
from deniable.mechanisms.protocols.unary import UnaryMechanism
from deniable.queries.asking import ASKS, check_form, check_value
from deniable.queries.columns.bucket_index import LONGEST_TEXT
from deniable.queries.signed.envelope import COINS, Envelope
from deniable.queries.strata import Stratum
from deniable.queries.texts import check_text, first_repeated
from deniable.wire.sizes import capacity, smallest_class

if TYPE_CHECKING:
    from deniable.queries.query import Query

__all__ = [
    "check_ask",
    "check_budget",
    "check_distinct",
    "check_envelope",
    "check_ones",
    "check_pattern_steps",
    "check_proxies",
    "check_rows",
    "check_size",
    "check_sql",
    "check_strata",
]

MOST_PATTERN_STEPS = 1 << 24
"""The most steps that patterns may take for one answer: about 0.2 s of processor time."""

LONGEST_SQL = 8_192
"""The most bytes of SQL that devices accept."""
_ROWS = ("random", "aggregate", "several", "all")
_MOST_PROXIES = 16
_LARGEST_EPSILON = 1000.0


def check_sql(query: Query) -> None:
    """Refuse SQL that devices would not read, and SQL where something else is asked."""
    if query.ask not in ASKS:
        raise ParameterError("ask", query.ask, f"must be one of {', '.join(map(repr, ASKS))}")
    if query.ask != "sql":
        if query.sql != "":
            raise ParameterError("sql", query.sql, f"must be left out with ask = {query.ask!r}")
        return
    check_text("sql", query.sql, LONGEST_SQL, "the question to each device, in SQL", lines=True)
    if len(query.sql.encode()) > LONGEST_SQL:
        raise ParameterError("sql", f"{query.sql[:40]}…", f"must take at most {LONGEST_SQL} bytes")


def check_proxies(given: object) -> tuple[str, ...]:
    """The proxies, if they are different and there are enough of them."""
    rule = f"must be a list of 2 to {_MOST_PROXIES} different names or addresses"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ParameterError("proxies", given, rule)
    proxies = tuple(given)
    if not 2 <= len(proxies) <= _MOST_PROXIES or not all(
        isinstance(proxy, str) for proxy in proxies
    ):
        raise ParameterError("proxies", list(proxies), rule)
    for i, proxy in enumerate(proxies):
        check_text(f"proxies[{i}]", proxy, 500, "the name or address of a proxy")
        if proxy in proxies[:i]:
            raise ParameterError(
                f"proxies[{i}]",
                proxy,
                "is repeated: a proxy with two shares could read the answer",
            )
    return proxies


def check_rows(query: Query) -> None:
    """Refuse rows that cannot be drawn as the query says."""
    check_flag("memoize", query.memoize)
    check_flag("cover", query.cover)
    if query.rows not in _ROWS:
        raise ParameterError("rows", query.rows, f"must be one of {', '.join(map(repr, _ROWS))}")
    if (query.most_rows > 1) != (query.rows == "several"):
        raise ParameterError(
            "most_rows",
            query.most_rows,
            "must be above 1 with rows = 'several', and 1 otherwise",
        )


def check_strata(given: object) -> tuple[Stratum, ...]:
    """The strata, if no two have one name."""
    strata = tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(stratum, Stratum) for stratum in strata):
        raise ParameterError("strata", given, "must be a list of Stratum")
    if len(strata) > 1 << 16:
        raise ParameterError("strata", len(strata), "must number at most 65536")
    twice = first_repeated(stratum.name for stratum in strata)
    if twice is not None:
        raise ParameterError(f"strata[{twice}].name", strata[twice].name, "is repeated")
    return strata


def check_ask(query: Query) -> None:
    """Refuse fields that do not belong to what is asked: SQL, a value or a form."""
    check_flag("once", query.once)
    check_flag("public_results", query.public_results)
    if query.once and query.memoize:
        raise ParameterError(
            "memoize",
            True,
            "must be false with once: a device that answers once repeats nothing",
        )
    if query.ask == "value":
        check_value(query.value, query.columns)
    elif query.value is not None:
        raise ParameterError("value", query.value, "must be left out without ask = 'value'")
    if query.ask == "form":
        check_form(query.columns, query.rows)
        return
    for i, column in enumerate(query.columns):
        if column.form is not None:
            raise ParameterError(
                f"columns[{i}].question", "given", "must be left out without ask = 'form'"
            )


def check_ones(query: Query) -> None:
    """Refuse answers in several buckets where the rows or the mechanism have no room for them."""
    if query.ones == 1:
        rule = "needs ones above 1, the number of buckets an answer may be in"
        for i, column in enumerate(query.columns):
            if column.overlapping:
                raise ParameterError(f"columns[{i}].overlapping", True, rule)
        if query.rows == "all":
            raise ParameterError("rows", "all", rule)
        return
    if not isinstance(query.mechanism, UnaryMechanism | MemoizedUnary):
        rule = (
            f"must be 1 with {query.recipe['name']}: only unary reports say for each bucket"
            " whether an answer is in it"
        )
        raise ParameterError("ones", query.ones, rule)
    if query.rows == "several":
        raise ParameterError(
            "rows",
            query.rows,
            "cannot be combined with ones above 1: use 'all', which puts all rows into one answer",
        )
    if query.epsilon > _LARGEST_EPSILON:
        rule = f"makes an answer cost {query.epsilon:.4g}, more than {_LARGEST_EPSILON:g}"
        raise ParameterError("ones", query.ones, rule)


def check_distinct(query: Query) -> int:
    """For how many different true answers permanent ones may be drawn."""
    answers = len(query.buckets) + (not query.buckets.complete) if query.ones == 1 else 1 << 16
    distinct = whole("distinct", query.distinct, 1, answers)
    if distinct > 1 and not query.memoize:
        raise ParameterError(
            "distinct", distinct, "must be 1 without memoize: it counts permanent answers"
        )
    return distinct


def check_size(size_class: int | None, report_bytes: int) -> int:
    """The size class of shares: as given, if a report fits, or else the smallest."""
    needed = smallest_class(report_bytes)
    if size_class is None:
        return needed
    if size_class < needed:
        held = f"has room for {capacity(size_class)} bytes, but a report takes {report_bytes}"
        raise ParameterError("size_class", size_class, f"{held}: it must be {needed} or above")
    return size_class


def check_budget(query: Query) -> None:
    """Refuse a budget from which no device could ever pay."""
    budget = query.budget.epsilon
    if budget is None:
        return
    if budget < query.epsilon_local:
        rule = f"must pay for at least one epoch, whose local epsilon is {query.epsilon_local:.4g}"
        raise ParameterError("budget.epsilon", budget, rule)
    if query.instantaneous is not None and budget < query.releases.life.epsilon:
        rule = (
            f"must pay for the permanent answers, which cost {query.releases.life.epsilon:.4g}"
            " with the first report"
        )
        raise ParameterError("budget.epsilon", budget, rule)


def check_envelope(query: Query, envelope: Envelope) -> None:
    """Refuse an envelope that does not contain the query's own parameters, or leaves the total
    open."""
    if not isinstance(envelope, Envelope):
        raise ParameterError("envelope", envelope, "must be an Envelope")
    if query.budget.epsilon is None:
        raise ParameterError(
            "budget.epsilon",
            None,
            "must be given with an envelope: it is the ceiling on the total",
        )
    coins = [name for name in COINS if name in query.recipe]
    for name in COINS:
        if (getattr(envelope, name) is not None) != (name in coins):
            rule = (
                f"must be {'a range' if name in coins else 'left out'} for {query.recipe['name']}"
            )
            raise ParameterError(f"envelope.{name}", getattr(envelope, name), rule)
    if envelope.inversion and query.recipe["name"] != "TwoCoin":
        raise ParameterError(
            "envelope.inversion", True, "must be false for mechanisms other than TwoCoin"
        )
    samplings = [
        query.sampling,
        *(stratum.sampling for stratum in query.strata if stratum.sampling is not None),
    ]
    values = [("sampling", value) for value in samplings] + [
        (name, query.recipe[name]) for name in coins
    ]
    for name, value in values:
        low, high = envelope.ranges()[name]
        if not low <= value <= high:
            raise ParameterError(
                f"envelope.{name}",
                [low, high],
                f"must contain the query's own {name} = {value:g}",
            )
        if query.memoize and name != "sampling" and low != high:
            rule = (
                "must be one value with memoize: other coins would draw and charge permanent"
                " answers again"
            )
            raise ParameterError(f"envelope.{name}", [low, high], rule)
    if query.epsilon_local > envelope.epsilon_per_answer:
        rule = f"must allow the query's own local epsilon, {query.epsilon_local:.4g}"
        raise ParameterError("envelope.epsilon_per_answer", envelope.epsilon_per_answer, rule)


def check_pattern_steps(steps: int, positions: int, most_rows: int) -> None:
    """Refuse patterns that take too many steps for one answer."""
    if steps > MOST_PATTERN_STEPS:
        most = MOST_PATTERN_STEPS // LONGEST_TEXT // most_rows
        rows = "" if most_rows == 1 else f" with most_rows = {most_rows}"
        rule = (
            f"must be at most {most}{rows}: a device reads texts of up to {LONGEST_TEXT}"
            " characters with all of them"
        )
        raise ParameterError("columns", f"{positions} characters in patterns", rule)
