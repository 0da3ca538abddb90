"""A query: everything that is asked of a device, and everything that protects its owner, in one immutable value."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from deniable.checks import whole
from deniable.errors import DeniableError, ParameterError
from deniable.mechanisms.design import MatrixMechanism
from deniable.mechanisms.exact import check_epsilon, check_probability
from deniable.mechanisms.mechanism import Mechanism, from_dict, known_mechanisms
from deniable.mechanisms.memoized_unary import MemoizedUnary
from deniable.mechanisms.permanent import MemoizedMechanism
from deniable.mechanisms.unary import UnaryMechanism
from deniable.privacy.release_accountant import Releases, StatedLoss
from deniable.queries import canonical
from deniable.queries.bucket_index import LONGEST_TEXT
from deniable.queries.buckets import Buckets, Column
from deniable.queries.budget import Budget
from deniable.queries.envelope import COINS, Envelope
from deniable.queries.header import FORMAT, FORMAT_OWNED, QueryHeader, check_format, digest_of
from deniable.queries.permissions import ChannelPermission
from deniable.queries.schedule import Schedule
from deniable.queries.sizes import capacity, smallest_class
from deniable.queries.texts import check_text, first_repeated
from deniable.randomness import ONE

__all__ = ["DEFAULT_STEP", "Budget", "Query", "Stratum"]

DEFAULT_STEP = {"p": 0.25, "q": 0.75}
"""The instantaneous step of new memoized queries with a unary mechanism."""

LONGEST_SQL = 8_192
"""The most bytes of SQL that devices accept."""
MOST_PATTERN_STEPS = 1 << 24
"""The most steps that patterns may take for one answer: about 0.2 s of processor time."""
_ROWS = ("random", "aggregate", "several", "all")
_MOST_PROXIES = 16
_LARGEST_EPSILON = 1000.0
_LARGEST_MATRIX = 1024
"""The most buckets for a mechanism with a matrix: building one takes half a second and 50 MB."""


def _flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ParameterError(name, value, "must be true or false")


def _sampling(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ParameterError(name, value, "must be a probability above 0 and at most 1: the fraction of devices that answer")
    return float(value)


@dataclass(frozen=True)
class Stratum:
    """A part of the population that is sampled and counted separately (Quoc 2017, 3.3.1)."""

    name: str
    sampling: float | None = None
    """The sampling probability of this stratum; None for the query's."""
    population: int | None = None
    """How many people are in it, if known."""

    def __post_init__(self) -> None:
        check_text("name", self.name, 100, "the name of a stratum")
        if self.sampling is not None:
            object.__setattr__(self, "sampling", _sampling("sampling", self.sampling))
        if self.population is not None:
            object.__setattr__(self, "population", whole("population", self.population, 1, 1 << 40))


