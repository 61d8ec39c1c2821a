"""The check that counts cannot make: the row that the index points at really has the event's key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import MAKE_ANEW, REBUILD, Corrupt
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.changes import LEFT, Changes
from spark_job.changelog.collisions import equal_codes, equal_values
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.parquet_columns import open_parquet, read_at, read_columns, row_group_starts
from spark_job.distinct import distinct
from spark_job.iceberg.leaf_columns import physical
from spark_job.key_index.keys import Indices

_SAMPLE_FILES = 2
# Parquet is unpacked from the start of a row group on: usually only rows there are compared, now and then any.
_FRONT_ROWS = 1 << 16
_SELDOM = 1 / 32
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True)
class KeySides:
    """Where the keys of the events and of the located rows are read from."""

    changelog_io: FileIO
    changelog_files: Sequence[ChangeFile]
    shape: ChangelogShape
    mirror_io: FileIO
    mirror_paths: Sequence[str]
    mirror_key_ids: tuple[int, ...]


def _pick(values: NDArray[Any], most: int) -> NDArray[Any]:
    """Some of these, others every time: what one merge misses the next may find."""
    return np.random.default_rng().choice(values, min(most, len(values)), replace=False)


def check_keys(
    sides: KeySides,
    changes: Changes,
    rows: Indices,
    file: NDArray[np.int32],
    pos: NDArray[np.int64],
    most: int | None = None,
) -> None:
    """Compares the keys of these changes with those at (file, pos) in the mirror; of few files `most` each if told."""
    if not len(rows):
        return
    order = rows[np.lexsort((pos[rows], file[rows]))]
    if most is None:
        found = _read(sides.mirror_io, sides.mirror_paths, sides.mirror_key_ids, file[order], pos[order])
    else:
        order, found = _read_some(sides, order, file, pos, most)
    codes = sides.shape.codec.encode(found)
    expected = changes.keys.take(order)
    same = codes.lo == expected.lo
    if codes.hi is not None and expected.hi is not None:
        same &= codes.hi == expected.hi
    if same.all() and not sides.shape.codec.lossless:
        same = _same_values(sides, changes, order, found)
    if not same.all():
        wrong = int(order[np.flatnonzero(~same)[0]])
        raise Corrupt(
            f"{sides.mirror_paths[int(file[wrong])]}: row {int(pos[wrong])} does not have the key that the index says; "
            f"nothing was committed. To go on, {REBUILD}."
        )


def check_events(sides: KeySides, events: Changes, most: int | None) -> None:
    """Compares the keys of events of different files that have one hash, `most` of few files; all of them if None.

    Events must stand in the order (file, row). Those of one file were compared when it was read.
    """
    if sides.shape.codec.lossless or len(sides.changelog_files) == 1:
        return
    one, other = equal_codes(events.keys)
    across = events.file[one] != events.file[other]
    one, other = one[across], other[across]
    if most is not None:
        files = (events.file[one].astype(np.uint64) << np.uint64(32)) | events.file[other]
        near = np.flatnonzero(np.isin(files, _pick(distinct(files), _SAMPLE_FILES)))[:most]
        one, other = one[near], other[near]
    if not len(one):
        return
    rows = distinct(np.concatenate([one, other]))
    values = _read_events(sides, events, rows)
    differ = np.flatnonzero(~equal_values(values, np.searchsorted(rows, one), np.searchsorted(rows, other)))
    if len(differ):
        first, second = int(one[differ[0]]), int(other[differ[0]])
        raise Corrupt(
            f"{sides.changelog_files[int(events.file[first])].path}: row {int(events.row[first])} has another key "
            f"with the same hash as row {int(events.row[second])} of "
            f"{sides.changelog_files[int(events.file[second])].path}; nothing was committed. Another mirror hashes "
            f"them otherwise: {MAKE_ANEW}."
        )


def _read_events(sides: KeySides, events: Changes, rows: Indices) -> list[pa.Array]:
    """The keys of these events, which must stand in the order (file, row)."""
    left = events.are(LEFT)[rows]
    if not left.any():
        return _read_key(sides, sides.shape.key_ids, events, rows)
    sides_of = ((rows[~left], sides.shape.key_ids), (rows[left], sides.shape.old_key_ids))
    parts = [_read_key(sides, key_ids, events, some) for some, key_ids in sides_of if len(some)]
    place = np.argsort(np.concatenate([np.flatnonzero(~left), np.flatnonzero(left)]))
    return [pa.concat_arrays(column).take(pa.array(place)) for column in zip(*parts, strict=True)]


def _read_key(sides: KeySides, key_ids: Sequence[int], events: Changes, rows: Indices) -> list[pa.Array]:
    return _read(
        sides.changelog_io,
        [file.path for file in sides.changelog_files],
        key_ids,
        events.file[rows].astype(np.int32),
        events.row[rows].astype(np.int64),
    )


def _same_values(
    sides: KeySides, changes: Changes, order: Indices, found: list[pa.Array]
) -> NDArray[np.bool_]:
    """Equal codes of a hash do not prove equal keys."""
    by_source = order[np.lexsort((changes.row[order], changes.file[order]))]
    values = _read_events(sides, changes, by_source)
    place = np.empty(len(order), dtype=np.int64)
    place[np.argsort(order)] = np.argsort(by_source)
    same = np.ones(len(order), dtype=np.bool_)
    for left, right in zip(found, values, strict=True):
        here = right.take(pa.array(place))
        # As numbers: Python has no dates beyond the year 9999, and no nanoseconds.
        same &= pc.equal(physical(left), physical(here)).to_numpy()
    return same


def _read(
    io: FileIO,
    paths: Sequence[str],
    field_ids: Sequence[int],
    file: NDArray[np.int32],
    row: NDArray[np.int64],
) -> list[pa.Array]:
    """Columns at (file, row), which must be ascending."""
    parts: list[list[pa.Array]] = []
    for ordinal in distinct(file):
        path = paths[int(ordinal)]
        with open_parquet(io, path) as parquet:
            parts.append(read_at(parquet, path, field_ids, row[file == ordinal]))
    return _concat(parts)


def _read_some(
    sides: KeySides, rows: Indices, file: NDArray[np.int32], pos: NDArray[np.int64], most: int
) -> tuple[Indices, list[pa.Array]]:
    """At most so many of these rows in each of few files, and the key columns there."""
    kept: list[Indices] = []
    parts: list[list[pa.Array]] = []
    for ordinal in np.sort(_pick(distinct(file[rows]), _SAMPLE_FILES)):
        path, here = sides.mirror_paths[int(ordinal)], rows[file[rows] == ordinal]
        with open_parquet(sides.mirror_io, path, buffer_bytes=_BUFFER_BYTES) as parquet:
            starts = row_group_starts(parquet)
            group, chosen = choose_near(starts, pos[here], most)
            places = pos[here[chosen]] - starts[group]
            columns = read_columns(parquet, path, sides.mirror_key_ids, [group], int(places.max()) + 1)
            parts.append([column.take(pa.array(places)) for column in columns])
            kept.append(here[chosen])
    return np.concatenate(kept), _concat(parts)


def _concat(parts: list[list[pa.Array]]) -> list[pa.Array]:
    """Columns of several files, times as numbers and texts as bytes: not every file tells of UTC, or of text."""
    return [
        pa.concat_arrays([_bytes_of(chunk) for one in column for chunk in physical(one).chunks])
        for column in zip(*parts, strict=True)
    ]


def _bytes_of(chunk: pa.Array) -> pa.Array:
    return chunk.cast(pa.large_binary()) if pa.types.is_large_string(chunk.type) else chunk


def choose_near(starts: NDArray[np.int64], pos: NDArray[np.int64], most: int) -> tuple[int, Indices]:
    """A row group of those that the positions are in, and some that are near its start, or now and then anywhere."""
    dice = np.random.default_rng()
    group_of = np.searchsorted(starts, pos, side="right") - 1
    group = int(dice.choice(group_of))
    offsets = pos - starts[group]
    inside = np.flatnonzero(group_of == group)
    limit = max(_FRONT_ROWS, int(offsets[inside].min()) + 1)
    near = inside[offsets[inside] < limit] if dice.random() > _SELDOM else inside
    return group, np.sort(_pick(near, most))
