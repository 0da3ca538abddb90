"""Text patterns that cannot explode: globs and a regular subset of regular expressions, matched in linear time.

A pattern becomes Glushkov's position automaton: one state for each character the pattern can take, a bit mask of the states
that may follow each, and a set of states stored as one integer. Reading a character is one step of that set, so the time is at
most (length of the text) x (positions of the pattern) for any pattern; `bucket_index.py` does the reading. Whether two patterns
can match the same text is decided exactly, by a search through pairs of positions, and shown by such a text.

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
from deniable.queries.bucket_index import Matcher, PlainPattern

__all__ = ["MOST_POSITIONS", "Automaton", "compile_pattern", "first_overlap"]

MOST_POSITIONS = 400
"""How many characters a pattern may have once its counted repetitions are written out."""
_MOST_DEPTH = 40
_MOST_WORK = 1_000_000
"""The most steps of the search for overlaps: well under a second for any patterns."""
_LAST_CHARACTER = 0x10FFFF

_Ranges = tuple[tuple[int, int], ...]
_Fragment = tuple[bool, int, int]  # can it be empty; the positions it may start with; those it may end with

_DIGIT: _Ranges = ((48, 57),)
_WORD: _Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: _Ranges = ((9, 13), (32, 32))
_ANY: _Ranges = ((0, _LAST_CHARACTER),)


def _negated(ranges: _Ranges) -> _Ranges:
    out, start = [], 0
    for low, high in ranges:
        if low > start:
            out.append((start, low - 1))
        start = high + 1
    if start <= _LAST_CHARACTER:
        out.append((start, _LAST_CHARACTER))
    return tuple(out)


def _united(ranges: list[tuple[int, int]]) -> _Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


_ESCAPES: dict[str, _Ranges] = {
    "d": _DIGIT,
    "w": _WORD,
    "s": _SPACE,
    "D": _negated(_DIGIT),
    "W": _negated(_WORD),
    "S": _negated(_SPACE),
    "n": ((10, 10),),
    "t": ((9, 9),),
}


@dataclass(frozen=True)
class _Set:
    ranges: _Ranges


@dataclass(frozen=True)
class _Join:
    """Parts in sequence or (`either`) alternatives."""

    parts: tuple[_Node, ...]
    either: bool = False


@dataclass(frozen=True)
class _Repeat:
    part: _Node
    least: int
    most: int | None


_Node = _Set | _Join | _Repeat


class _Parser:
    """Reads one pattern. Every error says what is where, and what would be accepted."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def refuse(self, rule: str) -> ParameterError:
        return ParameterError("pattern", self.text, f"{rule} (at character {self.at + 1})")

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        character = self.peek()
        if not character:
            raise self.refuse("ends too early")
        self.at += 1
        return character

    def glob(self) -> _Node:
        parts: list[_Node] = []
        while self.peek():
            character = self.take()
            if character == "*":
                parts.append(_Repeat(_Set(_ANY), 0, None))
            elif character == "?":
                parts.append(_Set(_ANY))
            elif character == "[":
                parts.append(self.character_class("!"))
            else:
                parts.append(_literal(character))
        return _Join(tuple(parts))

    def regex(self) -> _Node:
        node = self.alternatives()
        if self.peek():
            raise self.refuse("closes a group that was not opened")
        return node

    def alternatives(self) -> _Node:
        branches = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else _Join(tuple(branches), either=True)

    def sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated(self.atom()))
        return _Join(tuple(parts))

    def atom(self) -> _Node:
        character = self.take()
        if character == "(":
            return self.group()
        if character == "[":
            return self.character_class("^")
        if character == ".":
            return _Set(_negated(((10, 10),)))
        if character == "\\":
            return _Set(self.escape())
        if character in "*+?{":
            self.at -= 1
            raise self.refuse(f"has nothing before {character!r} to repeat")
        if character in "^$":
            self.at -= 1
            raise self.refuse(f"needs no {character!r}: a pattern always matches the whole text")
        if character in "]}":
            self.at -= 1
            raise self.refuse(f"must write a literal {character!r} as '\\{character}'")
        return _literal(character)

    def group(self) -> _Node:
        if self.text.startswith("?:", self.at):
            self.at += 2
        elif self.peek() == "?":
            raise self.refuse("must not look around, name groups or set flags: only (...) and (?:...) are supported")
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.refuse(f"nests groups more than {_MOST_DEPTH} deep")
        node = self.alternatives()
        if self.peek() != ")":
            raise self.refuse("leaves a group open")
        self.at += 1
        self.depth -= 1
        return node

    def repeated(self, node: _Node) -> _Node:
        character = self.peek()
        if character not in ("*", "+", "?", "{"):
            return node
        self.at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character) or self.counts()
        if self.peek() in ("*", "+", "?", "{") and self.peek():
            raise self.refuse("repeats a repetition: put it in a group")
        return _Repeat(node, least, most)

    def counts(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : max(end, self.at)].partition(",")
        if end < 0 or not _is_count(low) or (high and not _is_count(high)):
            raise self.refuse("must count as {m}, {m,} or {m,n}")
        self.at = end + 1
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if most is not None and most < least:
            raise self.refuse("counts down")
        return least, most

    def escape(self) -> _Ranges:
        character = self.take()
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character.isalnum():
            raise self.refuse(
                f"uses \\{character}, but only \\d \\w \\s \\D \\W \\S \\n \\t and escaped punctuation are supported"
            )
        return ((ord(character), ord(character)),)

    def character_class(self, negation: str) -> _Set:
        inverted = self.peek() == negation
        self.at += inverted
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self.peek() != "]":
            first = False
            low = self.class_member(negation)
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.class_member(negation)
                if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1]:
                    raise self.refuse("has a range whose ends are not single characters")
                if high[0][0] < low[0][0]:
                    raise self.refuse("has a range that runs backwards")
                ranges.append((low[0][0], high[0][0]))
            else:
                ranges.extend(low)
        self.at += 1
        found = _united(ranges)
        return _Set(_negated(found) if inverted else found)

    def class_member(self, negation: str) -> _Ranges:
        character = self.take()
        if character == "\\" and negation == "^":  # in a glob a backslash is a character like any other
            return self.escape()
        return ((ord(character), ord(character)),)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _literal(character: str) -> _Set:
    return _Set(((ord(character), ord(character)),))


