"""Windows in the state: what is stored is the document of a :class:`Window`, and what is served is
that document.

Only SQLite's JSON functions touch it on the way: they add its number and readable times, and remove
matrices that were not asked for, some twenty times as fast as parsing and writing the document
here. What has to be computed is computed from a :class:`Window`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any, TypedDict

from deniable.aggregator.windows.window import Window
from deniable.documents import DocumentType, WrittenAs, document_type, times_of

__all__ = [
    "MATRICES",
    "SERVED_WINDOW",
    "Detail",
    "ResultsPage",
    "page",
    "read_window",
    "window_text",
]

MATRICES = ("covariance", "reports", "strata", "support")
"""What no plot needs: most of a document's text."""


class _Released(TypedDict):
    number: int
    """Of the result, over all queries, in order of release."""


SERVED_WINDOW: DocumentType = (
    document_type(_Released)
    .joined(document_type(Window).without("type"))
    .always("missing", "conservation")
    .named(
        "Window",
        "The result of a window (docs/aggregator.md); without `estimate` if it is withheld.",
    )
)
"""The document of a window as it is served."""


class ResultsPage(TypedDict):
    """A page of windows."""

    windows: list[Annotated[dict[str, Any], WrittenAs(SERVED_WINDOW)]]
    next: int | None
    """The `after` of the next page."""
    last: int
    """The number of the query's last result."""


def _time(name: str) -> str:
    seconds = f"json_extract(document, '$.{name}')"
    return f"'$.{name}_time', strftime('%Y-%m-%dT%H:%M:%SZ', {seconds}, 'unixepoch')"


def _without(document: str, *names: str) -> str:
    return f"json_remove({document}, {', '.join(repr(f'$.{name}') for name in names)})"


_SERVED = f"json_set(document, '$.number', seq, {', '.join(map(_time, times_of(Window)))})"


class Detail(Enum):
    """How much of a stored window is read; the value is the SQL expression for it, in the table
    `results`."""

    WHOLE = _SERVED
    """Everything, with the number of the result and readable times."""
    NO_COVARIANCE = _without(_SERVED, "covariance")
    """What intervals of single labels need."""
    BRIEF = _without(_SERVED, *MATRICES)
    """What a plot needs."""


def window_text(window: Window) -> str:
    """The document to be stored."""
    return json.dumps(window.to_dict(), allow_nan=False)


def read_window(text: str) -> Window:
    """The window of a stored document; those of earlier releases too."""
    return Window.from_dict(json.loads(text))


def page(windows: Iterable[str], following: int | None, last: int) -> str:
    """Served windows as one document, as they are: none is parsed again."""
    return f'{{"windows":[{",".join(windows)}],"next":{json.dumps(following)},"last":{last}}}'
