"""A mirror's key and order are fixed when it is created: its index is built on them."""

from __future__ import annotations

from icemirror.errors import MAKE_ANEW, Invalid
from spark_job.changelog.shape import ChangelogShape
from spark_job.iceberg.mirror import Mirror
from spark_job.key_index.segment import SegmentInfo


def require_same_key(name: str, mirror: Mirror, shape: ChangelogShape) -> None:
    """Refuses a key or sequence that differs from the one that the mirror was built with."""
    schema = mirror.table.schema()
    then = {schema.find_column_name(field_id) for field_id in schema.identifier_field_ids}
    known = [mirror.field_map[key_id] for key_id in shape.key_ids if key_id in mirror.field_map]
    now = {schema.find_column_name(field_id) for field_id in known}
    if then != now or len(known) != len(shape.key_ids):
        raise Invalid(
            f"{name}: its key is {_listed(then)}, now it shall be {_listed(now)}. "
            f"Set primary_keys back, or {MAKE_ANEW}."
        )
    here = shape.of_mirror(mirror.table.metadata.table_uuid)
    alike = all(_made_alike(one, here) for one in (mirror.root.segments if mirror.root else ()))
    if not alike or not _is_comparable(shape):
        raise Invalid(
            f"{name}: the type of its key or its sequence_column changed since it was built. "
            f"Set them back, or {MAKE_ANEW}."
        )


def _made_alike(segment: SegmentInfo, shape: ChangelogShape) -> bool:
    """The codes and orders of the segment come from the same columns, in the same order, in the same way."""
    return segment.recipe == shape.recipe and len(segment.greatest) == shape.sequence.parts + 1


def _is_comparable(shape: ChangelogShape) -> bool:
    """The last truncation has its place by the same columns, also where it left nothing in the index."""
    last, sequence = shape.truncated, shape.sequence
    return last is None or (last.columns, len(last.sequence)) == (sequence.field_ids, sequence.parts)


def _listed(names: set[str | None]) -> str:
    return ", ".join(sorted(filter(None, names))) or "nothing"
