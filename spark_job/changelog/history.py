"""The history of a changelog since a cursor, and the files that its snapshots added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.typedef import Record

from icemirror.errors import REBUILD, Corrupt, Invalid, Transient
from icemirror.tables.cursor import CursorSource
from spark_job.columns.missing_columns import identity_columns
from spark_job.iceberg.ancestry import has_files_of_commit, has_files_of_other_commits, walk_ancestors
from spark_job.iceberg.manifests import ManifestList, load_manifest_list
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.storage.immutable_cache import FileCache
from spark_job.storage.parallel import map_parallel

_ADDED_FILES = "added-data-files"
_MAX_CACHED_ENTRIES = 200_000


@dataclass(frozen=True, slots=True)
class ChangelogFile:
    """A data file. Its ordinal in a slice orders its events by (sequence number of the commit, file).

    `partition`: field id and value of each identity partition column. `index_in_commit`: 0 for
    the first file of its commit.
    """

    path: str
    bytes: int
    events: int
    snapshot_id: int
    sequence_number: int
    partition: tuple[tuple[int, Any], ...] = ()  # Any: of the column's type
    index_in_commit: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """Snapshots after the cursor, oldest first. `covers_expired`: the first one covers all expired ones before it.

    `identities`: by partition spec, the index and field id of each identity partition column.
    """

    snapshots: tuple[Snapshot, ...]
    covers_expired: bool
    identities: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CursorExpired:
    """The changelog's history does not reach back to the cursor. `message`: what to do."""

    message: str


def whole_history(table: Table, name: str) -> History:
    """Return the history from the beginning to the head; refuse other commits than appends."""
    return _history(table, name, all_snapshots(table), None)


def history_since(table: Table, name: str, source: CursorSource) -> History | CursorExpired:
    """Return the history from the cursor to the head; refuse other commits than appends."""
    snapshots = snapshots_since(table, name, source)
    if isinstance(snapshots, CursorExpired):
        return snapshots
    if source.files_done is not None:
        partly_merged = source.snapshot_id
        snapshots.append(
            next(
                snapshot
                for snapshot in reversed(table.metadata.snapshots)
                if snapshot.snapshot_id == partly_merged
            )
        )
    return _history(table, name, snapshots, source)


def _history(table: Table, name: str, newest_first: list[Snapshot], source: CursorSource | None) -> History:
    snapshots = newest_first[::-1]
    covers_expired = bool(snapshots) and has_unmerged_expired_files(table, snapshots[0], source)
    for snapshot in snapshots[1:] if covers_expired else snapshots:
        require_append(name, snapshot)
    return History(tuple(snapshots), covers_expired, identity_columns(table.specs()))


def all_snapshots(table: Table) -> list[Snapshot]:
    """Return the snapshots from the head back to the oldest."""
    head = table.current_snapshot()
    return list(walk_ancestors(table.metadata.snapshots, head.snapshot_id if head else None))


def snapshots_since(table: Table, name: str, source: CursorSource) -> list[Snapshot] | CursorExpired:
    """Return the snapshots after the cursor's, newest first; raise `Invalid` if the branch does not contain it."""
    snapshots: list[Snapshot] = []
    for snapshot in all_snapshots(table):
        if snapshot.snapshot_id == source.snapshot_id:
            return snapshots
        snapshots.append(snapshot)
    if _begins_after(table.io, snapshots, source):
        return snapshots
    if source.sequence_number >= table.metadata.next_sequence_number():
        raise Transient(
            f"{name}: the catalog returned a state before commit {source.sequence_number}, up to which the "
            "mirror has merged; a later attempt may return a newer one. If a user reset the changelog to an older "
            f"state for good, {REBUILD}."
        )
    missing = (
        f"{name}: snapshot {source.snapshot_id}, up to which the mirror has merged, is not in the history of "
    )
    if any(snapshot.snapshot_id == source.snapshot_id for snapshot in table.metadata.snapshots):
        raise Invalid(
            f"{missing}the changelog's head: the changelog was rolled back, or its main branch was moved. Restore the "
            f"branch, then `icemirror resume`; or, to keep it, {REBUILD}."
        )
    return CursorExpired(
        f"{missing}the changelog (it has expired, together with later snapshots or unmerged files; or the changelog "
        f"was rolled back). Events may be missing: {REBUILD}; with on_expired_cursor: rebuild the next merge does that."
    )


def _begins_after(io: FileIO, snapshots: Sequence[Snapshot], source: CursorSource) -> bool:
    """Return whether the oldest snapshot directly follows the cursor's, which has expired and is fully merged."""
    if not snapshots or source.files_done is not None:
        return False
    first = snapshots[-1]
    if first.parent_snapshot_id is not None:
        return first.parent_snapshot_id == source.snapshot_id
    # PyIceberg removes the id of an expired parent.
    number = source.sequence_number
    return number > 0 and first.sequence_number == number + 1 and has_files_of_commit(io, first, number)


