"""Options of a table: how its changelog is read and its mirror written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from icemirror.settings.column_options import RESERVED, ColumnSelection, MetadataColumns
from icemirror.settings.contradictions import Contradiction, repeated
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
from icemirror.tables.mirror_properties import invalid_properties, reserved_properties


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


_SEQUENCE_HINT = "Name the column that orders the events, such as a version or an LSN"
_SEQUENCE_HINTS = {
    "debezium": "Set connector, or list the columns that order the events",
    "dms": "Name the column with the commit time, such as dms_ts",
}


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
        by_connector = self.connector_defaults
        if by_connector is not None:
            return tuple(names[0] for names in by_connector.columns)
        return self.sequence_column or self.profile_defaults.sequence_columns

    @property
    def resolved_unchanged_value(self) -> str | None:
        """The text that means an unchanged value, if there is one."""
        if self.unchanged_value is None and self.connector is not None:
            marks = CONNECTORS[self.connector].omits_unchanged_values
            return self.profile_defaults.unchanged_value if marks else None
        return self.unchanged_value or self.profile_defaults.unchanged_value

    def format_of(self, column: str) -> SequenceFormat:
        """Return the number format of a string sequence column."""
        if column in self.sequence_format:
            return self.sequence_format[column]
        profile = self.profile_defaults
        known = {**profile.formats, **(CONNECTORS[self.connector].formats if self.connector else {})}
        return known.get(column, profile.text_format)

    def contradictions(self) -> Iterator[Contradiction]:
        """Required columns, options that exclude each other, columns that must stay, valid properties."""
        yield from self._missing_columns()
        yield from self._profile_problems()
        if self.append_only:
            yield from self._needing_a_key()
        if self.delete_mode == "soft" and self.deleted_column in self.metadata_columns.named.values():
            yield Contradiction(
                ("deleted_column",), f"metadata_columns also has a column {self.deleted_column!r}: rename one"
            )
        if self.deleted_column in RESERVED:
            why = "is reserved by Iceberg, and Spark could not read the mirror: choose another name"
            yield Contradiction(("deleted_column",), f"{self.deleted_column} {why}")
        yield from repeated([(("primary_keys", at), name) for at, name in enumerate(self.primary_keys)])
        yield from repeated(
            [(("sequence_column", at), name) for at, name in enumerate(self.sequence_column or ())]
        )
        yield from repeated(
            [(("partition_by", at), str(field)) for at, field in enumerate(self.partition_by)]
        )
        kept = [(("primary_keys", at), name) for at, name in enumerate(self.primary_keys)]
        kept += [(("partition_by", at), field.column) for at, field in enumerate(self.partition_by)]
        for path, name in kept:
            if self.columns.drops(name):
                yield Contradiction(path, f"the mirror needs {name!r}, but `columns` excludes it")
        yield from self._wrong_columns()
        yield from self._wrong_partitions()
        for name, expected in invalid_properties(self.table_properties):
            text = self.table_properties[name]
            yield Contradiction(("table_properties", name), f"is {text!r}, not {expected}")
        for name, why in reserved_properties(self.table_properties, self.format_version):
            yield Contradiction(("table_properties", name), why)
        yield from super().contradictions()

    def _needing_a_key(self) -> Iterator[Contradiction]:
        if self.primary_keys:
            yield Contradiction(("primary_keys",), "an append_only table has no key: remove one of them")
        if self.delete_mode == "soft":
            yield Contradiction(("delete_mode",), "an append_only table has no deletes: remove delete_mode")
        if self.on_bad_row == "quarantine":
            yield Contradiction(("on_bad_row",), "an append_only table rejects no rows: remove on_bad_row")
        if self.metadata_columns.source_sequence is not None:
            why = "an append_only table has no sequence: use keep_columns to keep a column of the changelog"
            yield Contradiction(("metadata_columns", "source_sequence"), why)
        if self.resolved_operation_values.ignore:
            why = "an append_only table skips no event: remove the values"
            yield Contradiction(("operation_values", "ignore"), why)

    def _missing_columns(self) -> Iterator[Contradiction]:
        if self.append_only:
            return
        has_none = self.upsert_only or self.delete_column is not None
        if self.resolved_operation_column is None and not has_none:
            yield Contradiction(
                ("operation_column",),
                f"missing: the profile {self.profile} has no default. Name the column with the kind of the event, or "
                "set upsert_only: true",
            )
        if not self.resolved_sequence_columns:
            hint = _SEQUENCE_HINTS.get(self.profile, _SEQUENCE_HINT)
            yield Contradiction(
                ("sequence_column",), f"missing: the profile {self.profile} has no default. {hint}"
            )

    def _profile_problems(self) -> Iterator[Contradiction]:
        if self.connector is not None and self.profile != "debezium":
            yield Contradiction(("connector",), f"the profile {self.profile} has no connectors")
        if self.upsert_only and self.operation_column is not None:
            yield Contradiction(("upsert_only",), "excludes operation_column: remove one of them")
        ordering = {*self.resolved_sequence_columns}
        if self.connector_defaults is not None:
            each = (*self.connector_defaults.columns, *self.connector_defaults.further)
            ordering |= {name for names in each for name in names}
        for column in self.sequence_format:
            if column not in ordering:
                yield Contradiction(("sequence_format", column), "is not a sequence column")
        for column in self.old_key_columns:
            if self.primary_keys and column not in self.primary_keys:
                yield Contradiction(("old_key_columns", column), "is not a key column")

    def _wrong_columns(self) -> Iterator[Contradiction]:
        """Columns that the table uses for two purposes that exclude each other."""
        cdc_columns = {
            *(self.sequence_column or ()),
            *((self.operation_column,) if self.operation_column else ()),
        }
        if self.operation_column in (self.sequence_column or ()):
            yield Contradiction(("sequence_column",), f"{self.operation_column!r} is the operation_column")
        for at, name in enumerate(self.primary_keys):
            if name in cdc_columns:
                yield Contradiction(
                    ("primary_keys", at), f"column {name} cannot be both a key and a CDC column"
                )
        for at, field in enumerate(self.partition_by):
            if field.column in cdc_columns and field.column not in self.keep_columns:
                yield Contradiction(
                    ("partition_by", at),
                    f"the mirror lacks the CDC column {field.column}: add it to keep_columns, or partition by another",
                )

    def _wrong_partitions(self) -> Iterator[Contradiction]:
        """Two partition fields with the same name."""
        names: dict[str, str] = {}
        for at, field in enumerate(self.partition_by):
            if names.setdefault(field.name, str(field)) != str(field):
                yield Contradiction(
                    ("partition_by", at),
                    f"two partition fields are named {field.name}: remove one",
                )
