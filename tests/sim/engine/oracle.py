"""What the mirror must hold at each of its snapshots: the journal replayed row by row, and what others did to it.

A row that another writer adds has the order that its key had when the merge last committed, live or deleted; one of
a key that was never there counts as the greatest change merged so far. A row that another writer deletes leaves a
tombstone of the row's order, unless the merge never saw it. An update by another writer keeps the row's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from icemirror.cursor import Truncation
from tests.sim.engine.journal import File, Order, Place, Row
from tests.sim.engine.kept import kept_row
from tests.sim.engine.setting import SAME, Key
from tests.sim.engine.unchanged import Effect, effects, look_back

NOTHING: Order = (0, 0, 0)


@dataclass(frozen=True)
class State:
    """One snapshot. `orders` are those of the last merge at or before it, of live rows and tombstones alike.

    `touched`: keys whose order is not the changelog's, because others wrote or deleted their rows. `expired`: orders of
    tombstones that the index has let go, and of which the changelog still tells. `unseen`: damage hid from the judge
    which tombstones the last merge let go. `uuid`: the changelog that was merged; none where nothing of any is. `soft`:
    deletes keep their rows. `floor`: the truncation before which no event counts, and `followed` as the cursor has it.
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
        """Another writer made these the rows."""
        changed = {key for key in rows.keys() | self.rows.keys() if rows.get(key) != self.rows.get(key)}
        return replace(self, rows=rows, touched=self.touched | changed)

    def with_newest(self, keys: Iterable[Key]) -> State:
        """The rows of these keys count as the greatest change merged so far."""
        return replace(self, orders={**self.orders, **dict.fromkeys(keys, self.greatest)})

    def after_merge(
        self,
        files: Sequence[File],
        merged: int,
        position: tuple[int, float],
        history: Sequence[File] = (),
    ) -> State:
        """A merge took in these files, after those of the history."""
        greatest = self.greatest
        orders = {**dict.fromkeys(self.rows, greatest), **self.orders}
        standing = {**self.expired, **orders}
        rows, touched, expired = dict(self.rows), set(self.touched), dict(self.expired)
        told, partial = effects(files, self.floor), set[Effect]()
        for one in told:
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
                counting = [other for other in told if other.order >= standing.get(one.key, NOTHING)]
                rows[one.key] = kept_row(
                    one, counting, self.rows.get(one.key), [*effects(history, self.floor), *told]
                )
                continue
            v, _, x, flag = rows[one.key]
            rows[one.key] = (
                v,
                self._unchanged(one, told, effects([*history, *files], self.floor), standing),
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
        self, winner: Effect, slice_: list[Effect], everything: list[Effect], standing: Mapping[Key, Order]
    ) -> str | None:
        """The value of a row whose event leaves it as it was: by the slice, then the mirror's row, then all events."""
        least = standing.get(winner.key, NOTHING)
        counting = [one for one in slice_ if one.key == winner.key and one.order >= least]
        counting.sort(key=lambda one: (one.order, one.arrival), reverse=True)
        found = look_back(winner.event, counting[1:])
        if found.told or found.ended:
            return found.value
        if winner.key in self.rows:
            return self.rows[winner.key][1]
        known = [one for one in everything if one.key == winner.key and one.order[:2] <= winner.order[:2]]
        known.sort(key=lambda one: (one.order[:2], one.arrival), reverse=True)
        return look_back(winner.event, known[1:]).value
