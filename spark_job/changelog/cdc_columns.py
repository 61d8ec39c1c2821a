"""Finds the columns that a writer adds to those of its source: what the settings name, else what the profile knows."""

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
from spark_job.changelog.sequence_text import Form

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
class Found:
    """A column, or a field of a struct by its dotted name, and the column that it is in."""

    field: NestedField
    top: NestedField


@dataclass(frozen=True, slots=True)
class CdcColumns:
    """The columns of a writer; `deleted` where another column than the operation says that a row is gone."""

    operation: Found | None
    sequence: tuple[Found, ...]
    deleted: Found | None

    @property
    def tops(self) -> set[int]:
        """The columns, by field id, that are the writer's as a whole."""
        each = (self.operation, *self.sequence, self.deleted)
        return {one.top.field_id for one in each if one is not None}


def find_cdc_columns(settings: TableSettings, schema: Schema) -> CdcColumns:
    """The columns of operation and sequence."""
    operation, deleted = _operation(settings, schema), _deleted(settings, schema)
    if operation is None and not settings.upsert_only:
        deleted = deleted or _column_of_profile(settings, schema)
    return CdcColumns(operation, _sequence(settings, schema), deleted)


def _operation(settings: TableSettings, schema: Schema) -> Found | None:
    name = settings.resolved_operation_column
    if name is None:
        return None
    if settings.operation_column is None:
        name = _renamed_on_clash(settings, schema, name)
        if seek(schema, name) is None and _has_delete_column(settings, schema):
            return None
    found = require_column(settings, schema, name, "operation_column")
    if not isinstance(found.field.field_type, _OPERATION_TYPES):
        raise Invalid(
            f"{settings.changelog_id}: column {name} of type {found.field.field_type} cannot say the operation: "
            f"it must be of type string, boolean, int or long (operation_column of {settings.name})"
        )
    return found


def _has_delete_column(settings: TableSettings, schema: Schema) -> bool:
    own = settings.profile_defaults.delete_column
    return settings.delete_column is not None or (own is not None and seek(schema, own) is not None)


def _column_of_profile(settings: TableSettings, schema: Schema) -> Found | None:
    name = settings.profile_defaults.delete_column
    return None if name is None else require_column(settings, schema, name, "operation_column")


def _deleted(settings: TableSettings, schema: Schema) -> Found | None:
    if settings.delete_column is None:
        return None
    found = require_column(settings, schema, settings.delete_column, "delete_column")
    if not isinstance(found.field.field_type, _DELETE_TYPES):
        raise Invalid(
            f"{settings.changelog_id}: column {settings.delete_column} of type {found.field.field_type} cannot say "
            f"that a row is gone: use a boolean, integer, date, timestamp or text (delete_column of {settings.name})"
        )
    return found


def _sequence(settings: TableSettings, schema: Schema) -> tuple[Found, ...]:
    connector = settings.connector_defaults
    if connector is None:
        names = settings.resolved_sequence_columns
        if settings.sequence_column is None:
            names = tuple(_renamed_on_clash(settings, schema, name) for name in names)
        return tuple(require_column(settings, schema, name, "sequence_column") for name in names)
    found = [
        _first_of(schema, names) or require_column(settings, schema, names[0], "sequence_column")
        for names in connector.columns
    ]
    further = [_first_of(schema, names) for names in connector.further]
    return (*found, *(one for one in further if one is not None))


def _first_of(schema: Schema, names: tuple[str, ...]) -> Found | None:
    return next((found for name in names if (found := seek(schema, name)) is not None), None)


def sequence_codec(settings: TableSettings, columns: tuple[Found, ...]) -> SequenceCodec:
    """How these columns order the events."""
    fields = [one.field for one in columns]
    try:
        return choose_sequence(fields, {one.name: Form(settings.format_of(one.name)) for one in fields})
    except Invalid as error:
        raise Invalid(f"{settings.changelog_id}: {error} (sequence_column of {settings.name})") from error


def _renamed_on_clash(settings: TableSettings, schema: Schema, name: str) -> str:
    """Supabase ETL appends `_1`, `_2` … to the names of its two columns where the source has columns of that name.

    It makes the two with the table, the operation first, behind all columns of the source. Those that the source gets
    later come after them, are optional, and may have any name.
    """
    if settings.profile != "supabase-etl":
        return name
    operation, sequence = settings.resolved_operation_column or name, settings.resolved_sequence_columns[0]
    pairs = [
        (one, after)
        for one, after in pairwise(sorted(schema.fields, key=lambda field: field.field_id))
        if _is_called(one, operation) and _is_called(after, sequence)
    ]
    made = max(
        pairs, key=lambda pair: (pair[0].required and pair[1].required, pair[0].field_id), default=None
    )
    return next((one.name for one in made or schema.fields[-2:] if _is_called(one, name)), name)


def _is_called(field: NestedField, name: str) -> bool:
    return re.fullmatch(rf"{re.escape(name)}(_\d+)?", field.name) is not None


def seek(schema: Schema, name: str) -> Found | None:
    """A column by its name, else a field of a struct by its dotted name."""
    for top in schema.fields:
        if top.name == name:
            return Found(top, top)
    for top in schema.fields:
        if name.startswith(f"{top.name}."):
            inner = _inside(top, name[len(top.name) + 1 :])
            if inner is not None:
                return Found(inner.model_copy(update={"name": name}), top)
    return None


def _inside(field: NestedField, name: str) -> NestedField | None:
    if not isinstance(field.field_type, StructType):
        return None
    for part in field.field_type.fields:
        if part.name == name:
            return part
        if name.startswith(f"{part.name}.") and (found := _inside(part, name[len(part.name) + 1 :])):
            return found
    return None


def require_column(settings: TableSettings, schema: Schema, name: str, setting: str) -> Found:
    """The column that a setting names; an error that names the nearest one where there is none."""
    found = seek(schema, name)
    if found is not None:
        return found
    names = [field.name for field in schema.fields]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(names[:20])}"
    raise Invalid(f"{settings.changelog_id}: has no column {name} ({setting} of {settings.name}){hint}")
