"""Events become notices of registered tables, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from icemirror.errors import Transient
from icemirror.protocol.events import RunState, Started
from icemirror.protocol.reads import EVERYTHING
from icemirror.protocol.rows import Row, SlotState
from icemirror.stores.dead_letters import redrive_letters
from icemirror.stores.sqlite import SqliteStore
from icemirror.telemetry import names
from tests.unit.trigger.dispatch.test_fleet import ORDERS
from tests.unit.trigger.fakes import DISCOVER, FakeHeads, settings
from tests.unit.trigger.scene import BY_NAME, HEAD, Scene
from tests.unit.trigger.sources.test_sources import event, s3_event
from trigger.dispatch.due import dispatch_when_due
from trigger.dispatch.ingest import Accepted
from trigger.sources.refusal import EventRefused, RefusalReason
from trigger.tables import registry as module
from trigger.tables.registry import Registry

BY_PLACE = s3_event("shop/orders_changelog/metadata/00002-b.metadata.json")


def test_an_event_is_a_notice_before_it_is_acknowledged(scene: Scene) -> None:
    assert scene.ingest.accept([BY_NAME]) == [Accepted(frozenset({ORDERS}))]
    assert scene.table().dirty == 1


def test_a_batch_of_events_for_one_table_is_one_write_and_all_are_counted(scene: Scene) -> None:
    scene.ingest.accept([BY_NAME, BY_PLACE, BY_NAME])
    assert scene.table().dirty == 1
    assert scene.metrics.tally[names.NOTICES.name, ORDERS] == 3
    assert scene.metrics.tally[names.COALESCED.name, ORDERS] == 2


def test_a_place_is_found_as_soon_as_the_heads_are_known(scene: Scene) -> None:
    assert scene.ingest.accept([BY_PLACE]) == [Accepted(frozenset({ORDERS}))]


def test_unreachable_catalog_is_polled_at_the_same_interval(scene: Scene, tmp_path: Path) -> None:
    scene.fleet.registry.close()
    scene.fleet.registry = Registry(settings(tmp_path), clock=lambda: scene.now)
    scene.catalogs[None].error = Transient("away")
    for pause in (
        600.0,
        600.0,
        600.0,
        600.0,
        600.0,
        31.0,
    ):  # an outage, in which messages come again and again
        (outcome,) = scene.ingest.accept([BY_PLACE])
        assert isinstance(outcome, Transient)
        scene.now += pause
    scene.catalogs[None].error = None
    assert scene.ingest.accept([BY_PLACE]) == [Accepted(frozenset({ORDERS}))]


def test_what_is_refused_is_counted_and_notices_nothing(scene: Scene) -> None:
    assert scene.refusal(b"no") is RefusalReason.MALFORMED
    assert scene.refusal(b'{"table":"a.b"}') is RefusalReason.UNREGISTERED
    assert scene.refusal(s3_event("x/metadata/1.metadata.json", "other")) is RefusalReason.FOREIGN_BUCKET
    refused = {key[1]: count for key, count in scene.metrics.tally.items() if key[0] == names.REFUSED.name}
    assert refused == {
        RefusalReason.MALFORMED: 1,
        RefusalReason.UNREGISTERED: 1,
        RefusalReason.FOREIGN_BUCKET: 1,
    }
    assert not scene.store.load(EVERYTHING).tables


def test_one_bad_event_does_not_touch_the_others(scene: Scene) -> None:
    first, bad, last = scene.ingest.accept([BY_NAME, b"no", BY_PLACE])
    assert isinstance(bad, EventRefused)
    assert first == last == Accepted(frozenset({ORDERS}))


def test_event_of_several_tables_is_accepted_if_one_is_registered(scene: Scene) -> None:
    assert scene.ingest.accept([b'{"tables":["a.b","raw.items"]}']) == [Accepted(frozenset({"shop.items"}))]
    assert scene.metrics.tally[names.REFUSED.name, RefusalReason.UNREGISTERED] == 1


def test_a_changelog_that_is_new_in_the_catalog_is_found_by_its_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FakeHeads()
    monkeypatch.setattr(module, "open_head_source", lambda properties, name: catalog)
    scene = Scene(tmp_path, DISCOVER)
    told = event("glue_update_table")
    assert scene.refusal(told) is RefusalReason.UNREGISTERED
    catalog.heads["raw.orders_changelog"] = HEAD
    assert scene.refusal(told) is RefusalReason.UNREGISTERED, "the catalog is not asked for every event"
    scene.now += 30.0
    assert scene.ingest.accept([told]) == [Accepted(frozenset({ORDERS}))]
    scene.close()


def test_events_that_name_nothing_of_ours_do_not_trouble_the_catalog(scene: Scene) -> None:
    asked: list[int] = []
    scene.catalogs[None].before = lambda: asked.append(1)
    scene.ingest.accept([s3_event(f"x/{at}.metadata.json", "other") for at in range(50)])
    assert len(asked) == 1


def test_changelog_recreated_in_another_folder_is_found(scene: Scene) -> None:
    scene.fleet.sweep()
    moved = "shop/orders_changelog-7f3a/metadata/0000{}-x.metadata.json"
    scene.catalogs[None].heads["shop.orders_changelog"] = f"s3://lake/{moved.format(0)}"
    scene.catalogs["other"].heads["raw.items"] = "s3://lake/raw/items/metadata/00000-x.metadata.json"
    assert scene.ingest.accept([s3_event(moved.format(1))]) == [Accepted(frozenset({ORDERS}))]


def test_unknown_names_do_not_delay_the_search_for_an_unknown_location(scene: Scene) -> None:
    scene.fleet.sweep()
    scene.refusal(b'{"table":"a.b"}')
    moved = "shop/orders_changelog-7f3a/metadata/0000{}-x.metadata.json"
    scene.catalogs[None].heads["shop.orders_changelog"] = f"s3://lake/{moved.format(0)}"
    assert scene.ingest.accept([s3_event(moved.format(1))]) == [Accepted(frozenset({ORDERS}))]


def test_unregistered_locations_poll_the_catalog_at_growing_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FakeHeads({"raw.orders_changelog": HEAD})
    looks: list[float] = []
    lists: list[float] = []
    monkeypatch.setattr(module, "open_head_source", lambda properties, name: catalog)
    scene = Scene(tmp_path, DISCOVER)
    catalog.before = lambda: looks.append(scene.now)
    catalog.before_list = lambda: lists.append(scene.now)
    for at in range(300):
        place = s3_event(f"x{at}/metadata/00000-x.metadata.json", "lake" if at % 2 else "other")
        scene.ingest.accept([place, b'{"table":"a.b"}'])
        scene.now += 1.0
    scene.close()
    assert looks == [1000.0, 1030.0, 1090.0, 1210.0]
    assert lists == [1000.0 + 30 * at for at in range(10)]


def test_a_notice_that_cannot_be_stored_fails_its_own_events_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SqliteStore.compare_and_set

    def refuse(store: SqliteStore, row: Row) -> bool:
        if getattr(row, "name", "") == ORDERS:
            raise Transient("locked")
        return real(store, row)

    monkeypatch.setattr(SqliteStore, "compare_and_set", refuse)
    failed, taken = scene.ingest.accept([BY_NAME, b'{"table":"raw.items"}'])
    assert isinstance(failed, Transient)
    assert taken == Accepted(frozenset({"shop.items"}))


def test_a_dead_letter_keeps_the_event_and_is_counted(scene: Scene) -> None:
    for _ in range(2):
        (outcome,) = scene.ingest.accept([b'{"hello":1}'])
        assert isinstance(outcome, EventRefused)
        scene.ingest.keep_dead_letter("kafka", b'{"hello":1}', outcome)
    (letter,) = scene.store.letters()
    assert (letter.source, letter.body) == ("kafka", '{"hello":1}')
    assert scene.metrics.tally[(names.DEAD_LETTERS.name,)] == 2


def test_event_of_an_unregistered_table_is_no_dead_letter(scene: Scene) -> None:
    (outcome,) = scene.ingest.accept([b'{"table":"a.b"}'])
    assert isinstance(outcome, EventRefused)
    scene.ingest.keep_dead_letter("kafka", b'{"table":"a.b"}', outcome)
    assert scene.store.letters() == ()


def test_a_letter_that_can_be_used_by_now_is_redriven_and_the_others_stay(scene: Scene) -> None:
    refused = EventRefused(RefusalReason.UNKNOWN_KIND, "of a later release")
    for body in (BY_NAME, b'{"hello":1}'):
        scene.ingest.keep_dead_letter("kafka", body, refused)
    done = dict(redrive_letters(scene.store.letters(), scene.ingest.redrive, scene.store.remove_letter))
    assert {letter.body: error is None for letter, error in done.items()} == {
        BY_NAME.decode(): True,
        '{"hello":1}': False,
    }
    assert [letter.body for letter in scene.store.letters()] == ['{"hello":1}']
    assert scene.table().dirty == 1


def test_reported_end_of_a_run_is_verified_with_the_launcher(scene: Scene) -> None:
    scene.ingest.accept([BY_NAME])
    scene.now += 2.0
    dispatch_when_due(scene.fleet, 0.0)
    me = scene.me()
    scene.apply(Started(scene.now, me))
    told = json.loads(event("emr_serverless_success"))
    told["detail"]["jobRunId"] = me.run_id
    body = json.dumps(told).encode()
    scene.ingest.accept([body])
    assert scene.slot().state is SlotState.RUNNING, "the event lied"
    scene.launcher.runs[me.run_id] = RunState.ENDED
    scene.ingest.accept([body.replace(me.run_id.encode(), b"another")])
    assert scene.slot().state is SlotState.RUNNING, "the run is not ours"
    scene.ingest.accept([body])
    assert scene.slot().state is SlotState.FREE


def test_dispatch_waits_out_the_quiet_period_but_not_for_ever(scene: Scene) -> None:
    def sleep(seconds: float) -> None:
        scene.now += seconds

    scene.ingest.accept([BY_NAME])
    dispatch_when_due(scene.fleet, 1.0, sleep)
    assert scene.launcher.launches == []
    dispatch_when_due(scene.fleet, 5.0, sleep)
    assert len(scene.launcher.launches) == 1
    began = scene.now
    scene.ingest.accept([BY_NAME])
    dispatch_when_due(scene.fleet, 5.0, sleep)
    assert scene.now == began, "a worker is on its way and picks the table up by itself"