@dataclass
class Automaton:
    """One pattern, ready to read texts."""

    text: str
    ranges: list[_Ranges] = field(default_factory=list)
    """For each position, the characters it matches."""
    follow: list[int] = field(default_factory=list)
    """For each position, the mask of positions that may come next."""
    start: int = 0
    end: int = 0
    empty: bool = False
    _matcher: Matcher | None = field(default=None, repr=False)

    def build(self, node: _Node) -> _Fragment:
        """Add the node's positions; the fragment says how it joins its neighbours."""
        if isinstance(node, _Set):
            if len(self.ranges) == MOST_POSITIONS:
                raise ParameterError("pattern", self.text, f"is longer than {MOST_POSITIONS} characters once written out")
            self.ranges.append(node.ranges)
            self.follow.append(0)
            mask = 1 << (len(self.ranges) - 1)
            return False, mask, mask
        if isinstance(node, _Repeat):
            return self._build_repeat(node)
        fragments = [self.build(part) for part in node.parts]
        if node.either:
            return (any(f[0] for f in fragments), _union(f[1] for f in fragments), _union(f[2] for f in fragments))
        return self._chain(fragments)

    def _build_repeat(self, node: _Repeat) -> _Fragment:
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
    parser = _Parser(text)
    automaton = Automaton(text)
    automaton.empty, automaton.start, automaton.end = automaton.build(parser.glob() if kind == "glob" else parser.regex())
    return automaton


def first_overlap(automata: Sequence[Automaton]) -> tuple[int, int, str] | None:
    """The first two patterns that can match the same text, and a shortest such text; None if there are none.

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
    """A shortest text that both match, by a breadth-first search through pairs of positions; and the steps it took."""
    if one.empty and other.empty:
        return "", 0
    meeting = [_union(1 << j for j, b in enumerate(other.ranges) if _shared_character(a, b)) for a in one.ranges]
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
            raise ParameterError("pattern", one.text, f"is too complicated to compare with {other.text!r}: simplify them")
    return None, work


def _spell(
    one: Automaton, other: Automaton, came_from: dict[tuple[int, int], tuple[int, int] | None], place: tuple[int, int] | None
) -> str:
    text = ""
    while place is not None:
        text = (_shared_character(one.ranges[place[0]], other.ranges[place[1]]) or "") + text
        place = came_from[place]
    return text


def _shared_character(one: _Ranges, other: _Ranges) -> str | None:
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
