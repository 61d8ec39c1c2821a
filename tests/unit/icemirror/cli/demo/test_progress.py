from __future__ import annotations

from icemirror.cli.demo.progress import LedgerEntry, MirrorState, measure_progress
from icemirror.tables.cursor import Cursor, CursorSource

_LEDGER = (LedgerEntry(11, 100.0, 10), LedgerEntry(12, 101.0, 25), LedgerEntry(13, 104.0, 30))


def _mirror(snapshot_id: int, files_done: int | None = None) -> MirrorState:
    source = CursorSource(uuid="u", snapshot_id=snapshot_id, sequence_number=1, files_done=files_done)
    return MirrorState(Cursor(sources=(source,)), live_rows=9, merges=2, committed_at=102.0)


def test_without_a_mirror_everything_waits() -> None:
    progress = measure_progress("t", _LEDGER, MirrorState(), now=110.0)
    assert (progress.committed_events, progress.merged_events) == (30, 0)
    assert progress.lag_seconds == 10.0
    assert not progress.caught_up


def test_the_lag_is_the_age_of_the_oldest_commit_that_waits() -> None:
    progress = measure_progress("t", _LEDGER, _mirror(12), now=110.0)
    assert (progress.merged_events, progress.lag_seconds) == (25, 6.0)
    assert (progress.live_rows, progress.merges, progress.merged_at) == (9, 2, 102.0)


def test_a_commit_that_was_cut_is_not_merged_yet() -> None:
    assert measure_progress("t", _LEDGER, _mirror(13, files_done=1), now=110.0).merged_events == 25


def test_caught_up_is_no_lag() -> None:
    progress = measure_progress("t", _LEDGER, _mirror(13), now=110.0)
    assert progress.caught_up
    assert progress.lag_seconds == 0


def test_a_merge_that_is_quicker_than_the_book_keeping_counts_as_caught_up() -> None:
    assert measure_progress("t", _LEDGER, _mirror(99), now=110.0).caught_up


def test_before_the_first_commit_there_is_nothing_to_do() -> None:
    assert measure_progress("t", (), MirrorState(), now=1.0).caught_up
