"""The columns of changelog files that describe events without their rows: key, operation, sequence, delete, old key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from icemirror.errors import Invalid
from spark_job.changelog.bad_rows import BadRows, RejectReason, row_numbers
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.columns.normalize_arrow import is_comparable
from spark_job.columns.parquet_columns import column_paths, read_columns, read_rows_at
from spark_job.index.keys import Indices, Mask

_IGNORED, _TRUNCATES = 0xFF, 0xFE
_MAX_QUOTED_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Columns of some events.

    `operation` is None if every row is an upsert, `deleted` if only the operation deletes. `old_keys` is empty if the
    changelog does not contain the key before a change.
    """

    keys: list[pa.Array]
    operation: pa.Array | None
    sequence: list[pa.Array]
    deleted: pa.Array | None
    old_keys: list[pa.Array]

    def __len__(self) -> int:
        return len(self.keys[0])

    def filter(self, kept: Mask) -> EventColumns:
        """Return the events where `kept` is true."""
        mask = pa.array(kept)
        return EventColumns(
            [column.filter(mask) for column in self.keys],
            None if self.operation is None else self.operation.filter(mask),
            [column.filter(mask) for column in self.sequence],
            None if self.deleted is None else self.deleted.filter(mask),
            [column.filter(mask) for column in self.old_keys],
        )


def read_event_columns(
    parquet: pq.ParquetFile, path: str, shape: ChangelogShape, rows: NDArray[np.int64] | None = None
) -> EventColumns:
    """Read the event columns of a file, or of some of its rows, ascending."""
    columns = _read(parquet, path, shape, shape.event_column_ids, rows)
    return EventColumns(
        keys=[columns[field_id] for field_id in shape.key_ids],
        operation=None if shape.operation_id is None else columns[shape.operation_id],
        sequence=[columns[field_id] for field_id in shape.sequence.field_ids],
        deleted=None if shape.delete_id is None else columns[shape.delete_id],
        old_keys=[columns[field_id] for field_id in shape.old_key_ids],
    )


def read_sequence_columns(
    parquet: pq.ParquetFile, path: str, shape: ChangelogShape, rows: NDArray[np.int64] | None = None
) -> list[pa.Array]:
    """Read only the sequence columns of a file, or of some of its rows, ascending."""
    columns = _read(parquet, path, shape, shape.sequence.field_ids, rows)
    return [columns[field_id] for field_id in shape.sequence.field_ids]


def _read(
    parquet: pq.ParquetFile,
    path: str,
    shape: ChangelogShape,
    field_ids: Sequence[int],
    rows: NDArray[np.int64] | None,
) -> dict[int, pa.Array]:
    """Read columns by field id; an optional column that the file does not have is NULL."""
    paths = column_paths(parquet, path, field_ids)
    wanted = [field_id for field_id in field_ids if field_id in paths or field_id not in shape.optional_ids]
    arrays = (
        read_columns(parquet, path, wanted) if rows is None else read_rows_at(parquet, path, wanted, rows)
    )
    columns = dict(zip(wanted, arrays, strict=True))
    for field_id, values in columns.items():
        expected = shape.arrow_types.get(field_id)
        if expected == pa.large_string() and pa.types.is_large_binary(values.type):
            columns[field_id] = values.cast(expected)  # some writers do not annotate strings in Parquet
        elif expected is not None and not is_comparable(values.type, expected):
            raise Invalid(
                f"column {'.'.join(paths[field_id])} holds {values.type}, but is {expected} in {shape.changelog}. Roll "
                "the changelog back to the snapshot before the file, append its rows with the right type, then "
                f"`icemirror resume`. The file: {path}"
            )
    count = parquet.metadata.num_rows if rows is None else len(rows)
    return {field_id: columns[field_id] if field_id in columns else pa.nulls(count) for field_id in field_ids}


@dataclass(frozen=True, slots=True)
class ParsedOperations:
    """The operation of each row.

    Masks over the rows; None if all rows are kept, or if no row qualifies. `kept`: the row is an event.
    `null_is_lowest`: a NULL sequence is the lowest value. `truncations`: the row reports a truncation.
    """

    operation: NDArray[np.uint8]
    kept: Mask | None = None
    null_is_lowest: Mask | None = None
    truncations: Mask | None = None


