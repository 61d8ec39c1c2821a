"""Values of columns that a data file does not contain (the spec, "Column Projection").

The value of an identity partition, else the column's initial default, else NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from icemirror.errors import Invalid
from spark_job.columns.field_map import nested_fields

# Field id → value. Any: of the column's type.
MissingValues = Mapping[int, Any]


def initial_defaults(schema: Schema) -> MissingValues:
    """Return the initial defaults of a table's fields, at any depth."""
    return {
        field.field_id: field.initial_default
        for field in nested_fields(schema.as_struct())
        if field.initial_default is not None
    }


def identity_columns(specs: Mapping[int, PartitionSpec]) -> dict[int, tuple[tuple[int, int], ...]]:
    """Return for each spec id the (position in the partition, field id) of columns with an identity transform."""
    return {
        spec_id: tuple(
            (position, field.source_id)
            for position, field in enumerate(spec.fields)
            if isinstance(field.transform, IdentityTransform)
        )
        for spec_id, spec in specs.items()
    }


class MissingColumns:
    """The values of a table's columns in files that do not contain them."""

    def __init__(self, schema: Schema, specs: Mapping[int, PartitionSpec]) -> None:
        self.defaults, self._identities = initial_defaults(schema), identity_columns(specs)

    def values_in_file(self, spec_id: int, partition: Record) -> MissingValues:
        """Return the values in a file of this partition."""
        identities = self._identities[spec_id]
        return {**self.defaults, **{field_id: partition[position] for position, field_id in identities}}


def fill_missing_column(
    field: pa.Field, rows: int, field_id: int, missing_values: MissingValues, path: str
) -> pa.Array:
    """Return a column of `rows` values for a field that the file does not contain."""
    value = missing_values.get(field_id)
    if value is None:
        return pa.nulls(rows, field.type)
    arrow_type = field.type
    storage_type = arrow_type.storage_type if isinstance(arrow_type, pa.BaseExtensionType) else arrow_type
    try:
        values = pa.repeat(pa.scalar(value.bytes if isinstance(value, UUID) else value, storage_type), rows)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        # Without Arrow's message: it contains the value.
        raise Invalid(
            f"the file has no column {field.name}, and its default or partition value is no {field.type}: {path}"
        ) from None
    return pa.ExtensionArray.from_storage(arrow_type, values) if storage_type is not arrow_type else values
