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
from spark_job.columns.arrays import Mask
from spark_job.columns.distinct import distinct
from spark_job.columns.parquet_columns import open_parquet, read_columns, read_rows_at
from spark_job.commands.verify.subject import VerifySubject
from spark_job.commands.verify.verify_report import FindingKind
from spark_job.iceberg.live_files import LiveFile
from spark_job.index.blocks import read_blocks, read_directory
from spark_job.index.byte_ranges import open_ranges
from spark_job.index.damaged_segment import reading_segment
from spark_job.index.keys import Keys, concat_keys
from spark_job.index.root import Root
from spark_job.index.segment import SegmentInfo
from spark_job.maintenance.index_foreign_writes import compare_files
from spark_job.merge.locate import LocatedKeys, SearchableIndex, locate_keys
from spark_job.write.read_deletes import read_deleted_positions

_MAX_FILES = 32
_BLOCKS_PER_SEGMENT = 4
_MAX_FOREIGN_ROWS = 2_000_000


SampledRow = tuple[str, int]
"""The path of a data file, and the position of a row in it."""


@dataclass(frozen=True)
class SampleResult:
    """Differences by kind, and how much was compared."""

    differences: Mapping[FindingKind, Sequence[SampledRow]]
    rows: int = 0
    entries: int = 0


def check_sample(subject: VerifySubject, count: int, rng: Generator) -> SampleResult:
    """Return the differences in `count` rows and entries of the snapshot that the index belongs to."""
    root, files = subject.mirror.root, subject.index_files
    if root is None or files is None or not count:
        return SampleResult({})
    index = SearchableIndex(subject.io, root.segments, root.removed_ordinals)
    rows = _check_rows(subject, root, files, index, count, rng)
    entries = _check_entries(subject, root, files, index, count, rng)
    return SampleResult({**rows.differences, **entries.differences}, rows.rows, entries.entries)


def _distribute_sample(weights: Sequence[int], count: int, rng: Generator) -> dict[int, int]:
    """Return how many of `count` to draw from each: by weight, from a few of them."""
    weight = np.array(weights, dtype=np.float64)
    if not weight.sum():
        return {}
    source_count = min(_MAX_FILES, int((weight > 0).sum()))
    chosen = rng.choice(len(weight), source_count, replace=False, p=weight / weight.sum())
    sample_sizes = rng.multinomial(count, weight[chosen] / weight[chosen].sum())
    return {
        int(source): int(sample_size)
        for source, sample_size in zip(chosen, sample_sizes, strict=True)
        if sample_size
    }


def _check_rows(
    subject: VerifySubject,
    root: Root,
    files: Mapping[str, LiveFile],
    index: SearchableIndex,
    count: int,
    rng: Generator,
) -> SampleResult:
    """Return the live rows of a sample that the index does not point at."""
    ordinals = {file.path: ordinal for ordinal, file in enumerate(root.files) if not file.removed}
    file_list = list(files.values())
    sample_sizes = _distribute_sample([file.live_rows for file in file_list], count, rng)
    deleted = read_deleted_positions(
        subject.io, {file_list[file_number].path: file_list[file_number] for file_number in sample_sizes}
    )
    keys: list[Keys] = []
    paths: list[str] = []
    rows_by_file: list[NDArray[np.int64]] = []
    for file_number, sample_size in sample_sizes.items():
        path = file_list[file_number].path
        is_live = np.ones(file_list[file_number].rows, dtype=np.bool_)
        is_live[deleted[path]] = False
        choices = np.flatnonzero(is_live)
        rows = np.sort(rng.choice(choices, min(sample_size, len(choices)), replace=False))
        keys.append(_keys_at(subject, path, rows))
        paths += [path] * len(rows)
        rows_by_file.append(rows)
    if not keys:
        return SampleResult({})
    all_keys, positions = concat_keys(keys), np.concatenate(rows_by_file)
    order = all_keys.argsort()
    located = locate_rows(index, root, all_keys.take(order))
    differences: dict[FindingKind, list[SampledRow]] = {}
    for row_index, indexed_ordinal, indexed_position in zip(
        order.tolist(), located.file.tolist(), located.pos.tolist(), strict=True
    ):
        path, row = paths[row_index], int(positions[row_index])
        if indexed_ordinal < 0:
            differences.setdefault(FindingKind.NOT_INDEXED, []).append((path, row))
        elif (indexed_ordinal, indexed_position) != (ordinals.get(path), row):
            differences.setdefault(FindingKind.WRONG_LOCATION, []).append((path, row))
    return SampleResult(differences, rows=len(positions))


