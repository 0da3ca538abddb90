"""Globs and regular expressions against Python's own: pattern, texts, one a line. First byte `g`: a
glob."""

from __future__ import annotations

import re

from deniable.queries.columns.patterns import compile_pattern, first_overlap

WEIGHT, LONGEST = 4, 80
DICTIONARY = [
    b"[a-z]",
    b"[^a]",
    b"[!a]",
    b"\\d",
    b"\\W",
    b"{2,3}",
    b"(?:",
    b"|",
    b")*",
    b"+",
    b"\\]",
    b"[]]",
    b".",
    b"\n",
    b"?",
    b"{,2}",
]


def seeds() -> list[bytes]:
    return [
        *(b"gNew *\nNew York\nOld", b"g[!a-c]?\nxy\nax", b"g*a*b*\nab\nxaybz", b"g[]]\n]"),
        *(
            b"r(a|b)*c{2,3}\nabcc\ncccc",
            b"r[^\\d\\s]+\\.x?\nab.\n1.",
            b"r(?:ab?){0,2}\na\nabab\naaa",
            b"r\\w{3}|\\W\nabc\n-",
            b"r\n",
        ),
    ]


def check(data: bytes) -> None:
    pattern, *texts = data[1:].decode("utf-8", "replace").split("\n")[:4]
    kind = "glob" if data[:1] == b"g" else "regex"
    automaton = compile_pattern(kind, pattern)
    reference = re.compile(
        _translated(pattern) if kind == "glob" else pattern,
        re.ASCII | (re.DOTALL if kind == "glob" else 0),
    )
    for text in [*texts, "", pattern]:
        if len(text) <= 12:  # Python's may take exponential time
            assert automaton.matches(text) == (reference.fullmatch(text) is not None), text
    other = compile_pattern("glob", "*a*")
    found = first_overlap([automaton, other])
    if found:
        assert automaton.matches(found[2])
        assert "a" in found[2]
    else:
        assert not any("a" in text and automaton.matches(text) for text in texts)


def _translated(glob: str) -> str:
    out, at = "", 0
    while at < len(glob):
        character = glob[at]
        at += 1
        if character == "[":
            end = at + (glob[at] == "!")
            end = glob.index("]", end + 1)  # one that comes first stands for itself
            inside = glob[at:end]
            negated = inside.startswith("!")
            members = (
                inside[negated:]
                .replace("\\", "\\\\")
                .replace("[", "\\[")
                .replace("]", "\\]")
                .replace("^", "\\^")
            )
            members = members.replace("&", "\\&").replace("~", "\\~").replace("|", "\\|")
            out += f"[{'^' if negated else ''}{members}]"
            at = end + 1
        else:
            out += {"*": ".*", "?": "."}.get(character, re.escape(character))
    return out
