"""Creates the mirror of a table that has none."""

from __future__ import annotations

from icemirror.errors import Conflict
from icemirror.processes.crash_points import crash_point
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.create import create_mirror
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.plan.table_plan import TablePlan


def ensure_mirror(catalogs: Catalogs, table_plan: TablePlan) -> Mirror:
    """Return the mirror; create it if there is none."""
    if table_plan.mirror is not None and (table_plan.mirror.head is not None or table_plan.is_stage):
        return table_plan.mirror
    table_settings, schema, field_map = (
        table_plan.table_settings,
        table_plan.new_schema,
        table_plan.new_field_map,
    )
    crash_point("create-mirror")
    mirror_table = create_mirror(
        catalogs.get(table_settings.mirror_catalog), table_settings, table_plan.changelog, schema, field_map
    )
    crash_point("mirror-created")
    mirror = read_mirror(
        catalogs.with_renewable_credentials(table_settings.mirror_catalog, mirror_table), table_settings.name
    )
    if mirror.head is not None:
        raise Conflict(f"{table_settings.name}: another writer created and filled the mirror meanwhile")
    return mirror
