"""Merges key ranges of several runs into one segment each. The newest entry of each key remains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from icemirror.processes.crash_points import crash_point
from spark_job.columns.arrays import Indices, Mask
from spark_job.index.damaged_segment import reading_segment
from spark_job.index.orders import greatest_order
from spark_job.index.plan_index_merge import IndexMerge, IndexMergeStep
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo, concat_entries
from spark_job.index.write_segment import write_new_segment
from spark_job.storage.discard import discard_on_error


@dataclass(frozen=True, slots=True)
class MergedStep:
    """The merged segment, or None if it would be empty, and the greatest order of the tombstones that expired."""

    segment: SegmentInfo | None
    newest_expired_tombstone_order: tuple[int, ...] | None = None


def run_index_merge(merge: IndexMerge) -> list[MergedStep]:
    """Merge all steps and return their segments. An error leaves no file behind."""
    merged: list[MergedStep] = []
    with discard_on_error(merge.io) as written:
        for step in merge.steps:
            merged.append(merge_step(merge, step))
            written += merged_paths(merged[-1:])
            crash_point("index-merged")
    return merged


def merged_paths(merged: Sequence[MergedStep]) -> list[str]:
    """Return the paths of the files that were written."""
    return [step.segment.path for step in merged if step.segment]


def merge_step(merge: IndexMerge, step: IndexMergeStep) -> MergedStep:
    """Write the segment of one step.

    Entries of removed data files become tombstones. Tombstones of runs written before `merge.expire_before_ms` are
    dropped if no older run can contain the key.
    """
    parts: list[Entries] = []
    expirable: list[Mask] = []
    for segment in step.inputs:
        with reading_segment(segment.path):
            entries = read_segment_entries(merge.io, segment, step.first_key, step.last_key)
        expirable.append(
            (entries.file == TOMBSTONE)
            & (step.includes_oldest_run and segment.written_at_ms < merge.expire_before_ms)
        )
        parts.append(_to_root_ordinals(segment, entries, merge.removed_ordinals))
    newest, indices = _keep_newest(parts)
    expires = np.concatenate(expirable)[indices]
    expired_order = greatest_order(newest.orders[expires]) if expires.any() else None
    segment_written = write_new_segment(
        merge.io,
        merge.location,
        newest.take(~expires),
        step.inputs[0].key_definition,
        dict(enumerate(merge.paths)),
    )
    if segment_written is None:
        return MergedStep(None, expired_order)
    written_at_ms = max(segment.written_at_ms for segment in step.inputs)
    return MergedStep(segment_written.with_sorted_run(step.target, written_at_ms), expired_order)


def _to_root_ordinals(segment: SegmentInfo, entries: Entries, removed_ordinals: frozenset[int]) -> Entries:
    """Return the entries with the root's ordinals instead of the segment's. Entries of removed files are tombstones."""
    root_ordinals = [TOMBSTONE if ordinal in removed_ordinals else ordinal for ordinal in segment.files]
    file = np.array([*root_ordinals, TOMBSTONE], dtype=np.int32)[entries.file]  # −1 picks the last
    return replace(entries, file=file, pos=np.where(file < 0, 0, entries.pos))


def _keep_newest(parts: Sequence[Entries]) -> tuple[Entries, Indices]:
    """Return for each key the entry of the first part that contains it, and its index in the concatenated parts."""
    entries = concat_entries(parts)
    order = entries.keys.argsort()  # stable: the newest of equal keys comes first
    if len(order):
        order = order[np.concatenate([[True], ~entries.keys.take(order).same_as_next()])]
    return entries.take(order), order
