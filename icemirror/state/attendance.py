"""Whether anybody is there who takes up what waits for a table, as far as the state can tell."""

from __future__ import annotations

from datetime import UTC, datetime

from icemirror.state.clocks import believed
from icemirror.state.eligibility import due_at
from icemirror.state.policy import Policy
from icemirror.state.rows import Rows, SlotId, SlotRow, SlotState
from icemirror.state.table_rules import owner_is_dead

WHAT_TAKES_IT = "`icemirror watch` or `icemirror sweep` does"
_START = "does `icemirror watch` run? Or: `icemirror sweep`"


def nobody_there(rows: Rows, table: str, now: float, policy: Policy) -> str | None:
    """Why nothing will happen until a trigger is started; None where one may be there.

    A trigger that runs has every table that rests merged anew after `recheck_seconds`, so its workers leave a trace.
    """
    group = rows.table(table).group
    if any(_lives(slot, now, policy) for slot in rows.of_group(group)):
        return None
    row = rows.tables.get(table)
    if row is None or (row.noticed_head is None and row.last_run is None and row.look_error is None):
        return f"no trigger has looked at it yet; {WHAT_TAKES_IT}"
    ends = [one.completed_at for one in rows.tables.values() if one.completed_at is not None]
    ends += [one.last_run.ended_at for one in rows.tables.values() if one.last_run is not None]
    if not ends or now - max(ends) <= 2 * policy.recheck_seconds + policy.lease_seconds:
        return None
    last = datetime.fromtimestamp(max(ends), UTC).isoformat(timespec="seconds")
    return f"no trigger seems to run, the last job ended at {last}; {WHAT_TAKES_IT}"


def why_untaken(rows: Rows, table: str, now: float, policy: Policy) -> str | None:
    """Why nobody is at what waits for a table, and what helps; None where somebody is, or only time is between."""
    row = rows.table(table)
    if row.owner is not None:
        slot = rows.slot(row.owner.slot)
        if not owner_is_dead(row.owner, slot) and _lives(slot, now, policy):
            return None
        return f"the job that had it is gone, and nobody has seen to that; {_START}"
    if row.failures and due_at(row, now, policy) > now:
        return None
    own = [rows.slot(SlotId(row.group, index)) for index in range(policy.slots)]
    if all(slot.quarantined for slot in own):
        resume = f"`icemirror resume --table {table}` has it tried again at once"
        return f"no worker comes up: {own[0].error}; when that is mended, {resume}"
    living = [slot for slot in rows.of_group(row.group) if _lives(slot, now, policy)]
    if not living:
        return f"nobody has taken it yet; {_START}"
    launching = all(slot.state is SlotState.LAUNCHING for slot in living)
    return (
        "a job was launched, and has not begun yet"
        if launching
        else "the job that is there is busy with others"
    )


def _lives(slot: SlotRow, now: float, policy: Policy) -> bool:
    """As far as the row can tell."""
    ends_at = believed(slot.lease_until, now, policy.lease_seconds)
    return slot.state is not SlotState.FREE and ends_at > now
