"""Keeps files of position deletes few (format v2): a merge takes small ones in and writes them anew with its own.

Small merges all over a table would else leave a file each for every data file, and readers open all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import REBUILD, Corrupt
from spark_job.distinct import distinct, united
from spark_job.files.round_trips import for_each
from spark_job.iceberg.v3_fields import DeleteKey, values_of
from spark_job.iceberg.view import LiveDelete, LiveFile, replaced_deletes
from spark_job.write.position_deletes import Positions, files_by_delete, read_position_deletes

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
    about = files_by_delete(live.values()) if taken else {}
    earlier: dict[str, list[Positions]] = {path: [] for path in doomed}
    wanted = [(delete, about[delete]) for delete in taken]
    for found in for_each(partial(read_position_deletes, io), wanted, metadata.location):
        for path, part in found.items():
            earlier.setdefault(path, []).append(part)
    positions = {path: _join(path, doomed.get(path), parts) for path, parts in earlier.items()}
    return DeletePlan(positions, taken)


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
    return file.spec_id, *values_of(file.partition)


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


def _join(path: str, doomed: Positions | None, earlier: Sequence[Positions]) -> Positions:
    """All of them, ascending, each once: what others deleted twice is deleted once more."""
    before = distinct(np.concatenate([np.empty(0, np.int64), *earlier]))
    if doomed is None:
        return before
    joined = united(doomed, before)
    if len(joined) != len(doomed) + len(before):
        raise Corrupt(
            f"{path}: some of its rows would be deleted twice; nothing was committed. To go on, {REBUILD}."
        )
    return joined
