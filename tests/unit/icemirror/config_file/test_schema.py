from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from icemirror.config_file.reference import render_settings, replace_block
from icemirror.config_file.schema import SchemaReader, json_schema

DOCUMENT = Path(__file__).parents[4] / "docs" / "reference" / "configuration.md"


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for inner in node.values():
            yield from objects(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from objects(inner)


def test_every_setting_has_a_description() -> None:
    missing = [
        ".".join(entry.path)
        for entry in SchemaReader(json_schema()).entries()
        if not entry.node.get("description")
    ]
    assert missing == []


def test_schema_refuses_unknown_keys() -> None:
    sections = [node for node in objects(json_schema()) if "properties" in node]
    assert len(sections) > 15
    assert all(node["additionalProperties"] is False for node in sections)


def test_durations_and_sizes_have_examples_and_patterns() -> None:
    entries = {".".join(entry.path): entry.node for entry in SchemaReader(json_schema()).entries()}
    assert entries["merge_interval"]["default"] == "1h"
    assert "500ms" in entries["merge_interval"]["examples"]
    assert "pattern" in entries["merge_interval"]
    assert entries["job.max_slice_bytes"]["default"] == "512MB"
    assert "pattern" in entries["job.max_slice_bytes"]


def test_documentation_lists_all_settings() -> None:
    """If this fails: python -m icemirror.config_file.reference."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert replace_block(text) == text
    assert render_settings() in text


def test_reference_contains_every_kind_of_key() -> None:
    rendered = render_settings()
    for key in (
        "`tables[].namespace`",
        "`discover[].match`",
        "`trigger.launcher(emr-serverless).timeout`",
        "`trigger.sources.kafka.password` | secret",
        "`iceberg.catalog`",
        "`job.linger` | duration | `60s`",
    ):
        assert key in rendered
