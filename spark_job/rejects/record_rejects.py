"""Writes the bad rows of a slice to the rejects table, before the commit of the mirror moves past them.

    check the limit ─► skip recorded rows ─► write rows ─► ONE snapshot, fenced on the head ─► commit of the mirror

A repeated slice finds its rows by their position in the changelog and writes none of them twice: after a crash between
the two commits, after a lost response, next to another job, in a replay or a rebuild.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from icemirror.errors import CommitUnknown, Invalid
from icemirror.processes.crash_points import crash_point
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.memory_bounds import max_row_bytes
from spark_job.changelog.read_rows import RowsExceedMemory, read_rows
from spark_job.changelog.rejected_rows import RejectedRows
from spark_job.columns.missing_columns import MissingValues
from spark_job.columns.projection import read_field_id
from spark_job.commit.expire.expiry import choose_expired, delete_expired_files
from spark_job.commit.retry import MAX_ATTEMPTS, ConflictRetries
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.property_names import PROPERTY_CURSOR, PROPERTY_REJECTED, PROPERTY_RUN_ID
from spark_job.index.location import index_location
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan
from spark_job.rejects.rejects_schema import RejectsColumn
from spark_job.rejects.rejects_table import RejectsTable, find_recorded, open_rejects
from spark_job.storage.discard import discard_unless_committed
from spark_job.write.data_files import write_rows

_MIN_EVENTS = 1000  # smaller slices have too few rows for a share

log = get_log(__name__)


def record_rejects(
    catalogs: Catalogs,
    table_plan: TablePlan,
    slice_: Slice,
    rejected: RejectedRows,
    run_id: str,
) -> None:
    """Record each bad row of the slice in the rejects table, exactly once."""
    if not len(rejected):
        return
    began, table_settings = time.perf_counter(), table_plan.table_settings
    require_within_limit(table_settings, slice_.events, rejected)
    written = _commit_unrecorded(catalogs, table_plan, slice_, rejected, run_id)
    log.warning(
        "rows rejected",
        rejected=len(rejected),
        written=written,
        reasons=rejected.count_by_reason(),
        rejects_table=str(table_settings.rejects_id),
        seconds=round(time.perf_counter() - began, 4),
    )


def _commit_unrecorded(
    catalogs: Catalogs,
    table_plan: TablePlan,
    slice_: Slice,
    rejected: RejectedRows,
    run_id: str,
) -> int:
    """Commit the rows that the rejects table does not have yet. Return how many."""
    table_settings = table_plan.table_settings
    retries = ConflictRetries(
        exhausted=f"{table_settings.rejects_id}: another writer committed during each of {MAX_ATTEMPTS} attempts to "
        "record rejected rows. Check which engine writes to the rejects table."
    )
    while True:
        target = open_rejects(catalogs, table_settings, table_plan.changelog, table_plan.shape)
        unrecorded = rejected.take(
            ~find_recorded(target.table, target.current_columns, slice_.files, rejected)
        )
        with retries:
            if len(unrecorded):
                _commit_rejects(target, table_plan, slice_, unrecorded, run_id)
            return len(unrecorded)


def require_within_limit(table_settings: TableSettings, events: int, rejected: RejectedRows) -> None:
    """Raise `Invalid` for a large share of bad rows: a wrong configuration is more likely than so many of them."""
    if events < _MIN_EVENTS or len(rejected) <= table_settings.reject_limit * events:
        return
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in rejected.count_by_reason().items())
    raise Invalid(
        f"{table_settings.name}: {len(rejected):,} of the next {events:,} events cannot be merged ({reasons}), which "
        f"is more than the share of {table_settings.reject_limit:g} that may be rejected (reject_limit). Nothing was "
        "merged. Check primary_keys, operation_column, operation_values and sequence_column; if the rows are really "
        "bad, raise reject_limit. Then `icemirror resume`."
    )


def _commit_rejects(
    target: RejectsTable,
    table_plan: TablePlan,
    slice_: Slice,
    rejected: RejectedRows,
    run_id: str,
) -> None:
    """Commit one snapshot. Its files are deleted after a conflict, and kept while the outcome is unknown."""
    table, metadata = target.table, target.metadata
    try:
        with discard_unless_committed(table.io) as written:
            crash_point("write-rejects")
            files = _write_files(target, table_plan, slice_, rejected, written)
            crash_point("rejects-written")
            expiry = choose_expired(table)
            delta = RowDelta(
                table=table,
                head=table.current_snapshot(),
                snapshot_id=metadata.new_snapshot_id(),
                data_files=files,
                delete_files=(),
                summary={
                    PROPERTY_RUN_ID: run_id,
                    PROPERTY_CURSOR: slice_.cursor.model_dump_json(),
                    PROPERTY_REJECTED: str(len(rejected)),
                },
                properties=target.properties,
                expired_snapshot_ids=expiry.snapshot_ids,
                schema=target.new_schema,
                metadata_paths=written,
            )
            crash_point("commit-rejects")
            committed_metadata = delta.commit()
            crash_point("rejects-committed")
    except CommitUnknown as error:
        raise CommitUnknown(f"{target.name}: {error}") from error
    delete_expired_files(table, expiry, committed_metadata, index_location(metadata, None))


def _write_files(
    target: RejectsTable,
    table_plan: TablePlan,
    slice_: Slice,
    rejected: RejectedRows,
    written: list[str],
) -> Sequence[DataFile]:
    """Write the rejected rows. Return the new data files; their paths are added to `written`."""
    now, io = datetime.now(UTC), target.table.io
    defaults = table_plan.shape.defaults
    pieces = _read_rejected_rows(table_plan.changelog.io, slice_.files, rejected, target, defaults, now)
    return [file for rows in pieces for file in write_rows(io, target.metadata, rows, written).files]


def _read_rejected_rows(
    io: FileIO,
    files: Sequence[ChangelogFile],
    rejected: RejectedRows,
    target: RejectsTable,
    defaults: MissingValues,
    now: datetime,
) -> Iterator[pa.Table]:
    """Yield the rows for the table, in pieces that fit into memory. `rejected` must be sorted by (file, row)."""
    max_bytes = max_row_bytes(sum(file.bytes for file in files))
    pieces = [rejected]
    while pieces:
        piece = pieces.pop(0)
        try:
            rows = _read_changelog_columns(io, files, piece, target, defaults, max_bytes)
        except RowsExceedMemory:
            half = len(piece) // 2
            pieces[:0] = [piece.take(np.arange(half)), piece.take(np.arange(half, len(piece)))]
            continue
        yield _with_reject_columns(rows, files, piece, target, now)


def _read_changelog_columns(
    io: FileIO,
    files: Sequence[ChangelogFile],
    rejected: RejectedRows,
    target: RejectsTable,
    defaults: MissingValues,
    max_bytes: int,
) -> pa.Table:
    """Return the changelog's columns of the rejected rows."""
    added_ids = {target.next_columns.field_map[column] for column in RejectsColumn}
    schema = Schema(
        *(field for field in target.next_columns.schema.fields if field.field_id not in added_ids)
    )
    field_map = {
        source_id: field_id
        for source_id, field_id in target.next_columns.field_map.items()
        if source_id in target.source_ids
    }
    return read_rows(io, files, rejected.file, rejected.row, field_map, schema, defaults, max_bytes)


