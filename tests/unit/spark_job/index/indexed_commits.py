"""An index with commits, and its expected content."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_job.index import tiers
from spark_job.index.apply_index_merge import apply_index_merge
from spark_job.index.key_codec import KeyCodec
from spark_job.index.merge_segments import run_index_merge
from spark_job.index.plan_index_merge import plan_index_merge
from spark_job.index.root import IndexedFile, Root
from spark_job.index.segment import Entries, SegmentInfo
from spark_job.index.tiers import group_sorted_runs
from spark_job.merge import locate
from spark_job.merge.locate import locate_keys
from tests.unit.spark_job.index.samples import (
    make_entries,
    make_keys,
    store,
)

FILES = tuple(IndexedFile(path=name, rows=1, live_rows=1) for name in "abc")


@dataclass
class Commits:
    """An index with commits, and a dictionary of its expected content."""

    io: PyArrowFileIO
    folder: Path
    codec: KeyCodec
    root: Root = field(default_factory=lambda: Root(snapshot_id=1, epoch=0, segments=(), files=FILES))
    known: dict[int, tuple[int, int, tuple[int, ...]]] = field(default_factory=dict)
    rewritten: list[int] = field(default_factory=list)

    def commit(self, numbers: list[int], random: np.random.Generator, shards: int = 1) -> None:
        merge = plan_index_merge(self.io, str(self.folder), self.root, len(numbers))
        merged = apply_index_merge(self.root.segments, merge, run_index_merge(merge))
        entries = make_entries(self.codec, numbers, random)
        segments: list[SegmentInfo] = []
        for positions in np.array_split(np.arange(len(numbers)), shards):
            if len(positions):
                shard = Entries(
                    entries.keys.take(positions),
                    entries.file[positions],
                    entries.pos[positions],
                    entries.orders[positions],
                )
                segment = store(self.io, self.folder, shard, self.codec)
                segments.append(segment.model_copy(update={"sorted_run": merged.next_sorted_run}))
        for position, number in enumerate(numbers):
            order = tuple(int(part) for part in entries.orders[position])
            self.known[number] = (int(entries.file[position]), int(entries.pos[position]), order)
        self.rewritten.append(sum(segment.entries for segment in merged.added))
        self.root = self.root.model_copy(
            update={
                "segments": (*segments, *merged.segments),
                "next_sorted_run": merged.next_sorted_run + 1,
                "merging": merged.merging,
            }
        )

    def check(self) -> None:
        numbers = sorted(self.known)
        orders = np.array([self.known[number][2] for number in numbers], dtype=np.uint64)
        found = locate_keys(
            locate.SearchableIndex(self.io, self.root.segments), make_keys(self.codec, numbers), orders
        )
        expected = [self.known[number] for number in numbers]
        assert found.file.tolist() == [file for file, _, _ in expected]
        assert found.pos.tolist() == [pos for _, pos, _ in expected]
        assert not found.order_comparison.any()
        for run in group_sorted_runs(self.root.segments):
            assert not tiers.ranges_overlap([run])
