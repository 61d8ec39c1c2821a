"""Checks that the row at the location in the index really has the event's key, which counts alone cannot prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import REBUILD_ADVICE, Corrupt
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.key_collisions import SAMPLE_FILES, random_sample
from spark_job.changelog.read_keys import concat_columns, read_columns_at, read_event_keys
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import Indices, Mask, invert_permutation
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_columns, row_group_starts
from spark_job.columns.physical_values import to_physical

# Parquet is decoded from the start of a row group: usually only rows near it are compared, sometimes any.
_FRONT_ROWS = 1 << 16
_ANY_ROW_PROBABILITY = 1 / 32
_BUFFER_BYTES = 1 << 18


@dataclass(frozen=True)
class KeySources:
    """Where to read the keys of events, and the keys of the mirror's rows at their locations."""

    changelog_io: FileIO
    changelog_files: Sequence[ChangelogFile]
    shape: ChangelogShape
    mirror_io: FileIO
    mirror_paths: Sequence[str]
    mirror_key_ids: tuple[int, ...]


def check_located_keys(
    sources: KeySources,
    changes: EventBatch,
    indices: Indices,
    file: NDArray[np.int32],
    pos: NDArray[np.int64],
    max_rows: int | None = None,
) -> None:
    """Raise `Corrupt` unless the mirror has the keys of the changes at these indices at their (file, pos).

    `max_rows`: sample so many rows in each of a few files; None: check all.
    """
    if not len(indices):
        return
    checked = indices[np.lexsort((pos[indices], file[indices]))]
    if max_rows is None:
        mirror_keys = read_columns_at(
            sources.mirror_io, sources.mirror_paths, sources.mirror_key_ids, file[checked], pos[checked]
        )
    else:
        checked, mirror_keys = _read_sample(sources, checked, file, pos, max_rows)
    codes = sources.shape.key_codec.encode(mirror_keys)
    expected = changes.keys.take(checked)
    is_equal = codes.lo == expected.lo
    if codes.hi is not None and expected.hi is not None:
        is_equal &= codes.hi == expected.hi
    if is_equal.all() and not sources.shape.key_codec.is_lossless:
        is_equal = _have_equal_keys(sources, changes, checked, mirror_keys)
    if not is_equal.all():
        index = int(checked[np.flatnonzero(~is_equal)[0]])
        raise Corrupt(
            f"row {int(pos[index])} does not have the key that the index states; nothing was committed. To continue, "
            f"{REBUILD_ADVICE}. Found in {sources.mirror_paths[int(file[index])]}"
        )


def _have_equal_keys(
    sources: KeySources, changes: EventBatch, indices: Indices, mirror_keys: list[pa.Array]
) -> Mask:
    """Return which changes have the values of `mirror_keys`, because equal hashes do not prove equal keys."""
    order = np.lexsort((changes.row[indices], changes.file[indices]))
    event_keys = read_event_keys(
        sources.changelog_io, sources.changelog_files, sources.shape, changes, indices[order]
    )
    original_order = pa.array(invert_permutation(order))
    is_equal = np.ones(len(indices), dtype=np.bool_)
    for mirror_column, event_column in zip(mirror_keys, event_keys, strict=True):
        # Compared as integers: Python has no dates after the year 9999, and no nanoseconds.
        values = to_physical(event_column.take(original_order))
        is_equal &= pc.equal(to_physical(mirror_column), values).to_numpy()
    return is_equal


def _read_sample(
    sources: KeySources, indices: Indices, file: NDArray[np.int32], pos: NDArray[np.int64], max_rows: int
) -> tuple[Indices, list[pa.Array]]:
    """Return at most `max_rows` of the indices for each of a few files, and the mirror's keys at their (file, pos)."""
    sampled: list[Indices] = []
    columns_by_file: list[list[pa.Array]] = []
    for ordinal in np.sort(random_sample(distinct(file[indices]), SAMPLE_FILES)):
        path, in_file = sources.mirror_paths[int(ordinal)], indices[file[indices] == ordinal]
        with open_parquet(sources.mirror_io, path, buffer_bytes=_BUFFER_BYTES) as parquet:
            starts = row_group_starts(parquet)
            group, chosen = choose_sample_rows(starts, pos[in_file], max_rows)
            rows_in_group = pos[in_file[chosen]] - starts[group]
            columns = read_columns(
                parquet, path, sources.mirror_key_ids, [group], int(rows_in_group.max()) + 1
            )
            columns_by_file.append([column.take(pa.array(rows_in_group)) for column in columns])
            sampled.append(in_file[chosen])
    return np.concatenate(sampled), concat_columns(columns_by_file)


def choose_sample_rows(
    starts: NDArray[np.int64], pos: NDArray[np.int64], max_rows: int
) -> tuple[int, Indices]:
    """Return a row group that contains positions, and indices of some of them.

    They are near the start of the row group, or sometimes anywhere in it.
    """
    rng = np.random.default_rng()
    groups = np.searchsorted(starts, pos, side="right") - 1
    group = int(rng.choice(groups))
    offsets = pos - starts[group]
    in_group = np.flatnonzero(groups == group)
    limit = max(_FRONT_ROWS, int(offsets[in_group].min()) + 1)
    candidates = in_group[offsets[in_group] < limit] if rng.random() > _ANY_ROW_PROBABILITY else in_group
    return group, np.sort(random_sample(candidates, max_rows))
