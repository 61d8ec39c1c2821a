"""What the columns of a changelog mean: key, operation, sequence, and the row itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from icemirror.cursor import Truncation
from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.cdc_columns import (
    CdcColumns,
    Found,
    find_cdc_columns,
    require_column,
    seek,
    sequence_codec,
)
from spark_job.changelog.marker import Marker
from spark_job.changelog.sequence import SequenceCodec
from spark_job.columns.absent import Absent, initial_defaults
from spark_job.columns.one_form import one_form
from spark_job.iceberg.leaf_columns import leaf_columns
from spark_job.key_index.codec import Encoding, KeyCodec, choose_codec
from spark_job.key_index.segment import Recipe


class Operation(IntEnum):
    """What an event does to its key."""

    UPSERT = 0
    DELETE = 1


@dataclass(frozen=True)
class ChangelogShape:
    """The columns of one changelog, by field id. `last_column_id` is the greatest that it ever gave, if known.

    `operation_id` is None where every row is an upsert. `null_sequence_for`: operations of which a NULL in the sequence
    is the lowest value. `delete_id`: a column of the source that says that a row is gone. `old_key_ids`: the key before
    the change, in the order of `key_ids`. `marker`: what stands for a value that has not changed; it is NULL
    where nobody knows it, with `nulls_missing`. `defaults`: what columns hold in files that do not have them.
    `rejects`: bad rows do not count, instead of stopping. `keeps_deleted`: a delete flags its row, which stays.
    `truncates`: operations that say that the source was truncated. `truncated`: the last time, as far as it is
    followed; no event before it counts.
    `left_out`: columns whose values must reach nothing but the merge itself. `forms`: the types of
    what collapse reads, in their one form.
    """

    key_ids: tuple[int, ...]
    operation_id: int | None
    operations: Mapping[str | None, Operation]
    sequence: SequenceCodec
    row_ids: tuple[int, ...]
    codec: KeyCodec
    changelog: str = ""
    last_column_id: int | None = None
    defaults: Absent = field(default_factory=dict)
    ignored: frozenset[str] = frozenset()
    truncates: frozenset[str | None] = frozenset()
    null_sequence_for: frozenset[str | None] = frozenset()
    has_tombstones: bool = False
    delete_id: int | None = None
    old_key_ids: tuple[int, ...] = ()
    marker: Marker | None = None
    nulls_missing: bool = False
    rejects: bool = False
    keeps_deleted: bool = False
    truncated: Truncation | None = None
    left_out: frozenset[int] = frozenset()
    forms: Mapping[int, pa.DataType] = field(default_factory=dict)

    def of_mirror(self, mirror: UUID) -> ChangelogShape:
        """The shape with the codec of this one mirror."""
        return replace(self, codec=self.codec.salted(mirror))

    def without_truncations(self) -> ChangelogShape:
        """The shape by which all events count, also those before a truncation, which is passed over."""
        ignored = self.ignored | frozenset(filter(None, self.truncates))
        return replace(self, truncates=frozenset(), ignored=ignored, truncated=None)

    @property
    def is_keyless(self) -> bool:
        """Every event is a row of its own (`append_only`): there is no key to find one by."""
        return not self.key_ids

    @property
    def keeps_values(self) -> bool:
        """Rows may keep values of those that they replace."""
        return self.marker is not None or self.keeps_deleted

    @property
    def recipe(self) -> Recipe:
        """What the codes and orders of the index are made of."""
        return Recipe(self.codec, self.key_ids, self.sequence.field_ids)

    @property
    def narrow_ids(self) -> tuple[int, ...]:
        """The columns that collapse reads."""
        told = (*self.key_ids, self.operation_id, *self.sequence.field_ids, self.delete_id, *self.old_key_ids)
        return tuple(one for one in told if one is not None)

    @property
    def optional_ids(self) -> frozenset[int]:
        """Those of them that a file may lack: their NULLs mean something."""
        needed = {*self.key_ids}
        if None not in self.operations:
            needed |= {self.operation_id or 0}
        if None not in self.null_sequence_for:
            needed |= {*self.sequence.field_ids}
        return frozenset({*self.narrow_ids} - needed)


def resolve_shape(
    settings: TableSettings, schema: Schema, last_column_id: int | None = None
) -> ChangelogShape:
    """Finds the columns that the settings name in the changelog's schema."""
    if settings.append_only:
        return _keyless_shape(settings, schema, last_column_id)
    cdc = find_cdc_columns(settings, schema)
    # By id: neither naming nor moving the columns in another order may change a code.
    keys = sorted(_key_columns(settings, schema), key=lambda key: key.field_id)
    for key in keys:
        if key.field_id in cdc.tops:
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
        has_tombstones=profile.has_tombstones
        and (cdc.operation is not None or settings.delete_column is None),
        delete_id=cdc.deleted.field.field_id if cdc.deleted else None,
        old_key_ids=tuple(one.field.field_id for one in old_keys),
        marker=Marker(marker) if marker is not None else None,
        nulls_missing=settings.on_missing_value == "set-null",
        rejects=settings.on_bad_row == "quarantine",
        keeps_deleted=settings.delete_mode == "soft",
    )
    return replace(shape, forms=_forms(schema, shape))


