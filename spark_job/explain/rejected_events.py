"""Events of a key that were put aside: those that cannot be merged, and those that once could not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from icemirror.settings import TableSettings
from spark_job.changelog.rejected import Rejected
from spark_job.explain.key_events import Found, RejectedEvent
from spark_job.explain.past import Past
from spark_job.explain.report import RejectedReport, commit_time
from spark_job.pipeline import Pipeline
from spark_job.rejects.known import known_places
from spark_job.rejects.table import find_rejects


def tell_rejected(past: Past, rejected: Sequence[RejectedEvent]) -> Iterator[RejectedReport]:
    """In the order in which they came."""
    snapshots = {one.snapshot_id: one for one in past.changelog.metadata.snapshots}
    for one in sorted(rejected, key=lambda one: (one.file, one.row)):
        file, merged = past.files[one.file], one.file < past.merged
        yield RejectedReport(
            reason=one.reason,
            snapshot_id=file.snapshot_id,
            commit=file.sequence_number,
            committed_at=commit_time(snapshots.get(file.snapshot_id)),
            file=file.path,
            position=one.row,
            merged=merged,
            words=f"{'rejected' if merged else 'will be rejected'}: {one.reason.words}",
        )


def note_good_now(pipeline: Pipeline, table: TableSettings, past: Past, told: Found) -> Iterator[str]:
    """Of merged events that the rejects table has, although they can be merged by now."""
    merged = told.events.changes.take(np.arange(told.events.merged))
    if table.on_bad_row != "quarantine" or not len(merged):
        return
    standing = find_rejects(pipeline.catalogs, table)
    if standing is None:
        return
    places = Rejected(merged.file, merged.row, np.zeros(len(merged), dtype=np.uint8))
    known = known_places(*standing, past.files, places)
    for ordinal in np.unique(merged.file[known]).tolist():
        count, file = int((merged.file[known] == ordinal).sum()), past.files[ordinal]
        yield (
            f"of its events, {count:,} of {file.path} were rejected when they came, and can be merged by now. If that "
            f"was not done since, `icemirror replay -t {table.name} --from-snapshot {file.snapshot_id}` does it."
        )
