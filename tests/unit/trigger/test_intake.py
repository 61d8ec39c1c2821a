"""Events become notices of registered tables, and nothing else."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icemirror.errors import Transient
from icemirror.state.events import RunState, Started
from icemirror.state.letters import redrive_letters
from icemirror.state.reads import EVERYTHING
from icemirror.state.rows import Row, SlotState
from icemirror.state.sqlite import SqliteStore
from icemirror.telemetry import names
from tests.unit.trigger.fakes import DISCOVER, FakeHeads, settings
from tests.unit.trigger.scene import BY_NAME, HEAD, Scene
from tests.unit.trigger.test_fleet import ORDERS
from tests.unit.trigger.test_sources import event, s3_event
from trigger import registry as module
from trigger.due import dispatch_when_due
from trigger.intake import Taken
from trigger.registry import Registry
from trigger.sources.refused import Reason, Refused

BY_PLACE = s3_event("shop/orders_changelog/metadata/00002-b.metadata.json")


def test_an_event_is_a_notice_before_it_is_acknowledged(scene: Scene) -> None:
    assert scene.intake.take([BY_NAME]) == [Taken(frozenset({ORDERS}))]
    assert scene.table().dirty == 1


def test_a_batch_of_events_for_one_table_is_one_write_and_all_are_counted(scene: Scene) -> None:
    scene.intake.take([BY_NAME, BY_PLACE, BY_NAME])
    assert scene.table().dirty == 1
    assert scene.metrics.tally[names.NOTICES.name, ORDERS] == 3
    assert scene.metrics.tally[names.COALESCED.name, ORDERS] == 2


def test_a_place_is_found_as_soon_as_the_heads_are_known(scene: Scene) -> None:
    assert scene.intake.take([BY_PLACE]) == [Taken(frozenset({ORDERS}))]


def test_looks_at_a_catalog_that_is_away_do_not_become_fewer(scene: Scene, tmp_path: Path) -> None:
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
        (outcome,) = scene.intake.take([BY_PLACE])
        assert isinstance(outcome, Transient)
        scene.now += pause
    scene.catalogs[None].error = None
    assert scene.intake.take([BY_PLACE]) == [Taken(frozenset({ORDERS}))]


def test_what_is_refused_is_counted_and_notices_nothing(scene: Scene) -> None:
    assert scene.refusal(b"no") is Reason.MALFORMED
    assert scene.refusal(b'{"table":"a.b"}') is Reason.UNREGISTERED
    assert scene.refusal(s3_event("x/metadata/1.metadata.json", "other")) is Reason.FOREIGN_BUCKET
    refused = {key[1]: count for key, count in scene.metrics.tally.items() if key[0] == names.REFUSED.name}
    assert refused == {Reason.MALFORMED: 1, Reason.UNREGISTERED: 1, Reason.FOREIGN_BUCKET: 1}
    assert not scene.store.load(EVERYTHING).tables


def test_one_bad_event_does_not_touch_the_others(scene: Scene) -> None:
    first, bad, last = scene.intake.take([BY_NAME, b"no", BY_PLACE])
    assert isinstance(bad, Refused)
    assert first == last == Taken(frozenset({ORDERS}))


def test_an_event_of_several_tables_is_taken_if_one_is_ours(scene: Scene) -> None:
    assert scene.intake.take([b'{"tables":["a.b","raw.items"]}']) == [Taken(frozenset({"shop.items"}))]
    assert scene.metrics.tally[names.REFUSED.name, Reason.UNREGISTERED] == 1


def test_a_changelog_that_is_new_in_the_catalog_is_found_by_its_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FakeHeads()
    monkeypatch.setattr(module, "open_source", lambda properties, name: catalog)
    scene = Scene(tmp_path, DISCOVER)
    told = event("glue_update_table")
    assert scene.refusal(told) is Reason.UNREGISTERED
    catalog.heads["raw.orders_changelog"] = HEAD
    assert scene.refusal(told) is Reason.UNREGISTERED, "the catalog is not asked for every event"
    scene.now += 30.0
    assert scene.intake.take([told]) == [Taken(frozenset({ORDERS}))]
    scene.close()


def test_events_that_name_nothing_of_ours_do_not_trouble_the_catalog(scene: Scene) -> None:
    asked: list[int] = []
    scene.catalogs[None].before = lambda: asked.append(1)
    scene.intake.take([s3_event(f"x/{at}.metadata.json", "other") for at in range(50)])
    assert len(asked) == 1


def test_a_changelog_that_was_made_anew_in_another_folder_is_heard_of(scene: Scene) -> None:
    scene.fleet.sweep()
    moved = "shop/orders_changelog-7f3a/metadata/0000{}-x.metadata.json"
    scene.catalogs[None].heads["shop.orders_changelog"] = f"s3://lake/{moved.format(0)}"
    scene.catalogs["other"].heads["raw.items"] = "s3://lake/raw/items/metadata/00000-x.metadata.json"
    assert scene.intake.take([s3_event(moved.format(1))]) == [Taken(frozenset({ORDERS}))]


def test_unknown_names_do_not_keep_an_unknown_place_from_being_looked_up(scene: Scene) -> None:
    scene.fleet.sweep()
    scene.refusal(b'{"table":"a.b"}')
    moved = "shop/orders_changelog-7f3a/metadata/0000{}-x.metadata.json"
    scene.catalogs[None].heads["shop.orders_changelog"] = f"s3://lake/{moved.format(0)}"
    assert scene.intake.take([s3_event(moved.format(1))]) == [Taken(frozenset({ORDERS}))]


def test_places_that_are_nobodys_ask_the_catalog_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = FakeHeads({"raw.orders_changelog": HEAD})
    looks: list[float] = []
    lists: list[float] = []
    monkeypatch.setattr(module, "open_source", lambda properties, name: catalog)
    scene = Scene(tmp_path, DISCOVER)
    catalog.before = lambda: looks.append(scene.now)
    catalog.before_list = lambda: lists.append(scene.now)
    for at in range(300):
        place = s3_event(f"x{at}/metadata/00000-x.metadata.json", "lake" if at % 2 else "other")
        scene.intake.take([place, b'{"table":"a.b"}'])
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
    failed, taken = scene.intake.take([BY_NAME, b'{"table":"raw.items"}'])
    assert isinstance(failed, Transient)
    assert taken == Taken(frozenset({"shop.items"}))


def test_a_dead_letter_keeps_the_event_and_is_counted(scene: Scene) -> None:
    for _ in range(2):
        (outcome,) = scene.intake.take([b'{"hello":1}'])
        assert isinstance(outcome, Refused)
        scene.intake.bury("kafka", b'{"hello":1}', outcome)
    (letter,) = scene.store.letters()
    assert (letter.source, letter.body) == ("kafka", '{"hello":1}')
    assert scene.metrics.tally[(names.DEAD_LETTERS.name,)] == 2


def test_other_peoples_tables_are_no_dead_letters(scene: Scene) -> None:
    (outcome,) = scene.intake.take([b'{"table":"a.b"}'])
    assert isinstance(outcome, Refused)
    scene.intake.bury("kafka", b'{"table":"a.b"}', outcome)
    assert scene.store.letters() == ()


def test_a_letter_that_can_be_used_by_now_is_redriven_and_the_others_stay(scene: Scene) -> None:
    refused = Refused(Reason.UNKNOWN_KIND, "of a later release")
    for body in (BY_NAME, b'{"hello":1}'):
        scene.intake.bury("kafka", body, refused)
    done = dict(redrive_letters(scene.store.letters(), scene.intake.redrive, scene.store.remove_letter))
    assert {letter.body: error is None for letter, error in done.items()} == {
        BY_NAME.decode(): True,
        '{"hello":1}': False,
    }
    assert [letter.body for letter in scene.store.letters()] == ['{"hello":1}']
    assert scene.table().dirty == 1


def test_the_end_of_a_run_is_asked_of_the_launcher_not_believed(scene: Scene) -> None:
    scene.intake.take([BY_NAME])
    scene.now += 2.0
    dispatch_when_due(scene.fleet, 0.0)
    me = scene.me()
    scene.tell(Started(scene.now, me))
    told = json.loads(event("emr_serverless_success"))
    told["detail"]["jobRunId"] = me.run_id
    body = json.dumps(told).encode()
    scene.intake.take([body])
    assert scene.slot().state is SlotState.RUNNING, "the event lied"
    scene.launcher.runs[me.run_id] = RunState.GONE
    scene.intake.take([body.replace(me.run_id.encode(), b"another")])
    assert scene.slot().state is SlotState.RUNNING, "the run is not ours"
    scene.intake.take([body])
    assert scene.slot().state is SlotState.FREE


def test_dispatch_waits_out_the_quiet_period_but_not_for_ever(scene: Scene) -> None:
    def sleep(seconds: float) -> None:
        scene.now += seconds

    scene.intake.take([BY_NAME])
    dispatch_when_due(scene.fleet, 1.0, sleep)
    assert scene.launcher.launches == []
    dispatch_when_due(scene.fleet, 5.0, sleep)
    assert len(scene.launcher.launches) == 1
    began = scene.now
    scene.intake.take([BY_NAME])
    dispatch_when_due(scene.fleet, 5.0, sleep)
    assert scene.now == began, "a worker is on its way and picks the table up by itself"


def test_a_place_that_may_be_of_a_table_whose_catalog_is_away_comes_again(scene: Scene) -> None:
    foreign = s3_event("x/metadata/1.metadata.json", "other")
    scene.catalogs[None].error = Transient("away")
    for body in (BY_PLACE, foreign):
        (outcome,) = scene.intake.take([body])
        assert isinstance(outcome, Transient)
    scene.catalogs[None].error = None
    scene.now += 31.0
    time.sleep(1.1)  # a catalog that failed is asked again after a second
    assert scene.intake.take([BY_PLACE]) == [Taken(frozenset({ORDERS}))]
    assert scene.refusal(foreign) is Reason.FOREIGN_BUCKET


def test_many_who_do_not_know_a_name_learn_it_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[int] = []

    def slow(patience_seconds: float) -> None:
        learned.append(1)
        time.sleep(0.2)

    monkeypatch.setattr(scene.fleet.registry, "refresh", slow)
    with ThreadPoolExecutor(8) as senders:
        list(senders.map(scene.intake.take, [[b'{"table":"a.b"}']] * 8))
    assert len(learned) == 1
