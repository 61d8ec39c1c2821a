"""The history of a changelog since the cursor, and the files that it added."""

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

from icemirror.cursor import Source
from icemirror.errors import REBUILD, Corrupt, Invalid, Transient
from spark_job.changelog.change_file import ChangeFile
from spark_job.columns.absent import identity_columns
from spark_job.files.immutable import ReadOnce
from spark_job.files.round_trips import for_each
from spark_job.iceberg.ancestors import walk_ancestors
from spark_job.iceberg.descent import holds_files_of, holds_files_of_others
from spark_job.iceberg.manifests import ManifestList, known_list
from spark_job.iceberg.seams import read_entries
from spark_job.lost_track import CursorExpired

_ADDED_FILES = "added-data-files"
_MOST_ENTRIES = 200_000  # that are remembered


@dataclass(frozen=True, slots=True)
class History:
    """Snapshots after the cursor, oldest first; `whole` says that the first one stands for all before it too.

    `identities`: by partition spec, the places and field ids of the columns that are partitioned by as they are.
    """

    snapshots: tuple[Snapshot, ...]
    whole: bool
    identities: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)


def history_since(table: Table, name: str, source: Source | None) -> History:
    """Walks from the head back to the cursor's snapshot (or to the beginning)."""
    walked = walk_back(table, name, source)
    if source is not None and source.files_done is not None:
        begun = source.snapshot_id
        walked.append(next(one for one in reversed(table.metadata.snapshots) if one.snapshot_id == begun))
    walked.reverse()
    whole = bool(walked) and stands_for_all(table, walked[0], source)
    for snapshot in walked[1:] if whole else walked:
        refuse_changes(name, snapshot)
    return History(tuple(walked), whole, identity_columns(table.specs()))


def walk_back(table: Table, name: str, source: Source | None) -> list[Snapshot]:
    """The snapshots after the cursor's, newest first; an error where they do not lead back to it."""
    walked: list[Snapshot] = []
    head = table.current_snapshot()
    for snapshot in walk_ancestors(table.metadata.snapshots, head.snapshot_id if head else None):
        if source is not None and snapshot.snapshot_id == source.snapshot_id:
            return walked
        walked.append(snapshot)
    if source is None or _begins_after(table.io, walked, source):
        return walked
    if source.sequence_number >= table.metadata.next_sequence_number():
        raise Transient(
            f"{name}: the catalog shows it as it was before its commit {source.sequence_number}, up to which the "
            "mirror has merged; a later look may show more. If somebody put the changelog back to an older state for "
            f"good, {REBUILD}."
        )
    where = f"{name}: snapshot {source.snapshot_id}, up to which the mirror has merged, is not in the history of the "
    if any(one.snapshot_id == source.snapshot_id for one in table.metadata.snapshots):
        raise Invalid(
            f"{where}changelog's head any more: the changelog was rolled back, or its main branch put elsewhere. Put "
            f"it back to where it was, then `icemirror resume`; or, if that is how it shall be, {REBUILD}."
        )
    raise CursorExpired(
        f"{where}changelog any more (it has expired, and others after it or a part of it that was to be merged; or the "
        f"changelog was rolled back). Events may be missing: {REBUILD}; with on_expired_cursor: rebuild the next merge "
        "does that."
    )


def _begins_after(io: FileIO, walked: Sequence[Snapshot], source: Source) -> bool:
    """Whether the oldest snapshot that is left came right after the cursor's, which has expired and is merged whole."""
    if not walked or source.files_done is not None:
        return False
    first = walked[-1]
    if first.parent_snapshot_id is not None:
        return first.parent_snapshot_id == source.snapshot_id
    # PyIceberg cuts the tie to an expired parent.
    number = source.sequence_number
    return number > 0 and first.sequence_number == number + 1 and holds_files_of(io, first, number)


