"""Problems of a table's options: what is missing, contradictory or invalid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from icemirror.settings.column_options import RESERVED
from icemirror.settings.setting_problems import SettingProblem, find_repeated_names
from icemirror.tables.mirror_properties import invalid_properties, reserved_properties

if TYPE_CHECKING:
    from icemirror.settings.table_options import TableOptions

_SEQUENCE_HINT = "Name the column that orders the events, such as a version or an LSN"
_SEQUENCE_HINTS = {
    "debezium": "Set connector, or list the columns that order the events",
    "dms": "Name the column with the commit time, such as dms_ts",
}


def find_option_problems(options: TableOptions) -> Iterator[SettingProblem]:
    """Yield missing columns, options that exclude each other, excluded columns that must stay, invalid properties."""
    yield from _missing_column_problems(options)
    yield from _profile_problems(options)
    if options.append_only:
        yield from _append_only_problems(options)
    if (
        options.delete_mode == "soft"
        and options.deleted_column in options.metadata_columns.named_columns.values()
    ):
        yield SettingProblem(
            ("deleted_column",), f"metadata_columns also has a column {options.deleted_column!r}: rename one"
        )
    if options.deleted_column in RESERVED:
        reason = "is reserved by Iceberg, and Spark could not read the mirror: choose another name"
        yield SettingProblem(("deleted_column",), f"{options.deleted_column} {reason}")
    yield from find_repeated_names(
        [(("primary_keys", index), name) for index, name in enumerate(options.primary_keys)]
    )
    yield from find_repeated_names(
        [(("sequence_column", index), name) for index, name in enumerate(options.sequence_column or ())]
    )
    yield from find_repeated_names(
        [(("partition_by", index), str(field)) for index, field in enumerate(options.partition_by)]
    )
    required_columns = [(("primary_keys", index), name) for index, name in enumerate(options.primary_keys)]
    required_columns += [
        (("partition_by", index), field.column) for index, field in enumerate(options.partition_by)
    ]
    for path, name in required_columns:
        if options.columns.excludes(name):
            yield SettingProblem(path, f"the mirror needs {name!r}, but `columns` excludes it")
    yield from _column_use_problems(options)
    yield from _partition_problems(options)
    for name, expected in invalid_properties(options.table_properties):
        text = options.table_properties[name]
        yield SettingProblem(("table_properties", name), f"is {text!r}, not {expected}")
    for name, reason in reserved_properties(options.table_properties, options.format_version):
        yield SettingProblem(("table_properties", name), reason)


def _append_only_problems(options: TableOptions) -> Iterator[SettingProblem]:
    if options.primary_keys:
        yield SettingProblem(("primary_keys",), "an append_only table has no key: remove one of them")
    if options.delete_mode == "soft":
        yield SettingProblem(("delete_mode",), "an append_only table has no deletes: remove delete_mode")
    if options.on_bad_row == "quarantine":
        yield SettingProblem(("on_bad_row",), "an append_only table rejects no rows: remove on_bad_row")
    if options.metadata_columns.source_sequence is not None:
        reason = "an append_only table has no sequence: use keep_columns to keep a column of the changelog"
        yield SettingProblem(("metadata_columns", "source_sequence"), reason)
    if options.resolved_operation_values.ignore:
        reason = "an append_only table skips no event: remove the values"
        yield SettingProblem(("operation_values", "ignore"), reason)


def _missing_column_problems(options: TableOptions) -> Iterator[SettingProblem]:
    if options.append_only:
        return
    needs_no_operation = options.upsert_only or options.delete_column is not None
    if options.resolved_operation_column is None and not needs_no_operation:
        yield SettingProblem(
            ("operation_column",),
            f"missing: the profile {options.profile} has no default. Name the column with the kind of the event, or "
            "set upsert_only: true",
        )
    if not options.resolved_sequence_columns:
        hint = _SEQUENCE_HINTS.get(options.profile, _SEQUENCE_HINT)
        yield SettingProblem(
            ("sequence_column",), f"missing: the profile {options.profile} has no default. {hint}"
        )


def _profile_problems(options: TableOptions) -> Iterator[SettingProblem]:
    if options.connector is not None and options.profile != "debezium":
        yield SettingProblem(("connector",), f"the profile {options.profile} has no connectors")
    if options.upsert_only and options.operation_column is not None:
        yield SettingProblem(("upsert_only",), "excludes operation_column: remove one of them")
    sequence_columns = {*options.resolved_sequence_columns}
    if options.connector_defaults is not None:
        alternatives = (*options.connector_defaults.columns, *options.connector_defaults.optional_columns)
        sequence_columns |= {name for names in alternatives for name in names}
    for column in options.sequence_format:
        if column not in sequence_columns:
            yield SettingProblem(("sequence_format", column), "is not a sequence column")
    for column in options.old_key_columns:
        if options.primary_keys and column not in options.primary_keys:
            yield SettingProblem(("old_key_columns", column), "is not a key column")


def _column_use_problems(options: TableOptions) -> Iterator[SettingProblem]:
    """Yield columns that the table uses for two purposes that exclude each other."""
    cdc_columns = {
        *(options.sequence_column or ()),
        *((options.operation_column,) if options.operation_column else ()),
    }
    if options.operation_column in (options.sequence_column or ()):
        yield SettingProblem(("sequence_column",), f"{options.operation_column!r} is the operation_column")
    for index, name in enumerate(options.primary_keys):
        if name in cdc_columns:
            yield SettingProblem(
                ("primary_keys", index), f"column {name} cannot be both a key and a CDC column"
            )
    for index, field in enumerate(options.partition_by):
        if field.column in cdc_columns and field.column not in options.keep_columns:
            yield SettingProblem(
                ("partition_by", index),
                f"the mirror lacks the CDC column {field.column}: add it to keep_columns, or partition by another",
            )


def _partition_problems(options: TableOptions) -> Iterator[SettingProblem]:
    """Yield partition fields with the name of another one."""
    expression_by_name: dict[str, str] = {}
    for index, field in enumerate(options.partition_by):
        if expression_by_name.setdefault(field.name, str(field)) != str(field):
            yield SettingProblem(
                ("partition_by", index),
                f"two partition fields are named {field.name}: remove one",
            )
