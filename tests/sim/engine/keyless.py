"""Worlds with a table without a key: at every snapshot each row occurs as often as in the changelog."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from pyiceberg.table.snapshots import Snapshot

from spark_job.index.root import read_root
from spark_job.pyiceberg_private.v3_fields import delete_key
from tests.sim.engine import snapshots
from tests.sim.engine.journal import Event, File, Journal, Row
from tests.sim.engine.judge import CURSOR, EPOCH, LIVE_ROWS, REPLAY, RESYNC_PREFIX, ROOT, Commit, Judge
from tests.sim.engine.oracle import State
from tests.sim.engine.planted import PlantedDefect
from tests.sim.engine.reader import Contents, Divergence
from tests.sim.engine.resyncs import ResyncedWorld
from tests.sim.engine.setting import Key, Setting

Bag = Counter[tuple[Key, Row | None]]


class Inserts(Journal):
    """Every event inserts a row; a duplicate event inserts another one."""

    def _events(self, setting: Setting, dice: random.Random) -> list[Event]:
        return [replace(event, operation="I") for event in super()._events(setting, dice)]

    def _tie(self, files: list[list[Event]], dice: random.Random) -> None:
        """Rows without a key have no ties."""


@dataclass(frozen=True)
class BagState(State):
    """One snapshot: how often each row occurs."""

    bag: Bag = field(default_factory=Counter)


class KeylessJudge(Judge):
    """Compares every snapshot with the events."""

    def judge(self, commit: Commit) -> None:
        """Judge the head after a commit on the mirror, once."""
        head, before = commit.after.current_snapshot(), commit.before.current_snapshot()
        if head is None or head.snapshot_id in self.states:
            return
        if head.parent_snapshot_id != (before.snapshot_id if before else None):
            raise Divergence(f"snapshot {head.snapshot_id} was committed on an unknown head")
        contents = self.reader.read(head)
        self.referenced |= contents.paths
        self._require_new_paths(head)
        foreign = self.foreign.get(head.snapshot_id)
        state = foreign if foreign is not None else self._judge_merge(commit, head, contents)
        bag: Bag = Counter(contents.rows.values())
        if not isinstance(state, BagState) or bag != state.bag:
            raise Divergence(f"snapshot {head.snapshot_id}: {bag}, not {state}")
        self.states[head.snapshot_id] = state
        self._parents[head.snapshot_id] = head.parent_snapshot_id
        self.checked += 1

    def before(self, head: Snapshot | None) -> State:
        return self.states[head.snapshot_id] if head else BagState()

    def _judge_merge(self, commit: Commit, head: Snapshot, contents: Contents) -> State:
        if head.summary is None or CURSOR not in head.summary.additional_properties:
            raise Divergence(f"snapshot {head.snapshot_id} is not a merge")
        summary = head.summary.additional_properties
        parent = self.before(commit.before.current_snapshot())
        uuid, position, merged = self._position(summary[CURSOR], strict=not commit.delayed)
        files = self._journals[uuid].files if uuid else []
        if summary.get(REPLAY, "").startswith(RESYNC_PREFIX):
            bag = _inserted(files[:merged])
        elif parent.uuid not in ("", uuid) or merged < parent.merged or not isinstance(parent, BagState):
            raise Divergence(f"merged from {uuid} up to {merged}, on {parent.uuid} up to {parent.merged}")
        else:
            bag = parent.bag + _inserted(files[parent.merged : merged])
        if int(summary[LIVE_ROWS]) != len(contents.rows):
            raise Divergence(
                f"{summary[LIVE_ROWS]} live rows in the summary, {len(contents.rows)} in the table"
            )
        if not commit.delayed and int(summary[EPOCH]) <= self.epoch:
            raise Divergence(f"epoch {summary[EPOCH]} after {self.epoch}")
        self.epoch = max(self.epoch, int(summary[EPOCH]))
        root = read_root(self.io, summary[ROOT])
        self.index = {summary[ROOT]}
        self.referenced |= self.index
        if root.segments or root.live_rows != len(contents.rows) or root.snapshot_id != head.snapshot_id:
            raise Divergence(f"the root of snapshot {head.snapshot_id} is {root}")
        return BagState(merged=merged, position=position, uuid=uuid, bag=bag)


def _inserted(files: list[File]) -> Bag:
    return Counter((event.key, event.row) for file in files for event in file.events)


class KeylessWorld(ResyncedWorld):
    """Another writer only removes data files: rows have no key to update by."""

    def __init__(self, seed: int, defect: PlantedDefect | None = None) -> None:
        super().__init__(seed, defect)
        self.setting = replace(self.setting, keyless=True, soft=False)
        self.trace = [repr(self.setting)]
        self.journal = Inserts()
        self.judge = KeylessJudge(self.io, self.setting, self.journal)

    def _write_foreign(self) -> str | None:
        table = self.mirror
        head = table.current_snapshot() if table else None
        if table is None or head is None:
            return None
        before, contents = self.judge.before(head), self.judge.reader.read(head)
        if not contents.data or not isinstance(before, BagState):
            return None
        path = self.dice.choice(sorted(contents.data))
        removed_rows: Bag = Counter(row for (file, _), row in contents.rows.items() if file == path)
        removed = {delete_key(file) for file in contents.deletes} | {delete_key(contents.data[path])}
        snapshot_id = next(self._ids)
        self.judge.foreign[snapshot_id] = replace(before, bag=before.bag - removed_rows)
        snapshots.commit(table, "delete", removed=removed, first_id=snapshot_id)
        return f"another writer removes {path.rsplit('/', 1)[-1]}"
