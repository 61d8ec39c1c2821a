"""What others did to a mirror's own columns, in words: a merge refuses to guess what they meant."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from spark_job.columns.field_map import FieldMap, field_ids


def mirror_changes(
    changelog: Schema, mirror: Schema, ids: FieldMap, ours: Schema | None = None
) -> tuple[str, ...]:
    """How others changed the mirror's fields, at any depth. `ours`: its schema as icemirror left it, if known.

    Comments are theirs to write, and they may drop a column that the changelog does not have any more.
    """
    there = set(field_ids(mirror.as_struct()))
    made = {*ids.values(), *(field_ids(ours.as_struct()) if ours else ())}
    added = [mirror.find_column_name(field_id) for field_id in sorted(there - made)]
    dropped = [
        changelog.find_column_name(source)
        for source, target in ids.items()
        if target not in there and changelog.find_column_name(source) is not None
    ]
    changed = _changed(ours, mirror) if ours else ()
    return (
        *(f"column {name} dropped" for name in dropped),
        *(f"column {name} added" for name in added),
        *changed,
    )


def _changed(ours: Schema, mirror: Schema) -> Iterator[str]:
    there = set(field_ids(mirror.as_struct()))
    for field_id in field_ids(ours.as_struct()):
        if field_id in there:
            yield from _differences(
                ours.find_column_name(field_id) or "", ours.find_field(field_id), mirror.find_field(field_id)
            )


def _differences(name: str, before: NestedField, after: NestedField) -> Iterator[str]:
    if before.name != after.name:
        yield f"column {name} renamed to {after.name}"
    if before.field_type.is_primitive and before.field_type != after.field_type:
        yield f"column {name} changed from {before.field_type} to {after.field_type}"
    if after.required and not before.required:
        yield f"column {name} made required"
