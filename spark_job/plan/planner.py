"""Loads a mirror and its changelog, and plans the slices between them."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table

from icemirror.settings import Settings, TableSettings
from spark_job.iceberg.catalogs import Catalogs, ChangelogDropped, ChangelogNotFound
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.iceberg.supported_types import require_supported_transforms, require_supported_types
from spark_job.plan.apply_truncation import require_truncation_in_changelog
from spark_job.plan.backlog import find_recreated, plan_unmerged_slices
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

    def plan_table(self, table_settings: TableSettings) -> TablePlan | Diverged:
        """Return the plan of a table.

        Loads the mirror before the changelog's head: if the plan is empty, the mirror is current.
        """
        mirror_table = self.catalogs.load_mirror(table_settings)
        with translate_table_errors(table_settings.name):
            return self.plan_for_mirror(
                table_settings, read_mirror(mirror_table, table_settings.name) if mirror_table else None
            )

    def require_plan(self, table_settings: TableSettings) -> TablePlan:
        """Return the plan of a table; raise if it diverged from its changelog."""
        table_plan = self.plan_table(table_settings)
        if isinstance(table_plan, Diverged):
            raise table_plan.error
        return table_plan

    def plan_for_mirror(self, table_settings: TableSettings, mirror: Mirror | None) -> TablePlan | Diverged:
        """Return the plan of a table whose mirror is already loaded."""
        changelog = self.load_changelog(table_settings, mirror)
        # Before the columns: they may be missing in a recreated changelog.
        if (recreated := find_recreated(table_settings, changelog, mirror)) is not None:
            return recreated
        shape = row_shape(table_settings, changelog, mirror)
        version = mirror.table.metadata.format_version if mirror else table_settings.format_version
        require_supported_types(str(table_settings.changelog_id), changelog.schema(), shape.row_ids, version)
        if mirror is not None:
            mirror = with_field_map(table_settings, changelog, shape, mirror)
            if is_merged_from(mirror, changelog):
                require_same_key(table_settings.name, mirror, shape)
            require_supported_transforms(table_settings.name, mirror.table.metadata)
        unmerged = plan_unmerged_slices(table_settings, changelog, mirror, self.limits)
        if isinstance(unmerged, Diverged):
            return unmerged
        table_plan = TablePlan(
            table_settings, changelog, shape, mirror, unmerged.slices, unmerged.snapshot_ids
        )
        require_truncation_in_changelog(table_plan)
        return table_plan

    def load_changelog(self, table_settings: TableSettings, mirror: Mirror | None) -> Table:
        """Return the changelog. Raise `ChangelogDropped` if it was merged before: its writer may recreate it."""
        try:
            return self.catalogs.load_changelog(table_settings)
        except ChangelogNotFound as error:
            if mirror is None or mirror.cursor is None or table_settings.on_truncate == "stop":
                raise
            raise ChangelogDropped(*error.args) from error
