"""The merge, top to bottom. Nothing else knows the order of the steps.

advance ─► plan ─┬─ Merge ───► merge_slice: repair the index, run the shards, record rejects, commit ─► plan again
                 │             each shard: collapse → locate → write → index
                 ├─ Rebuild ─► one step of building the mirror in a hidden stage, then the swap
                 ├─ UpToDate ► compact small data files
                 └─ Blocked ─► raise the error, which states what to do
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np

from icemirror.errors import Corrupt
from icemirror.processes.crash_points import reach
from icemirror.result import Merged, NothingToMerge, StepResult
from icemirror.settings import Settings, TableSettings
from icemirror.telemetry.logs import bind, get_log
from spark_job.changelog.changes import OLD_KEY, Changes, sort_by_position
from spark_job.changelog.rejected_rows import (
    concat_rejected,
    find_new_truncation,
    split_before_truncation,
    split_rejected,
)
from spark_job.commit.commit_slice import NO_LABELS, UncommittedSlice, commit_slice
from spark_job.commit.ensure_mirror import ensure_mirror
from spark_job.commit.retry import ConflictRetries
from spark_job.commit.slice_result import mirror_position, position_after, slice_result
from spark_job.engine.engine import LazyEngine, index_merge_alongside
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.create import check_definition
from spark_job.iceberg.mirror import REPLAY, Mirror
from spark_job.index.index_merge import apply_index_merge, merged_paths, plan_index_merge
from spark_job.index.root import index_location
from spark_job.index.segment import DamagedSegment
from spark_job.maintenance.compact import Compacted, compact
from spark_job.maintenance.compact_after_merge import CompactAfterMerge
from spark_job.maintenance.repair_index import repair_index
from spark_job.maintenance.skipped_files import SkippedFiles
from spark_job.merge.append_rows import AppendWork
from spark_job.merge.collapse import collapse_changes
from spark_job.merge.key_check import check_hash_collisions, check_located_keys
from spark_job.merge.late_events import decide_late_events
from spark_job.merge.locate import decide_effects, locate_keys
from spark_job.merge.plan_after_stop import plan_after_stop
from spark_job.merge.shard_result import (
    HistoryNeeded,
    ShardOutcome,
    ShardResult,
    Stopped,
    TruncationFound,
    split_stopped,
)
from spark_job.merge.slice_work import SliceWork, prepare_work
from spark_job.merge.soft_deletes import keep_deleted_rows
from spark_job.merge.write_winners import index_changes, write_winners
from spark_job.plan.attempt_findings import NO_FINDINGS, AttemptFindings
from spark_job.plan.planner import Planner
from spark_job.plan.plans import (
    Blocked,
    Executed,
    Merge,
    Plan,
    Rebuild,
    Repair,
    UpToDate,
    plan_next,
    plan_repair,
)
from spark_job.plan.schema_evolution import with_field_map
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan, backlog_after, merged_files
from spark_job.rebuild.resync import resync_step
from spark_job.rejects.record_rejects import record_rejects
from spark_job.rejects.validate_first_slice import validate_first_slice
from spark_job.storage.discard import discard, discard_on_error
from spark_job.storage.translate_errors import translate_table_errors

SAMPLE_ROWS = 32

log = get_log(__name__)


@dataclass(frozen=True)
class Pipeline:
    """Merges the tables of a configuration. `key_check_rows` bounds the key check at each commit; None: every row."""

    settings: Settings
    catalogs: Catalogs
    engine: LazyEngine
    run_id: str
    key_check_rows: int | None = SAMPLE_ROWS
    skipped_files: SkippedFiles = field(default_factory=SkippedFiles)
    _compaction: CompactAfterMerge = field(default_factory=CompactAfterMerge)

    @property
    def planner(self) -> Planner:
        """Plans the tables of the configuration."""
        return Planner(self.settings, self.catalogs)

    def advance(self, table: TableSettings) -> StepResult:
        """Execute the next plan of a table. Makes at most one commit."""
        retries = ConflictRetries(
            exhausted="another writer committed during each attempt. Find out which other job writes to mirror or "
            f"changelog: {table.name}"
        )
        while True:
            with retries:
                return self._to_step_result(table, self.execute(table, lambda: self.plan(table)))

    def _to_step_result(self, table: TableSettings, executed: Executed) -> StepResult:
        match executed.plan:
            case Merge(table_plan=table_plan) if executed.merged is not None:
                self._compaction.add_merged(table.name)
                return executed.merged.model_copy(update={"left": backlog_after(table_plan, 1)})
            case Rebuild(reason=reason):
                return resync_step(self, table, reason)
            case Blocked(error=error):
                raise error
            case (
                Merge(table_plan=table_plan) | Repair(table_plan=table_plan) | UpToDate(table_plan=table_plan)
            ):
                mirror = self._compaction.compact_if_due(table_plan, self.compact)
                head = table_plan.changelog.metadata_location
                return NothingToMerge(head=head, position=mirror_position(mirror))
        assert_never(executed.plan)

    def plan(self, table: TableSettings) -> Plan:
        """Decide what to do next with a table; changes nothing."""
        table_plan = self.planner.plan_table(table)
        with translate_table_errors(table.name):
            return plan_next(table_plan)

    def execute(
        self, table: TableSettings, make_plan: Callable[[], Plan], findings: AttemptFindings = NO_FINDINGS
    ) -> Executed:
        """Execute a plan in one commit. Plan again after a conflict or new findings."""
        retries = ConflictRetries(
            exhausted="another writer committed during each attempt. Find out which other job writes to the mirror: "
            f"{table.name}"
        )
        while True:
            with retries:
                began = self.timer()
                plan = make_plan()
                if not isinstance(plan, Merge | Repair):
                    return Executed(plan)
                try:
                    outcome = self.merge_slice(plan, findings, self.timer() - began)
                except DamagedSegment as error:
                    log.warning("segment unreadable, rebuilding", reason=str(error))
                    outcome = findings.with_damage(table.name, plan.table_plan.mirror, error)
                except Corrupt as error:
                    outcome = Executed(make_plan())
                    if not isinstance(outcome.plan, Rebuild):
                        raise
                    # Dropping a changelog deletes its files: they are missing, not damaged.
                    log.info("changelog recreated during the merge, planning again", reason=str(error))
                if isinstance(outcome, Executed):
                    return outcome
                findings = outcome

    def merge_slice(
        self, plan: Merge | Repair, findings: AttemptFindings, planned_seconds: float
    ) -> Executed | AttemptFindings:
        """Merge a slice in one commit. Return what was done; or findings, with which to plan again."""
        slice_, began = plan.slice, self.timer()
        replay_id = plan.replay_id if isinstance(plan, Merge) else None
        with (
            translate_table_errors(plan.table_plan.settings.name),
            bind(batch=str(slice_.cursor.source.snapshot_id)),
        ):
            table_plan, mirror = self._with_mirror(plan.table_plan, slice_)
            table_plan.require_same_columns()
            written = self._write(table_plan, mirror, slice_, findings, is_replay=replay_id is not None)
            if written is None:
                return Executed(plan)
            if not isinstance(written, UncommittedSlice):
                return plan_after_stop(table_plan, slice_, findings, written)
            evolution = table_plan.evolution if slice_.files else None
            labels = {REPLAY: replay_id} if replay_id else NO_LABELS
            committed = commit_slice(written, self.run_id, self._index_location(mirror), labels, evolution)
            if evolution is not None and evolution.schema is not None:
                log.info("mirror schema changed", changes=(*evolution.changes, *evolution.remarks))
            result = slice_result(slice_, committed, planned_seconds, self.timer() - began)
            log.info("slice committed", **result.model_dump(exclude={"seconds_by_step"}))
        return Executed(plan, Merged(slice=result, position=position_after(slice_, committed)))

    def _with_mirror(self, table_plan: TablePlan, slice_: Slice) -> tuple[TablePlan, Mirror]:
        """Return the plan with its mirror. Create the mirror if it is missing and the first slice is valid."""
        if table_plan.mirror is None:
            check_definition(table_plan.settings, table_plan.new_schema[0])
            validate_first_slice(self.engine, table_plan.changelog.io, slice_.files, table_plan.shape)
        mirror = ensure_mirror(self.catalogs, table_plan)
        mirror = with_field_map(table_plan.settings, table_plan.changelog, table_plan.shape, mirror)
        return replace(table_plan, mirror=mirror), mirror

    def _write(
        self,
        table_plan: TablePlan,
        before: Mirror,
        slice_: Slice,
        findings: AttemptFindings,
        *,
        is_replay: bool,
    ) -> UncommittedSlice | Stopped | None:
        """Repair the index, run the shards, record rejects. Return None if there is nothing to commit."""
        io, location = before.table.io, self._index_location(before)
        expire_before = int(1000 * (time.time() - table_plan.settings.tombstone_retention))
        with discard_on_error(io) as paths:
            repaired = repair_index(self.engine, before, table_plan, location, findings.damaged)
            mirror = repaired.mirror
            paths += repaired.paths
            work = replace(self.slice_work(table_plan, mirror, slice_, location), is_replay=is_replay)
            if findings.needs_history:
                work = replace(work, history=tuple(merged_files(table_plan)))
            elif is_replay and not repaired.segments:
                # A shard that would change a row asks for the history before it writes.
                _, stopped = self._record_rejects(table_plan, slice_, self.engine.run(work))
                return stopped
            merge = plan_index_merge(io, location, mirror.root, slice_.events, expire_before)
            moves_cursor = slice_.files or slice_.cursor != before.cursor
            index_changed = before.has_foreign_writes or before.root_unreadable or mirror.root != before.root
            if not (moves_cursor or index_changed or merge.pieces or merge.moved):
                return None
            with index_merge_alongside(self.engine, merge) as merged_pieces:
                outcomes = self.engine.run(work) if slice_.files else []
                paths += [path for outcome in outcomes for path in outcome.paths]
                merged = merged_pieces()
                paths += merged_paths(merged)
            shards, stopped = self._record_rejects(table_plan, slice_, outcomes)
        changes_nothing = (
            is_replay and not repaired.segments and not any(shard.changes_rows for shard in shards)
        )
        if stopped is not None or changes_nothing:
            discard(io, paths)
            return stopped
        segments = mirror.root.segments if mirror.root else ()
        index = apply_index_merge(segments, merge, merged, repaired.segments)
        return UncommittedSlice(mirror, slice_, shards, index)

    def slice_work(self, table_plan: TablePlan, mirror: Mirror, slice_: Slice, location: str) -> SliceWork:
        """Return the work of a slice's tasks."""
        work_class = AppendWork if table_plan.shape.is_keyless else KeyedWork
        return prepare_work(work_class, table_plan, mirror, slice_, location, self.key_check_rows)

    def _record_rejects(
        self, table_plan: TablePlan, slice_: Slice, outcomes: Sequence[ShardOutcome]
    ) -> tuple[list[ShardResult], Stopped | None]:
        """Split the outcomes of the shards; record the rejected rows unless a shard stopped."""
        shards, stopped = split_stopped(outcomes)
        if stopped is None:
            rejected = concat_rejected([shard.rejected for shard in shards])
            record_rejects(self.catalogs, table_plan, slice_, rejected, self.run_id)
        return shards, stopped

    def repair_index(self, table: TableSettings, damaged: Set[str]) -> Executed:
        """Repair the key index in one commit, without merging events. Commits nothing if the index is intact."""
        return self.execute(
            table, lambda: plan_repair(self.planner.require_plan(table)), AttemptFindings(frozenset(damaged))
        )

    def compact(self, table_plan: TablePlan) -> Compacted | None:
        """Compact small data files of a mirror in one commit; None if none are due."""
        mirror = table_plan.mirror
        if mirror is None:
            return None
        shape = table_plan.shape.with_mirror_salt(mirror.table.metadata.table_uuid)
        return compact(mirror, shape, self._index_location(mirror), self.run_id, self.skipped_files)

    def timer(self) -> float:
        """Return a timer in seconds that excludes Spark's start."""
        return time.perf_counter() - self.engine.start_seconds

    def _index_location(self, mirror: Mirror) -> str:
        return index_location(mirror.table.metadata, self.settings.index_location)


