"""The merge, top to bottom: take → plan → collapse → locate → write → index → commit → plan again."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace

from pyiceberg.table import Table

from icemirror.errors import Conflict, Corrupt, IcemirrorError
from icemirror.result import Merged, PlanResult, UpToDate
from icemirror.settings import Settings, TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.changelog.truncations import find_truncation, known_truncation
from spark_job.compaction.compact import Compacted, compact
from spark_job.compaction.left_alone import LeftAlone
from spark_job.compaction.move_rows import AstrayRow
from spark_job.doubtful import NeedsHistory
from spark_job.iceberg.column_types import require_mirrored_types
from spark_job.iceberg.create import check_definition
from spark_job.iceberg.failures import named_for
from spark_job.iceberg.mirror import Mirror, read_mirror
from spark_job.iceberg.readable_partitions import require_known_transforms
from spark_job.iceberg.tables import Catalogs
from spark_job.key_index.damage import DamagedSegment
from spark_job.key_index.index_location import index_location
from spark_job.lost_track import ChangelogAway, NoChangelog, SourceTruncated
from spark_job.merge_slice import Attempt, SliceMerger
from spark_job.planning.key_change import require_same_key
from spark_job.planning.left import left_after
from spark_job.planning.plan import Slice, SliceLimits
from spark_job.planning.stock import Prepared, plan_table, require_same_changelog
from spark_job.planning.support import require_supported
from spark_job.planning.task import Done, Task, next_task
from spark_job.planning.truncated import require_truncation_ahead
from spark_job.runtime.engine import LazyEngine
from spark_job.schema_changes.evolution import merges_from, with_map
from spark_job.schema_changes.row_columns import row_shape
from spark_job.slice_result import position_of

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
        attempts, damaged, ask_history, looked = 0, set(known_damage), False, False
        failure: IcemirrorError | None = None
        while attempts < _MOST_ATTEMPTS:
            began = self.clock()
            task = plan()
            if task.part is None:
                return Done(task)
            prepared, planned = task.prepared, self.clock() - began
            attempt = Attempt(planned, frozenset(damaged), ask_history, task.replay_id)
            try:
                return Done(task, self.merger.merge(prepared, task.part, attempt))
            except NeedsHistory as error:
                ask_history = True
                log.info("asking the changelog's history", reason=str(error))
            except SourceTruncated:
                if looked or known_truncation(task.part.files, prepared.shape):
                    raise
                looked = True
                # Remembered: the next looks know of it before they read all of the slice.
                find_truncation(prepared.changelog.io, task.part.files, prepared.shape)
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
        # As every plan does; here first, because what a changelog made anew lacks would be told instead.
        require_same_changelog(table, changelog, mirror)
        shape = row_shape(table, changelog, mirror)
        version = mirror.table.metadata.format_version if mirror else table.format_version
        require_mirrored_types(str(table.changelog_id), changelog.schema(), shape.row_ids, version)
        if mirror is not None:
            mirror = with_map(table, changelog, shape, mirror)
            if merges_from(mirror, changelog):
                require_same_key(table.name, mirror, shape)
            require_known_transforms(table.name, mirror.table.metadata)
        slices, lineage = plan_table(table, changelog, mirror, self.limits)
        prepared = Prepared(table, changelog, shape, mirror, slices, lineage)
        require_truncation_ahead(prepared)
        return prepared

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
            check_definition(table, prepared.new_schema[0])
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

    @property
    def merger(self) -> SliceMerger:
        """What merges one slice."""
        return SliceMerger(
            catalogs=self.catalogs,
            engine=self.engine,
            run_id=self.run_id,
            index_location=self.settings.index_location,
            key_check_rows=self.key_check_rows,
            clock=self.clock,
        )

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


def _names(mirror: Mirror | None, path: str) -> bool:
    """Does the index, as it was committed, name the segment?"""
    root = mirror.root if mirror else None
    return root is not None and any(segment.path == path for segment in root.segments)
