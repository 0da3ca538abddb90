"""People as in the census extract that the anonymisation literature uses, made up: attributes that
depend on each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from deniable.release import Categories, Hierarchy, Numbers, Tree

__all__ = ["HIERARCHIES", "adults"]

_EDUCATION = {
    "preschool": "school", "9th": "school", "11th": "school", "high school": "school", "college": "higher", "bachelor": "higher",
    "master": "graduate", "doctorate": "graduate",
}  # fmt: skip
_ABOVE = {"school": "no degree", "higher": "degree", "graduate": "degree"}
_MARITAL = {
    "married": "with",
    "partnered": "with",
    "never": "without",
    "divorced": "without",
    "widowed": "without",
}
HIERARCHIES: dict[str, Hierarchy] = {
    "age": Numbers(15, 95, 5, factor=2),
    "sex": Categories(("f", "m")),
    "education": Tree.from_paths(
        [(value, group, _ABOVE[group]) for value, group in _EDUCATION.items()]
    ),
    "marital": Tree.from_paths(list(_MARITAL.items())),
}


def adults(n: int, seed: int) -> dict[str, list[Any]]:
    """`n` people with age, sex, education, marital status, salary and hours; the last two are for
    constraints."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(7, 5.5, n), 17, 90).astype(int)
    education = np.clip(rng.normal(4 - (age > 60), 1.6, n), 0, 7).astype(int)
    marital = np.where(age < 27, rng.choice([0, 1, 2, 2, 2], n), rng.choice([0, 0, 1, 3, 4], n))
    salary = np.clip(education / 2 + rng.normal(0, 1, n), 0, 4).astype(int)
    return {
        "age": age.tolist(),
        "sex": rng.choice(["f", "m"], n).tolist(),
        "education": [list(_EDUCATION)[i] for i in education.tolist()],
        "marital": [list(_MARITAL)[i] for i in marital.tolist()],
        "salary": [f"class {i}" for i in salary.tolist()],
        "hours": rng.choice([10, 20, 40, 60], n, p=[0.1, 0.2, 0.6, 0.1]).tolist(),
    }
