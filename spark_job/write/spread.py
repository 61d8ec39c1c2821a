"""How the rows of a slice are spread over partitions, and how to cut it so that there are few files.

Every shard, and every piece of one that does not fit into memory, writes files of its own in each partition that it has
rows of. Where the partitions have nothing to do with the key, five thousand of them and eight shards are forty thousand
files. Fewer shards write no slower then: each would write as many files as one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.changelog.bulk import piece_bytes
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.source_rows import TooMuch, projection_of, read_picked, read_rows
from spark_job.columns.field_map import FieldMap, field_ids
from spark_job.columns.parquet_columns import open_parquet, read_at, row_group_starts
from spark_job.iceberg.dictionaries import expected_distinct
from spark_job.key_index.keys import U64, Indices
from spark_job.write.transform_columns import transform_column

# So many files are no matter, however few partitions they are in …
_FEW_FILES = 256
# … and with more of them there may be this many for each partition.
_FILES_OF_ONE = 1.25
_SAMPLE_FILES = 8
_SAMPLE_ROWS = 2000

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Spread:
    """Where the rows of a slice go: its files, and how they become the rows of a partitioned mirror."""

    io: FileIO
    files: Sequence[ChangeFile]
    shape: ChangelogShape
    ids: FieldMap
    metadata: TableMetadata

    def most_shards(self, wanted: int) -> int:
        """As many shards as wanted, or fewer, by a sample of the slice."""
        if wanted == 1 or not self.metadata.spec().fields:
            return wanted
        keys, partitions = self._sample()
        events = sum(file.events for file in self.files)
        return choose_shards(keys, partitions, events, wanted) if len(keys) else wanted

    def halves(self, file: NDArray[np.uint32], row: NDArray[np.uint32]) -> tuple[Indices, Indices]:
        """Rows of the slice in two halves: at most one partition has rows in both. Each stays in its order."""
        middle = len(row) // 2
        every = np.arange(len(row))
        if not self.metadata.spec().fields:
            return every[:middle], every[middle:]
        by_place = np.lexsort((row, file))
        narrow, ids = self._narrow()
        most_bytes = piece_bytes(sum(one.bytes for one in self.files))
        try:
            rows = read_rows(
                self.io,
                self.files,
                file[by_place],
                row[by_place],
                ids,
                narrow,
                self.shape.defaults,
                most_bytes,
            )
        except TooMuch:  # long values, not many rows
            return every[:middle], every[middle:]
        numbers = np.empty(len(row), dtype=np.int64)
        numbers[by_place] = self._number(rows, narrow)
        by_partition = np.argsort(numbers, kind="stable")
        return np.sort(by_partition[:middle]), np.sort(by_partition[middle:])

    def _sample(self) -> tuple[U64, Numbers]:
        """Some rows: the leading bits of their keys, and a number for the partition of each."""
        files = [file for file in self.files if file.events]
        narrow, ids = self._narrow()
        target = schema_to_pyarrow(narrow)
        keys: list[U64] = []
        tables: list[pa.Table] = []
        for file in files[:: max(1, len(files) // _SAMPLE_FILES)]:
            with open_parquet(self.io, file.path, file.events) as parquet:
                starts = row_group_starts(parquet)
                middle = parquet.num_row_groups // 2
                first, last = int(starts[middle]), int(starts[middle + 1])
                rows = np.arange(first, last, max(1, (last - first) // _SAMPLE_ROWS))
                if not len(rows):
                    continue
                columns = read_at(parquet, file.path, self.shape.key_ids, rows)
                if any(column.null_count for column in columns):
                    continue  # that a key is NULL is told by whoever reads all of them
                codes = self.shape.codec.encode(columns)
                keys.append(codes.lo if codes.hi is None else codes.hi)
                by = projection_of(file, ids, self.shape.defaults)
                tables.extend(read_picked(self.io, parquet, rows, by, target))
        if not keys:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        return np.concatenate(keys), self._number(pa.concat_tables(tables), narrow)

    def _narrow(self) -> tuple[Schema, FieldMap]:
        """The columns that the mirror is partitioned by, and the map to them."""
        sources = {field.source_id for field in self.metadata.spec().fields}
        columns = [
            field
            for field in self.metadata.schema().fields
            if not sources.isdisjoint((field.field_id, *field_ids(field.field_type)))
        ]
        narrow = Schema(*columns)
        wanted = set(field_ids(narrow.as_struct()))
        return narrow, {source: target for source, target in self.ids.items() if target in wanted}

    def _number(self, rows: pa.Table, narrow: Schema) -> Numbers:
        """The same number for rows of the same partition."""
        numbers = np.zeros(rows.num_rows, dtype=np.int64)
        for field in self.metadata.spec().fields:
            values = transform_column(rows, narrow, field.source_id, field.transform).combine_chunks()
            codes = pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy(
                zero_copy_only=False
            )
            _, joined = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
            numbers = joined.astype(np.int64)
        return numbers


def choose_shards(keys: U64, partitions: Numbers, events: int, wanted: int) -> int:
    """The most shards that hardly write more files than there are partitions; pure.

    By a sample of so many events: the leading bits of keys, and numbers of the partitions that they are in.
    """
    rank = np.empty(len(keys), dtype=np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    different = int(partitions.max()) + 1

    def files(shards: int) -> float:
        pairs = rank * shards // len(keys) * different + partitions
        return expected_distinct(len(keys), len(np.unique(pairs)), max(events, len(keys)))

    most = max(_FEW_FILES, _FILES_OF_ONE * files(1))
    return _first_that_fits(wanted, lambda shards: files(shards) <= most)


def _first_that_fits(wanted: int, fits: Callable[[int], bool]) -> int:
    shards = wanted
    while shards > 1 and not fits(shards):
        shards = (shards + 1) // 2
    return shards
