"""Whether anybody is there who takes up what waits for a table, as far as the state can tell."""

from __future__ import annotations

from datetime import UTC, datetime

from icemirror.state.policy import Policy
from icemirror.state.rows import Rows, SlotState

WHAT_TAKES_IT = "`icemirror watch` or `icemirror sweep` does"


def nobody_there(rows: Rows, table: str, now: float, policy: Policy) -> str | None:
    """Why nothing will happen until a trigger is started; None where one may be there.

    A trigger that runs has every table that rests merged anew after `recheck_seconds`, so its workers leave a trace.
    """
    group = rows.table(table).group
    if any(slot.state is not SlotState.FREE and slot.lease_until > now for slot in rows.of_group(group)):
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
