"""Release a table that is k-anonymous and the like: generalised as little as the constraints
allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deniable.errors import ReleaseError
from deniable.release.classes import Cube
from deniable.release.constraints import Constraint, satisfying, sensitive_columns
from deniable.release.hierarchy import Hierarchy
from deniable.release.hierarchy_files import automatic_hierarchy
from deniable.release.information import Information
from deniable.release.lattice import LevelChoice, allowed_levels, search
from deniable.release.released import Released, finished
from deniable.release.table import CodedTable, coded_attributes

__all__ = ["anonymize"]


def anonymize(
    frame: Any,
    hierarchies: Mapping[str, Hierarchy | None],
    constraints: Sequence[Constraint],
    *,
    sensitive: Sequence[str] = (),
    suppress: float = 0.05,
    levels: Mapping[str, LevelChoice] | None = None,
    objective: str = "granularity",
    time_limit: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> Released:
    """The table generalised as little as the constraints allow: k-anonymity and related rules,
    without differential privacy.

    Columns with a hierarchy are generalised (None: one that fits the column), `sensitive` ones are
    released unchanged, others are left out. Classes that break a constraint are dropped, with at
    most the fraction `suppress` of the rows. Of all generalisations the one that keeps most by the
    `objective`, ``"granularity"`` or ``"entropy"``, is found and proved best, unless `time_limit`,
    in seconds, ends the search earlier; `found.bound` then says what might be missed.

    >>> from deniable.release import KAnonymity, Numbers
    >>> made = anonymize({"age": [31, 33, 38, 39, 52]}, {"age": Numbers(0, 80, 5)}, [KAnonymity(2)], suppress=0.2)
    >>> made.combinations(), made.found.optimal
    ({'age': ['[30, 35)', '[35, 40)'], 'count': [2, 2]}, True)
    """
    wanted = list(dict.fromkeys([*sensitive, *sensitive_columns(constraints)]))
    for name in set(wanted) & set(hierarchies):
        raise ReleaseError(f"column {name!r} is sensitive, so it has no hierarchy")
    if not hierarchies:
        raise ReleaseError("there is no column to generalise")
    table = CodedTable.of(frame, [*hierarchies, *wanted])
    known = {
        name: automatic_hierarchy(table.values[name]) if hierarchy is None else hierarchy
        for name, hierarchy in hierarchies.items()
    }
    attributes = coded_attributes(table, known)
    cube = Cube(table, attributes, wanted)
    allowed = allowed_levels(attributes, levels)
    found = search(
        cube,
        Information(table, attributes, objective),
        allowed,
        constraints,
        suppress,
        time_limit,
        progress,
    )
    classes = cube.classes(found.levels)
    classes = classes.kept(satisfying(classes, constraints))
    return finished(
        table, attributes, found.levels, classes, wanted, None, 0.0, constraints, classes, found
    )
