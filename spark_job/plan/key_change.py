"""Refuses changes of key and sequence, and a missing key: the index of a mirror depends on them."""

from __future__ import annotations

from icemirror.errors import RECREATE_ADVICE, Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.shape import ChangelogShape
from spark_job.iceberg.mirror import Mirror
from spark_job.index.segment import SegmentInfo


def refuse_append_only(table_settings: TableSettings, consequence: str) -> None:
    """Raise if the table is append-only, which means without a key. `consequence`: end of the error's text."""
    if table_settings.append_only:
        raise Invalid(f"{table_settings.name}: the table is append_only, {consequence}")


def require_same_key(name: str, mirror: Mirror, shape: ChangelogShape) -> None:
    """Refuse a key or sequence that differs from the one that the mirror was built with."""
    schema = mirror.table.schema()
    key_names = {schema.find_column_name(field_id) for field_id in schema.identifier_field_ids}
    mapped_ids = [mirror.field_map[key_id] for key_id in shape.key_ids if key_id in mirror.field_map]
    new_key_names = {schema.find_column_name(field_id) for field_id in mapped_ids}
    if key_names != new_key_names or len(mapped_ids) != len(shape.key_ids):
        raise Invalid(
            f"{name}: its key is {_join_names(key_names)}, but the settings name {_join_names(new_key_names)}. "
            f"Set primary_keys back, or {RECREATE_ADVICE}."
        )
    salted = shape.with_mirror_salt(mirror.table.metadata.table_uuid)
    segments = mirror.root.segments if mirror.root else ()
    has_same_encoding = all(_is_compatible(segment, salted) for segment in segments)
    if not has_same_encoding or not _has_same_sequence(shape):
        raise Invalid(
            f"{name}: the type of its key or its sequence_column changed since it was built. "
            f"Set them back, or {RECREATE_ADVICE}."
        )


def _is_compatible(segment: SegmentInfo, shape: ChangelogShape) -> bool:
    """Return whether the segment encodes keys and orders from the same columns in the same way."""
    return (
        segment.key_definition == shape.key_definition
        and len(segment.greatest_order) == shape.sequence.parts + 1
    )


def _has_same_sequence(shape: ChangelogShape) -> bool:
    """Return whether the applied truncation has the sequence columns of the settings.

    A truncation may leave no segment to compare.
    """
    truncation, sequence = shape.applied_truncation, shape.sequence
    return truncation is None or (truncation.columns, len(truncation.sequence)) == (
        sequence.field_ids,
        sequence.parts,
    )


def _join_names(names: set[str | None]) -> str:
    return ", ".join(sorted(filter(None, names))) or "nothing"
