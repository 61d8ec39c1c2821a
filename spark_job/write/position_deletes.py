"""Files of position deletes (format v2), read: the deleted rows of each data file that they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO

from icemirror.errors import Corrupt
from spark_job.columns.parquet_columns import open_parquet, read_columns
from spark_job.files.immutable import ReadOnce
from spark_job.iceberg.view import DELETED_PATH_ID, DELETED_POS_ID, LiveDelete, LiveFile

Positions = NDArray[np.int64]

_MOST_ROWS = 2_000_000  # that are remembered

_known: ReadOnce[Mapping[str, Positions]] = ReadOnce(
    _MOST_ROWS, lambda found: 1 + sum(map(len, found.values()))
)


def remember_deletes(path: str, positions: Mapping[str, Positions]) -> None:
    """Spares the merges of this process reading what it has written itself, which they soon write anew."""
    _known.put(path, positions)


def files_by_delete(files: Iterable[LiveFile]) -> Mapping[LiveDelete, list[LiveFile]]:
    """What each delete is about, among these data files."""
    about: dict[LiveDelete, list[LiveFile]] = defaultdict(list)
    for file in files:
        for delete in file.deletes:
            about[delete].append(file)
    return about


def read_position_deletes(io: FileIO, wanted: tuple[LiveDelete, Sequence[LiveFile]]) -> dict[str, Positions]:
    """What a delete says about each of some data files, as it stands there: a row may be named twice.

    Of other data files, which a delete may outlive, nothing is told.
    """
    delete, targets = wanted
    found = _known.get(delete.path, lambda: _read(io, delete))
    for target in targets:
        _check(delete, target, found.get(target.path, np.empty(0, np.int64)))
    return {target.path: found[target.path] for target in targets}


def _read(io: FileIO, delete: LiveDelete) -> Mapping[str, Positions]:
    with open_parquet(io, delete.path, delete.rows) as parquet:
        names, positions = read_columns(parquet, delete.path, (DELETED_PATH_ID, DELETED_POS_ID))
    if names.null_count or positions.null_count:
        raise Corrupt(f"{delete.path}: has deletes that do not name a row")
    encoded = names.dictionary_encode()
    place = encoded.indices.to_numpy()
    order = np.argsort(place, kind="stable")
    paths = encoded.dictionary.to_pylist()
    edges = np.searchsorted(place[order], np.arange(1, len(paths)))
    return dict(zip(paths, np.split(positions.to_numpy()[order], edges), strict=False))


def _check(delete: LiveDelete, target: LiveFile, positions: Positions) -> None:
    if not len(positions) or (not delete.shared and len(positions) != delete.rows):
        raise Corrupt(f"{delete.path}: does not have the deletes of {target.path} that the table counts")
    if int(positions.min()) < 0 or int(positions.max()) >= target.rows:
        raise Corrupt(f"{delete.path}: deletes a row that {target.path} does not have; it has {target.rows}")
