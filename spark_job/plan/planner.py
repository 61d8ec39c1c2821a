"""Loads a mirror and its changelog, and plans the slices between them."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table

from icemirror.settings import Settings, TableSettings
from spark_job.iceberg.catalogs import Catalogs, ChangelogDropped, ChangelogNotFound
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.iceberg.supported_types import require_supported_transforms, require_supported_types
from spark_job.plan.apply_truncation import require_truncation_in_changelog
from spark_job.plan.backlog import find_recreated, plan_backlog
from spark_job.plan.divergence import Diverged
from spark_job.plan.key_change import require_same_key
from spark_job.plan.row_columns import is_merged_from, row_shape, with_field_map
from spark_job.plan.slices import SliceLimits
from spark_job.plan.table_plan import TablePlan
from spark_job.storage.translate_errors import translate_table_errors

# Keeps the events of a slice, without their rows, within the memory of one worker.
_MAX_SLICE_EVENTS = 4_000_000


@dataclass(frozen=True)
class Planner:
    """Plans the tables of a configuration. Reads metadata, writes nothing."""

    settings: Settings
    catalogs: Catalogs

    @property
    def limits(self) -> SliceLimits:
        """The largest slice of one commit."""
        return SliceLimits(
            events=min(self.settings.batch_size or _MAX_SLICE_EVENTS, _MAX_SLICE_EVENTS),
            bytes=self.settings.job.max_slice_bytes,
        )

    def plan_table(self, table: TableSettings) -> TablePlan | Diverged:
        """Return the plan of a table.

        Loads the mirror before the changelog's head: if the plan is empty, the mirror is current.
        """
        mirror_table = self.catalogs.load_mirror(table)
        with translate_table_errors(table.name):
            return self.plan_for_mirror(
                table, read_mirror(mirror_table, table.name) if mirror_table else None
            )

    def require_plan(self, table: TableSettings) -> TablePlan:
        """Return the plan of a table; raise if it diverged from its changelog."""
        table_plan = self.plan_table(table)
        if isinstance(table_plan, Diverged):
            raise table_plan.error
        return table_plan

    def plan_for_mirror(self, table: TableSettings, mirror: Mirror | None) -> TablePlan | Diverged:
        """Return the plan of a table whose mirror is already loaded."""
        changelog = self.load_changelog(table, mirror)
        # Before the columns: they may be missing in a recreated changelog.
        if (recreated := find_recreated(table, changelog, mirror)) is not None:
            return recreated
        shape = row_shape(table, changelog, mirror)
        version = mirror.table.metadata.format_version if mirror else table.format_version
        require_supported_types(str(table.changelog_id), changelog.schema(), shape.row_ids, version)
        if mirror is not None:
            mirror = with_field_map(table, changelog, shape, mirror)
            if is_merged_from(mirror, changelog):
                require_same_key(table.name, mirror, shape)
            require_supported_transforms(table.name, mirror.table.metadata)
        backlog = plan_backlog(table, changelog, mirror, self.limits)
        if isinstance(backlog, Diverged):
            return backlog
        table_plan = TablePlan(table, changelog, shape, mirror, backlog.slices, backlog.snapshot_ids)
        require_truncation_in_changelog(table_plan)
        return table_plan

    def load_changelog(self, table: TableSettings, mirror: Mirror | None) -> Table:
        """Return the changelog. Raise `ChangelogDropped` if it was merged before: its writer may recreate it."""
        try:
            return self.catalogs.load_changelog(table)
        except ChangelogNotFound as error:
            if mirror is None or mirror.cursor is None or table.on_truncate == "stop":
                raise
            raise ChangelogDropped(*error.args) from error
