"""Table properties that name a column: they go on for it under its new name."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from icemirror.mirror_properties import BLOOM_FILTER_FPP, BLOOM_FILTER_NDV
from spark_job.iceberg.metrics_modes import COLUMN
from spark_job.iceberg.parquet_options import BLOOM_FILTER

_PREFIXES = (COLUMN, BLOOM_FILTER, BLOOM_FILTER_FPP, BLOOM_FILTER_NDV)


def renamed_properties(before: Schema, after: Schema, properties: Mapping[str, str]) -> dict[str, str]:
    """What a table whose columns get other names has to be told besides, as Iceberg Java does it."""
    told: dict[str, str] = {}
    for prefix in _PREFIXES:
        for name, text in properties.items():
            if name.startswith(prefix) and (column := _find(before, name.removeprefix(prefix))) is not None:
                now = after.find_column_name(column.field_id)
                if now is not None and f"{prefix}{now}" != name:
                    told[f"{prefix}{now}"] = text
    return told


def _find(schema: Schema, name: str) -> NestedField | None:
    try:
        return schema.find_field(name)
    except ValueError:
        return None
