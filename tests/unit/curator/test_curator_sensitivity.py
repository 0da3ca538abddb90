"""How far one person moves what noise is added to, by trying every person on small tables."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from deniable.curator import Curator, question
from deniable.curator.protection import Neighbours
from deniable.curator.questions import CuratorQuestion
from deniable.curator.selection import MostFrequent, Quantile

KINDS = list(product([-5, 0, 3], ["a", "b"]))
"""The rows a person may have: a number and a label."""
BASES: list[list[tuple[int, str]]] = [
    [(-5, "a"), (-5, "b")],
    [(3, "a"), (3, "a"), (1, "b"), (0, "b")],
]
"""The rows of all others."""
EPSILON = Fraction(1)

QUESTIONS = {
    "count": question("count"),
    "sum": question("sum", "x", bounds=(0, 3), step=1),
    "sum around 0": question("sum", "x", bounds=(-1, 2), step=1),
    "sum below 0": question("sum", "x", bounds=(-5, -1), step=1),
    "mean": question("mean", "x", bounds=(0, 3), step=1),
    "variance": question("variance", "x", bounds=(0, 3), step=1),
    "noisy max": question("noisy_max", "x", bounds=(0, 3), step=1),
    "label histogram": question("histogram", "label", labels=["a"]),
    "number histogram": question("histogram", "x", bins=[-5, 0, 3]),
    "median": question("median", "x", bounds=(0, 3), step=1),
    "quantile 1/3": question("quantile", "x", Fraction(1, 3), bounds=(0, 3), step=1),
    "minimum": question("minimum", "x", bounds=(0, 3), step=1),
    "maximum": question("maximum", "x", bounds=(0, 3), step=1),
    "most frequent": question("most_frequent", "label", labels=["a", "b"]),
}
SCOPES = ["table", "subset", "groups"]


def curator_of(
    rows: list[tuple[int, str]],
    person: list[tuple[int, str]],
    neighbours: Neighbours,
    most: int,
    scope: str,
) -> Any:
    """A curator of the others' rows and one person's."""
    everybody = [*rows, *person]
    frame = {
        "id": [f"other {i}" for i in range(len(rows))] + ["one"] * len(person),
        "x": [x for x, _ in everybody],
        "label": [label for _, label in everybody],
    }
    curator = Curator(frame, 1, neighbours=neighbours, person="id", rows=most)
    if scope == "subset":
        return curator.where("label", "==", "a")
    return curator.group_by("label", ["a", "b"]) if scope == "groups" else curator


def moved(asked: CuratorQuestion, noise: Any, curator: Any) -> list[list[list[int]]]:
    """What noise is added to, or what is chosen by: one entry a draw, in it one list a group."""
    view = curator._view
    protection = view.protection_of(asked)
    exact = [asked.exact(rows, protection) for rows in view.rows(asked)]
    if not isinstance(asked, Quantile):
        return [[np.ravel(numbers).tolist() for numbers in exact]]
    names = ("low", "high", "value")
    found = [dict(zip(names, asked.imbalances(numbers), strict=True)) for numbers in exact]
    return [[group[name].tolist() for group in found] for name in names if getattr(noise, name)]


def furthest_and_sensitivity(
    asked: CuratorQuestion,
    neighbours: Neighbours,
    most: int,
    scope: str,
    base: list[tuple[int, str]],
) -> tuple[int, int]:
    """How far neighbours are apart at most, and how far the noise takes them to be."""
    persons = [
        list(rows)
        for size in range(most + 1)
        for rows in combinations_with_replacement(KINDS, size)
    ]
    if neighbours == "replace-one":
        persons = persons[1:]
    curators = [curator_of(base, rows, neighbours, most, scope) for rows in persons]
    noise = asked.noise(curators[0]._view.protection_of(asked), EPSILON)
    chosen = isinstance(asked, Quantile | MostFrequent)
    found = [moved(asked, noise, curator) for curator in curators]
    furthest = 0
    for draw in range(len(found[0])):
        vectors = np.array([person[draw] for person in found], dtype=np.int64)
        gaps = np.abs(
            vectors[:, np.newaxis] - vectors
            if neighbours == "replace-one"
            else vectors - vectors[0]
        )
        # A vector is moved by the sum over its entries, a choice by the largest of its scores; over
        # groups, losses add up.
        apart = gaps.max(axis=-1) if chosen else gaps.sum(axis=-1)
        furthest = max(furthest, int(apart.sum(axis=-1).max()))
    if isinstance(asked, Quantile):
        made_for = {
            draw.sensitivity
            for draw in (noise.value, *(end and end.noise for end in (noise.low, noise.high)))
            if draw
        }
        return furthest, made_for.pop()
    return furthest, 0 if noise is None else noise.sensitivity


LOOSE = {
    "variance": "the sum of squares is rounded; this base and these values need not be the worst",
    "most frequent": (
        "a row that is replaced moves two counts, each by one, and counts as two moves"
    ),
}


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_person_moves_a_statistic_further_than_its_noise_is_made_for(
    name: str, scope: str, neighbours: Neighbours, most: int
) -> None:
    tried = [
        furthest_and_sensitivity(QUESTIONS[name], neighbours, most, scope, base) for base in BASES
    ]
    assert all(furthest <= sensitivity for furthest, sensitivity in tried)
    # Nor is the noise larger than needed. In a table without filters a replaced person keeps a row
    # at least, and all rows of the subset have the same label.
    small = (scope, neighbours, most) == ("table", "replace-one", 2) or (name, scope) == (
        "label histogram",
        "subset",
    )
    if name not in LOOSE and not small:
        assert max(tried)[0] == max(tried)[1]


def test_histograms_and_sums_have_the_sensitivities_of_the_books() -> None:
    """Histogram: 1 for add/remove, 2 for replace-one. Sum clamped to [L, U]: max(|L|, |U|) and U -
    L."""
    table = {"x": [1, 2, 3]}
    for neighbours, histogram, total in (("add-remove", 1, 5), ("replace-one", 2, 8)):
        curator = Curator(table, 1, neighbours=neighbours)  # type: ignore[arg-type]
        view = curator._view
        bins, summed = (
            question("histogram", "x", bins=[0, 1, 2]),
            question("sum", "x", bounds=(-3, 5), step=1),
        )
        assert bins.noise(view.protection_of(bins), EPSILON).sensitivity == histogram
        assert summed.noise(view.protection_of(summed), EPSILON).sensitivity == total
