"""Events become notices of registered tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from icemirror.errors import Transient
from icemirror.protocol.events import RunState, Started
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import Row, SlotState
from icemirror.stores.dead_letters import redrive_letters
from icemirror.stores.sqlite import SqliteStore
from icemirror.telemetry import metric_names
from tests.unit.trigger.dispatch.dispatcher_harness import ORDERS
from tests.unit.trigger.fakes import DISCOVER, FakeHeads, settings
from tests.unit.trigger.scene import BY_NAME, HEAD, Scene
from tests.unit.trigger.sources.recorded_events import event, s3_event
from trigger.dispatch.ingest import Accepted, NotStored
from trigger.dispatch.launch_times import dispatch_when_due
from trigger.sources.refusal import Refusal, RefusalReason
from trigger.tables import registry
from trigger.tables.registry import TableRegistry

BY_LOCATION = s3_event("shop/orders_changelog/metadata/00002-b.metadata.json")


def test_event_is_noticed_before_it_is_acknowledged(scene: Scene) -> None:
    assert scene.ingest.accept([BY_NAME]) == [Accepted(frozenset({ORDERS}))]
    assert scene.table().dirty == 1


def test_events_for_one_table_are_one_write_and_all_are_counted(scene: Scene) -> None:
    scene.ingest.accept([BY_NAME, BY_LOCATION, BY_NAME])
    assert scene.table().dirty == 1
    assert scene.metrics.tally[metric_names.NOTICES.name, ORDERS] == 3
    assert scene.metrics.tally[metric_names.COALESCED.name, ORDERS] == 2


def test_location_is_resolved_once_the_heads_are_known(scene: Scene) -> None:
    assert scene.ingest.accept([BY_LOCATION]) == [Accepted(frozenset({ORDERS}))]


def test_unreachable_catalog_is_polled_at_the_same_interval(scene: Scene, tmp_path: Path) -> None:
    scene.dispatcher.registry.close()
    scene.dispatcher.registry = TableRegistry(settings(tmp_path), clock=lambda: scene.now)
    scene.catalogs[None].error = Transient("away")
    for pause in (600.0, 600.0, 600.0, 600.0, 600.0, 31.0):  # an outage with repeated messages
        (outcome,) = scene.ingest.accept([BY_LOCATION])
        assert isinstance(outcome, NotStored)
        scene.now += pause
    scene.catalogs[None].error = None
    assert scene.ingest.accept([BY_LOCATION]) == [Accepted(frozenset({ORDERS}))]


def test_refused_event_is_counted_and_creates_no_notice(scene: Scene) -> None:
    assert scene.refusal(b"no") is RefusalReason.MALFORMED
    assert scene.refusal(b'{"table":"a.b"}') is RefusalReason.UNREGISTERED
    assert scene.refusal(s3_event("x/metadata/1.metadata.json", "other")) is RefusalReason.FOREIGN_BUCKET
    refused = {
        key[1]: count for key, count in scene.metrics.tally.items() if key[0] == metric_names.REFUSED.name
    }
    assert refused == {
        RefusalReason.MALFORMED: 1,
        RefusalReason.UNREGISTERED: 1,
        RefusalReason.FOREIGN_BUCKET: 1,
    }
    assert not scene.store.load(ALL_ROWS).tables


def test_invalid_event_does_not_affect_others(scene: Scene) -> None:
    first, bad, last = scene.ingest.accept([BY_NAME, b"no", BY_LOCATION])
    assert isinstance(bad, Refusal)
    assert first == last == Accepted(frozenset({ORDERS}))


def test_event_of_several_tables_is_accepted_if_one_is_registered(scene: Scene) -> None:
    assert scene.ingest.accept([b'{"tables":["a.b","raw.items"]}']) == [Accepted(frozenset({"shop.items"}))]
    assert scene.metrics.tally[metric_names.REFUSED.name, RefusalReason.UNREGISTERED] == 1


def test_new_changelog_is_discovered_by_its_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FakeHeads()
    monkeypatch.setattr(registry, "open_head_source", lambda properties, name: catalog)
    scene = Scene(tmp_path, DISCOVER)
    hint = event("glue_update_table")
    assert scene.refusal(hint) is RefusalReason.UNREGISTERED
    catalog.heads["raw.orders_changelog"] = HEAD
    assert scene.refusal(hint) is RefusalReason.UNREGISTERED, "the catalog is not polled for every event"
    scene.now += 30.0
    assert scene.ingest.accept([hint]) == [Accepted(frozenset({ORDERS}))]
    scene.close()


def test_unregistered_events_poll_the_catalog_once(scene: Scene) -> None:
    polls: list[int] = []
    scene.catalogs[None].before = lambda: polls.append(1)
    scene.ingest.accept([s3_event(f"x/{number}.metadata.json", "other") for number in range(50)])
    assert len(polls) == 1


def test_changelog_recreated_in_another_folder_is_found(scene: Scene) -> None:
    scene.dispatcher.sweep()
    moved = "shop/orders_changelog-7f3a/metadata/0000{}-x.metadata.json"
    scene.catalogs[None].heads["shop.orders_changelog"] = f"s3://lake/{moved.format(0)}"
    scene.catalogs["other"].heads["raw.items"] = "s3://lake/raw/items/metadata/00000-x.metadata.json"
    assert scene.ingest.accept([s3_event(moved.format(1))]) == [Accepted(frozenset({ORDERS}))]


def test_unknown_names_do_not_delay_the_search_for_an_unknown_location(scene: Scene) -> None:
    scene.dispatcher.sweep()
    scene.refusal(b'{"table":"a.b"}')
    moved = "shop/orders_changelog-7f3a/metadata/0000{}-x.metadata.json"
    scene.catalogs[None].heads["shop.orders_changelog"] = f"s3://lake/{moved.format(0)}"
    assert scene.ingest.accept([s3_event(moved.format(1))]) == [Accepted(frozenset({ORDERS}))]


def test_unregistered_locations_poll_the_catalog_at_growing_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FakeHeads({"raw.orders_changelog": HEAD})
    polls: list[float] = []
    listings: list[float] = []
    monkeypatch.setattr(registry, "open_head_source", lambda properties, name: catalog)
    scene = Scene(tmp_path, DISCOVER)
    catalog.before = lambda: polls.append(scene.now)
    catalog.before_list = lambda: listings.append(scene.now)
    for second in range(300):
        location = s3_event(f"x{second}/metadata/00000-x.metadata.json", "lake" if second % 2 else "other")
        scene.ingest.accept([location, b'{"table":"a.b"}'])
        scene.now += 1.0
    scene.close()
    assert polls == [1000.0, 1030.0, 1090.0, 1210.0]
    assert listings == [1000.0 + 30 * number for number in range(10)]


def test_notice_that_cannot_be_stored_fails_only_its_events(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare_and_set = SqliteStore.compare_and_set

    def refuse(store: SqliteStore, row: Row) -> bool:
        if getattr(row, "name", "") == ORDERS:
            raise Transient("locked")
        return compare_and_set(store, row)

    monkeypatch.setattr(SqliteStore, "compare_and_set", refuse)
    failed, accepted = scene.ingest.accept([BY_NAME, b'{"table":"raw.items"}'])
    assert isinstance(failed, NotStored)
    assert accepted == Accepted(frozenset({"shop.items"}))


def test_dead_letter_contains_the_event_and_is_counted(scene: Scene) -> None:
    for _ in range(2):
        (outcome,) = scene.ingest.accept([b'{"hello":1}'])
        assert isinstance(outcome, Refusal)
        scene.ingest.keep_dead_letter("kafka", b'{"hello":1}', outcome)
    (letter,) = scene.store.letters()
    assert (letter.source, letter.body) == ("kafka", '{"hello":1}')
    assert scene.metrics.tally[(metric_names.DEAD_LETTERS.name,)] == 2


def test_event_of_an_unregistered_table_is_not_a_dead_letter(scene: Scene) -> None:
    (outcome,) = scene.ingest.accept([b'{"table":"a.b"}'])
    assert isinstance(outcome, Refusal)
    scene.ingest.keep_dead_letter("kafka", b'{"table":"a.b"}', outcome)
    assert scene.store.letters() == ()


def test_letter_that_can_be_parsed_now_is_redriven_and_others_stay(scene: Scene) -> None:
    refusal = Refusal(RefusalReason.UNKNOWN_KIND, "of a later release")
    for body in (BY_NAME, b'{"hello":1}'):
        scene.ingest.keep_dead_letter("kafka", body, refusal)
    results = dict(redrive_letters(scene.store.letters(), scene.ingest.redrive, scene.store.remove_letter))
    assert {letter.body: error is None for letter, error in results.items()} == {
        BY_NAME.decode(): True,
        '{"hello":1}': False,
    }
    assert [letter.body for letter in scene.store.letters()] == ['{"hello":1}']
    assert scene.table().dirty == 1


def test_reported_end_of_a_run_is_verified_with_the_launcher(scene: Scene) -> None:
    scene.ingest.accept([BY_NAME])
    scene.now += 2.0
    dispatch_when_due(scene.dispatcher, 0.0)
    me = scene.me()
    scene.apply(Started(scene.now, me))
    ended = json.loads(event("emr_serverless_success"))
    ended["detail"]["jobRunId"] = me.run_id
    body = json.dumps(ended).encode()
    scene.ingest.accept([body])
    assert scene.slot().state is SlotState.RUNNING, "the event is wrong"
    scene.launcher.runs[me.run_id] = RunState.ENDED
    scene.ingest.accept([body.replace(me.run_id.encode(), b"another")])
    assert scene.slot().state is SlotState.RUNNING, "the run belongs to another trigger"
    scene.ingest.accept([body])
    assert scene.slot().state is SlotState.FREE


def test_dispatch_waits_for_the_quiet_period_up_to_a_limit(scene: Scene) -> None:
    def sleep(seconds: float) -> None:
        scene.now += seconds

    scene.ingest.accept([BY_NAME])
    dispatch_when_due(scene.dispatcher, 1.0, sleep)
    assert scene.launcher.launches == []
    dispatch_when_due(scene.dispatcher, 5.0, sleep)
    assert len(scene.launcher.launches) == 1
    began = scene.now
    scene.ingest.accept([BY_NAME])
    dispatch_when_due(scene.dispatcher, 5.0, sleep)
    assert scene.now == began, "a launched worker picks the table"
