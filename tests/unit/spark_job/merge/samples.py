"""Sample changes, changelog files and shapes, without a catalog."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.sequence import choose_sequence
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.index.key_codec import choose_codec
from spark_job.index.keys import Keys
from tests.lab.lab import ID_AND_NAME

OPERATIONS: dict[str | None, Operation] = {
    "INSERT": Operation.UPSERT,
    "UPDATE": Operation.UPSERT,
    "DELETE": Operation.DELETE,
}


def shape_of(schema: Schema = ID_AND_NAME, hash_bits: int = 96) -> ChangelogShape:
    """Return the shape of a changelog written by Supabase ETL."""
    operation, sequence = schema.fields[-2:]
    keys = [field for field in schema.fields if field.field_id in schema.identifier_field_ids]
    return ChangelogShape(
        key_ids=tuple(key.field_id for key in keys),
        operation_id=operation.field_id,
        operations=OPERATIONS,
        sequence=choose_sequence([sequence]),
        row_ids=tuple(field.field_id for field in schema.fields[:-2]),
        key_codec=choose_codec([key.field_type for key in keys], hash_bits),
    )


def save(
    folder: Path, table: pa.Table, sequence_number: int = 1, row_group_size: int | None = None
) -> ChangelogFile:
    """Write a changelog file."""
    path = folder / f"{uuid4()}.parquet"
    pq.write_table(table, path, row_group_size=row_group_size)
    return ChangelogFile(str(path), path.stat().st_size, table.num_rows, sequence_number, sequence_number)


def make_changes(events: Sequence[tuple[int, str, int]], file: Sequence[int] | None = None) -> EventBatch:
    """Return changes of 64-bit keys: (key, U or D, sequence), in the rows of one file or of the given files."""
    count = len(events)
    files = np.array(file if file is not None else [0] * count, np.uint32)
    rows = [int((files[:index] == files[index]).sum()) for index in range(count)]
    return EventBatch(
        Keys(np.array([key for key, _, _ in events], np.uint64)),
        np.array([op == "D" for _, op, _ in events], np.uint8),
        np.array([[sequence] for _, _, sequence in events], np.uint64).reshape(count, 1),
        files,
        np.array(rows, np.uint32),
    )


def change_tuples(changes: EventBatch) -> list[tuple[int, str, int, int, int]]:
    """Return (key, operation, sequence, file, row) of each change."""
    columns = (
        [changes.keys.at(index) for index in range(len(changes))],
        ["D" if deletes else "U" for deletes in changes.operation.tolist()],
        changes.sequence[:, 0].tolist(),
        changes.file.tolist(),
        changes.row.tolist(),
    )
    return list(zip(*columns, strict=True))
