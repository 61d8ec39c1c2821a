"""Applies a finished index merge to the list of segments. Pure: the slice's commit publishes the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_job.index.merge_segments import MergedStep
from spark_job.index.plan_index_merge import IndexMerge
from spark_job.index.segment import SegmentInfo
from spark_job.index.tiers import SortedRunGroup


@dataclass(frozen=True)
class MergedIndex:
    """The segments of the index after the merge. `added` are the new ones among them."""

    segments: tuple[SegmentInfo, ...]
    added: tuple[SegmentInfo, ...] = ()
    merging: tuple[SortedRunGroup, ...] = ()
    next_sorted_run: int = 1
    newest_expired_tombstone_order: tuple[int, ...] | None = None


def apply_index_merge(
    segments: Sequence[SegmentInfo],
    merge: IndexMerge,
    merged: Sequence[MergedStep],
    repaired: Sequence[SegmentInfo] = (),
) -> MergedIndex:
    """Return the index after the merge: new segments in place of the merged key ranges, which leave the old segments.

    `repaired`: those of `segments` that are new because a foreign write was indexed.
    """
    renumbered_runs = {number for group in merge.renumbered for number in group.inputs}
    target_by_run = {number: group.target for group in merge.groups for number in group.inputs}
    merged_up_to = {step.target: step.last_key for step in merge.steps}
    new_segments: dict[int, list[SegmentInfo]] = {}
    for step, merged_step in zip(merge.steps, merged, strict=True):
        if merged_step.segment is not None:
            new_segments.setdefault(step.target, []).append(merged_step.segment)
    result: list[SegmentInfo] = []
    for segment in segments:
        target = target_by_run.get(segment.sorted_run)
        if target is None or (target not in merged_up_to and segment.sorted_run not in renumbered_runs):
            result.append(segment)
        elif segment.sorted_run in renumbered_runs:
            result.append(segment.model_copy(update={"sorted_run": target}))
        else:
            result.extend(new_segments.pop(target, ()))
            if segment.last_key > merged_up_to[target]:
                first_key = max(segment.first_key, merged_up_to[target] + 1)
                result.append(segment.model_copy(update={"first_key": first_key}))
    remaining_runs = {segment.sorted_run for segment in result}
    expired_orders = [
        merge.newest_expired_tombstone_order,
        *(step.newest_expired_tombstone_order for step in merged),
    ]
    return MergedIndex(
        segments=tuple(result),
        added=(*repaired, *(step.segment for step in merged if step.segment)),
        merging=tuple(group for group in merge.groups if remaining_runs.intersection(group.inputs)),
        next_sorted_run=merge.next_sorted_run,
        newest_expired_tombstone_order=max((order for order in expired_orders if order), default=None),
    )
