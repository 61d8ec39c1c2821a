"""A mirror, its changelog, and the events between them, cut into slices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.errors import REBUILD, RECREATE, Invalid, Transient
from icemirror.result import Backlog
from icemirror.settings import TableSettings
from spark_job.changelog.history import (
    ChangelogFile,
    CursorExpired,
    added_files,
    history_since,
    whole_history,
)
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.added_columns import added_name_conflict
from spark_job.columns.field_map import FieldMap, mirror_schema
from spark_job.iceberg.mirror import Mirror
from spark_job.plan.delete_mode import delete_mode_conflict
from spark_job.plan.divergence import Diverged, DivergenceCause
from spark_job.plan.row_columns import row_schema
from spark_job.plan.schema_evolution import SchemaEvolution, plan_evolution
from spark_job.plan.slices import ChangelogSnapshot, Slice, SliceLimits, plan_slices, split_commits


@dataclass(frozen=True)
class TablePlan:
    """A table with the slices that wait, and the changelog snapshots that they come from, oldest first.

    `staged`: the mirror is the hidden stage of a rebuild. `replaces`: the mirror that the stage will replace, if it
    is readable. `deferred`: paths of files that wait as well, but are merged after the swap.
    """

    settings: TableSettings
    changelog: Table
    shape: ChangelogShape
    mirror: Mirror | None
    slices: tuple[Slice, ...]
    lineage: tuple[int, ...]
    staged: bool = False
    replaces: Mirror | None = None
    deferred: frozenset[str] = frozenset()

    @cached_property
    def evolution(self) -> SchemaEvolution | None:
        """The schema changes that the mirror needs for the changelog's rows; None if it is created with them."""
        if self.mirror is None:
            return None
        return plan_evolution(self.settings, self.changelog, self.shape, self.mirror)

    @property
    def new_schema(self) -> tuple[Schema, FieldMap]:
        """The schema of a mirror that is yet to be created, and the field map to it."""
        return mirror_schema(self._row_schema, self.shape.row_ids, self.shape.key_ids)

    @property
    def _row_schema(self) -> Schema:
        """The columns of the changelog's rows, with the mirror's names."""
        return row_schema(self.settings, self.changelog.schema(), self.shape.row_ids)

    @property
    def schema_changes(self) -> tuple[str, ...]:
        """Differences between the changelog's columns and the mirror's, as text."""
        found = self.evolution
        if found is None:
            return ()
        return (
            *(f"in the mirror: {change}" for change in found.foreign_changes),
            *found.changes,
            *found.remarks,
            *found.refused,
        )

    @property
    def refused(self) -> str | None:
        """Why the schema change is refused; None if it is not."""
        found, settings = self.evolution, self.settings
        if found is None:
            return None
        if (why := delete_mode_conflict(settings, self.mirror)) is not None:
            return why
        if (why := added_name_conflict(settings, self._row_schema)) is not None:
            return why
        if found.foreign_changes:
            return (
                f"{settings.name}: another engine changed the mirror's columns ({'; '.join(found.foreign_changes)}); "
                "nothing was merged. Drop added columns and revert changed ones; if a column was dropped, "
                f"{RECREATE}."
            )
        if found.refused:
            return (
                f"{settings.changelog_id}: its schema changed in a way that no mirror can follow "
                f"({'; '.join(found.refused)}); nothing was merged. Change it back, or leave the column out with "
                f"`columns: {{exclude: […]}}`, or {RECREATE}."
            )
        if found.changes and settings.schema_policy == "strict":
            return (
                f"{settings.changelog_id}: its schema changed ({'; '.join(found.changes)}), and schema_policy is "
                f"strict; nothing was merged. To accept it, set schema_policy: permissive for {settings.name} until "
                "the next merge. To reject it, revert the schema."
            )
        return None

    def require_same_columns(self) -> None:
        """Raise if the mirror's columns cannot follow the changelog's, or may not by policy."""
        if (why := self.refused) is not None:
            raise Invalid(why)

    @property
    def waiting_paths(self) -> frozenset[str]:
        """Paths of the changelog files that wait to be merged."""
        return frozenset(file.path for slice_ in self.slices for file in slice_.files) | self.deferred