@dataclass(frozen=True, eq=False)
class Query:
    """A question to many devices, with its parameters. Changing any of them makes a new version: see :meth:`revised`.

    >>> from deniable.queries.buckets import Column
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
    """A :class:`Mechanism`. Given as `{"name": …, parameter: value, …}` without the domain, which is the buckets. `TwoCoin` with
    p and q is PrivApprox's: unary encoding with a = p + (1 - p) q and b = (1 - p) q."""
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
    """Of the rows that the SQL finds, `random` draws one per epoch, `several` sends up to `most_rows`; `aggregate` allows one.
    `all` puts the buckets of all rows into one answer, which has up to `ones` of them."""
    most_rows: int = 1
    memoize: bool = False
    """Whether a device draws a permanent answer once for each true answer, and answers from that."""
    cover: bool = False
    """Whether devices that do not answer send a message of the same length that says so."""
    size_class: int | None = None
    """How long shares are; by default as short as the report allows."""
    channel: str | None = None
    """What proxies see: queries with the same channel, schedule and size class look alike to them. By default, its own."""
    distinct: int = 1
    """With `memoize`, for how many different true answers a device may draw a permanent answer, for each row it sends. All are
    paid for when the query is first answered, whatever the data."""
    envelope: Envelope | None = None
    """What a controller may change without the analyst, if anything."""
    grace: int | None = None
    """Seconds (or a text such as "2 d") after the end of an epoch in which its answers still count. Results are then released
    early, and revised as late answers come. By default, as set by the proxies and the aggregator, with one result per window."""
    ones: int = 1
    """How many buckets one answer may be in (Quoc 2017, appendix A). For a person in more, this many are drawn."""
    channel_owner: str | None = None
    """The public key to which the named channel belongs, in hexadecimal digits; by default, the key that signs the query."""
    permission: ChannelPermission | None = None
    """The owner's permission to use the channel, if another key signs the query."""
    instantaneous: Any = "default"
    """With `memoize` and a unary mechanism, how every report randomizes the permanent bits once more: `{"p": …, "q": …}`, the
    probabilities that a permanent 0 and a permanent 1 are reported as 1. None sends permanent answers as they are, so that equal
    reports link a device's messages. By default `DEFAULT_STEP` where it applies; in a signed query without it, None."""

    recipe: Mapping[str, Any] = dataclasses.field(init=False, repr=False)
    """The mechanism as the analyst wrote it."""
    buckets: Buckets = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_header(0 if self.size_class is None else self.size_class)
        check_text("sql", self.sql, LONGEST_SQL, "the question to each device, in SQL", lines=True)
        if len(self.sql.encode()) > LONGEST_SQL:
            raise ParameterError("sql", f"{self.sql[:40]}…", f"must take at most {LONGEST_SQL} bytes")
        check_text("question", self.question, 2000, "the question in plain words", empty=True, lines=True)
        self._validate_proxies()
        if not isinstance(self.budget, Budget):
            raise ParameterError("budget", self.budget, "must be a Budget")
        self._validate_rows()
        self._validate_strata()
        buckets = Buckets(self.columns)
        recipe, mechanism = _build(self.mechanism, buckets)
        step, mechanism = _with_step(self.instantaneous, mechanism, self.memoize)
        self._set(columns=buckets.columns, buckets=buckets, mechanism=mechanism, recipe=recipe, instantaneous=step)
        self._validate_ones()
        self._validate_distinct()
        self._derive_size()
        self._validate_budget()
        if self.envelope is not None:
            self._validate_envelope(self.envelope)

    def _set(self, **derived: Any) -> None:
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def _check_header(self, size_class: int) -> None:
        parts = (self.id, self.analyst, self.serial, self.schedule, size_class, self.most_rows, self.channel)
        channel = {"channel_owner": self.channel_owner, "permission": self.permission}
        header = QueryHeader(*parts, grace=self.grace, **channel)  # type: ignore[arg-type]
        self._set(serial=header.serial, most_rows=header.most_rows, grace=header.grace)
        if self.size_class is not None:
            self._set(size_class=header.size_class)

    def _validate_proxies(self) -> None:
        given = self.proxies
        rule = f"must be a list of 2 to {_MOST_PROXIES} different names or addresses"
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ParameterError("proxies", given, rule)
        proxies = tuple(given)
        if not 2 <= len(proxies) <= _MOST_PROXIES or not all(isinstance(proxy, str) for proxy in proxies):
            raise ParameterError("proxies", list(proxies), rule)
        for i, proxy in enumerate(proxies):
            check_text(f"proxies[{i}]", proxy, 500, "the name or address of a proxy")
            if proxy in proxies[:i]:
                raise ParameterError(f"proxies[{i}]", proxy, "is repeated: a proxy with two shares could read the answer")
        self._set(proxies=proxies)

    def _validate_rows(self) -> None:
        _flag("memoize", self.memoize)
        _flag("cover", self.cover)
        if self.rows not in _ROWS:
            raise ParameterError("rows", self.rows, f"must be one of {', '.join(map(repr, _ROWS))}")
        if (self.most_rows > 1) != (self.rows == "several"):
            raise ParameterError("most_rows", self.most_rows, "must be above 1 with rows = 'several', and 1 otherwise")

    def _validate_ones(self) -> None:
        self._set(ones=whole("ones", self.ones, 1, len(self.buckets)))
        if self.ones == 1:
            rule = "needs ones above 1, the number of buckets an answer may be in"
            for i, column in enumerate(self.columns):
                if column.overlapping:
                    raise ParameterError(f"columns[{i}].overlapping", True, rule)
            if self.rows == "all":
                raise ParameterError("rows", "all", rule)
            return
        if not isinstance(self.mechanism, UnaryMechanism | MemoizedUnary):
            rule = f"must be 1 with {self.recipe['name']}: only unary reports say for each bucket whether an answer is in it"
            raise ParameterError("ones", self.ones, rule)
        if self.rows == "several":
            raise ParameterError(
                "rows", self.rows, "cannot be combined with ones above 1: use 'all', which puts all rows into one answer"
            )
        if self.epsilon > _LARGEST_EPSILON:
            rule = f"makes an answer cost {self.epsilon:.4g}, more than {_LARGEST_EPSILON:g}"
            raise ParameterError("ones", self.ones, rule)

    @property
    def pattern_steps(self) -> int:
        """How many steps it may take to find the buckets of an answer: positions of all patterns, for each of the characters that
        a text may have, for each row that is sent. Memoized and `all` queries take them for every row, up to the deadline."""
        return self.buckets.n_positions * LONGEST_TEXT * self.most_rows

    def check_patterns(self) -> None:
        """Refuse patterns that take too many steps. Devices refuse such a query, and it cannot be signed."""
        if self.pattern_steps > MOST_PATTERN_STEPS:
            most = MOST_PATTERN_STEPS // LONGEST_TEXT // self.most_rows
            rows = "" if self.most_rows == 1 else f" with most_rows = {self.most_rows}"
            rule = f"must be at most {most}{rows}: a device reads texts of up to {LONGEST_TEXT} characters with all of them"
            raise ParameterError("columns", f"{self.buckets.n_positions} characters in patterns", rule)

    def _validate_distinct(self) -> None:
        answers = len(self.buckets) + (not self.buckets.complete) if self.ones == 1 else 1 << 16
        self._set(distinct=whole("distinct", self.distinct, 1, answers))
        if self.distinct > 1 and not self.memoize:
            raise ParameterError("distinct", self.distinct, "must be 1 without memoize: it counts permanent answers")

    def _validate_budget(self) -> None:
        """Refuse a budget from which no device could ever pay."""
        budget = self.budget.epsilon
        if budget is not None and budget < self.epsilon_local:
            rule = f"must pay for at least one epoch, whose local epsilon is {self.epsilon_local:.4g}"
            raise ParameterError("budget.epsilon", budget, rule)
        if budget is not None and self.instantaneous is not None and budget < self.releases.life.epsilon:
            rule = f"must pay for the permanent answers, which cost {self.releases.life.epsilon:.4g} with the first report"
            raise ParameterError("budget.epsilon", budget, rule)

    def _validate_strata(self) -> None:
        strata = tuple(self.strata) if isinstance(self.strata, Iterable) else (self.strata,)
        if not all(isinstance(stratum, Stratum) for stratum in strata):
            raise ParameterError("strata", self.strata, "must be a list of Stratum")
        self._set(sampling=_sampling("sampling", self.sampling), strata=strata)
        self._set(minimum_cohort=whole("minimum_cohort", self.minimum_cohort, 1, 1 << 40))
        if self.population is not None:
            self._set(population=whole("population", self.population, 1, 1 << 40))
        if len(self.strata) > 1 << 16:
            raise ParameterError("strata", len(self.strata), "must number at most 65536")
        twice = first_repeated(stratum.name for stratum in self.strata)
        if twice is not None:
            raise ParameterError(f"strata[{twice}].name", self.strata[twice].name, "is repeated")

    def _derive_size(self) -> None:
        needed = smallest_class(self.report_bytes)
        size_class = needed if self.size_class is None else self.size_class
        if size_class < needed:
            held = f"has room for {capacity(size_class)} bytes, but a report takes {self.report_bytes}"
            raise ParameterError("size_class", size_class, f"{held}: it must be {needed} or above")
        self._set(size_class=size_class)

    def _validate_envelope(self, envelope: Envelope) -> None:
        """Refuse an envelope that does not contain the query's own parameters, or leaves the total open."""
        if not isinstance(envelope, Envelope):
            raise ParameterError("envelope", envelope, "must be an Envelope")
        if self.budget.epsilon is None:
            raise ParameterError("budget.epsilon", None, "must be given with an envelope: it is the ceiling on the total")
        coins = [name for name in COINS if name in self.recipe]
        for name in COINS:
            if (getattr(envelope, name) is not None) != (name in coins):
                rule = f"must be {'a range' if name in coins else 'left out'} for {self.recipe['name']}"
                raise ParameterError(f"envelope.{name}", getattr(envelope, name), rule)
        if envelope.inversion and self.recipe["name"] != "TwoCoin":
            raise ParameterError("envelope.inversion", True, "must be false for mechanisms other than TwoCoin")
        samplings = [self.sampling, *(stratum.sampling for stratum in self.strata if stratum.sampling is not None)]
        values = [("sampling", value) for value in samplings] + [(name, self.recipe[name]) for name in coins]
        for name, value in values:
            low, high = envelope.ranges()[name]
            if not low <= value <= high:
                raise ParameterError(f"envelope.{name}", [low, high], f"must contain the query's own {name} = {value:g}")
            if self.memoize and name != "sampling" and low != high:
                rule = "must be one value with memoize: other coins would draw and charge permanent answers again"
                raise ParameterError(f"envelope.{name}", [low, high], rule)
        if self.epsilon_local > envelope.epsilon_per_answer:
            rule = f"must allow the query's own local epsilon, {self.epsilon_local:.4g}"
            raise ParameterError("envelope.epsilon_per_answer", envelope.epsilon_per_answer, rule)

    # --- what it costs ----------------------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """The exact loss of one randomized row."""
        return float(self.mechanism.epsilon if self.ones == 1 else self.mechanism.answer_epsilon(self.ones))

    @property
    def epsilon_local(self) -> float:
        """The loss of one epoch against anyone who sees who answered: that of a row, for each row that may be sent."""
        return self.releases.local.epsilon

    @property
    def epsilon_charged(self) -> float:
        """What a ledger counts per row: the loss of the report or, if memoized, of the permanent answer."""
        mechanism = self.mechanism
        kept = self.memoize and isinstance(mechanism, MemoizedMechanism)
        return float(mechanism.lifetime_answer_epsilon(self.ones)) if kept else self.epsilon

    @cached_property
    def releases(self) -> Releases:
        """All that leaves the devices over the query's life, as the accountant of stated losses counts it."""
        known = self.ones == 1  # of sets of buckets only the loss is known
        permanent: Any = None
        if self.memoize:
            first = self.mechanism.first_step if isinstance(self.mechanism, MemoizedUnary) else self.mechanism
            permanent = first if known and not isinstance(first, MemoizedMechanism) else self.epsilon_charged
        report = self.mechanism if known else self.epsilon
        most = self.most_sampling
        return Releases(report, most, self.schedule.n_epochs, self.most_rows, permanent, self.distinct)

    @property
    def most_sampling(self) -> float:
        """The largest sampling probability of any stratum."""
        given = [self.sampling if stratum.sampling is None else stratum.sampling for stratum in self.strata]
        return max(given, default=self.sampling)

    @property
    def crowd(self) -> int:
        """Among how many people an answer hides, as losses are stated: the smallest stratum, or else the minimum cohort."""
        sizes = [stratum.population for stratum in self.strata] or [self.population]
        known = [size for size in sizes if size is not None]
        return min(known) if len(known) == len(sizes) else self.minimum_cohort

    @property
    def sampled_loss(self) -> StatedLoss:
        """The loss of one epoch against anyone who cannot tell which of `crowd` people answered."""
        return self.releases.sampled(self.crowd)

    @property
    def epsilon_sampled(self) -> float:
        """The epsilon of :attr:`sampled_loss`. It means nothing without the delta and the crowd that are stated there."""
        return self.sampled_loss.epsilon

    @property
    def affordable_epochs(self) -> int | None:
        """How many epochs the budget pays for, by plain addition; None if the query sets no budget."""
        return None if self.budget.epsilon is None else int(Fraction(self.budget.epsilon) / Fraction(self.epsilon_local))

    def sampling_of(self, stratum: int = 0) -> int:
        """The sampling probability of a stratum, as an integer over 2**64: what the coin is compared with."""
        chosen = self.strata[stratum].sampling if self.strata else None
        return math.floor(Fraction(self.sampling if chosen is None else chosen) * ONE)

    # --- what it looks like outside ---------------------------------------------------------------------------------

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
        parts = (self.id, self.analyst, self.serial, self.schedule, self.size_class or 0, self.most_rows, self.channel)
        return QueryHeader(*parts, digest_of(self.content), self.grace, self.channel_owner, self.permission)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the separator and the canonical bytes: identifies this exact version."""
        return self.header.digest

    @property
    def tag(self) -> int:
        """The first 64 bits of the digest, little-endian: how messages name the version they answer."""
        return int.from_bytes(self.digest[:8], "little")

    @property
    def channel_tag(self) -> int:
        """What proxies see: 64 bits derived from the channel's owner and name, schedule and size class, but not the version."""
        return self.header.channel_tag

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON values, from which :meth:`from_dict` makes this query again.

        `distinct` and `ones` are written only if they are not 1, `envelope`, `grace`, `channel_owner`, `permission` and
        `instantaneous` only if set, so that a query without them has the same bytes as before these fields existed.
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
        if self.distinct != 1:
            tree["distinct"] = self.distinct
        if self.envelope is not None:
            tree["envelope"] = self.envelope.to_dict()
        if self.ones != 1:
            tree["ones"] = self.ones
        if self.grace is not None:
            tree["grace"] = self.grace
        if self.channel_owner is not None:
            tree["channel_owner"] = self.channel_owner
        if self.permission is not None:
            tree["permission"] = self.permission.to_dict()
        if self.instantaneous is not None:
            tree["instantaneous"] = dict(self.instantaneous)
        return tree

    @classmethod
    def from_dict(cls, description: Any) -> Query:
        """The query that a tree of plain values describes. A missing key gets its default; an unknown one is refused.

        A tree without `instantaneous` is that of a query which has none, as all had before there was such a step.
        """
        given = dict(_table("query", description, {"format", *(field.name for field in dataclasses.fields(cls) if field.init)}))
        if "format" in given:
            check_format(given.pop("format"), given.get("channel_owner"))
        for name in ("id", "analyst", "sql", "columns", "schedule", "proxies", "mechanism"):
            given.setdefault(name, None)
        given["columns"] = _list("columns", given["columns"], Column, ("name", "buckets", "other", "kind", "overlapping"))
        given["strata"] = _list("strata", given.get("strata", []), Stratum, ("name", "sampling", "population"))
        given["schedule"] = Schedule(**_filled("schedule", given["schedule"], Schedule))
        given["budget"] = Budget(**_filled("budget", given.get("budget", {}), Budget))
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
            raise ParameterError("query", "these bytes", "are not in canonical form: a field is missing or written another way")
        return query

    def revised(self, **changes: Any) -> Query:
        """The next version: the same query with some parameters changed and the serial one higher."""
        for name in ("id", "serial", "analyst"):
            if name in changes:
                raise ParameterError(name, changes[name], "cannot change in a new version")
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        if "size_class" not in changes and {"columns", "mechanism"} & set(changes):
            changes["size_class"] = None
        if "instantaneous" not in changes and changes.get("memoize", self.memoize) != self.memoize:
            changes["instantaneous"] = "default"
        return type(self)(**{**given, "mechanism": self.recipe, "serial": self.serial + 1, **changes})

    def __eq__(self, other: object) -> bool:
        return self.content == other.content if isinstance(other, Query) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<query {self.id!r}, version {self.serial}, of {self.analyst!r}: {len(self.buckets)} buckets, {self.mechanism!r}>"


