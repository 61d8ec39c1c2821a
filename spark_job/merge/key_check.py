"""Checks that the row at the location in the index really has the event's key, which counts alone cannot prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import REBUILD, RECREATE, Corrupt
from spark_job.changelog.changes import OLD_KEY, Changes
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.read_changes import equal_codes, equal_values
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_columns, read_rows_at, row_group_starts
from spark_job.iceberg.leaf_columns import to_physical
from spark_job.index.keys import Indices

_SAMPLE_FILES = 2
# Parquet is decoded from the start of a row group: usually only rows near it are compared, sometimes any.
_FRONT_ROWS = 1 << 16
_ANY_ROW_PROBABILITY = 1 / 32
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True)
class KeySources:
    """Where to read the keys of the events, and of the rows that they were located at."""

    changelog_io: FileIO
    changelog_files: Sequence[ChangelogFile]
    shape: ChangelogShape
    mirror_io: FileIO
    mirror_paths: Sequence[str]
    mirror_key_ids: tuple[int, ...]


def _sample(values: NDArray[Any], max_rows: int) -> NDArray[Any]:
    """Return a random sample: what one merge misses, the next may find."""
    return np.random.default_rng().choice(values, min(max_rows, len(values)), replace=False)


def check_located_keys(
    sources: KeySources,
    changes: Changes,
    rows: Indices,
    file: NDArray[np.int32],
    pos: NDArray[np.int64],
    max_rows: int | None = None,
) -> None:
    """Raise `Corrupt` unless the mirror has the keys of these changes at (file, pos).

    `max_rows`: sample so many rows in each of a few files; None: check all.
    """
    if not len(rows):
        return
    order = rows[np.lexsort((pos[rows], file[rows]))]
    if max_rows is None:
        found = _read(
            sources.mirror_io, sources.mirror_paths, sources.mirror_key_ids, file[order], pos[order]
        )
    else:
        order, found = _read_sample(sources, order, file, pos, max_rows)
    codes = sources.shape.codec.encode(found)
    expected = changes.keys.take(order)
    same = codes.lo == expected.lo
    if codes.hi is not None and expected.hi is not None:
        same &= codes.hi == expected.hi
    if same.all() and not sources.shape.codec.lossless:
        same = _same_values(sources, changes, order, found)
    if not same.all():
        wrong = int(order[np.flatnonzero(~same)[0]])
        raise Corrupt(
            f"row {int(pos[wrong])} does not have the key that the index states; nothing was committed. To continue, "
            f"{REBUILD}. Found in {sources.mirror_paths[int(file[wrong])]}"
        )


def check_hash_collisions(sources: KeySources, events: Changes, max_rows: int | None) -> None:
    """Raise `Corrupt` if events of different files have different keys with the same hash.

    Events must be sorted by (file, row). Events of the same file were compared when it was read. `max_rows`: sample so
    many pairs of a few files; None: check all.
    """
    if sources.shape.codec.lossless or len(sources.changelog_files) == 1:
        return
    first, second = equal_codes(events.keys)
    across = events.file[first] != events.file[second]
    first, second = first[across], second[across]
    if max_rows is not None:
        files = (events.file[first].astype(np.uint64) << np.uint64(32)) | events.file[second]
        near = np.flatnonzero(np.isin(files, _sample(distinct(files), _SAMPLE_FILES)))[:max_rows]
        first, second = first[near], second[near]
    if not len(first):
        return
    rows = distinct(np.concatenate([first, second]))
    values = _read_events(sources, events, rows)
    differ = np.flatnonzero(
        ~equal_values(values, np.searchsorted(rows, first), np.searchsorted(rows, second))
    )
    if len(differ):
        left, right = int(first[differ[0]]), int(second[differ[0]])
        raise Corrupt(
            f"two keys have the same hash; nothing was committed. A recreated mirror uses another hash: {RECREATE}. "
            f"Found in row {int(events.row[left])} of {sources.changelog_files[int(events.file[left])].path} and row "
            f"{int(events.row[right])} of {sources.changelog_files[int(events.file[right])].path}"
        )


def _read_events(sources: KeySources, events: Changes, rows: Indices) -> list[pa.Array]:
    """Read the keys of these events, which must be sorted by (file, row)."""
    has_old_key = events.has_move(OLD_KEY)[rows]
    if not has_old_key.any():
        return _read_key(sources, sources.shape.key_ids, events, rows)
    by_key_column = (
        (rows[~has_old_key], sources.shape.key_ids),
        (rows[has_old_key], sources.shape.old_key_ids),
    )
    parts = [
        _read_key(sources, key_ids, events, rows_of_key)
        for rows_of_key, key_ids in by_key_column
        if len(rows_of_key)
    ]
    original_order = np.argsort(np.concatenate([np.flatnonzero(~has_old_key), np.flatnonzero(has_old_key)]))
    return [pa.concat_arrays(column).take(pa.array(original_order)) for column in zip(*parts, strict=True)]


def _read_key(sources: KeySources, key_ids: Sequence[int], events: Changes, rows: Indices) -> list[pa.Array]:
    return _read(
        sources.changelog_io,
        [file.path for file in sources.changelog_files],
        key_ids,
        events.file[rows].astype(np.int32),
        events.row[rows].astype(np.int64),
    )


def _same_values(
    sources: KeySources, changes: Changes, order: Indices, found: list[pa.Array]
) -> NDArray[np.bool_]:
    """Compare the key values, because equal hashes do not prove equal keys."""
    by_source = order[np.lexsort((changes.row[order], changes.file[order]))]
    values = _read_events(sources, changes, by_source)
    original_order = np.empty(len(order), dtype=np.int64)
    original_order[np.argsort(order)] = np.argsort(by_source)
    same = np.ones(len(order), dtype=np.bool_)
    for left, right in zip(found, values, strict=True):
        here = right.take(pa.array(original_order))
        # Compared as integers: Python has no dates after the year 9999, and no nanoseconds.
        same &= pc.equal(to_physical(left), to_physical(here)).to_numpy()
    return same


def _read(
    io: FileIO,
    paths: Sequence[str],
    field_ids: Sequence[int],
    file: NDArray[np.int32],
    row: NDArray[np.int64],
) -> list[pa.Array]:
    """Read columns at (file, row), which must be ascending."""
    parts: list[list[pa.Array]] = []
    for ordinal in distinct(file):
        path = paths[int(ordinal)]
        with open_parquet(io, path) as parquet:
            parts.append(read_rows_at(parquet, path, field_ids, row[file == ordinal]))
    return _concat(parts)


def _read_sample(
    sources: KeySources, rows: Indices, file: NDArray[np.int32], pos: NDArray[np.int64], max_rows: int
) -> tuple[Indices, list[pa.Array]]:
    """Read the keys of at most `most` of these rows in each of a few files; return the rows and their keys."""
    kept: list[Indices] = []
    parts: list[list[pa.Array]] = []
    for ordinal in np.sort(_sample(distinct(file[rows]), _SAMPLE_FILES)):
        path, here = sources.mirror_paths[int(ordinal)], rows[file[rows] == ordinal]
        with open_parquet(sources.mirror_io, path, buffer_bytes=_BUFFER_BYTES) as parquet:
            starts = row_group_starts(parquet)
            group, chosen = choose_sample_rows(starts, pos[here], max_rows)
            rows_in_group = pos[here[chosen]] - starts[group]
            columns = read_columns(
                parquet, path, sources.mirror_key_ids, [group], int(rows_in_group.max()) + 1
            )
            parts.append([column.take(pa.array(rows_in_group)) for column in columns])
            kept.append(here[chosen])
    return np.concatenate(kept), _concat(parts)


def _concat(parts: list[list[pa.Array]]) -> list[pa.Array]:
    """Concatenate columns of several files, times as integers and text as bytes: files differ in both types."""
    return [
        pa.concat_arrays([_bytes_of(chunk) for array in column for chunk in to_physical(array).chunks])
        for column in zip(*parts, strict=True)
    ]


def _bytes_of(chunk: pa.Array) -> pa.Array:
    return chunk.cast(pa.large_binary()) if pa.types.is_large_string(chunk.type) else chunk


def choose_sample_rows(
    starts: NDArray[np.int64], pos: NDArray[np.int64], max_rows: int
) -> tuple[int, Indices]:
    """Choose a row group that contains positions, and some of them: near its start, or sometimes anywhere in it."""
    rng = np.random.default_rng()
    group_of = np.searchsorted(starts, pos, side="right") - 1
    group = int(rng.choice(group_of))
    offsets = pos - starts[group]
    inside = np.flatnonzero(group_of == group)
    limit = max(_FRONT_ROWS, int(offsets[inside].min()) + 1)
    near = inside[offsets[inside] < limit] if rng.random() > _ANY_ROW_PROBABILITY else inside
    return group, np.sort(_sample(near, max_rows))