def stands_for_all(table: Table, first: Snapshot, source: Source | None) -> bool:
    """Whether files of expired snapshots before the first one are still to be merged."""
    parent_id, number = first.parent_snapshot_id, first.sequence_number or 0
    if source is not None and source.files_done is None:
        return False
    if source is not None and number:
        # What expired after the snapshot was begun is merged already.
        return source.sequence_number < number
    # Tables of format v1 number no commits.
    if parent_id is not None or number != 1:
        return all(one.snapshot_id != parent_id for one in table.metadata.snapshots)
    # PyIceberg cuts the tie to an expired parent. A first commit is the beginning, unless it was that of a table which
    # had been of format v1.
    return holds_files_of_others(table.io, first)


def refuse_changes(name: str, snapshot: Snapshot) -> None:
    """Refuses a snapshot that did more than to append, or to put the same rows into other files."""
    operation = snapshot.summary.operation if snapshot.summary else None
    if operation not in (Operation.APPEND, Operation.REPLACE):
        raise Invalid(
            f"{name}: snapshot {snapshot.snapshot_id} is of kind {operation.value if operation else 'unknown'}. "
            f"Rows of a changelog may only be appended. {_way_back(snapshot.parent_snapshot_id)}"
        )


def _way_back(before: int | None) -> str:
    """What helps where the changelog itself cannot be followed."""
    back = "before that" if before is None else str(before)
    return (
        "Keep the mirror: one that is built anew stops here as well. Roll the changelog back to the snapshot "
        f"{back} and append what is missing, then `icemirror resume`; or create the changelog anew, then {REBUILD}."
    )


def added_files(io: FileIO, name: str, history: History) -> dict[int, list[ChangeFile]]:
    """The data files that each snapshot of the history added, in the order in which it lists them itself.

    The head's manifests are enough where they show that order; else, and where somebody replaced files in between,
    the snapshot is asked.
    """
    snapshots = history.snapshots
    wanted = {snapshot.snapshot_id: snapshot for snapshot in snapshots if _is_append(snapshot)}
    files: dict[int, list[ChangeFile]] = {snapshot_id: [] for snapshot_id in wanted}
    replaced = len(wanted) < len(snapshots)
    if history.whole:
        files[snapshots[0].snapshot_id] = _all_files(io, name, history)
        wanted.pop(snapshots[0].snapshot_id, None)
    listed: dict[int, list[_Entry]] = {snapshot_id: [] for snapshot_id in wanted}
    if wanted and not replaced:
        oldest = min(snapshot.sequence_number or 0 for snapshot in snapshots)
        (entries,) = _entries(io, name, snapshots[-1:], lambda _, listed: listed.since(oldest))
        for entry in entries:
            if entry.snapshot_id in listed:
                listed[entry.snapshot_id].append(entry)
    asked = [one for key, one in wanted.items() if replaced or not _in_own_order(listed[key])]
    listed |= _own_entries(io, name, asked)
    for snapshot_id, snapshot in wanted.items():
        entries = listed[snapshot_id]
        _require_all(name, snapshot, len(entries))
        files[snapshot_id] = [
            _change_file(entry, snapshot.sequence_number or 0, history, place)
            for place, entry in enumerate(entries)
        ]
    return files


def _require_all(name: str, snapshot: Snapshot, found: int) -> None:
    """A manifest list that lost a manifest would else be one of a commit with fewer events."""
    told = snapshot.summary.additional_properties.get(_ADDED_FILES, "0") if snapshot.summary else "0"
    if told.isdecimal() and found < int(told):
        raise Corrupt(
            f"{name}: snapshot {snapshot.snapshot_id} says that it added {told} files, but its manifests name {found}"
        )


