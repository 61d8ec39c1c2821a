"""Which deletes a commit writes, rewrites and drops. It keeps position delete files few (format v2).

A commit rewrites small delete files together with the new deletes. Otherwise small merges all over a table would leave
one more delete file for every data file each time, and readers open all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from icemirror.errors import REBUILD_ADVICE, Corrupt
from spark_job.columns.distinct import distinct, distinct_union
from spark_job.iceberg.live_files import LiveDelete, LiveFile, replaced_deletes
from spark_job.pyiceberg_private.v3_fields import DeleteKey, record_values
from spark_job.storage.parallel import map_parallel
from spark_job.write.position_deletes import Positions, files_by_delete, read_position_deletes

_Partition = tuple[object, ...]

# Delete files of a partition are rewritten once there are this many.
_MIN_DELETE_FILES = 8
# A rewritten delete file has at most this many rows.
_MAX_REWRITTEN_ROWS = 500_000
# Removing data files rewrites their manifest: only once at least one in this many of its data files is empty.
_FILES_PER_EMPTY_FILE = 64


@dataclass(frozen=True)
class DeletePlan:
    """The positions to write by data file, and the deletes that they replace."""

    positions: Mapping[str, Positions]
    replaced_deletes: Sequence[LiveDelete] = ()


def plan_deletes(
    io: FileIO, metadata: TableMetadata, removed: Mapping[str, Positions], live: Mapping[str, LiveFile]
) -> DeletePlan:
    """Plan the deletes of the removed rows, together with the earlier deletes that are rewritten with them."""
    if metadata.format_version >= 3:
        return DeletePlan(removed, replaced_deletes(metadata, removed, live))
    rewritten = choose_rewritten_deletes(removed, live)
    targets = files_by_delete(live.values()) if rewritten else {}
    earlier: dict[str, list[Positions]] = {path: [] for path in removed}
    for positions_by_path in map_parallel(
        lambda delete: read_position_deletes(io, delete, targets[delete]), rewritten, metadata.location
    ):
        for path, deleted in positions_by_path.items():
            earlier.setdefault(path, []).append(deleted)
    positions = {path: _union_positions(path, removed.get(path), parts) for path, parts in earlier.items()}
    return DeletePlan(positions, rewritten)


def choose_rewritten_deletes(
    removed: Mapping[str, Positions], live: Mapping[str, LiveFile]
) -> list[LiveDelete]:
    """Choose the deletes to rewrite, in each partition that loses rows."""
    partition_by_delete: dict[DeleteKey, tuple[LiveDelete, _Partition]] = {}
    cross_partition: set[DeleteKey] = set()
    for file in live.values():
        partition = _partition(file) if file.deletes else ()
        for delete in file.deletes:
            _, first_partition = partition_by_delete.setdefault(delete.key, (delete, partition))
            if first_partition != partition:
                cross_partition.add(delete.key)
    deletes_by_partition: dict[_Partition, list[LiveDelete]] = defaultdict(list)
    for key, (delete, partition) in partition_by_delete.items():
        if key not in cross_partition and not delete.is_vector:
            deletes_by_partition[partition].append(delete)
    new_rows: dict[_Partition, int] = defaultdict(int)
    for path, positions in removed.items():
        new_rows[_partition(live[path])] += len(positions)
    return [
        delete
        for partition, rows in new_rows.items()
        for delete in choose_small_deletes(deletes_by_partition[partition], rows)
    ]


def _partition(file: LiveFile) -> _Partition:
    """Return the partition as a value that compares quickly."""
    return file.spec_id, *record_values(file.partition)


def choose_small_deletes(deletes: Sequence[LiveDelete], rows: int) -> list[LiveDelete]:
    """Choose the smallest deletes of a partition in which `rows` rows are removed.

    Each is no larger than all smaller ones and the new rows together, so a row is rewritten only a few times.
    """
    if len(deletes) < _MIN_DELETE_FILES:
        return []
    chosen: list[LiveDelete] = []
    for delete in sorted(deletes, key=lambda delete: (delete.rows, delete.path)):
        if delete.rows > rows or rows + delete.rows > _MAX_REWRITTEN_ROWS:
            break
        chosen.append(delete)
        rows += delete.rows
    return chosen if len(chosen) > 1 else []


def _union_positions(path: str, removed: Positions | None, earlier: Sequence[Positions]) -> Positions:
    """Return all positions, ascending and distinct; other engines may have deleted one twice."""
    deleted = distinct(np.concatenate([np.empty(0, np.int64), *earlier]))
    if removed is None:
        return deleted
    union = distinct_union(removed, deleted)
    if len(union) != len(removed) + len(deleted):
        raise Corrupt(
            f"rows would be deleted twice; nothing was committed. To continue, {REBUILD_ADVICE}. The data file: {path}"
        )
    return union


def choose_empty_files(
    removed: Mapping[str, Positions], live: Mapping[str, LiveFile], *, adds_rows: bool
) -> dict[str, LiveFile]:
    """Choose the data files to remove because they have no live row any more, by path. Pure.

    Choose none if the commit would add no file: `is_expired_parent` recognises a snapshot by its added files.
    """
    empty = {
        path: file
        for path, file in live.items()
        if file.deleted_rows + len(removed.get(path, ())) == file.rows
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


def exclusive_deletes(files: Iterable[LiveFile], others: Iterable[LiveFile]) -> list[LiveDelete]:
    """Return the deletes that apply to these data files and to none of the others. Pure."""
    exclusive = {delete.key: delete for file in files for delete in file.deletes}
    if exclusive:
        for file in others:
            for delete in file.deletes:
                exclusive.pop(delete.key, None)
    return list(exclusive.values())
