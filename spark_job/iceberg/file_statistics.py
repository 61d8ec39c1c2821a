"""What a manifest says of a data file and its columns, computed from the very rows that were written.

Parquet's own statistics do not serve: they leave out values over 4 KiB, NaN, and the sign of zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.types import DoubleType, FloatType

from spark_job.iceberg.column_bounds import column_bounds
from spark_job.iceberg.leaf_columns import Leaf
from spark_job.iceberg.metrics_modes import NONE, Mode


def file_statistics(
    rows: pa.Table,
    footer: pq.FileMetaData,
    leaves: Sequence[Leaf],
    ids: Mapping[str, int],
    modes: Mapping[int, Mode],
) -> dict[str, Any]:
    """As `DataFile.from_args` takes them; `ids` are the field ids by the paths of Parquet's columns."""
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower_bounds: dict[int, bytes] = {}
    upper_bounds: dict[int, bytes] = {}
    for leaf in leaves:
        mode = modes[leaf.field_id]
        if not mode.counts:
            continue
        column = leaf.of(rows)
        values[leaf.field_id] = len(column)
        nulls[leaf.field_id] = column.null_count
        if isinstance(leaf.kind, FloatType | DoubleType):
            nans[leaf.field_id] = pc.sum(pc.is_nan(column)).as_py() or 0
        lower, upper = column_bounds(column, leaf.kind, mode.length) if mode.length else (None, None)
        if lower is not None:
            lower_bounds[leaf.field_id] = lower
        if upper is not None:
            upper_bounds[leaf.field_id] = upper
    sizes, offsets = _extents(footer, ids, modes)
    return {
        "record_count": rows.num_rows,
        "split_offsets": offsets,
        "column_sizes": sizes,
        "value_counts": values,
        "null_value_counts": nulls,
        "nan_value_counts": nans,
        "lower_bounds": lower_bounds,
        "upper_bounds": upper_bounds,
    }


def _extents(
    footer: pq.FileMetaData, ids: Mapping[str, int], modes: Mapping[int, Mode]
) -> tuple[dict[int, int], list[int]]:
    """Bytes by column, and where row groups begin."""
    sizes: dict[int, int] = {}
    offsets: list[int] = []
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for number in range(footer.num_columns):
            column = group.column(number)
            if number == 0:
                first = column.dictionary_page_offset
                offsets.append(column.data_page_offset if first is None else first)
            field_id = ids[column.path_in_schema]
            if modes.get(field_id, NONE).counts:
                sizes[field_id] = sizes.get(field_id, 0) + column.total_compressed_size
    return sizes, offsets
