"""The history of a changelog since a cursor: its snapshots, oldest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from icemirror.errors import REBUILD_ADVICE, Invalid, Transient
from icemirror.tables.cursor import CursorSource
from spark_job.columns.missing_columns import identity_columns
from spark_job.iceberg.ancestry import has_files_of_commit, has_files_of_other_commits, walk_ancestors


@dataclass(frozen=True, slots=True)
class History:
    """Snapshots after the cursor, oldest first.

    `covers_expired`: the first snapshot also stands for expired, unmerged ones before it. `identity_columns`: by
    partition spec, the index and field id of each identity partition column.
    """

    snapshots: tuple[Snapshot, ...]
    covers_expired: bool
    identity_columns: Mapping[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CursorExpired:
    """The changelog's history does not reach back to the cursor. `message`: what to do."""

    message: str


def whole_history(changelog: Table, name: str) -> History:
    """Return the history from the beginning to the head; raise `Invalid` if a commit is not an append."""
    return _history(changelog, name, snapshots_newest_first(changelog), None)


def history_since(changelog: Table, name: str, source: CursorSource) -> History | CursorExpired:
    """Return the history from the cursor to the head; raise `Invalid` if a commit is not an append."""
    snapshots = snapshots_since(changelog, name, source)
    if isinstance(snapshots, CursorExpired):
        return snapshots
    if source.files_done is not None:
        partly_merged = next(
            snapshot
            for snapshot in reversed(changelog.metadata.snapshots)
            if snapshot.snapshot_id == source.snapshot_id
        )
        snapshots.append(partly_merged)
    return _history(changelog, name, snapshots, source)


def _history(
    changelog: Table, name: str, newest_first: list[Snapshot], source: CursorSource | None
) -> History:
    snapshots = newest_first[::-1]
    covers_expired = bool(snapshots) and has_unmerged_expired_files(changelog, snapshots[0], source)
    for snapshot in snapshots[1:] if covers_expired else snapshots:
        require_append(name, snapshot)
    return History(tuple(snapshots), covers_expired, identity_columns(changelog.specs()))


def snapshots_newest_first(changelog: Table) -> list[Snapshot]:
    """Return all snapshots from the head back to the oldest."""
    head = changelog.current_snapshot()
    return list(walk_ancestors(changelog.metadata.snapshots, head.snapshot_id if head else None))


def snapshots_since(changelog: Table, name: str, source: CursorSource) -> list[Snapshot] | CursorExpired:
    """Return the snapshots after the cursor's, newest first; raise `Invalid` if the branch does not contain it."""
    snapshots: list[Snapshot] = []
    for snapshot in snapshots_newest_first(changelog):
        if snapshot.snapshot_id == source.snapshot_id:
            return snapshots
        snapshots.append(snapshot)
    if _follows_cursor(changelog.io, snapshots, source):
        return snapshots
    if source.sequence_number >= changelog.metadata.next_sequence_number():
        raise Transient(
            f"{name}: the catalog returned a state before commit {source.sequence_number}, up to which the "
            "mirror has merged; a later attempt may return a newer one. If a user reset the changelog to an older "
            f"state for good, {REBUILD_ADVICE}."
        )
    problem = (
        f"{name}: snapshot {source.snapshot_id}, up to which the mirror has merged, is not in the history of "
    )
    if any(snapshot.snapshot_id == source.snapshot_id for snapshot in changelog.metadata.snapshots):
        raise Invalid(
            f"{problem}the changelog's head: the changelog was rolled back, or its main branch was moved. Restore the "
            f"branch, then `icemirror resume`; or, to keep it, {REBUILD_ADVICE}."
        )
    return CursorExpired(
        f"{problem}the changelog (it has expired, together with later snapshots or unmerged files; or the changelog "
        f"was rolled back). Events may be missing: {REBUILD_ADVICE}; with on_expired_cursor: rebuild the next "
        "merge does that."
    )


def _follows_cursor(io: FileIO, snapshots: Sequence[Snapshot], source: CursorSource) -> bool:
    """Return whether the oldest snapshot directly follows the cursor's, which has expired and is fully merged."""
    if not snapshots or source.files_done is not None:
        return False
    oldest = snapshots[-1]
    if oldest.parent_snapshot_id is not None:
        return oldest.parent_snapshot_id == source.snapshot_id
    # PyIceberg removes the id of an expired parent.
    merged_number = source.sequence_number
    return (
        merged_number > 0
        and oldest.sequence_number == merged_number + 1
        and has_files_of_commit(io, oldest, merged_number)
    )


def has_unmerged_expired_files(changelog: Table, first: Snapshot, source: CursorSource | None) -> bool:
    """Return whether files of expired snapshots before the first one are still unmerged.

    `source`: None if nothing is merged, so that every such file counts.
    """
    parent_id, sequence_number = first.parent_snapshot_id, first.sequence_number or 0
    if source is not None and source.files_done is None:
        return False
    if source is not None and sequence_number:
        # Snapshots that expired after this one was partly merged are merged already.
        return source.sequence_number < sequence_number
    # Tables of format v1 have no sequence numbers.
    if parent_id is not None or sequence_number != 1:
        return all(snapshot.snapshot_id != parent_id for snapshot in changelog.metadata.snapshots)
    # PyIceberg removes the id of an expired parent. Commit 1 is the beginning, unless the table was upgraded from
    # format v1.
    return has_files_of_other_commits(changelog.io, first)


def require_append(name: str, snapshot: Snapshot) -> None:
    """Raise `Invalid` for a snapshot that neither appends nor compacts."""
    operation = snapshot.summary.operation if snapshot.summary else None
    if operation not in (Operation.APPEND, Operation.REPLACE):
        raise Invalid(
            f"{name}: snapshot {snapshot.snapshot_id} is of kind {operation.value if operation else 'unknown'}. "
            f"Rows of a changelog may only be appended. {rollback_advice(snapshot.parent_snapshot_id)}"
        )


def rollback_advice(parent_id: int | None) -> str:
    """Return what to do if a snapshot of the changelog cannot be merged."""
    target = "before that" if parent_id is None else str(parent_id)
    return (
        "Keep the mirror: a rebuilt one stops here as well. Roll the changelog back to the snapshot "
        f"{target} and append the missing rows, then `icemirror resume`; or recreate the changelog, then "
        f"{REBUILD_ADVICE}."
    )
