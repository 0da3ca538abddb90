"""JSON documents, described by the types of the code that writes them: as JSON Schema, for
OpenAPI, and as JSDoc, for the console.

A document is a `TypedDict`, a dataclass, a named tuple or a :class:`deniable.results.Result`. Its
keys, their types, whether they may be missing and what they mean (the text below each of them) are
read from the class, so that no description can differ from what is written.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

__all__ = [
    "DocumentField",
    "DocumentType",
    "Timestamp",
    "WrittenAs",
    "document_type",
    "jsdoc",
    "json_schema",
    "times_of",
]


_NONE, _ROLE = re.compile(r"\bNone\b"), re.compile(r":\w+:(?=`)")


@dataclass(frozen=True)
class WrittenAs:
    """In an `Annotated` hint: what JSON has instead of the type itself, such as a list for an
    array."""

    kind: Any


@dataclass(frozen=True)
class _BesideIt:
    """In an `Annotated` hint: the document has the same time in ISO 8601, under its name plus
    `_time`."""


Timestamp = Annotated[int, _BesideIt()]
"""Seconds since 1970 UTC, which stand in ISO 8601 beside them in the document (`times_of`)."""


@dataclass(frozen=True)
class DocumentField:
    """One key of a document."""

    kind: Any
    required: bool = True
    source: tuple[type, str] | None = None
    """The class, and the name of its field, whose text says what it means."""

    @property
    def about(self) -> str:
        """What it means. Read only now: most programs describe nothing."""
        text = "" if self.source is None else _texts(self.source[0]).get(self.source[1], "")
        return _NONE.sub("null", _ROLE.sub("", text))


@dataclass(frozen=True, eq=False)
class DocumentType:
    """The keys of a document, in order. Two types that are one another's parts can be joined."""

    name: str
    about: str
    fields: Mapping[str, DocumentField]

    def without(self, *names: str) -> DocumentType:
        """The type without these keys."""
        return self._with({k: field for k, field in self.fields.items() if k not in names})

    def only(self, *names: str) -> DocumentType:
        """The type with these keys alone, in this order."""
        return self._with({name: self.fields[name] for name in names})

    def optional(self) -> DocumentType:
        """The type with the same keys, any of which may be missing."""
        fields = self.fields.items()
        return self._with({k: dataclasses.replace(field, required=False) for k, field in fields})

    def always(self, *names: str) -> DocumentType:
        """The type with some keys that are never missing."""
        sure = {k: dataclasses.replace(self.fields[k], required=True) for k in names}
        return self._with({**self.fields, **sure})

    def joined(self, *others: DocumentType) -> DocumentType:
        """The type with the keys of others too; where both have one, it is as in this."""
        more = {k: field for other in others for k, field in other.fields.items()}
        new = {k: field for k, field in more.items() if k not in self.fields}
        return self._with({**self.fields, **new})

    def where(self, **kinds: Any) -> DocumentType:
        """The type with other types for some of its keys."""
        changed = {k: dataclasses.replace(self.fields[k], kind=kind) for k, kind in kinds.items()}
        return self._with({**self.fields, **changed})

    def named(self, name: str, about: str = "") -> DocumentType:
        """The type under another name."""
        return DocumentType(name, about or self.about, self.fields)

    def _with(self, fields: Mapping[str, DocumentField]) -> DocumentType:
        return DocumentType(self.name, self.about, fields)


@cache
def document_type(kind: type) -> DocumentType:
    """The document that is written from a class.

    >>> from typing import TypedDict
    >>> class Answered(TypedDict):
    ...     n: int
    ...     note: NotRequired[str]
    >>> json_schema(list[Answered], components := {})
    {'type': 'array', 'items': {'$ref': '#/components/schemas/Answered'}}
    >>> components["Answered"]["properties"]
    {'n': {'type': 'integer'}, 'note': {'type': 'string'}}
    """
    about = inspect.cleandoc(kind.__doc__ or "")
    fields: dict[str, DocumentField] = {}
    for name, field in _with_times(_fields(kind)):
        fields.setdefault(name, field)
    return DocumentType(kind.__name__.lstrip("_"), about, fields)