@dataclass(frozen=True)
class KeyedWork(SliceWork):
    """A slice of events with keys. Its shards run in this process or in Spark tasks."""

    def merge(self, read: Callable[[], Changes]) -> ShardOutcome:
        """Merge the events that `read` returns. Deletes its files if it fails."""
        seconds: dict[str, float] = {}
        with _timed(seconds, "collapse"):
            events = read()
            if (truncation := find_new_truncation(events)) is not None:
                return TruncationFound(*truncation)
            events, outdated = split_before_truncation(events)
            events, rejected = split_rejected(sort_by_position(events))
            check_hash_collisions(self.key_sources, events, self.key_check_rows)
            changes = collapse_changes(events)
        with _timed(seconds, "locate"):
            orders = self.orders(changes)
            located = decide_late_events(self, changes, orders, locate_keys(self.index, changes.keys, orders))
            if isinstance(located, HistoryNeeded):
                return located
            effects = decide_effects(changes, located, is_replay=self.is_replay)
            effects = keep_deleted_rows(effects) if self.shape.keeps_deleted_rows else effects
            effects = replace(effects, stale=effects.stale + outdated)
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
                reach("write-data")
                written = write_winners(self, events, changes, located, effects, paths)
                if isinstance(written, HistoryNeeded):
                    discard(self.mirror_io, paths)
                    return written
                reach("data-written")
            with _timed(seconds, "index"):
                segment = index_changes(self, changes, orders, effects, written, paths)
                reach("segment-written")
        return ShardResult(
            events=len(events) - int(events.has_move(OLD_KEY).sum()),
            effects=effects,
            data_files=written.files,
            spec_ids=tuple(file.spec_id for file in written.files),
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
