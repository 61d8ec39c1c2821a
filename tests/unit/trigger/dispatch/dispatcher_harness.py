"""A dispatcher with fakes of its dependencies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from icemirror.protocol.events import Event, WorkerId
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import SlotId, SlotRow, TableRow
from icemirror.stores.apply import apply
from icemirror.stores.from_settings import build_policy
from icemirror.stores.sqlite import SqliteStore
from icemirror.telemetry.metric_names import Metric
from icemirror.telemetry.metrics import NoMetrics
from tests.unit.trigger.fakes import FakeHeads, FakeLauncher, settings
from trigger.dispatch.dispatcher import Dispatcher
from trigger.tables.registry import TableRegistry

ORDERS = "shop.orders"


class CountingMetrics(NoMetrics):
    """Records the counted metrics."""

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        super().count(metric, amount, **labels)
        self.counted.append(metric.name)


class DispatcherHarness:
    """A dispatcher, a clock, and a worker whose events the test applies."""

    def __init__(self, folder: Path) -> None:
        self.now = 1000.0
        self.catalogs = {
            None: FakeHeads({"shop.orders_changelog": "m1"}),
            "other": FakeHeads({"raw.items": "i1"}),
        }
        self.launcher, self.metrics = FakeLauncher(), CountingMetrics()
        loaded = settings(folder)
        self.store = SqliteStore(folder / "state.db")
        self.policy = replace(build_policy(loaded), quiet_seconds=2.0, lease_seconds=100.0)
        self.dispatcher = Dispatcher(
            registry=TableRegistry(loaded),
            store=self.store,
            policy=self.policy,
            launcher=self.launcher,
            config=str(loaded.source_path),
            metrics=self.metrics,
            clock=lambda: self.now,
            jitter=lambda: 0.0,
        )

    def sweep(self, after: float = 0.0) -> None:
        self.now += after
        self.dispatcher.sweep()

    def table(self, name: str = ORDERS) -> TableRow:
        return self.store.load(ALL_ROWS).tables[name]

    def slot(self, group: str = "default") -> SlotRow:
        return self.store.load(ALL_ROWS).slots[SlotId(group, 0)]

    def me(self, group: str = "default") -> WorkerId:
        slot = self.slot(group)
        return WorkerId(slot.id, slot.gen, f"run-of-{group}-0-{slot.gen}")

    def apply(self, event: Event) -> None:
        apply(self.store, event, self.policy)

    def close(self) -> None:
        self.dispatcher.registry.close()
        self.store.close()
