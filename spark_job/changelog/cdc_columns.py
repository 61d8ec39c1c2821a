"""Find the columns that a CDC writer adds to those of its source, by the settings or by the profile."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from itertools import pairwise

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.sequence import SequenceCodec, choose_sequence
from spark_job.changelog.sequence_text import SequenceEncoding

_OPERATION_TYPES = (StringType, BooleanType, IntegerType, LongType)
_DELETE_TYPES = (
    *_OPERATION_TYPES,
    DateType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column, or a nested field with its dotted name, and the top-level column that contains it."""

    field: NestedField
    top_level: NestedField


@dataclass(frozen=True, slots=True)
class CdcColumns:
    """The columns of a CDC writer; `deleted` is a column other than the operation that flags deleted rows."""

    operation: ColumnRef | None
    sequence: tuple[ColumnRef, ...]
    deleted: ColumnRef | None

    @property
    def top_level_ids(self) -> set[int]:
        """The field ids of the top-level columns that belong to the writer."""
        columns = (self.operation, *self.sequence, self.deleted)
        return {column.top_level.field_id for column in columns if column is not None}


def find_cdc_columns(table_settings: TableSettings, schema: Schema) -> CdcColumns:
    """Return the columns of operation, sequence and delete flag."""
    operation, deleted = _find_operation(table_settings, schema), _find_delete_flag(table_settings, schema)
    if operation is None and not table_settings.upsert_only:
        deleted = deleted or _profile_delete_column(table_settings, schema)
    return CdcColumns(operation, _find_sequence(table_settings, schema), deleted)


def _find_operation(table_settings: TableSettings, schema: Schema) -> ColumnRef | None:
    name = table_settings.resolved_operation_column
    if name is None:
        return None
    if table_settings.operation_column is None:
        name = _supabase_etl_name(table_settings, schema, name)
        if find_column(schema, name) is None and _has_delete_column(table_settings, schema):
            return None
    column = require_column(table_settings, schema, name, "operation_column")
    if not isinstance(column.field.field_type, _OPERATION_TYPES):
        raise Invalid(
            f"{table_settings.changelog_id}: column {name} of type {column.field.field_type} cannot hold the "
            f"operation: use a column of type string, boolean, int or long (operation_column of {table_settings.name})"
        )
    return column


def _has_delete_column(table_settings: TableSettings, schema: Schema) -> bool:
    default_name = table_settings.profile_defaults.delete_column
    return table_settings.delete_column is not None or (
        default_name is not None and find_column(schema, default_name) is not None
    )


def _profile_delete_column(table_settings: TableSettings, schema: Schema) -> ColumnRef | None:
    name = table_settings.profile_defaults.delete_column
    # The error names operation_column: an operation replaces the profile's delete column.
    return None if name is None else require_column(table_settings, schema, name, "operation_column")


def _find_delete_flag(table_settings: TableSettings, schema: Schema) -> ColumnRef | None:
    if table_settings.delete_column is None:
        return None
    column = require_column(table_settings, schema, table_settings.delete_column, "delete_column")
    if not isinstance(column.field.field_type, _DELETE_TYPES):
        raise Invalid(
            f"{table_settings.changelog_id}: column {table_settings.delete_column} of type {column.field.field_type} "
            "cannot flag deleted rows: use a boolean, integer, date, timestamp or text (delete_column of "
            f"{table_settings.name})"
        )
    return column


def _find_sequence(table_settings: TableSettings, schema: Schema) -> tuple[ColumnRef, ...]:
    connector = table_settings.connector_defaults
    if connector is None:
        names = table_settings.resolved_sequence_columns
        if table_settings.sequence_column is None:
            names = tuple(_supabase_etl_name(table_settings, schema, name) for name in names)
        return tuple(require_column(table_settings, schema, name, "sequence_column") for name in names)
    required = [
        _find_first(schema, names) or require_column(table_settings, schema, names[0], "sequence_column")
        for names in connector.columns
    ]
    optional = [_find_first(schema, names) for names in connector.optional_columns]
    return (*required, *(column for column in optional if column is not None))


def _find_first(schema: Schema, names: tuple[str, ...]) -> ColumnRef | None:
    return next((column for name in names if (column := find_column(schema, name)) is not None), None)


def sequence_codec(table_settings: TableSettings, columns: tuple[ColumnRef, ...]) -> SequenceCodec:
    """Return the codec of the sequence columns."""
    fields = [column.field for column in columns]
    try:
        return choose_sequence(
            fields,
            {
                field.name: SequenceEncoding(table_settings.sequence_format_for(field.name))
                for field in fields
            },
        )
    except Invalid as error:
        raise Invalid(
            f"{table_settings.changelog_id}: {error} (sequence_column of {table_settings.name})"
        ) from error


def _supabase_etl_name(table_settings: TableSettings, schema: Schema, name: str) -> str:
    """Return the name of a writer's column. Supabase ETL appends `_1`, `_2` … if the source has a column of that name.

    Supabase ETL creates its two columns with the table, the operation first, after all columns of the source. Columns
    that the source gets later follow them, are optional, and may have any name.
    """
    if table_settings.profile != "supabase-etl":
        return name
    operation, sequence = (
        table_settings.resolved_operation_column or name,
        table_settings.resolved_sequence_columns[0],
    )
    pairs = [
        (first, second)
        for first, second in pairwise(sorted(schema.fields, key=lambda field: field.field_id))
        if _has_name_with_suffix(first, operation) and _has_name_with_suffix(second, sequence)
    ]
    writer_columns = max(
        pairs, key=lambda pair: (pair[0].required and pair[1].required, pair[0].field_id), default=None
    )
    return next(
        (field.name for field in writer_columns or schema.fields[-2:] if _has_name_with_suffix(field, name)),
        name,
    )


def _has_name_with_suffix(field: NestedField, name: str) -> bool:
    return re.fullmatch(rf"{re.escape(name)}(_\d+)?", field.name) is not None


def find_column(schema: Schema, name: str) -> ColumnRef | None:
    """Return a column, or a nested field by its dotted name; None if there is none."""
    for column in schema.fields:
        if column.name == name:
            return ColumnRef(column, column)
    for column in schema.fields:
        if name.startswith(f"{column.name}."):
            nested = _find_nested(column, name[len(column.name) + 1 :])
            if nested is not None:
                return ColumnRef(nested.model_copy(update={"name": name}), column)
    return None


def _find_nested(field: NestedField, name: str) -> NestedField | None:
    if not isinstance(field.field_type, StructType):
        return None
    for child in field.field_type.fields:
        if child.name == name:
            return child
        if name.startswith(f"{child.name}.") and (nested := _find_nested(child, name[len(child.name) + 1 :])):
            return nested
    return None


def require_column(table_settings: TableSettings, schema: Schema, name: str, setting: str) -> ColumnRef:
    """Return the column that a setting names; raise `Invalid` with the most similar name if it is missing."""
    column = find_column(schema, name)
    if column is not None:
        return column
    raise unknown_column(table_settings, schema, name, setting)


def unknown_column(table_settings: TableSettings, schema: Schema, name: str, setting: str) -> Invalid:
    """Return the error of a setting that names a column which the changelog does not have."""
    names = [field.name for field in schema.fields]
    similar_names = difflib.get_close_matches(name, names, n=1)
    hint = (
        f"did you mean {similar_names[0]}?" if similar_names else f"its columns are {', '.join(names[:20])}."
    )
    return Invalid(
        f"{table_settings.name}: {setting} names {name}, but the changelog {table_settings.changelog_id} has no "
        f"column {name}; {hint} Correct {setting}."
    )
