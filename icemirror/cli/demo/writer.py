"""The shop's CDC writer: copies the tables once, then keeps flushing changes to their changelogs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from threading import Event

from pyiceberg.catalog import Catalog

from icemirror.cli.demo.changelog import Changelog
from icemirror.cli.demo.events import Events, Shape
from icemirror.cli.demo.ledger import Entry
from icemirror.cli.demo.oracle.journal import Journal
from icemirror.cli.demo.shop import SHOP
from icemirror.cli.demo.traffic import Traffic
from icemirror.cli.demo.workspace import NAMESPACE, Marker

COPY_COMMITS = 4
FLUSH_SECONDS = 2.0


@dataclass
class Lane:
    """One table: its changelog, what happens to it, and what was committed."""

    shape: Shape
    changelog: Changelog
    traffic: Traffic
    copied: int = 0
    ledger: list[Entry] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The table's name, which is also its mirror's."""
        return self.shape.subject.name

    def commit(self, events: Events) -> int:
        """One flush; the number of its events."""
        commit = self.changelog.commit([self.shape.to_arrow(events)])
        self._enter(commit.snapshot_id, time.time(), commit.events)
        return commit.events

    def catch_up(self) -> None:
        """After an earlier run: the story goes on where that one stopped."""
        committed_at = {
            snapshot.snapshot_id: snapshot.timestamp_ms / 1000
            for snapshot in self.changelog.table.snapshots()
        }
        for commit in self.changelog.journal.commits(self.changelog.subject):
            self._enter(commit.snapshot_id, committed_at[commit.snapshot_id], commit.events)
            if self.copied < COPY_COMMITS:
                self.copied += 1
            else:
                self.traffic.next_flush()

    def _enter(self, snapshot_id: int, committed_at: float, events: int) -> None:
        before = self.ledger[-1].events_so_far if self.ledger else 0
        self.ledger.append(Entry(snapshot_id, committed_at, before + events))


def open_lanes(catalog: Catalog, journal: Journal, marker: Marker) -> list[Lane]:
    """The tables of the shop, each where an earlier run left it."""
    lanes = []
    for number, shape in enumerate(SHOP):
        identifier = (NAMESPACE, f"{shape.subject.name}_changelog")
        changelog = Changelog.open(catalog, identifier, shape.subject, shape.schema, journal)
        traffic = Traffic(marker.seed * len(SHOP) + number, marker.rows, max(100, marker.rows // 25))
        lane = Lane(shape, changelog, traffic)
        lane.catch_up()
        lanes.append(lane)
    return lanes


def copy_tables(lanes: list[Lane], on_commit: Callable[[Lane, int], None]) -> None:
    """The initial copies, as far as they are not made yet."""
    for lane in lanes:
        for part in lane.traffic.initial_copy(COPY_COMMITS)[lane.copied :]:
            on_commit(lane, lane.commit(part))
            lane.copied += 1


def stream_changes(lanes: list[Lane], stop: Event) -> None:
    """Flushes the tables in turn until told to stop. What a flush holds is settled by its number alone."""
    began = time.monotonic()
    for due, lane in flush_times(lanes):
        if stop.wait(max(0.0, began + due - time.monotonic())):
            return
        lane.commit(lane.traffic.next_flush())


def flush_times(lanes: list[Lane]) -> Iterator[tuple[float, Lane]]:
    """When to flush which table, in seconds from the beginning."""
    apart = FLUSH_SECONDS / len(lanes)
    return ((number * apart, lanes[number % len(lanes)]) for number in count())
