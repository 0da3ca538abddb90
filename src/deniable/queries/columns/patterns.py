"""Text patterns that cannot explode: globs and a regular subset of regular expressions, matched in
linear time.

A pattern becomes Glushkov's position automaton: one state for each character the pattern can take,
a bit mask of the states that may follow each, and a set of states stored as one integer. Reading a
character is one step of that set, so the time is at most (length of the text) x (positions of the
pattern) for any pattern; `bucket_index.py` does the reading. Whether two patterns can match the
same text is decided exactly, by a search through pairs of positions, and shown by such a text.

Glushkov, "The abstract theory of automata", Russian Mathematical Surveys 16, 1961.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Literal

from deniable.errors import ParameterError
from deniable.queries.columns.bucket_index import Matcher, PlainPattern
from deniable.queries.columns.pattern_parser import (
    CharacterSet,
    Node,
    PatternParser,
    Ranges,
    Repeat,
)

__all__ = ["MOST_POSITIONS", "Automaton", "compile_pattern", "first_overlap"]

MOST_POSITIONS = 400
"""How many characters a pattern may have once its counted repetitions are written out."""
_MOST_WORK = 1_000_000
"""The most steps of the search for overlaps: well under a second for any patterns."""
# can it be empty; the positions it may start with; those it may end with
_Fragment = tuple[bool, int, int]


@dataclass
class Automaton:
    """One pattern, ready to read texts."""

    text: str
    ranges: list[Ranges] = field(default_factory=list)
    """For each position, the characters it matches."""
    follow: list[int] = field(default_factory=list)
    """For each position, the mask of positions that may come next."""
    start: int = 0
    end: int = 0
    empty: bool = False
    _matcher: Matcher | None = field(default=None, repr=False)

    def build(self, node: Node) -> _Fragment:
        """Add the node's positions; the fragment says how it joins its neighbours."""
        if isinstance(node, CharacterSet):
            if len(self.ranges) == MOST_POSITIONS:
                raise ParameterError(
                    "pattern",
                    self.text,
                    f"is longer than {MOST_POSITIONS} characters once written out",
                )
            self.ranges.append(node.ranges)
            self.follow.append(0)
            mask = 1 << (len(self.ranges) - 1)
            return False, mask, mask
        if isinstance(node, Repeat):
            return self._build_repeat(node)
        fragments = [self.build(part) for part in node.parts]
        if node.either:
            return (
                any(f[0] for f in fragments),
                _union(f[1] for f in fragments),
                _union(f[2] for f in fragments),
            )
        return self._chain(fragments)

    def _build_repeat(self, node: Repeat) -> _Fragment:
        fragments: list[_Fragment] = []
        for copy in range(max(node.least, 1) if node.most is None else node.most):
            empty, first, last = self.build(node.part)
            fragments.append((empty or copy >= node.least, first, last))
            if not first:  # an empty part stays empty however often it is repeated
                break
        if node.most is None:
            _, first, last = fragments[-1]
            self._link(last, first)
        return self._chain(fragments)

    def _chain(self, fragments: list[_Fragment]) -> _Fragment:
        empty, first, last = True, 0, 0
        for fragment_empty, fragment_first, fragment_last in fragments:
            self._link(last, fragment_first)
            first |= fragment_first if empty else 0
            last = fragment_last | (last if fragment_empty else 0)
            empty = empty and fragment_empty
        return empty, first, last

    def _link(self, last: int, first: int) -> None:
        for position in _bits(last):
            self.follow[position] |= first

    @property
    def plain(self) -> PlainPattern:
        """What a :class:`Matcher` is made from, in any process."""
        return tuple(self.ranges), tuple(self.follow), self.start, self.end, self.empty

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        if self._matcher is None:
            self._matcher = Matcher(self.plain)
        return self._matcher.matches(text)


def _union(masks: Iterable[int]) -> int:
    out = 0
    for mask in masks:
        out |= mask
    return out


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@lru_cache(maxsize=4096)
def compile_pattern(kind: Literal["glob", "regex"], text: str) -> Automaton:
    """The automaton of a glob or a regular expression.

    >>> compile_pattern("glob", "New *").matches("New York")
    True
    >>> compile_pattern("regex", "(a+)+b").matches("a" * 4000)
    False
    """
    parser = PatternParser(text)
    automaton = Automaton(text)
    automaton.empty, automaton.start, automaton.end = automaton.build(
        parser.glob() if kind == "glob" else parser.regex()
    )
    return automaton


def first_overlap(automata: Sequence[Automaton]) -> tuple[int, int, str] | None:
    """The first two patterns that can match the same text, and a shortest such text; None if there
    are none.

    >>> first_overlap([compile_pattern("glob", "a*"), compile_pattern("glob", "b*"), compile_pattern("regex", ".*y")])
    (0, 2, 'ay')
    """
    allowed = _MOST_WORK
    for (i, one), (j, other) in combinations(enumerate(automata), 2):
        text, work = _common_text(one, other, allowed)
        if text is not None:
            return i, j, text
        allowed -= work
    return None


def _common_text(one: Automaton, other: Automaton, allowed: int) -> tuple[str | None, int]:
    """A shortest text that both match, by a breadth-first search through pairs of positions; and
    the steps it took."""
    if one.empty and other.empty:
        return "", 0
    meeting = [
        _union(1 << j for j, b in enumerate(other.ranges) if _shared_character(a, b))
        for a in one.ranges
    ]
    fresh = list(meeting)  # for each position of one, those of the other it has not been seen with
    came_from: dict[tuple[int, int], tuple[int, int] | None] = {}
    queue: deque[tuple[tuple[int, int] | None, int, int]] = deque([(None, one.start, other.start)])
    work = len(one.ranges) * len(other.ranges)
    while queue:
        source, left, right = queue.popleft()
        for i in _bits(left):
            work += 1
            found = right & fresh[i]
            fresh[i] &= ~found
            for j in _bits(found):
                came_from[i, j] = source
                if one.end >> i & 1 and other.end >> j & 1:
                    return _spell(one, other, came_from, (i, j)), work
                queue.append(((i, j), one.follow[i], other.follow[j]))
        if work > allowed:
            raise ParameterError(
                "pattern",
                one.text,
                f"is too complicated to compare with {other.text!r}: simplify them",
            )
    return None, work


def _spell(
    one: Automaton,
    other: Automaton,
    came_from: dict[tuple[int, int], tuple[int, int] | None],
    place: tuple[int, int] | None,
) -> str:
    text = ""
    while place is not None:
        text = (_shared_character(one.ranges[place[0]], other.ranges[place[1]]) or "") + text
        place = came_from[place]
    return text


def _shared_character(one: Ranges, other: Ranges) -> str | None:
    """A character in both sets, a readable one if possible."""
    spans = [(max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) <= min(b, d)]
    for low, high in spans:
        for wanted in (97, 48, 65, 33):  # a, 0, A, !
            if max(low, wanted) <= min(high, 126):
                return chr(max(low, wanted))
    for low, high in spans:
        if not (low >= 0xD800 and high <= 0xDFFF):  # half a surrogate pair is not text
            return chr(0xE000 if 0xD800 <= low <= 0xDFFF else low)
    return None
