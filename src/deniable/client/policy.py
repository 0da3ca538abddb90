"""The owner's settings: who may ask, through whom, and how much any answer and all answers together
may cost.

Anything not named is refused: an analyst's key, and every proxy. The proxies matter as much as the
analyst, because a query names them, and an analyst who runs all of them could combine a person's
shares.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.checks import whole
from deniable.client.encoding import cost_of_answer
from deniable.client.sandbox.interface import LONGEST_DEADLINE, SMALLEST_MEMORY
from deniable.errors import ParameterError, PolicyError
from deniable.privacy.ledger import Limit
from deniable.queries.header import USUAL_QUEUE_AGE
from deniable.queries.query import Query
from deniable.queries.schedule import duration, spoken_duration
from deniable.queries.signed.key_ring import KeyRing
from deniable.toml_file import TomlFile

__all__ = ["DEFAULT_CEILING", "DEFAULT_LIMITS", "Policy", "read_policy", "refuse_analyst"]

_DAY = 86_400
_SPARE = 6
DEFAULT_CEILING = 3.0
"""The most that one answer may cost."""
DEFAULT_LIMITS = (Limit(10, period=30 * _DAY, each_analyst=True), Limit(30, period=30 * _DAY))


@dataclass(frozen=True)
class Policy:
    """What one person allows. The defaults are cautious; anyone who wants to give more must say so.

    >>> print(Policy(KeyRing(), {"https://one.example": "token"}))
    0 keys are trusted. Shares may go to https://one.example.
    One answer may cost at most 3. All answers together: at most 10 in any 30 days for each analyst, at most 30 in any 30 days.
    Up to 1,000 messages are queued for their proxies, for up to 2 w. They are sent within 10 min of the answer.
    """

    ring: KeyRing
    proxies: Mapping[str, str] = field(repr=False)
    """The proxies that may receive shares, and this device's token for each."""
    analysts: tuple[str, ...] | None = None
    """Who may ask, among those with a key on the ring; None means all of them."""
    refused: tuple[str, ...] = ()
    """Who may not ask, regardless of everything else."""
    epsilon_per_answer: Any = DEFAULT_CEILING
    """The most that one epoch's answer to one query may cost or, for memoized answers, all of its
    answers."""
    limits: tuple[Limit, ...] = DEFAULT_LIMITS
    strata: tuple[str, ...] = ()
    """The strata this person belongs to, by the names that queries use."""
    queue_messages: int = 1_000
    queue_age: int = USUAL_QUEUE_AGE
    """How many seconds after the end of its epoch a share is kept."""
    upload_within: int = 600
    """Seconds over which uploads are spread, from the end of the slot in which the answer is made.
    With 0 there is neither spread nor slot: uploads happen at once, and their time reveals how long
    the SQL took. This is for simulations."""
    clock_tolerance: int = 300
    """The most seconds by which this device's clock may differ from the closest of the proxies'
    clocks; beyond that, nothing is decided."""
    deadline: float = 1.0
    max_rows: int = 10_000
    max_memory: int = 32 << 20

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        if not isinstance(self.ring, KeyRing):
            raise ParameterError("ring", type(self.ring).__name__, "must be a KeyRing")
        put("proxies", dict(self.proxies))
        put("limits", tuple(self.limits))
        put("strata", _names("strata", self.strata))
        if self.analysts is not None:
            put("analysts", _names("analysts", self.analysts))
        put("refused", _names("refused", self.refused))
        try:
            Limit(self.epsilon_per_answer)
        except ParameterError as error:
            raise error.named("epsilon_per_answer") from None
        whole("queue_messages", self.queue_messages, 1, 1 << 24)
        put("queue_age", duration("queue_age", self.queue_age))
        put("clock_tolerance", duration("clock_tolerance", self.clock_tolerance))
        if self.upload_within != 0:
            put("upload_within", duration("upload_within", self.upload_within))
        if (
            isinstance(self.deadline, bool)
            or not isinstance(self.deadline, int | float)
            or not 0 < self.deadline <= LONGEST_DEADLINE
        ):
            raise ParameterError(
                "deadline", self.deadline, f"must be a number of seconds up to {LONGEST_DEADLINE:g}"
            )
        whole("max_rows", self.max_rows, 1, 1 << 24)
        whole("max_memory", self.max_memory, SMALLEST_MEMORY, 1 << 40)

    @property
    def slot(self) -> int:
        """Seconds reserved for one answer, however long it takes: nothing that follows from it
        happens earlier.

        Reading what is granted, compiling the SQL, and answering (SQL, choosing rows, finding their
        buckets) take up to `deadline` and two seconds each: for starting processes, for copying the
        vault, and for a machine that is busy.
        """
        return math.ceil(3 * self.deadline) + _SPARE if self.upload_within else 0

    def keeps(self, query: Query) -> int:
        """How many seconds after the end of its epoch a share is kept: at most as long as the query
        accepts late answers."""
        return self.queue_age if query.grace is None else min(self.queue_age, query.grace)

    def check(self, query: Query) -> tuple[str, str] | None:
        """Why a query with a valid signature is refused, in a word or two and in a sentence; None
        if it is not."""
        if query.analyst in self.refused:
            return "analyst refused", f"you have refused {query.analyst}"
        if self.analysts is not None and query.analyst not in self.analysts:
            return "analyst not allowed", f"{query.analyst} is not among those you allow to ask"
        for proxy in query.proxies:
            if proxy not in self.proxies:
                return (
                    "proxy not allowed",
                    f"it would send a share to {proxy}, which is not among the proxies you allow",
                )
        if query.strata and self.stratum(query) is None:
            return (
                "not in a stratum",
                "you have not said that you belong to any of the parts of the population it asks",
            )
        cost, ceiling = cost_of_answer(query), Limit(self.epsilon_per_answer).epsilon
        if cost > ceiling:
            return (
                "over the ceiling",
                (
                    f"an answer would cost {_short(cost)}, but your ceiling for one answer is"
                    f" {_short(ceiling)}"
                ),
            )
        return None

    def stratum(self, query: Query) -> int | None:
        """The number of the first of the query's strata that this person belongs to; 0 where it has
        none."""
        if not query.strata:
            return 0
        return next(
            (i for i, stratum in enumerate(query.strata) if stratum.name in self.strata), None
        )

    def __str__(self) -> str:
        who = (
            f"{len(self.ring)} key{'' if len(self.ring) == 1 else 's'}"
            f" {'is' if len(self.ring) == 1 else 'are'} trusted"
        )
        if self.analysts is not None:
            who += f"; only {', '.join(self.analysts) or 'nobody'} may ask"
        if self.refused:
            who += f"; {', '.join(self.refused)} may not ask"
        limits = ", ".join(map(str, self.limits)) or "no limit"
        sent = (
            f"within {spoken_duration(self.upload_within)} of the answer"
            if self.upload_within
            else "at once, and the time reveals how long the SQL took"
        )
        return (
            f"{who}. Shares may go to {', '.join(self.proxies) or 'nobody'}.\nOne answer may cost"
            f" at most {_short(Limit(self.epsilon_per_answer).epsilon)}. All answers together:"
            f" {limits}.\nUp to {self.queue_messages:,} messages are queued for their proxies, for"
            f" up to {spoken_duration(self.queue_age)}. They are sent {sent}."
        )


