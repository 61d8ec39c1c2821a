"""Tables that the trigger knows and its jobs do not: few launches, a reason in the status, no effect on others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from icemirror.errors import Kind
from icemirror.protocol.events import Resumed, RunState, WorkerId
from icemirror.protocol.reads import EVERYTHING
from icemirror.protocol.rows import SlotId, SlotState, TableRow
from icemirror.protocol.worker import Limits
from icemirror.result import ErrorResult, NothingToMerge
from spark_job.worker.worker import WorkerDependencies, run_worker
from tests.unit.icemirror.protocol.samples import POSITION
from tests.unit.trigger.fakes import FakeHeads
from tests.unit.trigger.scene import Scene
from trigger.status.table_status import fleet_status
from trigger.tables import registry as module

TWO = """
tables:
  - {namespace: shop, changelog_table: orders_changelog, mirror_table: orders, primary_keys: [id]}
  - {namespace: shop, changelog_table: items_changelog, mirror_table: items, primary_keys: [id]}
"""
ORDERS, ITEMS = "shop.orders", "shop.items"


class Story(Scene):
    """A trigger, and jobs that know what the test lets them know."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TWO)
        self.knows: frozenset[str] = frozenset({ITEMS})
        self.blind: ErrorResult | None = None
        self.merged: list[str] = []

    def live(self, seconds: float, pause: float = 20.0) -> int:
        """Rounds of the trigger, with jobs that end before the next one; how many were launched."""
        before, ends_at = len(self.launcher.launches), self.now + seconds
        while self.now < ends_at:
            self.sweep(pause)
            slot = self.store.load(EVERYTHING).slot(SlotId("default", 0))
            if slot.state is SlotState.LAUNCHING:
                self._work(WorkerId(slot.id, slot.gen, str(slot.run_id)))
        return len(self.launcher.launches) - before

    def _work(self, me: WorkerId) -> None:
        def advance(table: str) -> NothingToMerge:
            self.merged.append(table)
            return NothingToMerge(head=str(self.table(table).noticed_head), position=POSITION)

        def sleep(seconds: float) -> None:
            self.now += seconds

        around = WorkerDependencies(
            store=self.store,
            policy=self.policy,
            limits=Limits(linger_seconds=5.0),
            advance=advance,
            tables=lambda: self.knows,
            stopping=lambda: False,
            discovery_error=lambda: self.blind,
            clock=lambda: self.now,
            sleep=sleep,
            jitter=lambda: 0.0,
        )
        run_worker(me, around)
        self.launcher.runs[me.run_id] = RunState.ENDED

    def shown(self) -> dict[str, dict[str, object]]:
        found = fleet_status(self.fleet.registry.tables, self.fleet.sweep(), self.now)
        return {one["table"]: one for one in found}


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    catalog = FakeHeads({"shop.orders_changelog": "o1", "shop.items_changelog": "i1"})
    monkeypatch.setattr(module, "open_head_source", lambda properties, name: catalog)
    made = Story(tmp_path)
    made.catalogs[None] = catalog
    yield made
    made.close()


def test_a_table_that_no_job_knows_is_quarantined_after_a_few_launches(story: Story) -> None:
    assert story.live(2400.0) == story.policy.max_failures
    row = story.table(ORDERS)
    assert (row.quarantined, row.failures, row.owner) == (True, story.policy.max_failures, None)
    assert row.error is not None
    assert row.error.kind is Kind.TRANSIENT, "jobs that know it may be on their way"
    assert "missing from the jobs' configuration" in row.error.message
    assert story.shown()[ORDERS]["state"] == "quarantined"
    assert story.slot().failures == 0, "no job has failed"


def test_table_unknown_to_jobs_after_its_quarantine_is_blocked(story: Story) -> None:
    story.live(2400.0)
    story.live(4 * story.policy.probation_seconds)
    row = story.table(ORDERS)
    assert (row.quarantined, row.failures) == (True, story.policy.max_failures + 1)
    assert row.error is not None
    assert row.error.kind is Kind.INVALID


def test_the_other_tables_are_merged_all_the_while(story: Story) -> None:
    story.live(2400.0)
    assert story.merged == [ITEMS]
    for number in range(2, 5):
        story.catalogs[None].heads["shop.items_changelog"] = f"i{number}"
        assert story.live(60.0) == 1
    assert story.table(ITEMS).covered == story.table(ITEMS).dirty
    assert story.merged == [ITEMS] * 4


def test_launches_back_off(story: Story) -> None:
    at: list[float] = []
    while not at or not story.table(ORDERS).quarantined:
        if story.live(1.0, pause=1.0):
            at.append(story.now)
    pauses = [later - earlier for earlier, later in pairwise(at)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 5 * pauses[0]


def test_a_job_that_knows_it_makes_all_good(story: Story) -> None:
    story.live(25.0)
    assert story.table(ORDERS).failures == 1
    story.knows = frozenset({ORDERS, ITEMS})
    story.live(60.0)
    row = story.table(ORDERS)
    assert (row.failures, row.error, row.covered) == (0, None, row.dirty)


def test_resume_lifts_the_quarantine_once_the_jobs_know_the_table(story: Story) -> None:
    story.live(2400.0)
    story.knows = frozenset({ORDERS, ITEMS})
    assert story.live(200.0) == 0
    story.apply(Resumed(story.now, ORDERS))
    assert story.live(60.0) == 1
    assert story.table(ORDERS).covered == story.table(ORDERS).dirty


def test_job_whose_discovery_failed_reports_it_and_is_retried_later(story: Story) -> None:
    story.blind = ErrorResult(kind=Kind.TRANSIENT, message="the catalog did not answer")
    assert story.live(2400.0) == story.policy.max_failures
    row = story.table(ORDERS)
    assert (row.quarantined, row.error) == (True, story.blind)
    story.blind, story.knows = None, frozenset({ORDERS, ITEMS})
    story.live(2 * story.policy.probation_seconds)
    assert story.table(ORDERS).covered == story.table(ORDERS).dirty, "no user action was required"


def test_row_of_an_unconfigured_table_ends_no_worker(story: Story) -> None:
    story.store.compare_and_set(TableRow("shop.gone", dirty=1, last_dirty_at=1.0))
    story.knows = frozenset({ORDERS, ITEMS})
    story.sweep(1.0)
    began = story.now
    story.live(20.0)
    assert story.now - began >= 24.9, "it lingered"
    assert story.table("shop.gone").failures == 0
