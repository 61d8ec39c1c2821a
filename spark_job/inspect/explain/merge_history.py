"""Finds which files of a changelog are merged, which wait, and which snapshots have expired; from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.errors import Corrupt, Invalid, insert_table_name
from icemirror.settings import TableSettings
from icemirror.tables.cursor import Truncation
from spark_job.changelog.history import ChangelogFile, added_files, whole_history
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import find_truncation, is_new_truncation
from spark_job.columns.field_map import FieldMap, mirror_schema
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.pipeline import Pipeline
from spark_job.plan.divergence import Diverged
from spark_job.plan.key_change import require_key, require_same_key
from spark_job.plan.row_columns import row_schema, row_shape
from spark_job.plan.schema_evolution import is_merged_from, preview_evolution, with_field_map
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import plan_backlog


@dataclass(frozen=True)
class MergeHistory:
    """A mirror and the files of its changelog in the order of events, the first `merged` of which are merged.

    `oldest`: the first snapshot left, if those before it have expired. `refused`: why the files, or which of them are
    merged, are unknown. `ahead`: the last truncation of the source that waits to be merged.
    """

    settings: TableSettings
    changelog: Table
    shape: ChangelogShape
    mirror: Mirror | None
    files: tuple[ChangelogFile, ...] = ()
    merged: int = 0
    oldest: Snapshot | None = None
    refused: str | None = None
    ahead: Truncation | None = None

    @property
    def row_schema(self) -> tuple[Schema, FieldMap]:
        """The columns that the mirror has or will have, and the field map from the changelog."""
        if self.mirror is not None:
            return self.mirror.row_schema, self.mirror.field_map
        row = row_schema(self.settings, self.changelog.schema(), self.shape.row_ids)
        return mirror_schema(row, self.shape.row_ids, self.shape.key_ids)

    @property
    def mirror_key_ids(self) -> tuple[int, ...]:
        """The field ids of the mirror's key columns."""
        _, ids = self.row_schema
        return tuple(ids[key_id] for key_id in self.shape.key_ids)


def load_history(pipeline: Pipeline, table: TableSettings) -> MergeHistory:
    """Load the mirror first: a commit in between is then waiting, not merged."""
    require_key(table, "so it has no key to explain.")
    loaded = pipeline.catalogs.load_mirror(table)
    mirror = read_mirror(loaded, table.name) if loaded else None
    changelog = pipeline.catalogs.load_changelog(table)
    shape = row_shape(table, changelog, mirror)
    if mirror is not None:
        mirror = with_field_map(table, changelog, shape, mirror)
        if is_merged_from(mirror, changelog):
            require_same_key(table.name, mirror, shape)
            mirror = preview_evolution(table, changelog, shape, mirror)
        shape = shape.with_mirror_salt(mirror.table.metadata.table_uuid)
    history = _with_files(pipeline, table, MergeHistory(table, changelog, shape, mirror))
    return replace(history, ahead=_find_ahead(history))


def _find_ahead(history: MergeHistory) -> Truncation | None:
    """Find a truncation in the waiting files; unreadable files are reported where events are read."""
    try:
        found = find_truncation(history.changelog.io, history.files[history.merged :], history.shape)
    except (Invalid, Corrupt):
        return None
    return (
        found.truncation
        if found and is_new_truncation(found.truncation, history.shape.followed_truncation)
        else None
    )


def _with_files(pipeline: Pipeline, table: TableSettings, history: MergeHistory) -> MergeHistory:
    changelog, name = history.changelog, str(table.changelog_id)
    try:
        lineage = whole_history(changelog, name)
        added = added_files(changelog.io, name, lineage)
    except (Invalid, Corrupt) as error:
        insert_table_name(error, table.name)
        return replace(history, refused=str(error))
    files = [file for snapshot in lineage.snapshots for file in added.get(snapshot.snapshot_id, ())]
    backlog: tuple[tuple[Slice, ...], tuple[int, ...]] | Diverged | None
    try:
        backlog = plan_backlog(table, changelog, history.mirror, pipeline.planner.limits)
        refused = backlog.reason if isinstance(backlog, Diverged) else None
    except Invalid as error:
        insert_table_name(error, table.name)
        backlog, refused = None, str(error)
    if backlog is None or isinstance(backlog, Diverged):
        waiting = _waiting_by_number(history, files)
    else:
        waiting = {file.path for slice_ in backlog[0] for file in slice_.files}
    merged = [file for file in files if file.path not in waiting]
    return replace(
        history,
        files=(*merged, *(file for file in files if file.path in waiting)),
        merged=len(merged),
        oldest=lineage.snapshots[0] if lineage.covers_expired else None,
        refused=refused,
    )


def _waiting_by_number(history: MergeHistory, files: list[ChangelogFile]) -> set[str]:
    """Return the files committed after the cursor, for a cursor that is not in the history."""
    source = history.mirror.cursor.source if history.mirror and history.mirror.cursor else None
    same = source is not None and source.uuid == str(history.changelog.metadata.table_uuid)
    reached = source.sequence_number if source is not None and same else -1
    return {file.path for file in files if file.sequence_number > reached}
