"""Which deletes a commit writes, rewrites and drops. It keeps position delete files few (format v2).

A commit rewrites small delete files together with the new deletes. Otherwise small merges all over a table would leave
one more delete file for every data file each time, and readers open all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import REBUILD, Corrupt
from spark_job.columns.distinct import distinct, distinct_union
from spark_job.iceberg.live_files import LiveDelete, LiveFile, replaced_deletes
from spark_job.pyiceberg_private.v3_fields import DeleteKey, record_values
from spark_job.storage.parallel import map_parallel
from spark_job.write.position_deletes import Positions, files_by_delete, read_position_deletes

_Partition = tuple[object, ...]

# A partition with fewer delete files is skipped; a delete file with more rows is never rewritten.
_MIN_DELETE_FILES = 8
_MAX_REWRITTEN_ROWS = 500_000
# Removing a data file rewrites its manifest. A manifest waits until at least one in this many of its files is empty.
_FILES_PER_EMPTY_FILE = 64


@dataclass(frozen=True)
class DeletePlan:
    """The positions to write by data file, and the deletes that they replace."""

    positions: Mapping[str, Positions]
    replaced: Sequence[LiveDelete] = ()


def plan_deletes(
    io: FileIO, metadata: TableMetadata, removed: Mapping[str, Positions], live: Mapping[str, LiveFile]
) -> DeletePlan:
    """Plan the deletes of the removed rows, together with the earlier deletes that are rewritten with them."""
    if metadata.format_version >= 3:
        return DeletePlan(removed, replaced_deletes(metadata, removed, live))
    rewritten = choose_rewritten_deletes(removed, live)
    targets = files_by_delete(live.values()) if rewritten else {}
    earlier: dict[str, list[Positions]] = {path: [] for path in removed}
    wanted = [(delete, targets[delete]) for delete in rewritten]
    for found in map_parallel(partial(read_position_deletes, io), wanted, metadata.location):
        for path, deleted in found.items():
            earlier.setdefault(path, []).append(deleted)
    positions = {path: _join(path, removed.get(path), parts) for path, parts in earlier.items()}
    return DeletePlan(positions, rewritten)


def choose_rewritten_deletes(
    removed: Mapping[str, Positions], live: Mapping[str, LiveFile]
) -> list[LiveDelete]:
    """Choose the deletes to rewrite, in each partition that loses rows."""
    known: dict[DeleteKey, tuple[LiveDelete, _Partition]] = {}
    cross_partition: set[DeleteKey] = set()
    for file in live.values():
        partition = _partition(file) if file.deletes else ()
        for delete in file.deletes:
            if known.setdefault(delete.key, (delete, partition))[1] != partition:
                cross_partition.add(delete.key)
    by_partition: dict[_Partition, list[LiveDelete]] = defaultdict(list)
    for key, (delete, partition) in known.items():
        if key not in cross_partition and not delete.is_vector:
            by_partition[partition].append(delete)
    new_rows: dict[_Partition, int] = defaultdict(int)
    for path, positions in removed.items():
        new_rows[_partition(live[path])] += len(positions)
    return [
        delete
        for partition, rows in new_rows.items()
        for delete in choose_tier(by_partition[partition], rows)
    ]


def _partition(file: LiveFile) -> _Partition:
    """Return the partition as a value that compares quickly."""
    return file.spec_id, *record_values(file.partition)


def choose_tier(deletes: Sequence[LiveDelete], rows: int) -> list[LiveDelete]:
    """Choose the smallest deletes, each no larger than all before it together: a row is rewritten only a few times."""
    if len(deletes) < _MIN_DELETE_FILES:
        return []
    chosen: list[LiveDelete] = []
    for delete in sorted(deletes, key=lambda delete: (delete.rows, delete.path)):
        if delete.rows > rows or rows + delete.rows > _MAX_REWRITTEN_ROWS:
            break
        chosen.append(delete)
        rows += delete.rows
    return chosen if len(chosen) > 1 else []


def _join(path: str, removed: Positions | None, earlier: Sequence[Positions]) -> Positions:
    """Return all positions, ascending and distinct; other engines may have deleted one twice."""
    before = distinct(np.concatenate([np.empty(0, np.int64), *earlier]))
    if removed is None:
        return before
    joined = distinct_union(removed, before)
    if len(joined) != len(removed) + len(before):
        raise Corrupt(
            f"rows would be deleted twice; nothing was committed. To continue, {REBUILD}. The data file: {path}"
        )
    return joined


def choose_empty_files(
    removed: Mapping[str, Positions], live: Mapping[str, LiveFile], *, adds_rows: bool
) -> dict[str, LiveFile]:
    """Choose the data files to remove because no live row is left in them, by path. Pure.

    Choose none if the commit adds no file: `mirror._is_parent` recognises the next snapshot by added files.
    """
    empty = {
        path: file for path, file in live.items() if file.deleted + len(removed.get(path, ())) == file.rows
    }
    if not empty or (not adds_rows and removed.keys() <= empty.keys()):
        return {}
    entries = Counter(file.manifest for file in live.values())
    empty_entries = Counter(file.manifest for file in empty.values())
    return {
        path: file
        for path, file in empty.items()
        if _FILES_PER_EMPTY_FILE * empty_entries[file.manifest] >= entries[file.manifest]
    }


def deletes_only_for(files: Iterable[LiveFile], others: Iterable[LiveFile]) -> list[LiveDelete]:
    """Return the deletes that apply to these data files and to none of the others. Pure."""
    exclusive = {delete.key: delete for file in files for delete in file.deletes}
    if exclusive:
        for file in others:
            for delete in file.deletes:
                exclusive.pop(delete.key, None)
    return list(exclusive.values())
