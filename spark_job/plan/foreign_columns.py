"""Describes changes that other engines made to a mirror's columns."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from spark_job.columns.field_map import FieldMap, field_ids
from spark_job.iceberg.merged_schema import read_merged_schema
from spark_job.iceberg.mirror import Mirror
from spark_job.plan.row_columns import follows_changelog


def find_foreign_changes(row: Schema, changelog: TableMetadata, mirror: Mirror) -> tuple[str, ...]:
    """Describe changes by other engines. Return none if the changelog was recreated and the schema is unknown."""
    metadata, current = mirror.table.metadata, mirror.table.schema()
    merged_schema = read_merged_schema(metadata.properties)
    if merged_schema is not None and merged_schema.mirror_schema == current.schema_id:
        return ()
    last_committed = metadata.schema_by_id(merged_schema.mirror_schema) if merged_schema else None
    if last_committed is None and not follows_changelog(mirror.table, changelog):
        return ()
    return describe_foreign_changes(row, current, mirror.field_map, last_committed)


def describe_foreign_changes(
    changelog: Schema, mirror_schema: Schema, field_map: FieldMap, last_committed: Schema | None = None
) -> tuple[str, ...]:
    """Describe how other engines changed the mirror's fields, at any depth: a merge refuses to guess their intent.

    `last_committed`: the schema of icemirror's last commit, if known. Other engines may change comments, and drop a
    column that the changelog has dropped.
    """
    mirror_ids = set(field_ids(mirror_schema.as_struct()))
    committed_ids = {*field_map.values(), *(field_ids(last_committed.as_struct()) if last_committed else ())}
    added = [mirror_schema.find_column_name(field_id) for field_id in sorted(mirror_ids - committed_ids)]
    dropped = [
        changelog.find_column_name(source_id)
        for source_id, mirror_id in field_map.items()
        if mirror_id not in mirror_ids and changelog.find_column_name(source_id) is not None
    ]
    changed = _describe_changed_fields(last_committed, mirror_schema) if last_committed else ()
    return (
        *(f"column {name} dropped" for name in dropped),
        *(f"column {name} added" for name in added),
        *changed,
    )


def _describe_changed_fields(last_committed: Schema, mirror_schema: Schema) -> Iterator[str]:
    mirror_ids = set(field_ids(mirror_schema.as_struct()))
    for field_id in field_ids(last_committed.as_struct()):
        if field_id in mirror_ids:
            yield from _describe_field_change(
                last_committed.find_column_name(field_id) or "",
                last_committed.find_field(field_id),
                mirror_schema.find_field(field_id),
            )


def _describe_field_change(name: str, committed: NestedField, current: NestedField) -> Iterator[str]:
    if committed.name != current.name:
        yield f"column {name} renamed to {current.name}"
    if committed.field_type.is_primitive and committed.field_type != current.field_type:
        yield f"column {name} changed from {committed.field_type} to {current.field_type}"
    if current.required and not committed.required:
        yield f"column {name} made required"
