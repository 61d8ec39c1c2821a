"""Rebuilds a mirror by policy, because it diverged from its changelog.

Each step begins with a plan, because only the tables' metadata decides whether a resync is needed. The name of the
stage follows from the mirror's cursor and the new changelog: after a crash, or in another process, the next step
continues with it. Two workers at once cost time, not rows: each builds a complete stage, and only one swap succeeds.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from uuid import UUID

from pyiceberg.table import Table

from icemirror.errors import CommitUnknown, Conflict, IcemirrorError
from icemirror.settings import TableSettings
from icemirror.step_results import Rebuilt, Staged
from spark_job.commit.retry import RetriesExhausted
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.iceberg.stage import StageLocation
from spark_job.iceberg.stage_file import STAGE_FILE_SUFFIX
from spark_job.index.location import index_location
from spark_job.plan.apply_truncation import find_unmerged_truncation
from spark_job.plan.planner import Planner
from spark_job.plan.table_plan import TablePlan
from spark_job.rebuild.executor import PlanExecutor
from spark_job.rebuild.rebuild import StagedSlice, SwappedStage, advance_stage, plan_rebuild
from spark_job.rebuild.swap_stage import StageDamaged
from spark_job.storage.discard import discard
from spark_job.storage.translate_errors import translate_table_errors


def plan_with_resync(planner: Planner, table_settings: TableSettings, *, scan_truncations: bool) -> TablePlan:
    """Return what the next merges will do, a rebuild by policy included; changes nothing.

    `scan_truncations`: read the operations of everything that waits, instead of its metadata alone.
    """
    plan = planner.plan_table(table_settings)
    if isinstance(plan, TablePlan):
        scans = scan_truncations and table_settings.on_truncate == "rebuild"
        truncation = find_unmerged_truncation(plan) if scans else None
        if truncation is None:
            return plan
        plan = truncation
    if not plan.rebuild_allowed:
        raise plan.error
    return replace(plan_rebuild(planner, table_settings), is_stage=True)


def resync_step(executor: PlanExecutor, table_settings: TableSettings, reason: str) -> Staged | Rebuilt:
    """Do one more step of the rebuild and return its progress. Raise `Conflict` if mirror or changelog moved."""
    loaded = executor.catalogs.load_mirror(table_settings)
    if loaded is None:
        raise Conflict(f"{table_settings.name}: the mirror was dropped after the plan was made")
    with translate_table_errors(table_settings.name):
        mirror = read_mirror(loaded, table_settings.name)
        changelog = executor.planner.load_changelog(table_settings, mirror)
    location = _stage_location(executor, mirror, changelog, reason)
    try:
        result = advance_stage(executor, table_settings, loaded, location)
    except (CommitUnknown, RetriesExhausted):
        raise
    except StageDamaged:
        discard(loaded.io, [location.path] if location.path else [])  # otherwise the next step finds it again
        raise
    except IcemirrorError as error:
        # Another worker may have swapped the same stage in and removed its files; the changelog may be purged.
        planned_state = loaded.metadata.current_snapshot_id, changelog.metadata.table_uuid
        if not isinstance(error, Conflict) and planned_state == _current_state(
            executor, table_settings, mirror
        ):
            raise
        raise Conflict(
            f"{table_settings.name}: mirror or changelog moved before the swap: {error}"
        ) from error
    match result:
        case StagedSlice(events, _, backlog):
            return Staged(events=events, of_events=events + backlog.events, backlog=backlog)
        case SwappedStage(events, mirror_status):
            return Rebuilt(events=events, mirror_status=mirror_status)


def _current_state(
    executor: PlanExecutor, table_settings: TableSettings, mirror: Mirror
) -> tuple[int | None, UUID]:
    """Return the mirror's head and the uuid of the changelog."""
    current_mirror = executor.catalogs.load_mirror(table_settings)
    head_id = current_mirror.metadata.current_snapshot_id if current_mirror else None
    return head_id, executor.planner.load_changelog(table_settings, mirror).metadata.table_uuid


def _stage_location(executor: PlanExecutor, mirror: Mirror, changelog: Table, reason: str) -> StageLocation:
    """Return a location that depends only on the mirror's cursor and the new changelog."""
    cursor = mirror.cursor.model_dump(mode="json") if mirror.cursor else None
    identity = json.dumps([str(changelog.metadata.table_uuid), cursor])
    location = index_location(mirror.table.metadata, executor.settings.index_location)
    return StageLocation(
        None, f"{location}/{sha256(identity.encode()).hexdigest()[:32]}{STAGE_FILE_SUFFIX}", reason
    )
