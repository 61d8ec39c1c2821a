"""The merge, top to bottom. Nothing else knows the order of the steps.

advance ─► plan ─┬─ Merge ───► merge_slice: repair the index, run the shards, record rejects, commit ─► plan again
                 │             each shard: collapse → locate → write → index
                 ├─ Repair ──► merge_slice without events: repair the index, commit (`icemirror maintain index`)
                 ├─ Rebuild ─► one step of building the mirror in a hidden stage, then the swap
                 ├─ UpToDate ► compact small data files
                 └─ Blocked ─► raise the error, which states what to do

An attempt to merge a slice that finds a damaged index segment, a truncation of the source, or events that only the
changelog's history can decide, commits nothing. It returns findings, with which the slice is planned and merged again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import assert_never

import numpy as np

from icemirror.errors import Corrupt
from icemirror.processes.crash_points import crash_point
from icemirror.settings import Settings, TableSettings
from icemirror.step_results import Merged, NothingToMerge, StepResult
from icemirror.telemetry.logs import bind, get_log
from spark_job.changelog.event_batch import EventBatch, sort_by_position
from spark_job.changelog.key_collisions import check_hash_collisions
from spark_job.changelog.rejected_rows import (
    concat_rejected,
    find_new_truncation,
    split_before_truncation,
    split_rejected,
)
from spark_job.changelog.truncations import LocatedTruncation
from spark_job.commit.commit_slice import NO_LABELS, NothingToCommit, UncommittedSlice, commit_slice
from spark_job.commit.ensure_mirror import ensure_mirror
from spark_job.commit.retry import ConflictRetries
from spark_job.commit.slice_result import mirror_status, slice_result, status_after
from spark_job.engine.engine import LazyEngine, index_merge_in_background
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.create import validate_new_mirror
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.property_names import PROPERTY_REPLAY
from spark_job.index.apply_index_merge import apply_index_merge
from spark_job.index.damaged_segment import DamagedSegment
from spark_job.index.location import index_location
from spark_job.index.merge_segments import merged_paths
from spark_job.index.plan_index_merge import plan_index_merge
from spark_job.maintenance.compact import Compaction, SkippedFiles, compact
from spark_job.maintenance.compact_after_merge import CompactionQueue
from spark_job.maintenance.repair_index import repair_index
from spark_job.merge.append_rows import AppendWork
from spark_job.merge.collapse import collapse_changes
from spark_job.merge.effects import decide_effects
from spark_job.merge.findings_after_stop import findings_after_stop
from spark_job.merge.index_changes import index_changes
from spark_job.merge.key_check import check_located_keys
from spark_job.merge.late_events import decide_late_events
from spark_job.merge.locate import locate_keys
from spark_job.merge.shard_result import (
    HistoryNeeded,
    ShardOutcome,
    ShardResult,
    StopReason,
    TruncationFound,
    split_outcomes,
)
from spark_job.merge.slice_work import SliceWork, prepare_work
from spark_job.merge.soft_deletes import keep_deleted_rows
from spark_job.merge.write_winners import write_winners
from spark_job.plan.attempt_findings import NO_FINDINGS, AttemptFindings
from spark_job.plan.backlog import backlog_after, merged_files
from spark_job.plan.divergence import Diverged
from spark_job.plan.planner import Planner
from spark_job.plan.plans import (
    Blocked,
    Merge,
    Plan,
    PlanOutcome,
    Rebuild,
    Repair,
    UpToDate,
    plan_diverged,
    plan_next,
    plan_repair,
)
from spark_job.plan.row_columns import with_field_map
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan
from spark_job.rebuild.resync import resync_step
from spark_job.rejects.record_rejects import record_rejects
from spark_job.rejects.validate_first_slice import validate_first_slice
from spark_job.storage.discard import discard, discard_on_error
from spark_job.storage.translate_errors import translate_table_errors

KEY_CHECK_SAMPLE_ROWS = 32

log = get_log(__name__)


@dataclass(frozen=True)
class Pipeline:
    """Merges the tables of a configuration.

    - `key_check_rows`: how many rows each shard samples to check their keys; None: every row.
    - `_found_truncations`: by table, the last truncation of a slice at which a merge stopped. The rebuild that follows
      takes many steps, each of which begins with a plan: it need not read the slice again.
    """

    settings: Settings
    catalogs: Catalogs
    engine: LazyEngine
    run_id: str
    key_check_rows: int | None = KEY_CHECK_SAMPLE_ROWS
    skipped_files: SkippedFiles = field(default_factory=SkippedFiles)
    _compaction: CompactionQueue = field(default_factory=CompactionQueue)
    _found_truncations: dict[str, LocatedTruncation] = field(default_factory=dict)

    @cached_property
    def planner(self) -> Planner:
        """The planner of the configuration's tables."""
        return Planner(self.settings, self.catalogs)

    def advance(self, table_settings: TableSettings) -> StepResult:
        """Execute the next plan of a table. Makes at most one commit."""
        # `execute` retries conflicts of a merge, this loop those of a rebuild. `RetriesExhausted` passes through it.
        retries = ConflictRetries(
            exhausted="another writer committed during each attempt. Find out which other job writes to mirror or "
            f"changelog: {table_settings.name}"
        )
        while True:
            with retries:
                outcome = self.execute(table_settings, lambda findings: self.plan(table_settings, findings))
                return self._finish_step(table_settings, outcome)

    def _finish_step(self, table_settings: TableSettings, outcome: PlanOutcome) -> StepResult:
        """Do what the plan requires besides a merge: a step of a rebuild, or a compaction. Raise if it is blocked."""
        match outcome.plan:
            case Merge(table_plan=table_plan) if outcome.merged is not None:
                self._compaction.add_merged(table_settings.name)
                return outcome.merged.model_copy(update={"backlog": backlog_after(table_plan, 1)})
            case Rebuild(reason=reason):
                return resync_step(self, table_settings, reason)
            case Blocked(error=error):
                raise error
            case (
                Merge(table_plan=table_plan) | Repair(table_plan=table_plan) | UpToDate(table_plan=table_plan)
            ):
                mirror = self._compaction.compact_if_due(table_plan, self.compact)
                head = table_plan.changelog.metadata_location
                return NothingToMerge(head_location=head, mirror_status=mirror_status(mirror))
        assert_never(outcome.plan)

    def plan(self, table_settings: TableSettings, findings: AttemptFindings = NO_FINDINGS) -> Plan:
        """Return what to do next with a table; changes nothing. `findings`: of earlier attempts at its next slice."""
        table_plan = self.planner.plan_table(table_settings)
        with translate_table_errors(table_settings.name):
            return plan_next(table_plan, findings)

    def execute(
        self,
        table_settings: TableSettings,
        make_plan: Callable[[AttemptFindings], Plan],
        findings: AttemptFindings = NO_FINDINGS,
    ) -> PlanOutcome:
        """Execute a plan in one commit. Plan again after a conflict or new findings."""
        findings = replace(findings, truncation=self._found_truncations.get(table_settings.name))
        retries = ConflictRetries(
            exhausted="another writer committed during each attempt. Find out which other job writes to the mirror: "
            f"{table_settings.name}"
        )
        while True:
            with retries:
                began = self.clock_seconds()
                plan = make_plan(findings)
                if not isinstance(plan, Merge | Repair):
                    return PlanOutcome(plan)
                try:
                    outcome = self.merge_slice(plan, findings, self.clock_seconds() - began)
                # Both errors are faults of files, which any read in a shard or a Spark task may raise.
                except DamagedSegment as error:
                    log.warning("segment unreadable, rebuilding", reason=str(error))
                    outcome = findings.with_damage(table_settings.name, plan.table_plan.mirror, error)
                except Corrupt as error:
                    outcome = PlanOutcome(make_plan(findings))
                    if not isinstance(outcome.plan, Rebuild):
                        raise
                    # Dropping a changelog deletes its files: they are missing, not damaged.
                    log.info("changelog recreated during the merge, planning again", reason=str(error))
                match outcome:
                    case PlanOutcome():
                        return outcome
                    case Diverged():
                        return PlanOutcome(plan_diverged(outcome))
                    case AttemptFindings():
                        findings = outcome
                if findings.truncation is not None:
                    self._found_truncations[table_settings.name] = findings.truncation

    def merge_slice(
        self, plan: Merge | Repair, findings: AttemptFindings, planning_seconds: float
    ) -> PlanOutcome | AttemptFindings | Diverged:
        """Merge a slice in one commit. Return its outcome, findings for another attempt, or how the mirror diverged."""
        slice_, began = plan.slice, self.clock_seconds()
        replay_id = plan.replay_id if isinstance(plan, Merge) else None
        with (
            translate_table_errors(plan.table_plan.table_settings.name),
            bind(batch=str(slice_.cursor.source.snapshot_id)),
        ):
            mirror = self._open_mirror(plan.table_plan, slice_)
            table_plan = replace(plan.table_plan, mirror=mirror)
            table_plan.require_allowed_schema_change()
            prepared = self._prepare_commit(
                table_plan, mirror, slice_, findings, is_replay=replay_id is not None
            )
            match prepared:
                case NothingToCommit():
                    return PlanOutcome(plan)
                case HistoryNeeded() | TruncationFound():
                    return findings_after_stop(table_plan, slice_, findings, prepared)
                case UncommittedSlice():
                    pass
            evolution = table_plan.evolution if slice_.files else None
            labels = {PROPERTY_REPLAY: replay_id} if replay_id else NO_LABELS
            committed = commit_slice(prepared, self.run_id, self._index_location(mirror), labels, evolution)
            if evolution is not None and evolution.schema is not None:
                log.info("mirror schema changed", changes=(*evolution.changes, *evolution.remarks))
            result = slice_result(slice_, committed, planning_seconds, self.clock_seconds() - began)
            log.info("slice committed", **result.model_dump(exclude={"seconds_by_step"}))
        return PlanOutcome(plan, Merged(slice=result, mirror_status=status_after(slice_, committed)))

    def _open_mirror(self, table_plan: TablePlan, slice_: Slice) -> Mirror:
        """Return the mirror. Create it if it is missing and the first slice is valid."""
        if table_plan.mirror is None:
            validate_new_mirror(table_plan.table_settings, table_plan.new_schema)
            validate_first_slice(self.engine, table_plan.changelog.io, slice_.files, table_plan.shape)
        mirror = ensure_mirror(self.catalogs, table_plan)
        return with_field_map(table_plan.table_settings, table_plan.changelog, table_plan.shape, mirror)

    def _prepare_commit(
        self,
        table_plan: TablePlan,
        mirror: Mirror,
        slice_: Slice,
        findings: AttemptFindings,
        *,
        is_replay: bool,
    ) -> UncommittedSlice | StopReason | NothingToCommit:
        """Repair the index, run the shards, record rejects. Return the slice to commit, or why a shard stopped."""
        io, location = mirror.table.io, self._index_location(mirror)
        expire_before = int(1000 * (time.time() - table_plan.table_settings.tombstone_retention))
        with discard_on_error(io) as paths:
            repaired = repair_index(self.engine, mirror, table_plan, location, findings.damaged)
            repaired_mirror = repaired.mirror
            paths += repaired.paths
            work = self.prepare_slice_work(table_plan, repaired_mirror, slice_, location)
            work = replace(work, is_replay=is_replay)
            if findings.needs_history:
                # Second pass of a replay, or a merge with late events that only the history can decide.
                work = replace(work, history=tuple(merged_files(table_plan)))
            elif is_replay and not repaired.segments:
                # First pass of a replay, without history: no shard writes a file. If none would change a row, there is
                # nothing to commit. Otherwise a shard returns HistoryNeeded, and the slice is planned again.
                _, stop_reason = self._record_rejects(table_plan, slice_, self.engine.run(work))
                return stop_reason or NothingToCommit()
            index_merge = plan_index_merge(io, location, repaired_mirror.root, slice_.events, expire_before)
            moves_cursor = bool(slice_.files) or slice_.cursor != mirror.cursor
            index_changed = (
                mirror.has_foreign_writes or mirror.root_unreadable or repaired_mirror.root != mirror.root
            )
            if not (moves_cursor or index_changed or index_merge.steps or index_merge.renumbered):
                return NothingToCommit()
            with index_merge_in_background(self.engine, index_merge) as wait_for_index_merge:
                outcomes = self.engine.run(work) if slice_.files else []
                paths += [path for outcome in outcomes for path in outcome.paths]
                merged_steps = wait_for_index_merge()
                paths += merged_paths(merged_steps)
            shards, stop_reason = self._record_rejects(table_plan, slice_, outcomes)
        changes_nothing = (
            is_replay and not repaired.segments and not any(shard.changes_rows for shard in shards)
        )
        if stop_reason is not None or changes_nothing:
            discard(io, paths)
            return stop_reason or NothingToCommit()
        segments = repaired_mirror.root.segments if repaired_mirror.root else ()
        index = apply_index_merge(segments, index_merge, merged_steps, repaired.segments)
        return UncommittedSlice(repaired_mirror, slice_, shards, index)

    def prepare_slice_work(
        self, table_plan: TablePlan, mirror: Mirror, slice_: Slice, location: str
    ) -> SliceWork:
        """Return what the tasks of a slice need. `location`: folder of the new index segments."""
        work_class = AppendWork if table_plan.shape.is_keyless else KeyedWork
        return prepare_work(work_class, table_plan, mirror, slice_, location, self.key_check_rows)

    def _record_rejects(
        self, table_plan: TablePlan, slice_: Slice, outcomes: Sequence[ShardOutcome]
    ) -> tuple[list[ShardResult], StopReason | None]:
        """Record the rejected rows unless a shard stopped. Return the results, and why a shard stopped."""
        shards, stop_reason = split_outcomes(outcomes)
        if stop_reason is None:
            rejected = concat_rejected([shard.rejected for shard in shards])
            record_rejects(self.catalogs, table_plan, slice_, rejected, self.run_id)
        return shards, stop_reason

    def execute_repair(self, table_settings: TableSettings, damaged: Set[str]) -> PlanOutcome:
        """Repair the key index in one commit, without merging events. Commits nothing if the index is intact."""
        findings = AttemptFindings(frozenset(damaged))
        return self.execute(
            table_settings, lambda _: plan_repair(self.planner.require_plan(table_settings)), findings
        )

    def compact(self, table_plan: TablePlan) -> Compaction | None:
        """Compact small data files of a mirror in one commit. Return None if none are due."""
        mirror = table_plan.mirror
        if mirror is None:
            return None
        shape = table_plan.shape.with_mirror_salt(mirror.table.metadata.table_uuid)
        return compact(mirror, shape, self._index_location(mirror), self.run_id, self.skipped_files)

    def clock_seconds(self) -> float:
        """Return the process clock in seconds, without the time that Spark took to start."""
        return time.perf_counter() - self.engine.start_seconds

    def _index_location(self, mirror: Mirror) -> str:
        return index_location(mirror.table.metadata, self.settings.index_location)


