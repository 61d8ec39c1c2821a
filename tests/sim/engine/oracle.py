"""The state that the mirror must have at each snapshot: the journal replayed row by row, plus foreign writes.

A foreign insert gets the order that its key had at the last merge, live or deleted; a new key gets the greatest order
merged so far. A foreign delete leaves a tombstone with the row's order, unless no merge has indexed the row. A foreign
update keeps the row's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from icemirror.tables.cursor import Truncation
from tests.sim.engine.effects import Effect, effects, find_value
from tests.sim.engine.journal import EventPosition, File, Order, Row
from tests.sim.engine.setting import SAME, Key
from tests.sim.engine.soft_deletes import row_with_soft_deletes

NOTHING: Order = (0, 0, 0)


@dataclass(frozen=True)
class State:
    """One snapshot. `orders`: those of the last merge at or before it, of live rows and tombstones.

    `touched`: keys with foreign writes. `expired`: orders of expired tombstones that the changelog still
    has. `unseen`: damage hid from the judge which tombstones the last merge expired. `uuid`: the merged changelog;
    empty before the first merge. `soft`: soft deletes. `floor`: the truncation before which no event counts;
    `followed`: the same as the cursor records it.
    """

    merged: int = 0
    position: tuple[int, float] = (0, float("inf"))
    orders: Mapping[Key, Order] = field(default_factory=dict)
    rows: Mapping[Key, Row] = field(default_factory=dict)
    touched: frozenset[Key] = frozenset()
    expired: Mapping[Key, Order] = field(default_factory=dict)
    unseen: bool = False
    uuid: str = ""
    soft: bool = False
    floor: EventPosition | None = None
    followed: Truncation | None = None

    @property
    def greatest(self) -> Order:
        """The greatest change merged so far."""
        return max(self.orders.values(), default=NOTHING)

    def after_foreign_write(self, rows: Mapping[Key, Row]) -> State:
        """Return the state after another writer changed the rows to these."""
        changed = {key for key in rows.keys() | self.rows.keys() if rows.get(key) != self.rows.get(key)}
        return replace(self, rows=rows, touched=self.touched | changed)

    def with_newest(self, keys: Iterable[Key]) -> State:
        """Return the state in which these keys have the greatest order."""
        return replace(self, orders={**self.orders, **dict.fromkeys(keys, self.greatest)})

    def after_merge(
        self,
        files: Sequence[File],
        merged: int,
        position: tuple[int, float],
        history: Sequence[File] = (),
    ) -> State:
        """Return the state after a merge of these files, which follow those of the history."""
        greatest = self.greatest
        orders = {**dict.fromkeys(self.rows, greatest), **self.orders}
        known_orders = {**self.expired, **orders}
        rows, touched, expired = dict(self.rows), set(self.touched), dict(self.expired)
        applied, partial = effects(files, self.floor), set[Effect]()
        for effect in applied:
            if effect.order < orders.get(effect.key, expired.get(effect.key, NOTHING)):
                continue
            orders[effect.key] = effect.order
            expired.pop(effect.key, None)
            touched.discard(effect.key)
            partial = {known for known in partial if known.key != effect.key}
            if self.soft:
                partial.add(effect)
                continue
            row = None if effect.ends else effect.event.row
            if row is None:
                rows.pop(effect.key, None)
            else:
                rows[effect.key] = row
                partial |= {effect} if row[1] == SAME else set()
        for effect in partial:
            if self.soft:
                counting = [
                    known for known in applied if known.order >= known_orders.get(effect.key, NOTHING)
                ]
                rows[effect.key] = row_with_soft_deletes(
                    effect, counting, self.rows.get(effect.key), [*effects(history, self.floor), *applied]
                )
                continue
            v, _, x, flag = rows[effect.key]
            rows[effect.key] = (
                v,
                self._unchanged(effect, applied, effects([*history, *files], self.floor), known_orders),
                x,
                flag,
            )
        return replace(
            self,
            merged=merged,
            position=position,
            orders=orders,
            rows=rows,
            touched=frozenset(touched),
            expired=expired,
        )

    def _unchanged(
        self,
        winner: Effect,
        slice_: list[Effect],
        everything: list[Effect],
        known_orders: Mapping[Key, Order],
    ) -> str | None:
        """Return an unchanged value: from the slice, else from the mirror's row, else from all events."""
        least = known_orders.get(winner.key, NOTHING)
        counting = [effect for effect in slice_ if effect.key == winner.key and effect.order >= least]
        counting.sort(key=lambda effect: (effect.order, effect.arrival), reverse=True)
        found = find_value(winner.event, counting[1:])
        if found.found or found.ended:
            return found.value
        if winner.key in self.rows:
            return self.rows[winner.key][1]
        known = [
            effect
            for effect in everything
            if effect.key == winner.key and effect.order[:2] <= winner.order[:2]
        ]
        known.sort(key=lambda effect: (effect.order[:2], effect.arrival), reverse=True)
        return find_value(winner.event, known[1:]).value
