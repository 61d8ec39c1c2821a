"""What of a changelog is merged, what waits, and what has expired; from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from icemirror.cursor import Truncation
from icemirror.errors import Corrupt, Invalid, fill_in
from icemirror.settings import TableSettings
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.lineage import added_files, history_since
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.truncations import find_truncation, is_news
from spark_job.columns.field_map import FieldMap, mirror_schema
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.pipeline import Pipeline
from spark_job.planning.key_change import require_same_key
from spark_job.planning.stock import plan_table
from spark_job.planning.support import require_key, require_supported
from spark_job.schema_changes.evolution import foresee, merges_from, with_map
from spark_job.schema_changes.row_columns import row_schema, row_shape


@dataclass(frozen=True)
class Past:
    """A mirror and the files of its changelog in the order of events, the first `merged` of which are merged.

    `oldest`: the snapshot that stands for all before it, which have expired. `refused`: why the changelog's files are
    not known, or not which of them are merged. `ahead`: the last truncation of the source that waits to be merged.
    """

    settings: TableSettings
    changelog: Table
    shape: ChangelogShape
    mirror: Mirror | None
    files: tuple[ChangeFile, ...] = ()
    merged: int = 0
    oldest: Snapshot | None = None
    refused: str | None = None
    ahead: Truncation | None = None

    @property
    def row_schema(self) -> tuple[Schema, FieldMap]:
        """The mirror's columns, or those that it will have, and the map from the changelog's to them."""
        if self.mirror is not None:
            return self.mirror.row_schema, self.mirror.field_map
        row = row_schema(self.settings, self.changelog.schema(), self.shape.row_ids)
        return mirror_schema(row, self.shape.row_ids, self.shape.key_ids)

    @property
    def mirror_key_ids(self) -> tuple[int, ...]:
        """The key columns of the mirror."""
        _, ids = self.row_schema
        return tuple(ids[key_id] for key_id in self.shape.key_ids)


def look_back(pipeline: Pipeline, table: TableSettings) -> Past:
    """The mirror first, then its changelog, so that what is not merged waits."""
    require_supported(table)
    require_key(table, "so it has no key to ask for.")
    loaded = pipeline.catalogs.load_mirror(table)
    mirror = read_mirror(loaded, table.name) if loaded else None
    changelog = pipeline.catalogs.load_changelog(table)
    shape = row_shape(table, changelog, mirror)
    if mirror is not None:
        mirror = with_map(table, changelog, shape, mirror)
        if merges_from(mirror, changelog):
            require_same_key(table.name, mirror, shape)
            mirror = foresee(table, changelog, shape, mirror)
        shape = shape.of_mirror(mirror.table.metadata.table_uuid)
    past = _with_files(pipeline, table, Past(table, changelog, shape, mirror))
    return replace(past, ahead=_find_ahead(past))


def _find_ahead(past: Past) -> Truncation | None:
    """A truncation among what waits; a file that cannot be read is told of where its events are looked for."""
    try:
        found = find_truncation(past.changelog.io, past.files[past.merged :], past.shape)
    except (Invalid, Corrupt):
        return None
    return found.truncation if found and is_news(found.truncation, past.shape.truncated) else None


def _with_files(pipeline: Pipeline, table: TableSettings, past: Past) -> Past:
    changelog, name = past.changelog, str(table.changelog_id)
    try:
        history = history_since(changelog, name, None)
        added = added_files(changelog.io, name, history)
    except (Invalid, Corrupt) as error:
        fill_in(error, table.name)
        return replace(past, refused=str(error))
    files = [file for one in history.snapshots for file in added.get(one.snapshot_id, ())]
    refused: str | None = None
    try:
        slices, _ = plan_table(table, changelog, past.mirror, pipeline.limits)
        waiting = {file.path for part in slices for file in part.files}
    except Invalid as error:
        fill_in(error, table.name)
        refused = str(error)
        waiting = _waiting_by_number(past, files)
    merged = [file for file in files if file.path not in waiting]
    return replace(
        past,
        files=(*merged, *(file for file in files if file.path in waiting)),
        merged=len(merged),
        oldest=history.snapshots[0] if history.whole else None,
        refused=refused,
    )


def _waiting_by_number(past: Past, files: list[ChangeFile]) -> set[str]:
    """Where the cursor has no place in the history: what was committed after it."""
    source = past.mirror.cursor.source if past.mirror and past.mirror.cursor else None
    same = source is not None and source.uuid == str(past.changelog.metadata.table_uuid)
    reached = source.sequence_number if source is not None and same else -1
    return {file.path for file in files if file.sequence_number > reached}
