"""The work of a table's next slice."""

from __future__ import annotations

from spark_job.merge.slice_work import SliceWork
from tests.lab.lab import Lab


def next_work(lab: Lab) -> SliceWork:
    """Return the work of the next slice of a table whose mirror exists."""
    table_plan = lab.pipeline.planner.require_plan(lab.table)
    assert table_plan.mirror is not None
    return lab.pipeline.prepare_slice_work(
        table_plan, table_plan.mirror, table_plan.slices[0], str(lab.folder / "index")
    )
