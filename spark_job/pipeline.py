"""The merge, top to bottom: plan → collapse → locate → write → index → commit → plan again.

advance ─► plan ─┬─ Merge ───► merge_slice: repair the index, run the shards, record rejects, commit
                 │             (each shard: collapse → locate → write → index, see merge/shard.py)
                 ├─ Rebuild ─► one step of building the mirror in a hidden stage, then the swap
                 ├─ UpToDate ► compact small data files
                 └─ Blocked ─► raise the error that says what to do
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import assert_never

from icemirror.errors import Conflict, Corrupt, IcemirrorError
from icemirror.processes.crash_points import reach
from icemirror.result import Merged, NothingToMerge, StepResult
from icemirror.settings import Settings, TableSettings
from icemirror.telemetry.logs import bind, get_log
from spark_job.changelog.rejected_rows import concat_rejected
from spark_job.changelog.truncations import cached_truncation, find_truncation
from spark_job.commit.commit_slice import NO_LABELS, commit_slice
from spark_job.commit.retry import retry_on_conflict
from spark_job.commit.slice_result import mirror_position, position_after, slice_result
from spark_job.engine.engine import LazyEngine, run_with_index_merge
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.create import check_definition, create_mirror
from spark_job.iceberg.divergence import SourceTruncated
from spark_job.iceberg.mirror import REPLAY, Mirror, read_mirror
from spark_job.index.index_merge import MergedIndex, apply_index_merge, merged_paths, plan_index_merge
from spark_job.index.root import index_location
from spark_job.index.segment import DamagedSegment
from spark_job.maintenance.compact import Compacted, compact
from spark_job.maintenance.indexed_files import first_row_ids, indexed_files
from spark_job.maintenance.move_rows import MisplacedRow
from spark_job.maintenance.repair_index import repair_index
from spark_job.maintenance.skipped_files import SkippedFiles
from spark_job.merge.append_rows import AppendWork
from spark_job.merge.late_events import NeedsHistory
from spark_job.merge.locate import Index
from spark_job.merge.metadata_columns import MetadataValues, ReplacedMirror
from spark_job.merge.shard import ShardResult, SliceWork, strip_snapshots
from spark_job.plan.divergence import Cause, Diverged
from spark_job.plan.findings import NO_FINDINGS, Findings
from spark_job.plan.outcome import (
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
from spark_job.plan.planner import Planner
from spark_job.plan.schema_evolution import SchemaEvolution, with_field_map
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
class _Written:
    """Everything that a commit refers to except its deletes and its root."""

    mirror: Mirror
    shards: Sequence[ShardResult]
    index: MergedIndex


@dataclass(frozen=True)
class Pipeline:
    """Merges the tables of a configuration. `key_check_rows` bounds the key check at each commit; None: every row."""

    settings: Settings
    catalogs: Catalogs
    engine: LazyEngine
    run_id: str
    key_check_rows: int | None = SAMPLE_ROWS
    skipped_files: SkippedFiles = field(default_factory=SkippedFiles)
    # Tables that were merged into since the last compaction.
    _uncompacted: set[str] = field(default_factory=set)

    @property
    def planner(self) -> Planner:
        """Plans the tables of the configuration."""
        return Planner(self.settings, self.catalogs)

    def advance(self, table: TableSettings) -> StepResult:
        """Do what the plan of a table says next: at most one commit."""

        def finish(done: Executed) -> StepResult:
            match done.plan:
                case Merge(planned=planned) if done.merged is not None:
                    self._uncompacted.add(table.name)
                    return done.merged.model_copy(update={"left": backlog_after(planned, 1)})
                case Rebuild(reason=reason):
                    return resync_step(self, table, reason)
                case Blocked(error=error):
                    raise error
                case Merge(planned=planned) | Repair(planned=planned) | UpToDate(planned=planned):
                    mirror = self._compact_after_merge(planned)
                    return NothingToMerge(
                        head=planned.changelog.metadata_location, position=mirror_position(mirror)
                    )
            assert_never(done.plan)

        return retry_on_conflict(
            lambda: self._execute_next(table),
            finish,
            exhausted=f"{table.name}: mirror or changelog moved in each attempt; which other job writes to them?",
        )

    def plan(self, table: TableSettings) -> Plan:
        """Decide what to do next with a table; changes nothing."""
        found = self.planner.plan_table(table)
        with translate_table_errors(table.name):
            return plan_next(found)

    def repair_index(self, table: TableSettings, damaged: Set[str]) -> Executed:
        """Commit the index as it should be, without merging an event; nothing if it is as it should be."""
        return self.execute(
            table, lambda: plan_repair(self.planner.require_plan(table)), Findings(frozenset(damaged))
        )

    def _execute_next(self, table: TableSettings) -> Executed:
        try:
            return self.execute(table, lambda: self.plan(table))
        except Corrupt as error:
            plan = self.plan(table)
            if not isinstance(plan, Rebuild):  # a dropped changelog takes its files along
                raise
            log.info("changelog recreated during the merge, planning again", reason=str(error))
            return Executed(plan)

    def execute(
        self, table: TableSettings, plan: Callable[[], Plan], findings: Findings = NO_FINDINGS
    ) -> Executed:
        """Execute a plan in one commit. Plan again after a conflict, or when an attempt found out something new."""

        def attempt(_: None) -> Executed:
            nonlocal findings
            while True:
                began = self.clock()
                planned = plan()
                if not isinstance(planned, Merge | Repair):
                    return Executed(planned)
                try:
                    outcome = self.merge_slice(planned, findings, self.clock() - began)
                except DamagedSegment as error:
                    findings = findings.with_damage(table.name, planned.planned.mirror, error)
                    log.warning("segment unreadable, rebuilding", reason=str(error))
                    continue
                if not isinstance(outcome, Findings):
                    return (
                        Executed(planned, outcome)
                        if isinstance(outcome, Merged | None)
                        else Executed(outcome)
                    )
                findings = outcome

        return retry_on_conflict(
            lambda: None,
            attempt,
            exhausted=f"{table.name}: the mirror moved in each attempt; which other job writes to it?",
        )

    def merge_slice(
        self, plan: Merge | Repair, findings: Findings, planned_seconds: float
    ) -> Merged | Findings | Plan | None:
        """Merge a slice in one commit.

        Returns what was committed; None if there was nothing to commit; findings for the next attempt; or another plan
        that the events of the slice demand.
        """
        planned, slice_, began = plan.planned, plan.slice, self.clock()
        replay_id = plan.replay_id if isinstance(plan, Merge) else None
        with translate_table_errors(planned.settings.name), bind(batch=str(slice_.cursor.source.snapshot_id)):
            planned = self._with_mirror(planned, slice_)
            planned.require_same_columns()
            try:
                written = self._write(planned, slice_, findings, replay_id)
            except NeedsHistory as error:
                log.info("changelog history needed, planning again", reason=str(error))
                return replace(findings, ask_history=True)
            except SourceTruncated as error:
                if findings.truncation or cached_truncation(slice_.files, planned.shape):
                    return plan_next(Diverged(planned.settings, Cause.SOURCE_TRUNCATED, str(error)))
                # The scan is cached: the next plan knows of the truncation before the slice is read.
                find_truncation(planned.changelog.io, slice_.files, planned.shape)
                return replace(findings, truncation=True)
            if written is None:
                return None
            evolution = _evolution(planned, slice_)
            outcome = commit_slice(
                written.mirror,
                slice_,
                written.shards,
                written.index,
                self.run_id,
                self._index_location(written.mirror),
                {REPLAY: replay_id} if replay_id else NO_LABELS,
                evolution,
            )
            if evolution is not None and evolution.schema is not None:
                log.info("mirror schema changed", changes=(*evolution.changes, *evolution.remarks))
            result = slice_result(slice_, outcome, planned_seconds, self.clock() - began)
            log.info("slice committed", **result.model_dump(exclude={"seconds_by_step"}))
        return Merged(slice=result, position=position_after(slice_, outcome))

    def _with_mirror(self, planned: TablePlan, slice_: Slice) -> TablePlan:
        """The plan with a mirror, created if there is none and the first slice is valid."""
        if planned.mirror is None:
            check_definition(planned.settings, planned.new_schema[0])
            validate_first_slice(self.engine, planned.changelog.io, slice_.files, planned.shape)
        mirror = self.ensure_mirror(planned)
        return replace(
            planned, mirror=with_field_map(planned.settings, planned.changelog, planned.shape, mirror)
        )

    def ensure_mirror(self, planned: TablePlan) -> Mirror:
        """Return the mirror; create it if there is none."""
        if planned.mirror is not None and (planned.mirror.head is not None or planned.staged):
            return planned.mirror
        settings, (schema, ids) = planned.settings, planned.new_schema
        reach("create-mirror")
        table = create_mirror(
            self.catalogs.get(settings.mirror_catalog), settings, planned.changelog, schema, ids
        )
        reach("mirror-created")
        mirror = read_mirror(
            self.catalogs.with_renewable_credentials(settings.mirror_catalog, table), settings.name
        )
        if mirror.head is not None:
            raise Conflict(f"{settings.name}: another writer created and filled the mirror meanwhile")
        return mirror

    def _write(
        self, planned: TablePlan, slice_: Slice, findings: Findings, replay_id: str | None
    ) -> _Written | None:
        """Repair the index, run the shards, record rejects; None if there is nothing to commit."""
        before = planned.mirror
        assert before is not None  # noqa: S101  # created above
        io, is_replay, location = before.table.io, replay_id is not None, self._index_location(before)
        expire_before = int(1000 * (time.time() - planned.settings.tombstone_retention))
        with discard_on_error(io) as written:
            repaired = repair_index(
                self.engine,
                before,
                planned.shape,
                location,
                findings.damaged,
                planned.changelog.io,
                lambda: merged_files(planned),
            )
            mirror = repaired.mirror
            written += repaired.paths
            work = replace(self.slice_work(planned, mirror, slice_, location), replay=is_replay)
            if findings.ask_history:
                work = replace(work, history=tuple(merged_files(planned)))
            elif is_replay and not repaired.segments:
                # Shards with something to change ask for the history before they write anything.
                self._reject(planned, slice_, self.engine.run(work), written)
                return None
            merge = plan_index_merge(io, location, mirror.root, slice_.events, expire_before)
            moves = slice_.files or slice_.cursor != before.cursor
            behind = before.foreign or before.lost or mirror.root != before.root
            if not (moves or behind or merge.pieces or merge.moved):
                return None
            shards, merged = run_with_index_merge(self.engine, work if slice_.files else None, merge)
            written += merged_paths(merged)
            self._reject(planned, slice_, shards, written)
        if is_replay and not repaired.segments and not any(map(_changes_rows, shards)):
            discard(io, merged_paths(merged))
            return None
        segments = mirror.root.segments if mirror.root else ()
        return _Written(mirror, shards, apply_index_merge(segments, merge, merged, repaired.segments))

    def _reject(
        self, planned: TablePlan, slice_: Slice, shards: Sequence[ShardResult], written: list[str]
    ) -> None:
        """Record the rejected rows of a slice, after noting what the shards wrote."""
        written += [path for shard in shards for path in shard.paths]
        record_rejects(
            self.catalogs,
            planned.settings,
            planned.changelog,
            planned.shape,
            slice_,
            concat_rejected([shard.rejected for shard in shards]),
            self.run_id,
        )

    def slice_work(self, planned: TablePlan, mirror: Mirror, slice_: Slice, location: str) -> SliceWork:
        """Everything that a task needs to know of a slice."""
        root, metadata = mirror.root, mirror.table.metadata
        evolution = _evolution(planned, slice_)
        replaced = ReplacedMirror.of(planned.replaces, planned.changelog, planned.shape.truncated)
        if evolution is not None:
            metadata = evolution.applied(metadata)
        kind = AppendWork if planned.shape.is_keyless else SliceWork
        return kind(
            changelog_io=planned.changelog.io,
            mirror_io=mirror.table.io,
            files=slice_.files,
            shape=planned.shape.with_mirror_salt(mirror.table.metadata.table_uuid),
            field_map=evolution.field_map if evolution else mirror.field_map,
            metadata=strip_snapshots(metadata),
            index=Index(mirror.table.io, root.segments, root.gone) if root else Index(mirror.table.io),
            indexed_paths=tuple(file.path for file in root.files) if root else (),
            index_location=location,
            expired=root.expired if root else None,
            key_check_rows=self.key_check_rows,
            first_row_ids=None if planned.staged else first_row_ids(mirror, metadata.schema()),
            old_files=indexed_files(mirror, metadata, planned.staged) if planned.shape.keeps_values else (),
            own=MetadataValues(evolution.own, int(1e6 * time.time()), replaced)
            if evolution and evolution.own
            else None,
        )

    def clock(self) -> float:
        """Seconds, without the time that Spark took to start."""
        return time.perf_counter() - self.engine.start_seconds

    def _index_location(self, mirror: Mirror) -> str:
        return index_location(mirror.table.metadata, self.settings.index_location)

    def _compact_after_merge(self, planned: TablePlan) -> Mirror | None:
        """Compact small data files once nothing is left to merge; returns the mirror after it.

        Only after a merge: checking all files would be most of the work of a poll that finds nothing. A failure is
        logged and changes nothing, unless it shows that the index is wrong.
        """
        mirror, name = planned.mirror, planned.settings.name
        if mirror is None or name not in self._uncompacted or not planned.settings.compact:
            return mirror
        self._uncompacted.remove(name)
        try:
            with translate_table_errors(name):
                done = self.compact(planned)
        except MisplacedRow:
            raise
        except IcemirrorError as error:
            log.warning("compaction skipped", reason=str(error))
            return mirror
        except Exception as error:
            log.failure("compaction skipped", error)
            return mirror
        return replace(mirror, root=done.root) if done else mirror

    def compact(self, planned: TablePlan) -> Compacted | None:
        """Compact small data files of a mirror in one commit; None if none are due."""
        mirror = planned.mirror
        if mirror is None:
            return None
        shape = planned.shape.with_mirror_salt(mirror.table.metadata.table_uuid)
        return compact(mirror, shape, self._index_location(mirror), self.run_id, self.skipped_files)


def _evolution(planned: TablePlan, slice_: Slice) -> SchemaEvolution | None:
    return planned.evolution if slice_.files else None


def _changes_rows(shard: ShardResult) -> bool:
    return bool(shard.fate.writes.any() or shard.fate.tombstones.any())
