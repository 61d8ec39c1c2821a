"""Has every mirror reached its changelog's head? Or does what is left need a person, or another day?"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from icemirror.errors import Exit
from icemirror.state.eligibility import NEEDS_PERSON
from icemirror.state.rows import Rows, SlotRow, TableRow


class Standing(StrEnum):
    """How a table stands."""

    CURRENT = "current"
    BEHIND = "behind"
    NEEDS_PERSON = "needs-person"
    GAVE_UP = "gave-up"


def standing(row: TableRow | None) -> Standing:
    """How one table stands, by its row."""
    if row is None:
        return Standing.BEHIND
    if row.look_error is not None:
        return Standing.NEEDS_PERSON if row.look_error.kind in NEEDS_PERSON else Standing.GAVE_UP
    if row.quarantined or row.paused:
        person = row.paused or row.error is None or row.error.kind in NEEDS_PERSON
        return Standing.NEEDS_PERSON if person else Standing.GAVE_UP
    if row.dirty == 0 or row.dirty > row.covered or row.owner is not None:
        return Standing.BEHIND
    return Standing.CURRENT


def idle_code(rows: Rows, names: Iterable[str]) -> Exit | None:
    """The exit code of `watch --until-idle`, or None while there is something to wait for."""
    found = {standing(rows.tables.get(name)) for name in names}
    slots: Iterable[SlotRow] = rows.slots.values()
    if Standing.BEHIND in found:
        return Exit.RETRY_LATER if any(slot.quarantined for slot in slots) else None
    if Standing.NEEDS_PERSON in found:
        return Exit.NEEDS_PERSON
    return Exit.RETRY_LATER if Standing.GAVE_UP in found else Exit.DONE
