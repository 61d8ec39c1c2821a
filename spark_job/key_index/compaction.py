"""Merges a range of keys of several runs into one segment: the newest entry of each key stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyiceberg.io import FileIO

from spark_job.key_index.blocks import read_directory
from spark_job.key_index.damage import reading_segment
from spark_job.key_index.keys import concat_keys
from spark_job.key_index.numbered import write_entries
from spark_job.key_index.scan import read_entries
from spark_job.key_index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.key_index.tiers import PIECE_ENTRIES, BlockStarts, Group, Run, cut_key, overlap


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of keys in the segments of a group, newest first."""

    target: int
    inputs: tuple[SegmentInfo, ...]
    first_key: int
    last_key: int
    entries: int


def plan_pieces(io: FileIO, group: Group, runs: Sequence[Run], most: int) -> Iterator[Piece]:
    """Pieces of a group, in key order, until about `most` entries are in them."""
    inputs = [segment for run in runs if run.number in group.inputs for segment in run.segments]
    starts = {segment.path: _starts(io, segment) for segment in inputs}
    last = max(segment.last_key for segment in inputs)
    first = min(segment.first_key for segment in inputs)
    while most > 0 and first <= last:
        left = [segment for segment in inputs if segment.last_key >= first]
        first = max(first, min(segment.first_key for segment in left))
        cut = cut_key([starts[segment.path] for segment in left], first, last, min(most, PIECE_ENTRIES))
        touched = tuple(segment for segment in left if segment.first_key <= cut)
        entries = sum(_count(starts[segment.path], max(first, segment.first_key), cut) for segment in touched)
        yield Piece(group.target, touched, first, cut, entries)
        most -= max(entries, 1)
        first = cut + 1


def _starts(io: FileIO, segment: SegmentInfo) -> BlockStarts:
    with reading_segment(segment.path):
        directory = read_directory(io, segment)
    ends = np.append(directory.entries_before[1:], np.uint64(segment.entries))
    return BlockStarts(directory.first, ends - directory.entries_before)


def _count(starts: BlockStarts, first: int, last: int) -> int:
    """About how many entries a segment has in a range: those of the touched blocks, but not more than keys."""
    inside = starts.first.bounds(first, last)
    touched = int(starts.entries[max(inside.start - 1, 0) : inside.stop].sum())
    return min(touched, last - first + 1)


def is_move(runs: Sequence[Run]) -> bool:
    """Large runs that do not overlap are one run already."""
    segments = [segment for run in runs for segment in run.segments]
    large = sum(segment.entries for segment in segments) >= len(segments) * PIECE_ENTRIES // 4
    return large and not overlap(runs)


def merge_piece(
    io: FileIO, piece: Piece, location: str, paths: Sequence[str], gone: frozenset[int] = frozenset()
) -> SegmentInfo | None:
    """Writes the segment that the piece becomes; None if nothing is left. `paths` are the root's data files."""
    parts: list[Entries] = []
    for segment in piece.inputs:
        with reading_segment(segment.path):
            parts.append(_on_root(segment, read_entries(io, segment, piece.first_key, piece.last_key), gone))
    written = write_entries(io, location, _newest(parts), piece.inputs[0].recipe, dict(enumerate(paths)))
    if written is None:
        return None
    written_at = max(one.written_at for one in piece.inputs)
    return written.model_copy(update={"run": piece.target, "written_at": written_at})


def _on_root(segment: SegmentInfo, entries: Entries, gone: frozenset[int]) -> Entries:
    """The entries with the root's ordinals for files; rows of files that are gone are tombstones."""
    files = [TOMBSTONE if ordinal in gone else ordinal for ordinal in segment.files]
    file = np.array([*files, TOMBSTONE], dtype=np.int32)[entries.file]  # −1 picks the last
    return replace(entries, file=file, pos=np.where(file < 0, 0, entries.pos))


def _newest(parts: Sequence[Entries]) -> Entries:
    """Of each key the entry of the first part that has it, ascending by key."""
    keys = concat_keys([part.keys for part in parts])
    order = keys.argsort()  # stable: the newest of equal keys comes first
    keys = keys.take(order)
    keep = np.concatenate([[True], ~keys.same_as_next()]) if len(keys) else np.empty(0, dtype=np.bool_)
    order = order[keep]
    return Entries(
        keys.take(keep),
        np.concatenate([part.file for part in parts])[order],
        np.concatenate([part.pos for part in parts])[order],
        np.concatenate([part.orders for part in parts])[order],
    )