def _build(given: Any, buckets: Buckets) -> tuple[dict[str, Any], Mechanism]:
    """The mechanism as it was written, and as it draws."""
    if isinstance(given, MemoizedUnary):  # as a query holds it: its second step is a field of its own
        given = given.first_step
    if isinstance(given, Mechanism):
        parameters = given.to_dict()
        recipe = {"name": parameters.pop("mechanism"), **parameters}
        recipe.pop("values", None)
        _check_domain(given, repr(given), buckets)
    elif isinstance(given, Mapping) and isinstance(given.get("name"), str):
        recipe = dict(given)
    else:
        example = '{ name = "TwoCoin", p = 0.5, q = 0.5 }'
        raise ParameterError("mechanism", given, f"must give a name and parameters, such as {example}")
    if recipe["name"] == "MemoizedUnary":
        rule = "must be the first step alone; the second is the query's `instantaneous`"
        raise ParameterError("mechanism", recipe["name"], rule)
    for name in ("values", "k"):
        if name in recipe:
            raise ParameterError(f"mechanism.{name}", recipe[name], "must not be given: the domain is the query's buckets")
    _refuse_costly(recipe, len(buckets))
    mechanism = _two_coin(recipe, buckets) if recipe["name"] == "TwoCoin" else _from_library(recipe, buckets)
    _check_domain(mechanism, recipe["name"], buckets)
    if not buckets.complete and not isinstance(mechanism, UnaryMechanism):
        lacking = next(i for i, column in enumerate(buckets.columns) if not column.other)
        rule = f"must be true with {recipe['name']}, which cannot say that an answer is in no bucket"
        raise ParameterError(f"columns[{lacking}].other", False, rule)
    return recipe, mechanism


