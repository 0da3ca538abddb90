"""The page on estimation prints what it shows."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_page_on_estimation_shows_real_output() -> None:
    page = Path(__file__).parents[2] / "docs" / "estimation.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert tried > 30
