"""Published schemas, closed: a key that is not described is an error, which readers would ignore."""

from __future__ import annotations

from typing import Any

import jsonschema

from deniable.documents import json_schema

__all__ = ["closed", "problems_of"]


def closed(schema: Any) -> Any:
    """The schema in which no object has a key that is not described."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(each) for name, each in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        found["additionalProperties"] = False
    return found


def problems_of(kind: Any, document: Any) -> list[str]:
    """What is wrong with a document of this type."""
    components: dict[str, Any] = {}
    schema = json_schema(kind, components)
    whole = closed({**schema, "components": {"schemas": components}})
    found = jsonschema.Draft202012Validator(whole).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in found]
