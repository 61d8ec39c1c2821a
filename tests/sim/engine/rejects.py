"""Worlds whose changelog has bad rows, drawn from a separate random stream, and what must hold for the rejects table.

The rejects table has every bad row of the merged files once, and nothing else: through crashes, lost responses,
delayed commits, concurrent merges and replays. Another writer may compact the table meanwhile.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Record

from spark_job.pyiceberg_private.v3_fields import delete_key
from tests.sim.crash_points import REJECT_POINTS
from tests.sim.engine import snapshots
from tests.sim.engine.journal import Event, File, Journal
from tests.sim.engine.judge import FULL, REPLAY
from tests.sim.engine.memory_io import MemoryIO
from tests.sim.engine.planted import PlantedDefect
from tests.sim.engine.reader import Divergence, RowLocation
from tests.sim.engine.replays import ReplayedWorld
from tests.sim.engine.setting import Setting
from tests.sim.engine.world import World

REJECTS, REJECTED = ("lab", "world_rejects"), "icemirror.rejected"
KINDS = ("null-key", "null-operation", "unknown-operation", "null-sequence", "unreadable-sequence")


@dataclass
class JournalWithBadRows(Journal):
    """A journal with bad rows."""

    reject_dice: random.Random = field(default_factory=random.Random)

    def _events(self, setting: Setting, dice: random.Random) -> list[Event]:
        events = super()._events(setting, dice)
        return [self._make_bad(event) if self.reject_dice.random() < 0.25 else event for event in events]

    def _make_bad(self, event: Event) -> Event:
        return replace(event, bad=self.reject_dice.choice(KINDS))


@dataclass
class RejectsJudge:
    """Compares every snapshot of the rejects table, and every merge, with the journal."""

    io: MemoryIO
    journal: Journal
    locations: Counter[RowLocation] = field(default_factory=Counter)
    referenced: set[str] = field(default_factory=set)

    def judge(self, metadata: TableMetadata) -> None:
        """Judge a new head: every row is bad, equals the changelog's, and occurs once."""
        self.locations = Counter()
        files = {file.path: file for file in (*self.journal.files, *self.journal.compacted)}
        for row in self._read(metadata):
            location = row["icemirror_file"], row["icemirror_position"]
            self.locations[location] += 1
            event = files[location[0]].events[location[1]] if location[0] in files else None
            if event is None or not event.bad:
                raise Divergence(f"{location} was rejected, but can be merged")
            found = row["icemirror_reason"], row["v"], row["c"], repr(row["x"])
            if found != (event.bad, event.v, event.c, repr(event.x)):
                raise Divergence(f"{location} was rejected as {found}, but is {event}")
        twice = [location for location, count in self.locations.items() if count > 1]
        if twice:
            raise Divergence(f"rejected twice: {twice}")

    def require(self, merged: int) -> None:
        """Check that the bad rows of the merged files are recorded."""
        if missing := self.bad(self.journal.files[:merged]) - self.locations.keys():
            raise Divergence(f"merged past bad rows that were not rejected: {sorted(missing)}")

    @staticmethod
    def bad(files: list[File]) -> set[RowLocation]:
        """Return file and position of the bad rows."""
        return {(file.path, at) for file in files for at, event in enumerate(file.events) if event.bad}

    def _read(self, metadata: TableMetadata) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        head = metadata.current_snapshot()
        for manifest in snapshots.manifests_of(self.io, head):
            self.referenced.add(manifest.manifest_path)
            for entry in snapshots.entries_of(self.io, manifest):
                path = entry.data_file.file_path
                self.referenced.add(path)
                rows += read_file(self.io, path).to_pylist()
        if head is not None:
            self.referenced.add(head.manifest_list)
        return rows


def read_file(io: MemoryIO, path: str) -> pa.Table:
    """Read a data file."""
    try:
        return pq.ParquetFile(pa.BufferReader(io.read(path))).read()
    except FileNotFoundError as error:
        raise Divergence(f"{path} is missing, although the rejects table references it") from error


