"""Release a table with differential privacy: rows sampled, generalised, and rare combinations of
labels dropped."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from deniable.checks import check_epsilon, check_number, check_range
from deniable.errors import ParameterError, ReleaseError
from deniable.randomness import Source, system_source
from deniable.release.classes import Classes, Cube
from deniable.release.constraints import Constraint, satisfying, sensitive_columns
from deniable.release.guarantee import Guarantee
from deniable.release.hierarchy import Hierarchy
from deniable.release.lattice import LevelChoice, allowed_levels
from deniable.release.private_search import private_choice, public_choice
from deniable.release.released import Released, finished
from deniable.release.table import (
    CodedTable,
    Levels,
    TableAttribute,
    coded_attributes,
    combine,
    one_of_each,
)

__all__ = ["release"]


def release(
    frame: Any,
    hierarchies: Mapping[str, Hierarchy],
    epsilon: float,
    delta: float,
    *,
    levels: Mapping[str, LevelChoice] | None = None,
    search_epsilon: float | None = None,
    public: Any = None,
    public_scale: float = 1.0,
    sampling: float | None = None,
    k: int | None = None,
    constraints: Sequence[Constraint] = (),
    person: str | None = None,
    candidates: int = 10_000,
    source: Source | None = None,
    progress: Callable[[float], None] | None = None,
) -> Released:
    """A sample of the rows, generalised, without rare combinations: (epsilon, delta)-differentially
    private, and true row by row.

    Only the columns with a hierarchy are released. Levels that depend on the table must be paid
    for. Either `levels` fixes them all; or `public` data of the same columns decide, of which the
    table has about `public_scale` times the rows; or `search_epsilon`, a part of epsilon, pays for
    a look at the table (:mod:`deniable.release.private_search`). `levels` may narrow a search.

    Neighbouring tables differ in one row, and a person has one row: `person` names a column to
    check that by. Further `constraints` are enforced on what is released, which costs nothing. The
    bounds of a hierarchy must be public too.

    >>> from deniable.randomness import seeded_source
    >>> from deniable.release import Categories, Numbers
    >>> table = {"age": [20, 33, 47, 61] * 100, "sex": ["f", "m"] * 200}
    >>> made = release(table, {"age": Numbers(0, 100, 10), "sex": Categories()}, 1.0, 1e-5, levels={"age": 3, "sex": 0},
    ...                source=seeded_source(1))
    >>> made.combinations()
    {'age': ['[0, 40)', '[0, 40)', '[40, 80)', '[40, 80)'], 'sex': ['f', 'm', 'f', 'm'], 'count': [50, 46, 41, 38]}
    >>> made
    <Released: 175 rows of 2 columns, epsilon 1, delta 8.9e-06>
    """
    source = source or system_source()
    check_epsilon(epsilon)
    if (
        search_epsilon is not None
        and not 0 < check_number("search_epsilon", search_epsilon) < epsilon
    ):
        raise ParameterError(
            "search_epsilon", search_epsilon, f"must lie between 0 and epsilon = {epsilon:g}"
        )
    if search_epsilon is not None and public is not None:
        raise ReleaseError("give public data or an epsilon for the search, not both")
    guarantee = Guarantee.of(_rest(epsilon, search_epsilon), delta, sampling, k)
    for column in sensitive_columns(constraints):
        if column not in hierarchies:
            raise ReleaseError(f"a constraint is about column {column!r}, which is not released")
    table = CodedTable.of(frame, list(hierarchies), person)
    attributes = coded_attributes(table, hierarchies)
    allowed = allowed_levels(attributes, levels)
    cost = 0.0
    if all(len(choice) == 1 for choice in allowed):
        chosen: Levels = tuple(choice[0] for choice in allowed)
        if search_epsilon is not None:
            raise ParameterError(
                "search_epsilon", search_epsilon, "buys nothing if all levels are fixed"
            )
    elif public is not None:
        check_range("public_scale", public_scale, above=0)
        known = CodedTable.of(public, list(hierarchies))
        chosen = public_choice(
            Cube(known, coded_attributes(known, hierarchies)),
            allowed,
            guarantee,
            public_scale,
            progress,
        )
    elif search_epsilon is not None:
        cube = Cube(table, attributes)
        chosen, cost = private_choice(
            cube, allowed, guarantee, search_epsilon, source, candidates, progress
        )
    else:
        open_ = ", ".join(
            a.name for a, choice in zip(attributes, allowed, strict=True) if len(choice) > 1
        )
        raise ReleaseError(
            f"the level of {open_} is open: fix it, give public data, or pay for a search with"
            " search_epsilon"
        )
    kept = guarantee.keep(table.n, source)
    sampled = np.bincount(table.rows[kept], minlength=table.counts.size).astype(np.int64)
    classes = Cube(table, attributes, counts=sampled).classes(chosen)
    classes = classes.kept(classes.sizes >= guarantee.k)
    if not constraints:
        return finished(table, attributes, chosen, classes, [], guarantee, cost, [], classes, None)
    # Of what is released anyway, so this costs nothing.
    split = _split(classes, attributes, sensitive_columns(constraints))
    keep = satisfying(split, constraints)
    classes = classes.kept(keep[split.cell_class])
    return finished(
        table, attributes, chosen, classes, [], guarantee, cost, constraints, split.kept(keep), None
    )


def _rest(epsilon: float, spent: float | None) -> float:
    """What is left of epsilon, as a double that is not above it."""
    left = Fraction(epsilon) - Fraction(spent or 0)
    rounded = float(left)
    return rounded if Fraction(rounded) <= left else math.nextafter(rounded, 0.0)


def _split(
    classes: Classes, attributes: Sequence[TableAttribute], sensitive: Sequence[str]
) -> Classes:
    """Combinations of labels as cells of the classes that the attributes which are not sensitive
    make."""
    plain = [i for i, attribute in enumerate(attributes) if attribute.name not in sensitive]
    if not plain:
        raise ReleaseError("constraints need a released column that they are not about")
    labels = [classes.labels[i] for i in plain]
    ids, n = combine(labels, [int(label.max(initial=0)) + 1 for label in labels])
    place = one_of_each(ids, n)
    by_name = {
        attribute.name: labels for attribute, labels in zip(attributes, classes.labels, strict=True)
    }
    sizes = np.bincount(ids, weights=classes.sizes, minlength=n).astype(np.int64)
    return Classes(
        [label[place] for label in labels],
        sizes,
        ids,
        classes.sizes,
        {name: by_name[name] for name in sensitive},
    )