@dataclass(frozen=True)
class KeyedWork(SliceWork):
    """A slice of events with keys. Its shards run in this process or in Spark tasks."""

    def run_shard(self, read: Callable[[], EventBatch]) -> ShardOutcome:
        """Merge the events that `read` returns. Deletes its files if it fails."""
        seconds: dict[str, float] = {}
        with _timed(seconds, "collapse"):
            events = read()
            if (truncation := find_new_truncation(events)) is not None:
                return TruncationFound(*truncation)
            events, events_before_truncation = split_before_truncation(events)
            events, rejected = split_rejected(sort_by_position(events))
            check_hash_collisions(self.changelog_io, self.files, self.shape, events, self.key_check_rows)
            changes = collapse_changes(events)
        with _timed(seconds, "locate"):
            orders = self.orders(changes)
            located = decide_late_events(self, changes, orders, locate_keys(self.index, changes.keys, orders))
            if isinstance(located, HistoryNeeded):
                return located
            effects = decide_effects(changes, located, is_replay=self.is_replay)
            effects = keep_deleted_rows(effects) if self.shape.keeps_deleted_rows else effects
            effects = replace(effects, stale=effects.stale + events_before_truncation)
            check_located_keys(
                self.key_sources,
                changes,
                np.flatnonzero(effects.removes),
                located.file,
                located.pos,
                self.key_check_rows,
            )
        with discard_on_error(self.mirror_io) as paths:
            with _timed(seconds, "write"):
                crash_point("write-data")
                written = write_winners(self, events, changes, located, effects, paths)
                if isinstance(written, HistoryNeeded):
                    discard(self.mirror_io, paths)
                    return written
                crash_point("data-written")
            with _timed(seconds, "index"):
                segment = index_changes(self, changes, orders, effects, written, paths)
                crash_point("segment-written")
        return ShardResult(
            events=events.source_count,
            effects=effects,
            data_files=written.files,
            segment=segment,
            removed_file=located.file[effects.removes],
            removed_pos=located.pos[effects.removes],
            seconds=seconds,
            rejected=rejected,
        )


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[step] = time.perf_counter() - began
