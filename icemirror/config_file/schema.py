"""The JSON schema of the configuration, and lookups in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from icemirror.config_file.document import KeyPath
from icemirror.settings.model import Settings

# Any: a JSON schema is a recursive mapping without a fixed structure.
Node = Mapping[str, Any]


class SettingEntry(NamedTuple):
    """One setting: its path (`[]` for list items), its schema, and whether it is required."""

    path: tuple[str, ...]
    node: Node
    required: bool


@cache
def json_schema() -> dict[str, Any]:
    """Return the schema of the configuration file, with descriptions and defaults."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Settings.model_json_schema(),
        "title": "icemirror configuration",
    }


class SchemaReader:
    """Finds the schema of the value at a path."""

    def __init__(self, schema: Node) -> None:
        self._root = schema

    def resolve(self, node: Node) -> Node:
        """Return the node without references and `or null`, with the keys next to the reference."""
        if "$ref" in node:
            target = self._root["$defs"][node["$ref"].rsplit("/", 1)[1]]
            return self.resolve({**target, **{key: value for key, value in node.items() if key != "$ref"}})
        options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
        if "anyOf" in node and len(options) == 1:
            other_keys = {key: value for key, value in node.items() if key != "anyOf"}
            return self.resolve({**options[0], **other_keys})
        return node

    def variants(self, node: Node) -> dict[str, Node]:
        """Return the variants of a union that `type` selects."""
        mapping = node.get("discriminator", {}).get("mapping", {})
        return {tag: self.resolve({"$ref": reference}) for tag, reference in mapping.items()}

    def follow(self, location: KeyPath) -> tuple[KeyPath, Node]:
        """Return the document's path and schema for a location of pydantic, which includes variant names."""
        path: list[str | int] = []
        node = self.resolve(self._root)
        for step in location:
            variants = self.variants(node)
            if step in variants:
                node = variants[str(step)]
                continue
            path.append(step)
            if isinstance(step, int):
                node = self.resolve(node.get("items", {}))
            else:
                inner = node.get("properties", {}).get(step, node.get("additionalProperties"))
                node = self.resolve(inner) if isinstance(inner, dict) else {}
        return tuple(path), node

    def entries(self) -> Iterator[SettingEntry]:
        """Yield every setting, section by section, at every depth."""
        yield from self._entries(self.resolve(self._root), ())

    def _entries(self, node: Node, path: tuple[str, ...]) -> Iterator[SettingEntry]:
        for name, raw in node.get("properties", {}).items():
            inner = self.resolve(raw)
            entry_path = (*path, name)
            yield SettingEntry(entry_path, inner, name in node.get("required", ()))
            if inner.get("type") == "array":
                yield from self._entries(self.resolve(inner.get("items", {})), (*path, f"{name}[]"))
            else:
                yield from self._entries(inner, entry_path)
            for tag, variant in self.variants(inner).items():
                yield from self._entries(variant, (*path, f"{name}({tag})"))
