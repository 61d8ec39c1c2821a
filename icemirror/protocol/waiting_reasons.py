"""Why a table waits, and what the user can do, as far as the state rows show."""

from __future__ import annotations

from datetime import UTC, datetime

from icemirror.protocol.due_tables import due_at
from icemirror.protocol.policy import Policy, trusted_deadline
from icemirror.protocol.rows import Rows, SlotId, SlotRow, SlotState
from icemirror.protocol.table_rules import owner_is_dead

START_TRIGGER_HINT = "start `icemirror watch`, or run `icemirror sweep`"
_TRIGGER_RUNNING_HINT = "is `icemirror watch` running? If not, start it, or run `icemirror sweep`"


def missing_trigger_reason(rows: Rows, table: str, now: float, policy: Policy) -> str | None:
    """Return why nothing will happen until a trigger is started, or None if a trigger may be running.

    A running trigger has every idle table merged again after `recheck_seconds`, so recent jobs show that one runs.
    """
    group = rows.table(table).group
    if any(_is_alive(slot, now, policy) for slot in rows.slots_of_group(group)):
        return None
    row = rows.tables.get(table)
    if row is None or (row.noticed_head is None and row.last_run is None and row.look_error is None):
        return f"no trigger has checked this table yet; {START_TRIGGER_HINT}"
    end_times = [table.completed_at for table in rows.tables.values() if table.completed_at is not None]
    end_times += [table.last_run.ended_at for table in rows.tables.values() if table.last_run is not None]
    if not end_times or now - max(end_times) <= 2 * policy.recheck_seconds + policy.lease_seconds:
        return None
    last_end = datetime.fromtimestamp(max(end_times), UTC).isoformat(timespec="seconds")
    return f"no trigger seems to be running, the last job ended at {last_end}; {START_TRIGGER_HINT}"


def waiting_reason(rows: Rows, table: str, now: float, policy: Policy) -> str | None:
    """Return why no worker serves a waiting table, and the remedy; None if one does, or only time has to pass."""
    row = rows.table(table)
    if row.owner is not None:
        slot = rows.slot(row.owner.slot)
        if not owner_is_dead(row.owner, slot) and _is_alive(slot, now, policy):
            return None
        return f"the job that merged it has died, and no trigger has recovered it; {_TRIGGER_RUNNING_HINT}"
    if row.failures and due_at(row, now, policy) > now:
        return None
    group_slots = [rows.slot(SlotId(row.group, index)) for index in range(policy.slots)]
    if all(slot.quarantined for slot in group_slots):
        retry = f"then retry at once with `icemirror resume --table {table}`"
        return f"no worker starts: {group_slots[0].error}; fix that, {retry}"
    live_slots = [slot for slot in rows.slots_of_group(row.group) if _is_alive(slot, now, policy)]
    if not live_slots:
        return f"no worker has taken it yet; {_TRIGGER_RUNNING_HINT}"
    if all(slot.state is SlotState.LAUNCHING for slot in live_slots):
        return "a job was launched and has not started yet"
    return "the running job is busy with other tables"


def _is_alive(slot: SlotRow, now: float, policy: Policy) -> bool:
    lease_until = trusted_deadline(slot.lease_until, now, policy.lease_seconds)
    return slot.state is not SlotState.FREE and lease_until > now
