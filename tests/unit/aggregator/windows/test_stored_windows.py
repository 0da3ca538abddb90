"""A window has one form: what is stored is what is served, and what anyone reads back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.aggregator.windows.stored import MATRICES, Detail, page, read_window, window_text
from deniable.queries.columns.column import Column
from deniable.queries.times import with_times
from toolkit.crowds import Crowd, minute_query

TRICKY = ['"start": 5, "end": 6', '"covariance": [[1.0]]', "naïve \\u0022 ☂", "]]}"]


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    """A crowd with two windows, whose labels look like pieces of a document."""
    columns = [Column("said", TRICKY, other=True, kind="text")]
    crowd = Crowd(
        tmp_path,
        minute_query(columns=columns, mechanism={"name": "DirectEncoding", "epsilon": 2.0}),
    )
    engine, schedule = crowd.engine(), crowd.query.schedule
    last = schedule.epochs_of_window(1)[-1]
    crowd.now = schedule.end_of_epoch(last)
    for epoch in range(last + 1):
        crowd.answer([0, 1, 2, 3, 3] * 20, epoch)
    crowd.mark(last + 1)
    engine.drain()
    yield crowd
    crowd.close_all()


def rows(crowd: Crowd, expression: str) -> list[tuple[int, str]]:
    assert crowd.state is not None
    return crowd.state.connection.execute(
        f"SELECT seq, {expression} FROM results ORDER BY seq"  # noqa: S608 - no input
    ).fetchall()


def test_what_is_served_is_what_is_stored_with_a_number_and_readable_times(crowd: Crowd) -> None:
    stored = rows(crowd, "document")
    assert len(stored) == 2
    for (number, text), (_, served) in zip(stored, rows(crowd, Detail.WHOLE.value), strict=True):
        document = json.loads(text)
        assert document["covariance"] is not None
        assert document["labels"][:4] == TRICKY
        assert json.loads(served) == {"number": number, **with_times(document, "start", "end")}
        assert read_window(served) == read_window(text)


def test_a_stored_window_is_the_document_of_the_window(crowd: Crowd) -> None:
    stored = rows(crowd, "document")
    assert stored
    for _, text in stored:
        window = read_window(text)
        assert window_text(window) == text
        assert type(window).from_dict(window.to_dict()) == window


@pytest.mark.parametrize(
    ("detail", "left_out"), [(Detail.NO_COVARIANCE, ("covariance",)), (Detail.BRIEF, MATRICES)]
)
def test_less_detail_leaves_out_matrices_and_nothing_else(
    crowd: Crowd, detail: Detail, left_out: tuple[str, ...]
) -> None:
    whole = [json.loads(text) for _, text in rows(crowd, Detail.WHOLE.value)]
    less = [json.loads(text) for _, text in rows(crowd, detail.value)]
    assert whole
    assert all(set(left_out) <= set(document) for document in whole)
    assert less == [
        {name: part for name, part in each.items() if name not in left_out} for each in whole
    ]


def test_a_page_holds_windows_as_they_are(crowd: Crowd) -> None:
    texts = [text for _, text in rows(crowd, Detail.WHOLE.value)]
    assert json.loads(page(texts, None, 7)) == {
        "windows": list(map(json.loads, texts)),
        "next": None,
        "last": 7,
    }
    assert json.loads(page([], 3, 3)) == {"windows": [], "next": 3, "last": 3}
