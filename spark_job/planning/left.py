"""What of a changelog is left to merge, from a plan."""

from __future__ import annotations

from icemirror.result import Left
from spark_job.planning.plan import Slice
from spark_job.planning.stock import Prepared


def left_after(prepared: Prepared, part: Slice | None) -> Left:
    """What the plan leaves when this part of it (None: nothing yet) is merged."""
    slices = prepared.slices if part is None else prepared.slices[prepared.slices.index(part) + 1 :]
    return Left(
        snapshots=len(prepared.lineage) - _done(prepared, part),
        events=sum(one.events for one in slices),
        since=_since(prepared, slices),
    )


def _done(prepared: Prepared, part: Slice | None) -> int:
    """Of how many snapshots nothing is left."""
    if part is None:
        return 0
    source = part.cursor.source
    return prepared.lineage.index(source.snapshot_id) + (source.files_done is None)


def _since(prepared: Prepared, slices: tuple[Slice, ...]) -> float | None:
    """When the oldest commit was made that is not merged; where it has expired, the oldest that is left."""
    if not slices:
        return None
    made_at = {one.snapshot_id: one.timestamp_ms / 1000 for one in prepared.changelog.metadata.snapshots}
    for part in slices:
        for snapshot_id in (*(file.snapshot_id for file in part.files), part.cursor.source.snapshot_id):
            if snapshot_id in made_at:
                return made_at[snapshot_id]
    return None
