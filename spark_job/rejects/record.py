"""Puts the bad rows of a slice into the rejects table, before the mirror's own commit moves past them.

    guard ─► what is not there yet ─► rows ─► ONE snapshot, on the head that was looked at ─► the mirror's commit

Whoever repeats the slice finds the rows by their place in the changelog, and writes none of them again: after a crash
between the two commits, after an answer that was lost, beside another job, in a replay, in a rebuild.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from icemirror.crash import reach
from icemirror.errors import CommitUnknown, Conflict, Invalid
from icemirror.settings import TableSettings
from icemirror.telemetry.logs import get_log
from spark_job.changelog.rejected import Rejected
from spark_job.changelog.shape import ChangelogShape
from spark_job.files.written import written_for_commit
from spark_job.iceberg.mirror import CURSOR, REJECTED, RUN_ID
from spark_job.iceberg.row_delta import RowDelta
from spark_job.iceberg.tables import Catalogs
from spark_job.key_index.index_location import index_location
from spark_job.maintenance.expiry import choose_expired, clean_up
from spark_job.planning.plan import Slice
from spark_job.rejects.known import find_known
from spark_job.rejects.rows import reject_rows
from spark_job.rejects.table import RejectsTable, open_rejects
from spark_job.write.data_files import write_rows

_MOST_ATTEMPTS = 8
_LEAST_EVENTS = 1000  # of fewer, many may be bad by chance

log = get_log(__name__)


def record_rejects(
    catalogs: Catalogs,
    settings: TableSettings,
    changelog: Table,
    shape: ChangelogShape,
    part: Slice,
    rejected: Rejected,
    run_id: str,
) -> None:
    """When it returns, every bad row of the slice is in the rejects table, once."""
    if not len(rejected):
        return
    began = time.perf_counter()
    require_plausible(settings, part.events, rejected)
    for _ in range(_MOST_ATTEMPTS):
        target = open_rejects(catalogs, settings, changelog, shape)
        new = rejected.take(~find_known(target, part.files, rejected))
        try:
            if len(new):
                _commit(target, changelog, shape, part, new, run_id)
        except Conflict as error:
            log.info("the rejects table moved, looking again", reason=str(error))
            continue
        log.warning(
            "rows rejected",
            rejected=len(rejected),
            written=len(new),
            reasons=rejected.count_by_reason(),
            rejects_table=target.name,
            seconds=round(time.perf_counter() - began, 4),
        )
        return
    raise Conflict(
        f"{settings.rejects_id}: moved during {_MOST_ATTEMPTS} attempts in a row to put bad rows there; who else "
        "writes to it?"
    )


def require_plausible(settings: TableSettings, events: int, rejected: Rejected) -> None:
    """Refuses to put aside what is more likely to be good, and read by a wrong configuration."""
    if events < _LEAST_EVENTS or len(rejected) <= settings.reject_limit * events:
        return
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in rejected.count_by_reason().items())
    raise Invalid(
        f"{settings.name}: {len(rejected):,} of the next {events:,} events cannot be merged ({reasons}), which is more "
        f"than the share of {settings.reject_limit:g} that may be put aside (reject_limit). Nothing was merged. Check "
        "primary_keys, operation_column, operation_values and sequence_column; if the rows are bad indeed, raise "
        "reject_limit. Then `icemirror resume`."
    )


def _commit(
    target: RejectsTable,
    changelog: Table,
    shape: ChangelogShape,
    part: Slice,
    rejected: Rejected,
    run_id: str,
) -> None:
    """One snapshot. On a conflict its files are removed; while the outcome is unknown none is."""
    table, metadata = target.table, target.metadata
    try:
        with written_for_commit(table.io) as written:
            reach("write-rejects")
            files = _write(target, changelog, shape, part, rejected, written)
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
                    CURSOR: part.cursor.model_dump_json(),
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
    clean_up(table, expiry, after, index_location(metadata, None))


def _write(
    target: RejectsTable,
    changelog: Table,
    shape: ChangelogShape,
    part: Slice,
    rejected: Rejected,
    written: list[str],
) -> Sequence[DataFile]:
    now, io = datetime.now(UTC), target.table.io
    pieces = reject_rows(changelog.io, part.files, rejected, target, shape.defaults, now)
    return [file for rows in pieces for file in write_rows(io, target.metadata, rows, written).files]