def has_unmerged_expired_files(table: Table, first: Snapshot, source: CursorSource | None) -> bool:
    """Return whether files of expired snapshots before the first one are still unmerged."""
    parent_id, number = first.parent_snapshot_id, first.sequence_number or 0
    if source is not None and source.files_done is None:
        return False
    if source is not None and number:
        # Snapshots that expired after this one was partly merged are merged already.
        return source.sequence_number < number
    # Tables of format v1 have no sequence numbers.
    if parent_id is not None or number != 1:
        return all(snapshot.snapshot_id != parent_id for snapshot in table.metadata.snapshots)
    # PyIceberg removes the id of an expired parent. Commit 1 is the beginning, unless the table was upgraded from
    # format v1.
    return has_files_of_other_commits(table.io, first)


def require_append(name: str, snapshot: Snapshot) -> None:
    """Refuse a snapshot that neither appends nor compacts."""
    operation = snapshot.summary.operation if snapshot.summary else None
    if operation not in (Operation.APPEND, Operation.REPLACE):
        raise Invalid(
            f"{name}: snapshot {snapshot.snapshot_id} is of kind {operation.value if operation else 'unknown'}. "
            f"Rows of a changelog may only be appended. {_rollback_advice(snapshot.parent_snapshot_id)}"
        )


def _rollback_advice(parent_id: int | None) -> str:
    """Return what to do if the changelog cannot be followed."""
    target = "before that" if parent_id is None else str(parent_id)
    return (
        "Keep the mirror: a rebuilt one stops here as well. Roll the changelog back to the snapshot "
        f"{target} and append the missing rows, then `icemirror resume`; or recreate the changelog, then {REBUILD}."
    )


def added_files(io: FileIO, name: str, history: History) -> dict[int, list[ChangelogFile]]:
    """Return the data files that each snapshot of the history added, in the order of the snapshot's manifests.

    The head's manifests suffice if they preserve that order. Otherwise, and if files were replaced in between, the
    manifests of each snapshot are read.
    """
    snapshots = history.snapshots
    wanted = {snapshot.snapshot_id: snapshot for snapshot in snapshots if _is_append(snapshot)}
    files: dict[int, list[ChangelogFile]] = {snapshot_id: [] for snapshot_id in wanted}
    replaced = len(wanted) < len(snapshots)
    if history.covers_expired:
        files[snapshots[0].snapshot_id] = _all_files(io, name, history)
        wanted.pop(snapshots[0].snapshot_id, None)
    listed: dict[int, list[_FileEntry]] = {snapshot_id: [] for snapshot_id in wanted}
    if wanted and not replaced:
        oldest = min(snapshot.sequence_number or 0 for snapshot in snapshots)
        (entries,) = _entries(io, name, snapshots[-1:], lambda _, manifests: manifests.since(oldest))
        for entry in entries:
            if entry.snapshot_id in listed:
                listed[entry.snapshot_id].append(entry)
    reread = [snapshot for key, snapshot in wanted.items() if replaced or not _in_commit_order(listed[key])]
    listed |= _added_entries(io, name, reread)
    for snapshot_id, snapshot in wanted.items():
        entries = listed[snapshot_id]
        _require_all(name, snapshot, len(entries))
        files[snapshot_id] = [
            _to_changelog_file(entry, snapshot.sequence_number or 0, history, index)
            for index, entry in enumerate(entries)
        ]
    return files


def _require_all(name: str, snapshot: Snapshot, found: int) -> None:
    """Refuse a snapshot with fewer files than its summary states: a lost manifest would lose events."""
    stated = snapshot.summary.additional_properties.get(_ADDED_FILES, "0") if snapshot.summary else "0"
    if stated.isdecimal() and found < int(stated):
        raise Corrupt(
            f"{name}: snapshot {snapshot.snapshot_id} states that it added {stated} files, but its manifests list "
            f"{found}"
        )