def _check_entries(
    subject: VerifySubject,
    root: Root,
    files: Mapping[str, LiveFile],
    index: SearchableIndex,
    count: int,
    rng: Generator,
) -> SampleResult:
    """Return the rows that a sample of the index points at, but that are not live or have another key."""
    sample_sizes = _distribute_sample([segment.entries for segment in root.segments], count, rng)
    drawn = [
        _draw_keys(subject, root.segments[segment_number], sample_size, rng)
        for segment_number, sample_size in sample_sizes.items()
    ]
    if not drawn:
        return SampleResult({})
    keys = concat_keys(drawn)
    keys = keys.take(keys.argsort())
    located = locate_rows(index, root, keys)
    ordinals = distinct(located.file[located.file >= 0]).tolist()
    paths = [root.files[ordinal].path for ordinal in ordinals]
    deleted = read_deleted_positions(subject.io, {path: files[path] for path in paths if path in files})
    no_such_rows: list[SampledRow] = []
    for ordinal in ordinals:
        path = root.files[ordinal].path
        entries = np.flatnonzero(located.file == ordinal)
        entries = entries[np.argsort(located.pos[entries])]
        rows = located.pos[entries]
        live_file = files.get(path)
        if live_file is None:
            no_such_rows += [(path, int(row)) for row in rows]
            continue
        exists = (rows < live_file.rows) & ~np.isin(rows, deleted[path])
        wrong_rows = list(rows[~exists])
        if exists.any():
            has_key = _are_equal(_keys_at(subject, path, rows[exists]), keys.take(entries[exists]))
            wrong_rows += list(rows[exists][~has_key])
        no_such_rows += [(path, int(row)) for row in wrong_rows]
    differences = {FindingKind.NO_SUCH_ROW: no_such_rows} if no_such_rows else {}
    return SampleResult(differences, entries=len(keys))


def _draw_keys(subject: VerifySubject, segment: SegmentInfo, count: int, rng: Generator) -> Keys:
    """Return random keys of a segment, from a few of its blocks."""
    block_count = min(_BLOCKS_PER_SEGMENT, segment.geometry.blocks)
    block_numbers = np.sort(rng.choice(segment.geometry.blocks, block_count, replace=False)).astype(np.intp)
    with reading_segment(segment.path):
        directory = read_directory(subject.io, segment)
        with open_ranges(subject.io, segment.path) as source:
            blocks = read_blocks(source, segment, directory, block_numbers)
    block = rng.integers(0, block_count, count)
    row = (rng.random(count) * blocks.filled[block]).astype(np.intp)
    low = blocks.columns["key_lo"][block, row].astype(np.uint64)
    if "length" in blocks.columns:
        length = blocks.columns["length"][block, row].astype(np.float64)
        low = low + (rng.random(count) * length).astype(np.uint64)
    high = blocks.columns.get("key_hi")
    return Keys(low, None if high is None else high[block, row].astype(np.uint64))


def _keys_at(subject: VerifySubject, path: str, rows: NDArray[np.int64]) -> Keys:
    """Return the keys of these rows, which must be ascending; duplicates are allowed."""
    unique, inverse = np.unique(rows, return_inverse=True)
    with open_parquet(subject.io, path) as parquet:
        columns = read_rows_at(parquet, path, subject.key_ids, unique)
    return subject.shape.key_codec.encode([column.take(pa.array(inverse)) for column in columns])