def _forms(schema: Schema, shape: ChangelogShape) -> dict[int, pa.DataType]:
    forms = {
        leaf.field_id: one_form(schema_to_pyarrow(leaf.kind))
        for leaf in leaf_columns(schema)
        if leaf.field_id in shape.narrow_ids
    }
    compared = {*shape.key_ids, *shape.sequence.field_ids, *shape.old_key_ids}
    # Of the time at which a row was deleted only matters whether there is one.
    return {one: form for one, form in forms.items() if one in compared or not pa.types.is_temporal(form)}


def _row_ids(
    settings: TableSettings,
    schema: Schema,
    keys: list[NestedField],
    cdc: CdcColumns,
    old_keys: tuple[Found, ...],
) -> tuple[int, ...]:
    """All columns but those of the writer."""
    writers = cdc.tops | {one.top.field_id for one in old_keys}
    prefix = settings.profile_defaults.own_prefix
    if prefix is not None:
        writers |= {field.field_id for field in schema.fields if field.name.startswith(prefix)}
    kept = {
        require_column(settings, schema, name, "keep_columns").top.field_id for name in settings.keep_columns
    }
    writers -= kept | {key.field_id for key in keys}
    return tuple(field.field_id for field in schema.fields if field.field_id not in writers)


def _old_keys(settings: TableSettings, schema: Schema, keys: list[NestedField]) -> tuple[Found, ...]:
    """Where the key before a change is, column by column; nowhere if one of them has no such column."""
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
        tried = [[seek(schema, one.format(key.name)) for key in keys] for one in patterns]
        found = next(([one for one in each if one] for each in tried if all(each)), [])
    for one, key in zip(found, keys, strict=False):
        if one.field.field_type != key.field_type:
            raise Invalid(
                f"{settings.changelog_id}: column {one.field.name} of type {one.field.field_type} cannot hold the old "
                f"value of {key.name}, which is of type {key.field_type} (old_key_columns of {settings.name})"
            )
    return tuple(found)


def _keyless_shape(settings: TableSettings, schema: Schema, last_column_id: int | None) -> ChangelogShape:
    """The shape of a table without a key. Its order is that of the changelog, so a sequence is only left out."""
    cdc = find_cdc_columns(settings, schema)
    if cdc.deleted is not None:
        raise Invalid(
            f"{settings.changelog_id}: column {cdc.deleted.field.name} says that rows are gone, but {settings.name} is "
            "append_only, and has no key to find them by"
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
            f"{settings.changelog_id}: has no identifier fields, so its key is not known. "
            "Name the key columns in primary_keys; or, for a table without a key to which rows are only added, set "
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
    told: dict[str | None, Operation] = dict.fromkeys(
        settings.resolved_operation_values.insert, Operation.UPSERT
    )
    if settings.profile_defaults.null_operation_is_insert:
        told[None] = Operation.UPSERT
    return told
