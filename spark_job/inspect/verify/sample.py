"""The quick check: random rows looked up in the index, random entries in the table, and rows of other writers.

A merge refuses duplicate keys before it indexes foreign writes. So only rows written since then can have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.random import Generator
from numpy.typing import NDArray

from icemirror.errors import Invalid
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_columns, read_rows_at
from spark_job.iceberg.live_files import LiveFile
from spark_job.index.blocks import read_blocks, read_directory
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.keys import Keys, Mask, concat_keys
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo, reading_segment
from spark_job.inspect.verify.subject import VerifySubject
from spark_job.inspect.verify.verify_report import FindingKind
from spark_job.maintenance.index_foreign_writes import compare_files
from spark_job.merge.locate import LocatedKeys, SearchableIndex, locate_keys
from spark_job.write.vectors import deleted_positions

_MAX_FILES = 32
_BLOCKS_PER_SEGMENT = 4
_MAX_FOREIGN_ROWS = 2_000_000


@dataclass(frozen=True)
class SampleResult:
    """Differences by kind, as (path, row), and how much was compared."""

    wrong: Mapping[FindingKind, list[tuple[str, int]]]
    rows: int
    entries: int


def check_sample(subject: VerifySubject, count: int, rng: Generator) -> SampleResult:
    """Compare `count` rows and entries of the snapshot that the index belongs to."""
    root, files = subject.mirror.root, subject.index_files
    if root is None or files is None or not count:
        return SampleResult({}, 0, 0)
    index = SearchableIndex(subject.io, root.segments, root.removed_ordinals)
    wrong: dict[FindingKind, list[tuple[str, int]]] = {}
    rows = _check_rows(subject, root, files, index, count, rng, wrong)
    entries = _check_entries(subject, root, files, index, count, rng, wrong)
    return SampleResult(wrong, rows, entries)


def _distribute_sample(weights: Sequence[int], count: int, rng: Generator) -> dict[int, int]:
    """Return how many of `count` to draw from each: by weight, from a few of them."""
    weight = np.array(weights, dtype=np.float64)
    if not weight.sum():
        return {}
    few = min(_MAX_FILES, int((weight > 0).sum()))
    chosen = rng.choice(len(weight), few, replace=False, p=weight / weight.sum())
    shares = rng.multinomial(count, weight[chosen] / weight[chosen].sum())
    return {int(at): int(share) for at, share in zip(chosen, shares, strict=True) if share}


def _check_rows(
    subject: VerifySubject,
    root: Root,
    files: Mapping[str, LiveFile],
    index: SearchableIndex,
    count: int,
    rng: Generator,
    wrong: dict[FindingKind, list[tuple[str, int]]],
) -> int:
    """Draw live rows: the index must point at exactly these."""
    ordinals = {file.path: at for at, file in enumerate(root.files) if not file.removed}
    listed = list(files.values())
    shares = _distribute_sample([file.rows - file.deleted for file in listed], count, rng)
    deleted = deleted_positions(subject.io, {listed[at].path: listed[at] for at in shares})
    keys: list[Keys] = []
    path_of: list[str] = []
    position: list[NDArray[np.int64]] = []
    for at, share in shares.items():
        path = listed[at].path
        alive = np.ones(listed[at].rows, dtype=np.bool_)
        alive[deleted[path]] = False
        choices = np.flatnonzero(alive)
        rows = np.sort(rng.choice(choices, min(share, len(choices)), replace=False))
        keys.append(_keys_at(subject, path, rows))
        path_of += [path] * len(rows)
        position.append(rows)
    if not keys:
        return 0
    drawn, pos = concat_keys(keys), np.concatenate(position)
    order = drawn.argsort()
    known = locate_rows(index, root, drawn.take(order))
    for at, file, found in zip(order.tolist(), known.file.tolist(), known.pos.tolist(), strict=True):
        path, row = path_of[at], int(pos[at])
        if file < 0:
            wrong.setdefault(FindingKind.NOT_INDEXED, []).append((path, row))
        elif (file, found) != (ordinals.get(path), row):
            wrong.setdefault(FindingKind.WRONG_LOCATION, []).append((path, row))
    return len(pos)


def _check_entries(
    subject: VerifySubject,
    root: Root,
    files: Mapping[str, LiveFile],
    index: SearchableIndex,
    count: int,
    rng: Generator,
    wrong: dict[FindingKind, list[tuple[str, int]]],
) -> int:
    """Draw keys of the index: where it points at a row, that row must be live and have the key."""
    shares = _distribute_sample([segment.entries for segment in root.segments], count, rng)
    drawn = [_draw_keys(subject, root.segments[at], share, rng) for at, share in shares.items()]
    if not drawn:
        return 0
    keys = concat_keys(drawn)
    keys = keys.take(keys.argsort())
    known = locate_rows(index, root, keys)
    pointed = distinct(known.file[known.file >= 0]).tolist()
    listed = [root.files[ordinal].path for ordinal in pointed]
    deleted = deleted_positions(subject.io, {path: files[path] for path in listed if path in files})
    for ordinal in pointed:
        path = root.files[ordinal].path
        here = np.flatnonzero(known.file == ordinal)
        here = here[np.argsort(known.pos[here])]
        rows = known.pos[here]
        live = files.get(path)
        if live is None:
            wrong.setdefault(FindingKind.NO_SUCH_ROW, []).extend((path, int(row)) for row in rows)
            continue
        exists = (rows < live.rows) & ~np.isin(rows, deleted[path])
        bad = list(rows[~exists])
        if exists.any():
            same = _same(_keys_at(subject, path, rows[exists]), keys.take(here[exists]))
            bad += list(rows[exists][~same])
        if bad:
            wrong.setdefault(FindingKind.NO_SUCH_ROW, []).extend((path, int(row)) for row in bad)
    return len(keys)


def _draw_keys(subject: VerifySubject, segment: SegmentInfo, count: int, rng: Generator) -> Keys:
    """Draw keys of a segment from a few of its blocks."""
    few = min(_BLOCKS_PER_SEGMENT, segment.geometry.blocks)
    numbers = np.sort(rng.choice(segment.geometry.blocks, few, replace=False)).astype(np.intp)
    with reading_segment(segment.path):
        directory = read_directory(subject.io, segment)
        with open_ranges(subject.io, segment.path) as source:
            blocks = read_blocks(source, segment, directory, numbers)
    block = rng.integers(0, few, count)
    row = (rng.random(count) * blocks.filled[block]).astype(np.intp)
    low = blocks.columns["key_lo"][block, row].astype(np.uint64)
    if "length" in blocks.columns:
        length = blocks.columns["length"][block, row].astype(np.float64)
        low = low + (rng.random(count) * length).astype(np.uint64)
    high = blocks.columns.get("key_hi")
    return Keys(low, None if high is None else high[block, row].astype(np.uint64))


def _keys_at(subject: VerifySubject, path: str, rows: NDArray[np.int64]) -> Keys:
    """Read the keys of these rows, which must be ascending; duplicates are allowed."""
    unique, inverse = np.unique(rows, return_inverse=True)
    with open_parquet(subject.io, path) as parquet:
        columns = read_rows_at(parquet, path, subject.key_ids, unique)
    return subject.shape.codec.encode([column.take(pa.array(inverse)) for column in columns])


def _same(left: Keys, right: Keys) -> Mask:
    same: Mask = left.lo == right.lo
    if left.hi is not None and right.hi is not None:
        same &= left.hi == right.hi
    return same


def locate_rows(index: SearchableIndex, root: Root, keys: Keys) -> LocatedKeys:
    """Locate the rows of these keys; with the greatest order, so that the orders of the index need not be read."""
    parts = len(root.segments[0].greatest_order) if root.segments else 1
    return locate_keys(index, keys, np.full((len(keys), parts), np.iinfo(np.uint64).max, dtype=np.uint64))


@dataclass(frozen=True)
class ForeignRowsCheck:
    """Rows of other writers with a duplicate key, and how many of their rows were compared."""

    duplicates: Sequence[tuple[str, int]] = ()
    rows: int = 0
    total_rows: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        """How much was compared."""
        if not self.total_rows:
            return ()
        compared = (
            f"{self.rows:,} of {self.total_rows:,} rows written since then were checked for duplicate keys"
        )
        return (f"{compared}; --deep also compares them with the changelog",)


def check_foreign_rows(subject: VerifySubject, max_rows: int = _MAX_FOREIGN_ROWS) -> ForeignRowsCheck:
    """Check the keys of rows that other writers added, smallest files first, up to `max_rows` rows."""
    root = subject.mirror.root
    if root is None or not subject.mirror.has_foreign_writes or not subject.mirror.has_foreign_row_changes:
        return ForeignRowsCheck()
    difference = compare_files(root, subject.head_files)
    added = sorted(difference.added, key=lambda file: (file.rows, file.path))
    taken = np.cumsum([file.rows for file in added]) <= max_rows
    chosen = [file for file, take in zip(added, taken, strict=True) if take and file.rows > file.deleted]
    total_rows = sum(file.rows - file.deleted for file in added)
    if not chosen:
        return ForeignRowsCheck(total_rows=total_rows)
    keys, file, row = _read_keys(subject, chosen)
    order = keys.argsort()
    keys, file, row = keys.take(order), file[order], row[order]
    twice: Mask = np.zeros(len(keys), dtype=np.bool_)
    twice[1:] = keys.same_as_next()
    known = locate_rows(
        SearchableIndex(subject.io, root.segments, root.removed_ordinals | difference.removed), root, keys
    )
    twice |= _are_live(subject, root, known)
    duplicates = [(chosen[int(at)].path, int(pos)) for at, pos in zip(file[twice], row[twice], strict=True)]
    return ForeignRowsCheck(sorted(duplicates), len(keys), total_rows)


def _read_keys(
    subject: VerifySubject, files: Sequence[LiveFile]
) -> tuple[Keys, NDArray[np.int64], NDArray[np.int64]]:
    """Read the keys of all live rows, with the number of the file and the position of each."""
    deleted = deleted_positions(subject.io, {file.path: file for file in files if file.deleted})
    keys: list[Keys] = []
    file_numbers: list[NDArray[np.int64]] = []
    rows: list[NDArray[np.int64]] = []
    for at, file in enumerate(files):
        with open_parquet(subject.io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, subject.key_ids)
        live = np.setdiff1d(np.arange(file.rows), deleted.get(file.path, np.empty(0, np.int64)))
        columns = [column.take(live) for column in columns]
        if any(column.null_count for column in columns):
            raise Invalid(f"the mirror has rows without a key: {file.path}")
        keys.append(subject.shape.codec.encode(columns))
        file_numbers.append(np.full(len(live), at, dtype=np.int64))
        rows.append(live)
    return concat_keys(keys), np.concatenate(file_numbers), np.concatenate(rows)


def _are_live(subject: VerifySubject, root: Root, known: LocatedKeys) -> Mask:
    """Return for each key whether the row that the index points at is still in the table."""
    lives: Mask = known.file >= 0
    paths = {int(at): root.files[int(at)].path for at in distinct(known.file[lives])}
    deleted = deleted_positions(subject.io, {path: subject.head_files[path] for path in paths.values()})
    for at, path in paths.items():
        here = known.file == at
        lives[here] = ~np.isin(known.pos[here], deleted[path])
    return lives
