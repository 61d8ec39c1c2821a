"""Writes Parquet data files by the table's own properties, with statistics that readers may trust.

PyIceberg's own writer leaves traps, each of which makes a reader miss rows:

* Parquet keeps no minimum and maximum of values over 4 KiB, and bounds from the other row groups do not hold.
* Iceberg Java compares uuid bounds as signed numbers (apache/iceberg#14216), in manifests and in Parquet
  alike, so uuid columns get neither.
* A NULL in a column of row lineage is a value to come, which bounds know nothing of, so these get none either.
* Without the number of NaNs, engines take the greatest number for the maximum although there is a NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import OutputFile
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import Properties

from icemirror.mirror_properties import DICTIONARY_BYTES
from spark_job.iceberg.column_bounds import has_bounds
from spark_job.iceberg.dictionaries import is_worth_a_dictionary
from spark_job.iceberg.file_sizes import FileSizes
from spark_job.iceberg.file_statistics import file_statistics
from spark_job.iceberg.leaf_columns import Leaf, leaf_columns
from spark_job.iceberg.lineage_columns import LINEAGE_IDS
from spark_job.iceberg.metrics_modes import COUNTS, Mode, metrics_modes
from spark_job.iceberg.parquet_options import bloom_filters, parquet_options
from spark_job.iceberg.seams import parquet_column_ids
from spark_job.iceberg.write_properties import read_number

_SAMPLE_BYTES = 4 << 20


@dataclass(frozen=True)
class ParquetFiles:
    """All that the files of a table have in common."""

    properties: Properties
    leaves: tuple[Leaf, ...]
    ids: dict[str, int]
    paths: dict[str, str]
    modes: dict[int, Mode]
    options: dict[str, Any]

    @classmethod
    def of(
        cls, schema: Schema, properties: Properties, order: SortOrder = UNSORTED_SORT_ORDER
    ) -> ParquetFiles:
        """By the table's schema, properties and sort order."""
        ids = parquet_column_ids(schema)
        own = Schema(*(field for field in schema.fields if field.field_id not in LINEAGE_IDS))
        return cls(
            properties=properties,
            leaves=leaf_columns(schema),
            ids=ids,
            paths={str(schema.find_column_name(field_id)): path for path, field_id in ids.items()},
            modes=metrics_modes(own, properties, order) | dict.fromkeys(LINEAGE_IDS, COUNTS),
            options=parquet_options(properties),
        )

    def sizes(self) -> FileSizes:
        """For files whose rows are of one kind: they learn from each other."""
        return FileSizes.of(self.properties)

    def write(self, output: OutputFile, rows: pa.Table, sizes: FileSizes) -> dict[str, Any]:
        """Writes a file of the first rows, as many as its target size takes.

        Its size and statistics are as `DataFile.from_args` takes them; `record_count` says how many rows it has.
        """
        options = self._options(rows, sizes)
        if sizes.needs_sample(rows):
            _learn(rows, options, sizes)
        count = written = 0
        with output.create(overwrite=True) as stream:  # a new name: nobody has to look
            with pq.ParquetWriter(stream, rows.schema, **options) as writer:
                while taken := sizes.next_group(rows.slice(count), written):
                    group, before = rows.slice(count, taken), stream.tell()
                    writer.write_table(group, row_group_size=taken)
                    count, written = count + taken, written + stream.tell() - before
                    sizes.learn(group.nbytes, stream.tell() - before)
            footer, size = writer.writer.metadata, stream.tell()
        statistics = file_statistics(rows.slice(0, count), footer, self.leaves, self.ids, self.modes)
        return {"file_size_in_bytes": size, **statistics}

    def _options(self, rows: pa.Table, sizes: FileSizes) -> dict[str, Any]:
        most_bytes = read_number(self.properties, DICTIONARY_BYTES)
        plain = {leaf.path for leaf in self.leaves if not is_worth_a_dictionary(leaf.of(rows), most_bytes)}
        silent = {
            leaf.path for leaf in self.leaves if not has_bounds(leaf.kind) or leaf.field_id in LINEAGE_IDS
        }
        return {
            **self.options,
            **bloom_filters(self.properties, self.paths, min(rows.num_rows, sizes.group_rows)),
            "use_dictionary": [path for path in self.ids if path not in plain],
            "write_statistics": [path for path in self.ids if path not in silent] if silent else True,
        }


def _learn(rows: pa.Table, options: dict[str, Any], sizes: FileSizes) -> None:
    """Writes a part from the middle to nowhere."""
    count = max(1, min(rows.num_rows, rows.num_rows * _SAMPLE_BYTES // rows.nbytes))
    part = rows.slice((rows.num_rows - count) // 2, count)
    sink = pa.MockOutputStream()
    with pq.ParquetWriter(sink, rows.schema, **options) as writer:
        writer.write_table(part)
        sizes.learn(part.nbytes, sink.size())
