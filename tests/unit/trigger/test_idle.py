"""When `watch --until-idle` ends, and with which exit code."""

from __future__ import annotations

import pytest

from icemirror.errors import Exit
from icemirror.state.rows import Rows, SlotId, SlotRow, TableRow
from tests.unit.state.samples import INVALID, TRANSIENT, dirty, owned, rows
from trigger.idle import Sight, Standing, idle_code, standing, standings

SEEN = Sight(looked=True, gave_up=False)
CURRENT = TableRow("t", dirty=2, covered=2)


@pytest.mark.parametrize(
    ("row", "sight", "expected"),
    [
        (None, Sight(looked=False, gave_up=False), Standing.BEHIND),
        (None, Sight(looked=False, gave_up=True), Standing.GAVE_UP),
        (CURRENT, SEEN, Standing.CURRENT),
        (CURRENT, Sight(looked=False, gave_up=False), Standing.BEHIND),
        (CURRENT, Sight(looked=False, gave_up=True), Standing.GAVE_UP),
        (owned(), Sight(looked=False, gave_up=True), Standing.BEHIND),
        (dirty(paused=True), Sight(looked=False, gave_up=True), Standing.GAVE_UP),
        (TableRow("t", dirty=2, covered=2, paused=True), SEEN, Standing.CURRENT),
        (TableRow("t"), SEEN, Standing.BEHIND),
        (dirty(), SEEN, Standing.BEHIND),
        (dirty(failures=1, not_before=99.0, error=TRANSIENT), SEEN, Standing.BEHIND),
        (owned(), SEEN, Standing.BEHIND),
        (owned(quarantined=True, error=TRANSIENT), SEEN, Standing.BEHIND),
        (dirty(paused=True), SEEN, Standing.PAUSED),
        (dirty(paused=True, quarantined=True, error=INVALID), SEEN, Standing.NEEDS_PERSON),
        (dirty(quarantined=True, error=INVALID), SEEN, Standing.NEEDS_PERSON),
        (dirty(quarantined=True, error=TRANSIENT), SEEN, Standing.GAVE_UP),
        (TableRow("t", look_error=INVALID), SEEN, Standing.NEEDS_PERSON),
        (TableRow("t", dirty=2, covered=2, look_error=TRANSIENT), SEEN, Standing.BEHIND),
        (TableRow("t", look_error=TRANSIENT), Sight(looked=True, gave_up=True), Standing.GAVE_UP),
    ],
)
def test_how_a_table_stands(row: TableRow | None, sight: Sight, expected: Standing) -> None:
    assert standing(row, sight) is expected


def test_a_group_whose_workers_never_come_up_gives_up_and_the_others_do_not() -> None:
    lost = SlotRow(SlotId("default", 0), quarantined=True)
    given = rows(dirty("a"), dirty("b", group="heavy"), lost)
    sights = {"a": SEEN, "b": SEEN}
    assert standings(given, sights, 1) == {"a": Standing.GAVE_UP, "b": Standing.BEHIND}
    assert standings(given, sights, 2)["a"] is Standing.BEHIND


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([Standing.CURRENT, Standing.CURRENT], Exit.DONE),
        ([Standing.CURRENT, Standing.BEHIND], None),
        ([Standing.NEEDS_PERSON, Standing.BEHIND], None),
        ([Standing.NEEDS_PERSON, Standing.CURRENT], Exit.NEEDS_PERSON),
        ([Standing.PAUSED, Standing.BEHIND], None),
        ([Standing.PAUSED, Standing.CURRENT], Exit.NEEDS_PERSON),
        ([Standing.GAVE_UP, Standing.CURRENT], Exit.RETRY_LATER),
        ([Standing.GAVE_UP, Standing.NEEDS_PERSON], Exit.NEEDS_PERSON),
        ([], Exit.DONE),
    ],
)
def test_the_exit_code_is_the_worst_once_nothing_is_left_to_wait_for(
    found: list[Standing], code: Exit | None
) -> None:
    assert idle_code({str(number): one for number, one in enumerate(found)}) is code


def test_a_table_without_a_row_is_behind() -> None:
    assert standings(Rows({}, {}), {"a": SEEN}, 1) == {"a": Standing.BEHIND}
