"""A fleet that is told of commits by events."""

from __future__ import annotations

from pathlib import Path

from icemirror.telemetry.names import Metric
from tests.unit.trigger.fakes import TABLES, settings
from tests.unit.trigger.test_fleet import Counts, Stage
from trigger.intake import Intake
from trigger.registry import Registry
from trigger.sources.refused import Reason, Refused

BY_NAME = b'{"table":"shop.orders_changelog"}'
HEAD = "s3://lake/shop/orders_changelog/metadata/00001-a.metadata.json"


class Tally(Counts):
    """Counts by labels too."""

    def __init__(self) -> None:
        super().__init__()
        self.tally: dict[tuple[str, ...], int] = {}

    def count(self, metric: Metric, n: int = 1, **labels: str) -> None:
        super().count(metric, n, **labels)
        key = (metric.name, *labels.values())
        self.tally[key] = self.tally.get(key, 0) + n


class Scene(Stage):
    """A fleet that is told of commits, with a clock for what it learns."""

    def __init__(self, folder: Path, tables: str = TABLES) -> None:
        super().__init__(folder)
        self.metrics: Tally = Tally()
        self.fleet.metrics = self.metrics
        self.catalogs[None].heads["shop.orders_changelog"] = HEAD
        self.fleet.registry.close()
        self.fleet.registry = Registry(settings(folder, tables))
        self.intake = Intake(self.fleet, clock=lambda: self.now)

    def refusal(self, body: bytes) -> Reason:
        (outcome,) = self.intake.take([body])
        assert isinstance(outcome, Refused)
        return outcome.reason