@cache
def times_of(kind: type) -> tuple[str, ...]:
    """The keys of a document whose time stands beside them in ISO 8601."""
    return tuple(name for name, field in _fields(kind) if _is_time(field.kind))


def _fields(kind: Any) -> Iterator[tuple[str, DocumentField]]:
    source: type = kind
    hints = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        for name, hint in hints.items():
            # of hints that are texts, the class itself does not see which may be missing
            required = get_origin(hint) is not NotRequired and name in kind.__required_keys__
            yield name, DocumentField(_bare(hint), required, (kind, name))
        return
    if not dataclasses.is_dataclass(kind):  # a named tuple
        yield from ((name, DocumentField(hint)) for name, hint in hints.items())
        return
    keys = getattr(kind, "KEYS", None)
    unwritten = getattr(kind, "UNWRITTEN", ())
    for field in dataclasses.fields(kind):
        if field.name.startswith("_") or field.name in unwritten:
            continue
        hint = hints[field.name]
        if isinstance(field.default, float) and math.isnan(field.default):
            hint = hint | None  # NaN, which JSON does not have, is written as null
        # a stored result of an earlier release may lack a later field
        required = keys is None or not _has_default(field)
        name = field.name if keys is None else keys.get(field.name, field.name)
        yield name, DocumentField(hint, required, (source, field.name))
    if (computed := getattr(kind, "COMPUTED", None)) is not None:
        yield from _as_document(computed).fields.items()
    if keys is not None:
        yield "type", DocumentField(str, required=False)  # of a result inside another


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _with_times(
    fields: Iterator[tuple[str, DocumentField]],
) -> Iterator[tuple[str, DocumentField]]:
    for name, field in fields:
        yield name, field
        if _is_time(field.kind):
            kind = str | None if NoneType in get_args(field.kind) else str
            yield f"{name}_time", DocumentField(kind, field.required)


