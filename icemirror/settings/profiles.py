"""What the writers of changelogs call their columns, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from icemirror.settings.contradictions import Contradiction
from icemirror.settings.section import Name, Section

ProfileName = Literal["supabase-etl", "debezium", "dms", "kafka-connect", "generic"]
ConnectorName = Literal["postgres", "mysql", "sqlserver", "oracle"]
SequenceFormat = Literal[
    "etl-hex", "number", "timestamp", "postgres-lsn", "postgres-sequence", "binlog-file", "sqlserver-lsn"
]
"""How numbers are written in a sequence column of type string."""

_MEANINGS = ("insert", "update", "delete", "truncate", "ignore")


class OperationValues(Section):
    """Which values of the operation column mean what; any other value stops the table."""

    insert: tuple[Name, ...] = Field(default=(), description="Values that mean: the row is new.")
    update: tuple[Name, ...] = Field(default=(), description="Values that mean: the row has changed.")
    delete: tuple[Name, ...] = Field(default=(), description="Values that mean: the row is gone.")
    truncate: tuple[Name, ...] = Field(
        default=(),
        description="Values that mean: all rows are gone. What becomes of the mirror then says `on_truncate`.",
    )
    ignore: tuple[Name, ...] = Field(default=(), description="Values of rows that are passed over.")

    def contradictions(self) -> Iterator[Contradiction]:
        """A value means one thing, and some value must bring rows in."""
        seen: dict[str, str] = {}
        for meaning in _MEANINGS:
            for value in getattr(self, meaning):
                if value in seen:
                    yield Contradiction((meaning,), f"{value!r} is listed under {seen[value]} already")
                seen.setdefault(value, meaning)
        if not self.insert and not self.update:
            yield Contradiction((), "no value means insert or update, so the mirror would stay empty")


@dataclass(frozen=True, slots=True)
class Connector:
    """Where a connector of Debezium has the order of its changes: columns, each by the names that it may have.

    `further` count where they are there. `marks_unchanged`: it may leave out large values that did not change.
    """

    columns: tuple[tuple[str, ...], ...]
    further: tuple[tuple[str, ...], ...] = ()
    formats: Mapping[str, SequenceFormat] = field(default_factory=dict)
    marks_unchanged: bool = False


def _source(name: str) -> tuple[str, str]:
    """A field of `source`, as `add.fields=source.x` and `add.fields=x` call it."""
    return f"__source_{name}", f"__{name}"


CONNECTORS: Mapping[ConnectorName, Connector] = {
    "postgres": Connector(
        (_source("lsn"),), (("__transaction_total_order", "__total_order"),), marks_unchanged=True
    ),
    "mysql": Connector(
        (_source("file"), _source("pos"), _source("row")),
        formats=dict.fromkeys(_source("file"), "binlog-file"),
    ),
    # One LSN is not enough: all changes of a commit share the first (debezium#746).
    "sqlserver": Connector(
        (_source("commit_lsn"), _source("change_lsn")),
        (_source("event_serial_no"),),
        formats=dict.fromkeys((*_source("commit_lsn"), *_source("change_lsn")), "sqlserver-lsn"),
    ),
    # An SCN is not unique (debezium#5998).
    "oracle": Connector(
        (_source("scn"), _source("ssn")),
        formats=dict.fromkeys((*_source("scn"), *_source("ssn")), "number"),
        marks_unchanged=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Profile:
    """The defaults that a profile gives. None or empty: the writer has no fixed name, the user must say.

    `copy_values`: of rows of the initial copy, in which parts of the sequence may be NULL; with
    `null_sequence_is_lowest` those that mean insert. `own_prefix`: columns that begin so are the writer's.
    `old_key_names`: what the value of a key column before the change may be called.
    """

    operation_column: str | None
    operation_values: OperationValues
    sequence_columns: tuple[str, ...]
    null_operation_is_insert: bool = False
    null_sequence_is_lowest: bool = False
    copy_values: tuple[str, ...] = ()
    text_format: SequenceFormat = "etl-hex"
    formats: Mapping[str, SequenceFormat] = field(default_factory=dict)
    own_prefix: str | None = None
    delete_column: str | None = None
    has_tombstones: bool = False
    old_key_names: tuple[str, ...] = ()
    unchanged_value: str | None = None


_WORDS = OperationValues(insert=("INSERT",), update=("UPDATE",), delete=("DELETE",))
_LETTERS = OperationValues(insert=("I",), update=("U",), delete=("D",))

PROFILES: Mapping[ProfileName, Profile] = {
    "supabase-etl": Profile("cdc_operation", _WORDS, ("sequence_number",)),
    # Debezium's order depends on the connector (LSN, binlog position, SCN); a bare __ts_ms is too coarse.
    "debezium": Profile(
        "__op",
        OperationValues(insert=("c", "r"), update=("u",), delete=("d",), truncate=("t",)),
        (),
        copy_values=("r",),
        own_prefix="__",
        delete_column="__deleted",
        has_tombstones=True,
        old_key_names=("__before_{}", "__before.{}", "before.{}"),
        unchanged_value="__debezium_unavailable_value",
    ),
    # DMS names its timestamp column as the user says; rows of the full load may lack it and the operation.
    "dms": Profile(
        "Op",
        _LETTERS,
        (),
        null_operation_is_insert=True,
        null_sequence_is_lowest=True,
        text_format="timestamp",
        formats=dict.fromkeys(("AR_H_CHANGE_SEQ", "ar_h_change_seq"), "number"),
    ),
    "kafka-connect": Profile("_cdc.op", _LETTERS, ("_cdc.ts", "_cdc.offset")),
    "generic": Profile(None, _WORDS, ()),
}