def _is_append(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND


@dataclass(frozen=True, slots=True)
class _FileEntry:
    """A live file, the snapshot that added it, its manifest, and the snapshot that wrote the manifest."""

    path: str
    bytes: int
    events: int
    snapshot_id: int
    sequence_number: int
    manifest: str
    manifest_snapshot_id: int
    spec_id: int
    partition: tuple[Any, ...]  # Any: of the types of the columns


_cache: FileCache[tuple[_FileEntry, ...]] = FileCache(_MAX_CACHED_ENTRIES, lambda entries: 1 + len(entries))


def _entries(
    io: FileIO,
    name: str,
    snapshots: Sequence[Snapshot],
    wanted: Callable[[Snapshot, ManifestList], Iterable[ManifestFile]],
) -> list[list[_FileEntry]]:
    """Return the live files in the wanted manifests of each snapshot, in their order."""
    if not snapshots:
        return []

    def choose(snapshot: Snapshot) -> list[ManifestFile]:
        manifest_list = load_manifest_list(io, snapshot)
        if manifest_list.has_deletes:
            raise Invalid(
                f"{name}: snapshot {snapshot.snapshot_id} contains deletes, its own or earlier ones. "
                f"Rows of a changelog may only be appended. {_rollback_advice(None)}"
            )
        return list(wanted(snapshot, manifest_list))

    where = snapshots[0].manifest_list
    chosen = map_parallel(choose, snapshots, where)
    distinct = {manifest.manifest_path: manifest for manifests in chosen for manifest in manifests}
    read = map_parallel(lambda manifest: _manifest_entries(io, manifest), list(distinct.values()), where)
    by_path = dict(zip(distinct, read, strict=True))
    return [
        [entry for manifest in manifests for entry in by_path[manifest.manifest_path]] for manifests in chosen
    ]


def _manifest_entries(io: FileIO, manifest: ManifestFile) -> tuple[_FileEntry, ...]:
    """Return the live files of a manifest; cached, because every slice of a backlog needs them again."""

    def read() -> tuple[_FileEntry, ...]:
        return tuple(
            _FileEntry(
                path=entry.data_file.file_path,
                bytes=entry.data_file.file_size_in_bytes,
                events=entry.data_file.record_count,
                snapshot_id=entry.snapshot_id or 0,
                sequence_number=entry.sequence_number or 0,
                manifest=manifest.manifest_path,
                manifest_snapshot_id=manifest.added_snapshot_id or 0,
                spec_id=manifest.partition_spec_id,
                partition=_values(entry.data_file.partition),
            )
            for entry in read_manifest_entries(io, manifest)
        )

    return _cache.get(manifest.manifest_path, read)


def _values(record: Record) -> tuple[Any, ...]:
    return tuple(record[number] for number in range(len(record)))


def _in_commit_order(entries: Sequence[_FileEntry]) -> bool:
    """Return whether the files are still in their original order: all in one manifest that their snapshot wrote."""
    manifests = {(entry.manifest, entry.manifest_snapshot_id == entry.snapshot_id) for entry in entries}
    return len(entries) <= 1 or (len(manifests) == 1 and all(same for _, same in manifests))


def _added_entries(io: FileIO, name: str, snapshots: Sequence[Snapshot]) -> dict[int, list[_FileEntry]]:
    """Return the files that each snapshot added, from the manifests that it wrote."""
    found = _entries(
        io,
        name,
        snapshots,
        lambda snapshot, listed: (
            manifest for manifest in listed.manifests if manifest.added_snapshot_id == snapshot.snapshot_id
        ),
    )
    return {
        snapshot.snapshot_id: [entry for entry in entries if entry.snapshot_id == snapshot.snapshot_id]
        for snapshot, entries in zip(snapshots, found, strict=True)
    }


def _all_files(io: FileIO, name: str, history: History) -> list[ChangelogFile]:
    """Return all files of the first snapshot: those of earlier commits by sequence number, then those that it added."""
    snapshot = history.snapshots[0]
    number = snapshot.sequence_number or 0
    before: list[tuple[int, _FileEntry]] = []
    added: list[_FileEntry] = []
    (entries,) = _entries(io, name, [snapshot], lambda _, listed: listed.manifests)
    for entry in entries:
        if _is_append(snapshot) and entry.snapshot_id == snapshot.snapshot_id:
            added.append(entry)
        else:
            before.append((max(0, min(entry.sequence_number, number - 1)), entry))
    before.sort(key=itemgetter(0))
    commits = groupby([*before, *((number, entry) for entry in added)], itemgetter(0))
    return [
        _to_changelog_file(entry, commit, history, index)
        for commit, entries in commits
        for index, (_, entry) in enumerate(entries)
    ]


def _to_changelog_file(
    entry: _FileEntry, sequence_number: int, history: History, index_in_commit: int
) -> ChangelogFile:
    partition = tuple(
        (field_id, entry.partition[number])
        for number, field_id in history.identities.get(entry.spec_id, ())
        if number < len(entry.partition)
    )
    return ChangelogFile(
        entry.path, entry.bytes, entry.events, entry.snapshot_id, sequence_number, partition, index_in_commit
    )
