"""A query: everything that is asked of a device, and everything that protects its owner, in one
immutable value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.queries.asking import (
    form_statement,
    form_table,
    value_statement,
)
from deniable.queries.buckets import Buckets
from deniable.queries.budget import Budget
from deniable.queries.columns.bucket_index import LONGEST_TEXT
from deniable.queries.columns.column import Column
from deniable.queries.header import FORMAT, FORMAT_OWNED, QueryHeader, check_format, digest_of
from deniable.queries.losses import QueryLosses
from deniable.queries.recipe import build_mechanism, with_step
from deniable.queries.schedule import Schedule
from deniable.queries.signed import canonical
from deniable.queries.signed.envelope import Envelope
from deniable.queries.signed.permissions import ChannelPermission
from deniable.queries.strata import Stratum, check_sampling
from deniable.queries.tables import arguments_of, check_table, read_tables
from deniable.queries.texts import check_text
from deniable.queries.validation import (
    check_ask,
    check_budget,
    check_distinct,
    check_envelope,
    check_ones,
    check_pattern_steps,
    check_proxies,
    check_rows,
    check_size,
    check_sql,
    check_strata,
)
from deniable.renames import current_names

__all__ = ["Query"]

_COLUMN_KEYS = ("name", "buckets", "other", "kind", "overlapping", "question", "labels")


@dataclass(frozen=True, eq=False)
class Query(QueryLosses):
    """A question to many devices, with its parameters. Changing any of them makes a new version:
    see :meth:`revised`.

    >>> from deniable.queries.columns.column import Column
    >>> from deniable.queries.schedule import Schedule
    >>> trips = Query(
    ...     id="trip-distance",
    ...     analyst="City of Exampleton",
    ...     sql="SELECT distance FROM trips",
    ...     columns=[Column("distance", ["[0,1)", "[1,2)", "[2,inf)"])],
    ...     schedule=Schedule(origin=0, expires=86400, every=600, window=3600, slide=600),
    ...     proxies=["https://one.example", "https://two.example"],
    ...     mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
    ...     sampling=0.6,
    ... )
    >>> round(trips.epsilon, 4), trips.revised(sampling=0.9).serial
    (2.1972, 2)
    """

    id: str
    analyst: str
    """Who asks; the key that signs the query must be theirs."""
    sql: str
    columns: Sequence[Column]
    """The buckets of each column of the SQL's result, in the order of the result."""
    schedule: Schedule
    proxies: Sequence[str]
    mechanism: Any
    """A :class:`Mechanism`. Given as `{"name": …, parameter: value, …}` without the domain, which
    is the buckets. `TwoCoin` with p and q is PrivApprox's: unary encoding with a = p + (1 - p) q
    and b = (1 - p) q."""
    sampling: float = 1.0
    serial: int = 1
    """The version. Devices refuse to go back."""
    question: str = ""
    """The question in plain words, for the people who are asked."""
    strata: Sequence[Stratum] = ()
    population: int | None = None
    minimum_cohort: int = 100
    """Results with fewer answers than this are not released."""
    budget: Budget = dataclasses.field(default_factory=Budget)
    rows: str = "random"
    """Of the rows that the SQL finds, `random` draws one per epoch, `several` sends up to
    `most_rows`; `aggregate` allows one. `all` puts the buckets of all rows into one answer, which
    has up to `ones` of them."""
    most_rows: int = 1
    memoize: bool = False
    """Whether a device draws a permanent answer once for each true answer, and answers from
    that."""
    cover: bool = False
    """Whether devices that do not answer send a message of the same length that says so."""
    size_class: int | None = None
    """How long shares are; by default as short as the report allows."""
    channel: str | None = None
    """What proxies see: queries with the same channel, schedule and size class look alike to them.
    By default, its own."""
    distinct: int = 1
    """With `memoize`, for how many different true answers a device may draw a permanent answer, for
    each row it sends. All are paid for when the query is first answered, whatever the data."""
    envelope: Envelope | None = None
    """What a controller may change without the analyst, if anything."""
    grace: int | None = None
    """Seconds (or a text such as "2 d") after the end of an epoch in which its answers still count.
    Results are then released early, and revised as late answers come. By default, as set by the
    proxies and the aggregator, with one result per window."""
    ones: int = 1
    """How many buckets one answer may be in (Quoc 2017, appendix A). For a person in more, this
    many are drawn."""
    channel_owner: str | None = None
    """The public key to which the named channel belongs, in hexadecimal digits; by default, the key
    that signs the query."""
    permission: ChannelPermission | None = None
    """The owner's permission to use the channel, if another key signs the query."""
    instantaneous: Any = "default"
    """With `memoize` and a unary mechanism, how every report randomizes the permanent bits once
    more: `{"p": …, "q": …}`, the probabilities that a permanent 0 and a permanent 1 are reported as
    1. None sends permanent answers as they are, so that equal reports link a device's messages. By
    default `DEFAULT_STEP` where it applies; in a signed query without it, None."""
    ask: str = "sql"
    """Where the answer comes from: `sql`, a `value` that an app records, or a `form` that a person
    fills in."""
    value: str | None = None
    """With `ask="value"`, the name under which an app records the values."""
    once: bool = False
    """Whether a device answers at most once over the query's life."""
    public_results: bool = False
    """Whether anyone may read the released windows, without a token."""

    recipe: Mapping[str, Any] = dataclasses.field(init=False, repr=False)
    """The mechanism as the analyst wrote it."""
    buckets: Buckets = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_header()
        check_sql(self)
        check_text(
            "question", self.question, 2000, "the question in plain words", empty=True, lines=True
        )
        self._set(proxies=check_proxies(self.proxies))
        if not isinstance(self.budget, Budget):
            raise ParameterError("budget", self.budget, "must be a Budget")
        check_rows(self)
        self._set(
            sampling=check_sampling("sampling", self.sampling),
            strata=check_strata(self.strata),
            minimum_cohort=whole("minimum_cohort", self.minimum_cohort, 1, 1 << 40),
        )
        if self.population is not None:
            self._set(population=whole("population", self.population, 1, 1 << 40))
        buckets = Buckets(self.columns)
        recipe, mechanism = build_mechanism(self.mechanism, buckets)
        step, mechanism = with_step(self.instantaneous, mechanism, self.memoize)
        self._set(
            columns=buckets.columns,
            buckets=buckets,
            mechanism=mechanism,
            recipe=recipe,
            instantaneous=step,
        )
        check_ask(self)
        self._set(ones=whole("ones", self.ones, 1, len(buckets)))
        check_ones(self)
        self._set(distinct=check_distinct(self))
        self._set(size_class=check_size(self.size_class, self.report_bytes))
        check_budget(self)
        if self.envelope is not None:
            check_envelope(self, self.envelope)

    def _set(self, **derived: Any) -> None:
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def _header(self, digest: bytes) -> QueryHeader:
        return QueryHeader(
            self.id,
            self.analyst,
            self.serial,
            self.schedule,
            0 if self.size_class is None else self.size_class,
            self.most_rows,
            self.channel,
            digest,
            self.grace,
            self.channel_owner,
            self.permission,
        )

    def _check_header(self) -> None:
        header = self._header(b"")
        self._set(serial=header.serial, most_rows=header.most_rows, grace=header.grace)
        if self.size_class is not None:
            self._set(size_class=header.size_class)

    @property
    def statement(self) -> str:
        """The SQL that a device runs for its answer, whatever it is asked: its own, or what reads a
        value or a form."""
        if self.ask == "value":
            return value_statement(str(self.value), self.columns)
        if self.ask == "form":
            return form_statement(self.form_table, len(self.columns))
        return self.sql

    @property
    def form_table(self) -> str:
        """The table of a device that holds what a person chose when asked this."""
        return form_table(self.analyst, self.id, self.question, self.columns)

    @property
    def pattern_steps(self) -> int:
        """How many steps it may take to find the buckets of an answer: positions of all patterns,
        for each of the characters that a text may have, for each row that is sent. Memoized and
        `all` queries take them for every row, up to the deadline."""
        return self.buckets.n_positions * LONGEST_TEXT * self.most_rows

    def check_patterns(self) -> None:
        """Refuse patterns that take too many steps. Devices refuse such a query, and it cannot be
        signed."""
        check_pattern_steps(self.pattern_steps, self.buckets.n_positions, self.most_rows)

    @property
    def labels(self) -> tuple[str, ...]:
        """The buckets' names, in order."""
        return self.buckets.labels

    @property
    def report_bytes(self) -> int:
        """How many bytes a randomized answer takes."""
        dtype, shape = self.mechanism.layout
        return int(dtype.itemsize * math.prod(shape))

    @cached_property
    def content(self) -> bytes:
        """The canonical bytes: what is signed."""
        return canonical.encode(self.to_dict())

    @cached_property
    def header(self) -> QueryHeader:
        """What anyone who only carries its shares may know."""
        return self._header(digest_of(self.content))

    @property
    def digest(self) -> bytes:
        """SHA-256 of the separator and the canonical bytes: identifies this exact version."""
        return self.header.digest

    @property
    def tag(self) -> int:
        """The first 64 bits of the digest, little-endian: how messages name the version they
        answer."""
        return int.from_bytes(self.digest[:8], "little")

    @property
    def channel_tag(self) -> int:
        """What proxies see: 64 bits derived from the channel's owner and name, schedule and size
        class, but not the version."""
        return self.header.channel_tag

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON values, from which :meth:`from_dict` makes this query again.

        `distinct` and `ones` are written only if they are not 1, `envelope`, `grace`,
        `channel_owner`, `permission`, `instantaneous` and `value` only if set, `ask` if it is not
        `sql`, `once` and `public_results` if true, so that a query without them has the same bytes
        as before these fields existed.
        """
        tree = {
            "format": FORMAT if self.channel_owner is None else FORMAT_OWNED,
            "id": self.id,
            "serial": self.serial,
            "analyst": self.analyst,
            "question": self.question,
            "sql": self.sql,
            "columns": [column.to_dict() for column in self.columns],
            "schedule": self.schedule.to_dict(),
            "proxies": list(self.proxies),
            "mechanism": dict(self.recipe),
            "sampling": self.sampling,
            "strata": [dataclasses.asdict(stratum) for stratum in self.strata],
            "population": self.population,
            "minimum_cohort": self.minimum_cohort,
            "budget": self.budget.to_dict(),
            "rows": self.rows,
            "most_rows": self.most_rows,
            "memoize": self.memoize,
            "cover": self.cover,
            "size_class": self.size_class,
            "channel": self.channel,
        }
        later = {
            "distinct": None if self.distinct == 1 else self.distinct,
            "envelope": self.envelope and self.envelope.to_dict(),
            "ones": None if self.ones == 1 else self.ones,
            "grace": self.grace,
            "channel_owner": self.channel_owner,
            "permission": self.permission and self.permission.to_dict(),
            "instantaneous": self.instantaneous and dict(self.instantaneous),
            "ask": None if self.ask == "sql" else self.ask,
            "value": self.value,
            "once": self.once or None,
            "public_results": self.public_results or None,
        }
        return tree | {name: given for name, given in later.items() if given is not None}

    @classmethod
    def from_dict(cls, description: Any) -> Query:
        """The query that a tree of plain values describes. A missing key gets its default; an
        unknown one is refused.

        A tree without `instantaneous` is that of a query which has none, as all had before there
        was such a step.
        """
        given = dict(
            check_table(
                "query",
                description,
                {"format", *(field.name for field in dataclasses.fields(cls) if field.init)},
            )
        )
        if "format" in given:
            check_format(given.pop("format"), given.get("channel_owner"))
        for name in ("id", "analyst", "sql", "columns", "schedule", "proxies", "mechanism"):
            given.setdefault(name, None)
        if given["sql"] is None and given.get("ask", "sql") != "sql":
            given["sql"] = ""
        given["columns"] = read_tables("columns", given["columns"], Column, _COLUMN_KEYS)
        given["strata"] = read_tables(
            "strata", given.get("strata", []), Stratum, ("name", "sampling", "population")
        )
        given["schedule"] = Schedule(**arguments_of("schedule", given["schedule"], Schedule))
        budget = given.get("budget", {})
        if isinstance(budget, dict):
            budget = current_names("Budget", budget, warn=False)
        given["budget"] = Budget(**arguments_of("budget", budget, Budget))
        given.setdefault("instantaneous", None)
        if given.get("envelope") is not None:
            given["envelope"] = Envelope.from_dict(given["envelope"])
        if given.get("permission") is not None:
            given["permission"] = ChannelPermission.from_dict(given["permission"])
        return cls(**given)

    @classmethod
    def from_content(cls, content: bytes) -> Query:
        """The query with these canonical bytes; bytes in any other spelling are refused."""
        query = cls.from_dict(canonical.decode(content))
        if query.content != content:
            raise ParameterError(
                "query",
                "…",
                message=(
                    "the query is not in canonical form: a field is missing or written another way"
                ),
            )
        return query

    def revised(self, **changes: Any) -> Query:
        """The next version: the same query with some parameters changed and the serial one
        higher."""
        for name in ("id", "serial", "analyst"):
            if name in changes:
                raise ParameterError(name, changes[name], "cannot change in a new version")
        given = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.init
        }
        if "size_class" not in changes and {"columns", "mechanism"} & set(changes):
            changes["size_class"] = None
        if "instantaneous" not in changes and changes.get("memoize", self.memoize) != self.memoize:
            changes["instantaneous"] = "default"
        return type(self)(
            **{**given, "mechanism": self.recipe, "serial": self.serial + 1, **changes}
        )

    def __eq__(self, other: object) -> bool:
        return self.content == other.content if isinstance(other, Query) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return (
            f"<query {self.id!r}, version {self.serial}, of {self.analyst!r}: {len(self.buckets)}"
            f" buckets, {self.mechanism!r}>"
        )
