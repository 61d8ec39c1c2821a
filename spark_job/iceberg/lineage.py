"""The history of a changelog since the cursor, and the files that it added."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from icemirror.cursor import Source
from icemirror.errors import Invalid
from spark_job.change_file import ChangeFile
from spark_job.iceberg.seams import list_manifests


@dataclass(frozen=True, slots=True)
class History:
    """Snapshots after the cursor, oldest first; `whole` says that the first one stands for all before it too."""

    snapshots: tuple[Snapshot, ...]
    whole: bool


def history_since(table: Table, name: str, source: Source | None) -> History:
    """Walks from the head back to the cursor's snapshot (or to the beginning)."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    walked: list[Snapshot] = []
    head = table.current_snapshot()
    at = head.snapshot_id if head else None
    stop = source.snapshot_id if source else None
    while at is not None and at != stop and at in by_id:
        walked.append(by_id[at])
        at = by_id[at].parent_snapshot_id
    if source is not None and (at != stop or stop not in by_id):
        raise Invalid(
            f"{name}: snapshot {stop}, up to which the mirror has merged, is not in the history of the changelog any "
            "more (it has expired, or the changelog was rolled back). Events may be missing: rebuild the mirror."
        )
    if source is not None and source.files_done is not None:
        walked.append(by_id[source.snapshot_id])
        at = by_id[source.snapshot_id].parent_snapshot_id
    walked.reverse()
    from_start = source is None or source.files_done is not None
    history = History(tuple(walked), whole=from_start and at is not None and at not in by_id)
    for snapshot in walked[1:] if history.whole else walked:
        _refuse_changes(name, snapshot)
    return history


def _refuse_changes(name: str, snapshot: Snapshot) -> None:
    operation = snapshot.summary.operation if snapshot.summary else None
    if operation not in (Operation.APPEND, Operation.REPLACE):
        raise Invalid(
            f"{name}: snapshot {snapshot.snapshot_id} is of kind {operation.value if operation else 'unknown'}. "
            "Rows of a changelog may only be appended; what this means for the mirror is not known. Rebuild it."
        )


def added_files(io: FileIO, name: str, history: History) -> dict[int, list[ChangeFile]]:
    """The data files that each snapshot of the history added, in the order in which it lists them.

    The head's manifests are enough unless somebody replaced files in between: then every snapshot is asked.
    """
    snapshots = history.snapshots
    wanted = {snapshot.snapshot_id: snapshot for snapshot in snapshots if _is_append(snapshot)}
    files: dict[int, list[ChangeFile]] = {snapshot_id: [] for snapshot_id in wanted}
    replaced = len(wanted) < len(snapshots)
    oldest = min((snapshot.sequence_number or 0 for snapshot in snapshots), default=0)
    first = snapshots[0] if snapshots else None
    if history.whole and first is not None:
        everything = _entries(io, name, first, oldest=0)
        files[first.snapshot_id] = [_change_file(entry, first) for _, entry in everything]
        wanted.pop(first.snapshot_id, None)
    for asked in (wanted.values() if replaced else list(snapshots[-1:])) if wanted else ():
        here = {asked.snapshot_id} if replaced else set(wanted)
        for snapshot_id, file in _entries(io, name, asked, oldest):
            if snapshot_id in here:
                files[snapshot_id].append(_change_file(file, wanted[snapshot_id]))
    return files


def _is_append(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    bytes: int
    events: int


def _entries(io: FileIO, name: str, snapshot: Snapshot, oldest: int) -> Iterable[tuple[int, _Entry]]:
    """(snapshot that added it, file) for the live files in manifests that are not older than `oldest`."""
    for manifest in list_manifests(io, snapshot.manifest_list):
        if manifest.content is not ManifestContent.DATA:
            raise Invalid(
                f"{name}: snapshot {snapshot.snapshot_id} deletes rows of the changelog; rebuild the mirror"
            )
        if (manifest.sequence_number or 0) < oldest:
            continue
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            if entry.status is not ManifestEntryStatus.DELETED:
                file = entry.data_file
                yield (
                    entry.snapshot_id or 0,
                    _Entry(file.file_path, file.file_size_in_bytes, file.record_count),
                )


def _change_file(entry: _Entry, snapshot: Snapshot) -> ChangeFile:
    return ChangeFile(
        entry.path, entry.bytes, entry.events, snapshot.snapshot_id, snapshot.sequence_number or 0
    )
