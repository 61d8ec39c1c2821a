"""Merges runs of the index in parallel with a slice. The slice's commit publishes the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO

from icemirror.processes.crash_points import reach
from spark_job.index.merge_segments import IndexPiece, MergedPiece, is_move, merge_piece, plan_pieces
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo
from spark_job.index.tiers import RunGroup, choose_groups, group_runs, merge_budget
from spark_job.storage.discard import discard_on_error


@dataclass(frozen=True)
class IndexMerge:
    """What to merge. `groups` are all groups in progress, `moved` those that only change their run number."""

    io: FileIO
    location: str
    paths: tuple[str, ...] = ()
    removed_ordinals: frozenset[int] = frozenset()
    groups: tuple[RunGroup, ...] = ()
    moved: tuple[RunGroup, ...] = ()
    pieces: tuple[IndexPiece, ...] = ()
    next_run: int = 1
    newest_expired_order: tuple[int, ...] | None = None
    expire_before_ms: int = 0

    @property
    def entries(self) -> int:
        """Estimated number of entries to read."""
        return sum(piece.entries for piece in self.pieces)


@dataclass(frozen=True)
class MergedIndex:
    """The segments of the index after the merge. `added` are the new ones among them."""

    segments: tuple[SegmentInfo, ...]
    added: tuple[SegmentInfo, ...] = ()
    merging: tuple[RunGroup, ...] = ()
    next_run: int = 1
    newest_expired_order: tuple[int, ...] | None = None


def plan_index_merge(
    io: FileIO, location: str, root: Root | None, added: int, expire_before_ms: int = 0
) -> IndexMerge:
    """Plan what a commit that adds `added` entries merges.

    Tombstones written before `expire_before_ms` may be dropped.
    """
    if root is None:
        return IndexMerge(io, location)
    runs = group_runs(root.segments)
    groups = choose_groups(runs, root.merging, root.next_run)
    by_number = {run.number: run for run in runs}
    moved = [
        group
        for group in groups
        if is_move([by_number[number] for number in group.inputs if number in by_number])
    ]
    budget = merge_budget(added)
    pieces: list[IndexPiece] = []
    for group in groups:
        if group not in moved and budget > 0:
            planned = list(plan_pieces(io, group, runs, budget))
            budget -= sum(piece.entries for piece in planned)
            pieces.extend(planned)
    return IndexMerge(
        io,
        location,
        tuple(file.path for file in root.files),
        root.removed_ordinals,
        tuple(groups),
        tuple(moved),
        tuple(pieces),
        max([root.next_run, *(group.target + 1 for group in groups)]),
        root.newest_expired_order,
        expire_before_ms,
    )


def run_index_merge(merge: IndexMerge) -> list[MergedPiece]:
    """Merge all pieces. An error leaves no file behind."""
    merged: list[MergedPiece] = []
    with discard_on_error(merge.io) as written:
        for piece in merge.pieces:
            merged.append(
                merge_piece(
                    merge.io,
                    piece,
                    merge.location,
                    merge.paths,
                    merge.removed_ordinals,
                    merge.expire_before_ms,
                )
            )
            written += merged_paths(merged[-1:])
            reach("index-merged")
    return merged


def merged_paths(merged: Sequence[MergedPiece]) -> list[str]:
    """Return the paths of the files that were written."""
    return [piece.segment.path for piece in merged if piece.segment]


def apply_index_merge(
    segments: Sequence[SegmentInfo],
    merge: IndexMerge,
    merged: Sequence[MergedPiece],
    repaired: Sequence[SegmentInfo] = (),
) -> MergedIndex:
    """Cut the merged ranges off the old segments, and insert the new segments there. Pure.

    `repaired`: those of `segments` that are new because a foreign write was indexed.
    """
    moved = {number: group.target for group in merge.moved for number in group.inputs}
    group_of = {number: group.target for group in merge.groups for number in group.inputs}
    reached = {piece.target: piece.last_key for piece in merge.pieces}
    new: dict[int, list[SegmentInfo]] = {}
    for piece, merged_piece in zip(merge.pieces, merged, strict=True):
        if merged_piece.segment is not None:
            new.setdefault(piece.target, []).append(merged_piece.segment)
    kept: list[SegmentInfo] = []
    for segment in segments:
        target = group_of.get(segment.run)
        if target is None or (target not in reached and segment.run not in moved):
            kept.append(segment)
        elif segment.run in moved:
            kept.append(segment.model_copy(update={"run": target}))
        else:
            kept.extend(new.pop(target, ()))
            if segment.last_key > reached[target]:
                first = max(segment.first_key, reached[target] + 1)
                kept.append(segment.model_copy(update={"first_key": first}))
    remaining = {segment.run for segment in kept}
    added = (*repaired, *(merged_piece.segment for merged_piece in merged if merged_piece.segment))
    expired_orders = [
        order
        for order in (
            merge.newest_expired_order,
            *(merged_piece.newest_expired_order for merged_piece in merged),
        )
        if order
    ]
    return MergedIndex(
        segments=tuple(kept),
        added=added,
        merging=tuple(group for group in merge.groups if remaining.intersection(group.inputs)),
        next_run=merge.next_run,
        newest_expired_order=max(expired_orders, default=None),
    )
