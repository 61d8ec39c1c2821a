"""The narrow columns of changelog files: key, operation, sequence, and what else tells of an event without its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from icemirror.errors import Invalid
from spark_job.changelog.shape import ChangelogShape
from spark_job.columns.one_form import fits
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
    """The narrow columns of a file, or of some of its rows, ascending."""
    found = _read(parquet, path, shape, shape.narrow_ids, rows)
    return Narrow(
        keys=[found[one] for one in shape.key_ids],
        operation=None if shape.operation_id is None else found[shape.operation_id],
        sequence=[found[one] for one in shape.sequence.field_ids],
        deleted=None if shape.delete_id is None else found[shape.delete_id],
        old_keys=[found[one] for one in shape.old_key_ids],
    )


def read_sequence(
    parquet: pq.ParquetFile, path: str, shape: ChangelogShape, rows: NDArray[np.int64] | None = None
) -> list[pa.Array]:
    """Only the columns of the sequence."""
    found = _read(parquet, path, shape, shape.sequence.field_ids, rows)
    return [found[one] for one in shape.sequence.field_ids]


def _read(
    parquet: pq.ParquetFile,
    path: str,
    shape: ChangelogShape,
    field_ids: Sequence[int],
    rows: NDArray[np.int64] | None,
) -> dict[int, pa.Array]:
    """Columns by field id. A file that is older than one that it may lack has NULL there."""
    there = column_paths(parquet, path, field_ids)
    wanted = [one for one in field_ids if one in there or one not in shape.optional_ids]
    columns = read_columns(parquet, path, wanted) if rows is None else read_at(parquet, path, wanted, rows)
    found = dict(zip(wanted, columns, strict=True))
    for field_id, values in found.items():
        form = shape.forms.get(field_id)
        if form == pa.large_string() and pa.types.is_large_binary(values.type):
            found[field_id] = values.cast(form)  # of a writer that does not mark texts as such
        elif form is not None and not fits(values.type, form):
            raise Invalid(
                f"{path}: column {'.'.join(there[field_id])} holds {values.type}, but is {form} in {shape.changelog}: "
                "its values cannot be compared with others. Roll the changelog back to the snapshot before the file, "
                "and append its rows as they should be; then `icemirror resume`."
            )
    count = parquet.metadata.num_rows if rows is None else len(rows)
    return {one: found[one] if one in found else pa.nulls(count) for one in field_ids}
