"""Plans which runs of the index a commit merges, and which key ranges of them.

A *group* is a set of runs that become one run, the *target*. A group is merged in several commits: each commit rewrites
a few *steps*, the next key ranges of the group. A group of large runs whose keys do not overlap needs no steps: its
runs only get a new run number, so they are *renumbered*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.io import FileIO

from spark_job.columns.arrays import U64
from spark_job.index.blocks import read_directory
from spark_job.index.damaged_segment import reading_segment
from spark_job.index.keys import Keys, concat_keys
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo
from spark_job.index.tiers import (
    SortedRun,
    SortedRunGroup,
    choose_groups,
    group_sorted_runs,
    merge_budget,
    ranges_overlap,
)

MAX_STEP_ENTRIES = 1 << 20


@dataclass(frozen=True, slots=True)
class IndexMergeStep:
    """A key range to merge into run `target`. `inputs`: the segments of a group that reach into it, newest first.

    `entries` is an estimate. `includes_oldest_run`: the index has no older run.
    """

    target: int
    inputs: tuple[SegmentInfo, ...]
    first_key: int
    last_key: int
    entries: int
    includes_oldest_run: bool = False


@dataclass(frozen=True)
class IndexMerge:
    """What a commit merges. `steps`: the key ranges that it rewrites. `groups`: all groups in progress.

    `renumbered`: groups that only change their run number. `paths`: the root's data files. Tombstones written before
    `expire_before_ms` may be dropped.
    """

    io: FileIO
    location: str
    paths: tuple[str, ...] = ()
    removed_ordinals: frozenset[int] = frozenset()
    groups: tuple[SortedRunGroup, ...] = ()
    renumbered: tuple[SortedRunGroup, ...] = ()
    steps: tuple[IndexMergeStep, ...] = ()
    next_sorted_run: int = 1
    newest_expired_tombstone_order: tuple[int, ...] | None = None
    expire_before_ms: int = 0

    @property
    def entries(self) -> int:
        """Estimated number of entries to read."""
        return sum(step.entries for step in self.steps)


def plan_index_merge(
    io: FileIO, location: str, root: Root | None, added: int, expire_before_ms: int = 0
) -> IndexMerge:
    """Return what a commit that adds `added` entries merges.

    Tombstones written before `expire_before_ms` may be dropped.
    """
    if root is None:
        return IndexMerge(io, location)
    runs = group_sorted_runs(root.segments)
    groups = choose_groups(runs, root.merging, root.next_sorted_run)
    renumbered = [
        group
        for group in groups
        if can_join_without_rewrite([run for run in runs if run.number in group.inputs])
    ]
    budget = merge_budget(added)
    steps: list[IndexMergeStep] = []
    for group in groups:
        if group not in renumbered and budget > 0:
            group_steps = list(plan_steps(io, group, runs, budget))
            budget -= sum(step.entries for step in group_steps)
            steps.extend(group_steps)
    return IndexMerge(
        io,
        location,
        paths=tuple(file.path for file in root.files),
        removed_ordinals=root.removed_ordinals,
        groups=tuple(groups),
        renumbered=tuple(renumbered),
        steps=tuple(steps),
        next_sorted_run=max([root.next_sorted_run, *(group.target + 1 for group in groups)]),
        newest_expired_tombstone_order=root.newest_expired_tombstone_order,
        expire_before_ms=expire_before_ms,
    )


def can_join_without_rewrite(runs: Sequence[SortedRun]) -> bool:
    """Return whether the runs become one by renumbering: they are large, and their keys do not overlap."""
    segments = [segment for run in runs for segment in run.segments]
    are_large = sum(segment.entries for segment in segments) >= len(segments) * MAX_STEP_ENTRIES // 4
    return are_large and not ranges_overlap(runs)


def plan_steps(
    io: FileIO, group: SortedRunGroup, runs: Sequence[SortedRun], max_entries: int
) -> Iterator[IndexMergeStep]:
    """Yield steps of a group in key order, until they contain about `max_entries` entries."""
    inputs = [segment for run in runs if run.number in group.inputs for segment in run.segments]
    includes_oldest_run = runs[-1].number in group.inputs
    starts = {segment.path: _read_block_starts(io, segment) for segment in inputs}
    last_key = max(segment.last_key for segment in inputs)
    first_key = min(segment.first_key for segment in inputs)
    while max_entries > 0 and first_key <= last_key:
        remaining = [segment for segment in inputs if segment.last_key >= first_key]
        first_key = max(first_key, min(segment.first_key for segment in remaining))
        blocks = [starts[segment.path] for segment in remaining]
        cut_key = find_cut_key(blocks, first_key, last_key, min(max_entries, MAX_STEP_ENTRIES))
        touched = tuple(segment for segment in remaining if segment.first_key <= cut_key)
        entries = sum(
            _estimate_entries(starts[segment.path], max(first_key, segment.first_key), cut_key)
            for segment in touched
        )
        yield IndexMergeStep(group.target, touched, first_key, cut_key, entries, includes_oldest_run)
        max_entries -= max(entries, 1)
        first_key = cut_key + 1


@dataclass(frozen=True, slots=True)
class BlockStarts:
    """The first key of each block of a segment, and the block's number of entries."""

    first: Keys
    entries: U64


def _read_block_starts(io: FileIO, segment: SegmentInfo) -> BlockStarts:
    with reading_segment(segment.path):
        directory = read_directory(io, segment)
    ends = np.append(directory.entries_before[1:], np.uint64(segment.entries))
    return BlockStarts(directory.first, ends - directory.entries_before)


def _estimate_entries(starts: BlockStarts, first_key: int, last_key: int) -> int:
    """Return at most how many entries a segment has in a key range: those of the touched blocks, or one per key."""
    inside = starts.first.slice_between(first_key, last_key)
    block_entries = int(starts.entries[max(inside.start - 1, 0) : inside.stop].sum())
    return min(block_entries, last_key - first_key + 1)


def find_cut_key(blocks: Sequence[BlockStarts], first_key: int, last_key: int, max_entries: int) -> int:
    """Return a key, at most `last_key`, such that about `max_entries` entries lie between `first_key` and it.

    The blocks of all segments are sorted by first key; a prefix sum of their entries then gives the cut. `beyond` is
    the first block after `first_key`; each segment may have one block before it that still reaches over `first_key`.
    """
    starts = concat_keys([segment_starts.first for segment_starts in blocks])
    entries = np.concatenate([segment_starts.entries for segment_starts in blocks])
    order = starts.argsort()
    starts = starts.take(order)
    entries_before = np.concatenate([[np.uint64(0)], np.cumsum(entries[order])])
    beyond = starts.slice_between(0, first_key).stop
    begin = max(beyond - len(blocks), 0)
    max_entries_before = entries_before[begin] + np.uint64(max_entries)
    end = int(np.searchsorted(entries_before, max_entries_before, side="right")) - 1
    end = max(end, beyond)
    cut_key = starts.at(end) - 1 if end < len(starts) else last_key
    if int(entries_before[end] - entries_before[begin]) > 2 * max_entries:
        # A long run of consecutive keys is one row of a block: cut by the number of keys instead.
        cut_key = min(cut_key, first_key + max_entries)
    return min(cut_key, last_key)
