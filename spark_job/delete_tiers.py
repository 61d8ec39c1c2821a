"""Keeps files of position deletes few (format v2): a merge takes small ones in and writes them anew with its own.

Small merges all over a table would else leave a file each for every data file, and readers open all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import Corrupt
from spark_job.iceberg.v3_fields import DeleteKey
from spark_job.iceberg.view import DELETED_PATH_ID, DELETED_POS_ID, LiveDelete, LiveFile, replaced_deletes
from spark_job.parquet_columns import open_parquet, read_columns
from spark_job.round_trips import for_each

Positions = NDArray[np.int64]
_Place = tuple[object, ...]

# A partition with fewer files is left alone; a file with more rows is never written again.
_FEW_FILES = 8
_MOST_ROWS = 500_000


@dataclass(frozen=True)
class DeletePlan:
    """The positions to write by data file, and the deletes whose place they take."""

    positions: Mapping[str, Positions]
    replaced: Sequence[LiveDelete] = ()


def plan_deletes(
    io: FileIO, metadata: TableMetadata, doomed: Mapping[str, Positions], live: Mapping[str, LiveFile]
) -> DeletePlan:
    """The rows that go, with the earlier deletes that are to be written anew beside them."""
    if metadata.format_version >= 3:
        return DeletePlan(doomed, replaced_deletes(metadata, doomed, live))
    taken = choose_taken(doomed, live)
    positions: dict[str, list[Positions]] = {path: [part] for path, part in doomed.items()}
    for found in for_each(partial(_read, io), taken, metadata.location):
        for path, part in found.items():
            if path in live:  # a delete may outlive its data file
                positions.setdefault(path, []).append(part)
    return DeletePlan({path: _join(path, parts) for path, parts in positions.items()}, taken)


def choose_taken(doomed: Mapping[str, Positions], live: Mapping[str, LiveFile]) -> list[LiveDelete]:
    """The deletes to take in, in each partition that loses rows."""
    about: dict[DeleteKey, tuple[LiveDelete, _Place]] = {}
    scattered: set[DeleteKey] = set()
    for file in live.values():
        place = _place(file) if file.deletes else ()
        for delete in file.deletes:
            if about.setdefault(delete.key, (delete, place))[1] != place:
                scattered.add(delete.key)
    by_place: dict[_Place, list[LiveDelete]] = defaultdict(list)
    for key, (delete, place) in about.items():
        if key not in scattered and not delete.is_vector:
            by_place[place].append(delete)
    coming: dict[_Place, int] = defaultdict(int)
    for path, part in doomed.items():
        coming[_place(live[path])] += len(part)
    return [delete for place, rows in coming.items() for delete in choose_tier(by_place[place], rows)]


def _place(file: LiveFile) -> _Place:
    """The partition, as something that is compared quickly."""
    return file.spec_id, *file.partition._data


def choose_tier(deletes: Sequence[LiveDelete], rows: int) -> list[LiveDelete]:
    """The small ones, each not larger than those before it together: every row is written anew only a few times."""
    if len(deletes) < _FEW_FILES:
        return []
    chosen: list[LiveDelete] = []
    for delete in sorted(deletes, key=lambda one: (one.rows, one.path)):
        if delete.rows > rows or rows + delete.rows > _MOST_ROWS:
            break
        chosen.append(delete)
        rows += delete.rows
    return chosen if len(chosen) > 1 else []


def _read(io: FileIO, delete: LiveDelete) -> dict[str, Positions]:
    with open_parquet(io, delete.path) as parquet:
        names, positions = read_columns(parquet, delete.path, (DELETED_PATH_ID, DELETED_POS_ID))
    encoded = names.dictionary_encode()
    place = encoded.indices.to_numpy()
    order = np.argsort(place, kind="stable")
    paths = encoded.dictionary.to_pylist()
    edges = np.searchsorted(place[order], np.arange(1, len(paths)))
    pieces = np.split(positions.to_numpy()[order], edges)
    return dict(zip(paths, pieces, strict=True))


def _join(path: str, parts: Sequence[Positions]) -> Positions:
    if len(parts) == 1:
        return parts[0]
    joined = np.unique(np.concatenate(parts))
    if len(joined) != sum(map(len, parts)):
        raise Corrupt(f"{path}: some of its rows would be deleted twice; nothing was committed")
    return joined
