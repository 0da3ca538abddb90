"""Server-sent events: what is written is read back, and nobody else writes or parses them."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

import deniable
from deniable.service.http import event_stream
from deniable.service.http.event_stream import (
    RETRY,
    SIGN_OF_LIFE,
    Event,
    StreamPace,
    event_number,
    event_text,
    parse_events,
)


def lines_of(content: bytes) -> list[str]:
    return content.decode().splitlines()


def test_what_is_written_is_read_back() -> None:
    written = [
        RETRY,
        event_text("window", '{"index": 1}', 7),
        SIGN_OF_LIFE,
        event_text("health", '{"status": "ok"}'),
        event_text("window", '{"note": "a: b, event: c"}', 9),
    ]
    assert list(parse_events(lines_of(b"".join(written)))) == [
        Event("window", '{"index": 1}', 7),
        Event("health", '{"status": "ok"}', 7),
        Event("window", '{"note": "a: b, event: c"}', 9),
    ]


@pytest.mark.parametrize("kept", range(1, 40))
def test_an_event_that_was_cut_off_is_not_returned(kept: int) -> None:
    whole = event_text("window", '{"index": 1}', 7)
    cut = event_text("window", '{"index": 2}', 8)[:kept].decode().split("\n")
    found = list(parse_events([*lines_of(whole), "", *cut[:-1]]))
    assert found == [Event("window", '{"index": 1}', 7)]


def test_it_reads_what_the_standard_allows() -> None:
    """No space after the colon, several lines of data, fields without a value or unknown."""
    lines = ["data:one", "data: two", "unknown: 3", "", "event", "", "id: x", "data", ""]
    assert list(parse_events(lines)) == [
        Event("message", "one\ntwo", None),
        Event("message", "", None),
    ]


@pytest.mark.parametrize("text", ["", "-1", "1.0", "٣", "1e3", "9" * 19, " 7"])
def test_only_plain_digits_are_the_number_of_an_event(text: str) -> None:
    assert event_number(text) is None
    assert event_number("9" * 18) == 10**18 - 1


def test_a_sign_of_life_comes_only_after_silence() -> None:
    async def signs(spoken: set[int]) -> list[int]:
        pace = StreamPace(between_looks=1.0, between_signs=3.0)
        found = []
        for look in range(10):
            if look in spoken:
                pace.spoke()
            if await pace.pause() == SIGN_OF_LIFE:
                found.append(look)
        return found

    async def no_sleep(_: float) -> None:
        pass

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncio, "sleep", no_sleep)
        assert asyncio.run(signs(set())) == [3, 6, 9]
        assert asyncio.run(signs({2, 5, 8})) == []


def test_no_other_module_writes_or_parses_events() -> None:
    marks = ("event: ", "data: ", "retry: ", event_stream.EVENT_STREAM)
    root = Path(deniable.__file__).parent
    guilty = []
    for path in root.rglob("*.py"):
        text = path.read_text()
        if not any(mark in text for mark in marks):
            continue
        tree = ast.parse(text)
        docstrings = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and id(node) not in docstrings
                and isinstance(node.value, str)
                and node.value.startswith(marks)
            ):
                guilty.append(path.relative_to(root).as_posix())
    assert set(guilty) == {"service/http/event_stream.py"}
