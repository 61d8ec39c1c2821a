"""Files without field ids, as imports of foreign tables leave them: the table's name mapping tells columns apart.

A file that has ids is read by them, whatever the mapping says. The spec, "Column Projection" and "Name Mapping".
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


class NamedIO(FileIO):
    """A table's file access that knows how columns without ids are called."""

    def __init__(self, io: FileIO, names: Sequence[MappedField]) -> None:
        super().__init__(io.properties)
        self._io, self.names = io, tuple(names)

    def new_input(self, location: str) -> InputFile:
        """A file to read."""
        return self._io.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """A file to write."""
        return self._io.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Removes a file."""
        self._io.delete(location)


def read_by_names(table: Table) -> Table:
    """The table, with file access that gives ids to columns without them, where it has a mapping for that."""
    text = table.metadata.properties.get(NAME_MAPPING)
    if text is not None and not isinstance(table.io, NamedIO):
        try:
            table.io = NamedIO(table.io, list(parse_mapping_from_json(text)))
        except (ValidationError, ValueError) as error:
            raise Invalid(
                f"{'.'.join(table.name())}: the table property {NAME_MAPPING} cannot be read. Correct or remove it."
            ) from error
    return table


class ParquetByName(pq.ParquetFile):  # type: ignore[misc]  # PyArrow has no types
    """A Parquet file whose columns have the ids of a mapping, unless it has its own. Others are not there."""

    def __init__(self, source: Any, names: Sequence[MappedField], **options: Any) -> None:  # noqa: ANN401
        super().__init__(source, **options)
        own = super().schema_arrow
        self._schema = own if any(True for _ in nested_ids(own)) else _with_ids(own, names)
        self._own = self._schema is own

    @property
    def schema_arrow(self) -> pa.Schema:
        """With ids."""
        return self._schema

    def read_row_groups(self, *arguments: Any, **named: Any) -> pa.Table:  # noqa: ANN401 (PyArrow's own)
        """With ids."""
        table = super().read_row_groups(*arguments, **named)
        if self._own:
            return table
        fields = [self._schema.field(name) for name in table.column_names]
        columns = [
            pa.chunked_array([_as(chunk, field.type) for chunk in column.chunks], field.type)
            for column, field in zip(table.columns, fields, strict=True)
        ]
        return pa.table(columns, schema=pa.schema(fields))

    def iter_batches(self, *arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        """With ids."""
        for batch in super().iter_batches(*arguments, **named):
            if self._own:
                yield batch
                continue
            fields = [self._schema.field(name) for name in batch.schema.names]
            columns = [_as(column, field.type) for column, field in zip(batch.columns, fields, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _as(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values. Types that differ in the ids of their fields are equal to PyArrow, so a cast does nothing."""
    return array.view(target) if pa.types.is_nested(target) else array


def _with_ids(fields: Any, names: Sequence[MappedField]) -> pa.Schema:  # noqa: ANN401
    return pa.schema([found for field in fields if (found := _mapped(field, names)) is not None])


def _mapped(field: pa.Field, names: Sequence[MappedField]) -> pa.Field | None:
    known = next((one for one in names if field.name in one.names and one.field_id is not None), None)
    if known is None:
        return None
    kind = _kind(field.type, known.fields)
    return pa.field(field.name, kind, field.nullable, {FIELD_ID: str(known.field_id)})


def _kind(kind: pa.DataType, names: Sequence[MappedField]) -> pa.DataType:
    """A part that the mapping does not know keeps having no id."""

    def inside(part: pa.Field, name: str) -> pa.Field:
        called = _mapped(part.with_name(name), names)
        return part if called is None else called.with_name(part.name)

    if pa.types.is_struct(kind):
        return pa.struct([inside(part, part.name) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(inside(kind.key_field, "key"), inside(kind.item_field, "value"))
    if pa.types.is_large_list(kind):
        return pa.large_list(inside(kind.value_field, "element"))
    if pa.types.is_list(kind):
        return pa.list_(inside(kind.value_field, "element"))
    return kind
