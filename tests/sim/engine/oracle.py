"""The state that the mirror must have at each snapshot: the journal replayed row by row, plus foreign writes.

A row that another writer adds gets the order that its key had at the last merge, live or deleted; a new key gets the
greatest order merged so far. A row that another writer deletes leaves a tombstone with the row's order, unless no
merge has indexed it. An update by another writer keeps the row's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from icemirror.tables.cursor import Truncation
from tests.sim.engine.journal import File, Order, Place, Row
from tests.sim.engine.kept import kept_row
from tests.sim.engine.setting import SAME, Key
from tests.sim.engine.unchanged import Effect, effects, find_value

NOTHING: Order = (0, 0, 0)


@dataclass(frozen=True)
class State:
    """One snapshot. `orders`: those of the last merge at or before it, of live rows and tombstones.

    `touched`: keys whose rows another writer changed. `expired`: orders of expired tombstones that the changelog still
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
    floor: Place | None = None
    followed: Truncation | None = None

    @property
    def greatest(self) -> Order:
        """The greatest change merged so far."""
        return max(self.orders.values(), default=NOTHING)

    def after_others(self, rows: Mapping[Key, Row]) -> State:
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
        for one in applied:
            if one.order < orders.get(one.key, expired.get(one.key, NOTHING)):
                continue
            orders[one.key] = one.order
            expired.pop(one.key, None)
            touched.discard(one.key)
            partial = {other for other in partial if other.key != one.key}
            if self.soft:
                partial.add(one)
                continue
            row = None if one.ends else one.event.row
            if row is None:
                rows.pop(one.key, None)
            else:
                rows[one.key] = row
                partial |= {one} if row[1] == SAME else set()
        for one in partial:
            if self.soft:
                counting = [other for other in applied if other.order >= known_orders.get(one.key, NOTHING)]
                rows[one.key] = kept_row(
                    one, counting, self.rows.get(one.key), [*effects(history, self.floor), *applied]
                )
                continue
            v, _, x, flag = rows[one.key]
            rows[one.key] = (
                v,
                self._unchanged(one, applied, effects([*history, *files], self.floor), known_orders),
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
        counting = [one for one in slice_ if one.key == winner.key and one.order >= least]
        counting.sort(key=lambda one: (one.order, one.arrival), reverse=True)
        found = find_value(winner.event, counting[1:])
        if found.found or found.ended:
            return found.value
        if winner.key in self.rows:
            return self.rows[winner.key][1]
        known = [one for one in everything if one.key == winner.key and one.order[:2] <= winner.order[:2]]
        known.sort(key=lambda one: (one.order[:2], one.arrival), reverse=True)
        return find_value(winner.event, known[1:]).value
