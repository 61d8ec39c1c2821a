"""Refuses partitions that nobody could read, or that rows cannot be placed in."""

from __future__ import annotations

from typing import Any

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform, Transform, UnknownTransform
from pyiceberg.types import IcebergType, TimestampNanoType, TimestamptzNanoType

from icemirror.errors import Invalid


def require_readable_partition(
    name: str, column: str, kind: IcebergType, transform: Transform[Any, Any]
) -> None:
    """Refuses partitions by nanoseconds as they are: neither Iceberg Java nor PyIceberg reads their rows."""
    if isinstance(transform, IdentityTransform) and isinstance(kind, TimestampNanoType | TimestamptzNanoType):
        raise Invalid(
            f"{name}: a partition by {column}, of type {kind}, is one that neither Iceberg Java nor PyIceberg can "
            f"read. Partition by hour({column}) or bucket[16]({column})."
        )


def require_known_transforms(name: str, metadata: TableMetadata) -> None:
    """Refuses a mirror that another engine partitioned in a way of its own, by which rows cannot be placed."""
    for field in metadata.spec().fields:
        source = metadata.schema().find_field(field.source_id)
        require_readable_partition(name, source.name, source.field_type, field.transform)
        if isinstance(field.transform, UnknownTransform):
            raise Invalid(
                f"{name}: another engine partitioned the mirror by {field.name}, with a transform that this version "
                "does not know; nothing was merged. Let it take that away again (`ALTER TABLE … DROP PARTITION FIELD`)."
            )
