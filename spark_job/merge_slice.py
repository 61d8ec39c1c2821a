"""One slice: the index brought up to the mirror's head → the shards' files → bad rows put aside → one commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from icemirror.crash import reach
from icemirror.errors import Conflict
from icemirror.result import Merged
from icemirror.telemetry.logs import bind, get_log
from spark_job.append_rows import AppendWork, counted
from spark_job.changelog.rejected import gather_rejected
from spark_job.commit_slice import NO_LABELS, commit_slice
from spark_job.files.discard import discard
from spark_job.files.written import written_before_commit
from spark_job.first_look import look_first
from spark_job.iceberg.create import check_definition, create_mirror
from spark_job.iceberg.failures import named_for
from spark_job.iceberg.mirror import REPLAY, Mirror, read_mirror
from spark_job.iceberg.tables import Catalogs
from spark_job.index_upkeep.catch_up import catch_up
from spark_job.index_upkeep.heal import Healer
from spark_job.index_upkeep.indexed_files import first_row_ids, indexed_files
from spark_job.key_index.index_location import index_location
from spark_job.key_index.index_merge import MergedIndex, apply_merge, merged_paths, plan_merge
from spark_job.key_index.segment import SegmentInfo
from spark_job.locate import Index
from spark_job.own_values import Before, OwnValues
from spark_job.planning.plan import Slice
from spark_job.planning.stock import Prepared
from spark_job.planning.truncated import follow_truncation
from spark_job.rejects.record import record_rejects
from spark_job.runtime.engine import LazyEngine, run_beside
from spark_job.schema_changes.evolution import Evolution, with_map
from spark_job.shard import ShardResult, SliceWork, without_history
from spark_job.slice_result import position_after, slice_result

log = get_log(__name__)


@dataclass(frozen=True)
class Attempt:
    """How a slice is merged: what planning it took, and what the attempts before found out.

    `damaged`: segments of the index that cannot be read. `ask_history`: the changelog before the slice has to be asked.
    """

    planned_seconds: float
    damaged: Set[str] = frozenset()
    ask_history: bool = False
    replay_id: str | None = None


@dataclass(frozen=True)
class _Written:
    """What there is to commit, on a mirror whose index knows all of its rows."""

    mirror: Mirror
    shards: Sequence[ShardResult]
    index: MergedIndex


@dataclass(frozen=True)
class SliceMerger:
    """Merges slices, each in one commit."""

    catalogs: Catalogs
    engine: LazyEngine
    run_id: str
    index_location: str | None
    key_check_rows: int | None
    clock: Callable[[], float]

    def merge(self, prepared: Prepared, part: Slice, attempt: Attempt) -> Merged | None:
        """Merges a slice; None where it is a replay that found nothing new, and so committed nothing."""
        began = self.clock()
        with named_for(prepared.settings.name), bind(batch=str(part.cursor.source.snapshot_id)):
            prepared, part = follow_truncation(prepared, part)
            self._look_first(prepared, part)
            mirror = self.ensure_mirror(prepared)
            mirror = with_map(prepared.settings, prepared.changelog, prepared.shape, mirror)
            prepared = replace(prepared, mirror=mirror)
            prepared.require_same_columns()
            evolution = prepared.evolution if part.files else None
            location = index_location(mirror.table.metadata, self.index_location)
            made = self._write(prepared, mirror, part, location, evolution, attempt)
            if made is None:
                return None
            labels = {REPLAY: attempt.replay_id} if attempt.replay_id else NO_LABELS
            outcome = commit_slice(
                made.mirror, part, made.shards, made.index, self.run_id, location, labels, evolution
            )
            if evolution is not None and evolution.schema is not None:
                log.info("columns of the mirror changed", changes=(*evolution.changes, *evolution.remarks))
            result = slice_result(part, outcome, attempt.planned_seconds, self.clock() - began)
            log.info("slice committed", **result.model_dump(exclude={"seconds_by_step"}))
        return Merged(slice=result, position=position_after(part, outcome))

    def _write(
        self,
        prepared: Prepared,
        before: Mirror,
        part: Slice,
        location: str,
        evolution: Evolution | None,
        attempt: Attempt,
    ) -> _Written | None:
        """All that the commit of a slice names but its deletes and its root; None where there is nothing to commit."""
        io, is_replay = before.table.io, attempt.replay_id is not None
        expire_before = int(1000 * (time.time() - prepared.settings.tombstone_retention))
        with written_before_commit(io) as written:
            mirror, mended = self._mend_index(prepared, before, location, attempt.damaged, written)
            work = replace(self.work(prepared, mirror, part, location, evolution), replay=is_replay)
            if attempt.ask_history:
                work = replace(work, history=tuple(prepared.merged_files()))
            elif is_replay and not mended:
                # Shards with news ask for the history before they write anything.
                self._reject(prepared, part, self.engine.run(work), written)
                return None
            merge = plan_merge(io, location, mirror.root, part.events, expire_before)
            moves = part.files or part.cursor != before.cursor
            behind = before.foreign or before.lost or mirror.root != before.root
            if not (moves or behind or merge.pieces or merge.moved):
                return None
            shards, merged = run_beside(self.engine, work if part.files else None, merge)
            written += merged_paths(merged)
            self._reject(prepared, part, shards, written)
        if is_replay and not mended and not any(map(_applies, shards)):
            discard(io, merged_paths(merged))
            return None
        segments = mirror.root.segments if mirror.root else ()
        return _Written(mirror, shards, apply_merge(segments, merge, merged, mended))

    def _mend_index(
        self, prepared: Prepared, mirror: Mirror, location: str, damaged: Set[str], written: list[str]
    ) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
        """The mirror with an index that knows all of its rows, and the segments that were written for that."""
        shape = prepared.shape.of_mirror(mirror.table.metadata.table_uuid)
        if shape.is_keyless:
            return counted(mirror), ()
        healer = Healer(self.engine, prepared.changelog.io, prepared.merged_files, shape, location)
        mirror, healed = healer.heal(mirror, damaged)
        written += [segment.path for segment in healed]
        mirror, caught = catch_up(self.engine, mirror, shape, location)
        written += [segment.path for segment in caught]
        return mirror, (*healed, *caught)

    def _reject(
        self, prepared: Prepared, part: Slice, shards: Sequence[ShardResult], written: list[str]
    ) -> None:
        """Puts the bad rows of a slice aside, after it was noted what the shards wrote."""
        written += [path for shard in shards for path in shard.paths]
        record_rejects(
            self.catalogs,
            prepared.settings,
            prepared.changelog,
            prepared.shape,
            part,
            gather_rejected([shard.rejected for shard in shards]),
            self.run_id,
        )

    def _look_first(self, prepared: Prepared, part: Slice) -> None:
        """Refuses bad input while there is no mirror yet: an empty one would be left behind."""
        if prepared.mirror is None:
            check_definition(prepared.settings, prepared.new_schema[0])
            look_first(self.engine, prepared.changelog.io, part.files, prepared.shape)

    def ensure_mirror(self, prepared: Prepared) -> Mirror:
        """The mirror, made where there is none."""
        if prepared.mirror is None or (prepared.mirror.head is None and not prepared.staged):
            schema, ids = prepared.new_schema
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

    def work(
        self,
        prepared: Prepared,
        mirror: Mirror,
        part: Slice,
        location: str,
        evolution: Evolution | None = None,
    ) -> SliceWork:
        """All that a task needs to know of a slice."""
        root, metadata = mirror.root, mirror.table.metadata
        before = Before.of(prepared.replaces, prepared.changelog, prepared.shape.truncated)
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
            first_row_ids=None if prepared.staged else first_row_ids(mirror, metadata.schema()),
            old_files=indexed_files(mirror, metadata, prepared.staged) if prepared.shape.keeps_values else (),
            own=OwnValues(evolution.own, int(1e6 * time.time()), before)
            if evolution and evolution.own
            else None,
        )


def _applies(shard: ShardResult) -> bool:
    return bool(shard.fate.writes.any() or shard.fate.tombstones.any())
