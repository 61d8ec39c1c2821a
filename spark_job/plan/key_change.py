"""Refuse a missing key, and changes of key and sequence: the index of a mirror depends on them."""

from __future__ import annotations

from icemirror.errors import RECREATE, Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.shape import ChangelogShape
from spark_job.iceberg.mirror import Mirror
from spark_job.index.segment import SegmentInfo


def require_key(settings: TableSettings, consequence: str) -> None:
    """Raise if the table has no key; `consequence`: what the lack of a key means."""
    if settings.append_only:
        raise Invalid(f"{settings.name}: the table is append_only, {consequence}")


def require_same_key(name: str, mirror: Mirror, shape: ChangelogShape) -> None:
    """Refuse a key or sequence that differs from the one that the mirror was built with."""
    schema = mirror.table.schema()
    before = {schema.find_column_name(field_id) for field_id in schema.identifier_field_ids}
    mapped = [mirror.field_map[key_id] for key_id in shape.key_ids if key_id in mirror.field_map]
    now = {schema.find_column_name(field_id) for field_id in mapped}
    if before != now or len(mapped) != len(shape.key_ids):
        raise Invalid(
            f"{name}: its key is {_listed(before)}, but the settings name {_listed(now)}. "
            f"Set primary_keys back, or {RECREATE}."
        )
    salted = shape.with_mirror_salt(mirror.table.metadata.table_uuid)
    segments = mirror.root.segments if mirror.root else ()
    compatible = all(_is_compatible(segment, salted) for segment in segments)
    if not compatible or not _is_comparable(shape):
        raise Invalid(
            f"{name}: the type of its key or its sequence_column changed since it was built. "
            f"Set them back, or {RECREATE}."
        )


def _is_compatible(segment: SegmentInfo, shape: ChangelogShape) -> bool:
    """Return whether the segment encodes keys and orders from the same columns in the same way."""
    return (
        segment.key_definition == shape.key_definition
        and len(segment.greatest_order) == shape.sequence.parts + 1
    )


def _is_comparable(shape: ChangelogShape) -> bool:
    """Return whether the last truncation has the same sequence columns; it may have left no segment."""
    last, sequence = shape.followed_truncation, shape.sequence
    return last is None or (last.columns, len(last.sequence)) == (sequence.field_ids, sequence.parts)


def _listed(names: set[str | None]) -> str:
    return ", ".join(sorted(filter(None, names))) or "nothing"
