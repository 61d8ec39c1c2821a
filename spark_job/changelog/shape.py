"""The roles of a changelog's columns: key, operation, sequence, and the row itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from icemirror.tables.cursor import Truncation
from spark_job.changelog.cdc_columns import (
    CdcColumns,
    ColumnRef,
    find_cdc_columns,
    find_column,
    require_column,
    sequence_codec,
)
from spark_job.changelog.sequence import SequenceCodec
from spark_job.changelog.unchanged_marker import UnchangedMarker
from spark_job.columns.missing_columns import MissingValues, initial_defaults
from spark_job.columns.normalize_arrow import normalized_type
from spark_job.iceberg.leaf_columns import leaf_columns
from spark_job.index.key_codec import Encoding, KeyCodec, choose_codec
from spark_job.index.segment import KeyDefinition


class Operation(IntEnum):
    """What an event does to its key."""

    UPSERT = 0
    DELETE = 1


@dataclass(frozen=True)
class ChangelogShape:
    """The columns of one changelog, by field id, and how a merge reads them.

    - `operation_id`: None if every row is an upsert. `truncates`: operation values that report a truncation.
    - `null_sequence_for`: operations for which a NULL sequence is the lowest value.
    - `delete_id`: a column of the source that flags deleted rows. `keeps_deleted_rows`: a delete flags its row instead.
    - `old_key_ids`: the key before a change, in the order of `key_ids`.
    - `marker`: the placeholder of an unchanged value. `null_for_missing`: it becomes NULL if the value is unknown.
    - `last_column_id`: the greatest field id that the changelog ever assigned, if known.
    - `defaults`: values of columns in files that do not have them.
    - `rejects`: bad rows are rejected instead of failing the merge.
    - `truncated`: the last truncation that the mirror followed; no event before it counts.
    - `left_out`: columns whose values must not be stored anywhere.
    - `forms`: the normalized Arrow types of the event columns.
    """

    key_ids: tuple[int, ...]
    operation_id: int | None
    operations: Mapping[str | None, Operation]
    sequence: SequenceCodec
    row_ids: tuple[int, ...]
    codec: KeyCodec
    changelog: str = ""
    last_column_id: int | None = None
    defaults: MissingValues = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    truncates: frozenset[str | None] = frozenset()
    null_sequence_for: frozenset[str | None] = frozenset()
    has_null_records: bool = False
    delete_id: int | None = None
    old_key_ids: tuple[int, ...] = ()
    marker: UnchangedMarker | None = None
    null_for_missing: bool = False
    rejects: bool = False
    keeps_deleted_rows: bool = False
    truncated: Truncation | None = None
    left_out: frozenset[int] = frozenset()
    forms: Mapping[int, pa.DataType] = field(default_factory=dict)

    def with_mirror_salt(self, mirror: UUID) -> ChangelogShape:
        """Return the shape with the key codec of this mirror."""
        return replace(self, codec=self.codec.salted(mirror))

    def without_truncations(self) -> ChangelogShape:
        """Return the shape that ignores truncations: all events count, also those before one."""
        ignored = self.ignored | frozenset(filter(None, self.truncates))
        return replace(self, truncates=frozenset(), ignored=ignored, truncated=None)

    @property
    def is_keyless(self) -> bool:
        """Return whether every event is a separate row, without a key (`append_only`)."""
        return not self.key_ids

    @property
    def keeps_values(self) -> bool:
        """Return whether rows may keep values of the rows that they replace."""
        return self.marker is not None or self.keeps_deleted_rows

    @property
    def key_definition(self) -> KeyDefinition:
        """Return how the index encodes keys and orders."""
        return KeyDefinition(self.codec, self.key_ids, self.sequence.field_ids)

    @property
    def event_column_ids(self) -> tuple[int, ...]:
        """Return the columns that describe events, without their rows."""
        ids = (*self.key_ids, self.operation_id, *self.sequence.field_ids, self.delete_id, *self.old_key_ids)
        return tuple(field_id for field_id in ids if field_id is not None)

    @property
    def optional_ids(self) -> frozenset[int]:
        """Return the event columns that a file may lack, because NULL has a meaning there."""
        required = {*self.key_ids}
        if None not in self.operations:
            required |= {self.operation_id or 0}
        if None not in self.null_sequence_for:
            required |= {*self.sequence.field_ids}
        return frozenset({*self.event_column_ids} - required)


def resolve_shape(
    settings: TableSettings, schema: Schema, last_column_id: int | None = None
) -> ChangelogShape:
    """Find the columns of the changelog's schema by the settings."""
    if settings.append_only:
        return _keyless_shape(settings, schema, last_column_id)
    cdc = find_cdc_columns(settings, schema)
    # By field id: neither a rename nor another order of columns may change the encoded key.
    keys = sorted(_key_columns(settings, schema), key=lambda key: key.field_id)
    for key in keys:
        if key.field_id in cdc.top_level_ids:
            raise Invalid(f"{settings.changelog_id}: column {key.name} cannot be key and CDC column at once")
    old_keys = _old_keys(settings, schema, keys)
    profile, values = settings.profile_defaults, settings.resolved_operation_values
    marker = settings.resolved_unchanged_value
    copied = values.insert if profile.null_sequence_is_lowest else profile.copy_values
    shape = ChangelogShape(
        key_ids=tuple(key.field_id for key in keys),
        operation_id=cdc.operation.field.field_id if cdc.operation else None,
        operations=_operations(settings),
        sequence=sequence_codec(settings, cdc.sequence),
        row_ids=_row_ids(settings, schema, keys, cdc, old_keys),
        codec=_codec(settings, keys),
        changelog=str(settings.changelog_id),
        last_column_id=last_column_id,
        defaults=initial_defaults(schema),
        ignored=frozenset(values.ignore),
        truncates=frozenset(values.truncate),
        null_sequence_for=frozenset({*copied, *([None] if profile.null_sequence_is_lowest else [])}),
        has_null_records=profile.has_null_records
        and (cdc.operation is not None or settings.delete_column is None),
        delete_id=cdc.deleted.field.field_id if cdc.deleted else None,
        old_key_ids=tuple(column.field.field_id for column in old_keys),
        marker=UnchangedMarker(marker) if marker is not None else None,
        null_for_missing=settings.on_missing_value == "set-null",
        rejects=settings.on_bad_row == "quarantine",
        keeps_deleted_rows=settings.delete_mode == "soft",
    )
    return replace(shape, forms=_forms(schema, shape))


