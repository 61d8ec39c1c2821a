"""Convert a committed slice to the results of `icemirror.result`."""

from __future__ import annotations

from icemirror.result import SliceResult
from icemirror.step_results import MirrorStatus
from spark_job.commit.commit_slice import CommittedSlice
from spark_job.iceberg.mirror import Mirror
from spark_job.plan.slices import Slice


def mirror_status(mirror: Mirror | None) -> MirrorStatus:
    """Return the mirror's cursor and sizes; those of an empty mirror if there is none."""
    if mirror is None:
        return MirrorStatus(cursor=None, live_rows=0, index_bytes=0)
    return MirrorStatus(cursor=mirror.cursor, live_rows=mirror.live_rows, index_bytes=mirror.index_bytes)


def status_after(slice_: Slice, committed: CommittedSlice) -> MirrorStatus:
    """Return the mirror's cursor and sizes after a commit."""
    return MirrorStatus(
        cursor=slice_.cursor, live_rows=committed.root.live_rows, index_bytes=committed.root.bytes
    )


def slice_result(
    slice_: Slice, committed: CommittedSlice, planning_seconds: float, merged_seconds: float
) -> SliceResult:
    """Return the result of a committed slice."""
    counts = committed.counts
    steps = {"plan": planning_seconds, **committed.seconds}
    delete_bytes = {file.file_path: file.file_size_in_bytes for file in committed.delete_files}
    return SliceResult(
        snapshot_id=committed.snapshot_id,
        changelog_files=len(slice_.files),
        events=slice_.events,
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        stale=counts.stale,
        unchanged=counts.unchanged,
        rejected=counts.rejected,
        data_files=len(committed.data_files),
        delete_files=len(delete_bytes),
        data_bytes=sum(file.file_size_in_bytes for file in committed.data_files),
        delete_bytes=sum(delete_bytes.values()),
        index_bytes=committed.index_bytes,
        seconds=round(planning_seconds + merged_seconds, 4),
        seconds_by_step={step: round(seconds, 4) for step, seconds in steps.items()},
    )
