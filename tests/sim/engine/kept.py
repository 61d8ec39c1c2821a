"""The row of a key with soft deletes: event after event, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from tests.sim.engine.journal import Row, row_of
from tests.sim.engine.setting import SAME
from tests.sim.engine.unchanged import Effect


def kept_row(
    winner: Effect, counting: Sequence[Effect], before: Row | None, everything: Sequence[Effect]
) -> Row:
    """Return the row after the counting events, applied to the row before."""
    mine = [one for one in counting if one.key == winner.key]
    row = before
    for one in sorted(mine, key=lambda one: (one.order, one.arrival)):
        row = _after(one, row, everything)
    assert row is not None
    return row


def _after(one: Effect, row: Row | None, everything: Sequence[Effect]) -> Row:
    event = one.event
    if one.ends:
        kept = row or row_of(event.v, None if event.c == SAME else event.c, event.x)
        return (*kept[:3], True)
    c = event.c
    if c == SAME:
        c = None if event.moves else row[1] if row else _by_history(one, everything)
    return row_of(event.v, c, event.x, False)


def _by_history(winner: Effect, everything: Sequence[Effect]) -> str | None:
    """Return the value for a key without a row from all merged events before."""
    known = [one for one in everything if one.key == winner.key and one.order[:2] <= winner.order[:2]]
    known.sort(key=lambda one: (one.order[:2], everything.index(one)))
    row: Row | None = None
    for one in known:
        if one.event is winner.event and one.ends == winner.ends:
            continue
        row = _after(one, row, ())
    return row[1] if row else None
