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
from spark_job.changelog.bad_rows import BadRows, RejectReason
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.columns.arrays import Indices, Mask
from spark_job.columns.normalize_arrow import is_comparable
from spark_job.columns.parquet_columns import column_paths, read_columns, read_rows_at

_IGNORED_CODE, _TRUNCATE_CODE = 0xFF, 0xFE
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

    def filter(self, selected: Mask) -> EventColumns:
        """Return the events where `selected` is true."""
        mask = pa.array(selected)
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
    """Return the event columns of a file, or of some of its rows, ascending."""
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
    """Return the sequence columns of a file, or of some of its rows, ascending."""
    columns = _read(parquet, path, shape, shape.sequence.field_ids, rows)
    return [columns[field_id] for field_id in shape.sequence.field_ids]


def _read(
    parquet: pq.ParquetFile,
    path: str,
    shape: ChangelogShape,
    field_ids: Sequence[int],
    rows: NDArray[np.int64] | None,
) -> dict[int, pa.Array]:
    """Return columns by field id; an optional column that the file does not have is NULL."""
    paths = column_paths(parquet, path, field_ids)
    read_ids = [field_id for field_id in field_ids if field_id in paths or field_id not in shape.optional_ids]
    arrays = (
        read_columns(parquet, path, read_ids) if rows is None else read_rows_at(parquet, path, read_ids, rows)
    )
    columns = dict(zip(read_ids, arrays, strict=True))
    for field_id, values in columns.items():
        expected = shape.arrow_types.get(field_id)
        if expected == pa.large_string() and pa.types.is_large_binary(values.type):
            columns[field_id] = values.cast(expected)  # some writers do not annotate strings in Parquet
        elif expected is not None and not is_comparable(values.type, expected):
            raise Invalid(
                f"column {'.'.join(paths[field_id])} holds {values.type}, but is {expected} in {shape.changelog_name}. "
                "Roll the changelog back to the snapshot before the file, append its rows with the right type, then "
                f"`icemirror resume`. The file: {path}"
            )
    count = parquet.metadata.num_rows if rows is None else len(rows)
    return {field_id: columns[field_id] if field_id in columns else pa.nulls(count) for field_id in field_ids}


@dataclass(frozen=True, slots=True)
class ParsedOperations:
    """The operation of each row, and masks over the rows.

    `is_event`: None if all rows are events. `null_is_lowest`: a NULL sequence is the lowest value; None if no row has
    such an operation. `truncations`: the row reports a truncation; None if no row does.
    """

    operation: NDArray[np.uint8]
    is_event: Mask | None = None
    null_is_lowest: Mask | None = None
    truncations: Mask | None = None


def parse_operations(columns: EventColumns, shape: ChangelogShape, path: str) -> ParsedOperations:
    """Return the operations of a file's events; raise `BadRows` for unknown ones."""
    if columns.operation is None:
        parsed = ParsedOperations(np.full(len(columns), Operation.UPSERT, dtype=np.uint8))
        if columns.deleted is not None:
            parsed.operation[_null_records(columns, columns.deleted, shape)] = _IGNORED_CODE
    else:
        parsed = _parse_values(columns, columns.operation, shape, path)
    if columns.deleted is not None:
        deleted = _deleted_rows(columns.deleted, path) & (parsed.operation < _TRUNCATE_CODE)
        parsed.operation[deleted] = Operation.DELETE
    is_event = parsed.operation < _TRUNCATE_CODE
    if is_event.all():
        return parsed
    truncations = parsed.operation == _TRUNCATE_CODE
    return ParsedOperations(
        parsed.operation, is_event, parsed.null_is_lowest, truncations if truncations.any() else None
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
    for value_index, value in enumerate(encoded.dictionary.to_pylist()):
        if value in shape.operations:
            codes[value_index] = shape.operations[value]
        elif value in shape.ignored_operations:
            codes[value_index] = _IGNORED_CODE
        elif value is None:
            bad_rows = np.flatnonzero((indices == value_index) & ~_null_records(columns, values, shape))
            if len(bad_rows):
                raise _unknown_operation(value, bad_rows, shape, path)
            codes[value_index] = _IGNORED_CODE
        elif value in shape.truncate_operations:
            codes[value_index] = _TRUNCATE_CODE
        else:
            unknown = [value_index, *_unknown_values(encoded.dictionary, shape)]
            raise _unknown_operation(value, np.flatnonzero(np.isin(indices, unknown)), shape, path)
        null_is_lowest[value_index] = value in shape.null_sequence_for
    return ParsedOperations(
        codes[indices], null_is_lowest=null_is_lowest[indices] if null_is_lowest.any() else None
    )


def _null_records(columns: EventColumns, operation: pa.Array, shape: ChangelogShape) -> Mask:
    """Return which rows are Kafka's null records after a delete: a key, but neither operation nor sequence."""
    null_records = np.full(len(columns), shape.has_null_records, dtype=np.bool_)
    for column in (operation, *columns.sequence) if shape.has_null_records else ():
        null_records &= column.is_null().to_numpy(zero_copy_only=False)
    return null_records


def _unknown_values(values: pa.Array, shape: ChangelogShape) -> list[int]:
    """Return the indices of the values that the settings do not contain."""
    configured = {*shape.operations, *shape.ignored_operations, *shape.truncate_operations, None}
    return [index for index, value in enumerate(values.to_pylist()) if value not in configured]


def _unknown_operation(value: str | None, rows: Indices, shape: ChangelogShape, path: str) -> BadRows:
    operations = ", ".join(sorted(value for value in shape.operations if value is not None))
    reason = RejectReason.NULL_OPERATION if value is None else RejectReason.UNKNOWN_OPERATION
    return BadRows(
        f"unknown operation {quote_operation(value)} in row {int(rows[0])}; known are {operations}",
        path,
        reason,
        rows,
    )


def quote_operation(value: str | None) -> str:
    """Return an operation for messages, shortened: a wrong column may hold text of any length."""
    if value is None:
        return "NULL"
    return repr(value if len(value) <= _MAX_QUOTED_CHARACTERS else f"{value[:_MAX_QUOTED_CHARACTERS]}…")


def _deleted_rows(column: pa.Array, path: str) -> Mask:
    """Return which rows a column of the source flags as deleted."""
    column_type = column.type
    if pa.types.is_null(column_type):
        return np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_temporal(column_type):
        flags = column.is_valid()
    elif pa.types.is_boolean(column_type):
        flags = column.fill_null(False)
    elif pa.types.is_integer(column_type):
        flags = pc.not_equal(column, 0).fill_null(False)
    else:
        is_flag = pc.is_in(column, value_set=pa.array(["true", "false", None], column_type))
        if not pc.all(is_flag, min_count=0).as_py():
            rows = np.flatnonzero(~is_flag.to_numpy(zero_copy_only=False))
            raise BadRows(
                f"the delete_column has a text other than true and false in row {int(rows[0])}",
                path,
                RejectReason.UNKNOWN_OPERATION,
                rows,
            )
        flags = pc.equal(column, "true").fill_null(False)
    deleted: Mask = flags.to_numpy(zero_copy_only=False)
    return deleted