def _short(epsilon: Fraction) -> str:
    return f"{float(epsilon):.6g}"


def _names(name: str, given: Any) -> tuple[str, ...]:
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or not all(isinstance(each, str) for each in given)
    ):
        raise ParameterError(name, given, "must be a list of names")
    return tuple(given)


# --- as a file

_SETTINGS = {each.name for each in fields(Policy)} - {"ring", "proxies", "limits"}


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """The settings in a TOML file, which contains this device's tokens and so must be private to
    its owner (mode 0600)."""
    path = Path(path)
    file = TomlFile.read(path, PolicyError)
    mode = path.stat().st_mode
    if os.name == "posix" and mode & 0o077:
        raise PolicyError(
            "file",
            str(path),
            f"has mode {mode & 0o777:04o}: others can read your tokens; set 0600",
            path.name,
        )
    return file.made(lambda tree: _from_tree(tree, path.parent))


def _from_tree(tree: dict[str, Any], folder: Path) -> Policy:
    for name, value in tree.items():
        if name not in _SETTINGS | {"ring", "proxies", "limits"}:
            raise ParameterError(
                name,
                value,
                f"is not a setting; these are: {', '.join(sorted(_SETTINGS))}, ring, proxies,"
                " limits",
            )
    if not isinstance(tree.get("ring"), str):
        raise ParameterError("ring", tree.get("ring"), "must be the file of the keys you trust")
    given = {name: value for name, value in tree.items() if name in _SETTINGS}
    if "limits" in tree:
        given["limits"] = tuple(
            _limit(f"limits[{i}]", table)
            for i, table in enumerate(_tables("limits", tree["limits"]))
        )
    proxies = {}
    for i, table in enumerate(_tables("proxies", tree.get("proxies"))):
        if set(table) != {"address", "token"} or not all(
            isinstance(value, str) and value for value in table.values()
        ):
            # no token here
            raise ParameterError(
                f"proxies[{i}]", sorted(table), "must have an address and a token, both texts"
            )
        proxies[table["address"]] = table["token"]
    return Policy(ring=KeyRing.load(folder / tree["ring"]), proxies=proxies, **given)


def _tables(name: str, given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise ParameterError(name, type(given).__name__, f"must be a list of tables, [[{name}]]")
    return given


def _limit(name: str, table: dict[str, Any]) -> Limit:
    if unknown := set(table) - {"epsilon", "period", "analyst", "each_analyst"}:
        raise ParameterError(
            f"{name}.{min(unknown)}", table[min(unknown)], "is not part of a limit"
        )
    if "epsilon" not in table:
        raise ParameterError(f"{name}.epsilon", None, "must be given")
    given = dict(table)
    if "period" in given:
        given["period"] = duration(f"{name}.period", given["period"])
    try:
        return Limit(**given)
    except ParameterError as error:
        raise error.named(f"{name}.{error.name}") from None


def refuse_analyst(path: str | os.PathLike[str], analyst: str, refused: bool = True) -> Policy:
    """Record in the owner's file that an analyst may not ask, or may again; everything else,
    comments included, is unchanged."""
    path = Path(path)
    before = read_policy(path)
    names = tuple(name for name in before.refused if name != analyst) + (
        (analyst,) if refused else ()
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    tables = next((i for i, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    kept = [
        line for i, line in enumerate(lines) if i >= tables or not re.match(r"\s*refused\s*=", line)
    ]
    if names:
        place = tables - (len(lines) - len(kept))
        kept.insert(place, f"refused = {json.dumps(list(names), ensure_ascii=False)}")
    fresh = path.with_name(f".{path.name}.new")
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write("\n".join(kept) + "\n")
    try:
        after = read_policy(fresh)  # an unreadable file never replaces a readable one
    except PolicyError:
        fresh.unlink()
        raise
    fresh.replace(path)
    return after
