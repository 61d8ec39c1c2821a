"""The data files that each snapshot of a changelog added, in the order of their events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Operation, Snapshot

from icemirror.errors import Corrupt, Invalid
from spark_job.changelog.history import History, rollback_advice
from spark_job.columns.missing_columns import MissingValues
from spark_job.iceberg.manifests import ManifestList, load_manifest_list
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.pyiceberg_private.v3_fields import record_values
from spark_job.storage.file_cache import FileCache
from spark_job.storage.parallel import map_parallel

_ADDED_FILES = "added-data-files"
_MAX_CACHED_ENTRIES = 200_000


@dataclass(frozen=True, slots=True)
class ChangelogFile:
    """A data file of a changelog. Its ordinal in a slice orders its events by (sequence number of the commit, file).

    `partition`: field id and value of each identity partition column. `index_in_commit`: 0 for the first file of its
    commit.
    """

    path: str
    bytes: int
    events: int
    snapshot_id: int
    sequence_number: int
    partition: tuple[tuple[int, Any], ...] = ()  # Any: of the column's type
    index_in_commit: int = 0

    @property
    def row_count(self) -> int:
        """The number of rows: each is an event."""
        return self.events

    @property
    def missing_values(self) -> MissingValues:
        """By field id, the values of partition columns, which the file may lack."""
        return dict(self.partition)


def added_files(io: FileIO, name: str, history: History) -> dict[int, list[ChangelogFile]]:
    """Return the data files that each snapshot of the history added, in the order of the snapshot's manifests.

    The head's manifests suffice if they preserve that order. Otherwise, and if files were replaced in between, the
    manifests of each snapshot are read.
    """
    snapshots = history.snapshots
    appends = {snapshot.snapshot_id: snapshot for snapshot in snapshots if _is_append(snapshot)}
    files: dict[int, list[ChangelogFile]] = {snapshot_id: [] for snapshot_id in appends}
    has_replace = len(appends) < len(snapshots)
    if history.covers_expired:
        files[snapshots[0].snapshot_id] = _all_files(io, name, history)
        appends.pop(snapshots[0].snapshot_id, None)
    entries_by_snapshot: dict[int, list[_FileEntry]] = {snapshot_id: [] for snapshot_id in appends}
    if appends and not has_replace:
        oldest = min(snapshot.sequence_number or 0 for snapshot in snapshots)
        (head_entries,) = _read_entries(
            io, name, snapshots[-1:], lambda _, listed: listed.written_since(oldest)
        )
        for entry in head_entries:
            if entry.snapshot_id in entries_by_snapshot:
                entries_by_snapshot[entry.snapshot_id].append(entry)
    reread = [
        snapshot
        for snapshot_id, snapshot in appends.items()
        if has_replace or not _in_commit_order(entries_by_snapshot[snapshot_id])
    ]
    entries_by_snapshot |= _read_added_entries(io, name, reread)
    for snapshot_id, snapshot in appends.items():
        entries = entries_by_snapshot[snapshot_id]
        _require_all_files(name, snapshot, len(entries))
        files[snapshot_id] = [
            _to_changelog_file(entry, snapshot.sequence_number or 0, history, index)
            for index, entry in enumerate(entries)
        ]
    return files


def _require_all_files(name: str, snapshot: Snapshot, listed: int) -> None:
    """Raise `Corrupt` if manifests list fewer files than the summary states: a lost manifest would lose events."""
    stated = snapshot.summary.additional_properties.get(_ADDED_FILES, "0") if snapshot.summary else "0"
    if stated.isdecimal() and listed < int(stated):
        raise Corrupt(
            f"{name}: snapshot {snapshot.snapshot_id} states that it added {stated} files, but its manifests list "
            f"{listed}"
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


_entries_cache: FileCache[tuple[_FileEntry, ...]] = FileCache(
    _MAX_CACHED_ENTRIES, lambda entries: 1 + len(entries)
)


def _read_entries(
    io: FileIO,
    name: str,
    snapshots: Sequence[Snapshot],
    choose_manifests: Callable[[Snapshot, ManifestList], Iterable[ManifestFile]],
) -> list[list[_FileEntry]]:
    """Return the live files in the chosen manifests of each snapshot, in the order of the manifests."""
    if not snapshots:
        return []

    def choose(snapshot: Snapshot) -> list[ManifestFile]:
        manifest_list = load_manifest_list(io, snapshot)
        if manifest_list.has_deletes:
            raise Invalid(
                f"{name}: snapshot {snapshot.snapshot_id} contains deletes, its own or earlier ones. "
                f"Rows of a changelog may only be appended. {rollback_advice(None)}"
            )
        return list(choose_manifests(snapshot, manifest_list))

    location = snapshots[0].manifest_list
    chosen = map_parallel(choose, snapshots, location)
    manifests = {
        manifest.manifest_path: manifest for chosen_manifests in chosen for manifest in chosen_manifests
    }
    entries = map_parallel(lambda manifest: _read_manifest(io, manifest), list(manifests.values()), location)
    entries_by_manifest = dict(zip(manifests, entries, strict=True))
    return [
        [entry for manifest in chosen_manifests for entry in entries_by_manifest[manifest.manifest_path]]
        for chosen_manifests in chosen
    ]


def _read_manifest(io: FileIO, manifest: ManifestFile) -> tuple[_FileEntry, ...]:
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
                partition=tuple(record_values(entry.data_file.partition)),
            )
            for entry in read_manifest_entries(io, manifest)
        )

    return _entries_cache.get(manifest.manifest_path, read)


def _in_commit_order(entries: Sequence[_FileEntry]) -> bool:
    """Return whether the files are still in their original order: all in one manifest that their snapshot wrote."""
    if len(entries) <= 1:
        return True
    in_one_manifest = len({entry.manifest for entry in entries}) == 1
    return in_one_manifest and all(entry.manifest_snapshot_id == entry.snapshot_id for entry in entries)


def _read_added_entries(io: FileIO, name: str, snapshots: Sequence[Snapshot]) -> dict[int, list[_FileEntry]]:
    """Return the files that each snapshot added, from the manifests that it wrote."""
    entries_of_snapshots = _read_entries(
        io,
        name,
        snapshots,
        lambda snapshot, listed: (
            manifest for manifest in listed.manifests if manifest.added_snapshot_id == snapshot.snapshot_id
        ),
    )
    return {
        snapshot.snapshot_id: [entry for entry in entries if entry.snapshot_id == snapshot.snapshot_id]
        for snapshot, entries in zip(snapshots, entries_of_snapshots, strict=True)
    }


def _all_files(io: FileIO, name: str, history: History) -> list[ChangelogFile]:
    """Return all files of the first snapshot: those of earlier commits by sequence number, then those that it added."""
    snapshot = history.snapshots[0]
    sequence_number = snapshot.sequence_number or 0
    earlier: list[tuple[int, _FileEntry]] = []
    added: list[tuple[int, _FileEntry]] = []
    (entries,) = _read_entries(io, name, [snapshot], lambda _, listed: listed.manifests)
    for entry in entries:
        if _is_append(snapshot) and entry.snapshot_id == snapshot.snapshot_id:
            added.append((sequence_number, entry))
        else:
            earlier.append((max(0, min(entry.sequence_number, sequence_number - 1)), entry))
    earlier.sort(key=itemgetter(0))
    return [
        _to_changelog_file(entry, commit, history, index)
        for commit, entries_of_commit in groupby([*earlier, *added], itemgetter(0))
        for index, (_, entry) in enumerate(entries_of_commit)
    ]


def _to_changelog_file(
    entry: _FileEntry, sequence_number: int, history: History, index_in_commit: int
) -> ChangelogFile:
    partition = tuple(
        (field_id, entry.partition[partition_index])
        for partition_index, field_id in history.identity_columns.get(entry.spec_id, ())
        if partition_index < len(entry.partition)
    )
    return ChangelogFile(
        entry.path, entry.bytes, entry.events, entry.snapshot_id, sequence_number, partition, index_in_commit
    )
