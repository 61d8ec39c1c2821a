"""Events while a catalog is unreachable or slow, in real time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from icemirror.errors import Transient
from tests.unit.trigger.dispatch.dispatcher_harness import ORDERS
from tests.unit.trigger.scene import Scene
from tests.unit.trigger.sources.recorded_events import s3_event
from trigger.dispatch.ingest import Accepted, NotStored
from trigger.sources.refusal import RefusalReason

BY_LOCATION = s3_event("shop/orders_changelog/metadata/00002-b.metadata.json")


def test_location_hint_is_redelivered_while_a_catalog_is_unreachable(scene: Scene) -> None:
    foreign = s3_event("x/metadata/1.metadata.json", "other")
    scene.catalogs[None].error = Transient("away")
    for body in (BY_LOCATION, foreign):
        (outcome,) = scene.ingest.accept([body])
        assert isinstance(outcome, NotStored)
    scene.catalogs[None].error = None
    scene.now += 31.0
    time.sleep(1.1)  # a failed catalog is queried again after a second
    assert scene.ingest.accept([BY_LOCATION]) == [Accepted(frozenset({ORDERS}))]
    assert scene.refusal(foreign) is RefusalReason.FOREIGN_BUCKET


def test_many_threads_with_an_unknown_name_refresh_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshes: list[int] = []

    def slow_refresh(patience_seconds: float) -> None:
        refreshes.append(1)
        time.sleep(0.2)

    monkeypatch.setattr(scene.dispatcher.registry, "refresh", slow_refresh)
    with ThreadPoolExecutor(8) as senders:
        list(senders.map(scene.ingest.accept, [[b'{"table":"a.b"}']] * 8))
    assert len(refreshes) == 1
