"""The grammar of patterns: globs and a regular subset of regular expressions, read into a tree."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.errors import ParameterError

__all__ = ["CharacterSet", "Join", "Node", "PatternParser", "Ranges", "Repeat"]


_MOST_DEPTH = 40
_LAST_CHARACTER = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]

_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32))
_ANY: Ranges = ((0, _LAST_CHARACTER),)


def _negated(ranges: Ranges) -> Ranges:
    out, start = [], 0
    for low, high in ranges:
        if low > start:
            out.append((start, low - 1))
        start = high + 1
    if start <= _LAST_CHARACTER:
        out.append((start, _LAST_CHARACTER))
    return tuple(out)


def _united(ranges: list[tuple[int, int]]) -> Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


_ESCAPES: dict[str, Ranges] = {
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
class CharacterSet:
    """One character out of some ranges."""

    ranges: Ranges


@dataclass(frozen=True)
class Join:
    """Parts in sequence or (`either`) alternatives."""

    parts: tuple[Node, ...]
    either: bool = False


@dataclass(frozen=True)
class Repeat:
    """A part that is repeated, `most` times or without bound."""

    part: Node
    least: int
    most: int | None


Node = CharacterSet | Join | Repeat


class PatternParser:
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

    def glob(self) -> Node:
        parts: list[Node] = []
        while self.peek():
            character = self.take()
            if character == "*":
                parts.append(Repeat(CharacterSet(_ANY), 0, None))
            elif character == "?":
                parts.append(CharacterSet(_ANY))
            elif character == "[":
                parts.append(self.character_class("!"))
            else:
                parts.append(_literal(character))
        return Join(tuple(parts))

    def regex(self) -> Node:
        node = self.alternatives()
        if self.peek():
            raise self.refuse("closes a group that was not opened")
        return node

    def alternatives(self) -> Node:
        branches = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else Join(tuple(branches), either=True)

    def sequence(self) -> Node:
        parts: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated(self.atom()))
        return Join(tuple(parts))

    def atom(self) -> Node:
        character = self.take()
        if character == "(":
            return self.group()
        if character == "[":
            return self.character_class("^")
        if character == ".":
            return CharacterSet(_negated(((10, 10),)))
        if character == "\\":
            return CharacterSet(self.escape())
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

    def group(self) -> Node:
        if self.text.startswith("?:", self.at):
            self.at += 2
        elif self.peek() == "?":
            raise self.refuse(
                "must not look around, name groups or set flags: only (...) and (?:...) are"
                " supported"
            )
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.refuse(f"nests groups more than {_MOST_DEPTH} deep")
        node = self.alternatives()
        if self.peek() != ")":
            raise self.refuse("leaves a group open")
        self.at += 1
        self.depth -= 1
        return node

    def repeated(self, node: Node) -> Node:
        character = self.peek()
        if character not in ("*", "+", "?", "{"):
            return node
        self.at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(character) or self.counts()
        if self.peek() in ("*", "+", "?", "{") and self.peek():
            raise self.refuse("repeats a repetition: put it in a group")
        return Repeat(node, least, most)

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

    def escape(self) -> Ranges:
        character = self.take()
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character.isalnum():
            raise self.refuse(
                f"uses \\{character}, but only \\d \\w \\s \\D \\W \\S \\n \\t and escaped"
                " punctuation are supported"
            )
        return ((ord(character), ord(character)),)

    def character_class(self, negation: str) -> CharacterSet:
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
                if (
                    len(low) != 1
                    or len(high) != 1
                    or low[0][0] != low[0][1]
                    or high[0][0] != high[0][1]
                ):
                    raise self.refuse("has a range whose ends are not single characters")
                if high[0][0] < low[0][0]:
                    raise self.refuse("has a range that runs backwards")
                ranges.append((low[0][0], high[0][0]))
            else:
                ranges.extend(low)
        self.at += 1
        found = _united(ranges)
        return CharacterSet(_negated(found) if inverted else found)

    def class_member(self, negation: str) -> Ranges:
        character = self.take()
        # in a glob a backslash is a character like any other
        if character == "\\" and negation == "^":
            return self.escape()
        return ((ord(character), ord(character)),)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _literal(character: str) -> CharacterSet:
    return CharacterSet(((ord(character), ord(character)),))
