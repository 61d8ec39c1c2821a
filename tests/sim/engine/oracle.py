"""What the mirror must hold at each of its snapshots: the journal replayed row by row, and what others did to it.

A row that another writer adds has the order that its key had when the merge last committed, live or deleted; one of
a key that was never there counts as the greatest change merged so far. A row that another writer deletes leaves a
tombstone of the row's order, unless the merge never saw it. An update by another writer keeps the row's order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.sim.engine.journal import File, Order, Row
from tests.sim.engine.setting import Key

NOTHING: Order = (0, 0, 0)


@dataclass(frozen=True)
class State:
    """One snapshot. `orders` are those of the last merge at or before it, of live rows and tombstones alike.

    `touched`: keys whose order is not the changelog's, because others wrote or deleted their rows. `expired`: orders of
    tombstones that the index has let go, and of which the changelog still tells. `unseen`: damage hid from the judge
    which tombstones the last merge let go.
    """

    merged: int = 0
    position: tuple[int, float] = (0, float("inf"))
    orders: Mapping[Key, Order] = field(default_factory=dict)
    rows: Mapping[Key, Row] = field(default_factory=dict)
    touched: frozenset[Key] = frozenset()
    expired: Mapping[Key, Order] = field(default_factory=dict)
    unseen: bool = False

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

    def after_merge(self, files: list[File], merged: int, position: tuple[int, float]) -> State:
        """A merge took in these files."""
        greatest = self.greatest
        orders = {**dict.fromkeys(self.rows, greatest), **self.orders}
        rows, touched, expired = dict(self.rows), set(self.touched), dict(self.expired)
        for file in files:
            for event in file.events:
                order = (event.lsn, event.ordinal, file.commit)
                if order < orders.get(event.key, expired.get(event.key, NOTHING)):
                    continue
                orders[event.key] = order
                expired.pop(event.key, None)
                touched.discard(event.key)
                if event.row is None:
                    rows.pop(event.key, None)
                else:
                    rows[event.key] = event.row
        return State(merged, position, orders, rows, frozenset(touched), expired, self.unseen)
