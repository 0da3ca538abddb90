"""Draw the pictures of docs/tutorial.md from its own code: `python examples/tutorial_plots.py`."""

from __future__ import annotations

import contextlib
import doctest
import io
from pathlib import Path
from typing import Any

import matplotlib as mpl

DOCS = Path(__file__).parents[1] / "docs"


def run(page: Path) -> dict[str, Any]:
    """The names that the examples of a page leave behind."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for example in doctest.DocTestParser().get_examples(page.read_text(encoding="utf-8")):
            exec(compile(example.source, page.name, "single"), names)  # noqa: S102 - this repository's own page
    return names


def draw(folder: Path) -> list[Path]:
    """The pictures, written to a folder."""
    mpl.use("Agg")
    names = run(DOCS / "tutorial.md")
    pictures = {
        "tutorial-estimates.png": names["found"].plot(),
        "tutorial-regression.png": names["fit"].plot().figure,
    }
    for name, figure in pictures.items():
        figure.savefig(folder / name, dpi=72)
    return [folder / name for name in pictures]


if __name__ == "__main__":
    for path in draw(DOCS):
        print(path)
