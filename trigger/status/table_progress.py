"""How far each table has come: at its changelog's head, still behind, or unable to continue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from icemirror.errors import BLOCKING_KINDS, Exit, worst_exit
from icemirror.protocol.due_tables import is_blocked
from icemirror.protocol.rows import Rows, SlotId, TableRow


class TableProgress(StrEnum):
    """A table's progress towards its changelog's head."""

    CURRENT = "current"
    BEHIND = "behind"
    PAUSED = "paused"
    BLOCKED = "blocked"
    GAVE_UP = "gave-up"

    @classmethod
    def _missing_(cls, value: object) -> TableProgress | None:
        """Return `BLOCKED` for `needs-person`, the word of earlier releases; accepted for one more release."""
        return cls.BLOCKED if value == "needs-person" else None

    @property
    def code(self) -> Exit:
        """The exit code of a command that checks once. A paused table is not an error."""
        codes = {TableProgress.BLOCKED: Exit.BLOCKED, TableProgress.GAVE_UP: Exit.RETRY_LATER}
        return codes.get(self, Exit.DONE)


@dataclass(frozen=True, slots=True)
class HeadObservation:
    """What this process observed: whether it read the table's head, and whether it gave up on its catalog."""

    head_seen: bool
    gave_up: bool


def table_progress(
    row: TableRow | None, observation: HeadObservation, *, launchable: bool = True
) -> TableProgress:
    """Return the progress of one table. `launchable`: its group may still launch a worker."""
    progress_without_head = TableProgress.GAVE_UP if observation.gave_up else TableProgress.BEHIND
    if row is None:
        return TableProgress.BEHIND if observation.head_seen else progress_without_head
    if row.look_error is not None:
        return TableProgress.BLOCKED if row.look_error.kind in BLOCKING_KINDS else progress_without_head
    if row.owner is not None:
        return TableProgress.BEHIND
    if not observation.head_seen:  # its catalog does not respond: the row may be out of date
        return progress_without_head
    if row.dirty == 0:
        return TableProgress.BEHIND
    if row.dirty == row.covered:
        return TableProgress.CURRENT
    if is_blocked(row):
        return TableProgress.BLOCKED
    if row.paused:
        return TableProgress.PAUSED
    return TableProgress.GAVE_UP if row.quarantined or not launchable else TableProgress.BEHIND


def progress_by_table(
    rows: Rows, observations: Mapping[str, HeadObservation], slots: int
) -> dict[str, TableProgress]:
    """Return the progress of every observed table. `slots`: the number of slots per group."""
    progress = {}
    for name, observation in observations.items():
        row = rows.tables.get(name)
        group_slots = [SlotId(row.group, index) for index in range(slots)] if row else []
        launchable = not group_slots or not all(rows.slot(slot).quarantined for slot in group_slots)
        progress[name] = table_progress(row, observation, launchable=launchable)
    return progress


def until_idle_code(progress: Mapping[str, TableProgress]) -> Exit | None:
    """Return the exit code of `watch --until-idle`, or None while a table is still behind."""
    if TableProgress.BEHIND in progress.values():
        return None
    # The command promises that everything is merged; a paused table is not.
    return worst_exit(
        [
            Exit.BLOCKED if table_state is TableProgress.PAUSED else table_state.code
            for table_state in progress.values()
        ]
    )
