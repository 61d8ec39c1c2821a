"""Find the roles of a changelog's columns by the settings of its table."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.cdc_columns import (
    CdcColumns,
    ColumnRef,
    find_cdc_columns,
    find_column,
    require_column,
    sequence_codec,
)
from spark_job.changelog.sequence import SequenceCodec
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder
from spark_job.columns.missing_columns import initial_defaults
from spark_job.columns.normalize_arrow import normalized_type
from spark_job.iceberg.leaf_columns import leaf_columns
from spark_job.index.key_codec import Encoding, KeyCodec, choose_codec


def resolve_shape(
    table_settings: TableSettings, schema: Schema, last_column_id: int | None = None
) -> ChangelogShape:
    """Return the shape of a changelog with this schema; raise `Invalid` if the settings do not match its columns."""
    if table_settings.append_only:
        return _keyless_shape(table_settings, schema, last_column_id)
    cdc = find_cdc_columns(table_settings, schema)
    # By field id: neither a rename nor another order of columns may change the encoded key.
    keys = sorted(_find_key_columns(table_settings, schema), key=lambda key: key.field_id)
    for key in keys:
        if key.field_id in cdc.top_level_ids:
            raise Invalid(
                f"{table_settings.changelog_id}: column {key.name} cannot be key and CDC column at once"
            )
    old_keys = _find_old_keys(table_settings, schema, keys)
    profile, values = table_settings.profile_defaults, table_settings.resolved_operation_values
    placeholder = table_settings.resolved_unchanged_value
    initial_copy_operations = values.insert if profile.null_sequence_is_lowest else profile.copy_values
    shape = ChangelogShape(
        key_ids=tuple(key.field_id for key in keys),
        operation_id=cdc.operation.field.field_id if cdc.operation else None,
        operations=_operations(table_settings),
        sequence=sequence_codec(table_settings, cdc.sequence),
        row_ids=_row_ids(table_settings, schema, keys, cdc, old_keys),
        key_codec=_choose_key_codec(table_settings, keys),
        changelog_name=str(table_settings.changelog_id),
        last_column_id=last_column_id,
        defaults=initial_defaults(schema),
        ignored_operations=frozenset(values.ignore),
        truncate_operations=frozenset(values.truncate),
        null_sequence_for=frozenset(
            {*initial_copy_operations, *([None] if profile.null_sequence_is_lowest else [])}
        ),
        has_null_records=profile.has_null_records
        and (cdc.operation is not None or table_settings.delete_column is None),
        delete_id=cdc.deleted.field.field_id if cdc.deleted else None,
        old_key_ids=tuple(column.field.field_id for column in old_keys),
        unchanged_placeholder=UnchangedPlaceholder(placeholder) if placeholder is not None else None,
        null_for_unknown_value=table_settings.on_missing_value == "set-null",
        rejects_bad_rows=table_settings.on_bad_row == "quarantine",
        keeps_deleted_rows=table_settings.delete_mode == "soft",
    )
    return replace(shape, arrow_types=_arrow_types(schema, shape))


def _arrow_types(schema: Schema, shape: ChangelogShape) -> dict[int, pa.DataType]:
    arrow_types = {
        leaf.field_id: normalized_type(schema_to_pyarrow(leaf.field_type))
        for leaf in leaf_columns(schema)
        if leaf.field_id in shape.event_column_ids
    }
    compared = {*shape.key_ids, *shape.sequence.field_ids, *shape.old_key_ids}
    # A delete timestamp matters only as NULL or not NULL.
    return {
        field_id: arrow_type
        for field_id, arrow_type in arrow_types.items()
        if field_id in compared or not pa.types.is_temporal(arrow_type)
    }


def _row_ids(
    table_settings: TableSettings,
    schema: Schema,
    keys: list[NestedField],
    cdc: CdcColumns,
    old_keys: tuple[ColumnRef, ...],
) -> tuple[int, ...]:
    """Return the ids of all columns except those that the CDC writer added."""
    writer_column_ids = cdc.top_level_ids | {column.top_level.field_id for column in old_keys}
    prefix = table_settings.profile_defaults.writer_prefix
    if prefix is not None:
        writer_column_ids |= {field.field_id for field in schema.fields if field.name.startswith(prefix)}
    kept_ids = {
        require_column(table_settings, schema, name, "keep_columns").top_level.field_id
        for name in table_settings.keep_columns
    }
    writer_column_ids -= kept_ids | {key.field_id for key in keys}
    return tuple(field.field_id for field in schema.fields if field.field_id not in writer_column_ids)


def _find_old_keys(
    table_settings: TableSettings, schema: Schema, keys: list[NestedField]
) -> tuple[ColumnRef, ...]:
    """Return the columns of the key before a change; none if one of them is missing."""
    if table_settings.old_key_columns:
        missing = [key.name for key in keys if key.name not in table_settings.old_key_columns]
        if missing:
            raise Invalid(
                f"{table_settings.changelog_id}: {missing[0]} is part of the key of {table_settings.name}, but "
                "old_key_columns does not name where its old value is"
            )
        names = [table_settings.old_key_columns[key.name] for key in keys]
        old_keys = [require_column(table_settings, schema, name, "old_key_columns") for name in names]
    else:
        patterns = table_settings.profile_defaults.old_key_names
        candidates = [[find_column(schema, pattern.format(key.name)) for key in keys] for pattern in patterns]
        old_keys = next(
            ([column for column in columns if column] for columns in candidates if all(columns)), []
        )
    for column, key in zip(old_keys, keys, strict=False):
        if column.field.field_type != key.field_type:
            raise Invalid(
                f"{table_settings.changelog_id}: column {column.field.name} of type {column.field.field_type} cannot "
                f"hold the old value of {key.name}, which is of type {key.field_type} (old_key_columns of "
                f"{table_settings.name})"
            )
    return tuple(old_keys)


def _keyless_shape(
    table_settings: TableSettings, schema: Schema, last_column_id: int | None
) -> ChangelogShape:
    """Return the shape of a table without a key. It follows the changelog's order, so a sequence column is dropped."""
    cdc = find_cdc_columns(table_settings, schema)
    if cdc.deleted is not None:
        raise Invalid(
            f"{table_settings.changelog_id}: column {cdc.deleted.field.name} flags deleted rows, but "
            f"{table_settings.name} is append_only and has no key to find them by"
        )
    return ChangelogShape(
        key_ids=(),
        operation_id=cdc.operation.field.field_id if cdc.operation else None,
        operations=_inserts(table_settings),
        truncate_operations=frozenset(table_settings.resolved_operation_values.truncate),
        sequence=SequenceCodec(()),
        row_ids=_row_ids(table_settings, schema, [], cdc, ()),
        key_codec=KeyCodec(Encoding.HASHED),
        changelog_name=str(table_settings.changelog_id),
        last_column_id=last_column_id,
        defaults=initial_defaults(schema),
    )


