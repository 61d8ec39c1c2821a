"""Table options from icemirror's settings: samples of every option, and the checks of Terraform and the chart.

`python -m tests.infra.table_samples` rewrites infra/terraform/table_options.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from icemirror.config_file.schema import Node, SchemaReader, json_schema
from icemirror.settings.discovery import ChangelogPattern
from icemirror.settings.table_options import TableOptions

Table = dict[str, Any]

# The Terraform module has one catalog and names tables as database.table.
NOT_IN_TERRAFORM = {"changelog_catalog", "mirror_catalog"}
OPTIONS = set(TableOptions.model_fields) - NOT_IN_TERRAFORM
# Options that another option requires.
_REQUIRED_WITH: Mapping[str, Table] = {
    "connector": {"profile": "debezium"},
    "sequence_format": {"sequence_column": ["a"]},
    "profile": {"sequence_column": ["a"], "operation_column": "op"},
}
# Samples for options whose schema allows values that the settings refuse.
_MANUAL: Mapping[str, Any] = {
    "operation_values": {"insert": ["i"], "update": ["u"], "delete": ["d"], "truncate": ["t"], "ignore": ["x"]},
    "sequence_column": ["a", "b"],
    "group": "slow",
}  # fmt: skip

_WALK = SchemaReader(json_schema())
_TABLE = _WALK.resolve(_WALK.resolve(json_schema()["properties"]["tables"])["items"])


def node_of(option: str) -> Node:
    """Return the schema of an option."""
    return _WALK.resolve(_TABLE["properties"][option])


def choices() -> dict[str, list[Any]]:
    """Return the allowed values of every option that lists them."""
    return {option: list(node["enum"]) for option in sorted(OPTIONS) if "enum" in (node := node_of(option))}


def tables() -> Iterator[tuple[str, Table]]:
    """Yield valid tables: one for each option and sample value."""
    for option in sorted(OPTIONS):
        for index, value in enumerate(_values(option)):
            names = {"changelog": f"raw.{option}_{index}", "mirror": f"shop.{option}_{index}"}
            yield option, {**names, **_REQUIRED_WITH.get(option, {}), option: value}


def _values(option: str) -> list[Any]:
    return [_MANUAL[option]] if option in _MANUAL else list(_sample_values(node_of(option)))


def _sample_values(node: Node) -> Iterator[Any]:
    """Yield a few values that a schema allows."""
    match _WALK.resolve(node):
        case {"enum": [*values]}:
            yield from values
        case {"examples": [*values]}:
            yield from values
        case {"properties": dict(inner)}:
            yield from ({name: value} for name, child in inner.items() for value in _sample_values(child))
        case {"type": "array", "items": dict(items)}:
            yield list(_sample_values(items))
        case {"type": "object", "additionalProperties": dict(items)}:
            yield from ({"a": value} for value in _sample_values(items))
        case {"type": "boolean"}:
            yield from (True, False)
        case {"type": "number"}:
            yield from (0.25, 1)
        case {"type": "string"} | {"type": ["string", *_]}:
            yield "a"
        case unsupported:
            raise AssertionError(f"no sample value for the schema {unsupported}")


def names_and_choices(kind: type[TableOptions]) -> dict[str, Any]:
    """Return the part of the chart's schema that refuses unknown options and unlisted values; `${NAME}` is allowed."""
    allowed_values = choices() | {"format_version": [2, 3, "2", "3"]}
    return {
        "type": "object",
        "propertyNames": {"enum": sorted(kind.model_fields)},
        "properties": {
            option: {"anyOf": [{"enum": values}, {"type": "string", "pattern": r"\$\{"}]}
            for option, values in sorted(allowed_values.items())
        },
    }


def terraform_options() -> dict[str, Any]:
    """Return the content of infra/terraform/table_options.json: option names, listed values, and text patterns."""
    patterns = {option: node for option in sorted(OPTIONS) if "pattern" in (node := node_of(option))}
    return {
        "names": {
            "tables": sorted(OPTIONS | {"changelog", "mirror"}),
            "discover": sorted(OPTIONS | set(ChangelogPattern.model_fields)),
        },
        "choices": {option: [str(value) for value in values] for option, values in choices().items()},
        "patterns": {
            option: {"pattern": node["pattern"], "hint": _hint(node)} for option, node in patterns.items()
        },
    }


def _hint(node: Node) -> str:
    if "examples" in node:
        return f"a {node['x-type']} such as {', '.join(node['examples'])}"
    return f"text that matches {node['pattern']}"


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "infra" / "terraform" / "table_options.json"
    path.write_text(json.dumps(terraform_options(), indent=2) + "\n", encoding="utf-8")
