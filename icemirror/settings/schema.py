"""The configuration's JSON schema, and the way through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from icemirror.settings.model import Settings

# JSON schema is a recursive mapping without a fixed shape.
Node = Mapping[str, Any]
Path = tuple[str | int, ...]


class Entry(NamedTuple):
    """One setting: its path (`[]` for the items of a list), its schema, and whether it must be given."""

    path: tuple[str, ...]
    node: Node
    required: bool


@cache
def json_schema() -> dict[str, Any]:
    """The schema of the configuration file, complete with descriptions and defaults."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Settings.model_json_schema(),
        "title": "icemirror configuration",
    }


class SchemaWalk:
    """Finds the schema of what stands at a path."""

    def __init__(self, schema: Node) -> None:
        self._root = schema

    def resolve(self, node: Node) -> Node:
        """The node behind references and behind `or null`, with what stands beside the reference."""
        if "$ref" in node:
            target = self._root["$defs"][node["$ref"].rsplit("/", 1)[1]]
            return self.resolve({**target, **{key: value for key, value in node.items() if key != "$ref"}})
        options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
        if "anyOf" in node and len(options) == 1:
            rest = {key: value for key, value in node.items() if key != "anyOf"}
            return self.resolve({**options[0], **rest})
        return node

    def variants(self, node: Node) -> dict[str, Node]:
        """The cases of a union that is told apart by `type`."""
        mapping = node.get("discriminator", {}).get("mapping", {})
        return {tag: self.resolve({"$ref": reference}) for tag, reference in mapping.items()}

    def follow(self, location: tuple[str | int, ...]) -> tuple[Path, Node]:
        """The document's path and its schema, for a location of pydantic's (it names a union's case)."""
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

    def entries(self) -> Iterator[Entry]:
        """Every setting, section by section, as deep as the sections go."""
        yield from self._entries(self.resolve(self._root), ())

    def _entries(self, node: Node, path: tuple[str, ...]) -> Iterator[Entry]:
        for name, raw in node.get("properties", {}).items():
            inner = self.resolve(raw)
            here = (*path, name)
            yield Entry(here, inner, name in node.get("required", ()))
            if inner.get("type") == "array":
                yield from self._entries(self.resolve(inner.get("items", {})), (*path, f"{name}[]"))
            else:
                yield from self._entries(inner, here)
            for tag, variant in self.variants(inner).items():
                yield from self._entries(variant, (*path, f"{name}({tag})"))
