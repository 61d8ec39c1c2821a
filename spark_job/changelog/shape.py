"""The shape of a changelog: which of its columns are key, operation, sequence and row, and how events are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from uuid import UUID

import pyarrow as pa

from icemirror.tables.cursor import Truncation
from spark_job.changelog.sequence import SequenceCodec
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder
from spark_job.columns.missing_columns import MissingValues
from spark_job.index.key_codec import KeyCodec
from spark_job.index.segment import KeyDefinition


class Operation(IntEnum):
    """What an event does to its key."""

    UPSERT = 0
    DELETE = 1


@dataclass(frozen=True)
class ChangelogShape:
    """The columns of one changelog by field id, and how a merge reads events from them.

    - `row_ids`: the top-level columns that the mirror gets.
    - `operation_id`: None if every row is an upsert. `truncate_operations`: operation values that report a truncation.
    - `null_sequence_for`: operations for which a NULL sequence is the lowest value.
    - `delete_id`: a column of the source that flags deleted rows.
    - `keeps_deleted_rows`: a delete sets the row's flag (`delete_mode: soft`).
    - `old_key_ids`: the key before a change, in the order of `key_ids`.
    - `unchanged_placeholder`: stands for a value that did not change. `null_for_unknown_value`: it becomes NULL if the
      value is unknown.
    - `last_column_id`: the greatest field id that the changelog ever assigned, if known.
    - `defaults`: values of columns in files that do not have them.
    - `rejects_bad_rows`: bad rows are rejected instead of failing the merge.
    - `applied_truncation`: the last truncation that the mirror has applied; events before it are not merged.
    - `excluded_ids`: columns whose values must not be stored anywhere.
    - `arrow_types`: the normalized Arrow types of the event columns.
    """

    key_ids: tuple[int, ...]
    operation_id: int | None
    operations: Mapping[str | None, Operation]
    sequence: SequenceCodec
    row_ids: tuple[int, ...]
    key_codec: KeyCodec
    changelog_name: str = ""
    last_column_id: int | None = None
    defaults: MissingValues = field(default_factory=dict)
    ignored_operations: frozenset[str] = frozenset()
    truncate_operations: frozenset[str | None] = frozenset()
    null_sequence_for: frozenset[str | None] = frozenset()
    has_null_records: bool = False
    delete_id: int | None = None
    old_key_ids: tuple[int, ...] = ()
    unchanged_placeholder: UnchangedPlaceholder | None = None
    null_for_unknown_value: bool = False
    rejects_bad_rows: bool = False
    keeps_deleted_rows: bool = False
    applied_truncation: Truncation | None = None
    excluded_ids: frozenset[int] = frozenset()
    arrow_types: Mapping[int, pa.DataType] = field(default_factory=dict)

    def with_mirror_salt(self, mirror: UUID) -> ChangelogShape:
        """Return the shape with a key codec that is salted for this mirror."""
        return replace(self, key_codec=self.key_codec.with_salt(mirror))

    def without_truncations(self) -> ChangelogShape:
        """Return the shape that ignores truncations: events before one are merged as well."""
        ignored = self.ignored_operations | frozenset(filter(None, self.truncate_operations))
        return replace(
            self, truncate_operations=frozenset(), ignored_operations=ignored, applied_truncation=None
        )

    @property
    def is_keyless(self) -> bool:
        """Return whether every event is a separate row, without a key (`append_only`)."""
        return not self.key_ids

    @property
    def keeps_values(self) -> bool:
        """Return whether rows may keep values of the rows that they replace."""
        return self.unchanged_placeholder is not None or self.keeps_deleted_rows

    @property
    def key_definition(self) -> KeyDefinition:
        """Return how the index encodes keys and orders."""
        return KeyDefinition(self.key_codec, self.key_ids, self.sequence.field_ids)

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
