"""What an attacker makes of published figures: an answer that changes when it is asked for again is
noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deniable.audit.deployed.released_figures import PublishedFigure, contradictions

FIGURE = PublishedFigure(
    "q", "period", 0, 3600, 500, 1, fraction=0.1, labels="l", values=(0.25, 0.75)
)


def test_an_answer_asked_for_twice_must_be_of_the_same_answers() -> None:
    again = replace(FIGURE, values=(0.26, 0.74))
    [found] = contradictions([FIGURE, replace(FIGURE), again])
    assert found.n is None
    assert "10 % of the reports; 500 answers): asked twice, it is of other answers" in found.text


@pytest.mark.parametrize(
    "changes",
    [
        {"values": FIGURE.values},
        {"n": 501},  # more reports have come: another question is whether so few more may be told
        {"seen": 2},
        {"fraction": 0.2},
        {"part": "south"},
        {"labels": "others"},
        {"revision": 1},
        {"end": 7200},
        {"kind": "window"},
    ],
    ids=str,
)
def test_answers_to_different_questions_contradict_nothing(changes: dict[str, object]) -> None:
    changed = replace(FIGURE, **{"values": (0.26, 0.74), **changes})  # type: ignore[arg-type]
    assert list(contradictions([FIGURE, changed])) == []
