"""Read position delete files (format v2): the deleted positions of each data file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.iceberg.live_files import DELETED_PATH_ID, DELETED_POS_ID, LiveDelete, LiveFile
from spark_job.storage.file_cache import FileCache

Positions = NDArray[np.int64]

_MAX_CACHED_ROWS = 2_000_000

_cache: FileCache[Mapping[str, Positions]] = FileCache(
    _MAX_CACHED_ROWS, lambda positions: 1 + sum(map(len, positions.values()))
)


def cache_deletes(path: str, positions: Mapping[str, Positions]) -> None:
    """Cache deletes that this process has just written: later merges rewrite them soon."""
    _cache.put(path, positions)


def files_by_delete(files: Iterable[LiveFile]) -> Mapping[LiveDelete, list[LiveFile]]:
    """Return the data files, among these, that each delete applies to."""
    targets: dict[LiveDelete, list[LiveFile]] = defaultdict(list)
    for file in files:
        for delete in file.deletes:
            targets[delete].append(file)
    return targets


def read_position_deletes(
    io: FileIO, delete: LiveDelete, targets: Sequence[LiveFile]
) -> dict[str, Positions]:
    """Return the positions that a delete file names for each of its live data files; a position may occur twice.

    Data files that are no longer in the table are ignored.
    """
    positions = _cache.get(delete.path, lambda: _read(io, delete))
    for target in targets:
        _check(delete, target, positions.get(target.path, np.empty(0, np.int64)))
    return {target.path: positions[target.path] for target in targets}


def _read(io: FileIO, delete: LiveDelete) -> Mapping[str, Positions]:
    with open_parquet(io, delete.path, delete.rows) as parquet:
        path_column, positions = read_columns(parquet, delete.path, (DELETED_PATH_ID, DELETED_POS_ID))
    if path_column.null_count or positions.null_count:
        raise Corrupt(f"{delete.path}: contains deletes without a data file or position")
    encoded = path_column.dictionary_encode()
    path_numbers = encoded.indices.to_numpy()
    order = np.argsort(path_numbers, kind="stable")
    paths = encoded.dictionary.to_pylist()
    edges = np.searchsorted(path_numbers[order], np.arange(1, len(paths)))
    return dict(zip(paths, np.split(positions.to_numpy()[order], edges), strict=False))


def _check(delete: LiveDelete, target: LiveFile, positions: Positions) -> None:
    if not len(positions) or (not delete.shared and len(positions) != delete.rows):
        raise Corrupt(f"{delete.path}: does not have the deletes of {target.path} that the table counts")
    if int(positions.min()) < 0 or int(positions.max()) >= target.rows:
        raise Corrupt(f"{delete.path}: deletes a row that {target.path} does not have; it has {target.rows}")
