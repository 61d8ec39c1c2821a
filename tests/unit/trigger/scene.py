"""A dispatcher that ingests events."""

from __future__ import annotations

from pathlib import Path

from icemirror.telemetry.metric_names import Metric
from tests.unit.trigger.dispatch.dispatcher_harness import CountingMetrics, DispatcherHarness
from tests.unit.trigger.fakes import TABLES, settings
from trigger.dispatch.ingest import EventIngest
from trigger.sources.refusal import Refusal, RefusalReason
from trigger.tables.registry import TableRegistry

BY_NAME = b'{"table":"shop.orders_changelog"}'
HEAD = "s3://lake/shop/orders_changelog/metadata/00001-a.metadata.json"


class LabelCountingMetrics(CountingMetrics):
    """Counts metrics by their labels."""

    def __init__(self) -> None:
        super().__init__()
        self.tally: dict[tuple[str, ...], int] = {}

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        super().count(metric, amount, **labels)
        key = (metric.name, *labels.values())
        self.tally[key] = self.tally.get(key, 0) + amount


class Scene(DispatcherHarness):
    """A dispatcher that ingests events, and its clock."""

    def __init__(self, folder: Path, tables: str = TABLES) -> None:
        super().__init__(folder)
        self.metrics: LabelCountingMetrics = LabelCountingMetrics()
        self.dispatcher.metrics = self.metrics
        self.catalogs[None].heads["shop.orders_changelog"] = HEAD
        self.dispatcher.registry.close()
        self.dispatcher.registry = TableRegistry(settings(folder, tables))
        self.ingest = EventIngest(self.dispatcher, clock=lambda: self.now)

    def refusal(self, body: bytes) -> RefusalReason:
        (outcome,) = self.ingest.accept([body])
        assert isinstance(outcome, Refusal)
        return outcome.reason
