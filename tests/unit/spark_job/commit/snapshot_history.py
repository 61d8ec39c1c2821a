"""Table metadata with a given history of snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.types import LongType, NestedField

from spark_job.iceberg.property_names import PROPERTY_CURSOR

NOW = 1_800_000_000_000


HOUR = 3_600_000


PROPERTIES = {
    "history.expire.min-snapshots-to-keep": "2",
    "history.expire.max-snapshot-age-ms": str(10 * HOUR),
    "icemirror.max-snapshots": "6",
}


def metadata_of(
    line: Sequence[int],
    *,
    age_hours: Mapping[int, float] | None = None,
    others: Mapping[int, int] | None = None,
    refs: Mapping[str, Mapping[str, Any]] | None = None,
    properties: Mapping[str, str] = PROPERTIES,
    cursors: Sequence[int] | None = None,
) -> TableMetadata:
    """Return a table whose main branch is `line`, oldest first; `others` maps other snapshots to their parents.

    All snapshots have cursors, or only those in `cursors`.
    """
    ages = age_hours or {}
    parents = dict(zip(line, [None, *line], strict=False)) | dict(others or {})
    snapshots = [
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": number,
            "timestamp-ms": NOW - int(ages.get(snapshot_id, 0) * HOUR),
            "manifest-list": f"s3://b/snap-{snapshot_id}.avro",
            "summary": {"operation": "append"}
            | ({PROPERTY_CURSOR: "{}"} if cursors is None or snapshot_id in cursors else {}),
            "schema-id": 0,
        }
        for number, (snapshot_id, parent) in enumerate(parents.items(), 1)
    ]
    main = {"main": {"snapshot-id": line[-1], "type": "branch"}} if line else {}
    return TableMetadataV2.model_validate(
        {
            "format-version": 2,
            "location": "s3://b/t",
            "table-uuid": "6f6b9b5e-2a5e-4d0e-9a57-0c3f5a3b6f11",
            "last-sequence-number": len(snapshots),
            "last-updated-ms": NOW,
            "last-column-id": 1,
            "current-schema-id": 0,
            "schemas": [Schema(NestedField(1, "id", LongType(), required=True)).model_dump(by_alias=True)],
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": dict(properties),
            "current-snapshot-id": line[-1] if line else None,
            "snapshots": snapshots,
            "refs": {**main, **(refs or {})},
        }
    )
