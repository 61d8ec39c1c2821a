"""Loads a mirror and its changelog, and plans what lies between them."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table

from icemirror.result import PlanResult
from icemirror.settings import Settings, TableSettings
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.create import check_definition
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.iceberg.missing_changelog import ChangelogDropped, ChangelogNotFound
from spark_job.iceberg.supported_types import require_supported_transforms, require_supported_types
from spark_job.plan.divergence import Diverged
from spark_job.plan.key_change import require_same_key
from spark_job.plan.row_columns import row_shape
from spark_job.plan.schema_evolution import is_merged_from, with_field_map
from spark_job.plan.slices import SliceLimits
from spark_job.plan.table_plan import TablePlan, find_recreated, plan_backlog
from spark_job.plan.truncation import require_followed_truncation
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
        """Load the mirror, then the changelog's head: so an empty plan proves that the mirror is current."""
        loaded = self.catalogs.load_mirror(table)
        with translate_table_errors(table.name):
            return self.plan_from(table, read_mirror(loaded, table.name) if loaded else None)

    def require_plan(self, table: TableSettings) -> TablePlan:
        """Return the plan of a table; raise if it diverged from its changelog."""
        found = self.plan_table(table)
        if isinstance(found, Diverged):
            raise found.error
        return found

    def plan_from(self, table: TableSettings, mirror: Mirror | None) -> TablePlan | Diverged:
        """Plan what lies between a mirror, as it was read, and its changelog's head, which is loaded now."""
        changelog = self.load_changelog(table, mirror)
        # First: report a recreated changelog before its missing columns.
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
        planned = TablePlan(table, changelog, shape, mirror, *backlog)
        require_followed_truncation(planned)
        return planned

    def load_changelog(self, table: TableSettings, mirror: Mirror | None) -> Table:
        """Load the changelog. Raise `ChangelogDropped` if it was merged before: its writer may recreate it."""
        try:
            return self.catalogs.load_changelog(table)
        except ChangelogNotFound as error:
            if mirror is None or mirror.cursor is None or table.on_truncate == "stop":
                raise
            raise ChangelogDropped(*error.args) from error


def describe_plan(planned: TablePlan) -> PlanResult:
    """Return what merging a table up to its head would do, as `icemirror plan` prints it."""
    table, mirror, waits = planned.settings, planned.mirror, bool(planned.slices)
    if mirror is None or mirror.head is None:
        check_definition(table, planned.new_schema[0])
    return PlanResult(
        table=table.name,
        snapshots=len(planned.lineage),
        files=sum(len(slice_.files) for slice_ in planned.slices),
        bytes=sum(slice_.bytes for slice_ in planned.slices),
        events=sum(slice_.events for slice_ in planned.slices),
        slices=len(planned.slices),
        schema_changes=planned.schema_changes,
        refused=planned.refused,
        creates_mirror=mirror is None and waits,
        fills_mirror=mirror is not None and mirror.head is None and not planned.staged and waits,
        rebuilds_mirror=planned.staged,
    )
