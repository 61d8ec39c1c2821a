"""The narrow columns of changelog files: key, operation, sequence, and what else tells of an event without its row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.parquet_columns import column_paths, read_at, read_columns


@dataclass(frozen=True, slots=True)
class Narrow:
    """Columns of some events. `operation` is None where every row is an upsert, `deleted` where nothing but the
    operation deletes; `old_keys` is empty where nothing tells of the key before a change."""

    keys: list[pa.Array]
    operation: pa.Array | None
    sequence: list[pa.Array]
    deleted: pa.Array | None
    old_keys: list[pa.Array]

    def __len__(self) -> int:
        return len(self.keys[0])

    def filter(self, kept: NDArray[np.bool_]) -> Narrow:
        """Some of the events."""
        mask = pa.array(kept)
        return Narrow(
            [column.filter(mask) for column in self.keys],
            None if self.operation is None else self.operation.filter(mask),
            [column.filter(mask) for column in self.sequence],
            None if self.deleted is None else self.deleted.filter(mask),
            [column.filter(mask) for column in self.old_keys],
        )


def read_narrow(
    parquet: pq.ParquetFile, path: str, shape: ChangelogShape, rows: NDArray[np.int64] | None = None
) -> Narrow:
    """The narrow columns of a file, or of some of its rows, ascending.

    A file that is older than the column that deletes, or than those of old keys, has NULL there.
    """
    there = column_paths(parquet, path, shape.narrow_ids)
    wanted = [one for one in shape.narrow_ids if one in there or one not in shape.optional_ids]
    columns = read_columns(parquet, path, wanted) if rows is None else read_at(parquet, path, wanted, rows)
    found = dict(zip(wanted, columns, strict=True))
    count = len(columns[0])

    def column(field_id: int) -> pa.Array:
        return found[field_id] if field_id in found else pa.nulls(count)

    return Narrow(
        keys=[column(one) for one in shape.key_ids],
        operation=None if shape.operation_id is None else column(shape.operation_id),
        sequence=[column(one) for one in shape.sequence.field_ids],
        deleted=None if shape.delete_id is None else column(shape.delete_id),
        old_keys=[column(one) for one in shape.old_key_ids],
    )
