"""Options of a table: how its changelog is read and its mirror written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from icemirror.settings.column_options import ColumnSelection, MetadataColumns
from icemirror.settings.partitioning import PartitionExpression
from icemirror.settings.profiles import (
    CONNECTORS,
    PROFILES,
    Connector,
    ConnectorName,
    OperationValues,
    Profile,
    ProfileName,
    SequenceFormat,
)
from icemirror.settings.quantities import Seconds
from icemirror.settings.section import Name, Properties, Section
from icemirror.settings.setting_problems import SettingProblem
from icemirror.settings.table_option_problems import find_option_problems


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_int(value: object) -> object:
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


SequenceColumns = Annotated[
    tuple[Name, ...],
    BeforeValidator(_as_tuple),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            ],
            "x-type": "text, or a list of text",
        }
    ),
]
FormatVersion = Annotated[Literal[2, 3], BeforeValidator(_as_int)]
Group = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]


class TableOptions(Section):
    """How a changelog is read and its mirror written; for tables under `tables` and under `discover`."""

    primary_keys: tuple[Name, ...] = Field(
        default=(), description="Key columns. Default: the changelog's identifier fields."
    )
    changelog_catalog: Name | None = Field(
        default=None,
        description="Catalog of the changelog, from `iceberg.catalogs`. Default: `iceberg.catalog`.",
    )
    mirror_catalog: Name | None = Field(
        default=None,
        description="Catalog of the mirror, from `iceberg.catalogs`. Default: `iceberg.catalog`.",
    )
    profile: ProfileName = Field(
        default="supabase-etl",
        description="The writer of the changelog; sets the defaults for operation and sequence "
        "(docs/reference/profiles.md).",
    )
    connector: ConnectorName | None = Field(
        default=None,
        description="With profile `debezium`: the connector, which sets the default of `sequence_column`.",
    )
    operation_column: Name | None = Field(
        default=None,
        description="Column with the kind of the event: string, boolean, int or long; `a.b` is field `b` of struct "
        "`a`. Default: the profile's.",
    )
    operation_values: OperationValues | None = Field(
        default=None, description="Meaning of the values in the operation column. Default: the profile's."
    )
    upsert_only: bool = Field(
        default=False,
        description="Every event is an upsert: there is no operation column, and only `delete_column` deletes rows.",
    )
    delete_column: Name | None = Field(
        default=None,
        description="Source column that flags a deleted row: true (boolean, or text `true`), a number other than 0, "
        "any date or timestamp. Without `operation_column` all other events are upserts.",
    )
    sequence_column: SequenceColumns | None = Field(
        default=None,
        description="Column that orders the events, or several columns compared left to right. Types: integers, dates, "
        "timestamps, decimals, or strings with numbers (`sequence_format`). `a.b` is field `b` of struct `a`. "
        "Default: the profile's or the connector's.",
    )
    sequence_format: dict[Name, SequenceFormat] = Field(
        default={},
        description="Number format of string sequence columns, by column. Default: the profile's, usually `etl-hex`: "
        "16 hex digits, a slash, 16 hex digits (written by Supabase ETL).",
    )
    old_key_columns: dict[Name, Name] = Field(
        default={},
        description="For each key column, the column with its value before the change. If a key changes, its row "
        "moves. Default: the columns of profile `debezium`, if the changelog has them.",
    )
    unchanged_value: Name | None = Field(
        default=None,
        description="Text that means the value did not change, in string, binary, list and map columns: the mirror "
        "keeps its value. Default: the profile's.",
    )
    on_missing_value: Literal["stop", "set-null"] = Field(
        default="stop",
        description="What to do if a value did not change, but neither mirror nor changelog has it: `stop` blocks "
        "the table, `set-null` writes NULL.",
    )
    keep_columns: tuple[Name, ...] = Field(
        default=(),
        description="CDC columns (operation, sequence, writer metadata) that the mirror keeps.",
    )
    append_only: bool = Field(
        default=False,
        description="The table has no key: every event is an insert and becomes a row "
        "(docs/how-to/append-only.md).",
    )
    partition_by: tuple[PartitionExpression, ...] = Field(
        default=(), description="Partitioning of the mirror; used only when it is created."
    )
    format_version: FormatVersion = Field(
        default=2,
        description="Iceberg format version of the mirror; used only when it is created. Version 3 has deletion "
        "vectors and stable `_row_id`s; not every reader supports it (docs/how-to/readers.md).",
    )
    schema_policy: Literal["permissive", "strict"] = Field(
        default="permissive",
        description="`permissive` applies schema changes of the changelog in the commit of the rows that need them; "
        "`strict` blocks the table (docs/reference/schema-changes.md).",
    )
    on_dropped_column: Literal["keep", "drop"] = Field(
        default="keep",
        description="What to do if the changelog drops a column. `keep`: the mirror keeps it, NULL in new rows. "
        "`drop`: the mirror drops it too.",
    )
    on_truncate: Literal["rebuild", "stop"] = Field(
        default="rebuild",
        description="What to do if the changelog was recreated (by a TRUNCATE or a resync) or has a truncate event. "
        "`rebuild`: rebuild the mirror and swap it in one commit. `stop`: block the table (docs/how-to/resync.md).",
    )
    on_expired_cursor: Literal["stop", "rebuild"] = Field(
        default="stop",
        description="What to do if the changelog's history no longer reaches back to the cursor. `stop`: block the "
        "table. `rebuild`: rebuild the mirror from the current changelog (docs/how-to/resync.md).",
    )
    on_bad_row: Literal["stop", "quarantine"] = Field(
        default="stop",
        description="What to do if an event cannot be merged: NULL key or sequence, unknown operation. `stop`: block "
        "the table. `quarantine`: write it to the rejects table and continue (docs/how-to/bad-rows.md).",
    )
    rejects_table: Name | None = Field(
        default=None,
        description="The rejects table for `on_bad_row: quarantine`: a name in the mirror's namespace, or a dotted "
        "name, in the mirror's catalog. Default: the mirror's name with `_rejects`.",
    )
    reject_limit: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="With `on_bad_row: quarantine`: block the table if more than this share of a slice is rejected. "
        "The configuration is then probably wrong. Applies to slices of at least 1,000 events. 1: never.",
    )
    delete_mode: Literal["hard", "soft"] = Field(
        default="hard",
        description="`hard` removes deleted rows; `soft` keeps them with their last values and sets a flag "
        "(docs/how-to/soft-deletes.md).",
    )
    deleted_column: Name = Field(
        default="_is_deleted",
        description="With `delete_mode: soft`: name of the boolean column that flags deleted rows.",
    )
    columns: ColumnSelection = Field(default=ColumnSelection(), description="Which columns the mirror has.")
    metadata_columns: MetadataColumns = Field(
        default=MetadataColumns(), description="Columns that icemirror adds to the mirror."
    )
    name_case: Literal["preserve", "lower"] = Field(
        default="preserve", description="Column names in the mirror: as in the changelog, or in lower case."
    )
    min_interval: Seconds = Field(
        default="0s",
        validate_default=True,
        description="Minimum time between merges, unless there is a backlog.",
    )
    tombstone_retention: Seconds = Field(
        default="7d",
        validate_default=True,
        description="How long the key index remembers deleted keys. A late event for a key deleted longer ago "
        "requires a scan of the changelog.",
    )
    compact: bool = Field(
        default=True,
        description="Compact small data files of the mirror after merges, in separate commits that change no row.",
    )
    group: Group = Field(default="default", description="Tables of one group share a Spark job.")
    table_properties: Properties = Field(default={}, description="Iceberg properties of the mirror.")

    @property
    def profile_defaults(self) -> Profile:
        """The defaults of the profile."""
        return PROFILES[self.profile]

    @property
    def connector_defaults(self) -> Connector | None:
        """The connector's defaults for the order of events, unless the table sets `sequence_column`."""
        return None if self.connector is None or self.sequence_column else CONNECTORS[self.connector]

    @property
    def resolved_operation_column(self) -> str | None:
        """The operation column of the table or its profile; None if there is none."""
        return None if self.upsert_only else self.operation_column or self.profile_defaults.operation_column

    @property
    def resolved_operation_values(self) -> OperationValues:
        """The operation values of the table or its profile."""
        return self.operation_values or self.profile_defaults.operation_values

    @property
    def resolved_sequence_columns(self) -> tuple[str, ...]:
        """The sequence columns of the table, its connector (by their first names) or its profile."""
        connector = self.connector_defaults
        if connector is not None:
            return tuple(names[0] for names in connector.columns)
        return self.sequence_column or self.profile_defaults.sequence_columns

    @property
    def resolved_unchanged_value(self) -> str | None:
        """The text that means an unchanged value, if there is one."""
        if self.unchanged_value is None and self.connector is not None:
            omits_values = CONNECTORS[self.connector].omits_unchanged_values
            return self.profile_defaults.unchanged_value if omits_values else None
        return self.unchanged_value or self.profile_defaults.unchanged_value

    def sequence_format_for(self, column: str) -> SequenceFormat:
        """Return the number format of a string sequence column."""
        if column in self.sequence_format:
            return self.sequence_format[column]
        profile = self.profile_defaults
        formats = {**profile.formats, **(CONNECTORS[self.connector].formats if self.connector else {})}
        return formats.get(column, profile.text_format)

    def problems(self) -> Iterator[SettingProblem]:
        """Yield the problems of these options."""
        yield from find_option_problems(self)
        yield from super().problems()