def _choose_key_codec(table_settings: TableSettings, keys: list[NestedField]) -> KeyCodec:
    for key in keys:
        try:
            choose_codec([key.field_type])
        except Invalid as error:
            raise Invalid(
                f"{table_settings.changelog_id}: column {key.name} cannot be part of the key: {error}"
            ) from error
    return choose_codec([key.field_type for key in keys])


def _find_key_columns(table_settings: TableSettings, schema: Schema) -> list[NestedField]:
    top_level = {field.field_id: field for field in schema.fields}
    if table_settings.primary_keys:
        key_ids = [
            require_column(table_settings, schema, name, "primary_keys").field.field_id
            for name in table_settings.primary_keys
        ]
    elif schema.identifier_field_ids:
        key_ids = schema.identifier_field_ids
    else:
        raise Invalid(
            f"{table_settings.changelog_id}: has no identifier fields, so its key is unknown. "
            "Name the key columns in primary_keys; or, for a table without a key that only gets inserts, set "
            "append_only: true."
        )
    missing = [field_id for field_id in key_ids if field_id not in top_level]
    if missing:
        raise Invalid(
            f"{table_settings.changelog_id}: a key inside a struct is not supported (field id {missing[0]})"
        )
    return [top_level[field_id] for field_id in key_ids]


def _operations(table_settings: TableSettings) -> dict[str | None, Operation]:
    values = table_settings.resolved_operation_values
    return {
        **_inserts(table_settings),
        **dict.fromkeys(values.update, Operation.UPSERT),
        **dict.fromkeys(values.delete, Operation.DELETE),
    }


def _inserts(table_settings: TableSettings) -> dict[str | None, Operation]:
    inserts: dict[str | None, Operation] = dict.fromkeys(
        table_settings.resolved_operation_values.insert, Operation.UPSERT
    )
    if table_settings.profile_defaults.null_operation_is_insert:
        inserts[None] = Operation.UPSERT
    return inserts
