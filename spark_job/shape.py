"""What the columns of a changelog mean: key, operation, sequence, and the row itself."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.absent import Absent, initial_defaults
from spark_job.key_index.codec import KeyCodec, choose_codec
from spark_job.key_index.segment import Recipe
from spark_job.sequence import SequenceCodec, choose_sequence


class Operation(IntEnum):
    """What an event does to its key."""

    UPSERT = 0
    DELETE = 1


@dataclass(frozen=True)
class ChangelogShape:
    """The columns of one changelog, by field id. `last_column_id` is the greatest that it ever gave, if known.

    `defaults`: what columns hold in files that do not have them.
    """

    key_ids: tuple[int, ...]
    operation_id: int
    operations: Mapping[str, Operation]
    sequence: SequenceCodec
    row_ids: tuple[int, ...]
    codec: KeyCodec
    changelog: str = ""
    last_column_id: int | None = None
    defaults: Absent = field(default_factory=dict)

    def of_mirror(self, mirror: UUID) -> ChangelogShape:
        """The shape with the codec of this one mirror."""
        return replace(self, codec=self.codec.salted(mirror))

    @property
    def recipe(self) -> Recipe:
        """What the codes and orders of the index are made of."""
        return Recipe(self.codec, self.key_ids, self.sequence.field_ids)

    @property
    def narrow_ids(self) -> tuple[int, ...]:
        """The columns that collapse reads."""
        return (*self.key_ids, self.operation_id, *self.sequence.field_ids)


def resolve_shape(
    settings: TableSettings, schema: Schema, last_column_id: int | None = None
) -> ChangelogShape:
    """Finds the columns that the settings name in the changelog's schema."""
    operation, sequence = _cdc_columns(settings, schema)
    # By id: neither naming nor moving the columns in another order may change a code.
    keys = sorted(_key_columns(settings, schema), key=lambda key: key.field_id)
    cdc_ids = {operation.field_id, *(column.field_id for column in sequence)}
    for key in keys:
        if key.field_id in cdc_ids:
            raise Invalid(f"{settings.changelog_id}: column {key.name} cannot be key and CDC column at once")
    return ChangelogShape(
        key_ids=tuple(key.field_id for key in keys),
        operation_id=operation.field_id,
        operations=_operations(settings),
        sequence=_sequence(settings, sequence),
        row_ids=tuple(field.field_id for field in schema.fields if field.field_id not in cdc_ids),
        codec=_codec(settings, keys),
        changelog=str(settings.changelog_id),
        last_column_id=last_column_id,
        defaults=initial_defaults(schema),
    )


def _codec(settings: TableSettings, keys: list[NestedField]) -> KeyCodec:
    for key in keys:
        try:
            choose_codec([key.field_type])
        except Invalid as error:
            raise Invalid(
                f"{settings.changelog_id}: column {key.name}, of the key of {settings.name}: {error}"
            ) from error
    return choose_codec([key.field_type for key in keys])


def _sequence(settings: TableSettings, columns: list[NestedField]) -> SequenceCodec:
    try:
        return choose_sequence(columns)
    except Invalid as error:
        raise Invalid(f"{settings.changelog_id}: {error} (sequence_column of {settings.name})") from error


def _key_columns(settings: TableSettings, schema: Schema) -> list[NestedField]:
    if settings.primary_keys:
        return [_column(settings, schema, name, "primary_keys") for name in settings.primary_keys]
    if not schema.identifier_field_ids:
        raise Invalid(
            f"{settings.changelog_id}: has no identifier fields, so its key is not known. "
            "Name the key columns in primary_keys."
        )
    top_level = {field.field_id: field for field in schema.fields}
    missing = [field_id for field_id in schema.identifier_field_ids if field_id not in top_level]
    if missing:
        raise Invalid(
            f"{settings.changelog_id}: a key inside a struct is not supported (field id {missing[0]})"
        )
    return [field for field in schema.fields if field.field_id in schema.identifier_field_ids]


def _cdc_columns(settings: TableSettings, schema: Schema) -> tuple[NestedField, list[NestedField]]:
    """The operation column and the sequence columns."""
    operation = settings.resolved_operation_column
    if operation is None:
        raise Invalid(f"{settings.name}: the profile {settings.profile} needs an operation_column")
    if settings.operation_column is None:
        operation = _renamed_on_clash(settings, schema, operation)
    sequence = settings.resolved_sequence_columns
    if settings.sequence_column is None:
        sequence = tuple(_renamed_on_clash(settings, schema, name) for name in sequence)
    column = _column(settings, schema, operation, "operation_column")
    if not isinstance(column.field_type, StringType):
        raise Invalid(
            f"{settings.changelog_id}: column {column.name} of type {column.field_type} cannot say the operation: "
            f"it must be of type string (operation_column of {settings.name})"
        )
    return (
        column,
        [_column(settings, schema, name, "sequence_column") for name in sequence],
    )


def _renamed_on_clash(settings: TableSettings, schema: Schema, name: str) -> str:
    """Supabase ETL puts its two columns last, and appends `_1`, `_2` … where the source has a column of that name."""
    if settings.profile != "supabase-etl":
        return name
    last_two = [field.name for field in schema.fields[-2:]]
    return next((column for column in last_two if re.fullmatch(rf"{re.escape(name)}(_\d+)?", column)), name)


def _column(settings: TableSettings, schema: Schema, name: str, setting: str) -> NestedField:
    names = [field.name for field in schema.fields]
    if name in names:
        return schema.fields[names.index(name)]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; it has {', '.join(names[:20])}"
    raise Invalid(f"{settings.changelog_id}: has no column {name} ({setting} of {settings.name}){hint}")


def _operations(settings: TableSettings) -> dict[str, Operation]:
    values = settings.resolved_operation_values
    return {
        **dict.fromkeys((*values.insert, *values.update), Operation.UPSERT),
        **dict.fromkeys(values.delete, Operation.DELETE),
    }