def _with_step(given: Any, first: Mechanism, memoize: bool) -> tuple[dict[str, float] | None, Mechanism]:
    """The instantaneous step as it is written, and the mechanism with it."""
    possible = memoize and isinstance(first, UnaryMechanism)
    if given is None or given is False or (given == "default" and not possible):
        return None, first
    table = dict(_table("instantaneous", DEFAULT_STEP if given == "default" else given, DEFAULT_STEP))
    if not possible:
        rule = "must be left out without memoize and a unary mechanism: it randomizes permanent bits once more"
        raise ParameterError("instantaneous", table, rule)
    for name in DEFAULT_STEP:
        check_probability(f"instantaneous.{name}", table.get(name, "nothing"))
    try:
        mechanism = MemoizedUnary(first, table["p"], table["q"])
    except ParameterError as error:
        raise ParameterError(f"instantaneous.{error.name}", error.value, error.rule) from None
    return {"p": mechanism.p, "q": mechanism.q}, mechanism


def _check_domain(mechanism: Mechanism, name: str, buckets: Buckets) -> None:
    domain = getattr(mechanism, "domain", None)  # RAPPOR's is any text
    if domain is None or len(domain) != len(buckets):
        values = "any text" if domain is None else f"one of {len(domain)} values"
        rule = f"answers {values}, and must be defined on the query's {len(buckets)} buckets"
        raise ParameterError("mechanism", name, rule)