def _forms(schema: Schema, shape: ChangelogShape) -> dict[int, pa.DataType]:
    forms = {
        leaf.field_id: normalized_type(schema_to_pyarrow(leaf.kind))
        for leaf in leaf_columns(schema)
        if leaf.field_id in shape.event_column_ids
    }
    compared = {*shape.key_ids, *shape.sequence.field_ids, *shape.old_key_ids}
    # For the time of a delete only matters whether it is NULL.
    return {
        field_id: form
        for field_id, form in forms.items()
        if field_id in compared or not pa.types.is_temporal(form)
    }


def _row_ids(
    settings: TableSettings,
    schema: Schema,
    keys: list[NestedField],
    cdc: CdcColumns,
    old_keys: tuple[ColumnRef, ...],
) -> tuple[int, ...]:
    """Return all columns except those that the CDC writer added."""
    writers = cdc.top_level_ids | {column.top.field_id for column in old_keys}
    prefix = settings.profile_defaults.writer_prefix
    if prefix is not None:
        writers |= {field.field_id for field in schema.fields if field.name.startswith(prefix)}
    kept = {
        require_column(settings, schema, name, "keep_columns").top.field_id for name in settings.keep_columns
    }
    writers -= kept | {key.field_id for key in keys}
    return tuple(field.field_id for field in schema.fields if field.field_id not in writers)


def _old_keys(settings: TableSettings, schema: Schema, keys: list[NestedField]) -> tuple[ColumnRef, ...]:
    """Return the columns of the key before a change; none if one of them is missing."""
    if settings.old_key_columns:
        missing = [key.name for key in keys if key.name not in settings.old_key_columns]
        if missing:
            raise Invalid(
                f"{settings.changelog_id}: {missing[0]} is part of the key of {settings.name}, but old_key_columns "
                "does not name where its old value is"
            )
        names = [settings.old_key_columns[key.name] for key in keys]
        found = [require_column(settings, schema, name, "old_key_columns") for name in names]
    else:
        patterns = settings.profile_defaults.old_key_names
        tried = [[find_column(schema, pattern.format(key.name)) for key in keys] for pattern in patterns]
        found = next(([column for column in columns if column] for columns in tried if all(columns)), [])
    for column, key in zip(found, keys, strict=False):
        if column.field.field_type != key.field_type:
            raise Invalid(
                f"{settings.changelog_id}: column {column.field.name} of type {column.field.field_type} cannot hold "
                f"the old value of {key.name}, which is of type {key.field_type} (old_key_columns of {settings.name})"
            )
    return tuple(found)


def _keyless_shape(settings: TableSettings, schema: Schema, last_column_id: int | None) -> ChangelogShape:
    """Return the shape of a table without a key. It follows the changelog's order, so a sequence column is dropped."""
    cdc = find_cdc_columns(settings, schema)
    if cdc.deleted is not None:
        raise Invalid(
            f"{settings.changelog_id}: column {cdc.deleted.field.name} flags deleted rows, but {settings.name} is "
            "append_only and has no key to find them by"
        )
    return ChangelogShape(
        key_ids=(),
        operation_id=cdc.operation.field.field_id if cdc.operation else None,
        operations=_inserts(settings),
        truncates=frozenset(settings.resolved_operation_values.truncate),
        sequence=SequenceCodec(()),
        row_ids=_row_ids(settings, schema, [], cdc, ()),
        codec=KeyCodec(Encoding.HASHED),
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


def _key_columns(settings: TableSettings, schema: Schema) -> list[NestedField]:
    top_level = {field.field_id: field for field in schema.fields}
    if settings.primary_keys:
        named = [
            require_column(settings, schema, name, "primary_keys").field for name in settings.primary_keys
        ]
        key_ids = [field.field_id for field in named]
    elif schema.identifier_field_ids:
        key_ids = schema.identifier_field_ids
    else:
        raise Invalid(
            f"{settings.changelog_id}: has no identifier fields, so its key is unknown. "
            "Name the key columns in primary_keys; or, for a table without a key that only gets inserts, set "
            "append_only: true."
        )
    missing = [field_id for field_id in key_ids if field_id not in top_level]
    if missing:
        raise Invalid(
            f"{settings.changelog_id}: a key inside a struct is not supported (field id {missing[0]})"
        )
    return [top_level[field_id] for field_id in key_ids]


def _operations(settings: TableSettings) -> dict[str | None, Operation]:
    values = settings.resolved_operation_values
    return {
        **_inserts(settings),
        **dict.fromkeys(values.update, Operation.UPSERT),
        **dict.fromkeys(values.delete, Operation.DELETE),
    }


def _inserts(settings: TableSettings) -> dict[str | None, Operation]:
    inserts: dict[str | None, Operation] = dict.fromkeys(
        settings.resolved_operation_values.insert, Operation.UPSERT
    )
    if settings.profile_defaults.null_operation_is_insert:
        inserts[None] = Operation.UPSERT
    return inserts
