"""How the rows of a slice spread over partitions, and how to split the slice so that few files are written.

Every shard, and every part of a shard that does not fit into memory, writes a file in each partition that it has rows
of. If partitions do not depend on the key, 5,000 partitions and 8 shards give 40,000 files. Fewer shards are not slower
then: each shard would write as many files as one shard alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.memory_bounds import piece_bytes
from spark_job.changelog.read_rows import RowsExceedMemory, file_projection, read_rows, read_selected_rows
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.field_map import FieldMap, field_ids
from spark_job.columns.parquet_columns import open_parquet, read_rows_at, row_group_starts
from spark_job.index.keys import U64, Indices
from spark_job.write.dictionaries import estimate_distinct
from spark_job.write.transform_columns import transform_column

# A slice may write this many files, however few its partitions …
_ACCEPTED_FILES = 256
# … or this many per partition.
_ACCEPTED_FILES_PER_PARTITION = 1.25
_SAMPLE_FILES = 8
_SAMPLE_ROWS = 2000

Numbers = NDArray[np.int64]


class PartitionSpread:
    """Reads to which partitions of the mirror the rows of a slice belong."""

    def __init__(
        self,
        io: FileIO,
        files: Sequence[ChangelogFile],
        shape: ChangelogShape,
        ids: FieldMap,
        metadata: TableMetadata,
    ) -> None:
        self.io = io
        self.files = files
        self.shape = shape
        self.ids = ids
        self.metadata = metadata

    def limit_shards(self, wanted: int) -> int:
        """Return the wanted number of shards, or fewer if a sample of the slice shows too many files."""
        if wanted == 1 or not self.metadata.spec().fields:
            return wanted
        keys, partitions = self._sample()
        events = sum(file.events for file in self.files)
        return choose_shards(keys, partitions, events, wanted) if len(keys) else wanted

    def split_by_partition(
        self, file: NDArray[np.uint32], row: NDArray[np.uint32]
    ) -> tuple[Indices, Indices]:
        """Split rows into two halves of which at most one partition has rows in both; each half keeps its order."""
        middle = len(row) // 2
        all_rows = np.arange(len(row))
        if not self.metadata.spec().fields:
            return all_rows[:middle], all_rows[middle:]
        by_position = np.lexsort((row, file))
        partition_schema, ids = self._partition_columns()
        max_bytes = piece_bytes(sum(changelog_file.bytes for changelog_file in self.files))
        try:
            rows = read_rows(
                self.io,
                self.files,
                file[by_position],
                row[by_position],
                ids,
                partition_schema,
                self.shape.defaults,
                max_bytes,
            )
        except RowsExceedMemory:  # few rows with long values
            return all_rows[:middle], all_rows[middle:]
        numbers = np.empty(len(row), dtype=np.int64)
        numbers[by_position] = self._number(rows, partition_schema)
        by_partition = np.argsort(numbers, kind="stable")
        return np.sort(by_partition[:middle]), np.sort(by_partition[middle:])

    def _sample(self) -> tuple[U64, Numbers]:
        """Sample rows: return the leading bits of their keys, and a number for the partition of each."""
        files = [file for file in self.files if file.events]
        partition_schema, ids = self._partition_columns()
        target = schema_to_pyarrow(partition_schema)
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
                columns = read_rows_at(parquet, file.path, self.shape.key_ids, rows)
                if any(column.null_count for column in columns):
                    continue  # reading all rows reports the NULL key
                codes = self.shape.codec.encode(columns)
                keys.append(codes.lo if codes.hi is None else codes.hi)
                projection = file_projection(file, ids, self.shape.defaults)
                tables.extend(read_selected_rows(self.io, parquet, rows, projection, target))
        if not keys:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        return np.concatenate(keys), self._number(pa.concat_tables(tables), partition_schema)

    def _partition_columns(self) -> tuple[Schema, FieldMap]:
        """Return the columns that the mirror is partitioned by, and the field map to them."""
        sources = {field.source_id for field in self.metadata.spec().fields}
        columns = [
            field
            for field in self.metadata.schema().fields
            if not sources.isdisjoint((field.field_id, *field_ids(field.field_type)))
        ]
        partition_schema = Schema(*columns)
        wanted = set(field_ids(partition_schema.as_struct()))
        return partition_schema, {source: target for source, target in self.ids.items() if target in wanted}

    def _number(self, rows: pa.Table, schema: Schema) -> Numbers:
        """Return the same number for rows of the same partition."""
        numbers = np.zeros(rows.num_rows, dtype=np.int64)
        for field in self.metadata.spec().fields:
            values = transform_column(rows, schema, field.source_id, field.transform).combine_chunks()
            codes = pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy(
                zero_copy_only=False
            )
            _, joined = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
            numbers = joined.astype(np.int64)
        return numbers


def choose_shards(keys: U64, partitions: Numbers, events: int, wanted: int) -> int:
    """Return the greatest number of shards that writes hardly more files than there are partitions. Pure.

    `keys` and `partitions` are a sample of the `events`: leading bits of keys, and partition numbers.
    """
    rank = np.empty(len(keys), dtype=np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    partition_count = int(partitions.max()) + 1

    def files(shards: int) -> float:
        pairs = rank * shards // len(keys) * partition_count + partitions
        return estimate_distinct(len(keys), len(np.unique(pairs)), max(events, len(keys)))

    max_files = max(_ACCEPTED_FILES, _ACCEPTED_FILES_PER_PARTITION * files(1))
    shards = wanted
    while shards > 1 and files(shards) > max_files:
        shards = (shards + 1) // 2
    return shards
