"""A fleet that ingests events."""

from __future__ import annotations

from pathlib import Path

from icemirror.telemetry.names import Metric
from tests.unit.trigger.dispatch.test_fleet import Counts, Stage
from tests.unit.trigger.fakes import TABLES, settings
from trigger.dispatch.ingest import Ingest
from trigger.sources.refusal import EventRefused, RefusalReason
from trigger.tables.registry import Registry

BY_NAME = b'{"table":"shop.orders_changelog"}'
HEAD = "s3://lake/shop/orders_changelog/metadata/00001-a.metadata.json"


class Tally(Counts):
    """Counts by labels as well."""

    def __init__(self) -> None:
        super().__init__()
        self.tally: dict[tuple[str, ...], int] = {}

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        super().count(metric, amount, **labels)
        key = (metric.name, *labels.values())
        self.tally[key] = self.tally.get(key, 0) + amount


class Scene(Stage):
    """A fleet that ingests events, with a clock for its refreshes."""

    def __init__(self, folder: Path, tables: str = TABLES) -> None:
        super().__init__(folder)
        self.metrics: Tally = Tally()
        self.fleet.metrics = self.metrics
        self.catalogs[None].heads["shop.orders_changelog"] = HEAD
        self.fleet.registry.close()
        self.fleet.registry = Registry(settings(folder, tables))
        self.ingest = Ingest(self.fleet, clock=lambda: self.now)

    def refusal(self, body: bytes) -> RefusalReason:
        (outcome,) = self.ingest.accept([body])
        assert isinstance(outcome, EventRefused)
        return outcome.reason
