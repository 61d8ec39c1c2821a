"""Merges a key range of several runs into one segment. The newest entry of each key stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyiceberg.io import FileIO

from spark_job.index.blocks import read_directory
from spark_job.index.keys import Indices, Mask, concat_keys
from spark_job.index.orders import greatest_order
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import TOMBSTONE, Entries, SegmentInfo, reading_segment
from spark_job.index.tiers import (
    PIECE_ENTRIES,
    BlockStarts,
    RunGroup,
    SegmentRun,
    find_cut_key,
    ranges_overlap,
)
from spark_job.index.write_segment import write_new_segment


@dataclass(frozen=True, slots=True)
class IndexPiece:
    """A key range to merge: the segments of a group, newest first.

    `includes_oldest_run`: the index has no older run.
    """

    target: int
    inputs: tuple[SegmentInfo, ...]
    first_key: int
    last_key: int
    entries: int
    includes_oldest_run: bool = False


def plan_pieces(
    io: FileIO, group: RunGroup, runs: Sequence[SegmentRun], max_entries: int
) -> Iterator[IndexPiece]:
    """Yield pieces of a group in key order, until they contain about `max_entries` entries."""
    inputs = [segment for run in runs if run.number in group.inputs for segment in run.segments]
    includes_oldest_run = runs[-1].number in group.inputs
    starts = {segment.path: _starts(io, segment) for segment in inputs}
    last = max(segment.last_key for segment in inputs)
    first = min(segment.first_key for segment in inputs)
    while max_entries > 0 and first <= last:
        remaining = [segment for segment in inputs if segment.last_key >= first]
        first = max(first, min(segment.first_key for segment in remaining))
        blocks = [starts[segment.path] for segment in remaining]
        cut = find_cut_key(blocks, first, last, min(max_entries, PIECE_ENTRIES))
        touched = tuple(segment for segment in remaining if segment.first_key <= cut)
        entries = sum(_count(starts[segment.path], max(first, segment.first_key), cut) for segment in touched)
        yield IndexPiece(group.target, touched, first, cut, entries, includes_oldest_run)
        max_entries -= max(entries, 1)
        first = cut + 1


def _starts(io: FileIO, segment: SegmentInfo) -> BlockStarts:
    with reading_segment(segment.path):
        directory = read_directory(io, segment)
    ends = np.append(directory.entries_before[1:], np.uint64(segment.entries))
    return BlockStarts(directory.first, ends - directory.entries_before)


def _count(starts: BlockStarts, first: int, last: int) -> int:
    """Estimate a segment's entries in a key range: those of the touched blocks, at most one per key."""
    inside = starts.first.bounds(first, last)
    touched = int(starts.entries[max(inside.start - 1, 0) : inside.stop].sum())
    return min(touched, last - first + 1)


def is_move(runs: Sequence[SegmentRun]) -> bool:
    """Whether the runs become one without a rewrite: they are large, and their keys do not overlap."""
    segments = [segment for run in runs for segment in run.segments]
    large = sum(segment.entries for segment in segments) >= len(segments) * PIECE_ENTRIES // 4
    return large and not ranges_overlap(runs)


@dataclass(frozen=True, slots=True)
class MergedPiece:
    """The merged segment, or None if it would be empty, and the greatest order of the tombstones that expired."""

    segment: SegmentInfo | None
    newest_expired_order: tuple[int, ...] | None = None


def merge_piece(
    io: FileIO,
    piece: IndexPiece,
    location: str,
    paths: Sequence[str],
    removed_ordinals: frozenset[int] = frozenset(),
    expire_before_ms: int = 0,
) -> MergedPiece:
    """Merge a piece and write the result. `paths` are the root's data files.

    Entries of files in `removed_ordinals` become tombstones. Tombstones of runs written before `expire_before_ms` are
    dropped if no older run can contain the key.
    """
    parts: list[Entries] = []
    expirable: list[Mask] = []
    for segment in piece.inputs:
        with reading_segment(segment.path):
            entries = read_segment_entries(io, segment, piece.first_key, piece.last_key)
        expirable.append(
            (entries.file == TOMBSTONE)
            & (piece.includes_oldest_run and segment.written_at_ms < expire_before_ms)
        )
        parts.append(_to_root_ordinals(segment, entries, removed_ordinals))
    merged, indices = _newest(parts)
    expires = np.concatenate(expirable)[indices]
    expired = greatest_order(merged.orders[expires]) if expires.any() else None
    key_definition = piece.inputs[0].key_definition
    written = write_new_segment(io, location, _take(merged, ~expires), key_definition, dict(enumerate(paths)))
    if written is None:
        return MergedPiece(None, expired)
    written_at_ms = max(segment.written_at_ms for segment in piece.inputs)
    return MergedPiece(written.with_run(piece.target, written_at_ms), expired)


def _to_root_ordinals(segment: SegmentInfo, entries: Entries, removed_ordinals: frozenset[int]) -> Entries:
    """Return the entries with the root's ordinals instead of the segment's. Entries of removed files are tombstones."""
    files = [TOMBSTONE if ordinal in removed_ordinals else ordinal for ordinal in segment.files]
    file = np.array([*files, TOMBSTONE], dtype=np.int32)[entries.file]  # −1 picks the last
    return replace(entries, file=file, pos=np.where(file < 0, 0, entries.pos))


def _newest(parts: Sequence[Entries]) -> tuple[Entries, Indices]:
    """Return for each key the entry of the first part that contains it, and its index in the concatenated parts."""
    all_entries = Entries(
        concat_keys([part.keys for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.orders for part in parts]),
    )
    order = all_entries.keys.argsort()  # stable: the newest of equal keys comes first
    if len(order):
        order = order[np.concatenate([[True], ~all_entries.keys.take(order).same_as_next()])]
    return _take(all_entries, order), order


def _take(entries: Entries, indices: Indices | Mask) -> Entries:
    return Entries(
        entries.keys.take(indices), entries.file[indices], entries.pos[indices], entries.orders[indices]
    )
