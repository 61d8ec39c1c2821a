"""Writes a Parquet data file by the table's own properties, with statistics that readers may trust.

PyIceberg's own writer leaves four traps, each of which makes a reader miss rows:

* Parquet keeps no minimum and maximum of values over 4 KiB. Bounds that come from the other row groups alone
  do not hold for the file, so a column with such a row group gets none.
* Iceberg Java compares uuid bounds as signed numbers (apache/iceberg#14216), in manifests and in Parquet
  alike, so uuid columns get neither.
* A NULL in a column of row lineage is a value to come, which bounds know nothing of, so these get none either.
* Without the number of NaNs, engines take the greatest number for the maximum although there is a NaN.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import OutputFile
from pyiceberg.schema import Schema
from pyiceberg.typedef import Properties
from pyiceberg.types import DoubleType, FloatType, UUIDType

from spark_job.iceberg.seams import file_statistics, parquet_column_ids, parquet_options
from spark_job.iceberg.write_properties import ROW_GROUP_ROWS, read_number
from spark_job.row_lineage import LINEAGE_IDS


def write_parquet(
    output: OutputFile, schema: Schema, properties: Properties, table: pa.Table
) -> dict[str, Any]:
    """Writes the rows; their statistics as `DataFile.from_args` takes them."""
    ids = parquet_column_ids(schema)
    uuids = {field_id for field_id in ids.values() if isinstance(schema.find_type(field_id), UUIDType)}
    unbounded = uuids | LINEAGE_IDS.intersection(ids.values())
    counted = [path for path, field_id in ids.items() if field_id not in unbounded]
    with output.create() as stream:
        writer = pq.ParquetWriter(
            stream,
            table.schema,
            store_decimal_as_integer=True,
            write_statistics=counted if unbounded else True,
            **parquet_options(properties),
        )
        with writer:
            writer.write_table(table, row_group_size=read_number(properties, ROW_GROUP_ROWS))
    footer = writer.writer.metadata
    statistics = file_statistics(footer, schema, properties, without=unbounded)
    silent = _silent_columns(footer, ids)
    statistics.lower_bounds = {
        key: bound for key, bound in statistics.lower_bounds.items() if key not in silent
    }
    statistics.upper_bounds = {
        key: bound for key, bound in statistics.upper_bounds.items() if key not in silent
    }
    for field in schema.fields:
        column = table[field.name]
        if field.field_id in unbounded:
            statistics.value_counts[field.field_id] = table.num_rows
            statistics.null_value_counts[field.field_id] = column.null_count
        if isinstance(field.field_type, FloatType | DoubleType):
            statistics.nan_value_counts[field.field_id] = pc.sum(pc.is_nan(column)).as_py() or 0
    return statistics.arguments()


def _silent_columns(footer: pq.FileMetaData, ids: dict[str, int]) -> set[int]:
    """Columns with a row group that has values but no minimum and maximum."""
    silent: set[int] = set()
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            column = footer.row_group(group).column(number)
            kept = column.statistics
            if kept is None or (not kept.has_min_max and kept.null_count < column.num_values):
                silent.add(ids[column.path_in_schema])
    return silent
