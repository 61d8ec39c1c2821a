from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from icemirror.tables.cursor import CursorSource
from spark_job.changelog.history import ChangelogFile
from spark_job.plan.slices import ChangelogSnapshot, Slice, SliceLimits, plan_slices

NO_LIMIT = SliceLimits(events=10**9, bytes=10**9)


def snapshot(number: int, *events: int, size: int = 1) -> ChangelogSnapshot:
    """Snapshot `number` with a file of so many events each, of `size` bytes an event."""
    files = tuple(
        ChangelogFile(f"{number}/{at}", count * size, count, number, 10 * number)
        for at, count in enumerate(events)
    )
    return ChangelogSnapshot(number, 10 * number, files)


def told(slices: list[Slice]) -> list[tuple[list[str], int, int | None]]:
    """(paths, cursor's snapshot, files done) of each slice."""
    return [
        ([file.path for file in one.files], one.cursor.source.snapshot_id, one.cursor.source.files_done)
        for one in slices
    ]


def plan(
    *snapshots: ChangelogSnapshot, done: dict[int, int] | None = None, limits: SliceLimits = NO_LIMIT
) -> list[tuple[list[str], int, int | None]]:
    return told(plan_slices("u", snapshots, done or {}, limits))


def test_nothing_new_is_nothing_to_do() -> None:
    assert plan() == []


def test_what_fits_is_one_slice() -> None:
    assert plan(snapshot(1, 5, 5), snapshot(2, 5)) == [(["1/0", "1/1", "2/0"], 2, None)]


def test_a_cursor_names_changelog_snapshot_and_sequence_number() -> None:
    (one,) = plan_slices("u", [snapshot(3, 1)], {}, NO_LIMIT)
    assert one.cursor.source == CursorSource(uuid="u", snapshot_id=3, sequence_number=30, files_done=None)
    assert (one.events, one.bytes) == (1, 1)


def test_a_plan_that_ends_before_the_commit_of_its_snapshot_does_not_take_that_for_merged() -> None:
    expired = replace(snapshot(3, 5, 5), sequence_number=20, is_expired_commit=True)
    assert plan(expired) == [(["3/0", "3/1"], 3, 2)]


def test_a_slice_is_cut_by_events() -> None:
    limits = SliceLimits(events=10, bytes=10**9)
    assert plan(snapshot(1, 6), snapshot(2, 4), snapshot(3, 1), limits=limits) == [
        (["1/0", "2/0"], 2, None),
        (["3/0"], 3, None),
    ]


def test_a_slice_is_cut_by_bytes() -> None:
    limits = SliceLimits(events=10**9, bytes=100)
    assert plan(snapshot(1, 6, size=10), snapshot(2, 4, size=10), snapshot(3, 1, size=1), limits=limits) == [
        (["1/0", "2/0"], 2, None),
        (["3/0"], 3, None),
    ]


def test_a_snapshot_is_cut_between_its_files_and_the_cursor_says_how_many_are_done() -> None:
    limits = SliceLimits(events=2, bytes=10**9)
    assert plan(snapshot(1, 1, 1, 1, 1, 1), limits=limits) == [
        (["1/0", "1/1"], 1, 2),
        (["1/2", "1/3"], 1, 4),
        (["1/4"], 1, None),
    ]


def test_a_cut_may_take_in_the_end_of_one_snapshot_and_the_beginning_of_the_next() -> None:
    limits = SliceLimits(events=3, bytes=10**9)
    assert plan(snapshot(1, 1, 1), snapshot(2, 1, 1, 1), limits=limits) == [
        (["1/0", "1/1", "2/0"], 2, 1),
        (["2/1", "2/2"], 2, None),
    ]


def test_a_cut_at_the_border_of_a_snapshot_leaves_it_whole() -> None:
    limits = SliceLimits(events=2, bytes=10**9)
    assert plan(snapshot(1, 1, 1), snapshot(2, 2), limits=limits) == [
        (["1/0", "1/1"], 1, None),
        (["2/0"], 2, None),
    ]


def test_a_file_larger_than_a_slice_is_taken_alone() -> None:
    limits = SliceLimits(events=5, bytes=10**9)
    assert plan(snapshot(1, 1, 100, 1), limits=limits) == [
        (["1/0"], 1, 1),
        (["1/1"], 1, 2),
        (["1/2"], 1, None),
    ]


def test_files_that_are_done_are_left_out_and_still_counted() -> None:
    limits = SliceLimits(events=2, bytes=10**9)
    assert plan(snapshot(1, 1, 1, 1, 1), snapshot(2, 1), done={1: 1}, limits=limits) == [
        (["1/1", "1/2"], 1, 3),
        (["1/3", "2/0"], 2, None),
    ]


def test_empty_snapshots_still_move_the_cursor() -> None:
    assert plan(snapshot(1), snapshot(2)) == [([], 2, None)]


def test_empty_snapshots_go_along_with_others() -> None:
    assert plan(snapshot(1), snapshot(2, 1), snapshot(3)) == [(["2/0"], 3, None)]


def test_a_cut_before_an_empty_snapshot_leaves_it_to_the_slice_before() -> None:
    limits = SliceLimits(events=1, bytes=10**9)
    assert plan(snapshot(1, 1), snapshot(2), snapshot(3, 1), limits=limits) == [
        (["1/0"], 2, None),
        (["3/0"], 3, None),
    ]


def test_the_rest_of_a_snapshot_that_is_all_done_closes_it() -> None:
    assert plan(snapshot(1, 1, 1), done={1: 2}) == [([], 1, None)]


@given(
    sizes=st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6),
    most=st.integers(1, 12),
    done=st.integers(0, 5),
)
def test_every_file_is_taken_once_in_order_and_resuming_after_any_slice_gives_the_rest(
    sizes: list[list[int]], most: int, done: int
) -> None:
    snapshots = [snapshot(number, *events) for number, events in enumerate(sizes, 1)]
    limits = SliceLimits(events=most, bytes=10**9)
    first = {1: min(done, len(sizes[0]))} if sizes and done else {}
    slices = plan_slices("u", snapshots, first, limits)
    expected = [file.path for one in snapshots for file in one.files][first.get(1, 0) :]
    assert [file.path for one in slices for file in one.files] == expected
    assert all(len(one.files) == 1 or one.events <= most for one in slices)
    if slices:
        assert slices[-1].cursor.source.files_done is None
        assert slices[-1].cursor.source.snapshot_id == len(sizes)
    for at, one in enumerate(slices):
        source = one.cursor.source
        rest = [later for later in snapshots if later.snapshot_id > source.snapshot_id]
        again: dict[int, int] = {}
        if source.files_done is not None:
            rest = [snapshots[source.snapshot_id - 1], *rest]
            again = {source.snapshot_id: source.files_done}
        assert plan_slices("u", rest, again, limits) == slices[at + 1 :]
