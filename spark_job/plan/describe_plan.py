"""Summarizes the plan of a table for `icemirror plan`."""

from __future__ import annotations

from icemirror.result import PlanResult
from spark_job.iceberg.create import validate_new_mirror
from spark_job.plan.table_plan import TablePlan


def describe_plan(table_plan: TablePlan) -> PlanResult:
    """Return what merging a table up to its head would do. Raise if a new mirror could not be created."""
    table_settings, mirror, has_slices = table_plan.table_settings, table_plan.mirror, bool(table_plan.slices)
    if mirror is None or mirror.head is None:
        validate_new_mirror(table_settings, table_plan.new_schema)
    is_empty = mirror is not None and mirror.head is None
    return PlanResult(
        table=table_settings.name,
        snapshots=len(table_plan.snapshot_ids),
        files=len(table_plan.unmerged_files),
        bytes=sum(slice_.bytes for slice_ in table_plan.slices),
        events=sum(slice_.events for slice_ in table_plan.slices),
        slices=len(table_plan.slices),
        schema_changes=table_plan.schema_changes,
        refused=table_plan.refusal,
        creates_mirror=mirror is None and has_slices,
        fills_mirror=is_empty and not table_plan.is_stage and has_slices,
        rebuilds_mirror=table_plan.is_stage,
    )