def _is_time(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return any(isinstance(each, _BesideIt) for each in hint.__metadata__)
    return get_origin(hint) in (Union, UnionType) and any(map(_is_time, get_args(hint)))


@cache
def _texts(kind: type) -> dict[str, str]:
    """The text below each field, of the class and those it extends."""
    found: dict[str, str] = {}
    bases = [each for each in getattr(kind, "__orig_bases__", ()) if isinstance(each, type)]
    for base in (*reversed(kind.__mro__), *bases, kind):
        try:
            source = textwrap.dedent(inspect.getsource(base))
        except (OSError, TypeError):  # built in, or installed without its source
            continue
        body = ast.parse(source).body[0]
        if isinstance(body, ast.ClassDef):
            found |= _texts_below(body.body)
    return found


def _texts_below(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for statement, after in pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            found[statement.target.id] = " ".join(str(after.value.value).split())
    return found


def _is_document(kind: Any) -> bool:
    return isinstance(kind, DocumentType) or (
        isinstance(kind, type)
        and (is_typeddict(kind) or dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"))
    )


def _as_document(kind: Any) -> DocumentType:
    return kind if isinstance(kind, DocumentType) else document_type(kind)


def _unwrapped(hint: Any) -> Any:
    """The type that JSON has: without annotations and names for types."""
    while True:
        if get_origin(hint) is Annotated:
            stated = [each.kind for each in hint.__metadata__ if isinstance(each, WrittenAs)]
            hint = stated[0] if stated else get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):  # of NewType
            hint = hint.__supertype__
        else:
            return hint


def _parts(hint: Any) -> tuple[str, tuple[Any, ...]]:
    """What sort of type a hint is, and what it is made of."""
    origin, parts = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return "union", parts
    if origin is Literal:
        return "literal", parts
    if not isinstance(origin, type):
        return "any", ()
    if origin in _SCHEMAS:
        return "plain", (origin,)
    return _parts_of_container(origin, parts)


def _parts_of_container(origin: type, parts: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    if origin.__module__ == "numpy":
        return "list", (Any,)
    if issubclass(origin, tuple) and parts and parts[-1] is not ...:
        return "tuple", parts
    if issubclass(origin, Mapping):
        return "mapping", parts[1:] or (Any,)
    return ("list", parts[:1] or (Any,)) if issubclass(origin, Collection) else ("any", ())


# --- as JSON Schema

_SCHEMAS = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_REFERENCE = "#/components/schemas/{name}"


def _object_schema(kind: DocumentType, components: dict[str, Any]) -> dict[str, Any]:
    properties = {}
    for name, field in kind.fields.items():
        schema = json_schema(field.kind, components)
        properties[name] = {**schema, "description": field.about} if field.about else schema
    required = [name for name, field in kind.fields.items() if field.required]
    about = {"description": kind.about} if kind.about else {}
    return {"title": kind.name, "type": "object", **about, "properties": properties} | (
        {"required": required} if required else {}
    )


def json_schema(hint: Any, components: dict[str, Any]) -> dict[str, Any]:
    """A type as a schema; the documents inside it are added to the components, and referred to."""
    hint = _unwrapped(hint)
    if _is_document(hint):
        kind = _as_document(hint)
        if kind.name not in components:
            components[kind.name] = {}  # a document may contain itself
            components[kind.name] = _object_schema(kind, components)
        return {"$ref": _REFERENCE.format(name=kind.name)}
    sort, parts = _parts(hint)
    if sort in ("plain", "any"):
        return {"type": _SCHEMAS[parts[0]]} if parts else {}
    if sort == "literal":
        return {"enum": list(parts)}
    return _schema_of_parts(sort, [json_schema(part, components) for part in parts])


def _schema_of_parts(sort: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    if sort == "union":
        return {"anyOf": parts}
    if sort == "mapping":
        return {"type": "object", "additionalProperties": parts[0]}
    if sort == "list":
        return {"type": "array", "items": parts[0]}
    return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}


# --- as JSDoc

_JSDOC = {str: "string", int: "number", float: "number", bool: "boolean", NoneType: "null"}
_WIDTH = 100


def jsdoc(kinds: Mapping[str, Any]) -> str:
    """Types for a JavaScript module, under these names; the documents inside them keep their
    own names."""
    names = {id(_as_document(kind)): name for name, kind in kinds.items()}
    waiting = [_as_document(kind) for kind in kinds.values()]
    blocks: list[str] = []
    for kind in waiting:  # which grows: with the documents inside
        lines = [
            *_wrapped(f"@typedef {{object}} {names[id(kind)]}", kind.about.partition("\n\n")[0])
        ]
        for name, field in kind.fields.items():
            key = name if field.required else f"[{name}]"
            lines += _wrapped(
                f"@property {{{_jsdoc_type(field.kind, names, waiting)}}} {key}", field.about
            )
        blocks.append("\n".join(lines))
    return "/**\n" + "\n *\n".join(blocks) + "\n */\n"


def _wrapped(head: str, about: str) -> list[str]:
    text = " ".join(about.split())
    return textwrap.wrap(
        f"{head} {text}".rstrip(),
        _WIDTH,
        initial_indent=" * ",
        subsequent_indent=" *   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _jsdoc_type(hint: Any, names: dict[int, str], waiting: list[DocumentType]) -> str:
    hint = _unwrapped(hint)
    if _is_document(hint):
        kind = _as_document(hint)
        if id(kind) not in names:
            names[id(kind)] = kind.name
            waiting.append(kind)
        return names[id(kind)]
    sort, parts = _parts(hint)
    if sort in ("plain", "any"):
        return _JSDOC[parts[0]] if parts else "unknown"
    if sort == "literal":
        return "|".join(f"'{each}'" if isinstance(each, str) else str(each) for each in parts)
    return _jsdoc_of_parts(sort, [_jsdoc_type(part, names, waiting) for part in parts])


def _jsdoc_of_parts(sort: str, parts: list[str]) -> str:
    if sort == "union":
        return "|".join(dict.fromkeys(parts))
    if sort == "mapping":
        return f"Record<string, {parts[0]}>"
    if sort == "list":
        return f"({parts[0]})[]" if "|" in parts[0] else f"{parts[0]}[]"
    return f"[{', '.join(parts)}]"
