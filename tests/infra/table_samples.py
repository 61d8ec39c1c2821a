"""Tables that use an option each, made from the settings themselves: what an environment must carry as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from icemirror.settings.schema import Node, SchemaWalk, json_schema
from icemirror.settings.table_options import TableOptions

Table = dict[str, Any]

# The module has one catalog, and names tables with their database.
NOT_IN_TERRAFORM = {"changelog_catalog", "mirror_catalog"}
OPTIONS = set(TableOptions.model_fields) - NOT_IN_TERRAFORM
# What an option cannot be without, or the schema cannot say.
_BESIDE: Mapping[str, Table] = {
    "connector": {"profile": "debezium"},
    "sequence_format": {"sequence_column": ["a"]},
    "profile": {"sequence_column": ["a"], "operation_column": "op"},
}
_BY_HAND: Mapping[str, Any] = {
    "operation_values": {"insert": ["i"], "update": ["u"], "delete": ["d"], "truncate": ["t"], "ignore": ["x"]},
    "sequence_column": ["a", "b"],
    "group": "slow",
}  # fmt: skip

_WALK = SchemaWalk(json_schema())
_TABLE = _WALK.resolve(_WALK.resolve(json_schema()["properties"]["tables"])["items"])


def node_of(option: str) -> Node:
    """The schema of an option."""
    return _WALK.resolve(_TABLE["properties"][option])


def choices() -> dict[str, list[Any]]:
    """The options whose values are listed, with these."""
    return {option: list(node["enum"]) for option in sorted(OPTIONS) if "enum" in (node := node_of(option))}


def attributes(option: str) -> set[str]:
    """The keys of an option that is a section; none otherwise."""
    return set(node_of(option).get("properties", ()))


def tables() -> Iterator[tuple[str, Table]]:
    """For every option, and every value of it that there is to try, a table that the settings take."""
    for option in sorted(OPTIONS):
        for at, value in enumerate(_values(option)):
            names = {"changelog": f"raw.{option}_{at}", "mirror": f"shop.{option}_{at}"}
            yield option, {**names, **_BESIDE.get(option, {}), option: value}


def _values(option: str) -> list[Any]:
    return [_BY_HAND[option]] if option in _BY_HAND else list(_tried(node_of(option)))


def _tried(node: Node) -> Iterator[Any]:
    """Values that a schema allows, a few of each kind."""
    match _WALK.resolve(node):
        case {"enum": [*values]}:
            yield from values
        case {"examples": [*values]}:
            yield from values
        case {"properties": dict(inner)}:
            yield from ({name: value} for name, one in inner.items() for value in _tried(one))
        case {"type": "array", "items": dict(items)}:
            yield list(_tried(items))
        case {"type": "object", "additionalProperties": dict(items)}:
            yield from ({"a": value} for value in _tried(items))
        case {"type": "boolean"}:
            yield from (True, False)
        case {"type": "number"}:
            yield from (0.25, 1)
        case {"type": "string"} | {"type": ["string", *_]}:
            yield "a"
        case other:
            raise AssertionError(f"nobody knows a value of {other}")


def names_and_choices(kind: type[TableOptions]) -> dict[str, Any]:
    """The part of a JSON schema that refuses misspelt options and values that are not listed; `${NAME}` may be any."""
    own = choices() | {"format_version": [2, 3, "2", "3"]}
    return {
        "type": "object",
        "propertyNames": {"enum": sorted(kind.model_fields)},
        "properties": {
            option: {"anyOf": [{"enum": values}, {"type": "string", "pattern": r"\$\{"}]}
            for option, values in sorted(own.items())
        },
    }
