"""Recipes: a mechanism as the analyst writes it into a query, and the mechanism that it draws with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deniable.checks import check_epsilon, check_flag, check_probability
from deniable.errors import DeniableError, ParameterError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.design_matrix import MatrixMechanism
from deniable.mechanisms.protocols.memoized_unary import MemoizedUnary
from deniable.mechanisms.protocols.unary import UnaryMechanism
from deniable.mechanisms.registry import from_dict, known_mechanisms
from deniable.queries.buckets import Buckets
from deniable.queries.tables import check_table

__all__ = ["DEFAULT_STEP", "build_mechanism", "with_step"]


DEFAULT_STEP = {"p": 0.25, "q": 0.75}
"""The instantaneous step of new memoized queries with a unary mechanism."""
_LARGEST_MATRIX = 1024
"""The most buckets for a mechanism with a matrix: building one takes half a second and 50 MB."""


def build_mechanism(given: Any, buckets: Buckets) -> tuple[dict[str, Any], Mechanism]:
    """The mechanism as it was written, and as it draws."""
    # as a query holds it: its second step is a field of its own
    if isinstance(given, MemoizedUnary):
        given = given.first_step
    if isinstance(given, Mechanism):
        parameters = given.to_dict()
        recipe = {"name": parameters.pop("mechanism"), **parameters}
        recipe.pop("values", None)
        _check_domain(given, repr(given), buckets)
    elif isinstance(given, Mapping) and isinstance(given.get("name"), str):
        recipe = dict(given)
    else:
        example = '{ name = "TwoCoin", p = 0.5, q = 0.5 }'
        raise ParameterError(
            "mechanism", given, f"must give a name and parameters, such as {example}"
        )
    if recipe["name"] == "MemoizedUnary":
        rule = "must be the first step alone; the second is the query's `instantaneous`"
        raise ParameterError("mechanism", recipe["name"], rule)
    for name in ("values", "k"):
        if name in recipe:
            raise ParameterError(
                f"mechanism.{name}",
                recipe[name],
                "must not be given: the domain is the query's buckets",
            )
    _refuse_costly(recipe, len(buckets))
    mechanism = (
        _two_coin(recipe, buckets)
        if recipe["name"] == "TwoCoin"
        else _from_library(recipe, buckets)
    )
    _check_domain(mechanism, recipe["name"], buckets)
    if not buckets.complete and not isinstance(mechanism, UnaryMechanism):
        lacking = next(i for i, column in enumerate(buckets.columns) if not column.other)
        rule = (
            f"must be true with {recipe['name']}, which cannot say that an answer is in no bucket"
        )
        raise ParameterError(f"columns[{lacking}].other", False, rule)
    return recipe, mechanism


def with_step(
    given: Any, first: Mechanism, memoize: bool
) -> tuple[dict[str, float] | None, Mechanism]:
    """The instantaneous step as it is written, and the mechanism with it."""
    possible = memoize and isinstance(first, UnaryMechanism)
    if given is None or given is False or (given == "default" and not possible):
        return None, first
    table = dict(
        check_table("instantaneous", DEFAULT_STEP if given == "default" else given, DEFAULT_STEP)
    )
    if not possible:
        rule = (
            "must be left out without memoize and a unary mechanism: it randomizes permanent bits"
            " once more"
        )
        raise ParameterError("instantaneous", table, rule)
    for name in DEFAULT_STEP:
        check_probability(f"instantaneous.{name}", table.get(name, "nothing"))
    try:
        mechanism = MemoizedUnary(first, table["p"], table["q"])
    except ParameterError as error:
        raise error.named(f"instantaneous.{error.name}") from None
    return {"p": mechanism.p, "q": mechanism.q}, mechanism


def _check_domain(mechanism: Mechanism, name: str, buckets: Buckets) -> None:
    domain = getattr(mechanism, "domain", None)  # RAPPOR's is any text
    if domain is None or len(domain) != len(buckets):
        values = "any text" if domain is None else f"one of {len(domain)} values"
        rule = f"answers {values}, and must be defined on the query's {len(buckets)} buckets"
        raise ParameterError("mechanism", name, rule)


def _refuse_costly(recipe: Mapping[str, Any], n_buckets: int) -> None:
    """Refuse what would be slow to build and unusable: a device builds the mechanism of every query
    it reads."""
    kind = Mechanism._registry.get(recipe["name"])
    if kind is not None and issubclass(kind, MatrixMechanism) and n_buckets > _LARGEST_MATRIX:
        rule = (
            f"draws from a matrix, which is limited to {_LARGEST_MATRIX} buckets; this query has"
            f" {n_buckets}"
        )
        raise ParameterError("mechanism", recipe["name"], rule)
    for name in ("bins", "points"):
        if recipe.get(name, n_buckets) != n_buckets:
            rule = f"must be {n_buckets}, the number of the query's buckets"
            raise ParameterError(f"mechanism.{name}", recipe[name], rule)


def _two_coin(recipe: dict[str, Any], buckets: Buckets) -> Mechanism:
    check_table("mechanism", recipe, {"name", "p", "q", "inverted"})
    p, q = (
        check_probability(f"mechanism.{name}", recipe.get(name, "nothing")) for name in ("p", "q")
    )
    b = (1 - p) * q
    recipe.update(p=float(recipe["p"]), q=float(recipe["q"]))
    inverted = recipe.pop("inverted", False)
    check_flag("mechanism.inverted", inverted)
    if inverted:
        # "Not in this bucket" with (p, q), sent as its complement: ones in a report still mean the
        # buckets.
        recipe["inverted"] = True
        b = (1 - p) * (1 - q)
    return _made(
        "TwoCoin",
        {
            "mechanism": "UnaryEncoding",
            "values": list(buckets.labels),
            "a": float(p + b),
            "b": float(b),
        },
    )


def _from_library(recipe: dict[str, Any], buckets: Buckets) -> Mechanism:
    parameters = {name: value for name, value in recipe.items() if name != "name"}
    known = known_mechanisms().get(recipe["name"])
    if "values" in getattr(known, "__dataclass_fields__", {}):
        parameters["values"] = list(buckets.labels)
    if "epsilon" in parameters:
        parameters["epsilon"] = recipe["epsilon"] = check_epsilon(
            parameters["epsilon"], "mechanism.epsilon"
        )
    made = _made(recipe["name"], {"mechanism": recipe["name"], **parameters})
    described = made.parameters() if made.stated else {}
    recipe.update({name: described[name] for name in made.stated})
    return made


def _made(name: str, description: dict[str, Any]) -> Mechanism:
    try:
        return from_dict(description)
    except DeniableError as error:
        raise ParameterError("mechanism", name, f"cannot be made: {error}") from None
