"""Which changelog commits were made when, and how far a mirror is behind them."""

from __future__ import annotations

from dataclasses import dataclass

from icemirror.cursor import Cursor


@dataclass(frozen=True, slots=True)
class Entry:
    """A commit on a changelog, with the count of all events up to it."""

    snapshot_id: int
    committed_at: float
    events_so_far: int


@dataclass(frozen=True, slots=True)
class MirrorState:
    """What a mirror's metadata say."""

    cursor: Cursor | None = None
    live_rows: int = 0
    merges: int = 0
    committed_at: float | None = None


@dataclass(frozen=True, slots=True)
class TableProgress:
    """One table at one moment."""

    table: str
    committed_events: int
    merged_events: int
    lag_seconds: float
    live_rows: int
    merges: int
    merged_at: float | None

    @property
    def caught_up(self) -> bool:
        """Whether the mirror holds all that was committed."""
        return self.merged_events == self.committed_events and self.lag_seconds == 0


def measure_progress(table: str, ledger: tuple[Entry, ...], mirror: MirrorState, now: float) -> TableProgress:
    """Counts what is merged; the lag is the age of the oldest commit that is not."""
    merged = _merged_entries(ledger, mirror.cursor)
    waiting = ledger[merged:]
    return TableProgress(
        table=table,
        committed_events=ledger[-1].events_so_far if ledger else 0,
        merged_events=ledger[merged - 1].events_so_far if merged else 0,
        lag_seconds=max(0.001, now - waiting[0].committed_at) if waiting else 0.0,
        live_rows=mirror.live_rows,
        merges=mirror.merges,
        merged_at=mirror.committed_at,
    )


def _merged_entries(ledger: tuple[Entry, ...], cursor: Cursor | None) -> int:
    """How many commits the cursor covers whole; one that was cut does not count yet."""
    if cursor is None:
        return 0
    source = cursor.source
    for number, entry in enumerate(ledger, start=1):
        if entry.snapshot_id == source.snapshot_id:
            return number if source.files_done is None else number - 1
    return len(ledger)  # it was merged before it was entered here
