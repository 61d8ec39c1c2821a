"""Loads a table to explain: which changelog files are merged and which wait, from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Corrupt, Invalid, insert_table_name
from icemirror.settings import TableSettings
from icemirror.tables.cursor import Truncation
from spark_job.changelog.added_files import ChangelogFile, added_files
from spark_job.changelog.history import whole_history
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import find_truncation, is_new_truncation
from spark_job.columns.field_map import FieldMap, mirror_schema
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.pipeline import Pipeline
from spark_job.plan.backlog import UnmergedSlices, plan_unmerged_slices
from spark_job.plan.divergence import Diverged
from spark_job.plan.key_change import refuse_append_only, require_same_key
from spark_job.plan.row_columns import is_merged_from, row_schema, row_shape, with_field_map
from spark_job.plan.schema_evolution import preview_evolution


@dataclass(frozen=True)
class ExplainedTable:
    """A mirror and the files of its changelog, merged ones first.

    `merged_count`: how many files are merged. `oldest_snapshot`: the first one left, if those before it have expired.
    `problem`: why the changelog's files, or which of them are merged, are unknown. `unmerged_truncation`: the last
    truncation of the source that waits to be merged.
    """

    table_settings: TableSettings
    changelog: Table
    shape: ChangelogShape
    mirror: Mirror | None
    files: tuple[ChangelogFile, ...] = ()
    merged_count: int = 0
    oldest_snapshot: Snapshot | None = None
    problem: str | None = None
    unmerged_truncation: Truncation | None = None

    @property
    def row_schema(self) -> tuple[Schema, FieldMap]:
        """The columns that the mirror has or will have, and the field map from the changelog."""
        if self.mirror is not None:
            return self.mirror.row_schema, self.mirror.field_map
        row = row_schema(self.table_settings, self.changelog.schema(), self.shape.row_ids)
        return mirror_schema(row, self.shape.row_ids, self.shape.key_ids)

    @property
    def mirror_key_ids(self) -> tuple[int, ...]:
        """The field ids of the mirror's key columns."""
        _, field_map = self.row_schema
        return tuple(field_map[key_id] for key_id in self.shape.key_ids)


def load_explained_table(pipeline: Pipeline, table_settings: TableSettings) -> ExplainedTable:
    """Return the table. The mirror is loaded first: a commit in between is then waiting, not merged."""
    refuse_append_only(table_settings, "so it has no key to explain.")
    mirror_table = pipeline.catalogs.load_mirror(table_settings)
    mirror = read_mirror(mirror_table, table_settings.name) if mirror_table else None
    changelog = pipeline.catalogs.load_changelog(table_settings)
    shape = row_shape(table_settings, changelog, mirror)
    if mirror is not None:
        mirror = with_field_map(table_settings, changelog, shape, mirror)
        if is_merged_from(mirror, changelog):
            require_same_key(table_settings.name, mirror, shape)
            mirror = preview_evolution(table_settings, changelog, shape, mirror)
        shape = shape.with_mirror_salt(mirror.table.metadata.table_uuid)
    explained = _with_files(
        pipeline, table_settings, ExplainedTable(table_settings, changelog, shape, mirror)
    )
    return replace(explained, unmerged_truncation=_find_unmerged_truncation(explained))


def _find_unmerged_truncation(explained: ExplainedTable) -> Truncation | None:
    """Return the truncation in the waiting files; unreadable files are reported where events are read."""
    try:
        waiting = find_truncation(
            explained.changelog.io, explained.files[explained.merged_count :], explained.shape
        )
    except (Invalid, Corrupt):
        return None
    return (
        waiting.truncation
        if waiting and is_new_truncation(waiting.truncation, explained.shape.applied_truncation)
        else None
    )


def _with_files(
    pipeline: Pipeline, table_settings: TableSettings, explained: ExplainedTable
) -> ExplainedTable:
    changelog, name = explained.changelog, str(table_settings.changelog_id)
    try:
        lineage = whole_history(changelog, name)
        files_by_snapshot = added_files(changelog.io, name, lineage)
    except (Invalid, Corrupt) as error:
        insert_table_name(error, table_settings.name)
        return replace(explained, problem=str(error))
    files = [
        file for snapshot in lineage.snapshots for file in files_by_snapshot.get(snapshot.snapshot_id, ())
    ]
    unmerged: UnmergedSlices | Diverged | None
    try:
        unmerged = plan_unmerged_slices(table_settings, changelog, explained.mirror, pipeline.planner.limits)
        problem = unmerged.message if isinstance(unmerged, Diverged) else None
    except Invalid as error:
        insert_table_name(error, table_settings.name)
        unmerged, problem = None, str(error)
    if unmerged is None or isinstance(unmerged, Diverged):
        waiting_paths = _paths_after_cursor(explained, files)
    else:
        waiting_paths = {file.path for slice_ in unmerged.slices for file in slice_.files}
    merged_files = [file for file in files if file.path not in waiting_paths]
    return replace(
        explained,
        files=(*merged_files, *(file for file in files if file.path in waiting_paths)),
        merged_count=len(merged_files),
        oldest_snapshot=lineage.snapshots[0] if lineage.covers_expired else None,
        problem=problem,
    )


def _paths_after_cursor(explained: ExplainedTable, files: list[ChangelogFile]) -> set[str]:
    """Return the files committed after the cursor, for a cursor that is not in the history."""
    source = explained.mirror.cursor.source if explained.mirror and explained.mirror.cursor else None
    is_same_changelog = source is not None and source.uuid == str(explained.changelog.metadata.table_uuid)
    last_merged_number = source.sequence_number if source is not None and is_same_changelog else -1
    return {file.path for file in files if file.sequence_number > last_merged_number}
