"""Events while a catalog is unreachable or slow, in real time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from icemirror.errors import Transient
from tests.unit.trigger.dispatch.test_fleet import ORDERS
from tests.unit.trigger.scene import Scene
from tests.unit.trigger.sources.test_sources import s3_event
from trigger.dispatch.ingest import Accepted
from trigger.sources.refusal import RefusalReason

BY_PLACE = s3_event("shop/orders_changelog/metadata/00002-b.metadata.json")


def test_location_is_delivered_again_while_a_catalog_is_unreachable(scene: Scene) -> None:
    foreign = s3_event("x/metadata/1.metadata.json", "other")
    scene.catalogs[None].error = Transient("away")
    for body in (BY_PLACE, foreign):
        (outcome,) = scene.ingest.accept([body])
        assert isinstance(outcome, Transient)
    scene.catalogs[None].error = None
    scene.now += 31.0
    time.sleep(1.1)  # a catalog that failed is asked again after a second
    assert scene.ingest.accept([BY_PLACE]) == [Accepted(frozenset({ORDERS}))]
    assert scene.refusal(foreign) is RefusalReason.FOREIGN_BUCKET


def test_many_threads_with_an_unknown_name_refresh_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[int] = []

    def slow(patience_seconds: float) -> None:
        learned.append(1)
        time.sleep(0.2)

    monkeypatch.setattr(scene.fleet.registry, "refresh", slow)
    with ThreadPoolExecutor(8) as senders:
        list(senders.map(scene.ingest.accept, [[b'{"table":"a.b"}']] * 8))
    assert len(learned) == 1