def _with_reject_columns(
    rows: pa.Table,
    files: Sequence[ChangelogFile],
    rejected: RejectedRows,
    target: RejectsTable,
    now: datetime,
) -> pa.Table:
    """Return the rows with the reason and the origin of each."""
    row_files = [files[ordinal] for ordinal in rejected.file.tolist()]
    added_columns: dict[RejectsColumn, list[object]] = {
        RejectsColumn.REASON: [reason.value for reason in rejected.reasons],
        RejectsColumn.MESSAGE: [reason.description for reason in rejected.reasons],
        RejectsColumn.REJECTED_AT: [now] * len(rejected),
        RejectsColumn.SNAPSHOT_ID: [file.snapshot_id for file in row_files],
        RejectsColumn.COMMIT: [file.sequence_number for file in row_files],
        RejectsColumn.FILE: [file.path for file in row_files],
        RejectsColumn.POSITION: rejected.row.tolist(),
    }
    values = {
        target.next_columns.field_map[column]: row_values for column, row_values in added_columns.items()
    }
    schema = schema_to_pyarrow(target.next_columns.schema)
    columns = [
        pa.chunked_array([pa.array(values[field_id], field.type)])
        if (field_id := read_field_id(field, target.name)) in values
        else rows[field.name]
        for field in schema
    ]
    return pa.table(columns, schema=schema)
