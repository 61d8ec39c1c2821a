"""Sample the partitions of a slice's rows, and split the slice so that few files are written.

Every shard, and every part of a shard that does not fit into memory, writes a file in each partition that it has rows
of. If partitions do not depend on the key, 5,000 partitions and 8 shards give 40,000 files. Fewer shards are not slower
then: each shard would write as many files as one shard alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.memory_bounds import max_row_bytes
from spark_job.changelog.read_rows import RowsExceedMemory, file_projection, read_rows, read_selected_rows
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.arrays import U64, Indices
from spark_job.columns.estimate_distinct import estimate_distinct
from spark_job.columns.field_map import FieldMap, field_ids
from spark_job.columns.parquet_columns import open_parquet, read_rows_at, row_group_starts
from spark_job.write.transform_columns import transform_column

# A slice may write this many files, however few its partitions …
_ACCEPTED_FILES = 256
# … or this many per partition.
_ACCEPTED_FILES_PER_PARTITION = 1.25
_SAMPLE_FILES = 8
_SAMPLE_ROWS = 2000

PartitionNumbers = NDArray[np.int64]


@dataclass(frozen=True)
class PartitionSampler:
    """Reads to which partitions of the mirror the rows of a slice belong."""

    io: FileIO
    files: Sequence[ChangelogFile]
    shape: ChangelogShape
    field_map: FieldMap
    metadata: TableMetadata

    def limit_shards(self, max_shards: int) -> int:
        """Return `max_shards`, or fewer if a sample of the slice shows that they would write too many files."""
        if max_shards == 1 or not self.metadata.spec().fields:
            return max_shards
        keys, partitions = self._sample()
        events = sum(file.events for file in self.files)
        return choose_shards(keys, partitions, events, max_shards) if len(keys) else max_shards

    def split_by_partition(
        self, file: NDArray[np.uint32], row: NDArray[np.uint32]
    ) -> tuple[Indices, Indices]:
        """Split rows into two halves of which at most one partition has rows in both; each half keeps its order."""
        middle = len(row) // 2
        all_rows = np.arange(len(row))
        if not self.metadata.spec().fields:
            return all_rows[:middle], all_rows[middle:]
        position_order = np.lexsort((row, file))
        partition_schema, field_map = self._partition_columns()
        max_bytes = max_row_bytes(sum(changelog_file.bytes for changelog_file in self.files))
        try:
            rows = read_rows(
                self.io,
                self.files,
                file[position_order],
                row[position_order],
                field_map,
                partition_schema,
                self.shape.defaults,
                max_bytes,
            )
        except RowsExceedMemory:  # few rows with long values
            return all_rows[:middle], all_rows[middle:]
        partition_numbers = np.empty(len(row), dtype=np.int64)
        partition_numbers[position_order] = self._number_partitions(rows, partition_schema)
        partition_order = np.argsort(partition_numbers, kind="stable")
        return np.sort(partition_order[:middle]), np.sort(partition_order[middle:])

    def _sample(self) -> tuple[U64, PartitionNumbers]:
        """Sample rows: return the leading bits of their keys, and a number for the partition of each."""
        files = [file for file in self.files if file.events]
        partition_schema, field_map = self._partition_columns()
        target = schema_to_pyarrow(partition_schema)
        keys: list[U64] = []
        tables: list[pa.Table] = []
        for file in files[:: max(1, len(files) // _SAMPLE_FILES)]:
            with open_parquet(self.io, file.path, file.events) as parquet:
                starts = row_group_starts(parquet)
                middle = parquet.num_row_groups // 2
                start, end = int(starts[middle]), int(starts[middle + 1])
                rows = np.arange(start, end, max(1, (end - start) // _SAMPLE_ROWS))
                if not len(rows):
                    continue
                columns = read_rows_at(parquet, file.path, self.shape.key_ids, rows)
                if any(column.null_count for column in columns):
                    continue  # reading all rows reports the NULL key
                codes = self.shape.key_codec.encode(columns)
                keys.append(codes.leading)
                projection = file_projection(file, field_map, self.shape.defaults)
                tables.extend(read_selected_rows(self.io, parquet, rows, projection, target))
        if not keys:
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        return np.concatenate(keys), self._number_partitions(pa.concat_tables(tables), partition_schema)

    def _partition_columns(self) -> tuple[Schema, FieldMap]:
        """Return the columns that the mirror is partitioned by, and the field map to them."""
        sources = {field.source_id for field in self.metadata.spec().fields}
        columns = [
            field
            for field in self.metadata.schema().fields
            if not sources.isdisjoint((field.field_id, *field_ids(field.field_type)))
        ]
        partition_schema = Schema(*columns)
        target_ids = set(field_ids(partition_schema.as_struct()))
        field_map = {source: target for source, target in self.field_map.items() if target in target_ids}
        return partition_schema, field_map

    def _number_partitions(self, rows: pa.Table, schema: Schema) -> PartitionNumbers:
        """Return the same number for rows of the same partition."""
        numbers = np.zeros(rows.num_rows, dtype=np.int64)
        for field in self.metadata.spec().fields:
            values = transform_column(rows, schema, field.source_id, field.transform).combine_chunks()
            codes = pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy(
                zero_copy_only=False
            )
            _, combined = np.unique(numbers * (int(codes.max()) + 1) + codes, return_inverse=True)
            numbers = combined.astype(np.int64)
        return numbers


def choose_shards(keys: U64, partitions: PartitionNumbers, events: int, max_shards: int) -> int:
    """Return the greatest number of shards that writes hardly more files than there are partitions. Pure.

    `keys` and `partitions` are a sample of the `events`: leading bits of keys, and partition numbers.
    """
    rank = np.empty(len(keys), dtype=np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    partition_count = int(partitions.max()) + 1

    def estimate_files(shards: int) -> float:
        pairs = rank * shards // len(keys) * partition_count + partitions
        return estimate_distinct(len(keys), len(np.unique(pairs)), max(events, len(keys)))

    max_files = max(_ACCEPTED_FILES, _ACCEPTED_FILES_PER_PARTITION * estimate_files(1))
    shards = max_shards
    while shards > 1 and estimate_files(shards) > max_files:
        shards = (shards + 1) // 2
    return shards
