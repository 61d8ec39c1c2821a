"""Has every mirror reached its changelog's head? Or does what is left need a person, or another day?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from icemirror.errors import NEEDS_PERSON, Exit, worst
from icemirror.state.eligibility import needs_person
from icemirror.state.rows import Rows, SlotId, TableRow


class Standing(StrEnum):
    """How a table stands."""

    CURRENT = "current"
    BEHIND = "behind"
    PAUSED = "paused"
    NEEDS_PERSON = "needs-person"
    GAVE_UP = "gave-up"

    @property
    def code(self) -> Exit:
        """What it means for a command that looked once; somebody wanted what is paused to stay as it is."""
        codes = {Standing.NEEDS_PERSON: Exit.NEEDS_PERSON, Standing.GAVE_UP: Exit.RETRY_LATER}
        return codes.get(self, Exit.DONE)


@dataclass(frozen=True, slots=True)
class Sight:
    """What this process has seen of a table: its head at least once, or its catalog silent once too often."""

    looked: bool = True
    gave_up: bool = True


def standing(row: TableRow | None, sight: Sight, *, launchable: bool = True) -> Standing:
    """How one table stands. `launchable`: its group may still launch a worker."""
    if row is None:
        return Standing.GAVE_UP if sight.gave_up and not sight.looked else Standing.BEHIND
    if row.look_error is not None:
        if row.look_error.kind in NEEDS_PERSON:
            return Standing.NEEDS_PERSON
        return Standing.GAVE_UP if sight.gave_up else Standing.BEHIND
    if row.owner is not None:
        return Standing.BEHIND
    if not sight.looked:  # its catalog is silent: what the row says may be long past
        return Standing.GAVE_UP if sight.gave_up else Standing.BEHIND
    if row.dirty == 0:
        return Standing.BEHIND
    if row.dirty == row.covered:
        return Standing.CURRENT
    if needs_person(row):
        return Standing.NEEDS_PERSON
    if row.paused:
        return Standing.PAUSED
    return Standing.GAVE_UP if row.quarantined or not launchable else Standing.BEHIND


def standings(rows: Rows, sights: Mapping[str, Sight], slots: int) -> dict[str, Standing]:
    """How every table of which this process knows stands. `slots`: how many a group has."""
    found = {}
    for name, sight in sights.items():
        row = rows.tables.get(name)
        own = [SlotId(row.group, index) for index in range(slots)] if row else []
        launchable = not own or not all(rows.slot(slot).quarantined for slot in own)
        found[name] = standing(row, sight, launchable=launchable)
    return found


def idle_code(found: Mapping[str, Standing]) -> Exit | None:
    """The exit code of `watch --until-idle`, or None while there is something to wait for."""
    if Standing.BEHIND in found.values():
        return None
    # It was to end with all merged, and what is paused is not.
    return worst([Exit.NEEDS_PERSON if one is Standing.PAUSED else one.code for one in found.values()])
