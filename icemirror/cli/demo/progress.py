"""How far each mirror is behind its changelog, from the commits made and the mirror's metadata."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError

from icemirror.cli.demo.oracle.mirror_readers import read_cursor
from icemirror.cli.demo.workspace import NAMESPACE
from icemirror.tables.cursor import Cursor


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A commit on a changelog, with the number of all events up to it."""

    snapshot_id: int
    committed_at: float
    events_so_far: int


@dataclass(frozen=True, slots=True)
class MirrorState:
    """What a mirror's metadata contain."""

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
    def caught_up(self) -> bool:
        """Whether the mirror contains every committed event."""
        return self.merged_events == self.committed_events and self.lag_seconds == 0


def measure_progress(
    table: str, ledger: tuple[LedgerEntry, ...], mirror: MirrorState, now: float
) -> MirrorProgress:
    """Count merged events; the lag is the age of the oldest commit that is not merged."""
    merged = _merged_entries(ledger, mirror.cursor)
    waiting = ledger[merged:]
    return MirrorProgress(
        table=table,
        committed_events=ledger[-1].events_so_far if ledger else 0,
        merged_events=ledger[merged - 1].events_so_far if merged else 0,
        lag_seconds=max(0.001, now - waiting[0].committed_at) if waiting else 0.0,
        live_rows=mirror.live_rows,
        merges=mirror.merges,
        merged_at=mirror.committed_at,
    )


def _merged_entries(ledger: tuple[LedgerEntry, ...], cursor: Cursor | None) -> int:
    """Return how many commits the cursor covers completely."""
    if cursor is None:
        return 0
    source = cursor.source
    for number, entry in enumerate(ledger, start=1):
        if entry.snapshot_id == source.snapshot_id:
            return number if source.files_done is None else number - 1
    return len(ledger)  # merged before it was recorded here


_RUN_ID = "icemirror.run-id"
_LIVE_ROWS = "icemirror.live-rows"


def read_mirror_state(catalog: Catalog, name: str) -> MirrorState:
    """Read the newest merge of a mirror; empty if there is none."""
    try:
        mirror = catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return MirrorState()
    merges = [
        snapshot
        for snapshot in sorted(mirror.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0)
        if snapshot.summary and _RUN_ID in snapshot.summary.additional_properties
    ]
    if not merges or merges[-1].summary is None:
        return MirrorState()
    newest = merges[-1]
    return MirrorState(
        cursor=read_cursor(mirror, newest.snapshot_id),
        live_rows=int(merges[-1].summary.additional_properties.get(_LIVE_ROWS, 0)),
        merges=len(merges),
        committed_at=newest.timestamp_ms / 1000,
    )