def _is_append(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND


@dataclass(frozen=True, slots=True)
class _Entry:
    """A live file, with the snapshot that added it, and the manifest with the snapshot that wrote that."""

    path: str
    bytes: int
    events: int
    snapshot_id: int
    sequence_number: int
    manifest: str
    manifest_by: int
    spec_id: int
    partition: tuple[Any, ...]  # Any: of the types of its columns


_known: ReadOnce[tuple[_Entry, ...]] = ReadOnce(_MOST_ENTRIES, lambda entries: 1 + len(entries))


def _entries(
    io: FileIO,
    name: str,
    snapshots: Sequence[Snapshot],
    wanted: Callable[[Snapshot, ManifestList], Iterable[ManifestFile]],
) -> list[list[_Entry]]:
    """The live files in the wanted manifests of each snapshot, as they are listed."""
    if not snapshots:
        return []

    def choose(snapshot: Snapshot) -> list[ManifestFile]:
        listed = known_list(io, snapshot)
        if listed.has_deletes:
            raise Invalid(
                f"{name}: snapshot {snapshot.snapshot_id} has deletes of rows, of its own or from before. "
                f"Rows of a changelog may only be appended. {_way_back(None)}"
            )
        return list(wanted(snapshot, listed))

    where = snapshots[0].manifest_list
    chosen = for_each(choose, snapshots, where)
    every = {manifest.manifest_path: manifest for manifests in chosen for manifest in manifests}
    read = for_each(lambda one: _manifest_entries(io, one), list(every.values()), where)
    by_path = dict(zip(every, read, strict=True))
    return [
        [entry for manifest in manifests for entry in by_path[manifest.manifest_path]] for manifests in chosen
    ]


def _manifest_entries(io: FileIO, manifest: ManifestFile) -> tuple[_Entry, ...]:
    """The live files of a manifest; read once, since every slice of a backlog asks for them again."""

    def read() -> tuple[_Entry, ...]:
        return tuple(
            _Entry(
                path=entry.data_file.file_path,
                bytes=entry.data_file.file_size_in_bytes,
                events=entry.data_file.record_count,
                snapshot_id=entry.snapshot_id or 0,
                sequence_number=entry.sequence_number or 0,
                manifest=manifest.manifest_path,
                manifest_by=manifest.added_snapshot_id or 0,
                spec_id=manifest.partition_spec_id,
                partition=_values(entry.data_file.partition),
            )
            for entry in read_entries(io, manifest)
        )

    return _known.get(manifest.manifest_path, read)


def _values(record: Record) -> tuple[Any, ...]:
    return tuple(record[at] for at in range(len(record)))


def _in_own_order(entries: Sequence[_Entry]) -> bool:
    """Whether the order of a snapshot's files cannot have changed: all are in one manifest that it wrote itself."""
    manifests = {(entry.manifest, entry.manifest_by == entry.snapshot_id) for entry in entries}
    return len(entries) <= 1 or (len(manifests) == 1 and all(own for _, own in manifests))


def _own_entries(io: FileIO, name: str, snapshots: Sequence[Snapshot]) -> dict[int, list[_Entry]]:
    """What each snapshot added, from the manifests that it wrote itself."""
    found = _entries(
        io,
        name,
        snapshots,
        lambda one, listed: (own for own in listed.manifests if own.added_snapshot_id == one.snapshot_id),
    )
    return {
        one.snapshot_id: [entry for entry in entries if entry.snapshot_id == one.snapshot_id]
        for one, entries in zip(snapshots, found, strict=True)
    }


def _all_files(io: FileIO, name: str, history: History) -> list[ChangeFile]:
    """All files of the first snapshot: those of earlier commits by sequence number, then those that it appended."""
    snapshot = history.snapshots[0]
    number = snapshot.sequence_number or 0
    before: list[tuple[int, _Entry]] = []
    own: list[_Entry] = []
    (entries,) = _entries(io, name, [snapshot], lambda _, listed: listed.manifests)
    for entry in entries:
        if _is_append(snapshot) and entry.snapshot_id == snapshot.snapshot_id:
            own.append(entry)
        else:
            before.append((max(0, min(entry.sequence_number, number - 1)), entry))
    before.sort(key=itemgetter(0))
    commits = groupby([*before, *((number, entry) for entry in own)], itemgetter(0))
    return [
        _change_file(entry, commit, history, place)
        for commit, entries in commits
        for place, (_, entry) in enumerate(entries)
    ]


def _change_file(entry: _Entry, sequence_number: int, history: History, place: int) -> ChangeFile:
    partition = tuple(
        (field_id, entry.partition[place])
        for place, field_id in history.identities.get(entry.spec_id, ())
        if place < len(entry.partition)
    )
    return ChangeFile(
        entry.path, entry.bytes, entry.events, entry.snapshot_id, sequence_number, partition, place
    )
