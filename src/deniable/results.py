"""Results as JSON documents: they can be written, sent, read back without loss, and compared."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from deniable.display import Displayed
from deniable.documents import DocumentType, WrittenAs
from deniable.errors import DocumentError
from deniable.registries import Registry
from deniable.renames import current_names

__all__ = ["Figures", "Result", "decode", "encode", "fields_of"]

Figures = Annotated[NDArray[np.float64], WrittenAs(list[float])]
"""Finite figures, one per label."""
_TAGGED: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    # Before `date`, its base class.
    "datetime": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    "decimal": (Decimal, str, Decimal),
    "fraction": (Fraction, str, Fraction),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
}
"""Values that JSON cannot represent, written as an object with one key. No label is an object, so
none is mistaken for one."""


@dataclasses.dataclass(frozen=True, eq=False)
class Result(Displayed):
    """A frozen dataclass with `to_dict` and `from_dict`, which lose nothing, and `==`, which
    compares arrays by value.

    Subclasses are declared with ``@dataclass(frozen=True, eq=False)``. A subclass whose document
    has more than its fields (an interval, say) extends :meth:`to_dict` and says so in `COMPUTED`;
    what is not a field is ignored when the document is read. `KEYS` gives a field another name in
    the document. A field whose name begins with an underscore holds data that must not leave the
    object: it is neither written nor compared.

    >>> @dataclasses.dataclass(frozen=True, eq=False)
    ... class Mean(Result):
    ...     value: float
    ...     weights: tuple[float, ...]
    >>> Mean(2.5, (0.5, math.inf)).to_dict()
    {'value': 2.5, 'weights': [0.5, 'inf']}
    >>> Mean.from_dict({"value": 2.5, "weights": [0.5, "inf"], "low": 2.0}) == Mean(2.5, (0.5, math.inf))
    True
    """

    KEYS: ClassVar[Mapping[str, str]] = {}
    UNWRITTEN: ClassVar[tuple[str, ...]] = ()
    """Fields that are not written under their own name, but as part of `COMPUTED`."""
    COMPUTED: ClassVar[type | DocumentType | None] = None
    """The keys that the document has besides its fields, for those who describe it."""
    _registry: ClassVar[Registry[type[Result]]] = Registry()
    _name: ClassVar[str]
    """The name under which documents know the class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._name = Registry.name_of(cls)
        Result._registry.add(cls)

    def to_dict(self) -> dict[str, Any]:
        """A JSON document, which :meth:`from_dict` reads."""
        return _encoded_fields(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """The result that :meth:`to_dict` described."""
        try:
            kept = {key: document[key] for key in cls.KEYS.values() if key in document}
            others = {key: value for key, value in document.items() if key not in kept}
            document = current_names(cls.__name__, others, warn=False) | kept
            arguments = cls._arguments(document)
            derived = {field.name for field in dataclasses.fields(cls) if not field.init}
            made = cls(**{name: value for name, value in arguments.items() if name not in derived})
            for name in derived & set(arguments):
                object.__setattr__(made, name, arguments[name])
            return made
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise DocumentError(f"not a document of {cls.__name__}: {problem}") from None

    @classmethod
    def _arguments(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the fields, from the document."""
        kind: Any = cls
        hints, arguments = _hints(kind), {}
        for field in _public_fields(cls):
            key = cls.KEYS.get(field.name, field.name)
            # a document of an earlier version may lack a later field
            if key in document or not _has_default(field):
                arguments[field.name] = decode(hints[field.name], document[key])
        return arguments

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [field.name for field in _public_fields(self)]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)

    def __hash__(self) -> int:
        texts = (getattr(self, field.name) for field in _public_fields(self))
        return hash(
            (type(self).__name__, *(value for value in texts if isinstance(value, str | int)))
        )


def fields_of(result: Result) -> dict[str, Any]:
    """The fields of a result as JSON values under their names in the document, except those that
    are not written as such."""
    return _encoded_fields(result, result.UNWRITTEN)


def _encoded_fields(result: Result, but: tuple[str, ...] = ()) -> dict[str, Any]:
    names = [field.name for field in _public_fields(result) if field.name not in but]
    return {result.KEYS.get(name, name): encode(getattr(result, name)) for name in names}


def encode(value: Any) -> Any:
    """The value in JSON. NaN, which JSON does not have, becomes null, and infinities become
    strings; in arrays too."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, np.ndarray):
        listed = value.tolist()
        return listed if value.dtype.kind != "f" or np.isfinite(value).all() else encode(listed)
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, tuple | list | range):
        return [encode(part) for part in value]
    return _encode_object(value)


def _encode_object(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        document = value.to_dict()
        return {"type": value._name, **document} if isinstance(value, Result) else document
    if dataclasses.is_dataclass(value):
        return {
            field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: encode(part) for key, part in value.items()}
        return {"items": [[encode(key), encode(part)] for key, part in value.items()]}
    for tag, (kind, written, _) in _TAGGED.items():
        if isinstance(value, kind):
            return {tag: written(value)}
    return str(value)  # a label of a user-defined type


def decode(hint: Any, value: Any) -> Any:
    """The value of a field of that type from what :func:`encode` made of it."""
    kind = get_origin(hint) or hint
    if kind in {Union, UnionType}:
        return None if value is None else decode(_the_one(hint), value)
    if kind is np.ndarray:
        (dtype,) = get_args(get_args(hint)[1])
        return np.array(value, dtype=dtype)
    if kind is float:
        return math.nan if value is None else float(value) if isinstance(value, str) else value
    if isinstance(kind, type) and issubclass(kind, tuple | list | Mapping):
        return _decode_container(kind, hint, value)
    return _decode_object(kind, value)


def _decode_container(kind: Any, hint: Any, value: Any) -> Any:
    parts = get_args(hint)
    if issubclass(kind, Mapping):
        of_key, of_value = parts or (Any, Any)
        items = value["items"] if set(value) == {"items"} else value.items()
        return {decode(of_key, key): decode(of_value, part) for key, part in items}
    if kind is list:
        return [decode(parts[0], each) for each in value]
    if kind is not tuple:  # a named one
        return kind(*map(decode, _hints(kind).values(), value))
    hints = [parts[0]] * len(value) if parts[1:] == (...,) else parts
    return tuple(decode(part, each) for part, each in zip(hints, value, strict=True))


def _decode_object(kind: Any, value: Any) -> Any:
    if isinstance(value, dict) and (known := Result._registry.get(value.get("type"))) is not None:
        return known.from_dict(value)
    if hasattr(kind, "from_dict"):
        return kind.from_dict(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**{name: decode(hint, value[name]) for name, hint in _hints(kind).items()})
    if isinstance(value, dict) and len(value) == 1 and (tag := next(iter(value))) in _TAGGED:
        return _TAGGED[tag][2](value[tag])
    # JSON made a list of a tuple; a list is no label
    if kind is Hashable and isinstance(value, list):
        return tuple(decode(Hashable, part) for part in value)
    return value


def _the_one(hint: Any) -> Any:
    """Of "this or None", this."""
    kinds = [each for each in get_args(hint) if each is not NoneType]
    return kinds[0] if len(kinds) == 1 else Any


def _public_fields(result: Any) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(result) if not field.name.startswith("_")]


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


@cache
def _hints(cls: Hashable) -> dict[str, Any]:
    return get_type_hints(cls)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        if type(one) is not type(other):
            return False
        return one.dtype == other.dtype and bool(
            np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
        )
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping) and not isinstance(one, Result):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)
