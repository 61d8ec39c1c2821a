"""What the writers of changelogs call their columns, as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from icemirror.settings.contradictions import Contradiction
from icemirror.settings.section import Name, Section

ProfileName = Literal["supabase-etl", "debezium", "dms", "kafka-connect", "generic"]


class OperationValues(Section):
    """Which values of the operation column mean what; any other value stops the table."""

    insert: tuple[Name, ...] = Field(default=(), description="Values that mean: the row is new.")
    update: tuple[Name, ...] = Field(default=(), description="Values that mean: the row has changed.")
    delete: tuple[Name, ...] = Field(default=(), description="Values that mean: the row is gone.")

    def contradictions(self) -> Iterator[Contradiction]:
        """A value means one thing, and some value must bring rows in."""
        seen: dict[str, str] = {}
        for meaning in ("insert", "update", "delete"):
            for value in getattr(self, meaning):
                if value in seen:
                    yield Contradiction((meaning,), f"{value!r} is listed under {seen[value]} already")
                seen.setdefault(value, meaning)
        if not self.insert and not self.update:
            yield Contradiction((), "no value means insert or update, so the mirror would stay empty")


@dataclass(frozen=True, slots=True)
class Profile:
    """The defaults that a profile gives. None or empty: the writer has no fixed name, the user must say."""

    operation_column: str | None
    operation_values: OperationValues
    sequence_columns: tuple[str, ...]
    null_operation_is_insert: bool = False
    null_sequence_is_lowest: bool = False


_WORDS = OperationValues(insert=("INSERT",), update=("UPDATE",), delete=("DELETE",))
_LETTERS = OperationValues(insert=("I",), update=("U",), delete=("D",))

PROFILES: Mapping[ProfileName, Profile] = {
    "supabase-etl": Profile("cdc_operation", _WORDS, ("sequence_number",)),
    # Debezium's order depends on the connector (LSN, binlog position, SCN); a bare __ts_ms is too coarse.
    "debezium": Profile("__op", OperationValues(insert=("c", "r"), update=("u",), delete=("d",)), ()),
    # DMS names its timestamp column as the user says; rows of the full load may lack it and the operation.
    "dms": Profile("Op", _LETTERS, (), null_operation_is_insert=True, null_sequence_is_lowest=True),
    "kafka-connect": Profile("_cdc.op", _LETTERS, ("_cdc.ts", "_cdc.offset")),
    "generic": Profile(None, _WORDS, ()),
}