def _refuse_costly(recipe: Mapping[str, Any], n_buckets: int) -> None:
    """Refuse what would be slow to build and unusable: a device builds the mechanism of every query it reads."""
    kind = Mechanism._registry.get(recipe["name"])
    if kind is not None and issubclass(kind, MatrixMechanism) and n_buckets > _LARGEST_MATRIX:
        rule = f"draws from a matrix, which is limited to {_LARGEST_MATRIX} buckets; this query has {n_buckets}"
        raise ParameterError("mechanism", recipe["name"], rule)
    if recipe.get("bins", n_buckets) != n_buckets:
        raise ParameterError("mechanism.bins", recipe["bins"], f"must be {n_buckets}, the number of the query's buckets")


def _two_coin(recipe: dict[str, Any], buckets: Buckets) -> Mechanism:
    _table("mechanism", recipe, {"name", "p", "q", "inverted"})
    p, q = (check_probability(f"mechanism.{name}", recipe.get(name, "nothing")) for name in ("p", "q"))
    b = (1 - p) * q
    recipe.update(p=float(recipe["p"]), q=float(recipe["q"]))
    inverted = recipe.pop("inverted", False)
    _flag("mechanism.inverted", inverted)
    if inverted:
        # "Not in this bucket" with (p, q), sent as its complement: ones in a report still mean the buckets.
        recipe["inverted"] = True
        b = (1 - p) * (1 - q)
    return _made("TwoCoin", {"mechanism": "UnaryEncoding", "values": list(buckets.labels), "a": float(p + b), "b": float(b)})


