"""Merges a range of keys of several runs into one segment: the newest entry of each key stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyiceberg.io import FileIO

from spark_job.key_index.blocks import read_directory
from spark_job.key_index.damage import reading_segment
from spark_job.key_index.keys import Indices, Mask, concat_keys
from spark_job.key_index.numbered import write_entries
from spark_job.key_index.orders import greatest_order
from spark_job.key_index.scan import read_entries
from spark_job.key_index.segment import TOMBSTONE, Entries, SegmentInfo
from spark_job.key_index.tiers import PIECE_ENTRIES, BlockStarts, Group, Run, cut_key, overlap


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of keys in the segments of a group, newest first; `oldest`: there is no older run."""

    target: int
    inputs: tuple[SegmentInfo, ...]
    first_key: int
    last_key: int
    entries: int
    oldest: bool = False


def plan_pieces(io: FileIO, group: Group, runs: Sequence[Run], most: int) -> Iterator[Piece]:
    """Pieces of a group, in key order, until about `most` entries are in them."""
    inputs = [segment for run in runs if run.number in group.inputs for segment in run.segments]
    oldest = runs[-1].number in group.inputs
    starts = {segment.path: _starts(io, segment) for segment in inputs}
    last = max(segment.last_key for segment in inputs)
    first = min(segment.first_key for segment in inputs)
    while most > 0 and first <= last:
        left = [segment for segment in inputs if segment.last_key >= first]
        first = max(first, min(segment.first_key for segment in left))
        cut = cut_key([starts[segment.path] for segment in left], first, last, min(most, PIECE_ENTRIES))
        touched = tuple(segment for segment in left if segment.first_key <= cut)
        entries = sum(_count(starts[segment.path], max(first, segment.first_key), cut) for segment in touched)
        yield Piece(group.target, touched, first, cut, entries, oldest)
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


@dataclass(frozen=True, slots=True)
class MergedPiece:
    """The segment that a piece became, if anything is left, and the newest of the tombstones that expired."""

    segment: SegmentInfo | None
    expired: tuple[int, ...] | None = None


def merge_piece(
    io: FileIO,
    piece: Piece,
    location: str,
    paths: Sequence[str],
    gone: frozenset[int] = frozenset(),
    expire_before: int = 0,
) -> MergedPiece:
    """Writes what the piece becomes. `paths` are the root's data files; those that are gone leave tombstones.

    Tombstones of runs that were written before `expire_before` are left out, where no older run knows the key.
    """
    parts: list[Entries] = []
    old: list[Mask] = []
    for segment in piece.inputs:
        with reading_segment(segment.path):
            entries = read_entries(io, segment, piece.first_key, piece.last_key)
        old.append((entries.file == TOMBSTONE) & (piece.oldest and segment.written_at < expire_before))
        parts.append(_on_root(segment, entries, gone))
    merged, places = _newest(parts)
    expires = np.concatenate(old)[places]
    expired = greatest_order(merged.orders[expires]) if expires.any() else None
    recipe = piece.inputs[0].recipe
    written = write_entries(io, location, _take(merged, ~expires), recipe, dict(enumerate(paths)))
    if written is None:
        return MergedPiece(None, expired)
    written_at = max(one.written_at for one in piece.inputs)
    return MergedPiece(written.in_run(piece.target, written_at), expired)


def _on_root(segment: SegmentInfo, entries: Entries, gone: frozenset[int]) -> Entries:
    """The entries with the root's ordinals for files; rows of files that are gone are tombstones."""
    files = [TOMBSTONE if ordinal in gone else ordinal for ordinal in segment.files]
    file = np.array([*files, TOMBSTONE], dtype=np.int32)[entries.file]  # −1 picks the last
    return replace(entries, file=file, pos=np.where(file < 0, 0, entries.pos))


def _newest(parts: Sequence[Entries]) -> tuple[Entries, Indices]:
    """Of each key the entry of the first part that has it, ascending by key, and where it stood among all of them."""
    every = Entries(
        concat_keys([part.keys for part in parts]),
        np.concatenate([part.file for part in parts]),
        np.concatenate([part.pos for part in parts]),
        np.concatenate([part.orders for part in parts]),
    )
    order = every.keys.argsort()  # stable: the newest of equal keys comes first
    if len(order):
        order = order[np.concatenate([[True], ~every.keys.take(order).same_as_next()])]
    return _take(every, order), order


def _take(entries: Entries, places: Indices | Mask) -> Entries:
    return Entries(
        entries.keys.take(places), entries.file[places], entries.pos[places], entries.orders[places]
    )
