"""How far each mirror is behind its changelog, from the commits made and the mirror's metadata."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from icemirror.cli.demo.oracle.mirror_readers import read_cursor
from icemirror.cli.demo.workspace import NAMESPACE
from icemirror.tables.cursor import Cursor


@dataclass(frozen=True, slots=True)
class CommittedEvents:
    """A commit on a changelog, with the number of all events up to it."""

    snapshot_id: int
    committed_at: float
    events_so_far: int


@dataclass(frozen=True, slots=True)
class LatestMerge:
    """The newest merge of a mirror, by its metadata."""

    cursor: Cursor | None = None
    live_rows: int = 0
    merges: int = 0
    committed_at: float | None = None


@dataclass(frozen=True, slots=True)
class MirrorProgress:
    """The progress of one table."""

    table: str
    committed_events: int
    merged_events: int
    lag_seconds: float
    live_rows: int
    merges: int
    merged_at: float | None

    @property
    def is_current(self) -> bool:
        """True if the mirror contains every committed event."""
        return self.merged_events == self.committed_events and self.lag_seconds == 0


def measure_progress(
    table: str, commits: tuple[CommittedEvents, ...], latest_merge: LatestMerge, now: float
) -> MirrorProgress:
    """Count merged events; the lag is the age of the oldest commit that is not merged."""
    merged = _count_merged_commits(commits, latest_merge.cursor)
    unmerged = commits[merged:]
    return MirrorProgress(
        table=table,
        committed_events=commits[-1].events_so_far if commits else 0,
        merged_events=commits[merged - 1].events_so_far if merged else 0,
        lag_seconds=max(0.001, now - unmerged[0].committed_at) if unmerged else 0.0,
        live_rows=latest_merge.live_rows,
        merges=latest_merge.merges,
        merged_at=latest_merge.committed_at,
    )


def _count_merged_commits(commits: tuple[CommittedEvents, ...], cursor: Cursor | None) -> int:
    """Return how many commits the cursor covers completely."""
    if cursor is None:
        return 0
    source = cursor.source
    for count, commit in enumerate(commits, start=1):
        if commit.snapshot_id == source.snapshot_id:
            return count if source.files_done is None else count - 1
    return len(commits)  # merged before it was recorded here


# Repeated as literals: the demo checks icemirror from outside.
_RUN_ID = "icemirror.run-id"
_LIVE_ROWS = "icemirror.live-rows"


def read_latest_merge(catalog: Catalog, name: str) -> LatestMerge:
    """Read the newest merge of a mirror; empty if there is none."""
    try:
        mirror = catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return LatestMerge()
    merges = [
        snapshot
        for snapshot in sorted(mirror.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
        if snapshot.summary and _RUN_ID in snapshot.summary.additional_properties
    ]
    if not merges or merges[-1].summary is None:
        return LatestMerge()
    newest = merges[-1]
    return LatestMerge(
        cursor=read_cursor(mirror, newest.snapshot_id),
        live_rows=int(merges[-1].summary.additional_properties.get(_LIVE_ROWS, 0)),
        merges=len(merges),
        committed_at=newest.timestamp_ms / 1000,
    )
