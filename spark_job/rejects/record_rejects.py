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
from icemirror.processes.crash_points import reach
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.changelog.history import ChangelogFile
from spark_job.changelog.memory_bounds import piece_bytes
from spark_job.changelog.read_rows import RowsExceedMemory, read_rows
from spark_job.changelog.rejected_rows import RejectedRows
from spark_job.columns.missing_columns import MissingValues
from spark_job.columns.projection import field_id_of
from spark_job.commit.expiry import choose_expired, delete_expired_files
from spark_job.commit.retry import MAX_ATTEMPTS, ConflictRetries
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.catalogs import Catalogs
from spark_job.iceberg.mirror import CURSOR, REJECTED, RUN_ID
from spark_job.index.root import index_location
from spark_job.plan.slices import Slice
from spark_job.plan.table_plan import TablePlan
from spark_job.rejects.rejects_schema import RejectsColumn
from spark_job.rejects.rejects_table import RejectsTable, find_recorded, open_rejects
from spark_job.storage.discard import discard_unless_committed
from spark_job.write.data_files import write_rows

_MIN_EVENTS = 1000  # the share of bad rows means nothing in smaller slices

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
    began, settings = time.perf_counter(), table_plan.settings
    require_within_limit(settings, slice_.events, rejected)
    written = _record(catalogs, table_plan, slice_, rejected, run_id)
    log.warning(
        "rows rejected",
        rejected=len(rejected),
        written=written,
        reasons=rejected.count_by_reason(),
        rejects_table=str(settings.rejects_id),
        seconds=round(time.perf_counter() - began, 4),
    )


def _record(
    catalogs: Catalogs,
    table_plan: TablePlan,
    slice_: Slice,
    rejected: RejectedRows,
    run_id: str,
) -> int:
    """Commit the rows that the rejects table does not have yet; return how many."""
    settings = table_plan.settings
    retries = ConflictRetries(
        exhausted=f"{settings.rejects_id}: another writer committed during each of {MAX_ATTEMPTS} attempts to record "
        "rejected rows. Check which engine writes to the rejects table."
    )
    while True:
        target = open_rejects(catalogs, settings, table_plan.changelog, table_plan.shape)
        new = rejected.take(~find_recorded(target.table, target.current, slice_.files, rejected))
        with retries:
            if len(new):
                _commit(target, table_plan, slice_, new, run_id)
            return len(new)


def require_within_limit(settings: TableSettings, events: int, rejected: RejectedRows) -> None:
    """Refuse to reject a large share of the events: a wrong configuration is more likely than so many bad rows."""
    if events < _MIN_EVENTS or len(rejected) <= settings.reject_limit * events:
        return
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in rejected.count_by_reason().items())
    raise Invalid(
        f"{settings.name}: {len(rejected):,} of the next {events:,} events cannot be merged ({reasons}), which is more "
        f"than the share of {settings.reject_limit:g} that may be rejected (reject_limit). Nothing was merged. Check "
        "primary_keys, operation_column, operation_values and sequence_column; if the rows are really bad, raise "
        "reject_limit. Then `icemirror resume`."
    )


def _commit(
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
            reach("write-rejects")
            files = _write(target, table_plan, slice_, rejected, written)
            reach("rejects-written")
            expiry = choose_expired(table)
            delta = RowDelta(
                table=table,
                head=table.current_snapshot(),
                snapshot_id=metadata.new_snapshot_id(),
                data_files=files,
                delete_files=(),
                summary={
                    RUN_ID: run_id,
                    CURSOR: slice_.cursor.model_dump_json(),
                    REJECTED: str(len(rejected)),
                },
                properties=target.properties,
                expired=expiry.snapshot_ids,
                schema=target.new_schema,
                written=written,
            )
            reach("commit-rejects")
            after = delta.commit()
            reach("rejects-committed")
    except CommitUnknown as error:
        raise CommitUnknown(f"{target.name}: {error}") from error
    delete_expired_files(table, expiry, after, index_location(metadata, None))


def _write(
    target: RejectsTable,
    table_plan: TablePlan,
    slice_: Slice,
    rejected: RejectedRows,
    written: list[str],
) -> Sequence[DataFile]:
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
    """Read the rows for the table, in pieces that fit into memory. `rejected` must be sorted by (file, row)."""
    max_bytes = piece_bytes(sum(file.bytes for file in files))
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
    """Read the columns of the changelog."""
    icemirror_ids = {target.columns.ids[column] for column in RejectsColumn}
    schema = Schema(*(field for field in target.columns.schema.fields if field.field_id not in icemirror_ids))
    ids = {source: number for source, number in target.columns.ids.items() if source in target.source_ids}
    return read_rows(io, files, rejected.file, rejected.row, ids, schema, defaults, max_bytes)


def _with_reject_columns(
    rows: pa.Table,
    files: Sequence[ChangelogFile],
    rejected: RejectedRows,
    target: RejectsTable,
    now: datetime,
) -> pa.Table:
    """Add the reason and the origin of each row."""
    files_of_rows = [files[ordinal] for ordinal in rejected.file.tolist()]
    icemirror_columns: dict[RejectsColumn, list[object]] = {
        RejectsColumn.REASON: [reason.value for reason in rejected.reasons],
        RejectsColumn.MESSAGE: [reason.description for reason in rejected.reasons],
        RejectsColumn.REJECTED_AT: [now] * len(rejected),
        RejectsColumn.SNAPSHOT_ID: [file.snapshot_id for file in files_of_rows],
        RejectsColumn.COMMIT: [file.sequence_number for file in files_of_rows],
        RejectsColumn.FILE: [file.path for file in files_of_rows],
        RejectsColumn.POSITION: rejected.row.tolist(),
    }
    values = {
        target.columns.ids[column]: values_of_rows for column, values_of_rows in icemirror_columns.items()
    }
    schema = schema_to_pyarrow(target.columns.schema)
    columns = [
        pa.chunked_array([pa.array(values[number], field.type)])
        if (number := field_id_of(field, target.name)) in values
        else rows[field.name]
        for field in schema
    ]
    return pa.table(columns, schema=schema)
