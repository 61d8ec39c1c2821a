from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from icemirror.tables.cursor import CursorSource
from spark_job.changelog.added_files import ChangelogFile
from spark_job.plan.slices import ChangelogSnapshot, Slice, SliceLimits, plan_slices

NO_LIMIT = SliceLimits(events=10**9, bytes=10**9)


def snapshot(number: int, *events: int, size: int = 1) -> ChangelogSnapshot:
    """Return snapshot `number` with one file per event count, of `size` bytes per event."""
    files = tuple(
        ChangelogFile(f"{number}/{position}", count * size, count, number, 10 * number)
        for position, count in enumerate(events)
    )
    return ChangelogSnapshot(number, 10 * number, files)


def slice_tuples(slices: list[Slice]) -> list[tuple[list[str], int, int | None]]:
    """Return (paths, snapshot of the cursor, files done) of each slice."""
    return [
        (
            [file.path for file in planned.files],
            planned.cursor.source.snapshot_id,
            planned.cursor.source.files_done,
        )
        for planned in slices
    ]


def plan(
    *snapshots: ChangelogSnapshot, done: int = 0, limits: SliceLimits = NO_LIMIT
) -> list[tuple[list[str], int, int | None]]:
    return slice_tuples(plan_slices("u", snapshots, done, limits))


def test_no_new_snapshots_give_no_slices() -> None:
    assert plan() == []


def test_snapshots_within_the_limits_are_one_slice() -> None:
    assert plan(snapshot(1, 5, 5), snapshot(2, 5)) == [(["1/0", "1/1", "2/0"], 2, None)]


def test_cursor_has_changelog_snapshot_and_sequence_number() -> None:
    (planned,) = plan_slices("u", [snapshot(3, 1)], 0, NO_LIMIT)
    assert planned.cursor.source == CursorSource(uuid="u", snapshot_id=3, sequence_number=30, files_done=None)
    assert (planned.events, planned.bytes) == (1, 1)


def test_snapshot_with_an_expired_commit_is_not_marked_as_merged() -> None:
    expired = replace(snapshot(3, 5, 5), sequence_number=20, is_expired_commit=True)
    assert plan(expired) == [(["3/0", "3/1"], 3, 2)]


def test_slice_is_limited_by_events() -> None:
    limits = SliceLimits(events=10, bytes=10**9)
    assert plan(snapshot(1, 6), snapshot(2, 4), snapshot(3, 1), limits=limits) == [
        (["1/0", "2/0"], 2, None),
        (["3/0"], 3, None),
    ]


def test_slice_is_limited_by_bytes() -> None:
    limits = SliceLimits(events=10**9, bytes=100)
    assert plan(snapshot(1, 6, size=10), snapshot(2, 4, size=10), snapshot(3, 1, size=1), limits=limits) == [
        (["1/0", "2/0"], 2, None),
        (["3/0"], 3, None),
    ]


def test_snapshot_is_split_between_files_and_the_cursor_counts_the_files_done() -> None:
    limits = SliceLimits(events=2, bytes=10**9)
    assert plan(snapshot(1, 1, 1, 1, 1, 1), limits=limits) == [
        (["1/0", "1/1"], 1, 2),
        (["1/2", "1/3"], 1, 4),
        (["1/4"], 1, None),
    ]


def test_slice_may_contain_the_end_of_one_snapshot_and_the_start_of_the_next() -> None:
    limits = SliceLimits(events=3, bytes=10**9)
    assert plan(snapshot(1, 1, 1), snapshot(2, 1, 1, 1), limits=limits) == [
        (["1/0", "1/1", "2/0"], 2, 1),
        (["2/1", "2/2"], 2, None),
    ]


def test_split_between_snapshots_completes_the_first() -> None:
    limits = SliceLimits(events=2, bytes=10**9)
    assert plan(snapshot(1, 1, 1), snapshot(2, 2), limits=limits) == [
        (["1/0", "1/1"], 1, None),
        (["2/0"], 2, None),
    ]


def test_file_larger_than_a_slice_is_a_separate_slice() -> None:
    limits = SliceLimits(events=5, bytes=10**9)
    assert plan(snapshot(1, 1, 100, 1), limits=limits) == [
        (["1/0"], 1, 1),
        (["1/1"], 1, 2),
        (["1/2"], 1, None),
    ]


def test_files_done_are_skipped_and_still_counted() -> None:
    limits = SliceLimits(events=2, bytes=10**9)
    assert plan(snapshot(1, 1, 1, 1, 1), snapshot(2, 1), done=1, limits=limits) == [
        (["1/1", "1/2"], 1, 3),
        (["1/3", "2/0"], 2, None),
    ]


def test_empty_snapshots_move_the_cursor() -> None:
    assert plan(snapshot(1), snapshot(2)) == [([], 2, None)]


def test_empty_snapshots_are_included_in_the_slice_of_others() -> None:
    assert plan(snapshot(1), snapshot(2, 1), snapshot(3)) == [(["2/0"], 3, None)]


def test_empty_snapshot_after_a_split_belongs_to_the_previous_slice() -> None:
    limits = SliceLimits(events=1, bytes=10**9)
    assert plan(snapshot(1, 1), snapshot(2), snapshot(3, 1), limits=limits) == [
        (["1/0"], 2, None),
        (["3/0"], 3, None),
    ]


def test_completely_merged_snapshot_gets_an_empty_slice() -> None:
    assert plan(snapshot(1, 1, 1), done=2) == [([], 1, None)]


@given(
    sizes=st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6),
    limit=st.integers(1, 12),
    done=st.integers(0, 5),
)
def test_every_file_is_planned_once_in_order_and_planning_can_resume_after_any_slice(
    sizes: list[list[int]], limit: int, done: int
) -> None:
    snapshots = [snapshot(number, *events) for number, events in enumerate(sizes, 1)]
    limits = SliceLimits(events=limit, bytes=10**9)
    first = min(done, len(sizes[0])) if sizes else 0
    slices = plan_slices("u", snapshots, first, limits)
    expected = [file.path for commit in snapshots for file in commit.files][first:]
    assert [file.path for planned in slices for file in planned.files] == expected
    assert all(len(planned.files) == 1 or planned.events <= limit for planned in slices)
    if slices:
        assert slices[-1].cursor.source.files_done is None
        assert slices[-1].cursor.source.snapshot_id == len(sizes)
    for index, planned in enumerate(slices):
        source = planned.cursor.source
        rest = [later for later in snapshots if later.snapshot_id > source.snapshot_id]
        files_done = source.files_done or 0
        if source.files_done is not None:
            rest = [snapshots[source.snapshot_id - 1], *rest]
        assert plan_slices("u", rest, files_done, limits) == slices[index + 1 :]