def read_operations(columns: EventColumns, shape: ChangelogShape, path: str) -> ParsedOperations:
    """Return the operations of a file's events; raise `BadRows` for unknown ones."""
    if columns.operation is None:
        parsed = ParsedOperations(np.full(len(columns), Operation.UPSERT, dtype=np.uint8))
        if columns.deleted is not None:
            parsed.operation[_null_records(columns, columns.deleted, shape)] = _IGNORED
    else:
        parsed = _parse_values(columns, columns.operation, shape, path)
    if columns.deleted is not None:
        deleted = _deleted_rows(columns.deleted, path) & (parsed.operation < _TRUNCATES)
        parsed.operation[deleted] = Operation.DELETE
    kept = parsed.operation < _TRUNCATES
    if kept.all():
        return parsed
    truncations = parsed.operation == _TRUNCATES
    return ParsedOperations(
        parsed.operation, kept, parsed.null_is_lowest, truncations if truncations.any() else None
    )


def _parse_values(
    columns: EventColumns, values: pa.Array, shape: ChangelogShape, path: str
) -> ParsedOperations:
    if not pa.types.is_large_string(values.type):
        values = values.cast(pa.large_string())
    encoded = pc.dictionary_encode(values, null_encoding="encode")
    indices: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
    codes = np.empty(len(encoded.dictionary), dtype=np.uint8)
    null_is_lowest = np.zeros(len(encoded.dictionary), dtype=np.bool_)
    for number, value in enumerate(encoded.dictionary.to_pylist()):
        if value in shape.operations:
            codes[number] = shape.operations[value]
        elif value in shape.ignored_operations:
            codes[number] = _IGNORED
        elif value is None:
            wrong = (indices == number) & ~_null_records(columns, values, shape)
            if wrong.any():
                raise _unknown_operation(value, row_numbers(wrong), shape, path)
            codes[number] = _IGNORED
        elif value in shape.truncate_operations:
            codes[number] = _TRUNCATES
        else:
            unknown = [number, *_unknown_values(encoded.dictionary, shape)]
            raise _unknown_operation(value, row_numbers(np.isin(indices, unknown)), shape, path)
        null_is_lowest[number] = value in shape.null_sequence_for
    return ParsedOperations(
        codes[indices], null_is_lowest=null_is_lowest[indices] if null_is_lowest.any() else None
    )


def _null_records(columns: EventColumns, operation: pa.Array, shape: ChangelogShape) -> Mask:
    """Return which rows are Kafka's null records after a delete: a key, but neither operation nor sequence."""
    found = np.full(len(columns), shape.has_null_records, dtype=np.bool_)
    for column in (operation, *columns.sequence) if shape.has_null_records else ():
        found &= column.is_null().to_numpy(zero_copy_only=False)
    return found


def _unknown_values(values: pa.Array, shape: ChangelogShape) -> list[int]:
    known = {*shape.operations, *shape.ignored_operations, *shape.truncate_operations, None}
    return [number for number, value in enumerate(values.to_pylist()) if value not in known]


def _unknown_operation(value: str | None, rows: Indices, shape: ChangelogShape, path: str) -> Invalid:
    known = ", ".join(sorted(value for value in shape.operations if value is not None))
    reason = RejectReason.NULL_OPERATION if value is None else RejectReason.UNKNOWN_OPERATION
    return BadRows(
        f"unknown operation {quote_operation(value)} in row {int(rows[0])}; known are {known}: {path}",
        reason,
        rows,
    )


def quote_operation(value: str | None) -> str:
    """Return an operation for messages, truncated: a wrong column may hold text of any length."""
    if value is None:
        return "NULL"
    return repr(value if len(value) <= _MAX_QUOTED_CHARACTERS else f"{value[:_MAX_QUOTED_CHARACTERS]}…")


def _deleted_rows(column: pa.Array, path: str) -> Mask:
    """Return which rows a column of the source flags as deleted."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_temporal(kind):
        flags = column.is_valid()
    elif pa.types.is_boolean(kind):
        flags = column.fill_null(False)
    elif pa.types.is_integer(kind):
        flags = pc.not_equal(column, 0).fill_null(False)
    else:
        known = pc.is_in(column, value_set=pa.array(["true", "false", None], column.type))
        if not pc.all(known, min_count=0).as_py():
            rows = row_numbers(~known.to_numpy(zero_copy_only=False))
            raise BadRows(
                f"the delete_column has a text other than true and false in row {int(rows[0])}: {path}",
                RejectReason.UNKNOWN_OPERATION,
                rows,
            )
        flags = pc.equal(column, "true").fill_null(False)
    deleted: Mask = flags.to_numpy(zero_copy_only=False)
    return deleted
