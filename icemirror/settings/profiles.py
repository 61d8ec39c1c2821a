"""What the writers of changelogs call their columns, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from icemirror.settings.section import Name, Section
from icemirror.settings.setting_problems import SettingProblem

ProfileName = Literal["supabase-etl", "debezium", "dms", "kafka-connect", "generic"]
ConnectorName = Literal["postgres", "mysql", "sqlserver", "oracle"]
SequenceFormat = Literal[
    "etl-hex", "number", "timestamp", "postgres-lsn", "postgres-sequence", "binlog-file", "sqlserver-lsn"
]
"""Formats of numbers in a string sequence column."""

_MEANINGS = ("insert", "update", "delete", "truncate", "ignore")


class OperationValues(Section):
    """Meaning of the values in the operation column; any other value blocks the table."""

    insert: tuple[Name, ...] = Field(default=(), description="Values for an inserted row.")
    update: tuple[Name, ...] = Field(default=(), description="Values for an updated row.")
    delete: tuple[Name, ...] = Field(default=(), description="Values for a deleted row.")
    truncate: tuple[Name, ...] = Field(
        default=(),
        description="Values for a truncated table, handled according to `on_truncate`.",
    )
    ignore: tuple[Name, ...] = Field(default=(), description="Values of events that are skipped.")

    def problems(self) -> Iterator[SettingProblem]:
        """Yield a problem unless each value has one meaning, and some value inserts or updates."""
        meaning_by_value: dict[str, str] = {}
        for meaning in _MEANINGS:
            for value in getattr(self, meaning):
                if value in meaning_by_value:
                    yield SettingProblem(
                        (meaning,), f"{value!r} is already listed under {meaning_by_value[value]}"
                    )
                meaning_by_value.setdefault(value, meaning)
        if not self.insert and not self.update:
            yield SettingProblem((), "no value inserts or updates, so the mirror would stay empty")


@dataclass(frozen=True, slots=True)
class Connector:
    """The sequence columns of a Debezium connector, each with its possible names.

    `optional_columns`: columns that also count if they exist.
    `omits_unchanged_values`: large unchanged values may be missing.
    """

    columns: tuple[tuple[str, ...], ...]
    optional_columns: tuple[tuple[str, ...], ...] = ()
    formats: Mapping[str, SequenceFormat] = field(default_factory=dict)
    omits_unchanged_values: bool = False


def _source_field_names(name: str) -> tuple[str, str]:
    """Return the names of a `source` field, by `add.fields=source.x` and `add.fields=x`."""
    return f"__source_{name}", f"__{name}"


CONNECTORS: Mapping[ConnectorName, Connector] = {
    "postgres": Connector(
        (_source_field_names("lsn"),),
        (("__transaction_total_order", "__total_order"),),
        omits_unchanged_values=True,
    ),
    "mysql": Connector(
        (_source_field_names("file"), _source_field_names("pos"), _source_field_names("row")),
        formats=dict.fromkeys(_source_field_names("file"), "binlog-file"),
    ),
    # One LSN is not enough: all changes of a commit share the first (debezium#746).
    "sqlserver": Connector(
        (_source_field_names("commit_lsn"), _source_field_names("change_lsn")),
        (_source_field_names("event_serial_no"),),
        formats=dict.fromkeys(
            (*_source_field_names("commit_lsn"), *_source_field_names("change_lsn")), "sqlserver-lsn"
        ),
    ),
    # An SCN is not unique (debezium#5998).
    "oracle": Connector(
        (_source_field_names("scn"), _source_field_names("ssn")),
        formats=dict.fromkeys((*_source_field_names("scn"), *_source_field_names("ssn")), "number"),
        omits_unchanged_values=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Profile:
    """Defaults of a profile. None or empty: the writer has no fixed name, so the user must set it.

    `copy_values`: operations of the initial copy, whose sequence may be partly NULL; with `null_sequence_is_lowest` all
    operations that mean insert. `writer_prefix`: prefix of the writer's metadata columns.
    `old_key_names`: possible names of a key column's value before the change.
    """

    operation_column: str | None
    operation_values: OperationValues
    sequence_columns: tuple[str, ...]
    null_operation_is_insert: bool = False
    null_sequence_is_lowest: bool = False
    copy_values: tuple[str, ...] = ()
    text_format: SequenceFormat = "etl-hex"
    formats: Mapping[str, SequenceFormat] = field(default_factory=dict)
    writer_prefix: str | None = None
    delete_column: str | None = None
    has_null_records: bool = False
    old_key_names: tuple[str, ...] = ()
    unchanged_value: str | None = None


_WORD_VALUES = OperationValues(insert=("INSERT",), update=("UPDATE",), delete=("DELETE",))
_LETTER_VALUES = OperationValues(insert=("I",), update=("U",), delete=("D",))

PROFILES: Mapping[ProfileName, Profile] = {
    "supabase-etl": Profile("cdc_operation", _WORD_VALUES, ("sequence_number",)),
    # The order depends on the connector (LSN, binlog position, SCN); __ts_ms alone is too coarse.
    "debezium": Profile(
        "__op",
        OperationValues(insert=("c", "r"), update=("u",), delete=("d",), truncate=("t",)),
        (),
        copy_values=("r",),
        writer_prefix="__",
        delete_column="__deleted",
        has_null_records=True,
        old_key_names=("__before_{}", "__before.{}", "before.{}"),
        unchanged_value="__debezium_unavailable_value",
    ),
    # The user names DMS' timestamp column; rows of the full load may lack it and the operation.
    "dms": Profile(
        "Op",
        _LETTER_VALUES,
        (),
        null_operation_is_insert=True,
        null_sequence_is_lowest=True,
        text_format="timestamp",
        formats=dict.fromkeys(("AR_H_CHANGE_SEQ", "ar_h_change_seq"), "number"),
    ),
    "kafka-connect": Profile("_cdc.op", _LETTER_VALUES, ("_cdc.ts", "_cdc.offset")),
    "generic": Profile(None, _WORD_VALUES, ()),
}
