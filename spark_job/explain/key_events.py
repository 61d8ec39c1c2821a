"""Reads the events of one key from changelog files: key columns first, then what else there is of the rows found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from icemirror.cursor import Truncation
from icemirror.errors import Corrupt, Invalid, fill_in
from spark_job.changelog.bad_rows import Reason
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import Changes, concat_changes
from spark_job.changelog.narrow import Narrow, read_narrow
from spark_job.changelog.read_changes import Sifted, sift_changes
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.source_rows import projection_of, read_picked
from spark_job.changelog.truncations import are_before, later
from spark_job.columns.field_map import FieldMap
from spark_job.columns.json_values import Json, row_as_json, value_as_json
from spark_job.columns.parquet_columns import (
    check_ids,
    column_paths,
    open_parquet,
    read_columns,
    row_group_starts,
)
from spark_job.explain.asked_key import AskedKey
from spark_job.explain.fates import KeyEvents
from spark_job.files.round_trips import for_each
from spark_job.iceberg.failures import named
from spark_job.key_index.keys import Keys, Mask
from spark_job.verify.row_digest import digest_rows

_AT_ONCE = 16
_MOST_BYTES = 64 << 20  # of values of events

Looked = Callable[[int], None]
"""How many more files were looked at."""


@dataclass(frozen=True)
class Detail:
    """What people want to know of an event beside its order. `values`: None where there are too many of them."""

    operation: str
    sequence: dict[str, Json]
    digest: int
    values: dict[str, Json] | None
    bytes: int = 0


@dataclass(frozen=True)
class Source:
    """The changelog's files, those that are merged first, and how their rows become the mirror's.

    `ahead`: the last truncation that waits to be merged.
    """

    table: str
    io: FileIO
    files: tuple[ChangeFile, ...]
    merged: int
    shape: ChangelogShape
    ids: FieldMap
    schema: Schema
    ahead: Truncation | None = None

    @property
    def whole_shape(self) -> ChangelogShape:
        """As the changelog is, with what lies before a truncation: that is told of, too."""
        return self.shape.without_truncations()


@dataclass(frozen=True)
class RejectedEvent:
    """An event of the key that cannot be merged: the ordinal of its file, its row there, and why."""

    file: int
    row: int
    reason: Reason


@dataclass(frozen=True)
class Found:
    """The events, what is to be told of each, and the files that could not be read, with why."""

    events: KeyEvents
    details: tuple[Detail, ...]
    unreadable: tuple[tuple[str, str], ...]
    cut: bool = False
    rejected: tuple[RejectedEvent, ...] = ()


@dataclass(frozen=True)
class _Looked:
    """What one file holds of the key."""

    changes: Changes
    details: list[Detail] = field(default_factory=list)
    rejected: list[RejectedEvent] = field(default_factory=list)


def find_events(source: Source, key: AskedKey, wanted: Sequence[int], looked: Looked) -> Found:
    """The events of the key in the wanted files, by their ordinals."""
    parts: list[Changes] = []
    details: list[Detail] = []
    unreadable: list[tuple[str, str]] = []
    rejected: list[RejectedEvent] = []
    held, cut = 0, False

    def look(at: int) -> _Looked | str:
        try:
            with named(source.files[at].path):
                return _look(source, key, at)
        except (Corrupt, Invalid) as error:
            fill_in(error, source.table)
            return str(error)

    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        for at, answer in zip(some, for_each(look, some, source.files[some[0]].path), strict=True):
            if isinstance(answer, str):
                unreadable.append((source.files[at].path, answer.removeprefix(f"{source.files[at].path}: ")))
                continue
            parts.append(answer.changes)
            rejected += answer.rejected
            for detail in answer.details:
                held += detail.bytes
                cut |= held > _MOST_BYTES
                details.append(replace(detail, values=None) if held > _MOST_BYTES else detail)
        looked(len(some))
    changes = concat_changes(parts) if parts else _nothing(source.shape, key)
    numbers = np.array([file.sequence_number for file in source.files], dtype=np.uint64)
    events = KeyEvents(
        changes,
        numbers[changes.file],
        tuple(detail.digest for detail in details),
        int((changes.file < source.merged).sum()),
        frozenset(_outdated(source, changes)),
    )
    return Found(events, tuple(details), tuple(unreadable), cut, tuple(rejected))


def _outdated(source: Source, changes: Changes) -> Iterator[int]:
    """The places of events that lie before a truncation; for those that wait one that waits counts as well."""
    followed = source.shape.truncated
    for at, ordinal in enumerate(changes.file.tolist()):
        truncation = followed if ordinal < source.merged else later(followed, source.ahead)
        one = slice(at, at + 1)
        if truncation is not None and bool(
            are_before(truncation, changes.sequence[one], changes.row[one], source.files[ordinal])[0]
        ):
            yield at


def _nothing(shape: ChangelogShape, key: AskedKey) -> Changes:
    """No event of the key."""
    none = np.empty(0, dtype=np.uint32)
    keys = shape.codec.encode(key.arrays).take(slice(0, 0))
    sequence = np.empty((0, shape.sequence.parts), dtype=np.uint64)
    return Changes(keys, none.astype(np.uint8), sequence, none, none)


def _look(source: Source, key: AskedKey, ordinal: int) -> _Looked:
    """The events of the key in one file."""
    file, shape = source.files[ordinal], source.whole_shape
    with open_parquet(source.io, file.path, file.events) as parquet:
        if shape.last_column_id is not None:
            check_ids(parquet, file.path, shape.last_column_id)
        rows = rows_of_key(parquet, file.path, shape.key_ids, key)
        if shape.old_key_ids and len(column_paths(parquet, file.path, shape.old_key_ids)) == len(key.columns):
            rows = np.union1d(rows, rows_of_key(parquet, file.path, shape.old_key_ids, key))
        if not len(rows):
            return _Looked(_nothing(shape, key))
        narrow = read_narrow(parquet, file.path, shape, rows)
        sifted = _as_changes(narrow, file, ordinal, rows, shape)
        rejected = [
            RejectedEvent(ordinal, int(rows[at]), reason) for reason, some in sifted.bad for at in some
        ]
        changes = sifted.changes.take(_are_of(sifted.changes.keys, shape.codec.encode(key.arrays)))
        if not len(changes):
            return _Looked(_nothing(shape, key), rejected=rejected)
        tables = read_picked(
            source.io,
            parquet,
            rows,
            projection_of(file, source.ids, shape.defaults),
            schema_to_pyarrow(source.schema),
        )
        details = [one for table in tables for one in _rows(table)]
    names = [column.name for column in shape.sequence.columns]
    places: list[int] = changes.row.tolist()
    told = [
        replace(
            details[at],
            operation=_operation(narrow, at),
            sequence={
                name: value_as_json(values[at]) for name, values in zip(names, narrow.sequence, strict=True)
            },
        )
        for at in places
    ]
    return _Looked(replace(changes, row=rows[places].astype(np.uint32)), told, rejected)


def _are_of(keys: Keys, one: Keys) -> Mask:
    """Events that change a key are of two: which of them are of this one."""
    same: Mask = keys.lo == one.lo[0]
    return same if keys.hi is None or one.hi is None else same & (keys.hi == one.hi[0])


def _operation(narrow: Narrow, at: int) -> str:
    if narrow.operation is None:
        return "" if narrow.deleted is None else str(value_as_json(narrow.deleted[at]))
    return str(narrow.operation[at].as_py() if narrow.operation[at].is_valid else "NULL")


def rows_of_key(
    parquet: pq.ParquetFile, path: str, key_ids: Sequence[int], key: AskedKey
) -> NDArray[np.int64]:
    """The rows that have the key, a row group at a time."""
    starts = row_group_starts(parquet)
    found = [
        starts[group] + np.flatnonzero(key.rows(read_columns(parquet, path, key_ids, [group])))
        for group in range(parquet.num_row_groups)
    ]
    return np.concatenate([np.empty(0, np.int64), *found])


def _as_changes(
    narrow: Narrow, file: ChangeFile, ordinal: int, rows: NDArray[np.int64], shape: ChangelogShape
) -> Sifted:
    """The events at these rows, numbered from 0, and those that are rejected."""
    try:
        return sift_changes(narrow, file, ordinal, shape)
    except Invalid as error:
        raise Invalid(
            f"{file.path}: the key has events there, the first in row {int(rows[0])}, with an operation or a sequence "
            "that cannot be merged"
        ) from error


def _rows(table: pa.Table) -> Iterator[Detail]:
    digests = digest_rows(table)
    for at in range(table.num_rows):
        row = table.slice(at, 1)
        yield Detail("", {}, int(digests[at]), row_as_json(row), row.nbytes)
