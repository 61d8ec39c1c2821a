"""Merges runs of the index in parallel with a slice. The slice's commit publishes the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.io import FileIO

from icemirror.processes.crash_points import reach
from spark_job.index.merge_segments import MergedPiece, Piece, is_move, merge_piece, plan_pieces
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
    gone: frozenset[int] = frozenset()
    groups: tuple[RunGroup, ...] = ()
    moved: tuple[RunGroup, ...] = ()
    pieces: tuple[Piece, ...] = ()
    next_run: int = 1
    expired: tuple[int, ...] | None = None
    expire_before: int = 0

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
    expired: tuple[int, ...] | None = None


def plan_index_merge(
    io: FileIO, location: str, root: Root | None, added: int, expire_before: int = 0
) -> IndexMerge:
    """Plan what a commit that adds `added` entries merges. Tombstones written before `expire_before` may be dropped."""
    if root is None:
        return IndexMerge(io, location)
    runs = group_runs(root.segments)
    groups = choose_groups(runs, root.merging, root.next_run)
    by_number = {run.number: run for run in runs}
    moved = [
        group for group in groups if is_move([by_number[one] for one in group.inputs if one in by_number])
    ]
    budget = merge_budget(added)
    pieces: list[Piece] = []
    for group in groups:
        if group not in moved and budget > 0:
            planned = list(plan_pieces(io, group, runs, budget))
            budget -= sum(piece.entries for piece in planned)
            pieces.extend(planned)
    return IndexMerge(
        io,
        location,
        tuple(file.path for file in root.files),
        root.gone,
        tuple(groups),
        tuple(moved),
        tuple(pieces),
        max([root.next_run, *(group.target + 1 for group in groups)]),
        root.expired,
        expire_before,
    )


def run_index_merge(merge: IndexMerge) -> list[MergedPiece]:
    """Merge all pieces. An error leaves no file behind."""
    done: list[MergedPiece] = []
    with discard_on_error(merge.io) as written:
        for piece in merge.pieces:
            done.append(
                merge_piece(merge.io, piece, merge.location, merge.paths, merge.gone, merge.expire_before)
            )
            written += merged_paths(done[-1:])
            reach("index-merged")
    return done


def merged_paths(done: Sequence[MergedPiece]) -> list[str]:
    """Return the paths of the files that were written."""
    return [one.segment.path for one in done if one.segment]


def apply_index_merge(
    segments: Sequence[SegmentInfo],
    merge: IndexMerge,
    merged: Sequence[MergedPiece],
    caught: Sequence[SegmentInfo] = (),
) -> MergedIndex:
    """Cut the merged ranges off the old segments and insert the new segments in their place. Pure.

    `caught`: those of `segments` that are new because a foreign write was indexed.
    """
    moved = {number: group.target for group in merge.moved for number in group.inputs}
    group_of = {number: group.target for group in merge.groups for number in group.inputs}
    reached = {piece.target: piece.last_key for piece in merge.pieces}
    new: dict[int, list[SegmentInfo]] = {}
    for piece, done in zip(merge.pieces, merged, strict=True):
        if done.segment is not None:
            new.setdefault(piece.target, []).append(done.segment)
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
    added = (*caught, *(done.segment for done in merged if done.segment))
    expired = [order for order in (merge.expired, *(done.expired for done in merged)) if order]
    return MergedIndex(
        segments=tuple(kept),
        added=added,
        merging=tuple(group for group in merge.groups if remaining.intersection(group.inputs)),
        next_run=merge.next_run,
        expired=max(expired, default=None),
    )
