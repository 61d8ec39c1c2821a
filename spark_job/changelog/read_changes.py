"""The events of a changelog file that count. Only key, operation and sequence columns are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.cursor import Truncation
from icemirror.errors import Invalid
from spark_job.changelog.bad_rows import Bad, BadRows, Reason, rows_where, sift
from spark_job.changelog.bulk import require_short
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import CAME, LEFT, Changes, blank_changes, concat_changes, in_order
from spark_job.changelog.collisions import refuse_collisions
from spark_job.changelog.narrow import Narrow, read_narrow
from spark_job.changelog.operations import read_operations
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.changelog.truncations import are_before, is_news, last_truncation, not_followed
from spark_job.columns.parquet_columns import check_ids, column_paths, open_parquet
from spark_job.key_index.keys import U64, Indices, concat_keys

_FIRST = 1  # the number of a table's first commit


@dataclass(frozen=True, slots=True)
class Sifted:
    """The events of a file that count, the rows that are rejected, and how many events lie before a truncation.

    `truncation`: the last one that the file itself tells of.
    """

    changes: Changes
    bad: Bad = ()
    outdated: int = 0
    truncation: Truncation | None = None


def read_changes(io: FileIO, file: ChangeFile, ordinal: int, shape: ChangelogShape) -> Changes:
    """The events of one changelog file that count: not those before a truncation, nor rejected ones."""
    return read_sifted(io, file, ordinal, shape).changes


def read_sifted(io: FileIO, file: ChangeFile, ordinal: int, shape: ChangelogShape) -> Sifted:
    """The events of one changelog file that count, and what is to be known of the others."""
    narrow = _open_narrow(io, file, shape)
    with _told(file, shape):
        return sift_changes(narrow, file, ordinal, shape)


def check_changes(io: FileIO, file: ChangeFile, shape: ChangelogShape) -> None:
    """Refuses what merging a file refuses of it, without encoding its keys."""
    narrow = _open_narrow(io, file, shape)
    with _told(file, shape):
        if shape.rejects:
            judged, rows, _ = sift(narrow, lambda narrow: _judge(narrow, file, shape))
        else:
            judged, rows = _judge(narrow, file, shape), None
    require_followed(_at_rows(judged.truncation, rows), file, shape)


def require_followed(truncation: Truncation | None, file: ChangeFile, shape: ChangelogShape) -> None:
    """Refuses a truncation that the mirror has not followed yet."""
    if truncation is not None and is_news(truncation, shape.truncated):
        raise not_followed(shape, file.path, truncation.row)


def _at_rows(truncation: Truncation | None, rows: Indices | None) -> Truncation | None:
    """With its row in the file, which was numbered among others of it."""
    if truncation is None or rows is None:
        return truncation
    return truncation.model_copy(update={"row": int(rows[truncation.row])})


def _open_narrow(io: FileIO, file: ChangeFile, shape: ChangelogShape) -> Narrow:
    """The narrow columns of one changelog file."""
    with open_parquet(io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_ids(parquet, file.path, shape.last_column_id)
        names = column_paths(parquet, file.path, shape.narrow_ids)
        with _told(file, shape):
            require_short(io, file.path, parquet, [".".join(name) for name in names.values()])
        return read_narrow(parquet, file.path, shape)


@contextmanager
def _told(file: ChangeFile, shape: ChangelogShape) -> Iterator[None]:
    """Says of a file that cannot be merged where it is, and what to do."""
    try:
        yield
    except Invalid as error:
        aside = (
            " Or set on_bad_row to quarantine, which puts them aside." if isinstance(error, BadRows) else ""
        )
        raise Invalid(
            f"{shape.changelog}: {error}. {_way_out(file)} these rows as they should be; then `icemirror "
            f"resume`.{aside}"
        ) from error


def _way_out(file: ChangeFile) -> str:
    if file.sequence_number == _FIRST:  # there is nothing before it
        return "Make the changelog anew, with"
    return f"Roll the changelog back to the snapshot before {file.snapshot_id} and append"


@dataclass(frozen=True, slots=True)
class _Judged:
    """The events of a file, each with its row, what it does, and its place in the order; and the last truncation."""

    narrow: Narrow
    row: NDArray[np.int64]
    operation: NDArray[np.uint8]
    sequence: U64
    truncation: Truncation | None = None


def _judge(narrow: Narrow, file: ChangeFile, shape: ChangelogShape) -> _Judged:
    """Refuses events without a key, with an operation that nobody knows, or without a place in the order."""
    told = read_operations(narrow, shape, file.path)
    operation, lowest = told.operation, told.lowest
    row, truncation = np.arange(len(narrow)), None
    if told.truncations is not None:
        where = rows_where(told.truncations)
        truncation = last_truncation(narrow.filter(told.truncations).sequence, where, file, shape)
    if told.kept is not None:
        row, narrow, operation = row[told.kept], narrow.filter(told.kept), operation[told.kept]
        lowest = None if lowest is None else lowest[told.kept]
    for key in narrow.keys:
        if key.null_count:
            wrong = row[rows_where(key.is_null().to_numpy(zero_copy_only=False))]
            raise BadRows(
                f"{file.path}: the key is NULL in row {int(wrong[0])}: an event without a key cannot be merged",
                Reason.NULL_KEY,
                wrong,
            )
    sequence = shape.sequence.encode(narrow.sequence, file.path, lowest, row)
    return _Judged(narrow, row, operation, sequence, truncation)


def sift_changes(narrow: Narrow, file: ChangeFile, ordinal: int, shape: ChangelogShape) -> Sifted:
    """Events of a file by their narrow columns, numbered from 0, as far as they count."""
    if not shape.rejects:
        return _that_count(as_changes(narrow, file, ordinal, shape), file, shape)

    def convert(narrow: Narrow) -> Sifted:
        if not len(narrow):
            return Sifted(blank_changes(shape, ordinal, np.empty(0, dtype=np.intp)))
        return as_changes(narrow, file, ordinal, shape)

    sifted, rows, bad = sift(narrow, convert)
    if rows is not None:
        changes = replace(sifted.changes, row=rows[sifted.changes.row].astype(np.uint32))
        sifted = Sifted(changes, truncation=_at_rows(sifted.truncation, rows))
    return _that_count(replace(sifted, bad=bad), file, shape)


def _that_count(sifted: Sifted, file: ChangeFile, shape: ChangelogShape) -> Sifted:
    """Without events before the truncation that is followed.

    Compacting moves it to a later commit, and events before it that have its very sequence: there its row decides.
    """
    truncation, moved, changes = shape.truncated, sifted.truncation, sifted.changes
    if truncation is None:
        return sifted
    if moved is not None and moved.sequence == truncation.sequence and is_news(moved, truncation):
        truncation = moved
    before = are_before(truncation, changes.sequence, changes.row, file)
    if not before.any():
        return sifted
    outdated = int((before & ~changes.are(LEFT)).sum())
    return replace(sifted, changes=changes.take(~before), outdated=outdated)


def as_changes(narrow: Narrow, file: ChangeFile, ordinal: int, shape: ChangelogShape) -> Sifted:
    """Events of a file by their narrow columns, numbered from 0, whether they count or not."""
    judged = _judge(narrow, file, shape)
    narrow, row = judged.narrow, judged.row
    codes = shape.codec.encode(narrow.keys)
    if not shape.codec.lossless:
        refuse_collisions(codes, narrow.keys, file.path)
    changes = Changes(
        keys=codes,
        operation=judged.operation,
        sequence=judged.sequence,
        file=np.full(len(row), ordinal, dtype=np.uint32),
        row=row.astype(np.uint32),
    )
    if narrow.old_keys:
        changes = _with_old_keys(changes, narrow, shape, file.path)
    return Sifted(changes, truncation=judged.truncation)


def _with_old_keys(changes: Changes, narrow: Narrow, shape: ChangelogShape, path: str) -> Changes:
    """Beside each event that changes a key the end of the key that its row had before."""
    there = changes.operation == Operation.UPSERT
    for column in narrow.old_keys:
        there &= column.is_valid().to_numpy(zero_copy_only=False)
    at = np.flatnonzero(there)
    if not len(at):
        return changes
    old = shape.codec.encode([column.take(pa.array(at)) for column in narrow.old_keys])
    own = changes.keys.take(at)
    differs = old.lo != own.lo
    if old.hi is not None and own.hi is not None:
        differs |= old.hi != own.hi
    if not differs.any():
        return changes
    if not shape.codec.lossless:
        both = [
            pa.concat_arrays([key, column.take(pa.array(at))])
            for key, column in zip(narrow.keys, narrow.old_keys, strict=True)
        ]
        refuse_collisions(concat_keys([changes.keys, old]), both, path)
    at, old = at[differs], old.take(differs)
    came = np.zeros(len(changes), dtype=np.uint8)
    came[at] = CAME
    left = Changes(
        old,
        np.full(len(at), Operation.DELETE, dtype=np.uint8),
        changes.sequence[at],
        changes.file[at],
        changes.row[at],
        np.full(len(at), LEFT, dtype=np.uint8),
    )
    here = Changes(changes.keys, changes.operation, changes.sequence, changes.file, changes.row, came)
    return in_order(concat_changes([left, here]))
