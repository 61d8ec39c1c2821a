"""Bad rows as the rejects table holds them: from changelog Parquet by position, as Arrow, with why and where from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from spark_job.changelog.bulk import piece_bytes
from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.rejected import Rejected
from spark_job.changelog.source_rows import TooMuch, read_rows
from spark_job.columns.absent import Absent
from spark_job.columns.projection import field_id_of
from spark_job.rejects.columns import Own
from spark_job.rejects.table import RejectsTable


def reject_rows(
    io: FileIO,
    files: Sequence[ChangeFile],
    rejected: Rejected,
    target: RejectsTable,
    defaults: Absent,
    now: datetime,
) -> Iterator[pa.Table]:
    """Rows for the table, in pieces that memory has room for. What is rejected must stand in the order (file, row)."""
    most = piece_bytes(sum(file.bytes for file in files))
    pieces = [rejected]
    while pieces:
        piece = pieces.pop(0)
        try:
            rows = _read(io, files, piece, target, defaults, most)
        except TooMuch:
            half = len(piece) // 2
            pieces[:0] = [piece.take(np.arange(half)), piece.take(np.arange(half, len(piece)))]
            continue
        yield _with_own(rows, files, piece, target, now)


def _read(
    io: FileIO,
    files: Sequence[ChangeFile],
    rejected: Rejected,
    target: RejectsTable,
    defaults: Absent,
    most_bytes: int,
) -> pa.Table:
    """The changelog's columns."""
    own = {target.columns.ids[one] for one in Own}
    schema = Schema(*(field for field in target.columns.schema.fields if field.field_id not in own))
    ids = {source: number for source, number in target.columns.ids.items() if source in target.source_ids}
    return read_rows(io, files, rejected.file, rejected.row, ids, schema, defaults, most_bytes)


def _with_own(
    rows: pa.Table, files: Sequence[ChangeFile], rejected: Rejected, target: RejectsTable, now: datetime
) -> pa.Table:
    of = [files[ordinal] for ordinal in rejected.file.tolist()]
    own: dict[Own, list[object]] = {
        Own.REASON: [reason.value for reason in rejected.reasons],
        Own.MESSAGE: [reason.words for reason in rejected.reasons],
        Own.REJECTED_AT: [now] * len(rejected),
        Own.SNAPSHOT_ID: [file.snapshot_id for file in of],
        Own.COMMIT: [file.sequence_number for file in of],
        Own.FILE: [file.path for file in of],
        Own.POSITION: rejected.row.tolist(),
    }
    values = {target.columns.ids[one]: given for one, given in own.items()}
    schema = schema_to_pyarrow(target.columns.schema)
    columns = [
        pa.chunked_array([pa.array(values[number], field.type)])
        if (number := field_id_of(field, target.name)) in values
        else rows[field.name]
        for field in schema
    ]
    return pa.table(columns, schema=schema)
