"""The merge, top to bottom: take → plan → collapse → locate → write → index → commit → plan again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from icemirror.crash import reach
from icemirror.errors import Conflict, Corrupt, IcemirrorError
from icemirror.result import Merged, PlanResult, UpToDate
from icemirror.settings import Settings, TableSettings
from icemirror.telemetry.logs import bind, get_log
from spark_job.append_rows import AppendWork, counted
from spark_job.changelog.rejected import gather_rejected
from spark_job.columns.evolution import Evolution, merges_from, with_map
from spark_job.columns.field_map import FieldMap, mirror_schema
from spark_job.columns.own_values import Before, OwnValues
from spark_job.columns.row_columns import row_schema, row_shape
from spark_job.commit_slice import NO_LABELS, commit_slice
from spark_job.compaction.compact import Compacted, compact
from spark_job.compaction.left_alone import LeftAlone
from spark_job.compaction.move_rows import AstrayRow
from spark_job.doubtful import NeedsHistory
from spark_job.first_look import look_first
from spark_job.iceberg.column_types import require_mirrored_types
from spark_job.iceberg.create import check_definition, create_mirror
from spark_job.iceberg.discard import discard
from spark_job.iceberg.failures import named_for
from spark_job.iceberg.mirror import REPLAY, Mirror, read_mirror
from spark_job.iceberg.tables import Catalogs
from spark_job.iceberg.view import live_files
from spark_job.index_upkeep.catch_up import catch_up
from spark_job.index_upkeep.heal import Healer
from spark_job.index_upkeep.index_location import index_location
from spark_job.index_upkeep.index_merge import apply_merge, merged_paths, plan_merge
from spark_job.index_upkeep.indexed_files import indexed_files
from spark_job.key_change import require_same_key
from spark_job.key_index.damage import DamagedSegment
from spark_job.key_index.segment import SegmentInfo
from spark_job.left import left_after
from spark_job.locate import Index
from spark_job.plan import Slice, SliceLimits
from spark_job.rejects.record import record_rejects
from spark_job.replays.lost_track import ChangelogAway, NoChangelog
from spark_job.runtime.engine import LazyEngine, run_beside
from spark_job.shard import ShardResult, SliceWork, without_history
from spark_job.slice_result import position_after, position_of, slice_result
from spark_job.stock import Prepared, plan_table, require_same_changelog
from spark_job.support import require_supported
from spark_job.task import Done, Task, next_task
from spark_job.write.partitions import require_known_transforms
from spark_job.write.row_lineage import require_free_names

_MOST_ATTEMPTS = 8
_MOST_EVENTS = 4_000_000  # keeps a slice's key tuples within the memory of one worker, whatever its bytes
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
    left_alone: LeftAlone = field(default_factory=LeftAlone)
    # Tables that were merged into since files were put together.
    _untidy: set[str] = field(default_factory=set)

    def advance(self, table: TableSettings) -> Merged | UpToDate:
        """Merges the next slice of a table, or finds that there is none."""
        done = self.carry_out(table, lambda: next_task(self.prepare(table)))
        prepared = done.task.prepared
        if done.merged is not None:
            self._untidy.add(table.name)
            return done.merged.model_copy(update={"left": left_after(prepared, done.task.part)})
        mirror = self._tidy(prepared)
        return UpToDate(head=prepared.changelog.metadata_location, position=position_of(mirror))

    def mend_index(self, table: TableSettings, damaged: Set[str]) -> Done:
        """Commits the index as it should be, with no event merged; nothing where there is nothing to do."""

        def plan() -> Task:
            prepared = self.prepare(table)
            cursor = prepared.mirror.cursor if prepared.mirror else None
            return Task(prepared, Slice((), cursor) if cursor else None)

        return self.carry_out(table, plan, damaged)

    def carry_out(
        self, table: TableSettings, plan: Callable[[], Task], known_damage: Set[str] = frozenset()
    ) -> Done:
        """Does what was planned, in one commit, and plans again where that was overtaken."""
        attempts, damaged, ask_history = 0, set(known_damage), False
        failure: IcemirrorError | None = None
        while attempts < _MOST_ATTEMPTS:
            began = self.clock()
            task = plan()
            if task.part is None:
                return Done(task)
            prepared, planned = task.prepared, self.clock() - began
            try:
                merged = self._merge(prepared, task.part, planned, damaged, ask_history, task.replay_id)
                return Done(task, merged)
            except NeedsHistory as error:
                ask_history = True
                log.info("asking the changelog's history", reason=str(error))
            except Conflict as error:
                attempts, failure = attempts + 1, error
                log.info("fenced out, planning again", reason=str(error))
            except DamagedSegment as error:
                if error.path in damaged:
                    raise
                damaged.add(error.path)
                if not _names(prepared.mirror, error.path):  # what it names is damaged only once
                    attempts, failure = attempts + 1, error
                log.warning("a segment of the key index cannot be read", reason=str(error))
        if isinstance(failure, DamagedSegment):
            raise Corrupt(
                f"{table.name}: what was rebuilt of the key index cannot be read either ({failure}). Does the storage "
                "of the index keep what is written there?"
            )
        raise Conflict(
            f"{table.name}: the mirror moved during {_MOST_ATTEMPTS} attempts in a row; who else writes to it?"
        )

    def prepare(self, table: TableSettings) -> Prepared:
        """Takes stock: the mirror first, then the changelog's head, so that an empty plan proves the mirror current."""
        require_supported(table)
        loaded = self.catalogs.load_mirror(table)
        with named_for(table.name):
            return self.survey(table, read_mirror(loaded, table.name) if loaded else None)

    def survey(self, table: TableSettings, mirror: Mirror | None) -> Prepared:
        """What lies between a mirror, as it was read, and its changelog's head, which is loaded now."""
        changelog = self.load_changelog(table, mirror)
        require_same_changelog(table, changelog, mirror)
        shape = row_shape(table, changelog, mirror.table if mirror else None)
        version = mirror.table.metadata.format_version if mirror else table.format_version
        require_mirrored_types(str(table.changelog_id), changelog.schema(), shape.row_ids, version)
        if mirror is not None:
            mirror = with_map(table, changelog, shape, mirror)
            if merges_from(mirror, changelog):
                require_same_key(table.name, mirror, shape)
            require_known_transforms(table.name, mirror.table.metadata)
        slices, lineage = plan_table(table, changelog, mirror, self.limits)
        return Prepared(table, changelog, shape, mirror, slices, lineage)

    def load_changelog(self, table: TableSettings, mirror: Mirror | None) -> Table:
        """The changelog of a mirror, which must be there. One that was merged may be about to be made anew."""
        try:
            return self.catalogs.load_changelog(table)
        except NoChangelog as error:
            if mirror is None or mirror.cursor is None or table.on_truncate == "stop":
                raise
            raise ChangelogAway(*error.args) from error

    @property
    def limits(self) -> SliceLimits:
        """The most that one commit takes."""
        return SliceLimits(
            events=min(self.settings.batch_size or _MOST_EVENTS, _MOST_EVENTS),
            bytes=self.settings.job.max_slice_bytes,
        )

    def explain(self, prepared: Prepared) -> PlanResult:
        """What merging a table up to its head would do; changes nothing."""
        table = prepared.settings
        if prepared.mirror is None or prepared.mirror.head is None:
            check_definition(table, _new_schema(prepared)[0])
        return PlanResult(
            table=table.name,
            snapshots=len(prepared.lineage),
            files=sum(len(part.files) for part in prepared.slices),
            bytes=sum(part.bytes for part in prepared.slices),
            events=sum(part.events for part in prepared.slices),
            slices=len(prepared.slices),
            schema_changes=prepared.schema_changes,
            refused=prepared.refused,
            creates_mirror=prepared.mirror is None and bool(prepared.slices),
            fills_mirror=prepared.mirror is not None
            and prepared.mirror.head is None
            and not prepared.staged
            and bool(prepared.slices),
            rebuilds_mirror=prepared.staged,
        )

    def clock(self) -> float:
        """Seconds, in which the start of Spark takes no time."""
        return time.perf_counter() - self.engine.start_seconds

    def _merge(
        self,
        prepared: Prepared,
        part: Slice,
        planned: float,
        damaged: Set[str],
        ask_history: bool,
        replay_id: str | None,
    ) -> Merged | None:
        """Merges a slice; None where it is a replay that found nothing new, and so committed nothing."""
        began = self.clock()
        table = prepared.settings
        with named_for(table.name), bind(batch=str(part.cursor.source.snapshot_id)):
            self._look_first(prepared, part)
            mirror = with_map(table, prepared.changelog, prepared.shape, self._ensure_mirror(prepared))
            prepared = replace(prepared, mirror=mirror)
            prepared.require_same_columns()
            evolution = prepared.evolution if part.files else None
            location = index_location(mirror.table.metadata, self.settings.index_location)
            shape = prepared.shape.of_mirror(mirror.table.metadata.table_uuid)
            healer = Healer(self.engine, prepared.changelog.io, prepared.merged_files, shape, location)
            before = mirror
            expire_before = int(1000 * (time.time() - table.tombstone_retention))
            healed: tuple[SegmentInfo, ...] = ()
            caught: tuple[SegmentInfo, ...] = ()
            try:
                if shape.is_keyless:
                    mirror = counted(mirror)
                else:
                    mirror, healed = healer.heal(mirror, damaged)
                    mirror, caught = catch_up(self.engine, mirror, shape, location)
                work = self._work(prepared, mirror, part, location, evolution)
                work = replace(work, replay=replay_id is not None)
                if ask_history:
                    work = replace(work, history=tuple(prepared.merged_files()))
                elif replay_id is not None and not healed and not caught:
                    # Shards with news ask for the history before they write anything.
                    self._reject(prepared, mirror, part, self.engine.run(work))
                    return None
                merge = plan_merge(mirror.table.io, location, mirror.root, part.events, expire_before)
                moves = part.files or part.cursor != before.cursor
                behind = before.foreign or before.lost or mirror.root != before.root
                if not (moves or behind or merge.pieces or merge.moved):
                    return None
                shards, merged = run_beside(self.engine, work if part.files else None, merge)
                self._reject(prepared, mirror, part, shards, merged_paths(merged))
            except BaseException:
                discard(mirror.table.io, [segment.path for segment in (*healed, *caught)])
                raise
            if replay_id and not healed and not caught and not any(map(_applies, shards)):
                discard(mirror.table.io, merged_paths(merged))
                return None
            index = apply_merge(
                mirror.root.segments if mirror.root else (), merge, merged, (*healed, *caught)
            )
            labels = {REPLAY: replay_id} if replay_id else NO_LABELS
            outcome = commit_slice(mirror, part, shards, index, self.run_id, location, labels, evolution)
            if evolution is not None and evolution.schema is not None:
                log.info("columns of the mirror changed", changes=(*evolution.changes, *evolution.remarks))
            result = slice_result(part, outcome, planned, self.clock() - began)
            log.info("slice committed", **result.model_dump(exclude={"seconds_by_step"}))
        return Merged(slice=result, position=position_after(part, outcome))

    def _reject(
        self,
        prepared: Prepared,
        mirror: Mirror,
        part: Slice,
        shards: Sequence[ShardResult],
        others: Sequence[str] = (),
    ) -> None:
        """Puts the bad rows of a slice aside; else what was written for it, and `others`, is removed again."""
        rejected = gather_rejected([shard.rejected for shard in shards])
        try:
            record_rejects(
                self.catalogs,
                prepared.settings,
                prepared.changelog,
                prepared.shape,
                part,
                rejected,
                self.run_id,
            )
        except BaseException:
            discard(mirror.table.io, [*others, *(path for shard in shards for path in shard.paths)])
            raise

    def _tidy(self, prepared: Prepared) -> Mirror | None:
        """Once nothing is left to merge, puts small data files together; the mirror after it.

        Not before something was merged: looking at all files would be most of the work of a look that finds nothing.
        Nothing fails by it, unless it finds that the index is wrong.
        """
        mirror, name = prepared.mirror, prepared.settings.name
        if mirror is None or name not in self._untidy or not prepared.settings.compact:
            return mirror
        self._untidy.remove(name)
        try:
            with named_for(name):
                done = self.compact(prepared)
        except AstrayRow:
            raise
        except IcemirrorError as error:
            log.warning("small data files left as they are", reason=str(error))
            return mirror
        except Exception as error:
            log.failure("small data files left as they are", error)
            return mirror
        return replace(mirror, root=done.root) if done else mirror

    def compact(self, prepared: Prepared) -> Compacted | None:
        """Puts small data files of a mirror together in one commit; None where none are due."""
        mirror = prepared.mirror
        if mirror is None:
            return None
        metadata = mirror.table.metadata
        location = index_location(metadata, self.settings.index_location)
        shape = prepared.shape.of_mirror(metadata.table_uuid)
        return compact(mirror, shape, location, self.run_id, self.left_alone)

    def _look_first(self, prepared: Prepared, part: Slice) -> None:
        """Refuses bad input while there is no mirror yet: an empty one would be left behind."""
        if prepared.mirror is None:
            check_definition(prepared.settings, _new_schema(prepared)[0])
            look_first(self.engine, prepared.changelog.io, part.files, prepared.shape)

    def _ensure_mirror(self, prepared: Prepared) -> Mirror:
        if prepared.mirror is None or (prepared.mirror.head is None and not prepared.staged):
            schema, ids = _new_schema(prepared)
            catalog = self.catalogs.get(prepared.settings.mirror_catalog)
            reach("create-mirror")
            table = create_mirror(catalog, prepared.settings, prepared.changelog, schema, ids)
            reach("mirror-created")
            table = self.catalogs.lend(prepared.settings.mirror_catalog, table)
            mirror = read_mirror(table, prepared.settings.name)
            if mirror.head is not None:
                raise Conflict(
                    f"{prepared.settings.name}: somebody else made and filled the mirror meanwhile"
                )
            return mirror
        return prepared.mirror

    def _work(
        self,
        prepared: Prepared,
        mirror: Mirror,
        part: Slice,
        location: str,
        evolution: Evolution | None = None,
    ) -> SliceWork:
        root, metadata = mirror.root, mirror.table.metadata
        if evolution is not None:
            metadata = evolution.applied(metadata)
        kind = AppendWork if prepared.shape.is_keyless else SliceWork
        return kind(
            changelog_io=prepared.changelog.io,
            mirror_io=mirror.table.io,
            files=part.files,
            shape=prepared.shape.of_mirror(mirror.table.metadata.table_uuid),
            field_map=evolution.field_map if evolution else mirror.field_map,
            metadata=without_history(metadata),
            index=Index(mirror.table.io, root.segments, root.gone) if root else Index(mirror.table.io),
            indexed_paths=tuple(file.path for file in root.files) if root else (),
            index_location=location,
            expired=root.expired if root else None,
            key_check_rows=self.key_check_rows,
            first_row_ids=None if prepared.staged else _first_row_ids(mirror, metadata.schema()),
            old_files=indexed_files(mirror, staged=prepared.staged) if prepared.shape.keeps_values else (),
            own=OwnValues(evolution.own, int(1e6 * time.time()), Before.of(prepared.replaces))
            if evolution and evolution.own
            else None,
        )


def _new_schema(prepared: Prepared) -> tuple[Schema, FieldMap]:
    """Of a mirror that is to be made, and the map to it."""
    row = row_schema(prepared.settings, prepared.changelog.schema(), prepared.shape.row_ids)
    return mirror_schema(row, prepared.shape.row_ids, prepared.shape.key_ids)


def _applies(shard: ShardResult) -> bool:
    return bool(shard.fate.writes.any() or shard.fate.tombstones.any())


def _names(mirror: Mirror | None, path: str) -> bool:
    """Does the index, as it was committed, name the segment?"""
    root = mirror.root if mirror else None
    return root is not None and any(segment.path == path for segment in root.segments)


def _first_row_ids(mirror: Mirror, schema: Schema) -> tuple[int | None, ...] | None:
    """The first row id of each indexed data file, from format v3 on."""
    if mirror.table.metadata.format_version < 3:
        return None
    require_free_names(".".join(mirror.table.name()), schema)
    live = live_files(mirror.table.io, mirror.head)
    return tuple(
        live[file.path].first_row_id if file.path in live else None
        for file in (mirror.root.files if mirror.root else ())
    )