def merged_files(planned: TablePlan) -> list[ChangelogFile]:
    """Return the changelog's files up to the cursor."""
    name = str(planned.settings.changelog_id)
    history = whole_history(planned.changelog, name)
    waiting = planned.waiting_paths
    files = added_files(planned.changelog.io, name, history)
    return [
        file
        for snapshot in history.snapshots
        for file in files.get(snapshot.snapshot_id, ())
        if file.path not in waiting
    ]


def find_recreated(table: TableSettings, changelog: Table, mirror: Mirror | None) -> Diverged | None:
    """Return a divergence if the changelog is another table than the one that was merged."""
    uuid = str(changelog.metadata.table_uuid)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    if source is not None and source.uuid == uuid:
        return None
    if mirror is not None and uuid in mirror.former_changelogs:
        raise Transient(
            f"{table.changelog_id}: the catalog shows a table (uuid {uuid}) that was dropped before the current "
            "changelog was created; a later poll may show the current one. If the old table was restored on purpose, "
            f"{REBUILD}."
        )
    if source is None:
        return None
    return Diverged(
        table,
        DivergenceCause.CHANGELOG_RECREATED,
        f"{table.changelog_id}: was dropped and recreated (uuid {uuid}, merged so far: {source.uuid}). "
        f"To follow it, {REBUILD}; with on_truncate: rebuild the next merge does that.",
    )


def plan_backlog(
    table: TableSettings,
    changelog: Table,
    mirror: Mirror | None,
    limits: SliceLimits,
    up_to: int | None = None,
) -> tuple[tuple[Slice, ...], tuple[int, ...]] | Diverged:
    """Return the slices that bring a mirror to its changelog's head, and the snapshots that they come from.

    `up_to`: stop at the commit with this sequence number.
    """
    if (recreated := find_recreated(table, changelog, mirror)) is not None:
        return recreated
    uuid, name = str(changelog.metadata.table_uuid), str(table.changelog_id)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    history = history_since(changelog, name, source) if source else whole_history(changelog, name)
    if isinstance(history, CursorExpired):
        return Diverged(table, DivergenceCause.CURSOR_EXPIRED, history.message)
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
        merged = source.sequence_number if source else 0
        commits = [snapshot for snapshot in split_commits(snapshots[0]) if snapshot.sequence_number >= merged]
        snapshots = [*commits, *snapshots[1:]]
    if up_to is not None:
        snapshots = [snapshot for snapshot in snapshots if snapshot.sequence_number <= up_to]
    done = {source.snapshot_id: source.files_done} if source and source.files_done is not None else {}
    lineage = tuple(snapshot.snapshot_id for snapshot in history.snapshots)
    truncated = source.truncated if source else None
    return tuple(plan_slices(uuid, snapshots, done, limits, truncated)), lineage


def backlog_after(planned: TablePlan, merged_slices: int) -> Backlog:
    """Return what still waits once that many of the slices are merged."""
    slices = planned.slices[merged_slices:]
    return Backlog(
        snapshots=len(planned.lineage) - _merged_snapshots(planned, merged_slices),
        events=sum(slice_.events for slice_ in slices),
        since=_oldest_commit_time(planned, slices),
    )


def _merged_snapshots(planned: TablePlan, merged_slices: int) -> int:
    if not merged_slices:
        return 0
    source = planned.slices[merged_slices - 1].cursor.source
    return planned.lineage.index(source.snapshot_id) + (source.files_done is None)


def _oldest_commit_time(planned: TablePlan, slices: tuple[Slice, ...]) -> float | None:
    """When the oldest unmerged commit was made; if it has expired, the oldest that is left."""
    made_at = {
        snapshot.snapshot_id: snapshot.timestamp_ms / 1000
        for snapshot in planned.changelog.metadata.snapshots
    }
    for slice_ in slices:
        for snapshot_id in (*(file.snapshot_id for file in slice_.files), slice_.cursor.source.snapshot_id):
            if snapshot_id in made_at:
                return made_at[snapshot_id]
    return None
