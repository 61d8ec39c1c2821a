"""Reads files without field ids, such as files imported from a Hive table, by the table's name mapping.

A file that has field ids is read by these; the mapping is then ignored. The spec: "Column Projection", "Name Mapping".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import MappedField, parse_mapping_from_json

from icemirror.errors import Invalid
from spark_job.columns.projection import FIELD_ID, nested_ids

NAME_MAPPING = "schema.name-mapping.default"


class NameMappedIO(FileIO):
    """A table's FileIO with the table's name mapping."""

    def __init__(self, io: FileIO, names: Sequence[MappedField]) -> None:
        super().__init__(io.properties)
        self._io, self.names = io, tuple(names)

    def new_input(self, location: str) -> InputFile:
        """Return the file to read at a location."""
        return self._io.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return the file to write at a location."""
        return self._io.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self._io.delete(location)


def apply_name_mapping(iceberg_table: Table) -> Table:
    """Return the table, with a `NameMappedIO` if it has a name mapping."""
    text = iceberg_table.metadata.properties.get(NAME_MAPPING)
    if text is not None and not isinstance(iceberg_table.io, NameMappedIO):
        try:
            iceberg_table.io = NameMappedIO(iceberg_table.io, list(parse_mapping_from_json(text)))
        except (ValidationError, ValueError) as error:
            raise Invalid(
                f"{'.'.join(iceberg_table.name())}: the table property {NAME_MAPPING} cannot be parsed. Correct or "
                "remove it."
            ) from error
    return iceberg_table


class NameMappedParquet(pq.ParquetFile):  # type: ignore[misc]  # PyArrow has no types
    """A Parquet file without field ids, whose columns get the ids of a name mapping. Unmapped columns are hidden.

    A file that has field ids is read as it is.
    """

    def __init__(self, source: Any, names: Sequence[MappedField], **options: Any) -> None:  # noqa: ANN401
        super().__init__(source, **options)
        schema = super().schema_arrow
        self._has_ids = any(True for _ in nested_ids(schema))
        self._schema = schema if self._has_ids else _with_ids(schema, names)

    @property
    def schema_arrow(self) -> pa.Schema:
        """The schema with field ids."""
        return self._schema

    def read_row_groups(self, *args: Any, **kwargs: Any) -> pa.Table:  # noqa: ANN401 (PyArrow's own)
        """Return row groups, with field ids."""
        table = super().read_row_groups(*args, **kwargs)
        if self._has_ids:
            return table
        fields = [self._schema.field(name) for name in table.column_names]
        columns = [
            pa.chunked_array([_with_type(chunk, field.type) for chunk in column.chunks], field.type)
            for column, field in zip(table.columns, fields, strict=True)
        ]
        return pa.table(columns, schema=pa.schema(fields))

    def iter_batches(self, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        """Yield batches, with field ids."""
        for batch in super().iter_batches(*args, **kwargs):
            if self._has_ids:
                yield batch
                continue
            fields = [self._schema.field(name) for name in batch.schema.names]
            columns = [
                _with_type(column, field.type) for column, field in zip(batch.columns, fields, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _with_type(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the same values as `target`. A cast would keep the old type: PyArrow ignores field ids in comparisons."""
    return array.view(target) if pa.types.is_nested(target) else array


def _with_ids(fields: Any, names: Sequence[MappedField]) -> pa.Schema:  # noqa: ANN401
    return pa.schema(
        [mapped_field for field in fields if (mapped_field := _map_field(field, names)) is not None]
    )


def _map_field(field: pa.Field, names: Sequence[MappedField]) -> pa.Field | None:
    mapped_field = next(
        (mapped for mapped in names if field.name in mapped.names and mapped.field_id is not None), None
    )
    if mapped_field is None:
        return None
    mapped_type = _map_type(field.type, mapped_field.fields)
    return pa.field(field.name, mapped_type, field.nullable, {FIELD_ID: str(mapped_field.field_id)})


def _map_type(arrow_type: pa.DataType, names: Sequence[MappedField]) -> pa.DataType:
    """Return the type with ids in its nested fields. A nested field that the mapping lacks gets no id."""

    def nested(child: pa.Field, name: str) -> pa.Field:
        mapped = _map_field(child.with_name(name), names)
        return child if mapped is None else mapped.with_name(child.name)

    if pa.types.is_struct(arrow_type):
        return pa.struct([nested(child, child.name) for child in arrow_type])
    if pa.types.is_map(arrow_type):
        return pa.map_(nested(arrow_type.key_field, "key"), nested(arrow_type.item_field, "value"))
    if pa.types.is_large_list(arrow_type):
        return pa.large_list(nested(arrow_type.value_field, "element"))
    if pa.types.is_list(arrow_type):
        return pa.list_(nested(arrow_type.value_field, "element"))
    return arrow_type
