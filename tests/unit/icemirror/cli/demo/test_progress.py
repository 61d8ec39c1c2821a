from __future__ import annotations

from icemirror.cli.demo.progress import CommittedEvents, LatestMerge, measure_progress
from icemirror.tables.cursor import Cursor, CursorSource

_LEDGER = (CommittedEvents(11, 100.0, 10), CommittedEvents(12, 101.0, 25), CommittedEvents(13, 104.0, 30))


def _mirror(snapshot_id: int, files_done: int | None = None) -> LatestMerge:
    source = CursorSource(uuid="u", snapshot_id=snapshot_id, sequence_number=1, files_done=files_done)
    return LatestMerge(Cursor(sources=(source,)), live_rows=9, merges=2, committed_at=102.0)


def test_without_a_mirror_all_events_are_pending() -> None:
    progress = measure_progress("t", _LEDGER, LatestMerge(), now=110.0)
    assert (progress.committed_events, progress.merged_events) == (30, 0)
    assert progress.lag_seconds == 10.0
    assert not progress.is_current


def test_lag_is_the_age_of_the_oldest_pending_commit() -> None:
    progress = measure_progress("t", _LEDGER, _mirror(12), now=110.0)
    assert (progress.merged_events, progress.lag_seconds) == (25, 6.0)
    assert (progress.live_rows, progress.merges, progress.merged_at) == (9, 2, 102.0)


def test_partly_merged_commit_is_not_counted() -> None:
    assert measure_progress("t", _LEDGER, _mirror(13, files_done=1), now=110.0).merged_events == 25


def test_up_to_date_mirror_has_no_lag() -> None:
    progress = measure_progress("t", _LEDGER, _mirror(13), now=110.0)
    assert progress.is_current
    assert progress.lag_seconds == 0


def test_merge_ahead_of_the_ledger_counts_as_up_to_date() -> None:
    assert measure_progress("t", _LEDGER, _mirror(99), now=110.0).is_current


def test_empty_ledger_is_up_to_date() -> None:
    assert measure_progress("t", (), LatestMerge(), now=1.0).is_current
