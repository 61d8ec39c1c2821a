"""The row of a key with soft deletes, computed event by event in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

from tests.sim.engine.effects import Effect
from tests.sim.engine.journal import Row, row_of
from tests.sim.engine.setting import SAME


def row_with_soft_deletes(
    winner: Effect, counting: Sequence[Effect], before: Row | None, everything: Sequence[Effect]
) -> Row:
    """Return the row after the counting events, applied to the row before."""
    of_key = [effect for effect in counting if effect.key == winner.key]
    row = before
    for effect in sorted(of_key, key=lambda effect: (effect.order, effect.arrival)):
        row = _after(effect, row, everything)
    assert row is not None
    return row


def _after(effect: Effect, row: Row | None, everything: Sequence[Effect]) -> Row:
    event = effect.event
    if effect.ends:
        kept = row or row_of(event.v, None if event.c == SAME else event.c, event.x)
        return (*kept[:3], True)
    c = event.c
    if c == SAME:
        c = None if event.moves else row[1] if row else _value_from_history(effect, everything)
    return row_of(event.v, c, event.x, False)


def _value_from_history(winner: Effect, everything: Sequence[Effect]) -> str | None:
    """Return the value for a key without a row from all earlier merged events."""
    known = [
        effect for effect in everything if effect.key == winner.key and effect.order[:2] <= winner.order[:2]
    ]
    known.sort(key=lambda effect: (effect.order[:2], everything.index(effect)))
    row: Row | None = None
    for effect in known:
        if effect.event is winner.event and effect.ends == winner.ends:
            continue
        row = _after(effect, row, ())
    return row[1] if row else None
