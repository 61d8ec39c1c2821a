"""Rebuilds missing or damaged segments of the index from the data files whose rows they index.

    data files of the mirror ─► live rows                               ┐
    changelog up to the cursor ─► orders and tombstones                 ├─► entries of the segment
    deleted positions ─► tombstones of rows that another engine deleted ┘

Reads only key, operation and sequence of the changelog. A row without an event gets the greatest order of the
segment, so that no replay overwrites it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from pyiceberg.io import FileIO

from icemirror.errors import Invalid
from icemirror.processes.crash_points import crash_point
from icemirror.telemetry.logs import get_log
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.read_events import newest_order
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.distinct import distinct
from spark_job.engine.engine import Engine
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.mirror import Mirror
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo
from spark_job.maintenance.foreign_files import commits_before_foreign_files
from spark_job.maintenance.index_foreign_writes import newest_order_in_index, to_indexed_file
from spark_job.maintenance.rebuild_segment_work import GREATEST_KEY, RebuildSegmentWork, SegmentDataFile
from spark_job.merge.locate import SearchableIndex
from spark_job.storage.discard import discard_on_error
from spark_job.write.read_deletes import read_deleted_positions

log = get_log(__name__)


@dataclass(frozen=True)
class SegmentRebuilder:
    """Rebuilds segments of one mirror. `history` returns the changelog files that are merged."""

    engine: Engine
    changelog_io: FileIO
    history: Callable[[], Sequence[ChangelogFile]]
    shape: ChangelogShape
    location: str

    def rebuild(self, mirror: Mirror, damaged: Set[str]) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
        """Return the mirror with a readable index, and the segments written for it.

        The whole index is rebuilt if another engine committed since: its deletes cannot be distinguished from those
        of the damaged segment.
        """
        root = mirror.root
        is_damaged = root is not None and any(segment.path in damaged for segment in root.segments)
        if mirror.root_unreadable or (is_damaged and mirror.has_foreign_writes):
            return self._rebuild_all(mirror)
        if root is None or not is_damaged:
            return mirror, ()
        segments, added = list(root.segments), list[SegmentInfo]()
        with discard_on_error(mirror.table.io) as written:
            for index in reversed(range(len(segments))):  # oldest first: newer ones depend on it
                segment = segments[index]
                if segment.path in damaged:
                    work = self._plan_work(mirror, root, segment, tuple(segments[index + 1 :]))
                    rebuilt = self._run(work, segment.sorted_run, segment.written_at_ms)
                    segments[index : index + 1] = rebuilt
                    added.extend(rebuilt)
                    written += [new_segment.path for new_segment in rebuilt]
        return replace(mirror, root=root.model_copy(update={"segments": tuple(segments)})), tuple(added)

    def _rebuild_all(self, mirror: Mirror) -> tuple[Mirror, tuple[SegmentInfo, ...]]:
        """Return the mirror with an index that was rebuilt for its head, and its segments."""
        live = live_files(mirror.table.io, mirror.head)
        root = Root(
            snapshot_id=mirror.head.snapshot_id if mirror.head else 0,
            epoch=mirror.epoch,
            segments=(),
            files=tuple(map(to_indexed_file, live.values())),
        )
        work = self._plan_work(mirror, root, None, ())
        root = _with_live_rows(root, work.data_files)
        default_order = (
            newest_order_in_index(mirror.root, len(work.default_order))
            if mirror.root
            else newest_order(self.changelog_io, work.history, self.shape)
        )
        segments = self._run(
            replace(work, default_order=default_order), root.next_sorted_run, int(time.time() * 1000)
        )
        root = root.model_copy(update={"segments": segments, "next_sorted_run": root.next_sorted_run + 1})
        return replace(mirror, root=root, root_unreadable=False, has_foreign_writes=False), segments

    def _run(self, work: RebuildSegmentWork, sorted_run: int, written_at_ms: int) -> tuple[SegmentInfo, ...]:
        """Return the segments that the work wrote, with their run."""
        log.warning(
            "rebuilding segments of the key index",
            data_files=sum(file.read_all_rows for file in work.data_files),
            changelog_files=len(work.history),
        )
        shards = self.engine.run(work) if work.files else []
        crash_point("segments-rebuilt")
        return tuple(
            shard.segment.with_sorted_run(sorted_run, written_at_ms) for shard in shards if shard.segment
        )

    def _plan_work(
        self, mirror: Mirror, root: Root, damaged: SegmentInfo | None, older: tuple[SegmentInfo, ...]
    ) -> RebuildSegmentWork:
        """Return the work that rebuilds a damaged segment above older ones; None: the whole index."""
        io = mirror.table.io
        live = live_files(io, mirror.head)
        live_by_ordinal = {
            ordinal: live[file.path] for ordinal, file in enumerate(root.files) if file.path in live
        }
        deleted = read_deleted_positions(
            io, {file.path: file for file in live_by_ordinal.values() if file.deleted_rows}
        )
        commits_before = commits_before_foreign_files(mirror.table.metadata, live)
        no_positions = np.empty(0, dtype=np.int64)
        data_files = [
            SegmentDataFile(
                file.path,
                ordinal,
                file.rows,
                distinct(deleted.get(file.path, no_positions)),
                read_all_rows=damaged is None or ordinal in damaged.files,
                commit_before=commits_before.get(file.path),
            )
            for ordinal, file in live_by_ordinal.items()
        ]
        return RebuildSegmentWork(
            changelog_io=self.changelog_io,
            history=self._history(),
            io=io,
            data_files=tuple(file for file in data_files if file.read_all_rows or len(file.deleted)),
            shape=self.shape,
            key_ids=tuple(mirror.field_map[key_id] for key_id in self.shape.key_ids),
            older_index=SearchableIndex(io, older, root.removed_ordinals),
            default_order=damaged.greatest_order if damaged else (0,) * (self.shape.sequence.parts + 1),
            first_key=damaged.first_key if damaged else 0,
            last_key=damaged.last_key if damaged else GREATEST_KEY,
            location=self.location,
            rebuilds_whole_index=damaged is None,
        )

    def _history(self) -> tuple[ChangelogFile, ...]:
        try:
            return tuple(self.history())
        except Invalid as error:
            log.warning("row order no longer recoverable from the changelog", reason=str(error))
            return ()


def _with_live_rows(root: Root, data_files: Sequence[SegmentDataFile]) -> Root:
    """Return the root with the live rows of each data file; `data_files` has all of them."""
    files = [
        root.files[file.ordinal].model_copy(update={"live_rows": file.rows - len(file.deleted)})
        for file in data_files
    ]
    return root.model_copy(update={"files": tuple(files)})
