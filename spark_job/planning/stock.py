"""Taking stock: a mirror, its changelog, and what lies between them, cut into slices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.errors import MAKE_ANEW, REBUILD, Invalid, Transient
from icemirror.settings import TableSettings
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.lineage import added_files, history_since
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import FieldMap, mirror_schema
from spark_job.iceberg.mirror import Mirror
from spark_job.lost_track import ChangelogMadeAnew
from spark_job.planning.plan import ChangelogSnapshot, Slice, SliceLimits, plan_slices, split_commits
from spark_job.schema_changes.evolution import Evolution, plan_evolution
from spark_job.schema_changes.row_columns import row_schema
from spark_job.unchanged.delete_mode import flags_forgotten


@dataclass(frozen=True)
class Prepared:
    """A table with what there is to merge: slices, and the snapshots that they are of, the oldest first.

    `staged`: into a mirror that is being built out of sight. `replaces`: what it will take the place of, if that can
    be read. `beyond`: the paths of files that wait as well, but are not to be merged yet.
    """

    settings: TableSettings
    changelog: Table
    shape: ChangelogShape
    mirror: Mirror | None
    slices: tuple[Slice, ...]
    lineage: tuple[int, ...]
    staged: bool = False
    replaces: Mirror | None = None
    beyond: frozenset[str] = frozenset()

    @cached_property
    def evolution(self) -> Evolution | None:
        """What the mirror's columns need to take in the changelog's rows; None where it is made with them."""
        if self.mirror is None:
            return None
        return plan_evolution(self.settings, self.changelog, self.shape, self.mirror)

    @property
    def new_schema(self) -> tuple[Schema, FieldMap]:
        """Of a mirror that is to be made, and the map to it."""
        row = row_schema(self.settings, self.changelog.schema(), self.shape.row_ids)
        return mirror_schema(row, self.shape.row_ids, self.shape.key_ids)

    @property
    def schema_changes(self) -> tuple[str, ...]:
        """How the changelog's columns differ from the mirror's."""
        found = self.evolution
        if found is None:
            return ()
        return (
            *(f"in the mirror: {change}" for change in found.by_others),
            *found.changes,
            *found.remarks,
            *found.refused,
        )

    @property
    def refused(self) -> str | None:
        """Why the mirror's columns cannot follow the changelog's, or may not."""
        found, settings = self.evolution, self.settings
        if found is None:
            return None
        if (why := flags_forgotten(settings, self.mirror)) is not None:
            return why
        if found.by_others:
            return (
                f"{settings.name}: the mirror's own columns were changed ({'; '.join(found.by_others)}), by another "
                "engine than icemirror; nothing was merged. Drop columns that were added, and change back what was "
                f"changed; where one was dropped, {MAKE_ANEW}."
            )
        if found.refused:
            return (
                f"{settings.changelog_id}: its schema changed in a way that no mirror can follow "
                f"({'; '.join(found.refused)}); nothing was merged. Change it back, or leave the column out with "
                f"`columns: {{exclude: […]}}`, or {MAKE_ANEW}."
            )
        if found.changes and settings.schema_policy == "strict":
            return (
                f"{settings.changelog_id}: its schema changed ({'; '.join(found.changes)}), and schema_policy is "
                f"strict; nothing was merged. To accept that, set schema_policy of {settings.name} to permissive, and "
                "back after the next merge; else change it back."
            )
        return None

    def require_same_columns(self) -> None:
        """Refuses a mirror whose columns cannot become the changelog's, or may not."""
        if (why := self.refused) is not None:
            raise Invalid(why)

    def merged_files(self) -> list[ChangeFile]:
        """The changelog's files up to the cursor."""
        name = str(self.settings.changelog_id)
        history = history_since(self.changelog, name, None)
        waiting = {file.path for part in self.slices for file in part.files} | self.beyond
        files = added_files(self.changelog.io, name, history)
        return [
            file
            for snapshot in history.snapshots
            for file in files.get(snapshot.snapshot_id, ())
            if file.path not in waiting
        ]


def require_same_changelog(table: TableSettings, changelog: Table, mirror: Mirror | None) -> None:
    """Refuses a changelog that is another table than the one that was merged."""
    uuid = str(changelog.metadata.table_uuid)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    if source is not None and source.uuid == uuid:
        return
    if mirror is not None and uuid in mirror.former:
        raise Transient(
            f"{table.changelog_id}: the catalog shows a table (uuid {uuid}) that was dropped before the one that the "
            "mirror follows was made; a later look may show that one. If somebody put the old table back for good, "
            f"{REBUILD}."
        )
    if source is not None:
        raise ChangelogMadeAnew(
            f"{table.changelog_id}: was dropped and made anew (uuid {uuid}, merged so far: {source.uuid}). "
            f"To follow it, {REBUILD}; with on_truncate: rebuild the next merge does that."
        )


def plan_table(
    table: TableSettings,
    changelog: Table,
    mirror: Mirror | None,
    limits: SliceLimits,
    up_to: int | None = None,
) -> tuple[tuple[Slice, ...], tuple[int, ...]]:
    """The slices that bring a mirror to its changelog's head, and the snapshots that they are of.

    `up_to`: or only to the commit of this number.
    """
    require_same_changelog(table, changelog, mirror)
    uuid = str(changelog.metadata.table_uuid)
    source = mirror.cursor.source if mirror and mirror.cursor else None
    history = history_since(changelog, str(table.changelog_id), source)
    files = added_files(changelog.io, str(table.changelog_id), history)
    snapshots = [
        ChangelogSnapshot(
            snapshot.snapshot_id,
            snapshot.sequence_number or 0,
            tuple(files.get(snapshot.snapshot_id, ())),
        )
        for snapshot in history.snapshots
    ]
    if history.whole:
        merged = source.sequence_number if source else 0
        commits = [one for one in split_commits(snapshots[0]) if one.sequence_number >= merged]
        snapshots = [*commits, *snapshots[1:]]
    if up_to is not None:
        snapshots = [one for one in snapshots if one.sequence_number <= up_to]
    done = {source.snapshot_id: source.files_done} if source and source.files_done is not None else {}
    lineage = tuple(snapshot.snapshot_id for snapshot in history.snapshots)
    truncated = source.truncated if source else None
    return tuple(plan_slices(uuid, snapshots, done, limits, truncated)), lineage