def _from_library(recipe: dict[str, Any], buckets: Buckets) -> Mechanism:
    parameters = {name: value for name, value in recipe.items() if name != "name"}
    known = known_mechanisms().get(recipe["name"])
    if "values" in getattr(known, "__dataclass_fields__", {}):
        parameters["values"] = list(buckets.labels)
    if "epsilon" in parameters:
        parameters["epsilon"] = recipe["epsilon"] = check_epsilon(parameters["epsilon"], "mechanism.epsilon")
    return _made(recipe["name"], {"mechanism": recipe["name"], **parameters})


def _made(name: str, description: dict[str, Any]) -> Mechanism:
    try:
        return from_dict(description)
    except DeniableError as error:
        raise ParameterError("mechanism", name, f"cannot be made: {error}") from None


def _table(name: str, given: Any, known: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ParameterError(name, given, f"must be a table with the keys {', '.join(sorted(known))}")
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(sorted(known))}"
            raise ParameterError(key if name == "query" else f"{name}.{key}", given[key], f"is not a known key: {hint}")
    return given


def _filled(name: str, given: Any, kind: type) -> dict[str, Any]:
    """The arguments of a dataclass, with None for required ones that are missing."""
    fields = [field for field in dataclasses.fields(kind) if field.init]
    table = dict(_table(name, given, [field.name for field in fields]))
    return {**{field.name: None for field in fields if field.default is dataclasses.MISSING}, **table}


def _list(name: str, given: Any, kind: type, keys: Iterable[str]) -> list[Any]:
    if not isinstance(given, list):
        raise ParameterError(name, given, f"must be a list of tables, [[{name}]], with the keys {', '.join(keys)}")
    out = []
    for i, part in enumerate(given):
        table = {"name": None, **_table(f"{name}[{i}]", part, keys)}
        if kind is Column:
            table.setdefault("buckets", None)
        try:
            out.append(kind(**table))
        except ParameterError as error:
            raise ParameterError(f"{name}[{i}].{error.name}", error.value, error.rule) from None
    return out