class RejectsWorld(World):
    """A world whose changelog has bad rows, which are rejected."""

    def __init__(self, seed: int, defect: PlantedDefect | None = None) -> None:
        super().__init__(seed, defect)
        self.setting = self.setting.with_rejects()
        self.trace[0] = repr(self.setting)
        self.reject_dice = random.Random(seed ^ 0xBAD)
        self.journal = JournalWithBadRows(reject_dice=self.reject_dice)
        self.judge.setting, self.judge.journal = self.setting, self.journal
        self.rejects = RejectsJudge(self.io, self.journal)
        self._found: list[Divergence] = []

    @property
    def crash_points(self) -> tuple[str, ...]:
        return (*super().crash_points, *REJECT_POINTS, *REJECT_POINTS)

    def step(self) -> None:
        if self.reject_dice.random() < 0.05 and (entry := self._compact_rejects()):
            self.trace.append(f"{'  ' * self._depth}{entry}")
        super().step()

    def _observe(self, before: TableMetadata, after: TableMetadata) -> None:
        super()._observe(before, after)
        try:
            if after.location.endswith("/world_rejects"):
                self.rejects.judge(after)
            elif after.location.endswith("/world"):
                self._require(before, after)
        except Divergence as error:  # raised later: the commit would treat it as a lost response
            self._found.append(error)

    def _judge(self) -> None:
        for error in self._found:
            raise error
        super()._judge()

    def _require(self, before: TableMetadata, after: TableMetadata) -> None:
        """Check at once: when the mirror is judged, more rows may have been rejected."""
        head = after.current_snapshot()
        source = snapshots.cursors_of(after).get(head.snapshot_id) if head else None
        if head is None or source is None or head.summary is None or before.snapshot_by_id(head.snapshot_id):
            return
        merged = self.journal.merged(source)
        summary = head.summary.additional_properties
        if summary.get(REPLAY, "").startswith(FULL) and self.journal.rewritten:
            return  # the rebuild read other files
        self.rejects.require(merged)
        if REPLAY in summary or REJECTED not in summary:
            return
        ours = snapshots.merge_snapshots(before)[:1]
        if not ours and before.current_snapshot() is not None:
            return  # unknown how much was merged
        first = self.journal.merged(snapshots.cursors_of(before)[ours[0]]) if ours else 0
        expected = len(self.rejects.bad(self.journal.files[first:merged]))
        if int(summary[REJECTED]) != expected:
            raise Divergence(f"{summary[REJECTED]} rejected rows in the summary, not {expected}")

    def _compact_rejects(self) -> str | None:
        """Let another writer compact the table into one file."""
        table = self.catalog.load_table(REJECTS) if REJECTS in self.catalog.tables else None
        head = table.current_snapshot() if table else None
        if table is None or head is None or self.io.dead:
            return None
        old = {
            delete_key(entry.data_file)
            for manifest in snapshots.manifests_of(self.io, head)
            for entry in snapshots.entries_of(self.io, manifest)
        }
        rows = pa.concat_tables([read_file(self.io, path) for path, _ in sorted(old)])
        return self._commit_compacted(table, rows, old)

    def _commit_compacted(self, table: Table, rows: pa.Table, old: set[tuple[str, int | None]]) -> str | None:
        data = snapshots.write_parquet(table, rows, Record())
        try:
            snapshots.commit(table, "replace", [data], removed=old)
        except CommitFailedException:
            return None
        return "the rejects table is compacted"

    def _end(self) -> None:
        super()._end()
        if self.mirror is not None:
            self.rejects.require(len(self.journal.files))

    def _check_no_files_left(self) -> None:
        self.judge.referenced |= self.rejects.referenced
        super()._check_no_files_left()


class ReplayedRejectsWorld(RejectsWorld, ReplayedWorld):
    """A world with bad rows, replays and rebuilds."""
