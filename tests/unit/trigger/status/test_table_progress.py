"""The end of `watch --until-idle`, and its exit code."""

from __future__ import annotations

import pytest

from icemirror.errors import Exit
from icemirror.protocol.rows import Rows, SlotId, SlotRow, TableRow
from tests.unit.icemirror.protocol.samples import INVALID, TRANSIENT, dirty, owned, rows
from trigger.status.table_progress import (
    HeadObservation,
    TableProgress,
    progress_by_table,
    table_progress,
    until_idle_code,
)

SEEN = HeadObservation(head_seen=True, gave_up=False)
CURRENT = TableRow("t", dirty=2, covered=2)


@pytest.mark.parametrize(
    ("row", "observation", "expected"),
    [
        (None, HeadObservation(head_seen=False, gave_up=False), TableProgress.BEHIND),
        (None, HeadObservation(head_seen=False, gave_up=True), TableProgress.GAVE_UP),
        (CURRENT, SEEN, TableProgress.CURRENT),
        (CURRENT, HeadObservation(head_seen=False, gave_up=False), TableProgress.BEHIND),
        (CURRENT, HeadObservation(head_seen=False, gave_up=True), TableProgress.GAVE_UP),
        (owned(), HeadObservation(head_seen=False, gave_up=True), TableProgress.BEHIND),
        (dirty(paused=True), HeadObservation(head_seen=False, gave_up=True), TableProgress.GAVE_UP),
        (TableRow("t", dirty=2, covered=2, paused=True), SEEN, TableProgress.CURRENT),
        (TableRow("t"), SEEN, TableProgress.BEHIND),
        (dirty(), SEEN, TableProgress.BEHIND),
        (dirty(failures=1, not_before=99.0, error=TRANSIENT), SEEN, TableProgress.BEHIND),
        (owned(), SEEN, TableProgress.BEHIND),
        (owned(quarantined=True, error=TRANSIENT), SEEN, TableProgress.BEHIND),
        (dirty(paused=True), SEEN, TableProgress.PAUSED),
        (dirty(paused=True, quarantined=True, error=INVALID), SEEN, TableProgress.BLOCKED),
        (dirty(quarantined=True, error=INVALID), SEEN, TableProgress.BLOCKED),
        (dirty(quarantined=True, error=TRANSIENT), SEEN, TableProgress.GAVE_UP),
        (TableRow("t", look_error=INVALID), SEEN, TableProgress.BLOCKED),
        (TableRow("t", dirty=2, covered=2, look_error=TRANSIENT), SEEN, TableProgress.BEHIND),
        (
            TableRow("t", look_error=TRANSIENT),
            HeadObservation(head_seen=True, gave_up=True),
            TableProgress.GAVE_UP,
        ),
    ],
)
def test_progress_of_a_table(
    row: TableRow | None, observation: HeadObservation, expected: TableProgress
) -> None:
    assert table_progress(row, observation) is expected


def test_group_whose_workers_never_start_gives_up() -> None:
    quarantined = SlotRow(SlotId("default", 0), quarantined=True)
    stored = rows(dirty("a"), dirty("b", group="heavy"), quarantined)
    observations = {"a": SEEN, "b": SEEN}
    assert progress_by_table(stored, observations, 1) == {
        "a": TableProgress.GAVE_UP,
        "b": TableProgress.BEHIND,
    }
    assert progress_by_table(stored, observations, 2)["a"] is TableProgress.BEHIND


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([TableProgress.CURRENT, TableProgress.CURRENT], Exit.DONE),
        ([TableProgress.CURRENT, TableProgress.BEHIND], None),
        ([TableProgress.BLOCKED, TableProgress.BEHIND], None),
        ([TableProgress.BLOCKED, TableProgress.CURRENT], Exit.BLOCKED),
        ([TableProgress.PAUSED, TableProgress.BEHIND], None),
        ([TableProgress.PAUSED, TableProgress.CURRENT], Exit.BLOCKED),
        ([TableProgress.GAVE_UP, TableProgress.CURRENT], Exit.RETRY_LATER),
        ([TableProgress.GAVE_UP, TableProgress.BLOCKED], Exit.BLOCKED),
        ([], Exit.DONE),
    ],
)
def test_exit_code_is_the_worst_once_no_table_is_behind(
    found: list[TableProgress], code: Exit | None
) -> None:
    assert until_idle_code({str(number): progress for number, progress in enumerate(found)}) is code


def test_table_without_a_row_is_behind() -> None:
    assert progress_by_table(Rows({}, {}), {"a": SEEN}, 1) == {"a": TableProgress.BEHIND}


def test_state_name_of_earlier_releases_is_accepted() -> None:
    assert TableProgress("needs-person") is TableProgress.BLOCKED
    assert str(TableProgress.BLOCKED) == "blocked"
    with pytest.raises(ValueError, match="needs-nobody"):
        TableProgress("needs-nobody")
