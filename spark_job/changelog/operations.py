"""What events do to their keys, by the columns that say so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icemirror.errors import Invalid
from spark_job.changelog.bad_rows import BadRows, Reason, rows_where
from spark_job.changelog.narrow import Narrow
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.key_index.keys import Indices

Mask = NDArray[np.bool_]
_IGNORED, _TRUNCATES = 0xFF, 0xFE
_MOST_SHOWN = 40  # characters


@dataclass(frozen=True, slots=True)
class Told:
    """The operation of each event; which of them are events at all, if not all are; in which of them a NULL in the
    sequence is the lowest value, if in any; and which rows tell of a truncation, if any does."""

    operation: NDArray[np.uint8]
    kept: Mask | None = None
    lowest: Mask | None = None
    truncations: Mask | None = None


def read_operations(narrow: Narrow, shape: ChangelogShape, path: str) -> Told:
    """What the events of a file do; raises `Invalid` where one says something that is not known."""
    if narrow.operation is None:
        told = Told(np.full(len(narrow), Operation.UPSERT, dtype=np.uint8))
        if narrow.deleted is not None:
            told.operation[_tombstones(narrow, narrow.deleted, shape)] = _IGNORED
    else:
        told = _by_values(narrow, narrow.operation, shape, path)
    if narrow.deleted is not None:
        told.operation[_deleted(narrow.deleted, path) & (told.operation < _TRUNCATES)] = Operation.DELETE
    kept = told.operation < _TRUNCATES
    if kept.all():
        return told
    truncations = told.operation == _TRUNCATES
    return Told(told.operation, kept, told.lowest, truncations if truncations.any() else None)


def _by_values(narrow: Narrow, column: pa.Array, shape: ChangelogShape, path: str) -> Told:
    if not pa.types.is_large_string(column.type):
        column = column.cast(pa.large_string())
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    indices: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
    codes = np.empty(len(encoded.dictionary), dtype=np.uint8)
    lowest = np.zeros(len(encoded.dictionary), dtype=np.bool_)
    for at, value in enumerate(encoded.dictionary.to_pylist()):
        if value in shape.operations:
            codes[at] = shape.operations[value]
        elif value in shape.ignored:
            codes[at] = _IGNORED
        elif value is None:
            wrong = (indices == at) & ~_tombstones(narrow, column, shape)
            if wrong.any():
                raise _unknown(value, rows_where(wrong), shape, path)
            codes[at] = _IGNORED
        elif value in shape.truncates:
            codes[at] = _TRUNCATES
        else:
            others = [at, *_unknown_values(encoded.dictionary, shape)]
            raise _unknown(value, rows_where(np.isin(indices, others)), shape, path)
        lowest[at] = value in shape.null_sequence_for
    return Told(codes[indices], lowest=lowest[indices] if lowest.any() else None)


def _tombstones(narrow: Narrow, told: pa.Array, shape: ChangelogShape) -> Mask:
    """Kafka's, after a delete: they have a key, and neither tell what happened nor when."""
    found = np.full(len(narrow), shape.has_tombstones, dtype=np.bool_)
    for column in (told, *narrow.sequence) if shape.has_tombstones else ():
        found &= column.is_null().to_numpy(zero_copy_only=False)
    return found


def _unknown_values(values: pa.Array, shape: ChangelogShape) -> list[int]:
    """The places of texts that mean no operation."""
    known = {*shape.operations, *shape.ignored, *shape.truncates, None}
    return [at for at, one in enumerate(values.to_pylist()) if one not in known]


def _unknown(value: str | None, rows: Indices, shape: ChangelogShape, path: str) -> Invalid:
    row = int(rows[0])
    known = ", ".join(sorted(one for one in shape.operations if one is not None))
    what = told_value(value)
    add = "add it to operation_values, then `icemirror resume`; if not, the row is wrong"
    advice = "" if value is None else f". If it means one of these, {add}"
    reason = Reason.NULL_OPERATION if value is None else Reason.UNKNOWN_OPERATION
    return BadRows(f"{path}: unknown operation {what} in row {row}; known are {known}{advice}", reason, rows)


def told_value(value: str | None) -> str:
    """An operation for a message, which goes into logs and state: a wrong column may hold texts of any length."""
    if value is None:
        return "NULL"
    return repr(value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}…")


def _deleted(column: pa.Array, path: str) -> Mask:
    """Which rows are gone, by a column of the source."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_temporal(kind):
        gone = column.is_valid()
    elif pa.types.is_boolean(kind):
        gone = column.fill_null(False)
    elif pa.types.is_integer(kind):
        gone = pc.not_equal(column, 0).fill_null(False)
    else:
        known = pc.is_in(column, value_set=pa.array(["true", "false", None], column.type))
        if not pc.all(known, min_count=0).as_py():
            rows = rows_where(~known.to_numpy(zero_copy_only=False))
            raise BadRows(
                f"{path}: row {int(rows[0])} has a text other than true and false in the column that says whether it "
                "is gone",
                Reason.UNKNOWN_OPERATION,
                rows,
            )
        gone = pc.equal(column, "true").fill_null(False)
    found: Mask = gone.to_numpy(zero_copy_only=False)
    return found
