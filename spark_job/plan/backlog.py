"""Compares a changelog with the cursor of its mirror: the merged files, and the slices that are not merged yet."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table

from icemirror.errors import REBUILD_ADVICE, Transient
from icemirror.settings import TableSettings
from icemirror.step_results import Backlog
from spark_job.changelog.added_files import ChangelogFile, added_files
from spark_job.changelog.history import CursorExpired, history_since, whole_history
from spark_job.iceberg.mirror import Mirror
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.slices import ChangelogSnapshot, Slice, SliceLimits, plan_slices, split_commits
from spark_job.plan.table_plan import TablePlan


@dataclass(frozen=True)
class UnmergedSlices:
    """The slices that bring a mirror to its changelog's head.

    `snapshot_ids`: the changelog snapshots that the slices come from, oldest first.
    """

    slices: tuple[Slice, ...]
    snapshot_ids: tuple[int, ...]


def merged_files(table_plan: TablePlan) -> list[ChangelogFile]:
    """Return the changelog files up to the cursor, in the order of their events."""
    name = str(table_plan.table_settings.changelog_id)
    history = whole_history(table_plan.changelog, name)
    unmerged_paths = table_plan.unmerged_paths
    files = added_files(table_plan.changelog.io, name, history)
    return [
        file
        for snapshot in history.snapshots
        for file in files.get(snapshot.snapshot_id, ())
        if file.path not in unmerged_paths
    ]


def find_recreated(table_settings: TableSettings, changelog: Table, mirror: Mirror | None) -> Diverged | None:
    """Return a divergence if the changelog is another table than the one that was merged."""
    uuid = str(changelog.metadata.table_uuid)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    if source is not None and source.uuid == uuid:
        return None
    if mirror is not None and uuid in mirror.former_changelogs:
        raise Transient(
            f"{table_settings.changelog_id}: the catalog shows a table (uuid {uuid}) that was dropped before the "
            "current changelog was created; a later poll may show the current one. If the old table was restored on "
            f"purpose, {REBUILD_ADVICE}."
        )
    if source is None:
        return None
    return Diverged(
        table_settings,
        DivergenceCause.CHANGELOG_RECREATED,
        f"{table_settings.changelog_id}: was dropped and recreated (uuid {uuid}, merged so far: {source.uuid}). "
        f"To follow it, {REBUILD_ADVICE}; with on_truncate: rebuild the next merge does that.",
    )


def plan_unmerged_slices(
    table_settings: TableSettings,
    changelog: Table,
    mirror: Mirror | None,
    limits: SliceLimits,
    up_to: int | None = None,
) -> UnmergedSlices | Diverged:
    """Return the slices between a mirror's cursor and its changelog's head, or why the mirror cannot continue.

    `up_to`: the sequence number of the last commit to plan, instead of the head's.
    """
    if (recreated := find_recreated(table_settings, changelog, mirror)) is not None:
        return recreated
    uuid, name = str(changelog.metadata.table_uuid), str(table_settings.changelog_id)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    history = history_since(changelog, name, source) if source else whole_history(changelog, name)
    if isinstance(history, CursorExpired):
        return Diverged(table_settings, DivergenceCause.CURSOR_EXPIRED, history.message)
    files = added_files(changelog.io, name, history)
    snapshots = [
        ChangelogSnapshot(
            snapshot.snapshot_id,
            snapshot.sequence_number or 0,
            tuple(files.get(snapshot.snapshot_id, ())),
        )
        for snapshot in history.snapshots
    ]
    if history.covers_expired:
        merged_up_to = source.sequence_number if source else 0
        commits = [commit for commit in split_commits(snapshots[0]) if commit.sequence_number >= merged_up_to]
        snapshots = [*commits, *snapshots[1:]]
    if up_to is not None:
        snapshots = [snapshot for snapshot in snapshots if snapshot.sequence_number <= up_to]
    resumes_snapshot = (
        source is not None and bool(snapshots) and snapshots[0].snapshot_id == source.snapshot_id
    )
    files_done = source.files_done or 0 if source and resumes_snapshot else 0
    truncated = source.truncated if source else None
    slices = plan_slices(uuid, snapshots, files_done, limits, truncated)
    return UnmergedSlices(tuple(slices), tuple(snapshot.snapshot_id for snapshot in history.snapshots))


def backlog_after(table_plan: TablePlan, merged_slices: int) -> Backlog:
    """Return the backlog after the first `merged_slices` slices."""
    slices = table_plan.slices[merged_slices:]
    return Backlog(
        snapshots=len(table_plan.snapshot_ids) - _count_merged_snapshots(table_plan, merged_slices),
        events=sum(slice_.events for slice_ in slices),
        since=_oldest_commit_time(table_plan, slices),
    )


def _count_merged_snapshots(table_plan: TablePlan, merged_slices: int) -> int:
    if not merged_slices:
        return 0
    source = table_plan.slices[merged_slices - 1].cursor.source
    return table_plan.snapshot_ids.index(source.snapshot_id) + (source.files_done is None)


def _oldest_commit_time(table_plan: TablePlan, slices: tuple[Slice, ...]) -> float | None:
    """Return the time of the oldest unmerged commit that is still in the changelog's metadata."""
    committed_at = {
        snapshot.snapshot_id: snapshot.timestamp_ms / 1000
        for snapshot in table_plan.changelog.metadata.snapshots
    }
    for slice_ in slices:
        for snapshot_id in (*(file.snapshot_id for file in slice_.files), slice_.cursor.source.snapshot_id):
            if snapshot_id in committed_at:
                return committed_at[snapshot_id]
    return None
