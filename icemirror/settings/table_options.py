"""How a changelog is read and its mirror kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from icemirror.mirror_properties import whose_else, wrong_properties
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


class ColumnSelection(Section):
    """Which columns the mirror has; the values of the others never reach mirror, index or logs."""

    include: tuple[Name, ...] | None = Field(
        default=None, description="Only these columns, and the key. Names are the changelog's."
    )
    exclude: tuple[Name, ...] = Field(default=(), description="All columns but these.")

    def contradictions(self) -> Iterator[Contradiction]:
        """One way of choosing at a time."""
        if self.include is not None and self.exclude:
            yield Contradiction(("exclude",), "give either include or exclude")
        if self.include == ():
            yield Contradiction(("include",), "names no column: leave it out to keep them all")

    def drops(self, column: str) -> bool:
        """The mirror goes without this column (or the top-level column that it is a part of)."""
        names = {column, column.split(".", 1)[0]}
        return bool(names & set(self.exclude)) or (self.include is not None and not names & set(self.include))


# Of columns that Iceberg's readers add to every table.
RESERVED = frozenset({"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"})


class MetadataColumns(Section):
    """Columns that the mirror has beyond those of the changelog."""

    synced_at: Name | None = Field(
        default=None, description="Name of a column with the time at which a merge last wrote the row."
    )
    source_sequence: Name | None = Field(
        default=None, description="Name of a column with the sequence of the row's last change, as text."
    )
    created_at: Name | None = Field(
        default=None, description="Name of a column with the time at which the key came in; updates keep it."
    )

    @property
    def named(self) -> dict[str, str]:
        """What each added column is → its name."""
        found = {key: getattr(self, key) for key in ("synced_at", "source_sequence", "created_at")}
        return {key: name for key, name in found.items() if name is not None}

    def contradictions(self) -> Iterator[Contradiction]:
        """Every added column has its own name."""
        yield from repeated(list(self.named.items()))


class TableOptions(Section):
    """How a changelog is read and its mirror kept; the same for a listed table and for discovered ones."""

    primary_keys: tuple[Name, ...] = Field(
        default=(), description="Key columns. Default: the changelog's identifier fields."
    )
    changelog_catalog: Name | None = Field(
        default=None, description="A name under `iceberg.catalogs`. Default: `iceberg.catalog`."
    )
    mirror_catalog: Name | None = Field(
        default=None, description="A name under `iceberg.catalogs`. Default: `iceberg.catalog`."
    )
    profile: ProfileName = Field(
        default="supabase-etl",
        description="The changelog's writer; gives the defaults of operation and sequence (docs/profiles.md).",
    )
    connector: ConnectorName | None = Field(
        default=None,
        description="Profile `debezium`: the connector, which gives the default of `sequence_column`.",
    )
    operation_column: Name | None = Field(
        default=None,
        description="Column that says what happened, of type string, boolean, int or long; `a.b` is field `b` of "
        "struct `a`. Default: the profile's.",
    )
    operation_values: OperationValues | None = Field(
        default=None, description="What the values of the operation column mean. Default: the profile's."
    )
    upsert_only: bool = Field(
        default=False,
        description="Every row is the new state of its key: there is no operation column, and nothing is deleted but "
        "by `delete_column`.",
    )
    delete_column: Name | None = Field(
        default=None,
        description="Column of the source that says that the row is gone: true (boolean, or text `true` and `false`), "
        "a number other than 0, any date or timestamp. Without `operation_column` all other rows are upserts.",
    )
    sequence_column: SequenceColumns | None = Field(
        default=None,
        description="Column that orders the changes, or columns compared left to right: integers, dates, "
        "timestamps, decimals, or strings that hold numbers (`sequence_format`); `a.b` is field `b` of struct `a`. "
        "Default: the profile's, or the connector's.",
    )
    sequence_format: dict[Name, SequenceFormat] = Field(
        default={},
        description="How sequence columns of type string write their numbers, by column. Default: the profile's, "
        "mostly `etl-hex`: 16 hex digits, slash, 16 hex digits (as Supabase ETL writes them).",
    )
    old_key_columns: dict[Name, Name] = Field(
        default={},
        description="For each key column the one that holds its value before the change: a row whose key changed then "
        "moves. Default: those of profile `debezium`, where the changelog has them.",
    )
    unchanged_value: Name | None = Field(
        default=None,
        description="Text that stands for a value that did not change, in columns of text, binary, lists and maps: "
        "the mirror keeps what it has. Default: the profile's.",
    )
    on_missing_value: Literal["stop", "set-null"] = Field(
        default="stop",
        description="When a value did not change, but neither mirror nor changelog has it: `set-null` writes "
        "NULL.",
    )
    keep_columns: tuple[Name, ...] = Field(
        default=(),
        description="Columns of operation, sequence or the writer that the mirror has nevertheless.",
    )
    append_only: bool = Field(
        default=False,
        description="A table without a key: every event is an insert and becomes a row (docs/append-only.md).",
    )
    partition_by: tuple[PartitionExpression, ...] = Field(
        default=(), description="Partitioning of the mirror, used when it is created."
    )
    format_version: FormatVersion = Field(
        default=2,
        description="Iceberg format of the mirror, used when it is created. 3: deletion vectors, and rows that keep "
        "their `_row_id`. Not every reader is ready for it (docs/readers.md).",
    )
    schema_policy: Literal["permissive", "strict"] = Field(
        default="permissive",
        description="`permissive` follows schema changes of the changelog, in the commit of the rows that need them; "
        "`strict` stops at them (docs/schema-changes.md).",
    )
    on_dropped_column: Literal["keep", "drop"] = Field(
        default="keep",
        description="When the changelog drops a column: `keep` leaves it in the mirror, NULL in rows from then on; "
        "`drop` drops it there, too.",
    )
    on_truncate: Literal["rebuild", "stop"] = Field(
        default="rebuild",
        description="When the changelog was dropped and made anew (a TRUNCATE or a re-sync), or has a row that tells "
        "of a truncation: `rebuild` builds the mirror anew beside the old one and swaps (docs/resync.md).",
    )
    on_expired_cursor: Literal["stop", "rebuild"] = Field(
        default="stop",
        description="When the history of the changelog no longer reaches back to what was merged last: `rebuild` "
        "builds the mirror anew from what the changelog holds (docs/resync.md).",
    )
    on_bad_row: Literal["stop", "quarantine"] = Field(
        default="stop",
        description="When a row of the changelog cannot be merged: its key or sequence is NULL, say, or its operation "
        "unknown. `quarantine` puts it into a rejects table and goes on (docs/bad-rows.md).",
    )
    rejects_table: Name | None = Field(
        default=None,
        description="The table for bad rows with `on_bad_row: quarantine`: a name in the mirror's namespace, or a "
        "dotted name; in the mirror's catalog. Default: the mirror's name with `_rejects`.",
    )
    reject_limit: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="With `on_bad_row: quarantine`: stop where more than this share of a slice of 1,000 events or more "
        "is bad, because then the configuration is more likely to be wrong. 1: never.",
    )
    delete_mode: Literal["hard", "soft"] = Field(
        default="hard",
        description="`soft` keeps deleted rows, with the values that they had, and flags them (docs/soft-deletes.md).",
    )
    deleted_column: Name = Field(
        default="_is_deleted",
        description="With `delete_mode: soft`: name of the boolean column that says that a row is deleted.",
    )
    columns: ColumnSelection = Field(default=ColumnSelection(), description="Which columns the mirror has.")
    metadata_columns: MetadataColumns = Field(
        default=MetadataColumns(), description="Columns to add to the mirror."
    )
    name_case: Literal["preserve", "lower"] = Field(
        default="preserve", description="Column names in the mirror: as in the changelog, or in lower case."
    )
    min_interval: Seconds = Field(
        default="0s", validate_default=True, description="Not more often than this, unless a backlog waits."
    )
    tombstone_retention: Seconds = Field(
        default="7d",
        validate_default=True,
        description="How long the index remembers deleted keys at least. An insert of such a key that is late by more "
        "costs a look into the changelog.",
    )
    compact: bool = Field(
        default=True,
        description="Put small data files of the mirror together now and then, in commits of their own that change no "
        "row.",
    )
    group: Group = Field(default="default", description="Tables of one group share a warm Spark job.")
    table_properties: Properties = Field(default={}, description="Iceberg properties of the mirror.")

    @property
    def profile_defaults(self) -> Profile:
        """What the profile says where the table says nothing."""
        return PROFILES[self.profile]

    @property
    def connector_defaults(self) -> Connector | None:
        """What the connector says of the order of changes, where the table says nothing."""
        return None if self.connector is None or self.sequence_column else CONNECTORS[self.connector]

    @property
    def resolved_operation_column(self) -> str | None:
        """The table's own operation column, else the profile's; None where there is none."""
        return None if self.upsert_only else self.operation_column or self.profile_defaults.operation_column

    @property
    def resolved_operation_values(self) -> OperationValues:
        """The table's own operation values, else the profile's."""
        return self.operation_values or self.profile_defaults.operation_values

    @property
    def resolved_sequence_columns(self) -> tuple[str, ...]:
        """The table's own sequence columns, else the connector's by their first names, else the profile's."""
        by_connector = self.connector_defaults
        if by_connector is not None:
            return tuple(names[0] for names in by_connector.columns)
        return self.sequence_column or self.profile_defaults.sequence_columns

    @property
    def resolved_unchanged_value(self) -> str | None:
        """What stands for a value that did not change, if anything does."""
        if self.unchanged_value is None and self.connector is not None:
            marks = CONNECTORS[self.connector].marks_unchanged
            return self.profile_defaults.unchanged_value if marks else None
        return self.unchanged_value or self.profile_defaults.unchanged_value

    def format_of(self, column: str) -> SequenceFormat:
        """How a sequence column writes its numbers, if it is of type string."""
        if column in self.sequence_format:
            return self.sequence_format[column]
        profile = self.profile_defaults
        known = {**profile.formats, **(CONNECTORS[self.connector].formats if self.connector else {})}
        return known.get(column, profile.text_format)

    def contradictions(self) -> Iterator[Contradiction]:
        """What the profile leaves open, what a table without a key cannot have, columns that must stay."""
        yield from self._missing_columns()
        yield from self._profile_problems()
        if self.append_only:
            yield from self._needing_a_key()
        if self.delete_mode == "soft" and self.deleted_column in self.metadata_columns.named.values():
            yield Contradiction(
                ("deleted_column",), f"metadata_columns has a column {self.deleted_column!r}, too"
            )
        if self.deleted_column in RESERVED:
            why = "is a name of Iceberg's own: Spark would not read the mirror"
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
                yield Contradiction(path, f"the mirror needs {name!r}, but `columns` leaves it out")
        yield from self._wrong_columns()
        yield from self._wrong_partitions()
        for name, expected in wrong_properties(self.table_properties):
            text = self.table_properties[name]
            yield Contradiction(("table_properties", name), f"is {text!r}, not {expected}")
        for name, why in whose_else(self.table_properties, self.format_version):
            yield Contradiction(("table_properties", name), why)
        yield from super().contradictions()

    def _needing_a_key(self) -> Iterator[Contradiction]:
        if self.primary_keys:
            yield Contradiction(("primary_keys",), "an append_only table has no key: remove one of the two")
        if self.delete_mode == "soft":
            yield Contradiction(("delete_mode",), "an append_only table has no deletes to flag")
        if self.metadata_columns.source_sequence is not None:
            why = "an append_only table has no sequence; keep_columns keeps a column of the changelog"
            yield Contradiction(("metadata_columns", "source_sequence"), why)
        if self.resolved_operation_values.ignore:
            why = "every event of an append_only table becomes a row: none is passed over"
            yield Contradiction(("operation_values", "ignore"), why)

    def _missing_columns(self) -> Iterator[Contradiction]:
        if self.append_only:
            return
        has_none = self.upsert_only or self.delete_column is not None
        if self.resolved_operation_column is None and not has_none:
            yield Contradiction(("operation_column",), f"missing: the profile {self.profile} has no default")
        if not self.resolved_sequence_columns:
            hint = "; name the connector, or the columns" if self.profile == "debezium" else ""
            yield Contradiction(
                ("sequence_column",), f"missing: the profile {self.profile} has no default{hint}"
            )

    def _profile_problems(self) -> Iterator[Contradiction]:
        if self.connector is not None and self.profile != "debezium":
            yield Contradiction(("connector",), f"the profile {self.profile} has no connectors")
        if self.upsert_only and self.operation_column is not None:
            yield Contradiction(("upsert_only",), "there is an operation_column: remove one of the two")
        ordering = {*self.resolved_sequence_columns}
        if self.connector_defaults is not None:
            each = (*self.connector_defaults.columns, *self.connector_defaults.further)
            ordering |= {name for names in each for name in names}
        for column in self.sequence_format:
            if column not in ordering:
                yield Contradiction(("sequence_format", column), "is no sequence column")
        for column in self.old_key_columns:
            if self.primary_keys and column not in self.primary_keys:
                yield Contradiction(("old_key_columns", column), "is no key column")

    def _wrong_columns(self) -> Iterator[Contradiction]:
        """Columns that this table itself names for two things that exclude each other."""
        told = {*(self.sequence_column or ()), *((self.operation_column,) if self.operation_column else ())}
        if self.operation_column in (self.sequence_column or ()):
            yield Contradiction(("sequence_column",), f"{self.operation_column!r} is the operation_column")
        for at, name in enumerate(self.primary_keys):
            if name in told:
                yield Contradiction(
                    ("primary_keys", at), f"column {name} cannot be key and CDC column at once"
                )
        for at, field in enumerate(self.partition_by):
            if field.column in told and field.column not in self.keep_columns:
                yield Contradiction(
                    ("partition_by", at),
                    f"names column {field.column}, which the mirror does not have: it is of the CDC columns, and "
                    "keep_columns does not name it",
                )

    def _wrong_partitions(self) -> Iterator[Contradiction]:
        """Different partitions of one name."""
        names: dict[str, str] = {}
        for at, field in enumerate(self.partition_by):
            if names.setdefault(field.name, str(field)) != str(field):
                yield Contradiction(
                    ("partition_by", at),
                    f"has two partitions {field.name}; Iceberg takes one. Drop one.",
                )