def _are_equal(left: Keys, right: Keys) -> Mask:
    is_equal: Mask = left.lo == right.lo
    if left.hi is not None and right.hi is not None:
        is_equal &= left.hi == right.hi
    return is_equal


def locate_rows(index: SearchableIndex, root: Root, keys: Keys) -> LocatedKeys:
    """Return the rows of these keys. With the greatest order the orders of the index need not be read."""
    order_parts = len(root.segments[0].greatest_order) if root.segments else 1
    return locate_keys(
        index, keys, np.full((len(keys), order_parts), np.iinfo(np.uint64).max, dtype=np.uint64)
    )


@dataclass(frozen=True)
class ForeignRowsCheck:
    """Rows of other writers with a duplicate key, and how many of their rows were compared."""

    duplicates: Sequence[SampledRow] = ()
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
    """Return duplicate keys of rows that other writers added: smallest files first, up to `max_rows` rows."""
    root = subject.mirror.root
    if root is None or not subject.mirror.has_foreign_writes or not subject.mirror.has_foreign_row_changes:
        return ForeignRowsCheck()
    difference = compare_files(root, subject.head_files)
    added = sorted(difference.added, key=lambda file: (file.rows, file.path))
    within_limit = np.cumsum([file.rows for file in added]) <= max_rows
    chosen_files = [
        file for file, fits in zip(added, within_limit, strict=True) if fits and file.live_rows > 0
    ]
    total_rows = sum(file.live_rows for file in added)
    if not chosen_files:
        return ForeignRowsCheck(total_rows=total_rows)
    keys, file_numbers, positions = _read_keys(subject, chosen_files)
    order = keys.argsort()
    keys, file_numbers, positions = keys.take(order), file_numbers[order], positions[order]
    is_duplicate: Mask = np.zeros(len(keys), dtype=np.bool_)
    is_duplicate[1:] = keys.same_as_next()
    located = locate_rows(
        SearchableIndex(subject.io, root.segments, root.removed_ordinals | difference.removed), root, keys
    )
    is_duplicate |= _are_live(subject, root, located)
    duplicates = [
        (chosen_files[int(file_number)].path, int(position))
        for file_number, position in zip(file_numbers[is_duplicate], positions[is_duplicate], strict=True)
    ]
    return ForeignRowsCheck(sorted(duplicates), len(keys), total_rows)


def _read_keys(
    subject: VerifySubject, files: Sequence[LiveFile]
) -> tuple[Keys, NDArray[np.int64], NDArray[np.int64]]:
    """Return the keys of all live rows, with the number of the file and the position of each."""
    deleted = read_deleted_positions(subject.io, {file.path: file for file in files if file.deleted_rows})
    keys: list[Keys] = []
    file_numbers: list[NDArray[np.int64]] = []
    rows: list[NDArray[np.int64]] = []
    for file_number, file in enumerate(files):
        with open_parquet(subject.io, file.path, file.rows) as parquet:
            columns = read_columns(parquet, file.path, subject.key_ids)
        live_rows = np.setdiff1d(np.arange(file.rows), deleted.get(file.path, np.empty(0, np.int64)))
        columns = [column.take(live_rows) for column in columns]
        if any(column.null_count for column in columns):
            raise Invalid(f"the mirror has rows without a key: {file.path}")
        keys.append(subject.shape.key_codec.encode(columns))
        file_numbers.append(np.full(len(live_rows), file_number, dtype=np.int64))
        rows.append(live_rows)
    return concat_keys(keys), np.concatenate(file_numbers), np.concatenate(rows)


def _are_live(subject: VerifySubject, root: Root, located: LocatedKeys) -> Mask:
    """Return for each key whether the row that the index points at is still in the table."""
    is_live: Mask = located.file >= 0
    paths = {int(ordinal): root.files[int(ordinal)].path for ordinal in distinct(located.file[is_live])}
    deleted = read_deleted_positions(subject.io, {path: subject.head_files[path] for path in paths.values()})
    for ordinal, path in paths.items():
        is_in_file = located.file == ordinal
        is_live[is_in_file] = ~np.isin(located.pos[is_in_file], deleted[path])
    return is_live
