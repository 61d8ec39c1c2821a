"""Write Parquet data files by the table's properties, with statistics that readers can trust.

PyIceberg's writer is not used, because its statistics make readers miss rows:

* It takes bounds from Parquet, which stores none for values over 4 KiB. Here they are computed from the rows.
* It writes bounds of uuids, which Iceberg Java compares as signed numbers (apache/iceberg#14216). Here uuid columns
  have none, in manifests and in Parquet.
* It writes bounds of row lineage columns, in which NULL is a value that the snapshot assigns. Here they have none.
* It writes no NaN counts, so engines take the greatest number for the maximum of a column with NaN. Here they are
  written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import parquet_path_to_id_mapping
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import Properties

from icemirror.tables.mirror_properties import (
    DICTIONARY_BYTES,
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    TARGET_FILE_BYTES,
)
from spark_job.iceberg.leaf_columns import leaf_columns
from spark_job.iceberg.lineage_columns import LINEAGE_IDS
from spark_job.iceberg.metrics_modes import COUNTS, metrics_modes
from spark_job.iceberg.parquet_options import bloom_filters, parquet_options
from spark_job.iceberg.write_properties import read_number
from spark_job.write.dictionaries import benefits_from_dictionary
from spark_job.write.file_statistics import file_statistics, has_bounds

_SAMPLE_BYTES = 4 << 20
# A file may exceed its target by this factor rather than leave a small file behind …
_MAX_STRETCH = 1.25
# … and may stay below it by this factor rather than end with a small row group.
_MIN_FILL = 0.9


@dataclass
class RowGroupSizer:
    """Decides how many rows the next row group takes, by the table's target sizes.

    `ratio`: bytes in Parquet per byte in Arrow, learned from written rows; None before any row was written.
    """

    file_bytes: int
    group_bytes: int
    group_rows: int
    ratio: float | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RowGroupSizer:
        """Return a sizer with the targets in the table's properties."""
        return cls(
            read_number(properties, TARGET_FILE_BYTES),
            read_number(properties, ROW_GROUP_BYTES),
            read_number(properties, ROW_GROUP_ROWS),
        )

    def needs_sample(self, rows: pa.Table) -> bool:
        """Return whether the compression ratio matters for these rows and is still unknown."""
        return self.ratio is None and rows.nbytes > min(self.file_bytes, self.group_bytes)

    def update_ratio(self, arrow_bytes: int, parquet_bytes: int) -> None:
        """Set the ratio to that of rows that were written."""
        if arrow_bytes:
            self.ratio = parquet_bytes / arrow_bytes

    def next_group_rows(self, rows: pa.Table, file_bytes: int) -> int:
        """Return how many of the rows the next row group of a file takes; 0 ends the file, which is never empty.

        `file_bytes` is the size of its row groups so far.
        """
        if not rows.num_rows:
            return 0
        estimate = rows.nbytes * (1.0 if self.ratio is None else self.ratio)
        row_bytes = max(estimate / rows.num_rows, 1e-9)
        if file_bytes + estimate > self.file_bytes * _MAX_STRETCH:
            if file_bytes and file_bytes > self.file_bytes * _MIN_FILL:
                return 0
            max_group_bytes = min(self.file_bytes - file_bytes, self.group_bytes)
        else:
            max_group_bytes = self.group_bytes
        return min(int(rows.num_rows), self.group_rows, max(1, int(max_group_bytes / row_bytes)))


class ParquetFileWriter:
    """Writes the Parquet files of one table, by its schema, properties and sort order."""

    def __init__(
        self, schema: Schema, properties: Properties, order: SortOrder = UNSORTED_SORT_ORDER
    ) -> None:
        without_lineage = Schema(*(field for field in schema.fields if field.field_id not in LINEAGE_IDS))
        self._properties = properties
        self._leaves = leaf_columns(schema)
        self._ids = parquet_path_to_id_mapping(schema)
        self._paths = {str(schema.find_column_name(field_id)): path for path, field_id in self._ids.items()}
        self._modes = metrics_modes(without_lineage, properties, order) | dict.fromkeys(LINEAGE_IDS, COUNTS)
        self._options = parquet_options(properties)

    def new_sizer(self) -> RowGroupSizer:
        """Return a sizer for files with similar rows: they share its compression ratio."""
        return RowGroupSizer.from_properties(self._properties)

    def write(self, output: OutputFile, rows: pa.Table, sizer: RowGroupSizer) -> dict[str, Any]:
        """Write a file of the first rows, as many as its target size takes.

        Return its size and statistics as `DataFile.from_args` takes them; `record_count` is the number of rows.
        """
        options = self._options_for(rows, sizer)
        if sizer.needs_sample(rows):
            _sample_ratio(rows, options, sizer)
        row_count = group_bytes = 0
        with output.create(overwrite=True) as stream:  # the name is new: no check whether it exists
            with pq.ParquetWriter(stream, rows.schema, **options) as writer:
                while group_rows := sizer.next_group_rows(rows.slice(row_count), group_bytes):
                    group, start = rows.slice(row_count, group_rows), stream.tell()
                    writer.write_table(group, row_group_size=group_rows)
                    row_count += group_rows
                    group_bytes += stream.tell() - start
                    sizer.update_ratio(group.nbytes, stream.tell() - start)
            footer, file_bytes = writer.writer.metadata, stream.tell()
        statistics = file_statistics(rows.slice(0, row_count), footer, self._leaves, self._ids, self._modes)
        return {"file_size_in_bytes": file_bytes, **statistics}

    def _options_for(self, rows: pa.Table, sizer: RowGroupSizer) -> dict[str, Any]:
        max_bytes = read_number(self._properties, DICTIONARY_BYTES)
        without_dictionary = {
            leaf.path
            for leaf in self._leaves
            if not benefits_from_dictionary(leaf.values_in(rows), max_bytes)
        }
        without_statistics = {
            leaf.path
            for leaf in self._leaves
            if not has_bounds(leaf.field_type) or leaf.field_id in LINEAGE_IDS
        }
        return {
            **self._options,
            **bloom_filters(self._properties, self._paths, min(rows.num_rows, sizer.group_rows)),
            "use_dictionary": [path for path in self._ids if path not in without_dictionary],
            "write_statistics": [path for path in self._ids if path not in without_statistics]
            if without_statistics
            else True,
        }


def _sample_ratio(rows: pa.Table, options: dict[str, Any], sizer: RowGroupSizer) -> None:
    """Learn the compression ratio from rows in the middle, written to a sink that discards them."""
    count = max(1, min(rows.num_rows, rows.num_rows * _SAMPLE_BYTES // rows.nbytes))
    sample = rows.slice((rows.num_rows - count) // 2, count)
    sink = pa.MockOutputStream()
    with pq.ParquetWriter(sink, rows.schema, **options) as writer:
        writer.write_table(sample)
        sizer.update_ratio(sample.nbytes, sink.size())
