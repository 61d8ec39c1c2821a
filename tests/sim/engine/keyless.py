"""Worlds of a table without a key: what was told is there, as often as it was told, at every snapshot."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from pyiceberg.table.snapshots import Snapshot

from spark_job.iceberg.v3_fields import delete_key
from spark_job.key_index.root import read_root
from tests.sim.engine import snapshots
from tests.sim.engine.bugs import Bug
from tests.sim.engine.journal import Event, File, Journal, Row
from tests.sim.engine.judge import BY_POLICY, CURSOR, EPOCH, LIVE_ROWS, REPLAY, ROOT, Commit, Judge
from tests.sim.engine.oracle import State
from tests.sim.engine.reader import Contents, Divergence
from tests.sim.engine.resyncs import ResyncedWorld
from tests.sim.engine.setting import Key, Setting

Bag = Counter[tuple[Key, Row | None]]


class Inserts(Journal):
    """Every event adds a row; the same one may be told again, and is then another row."""

    def _events(self, setting: Setting, dice: random.Random) -> list[Event]:
        return [replace(event, operation="I") for event in super()._events(setting, dice)]

    def _tie(self, files: list[list[Event]], dice: random.Random) -> None:
        """Nothing decides between rows."""


@dataclass(frozen=True)
class BagState(State):
    """One snapshot: how often each row is there."""

    bag: Bag = field(default_factory=Counter)


class KeylessJudge(Judge):
    """Holds every snapshot against what was told."""

    def look(self, commit: Commit) -> None:
        """A commit was made on the mirror: its head is judged, once."""
        head, before = commit.after.current_snapshot(), commit.before.current_snapshot()
        if head is None or head.snapshot_id in self.states:
            return
        if head.parent_snapshot_id != (before.snapshot_id if before else None):
            raise Divergence(f"snapshot {head.snapshot_id} was committed on a head that it did not know")
        contents = self.reader.read(head)
        self.referenced |= contents.paths
        self._no_path_twice(head)
        theirs = self.by_others.get(head.snapshot_id)
        state = theirs if theirs is not None else self._judge_merge(commit, head, contents)
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
            raise Divergence(f"nobody made snapshot {head.snapshot_id}")
        summary = head.summary.additional_properties
        parent = self.before(commit.before.current_snapshot())
        uuid, position, merged = self._position(summary[CURSOR], sure=not commit.late)
        files = self._journals[uuid].files if uuid else []
        if summary.get(REPLAY, "").startswith(BY_POLICY):
            bag = _told(files[:merged])
        elif parent.uuid not in ("", uuid) or merged < parent.merged or not isinstance(parent, BagState):
            raise Divergence(f"merged from {uuid} up to {merged}, on {parent.uuid} up to {parent.merged}")
        else:
            bag = parent.bag + _told(files[parent.merged : merged])
        if int(summary[LIVE_ROWS]) != len(contents.rows):
            raise Divergence(
                f"{summary[LIVE_ROWS]} live rows in the summary, {len(contents.rows)} in the table"
            )
        if not commit.late and int(summary[EPOCH]) <= self.epoch:
            raise Divergence(f"epoch {summary[EPOCH]} after {self.epoch}")
        self.epoch = max(self.epoch, int(summary[EPOCH]))
        root = read_root(self.io, summary[ROOT])
        self.index = {summary[ROOT]}
        self.referenced |= self.index
        if root.segments or root.live_rows != len(contents.rows) or root.snapshot_id != head.snapshot_id:
            raise Divergence(f"the root of snapshot {head.snapshot_id} is {root}")
        return BagState(merged=merged, position=position, uuid=uuid, bag=bag)


def _told(files: list[File]) -> Bag:
    return Counter((event.key, event.row) for file in files for event in file.events)


class KeylessWorld(ResyncedWorld):
    """Another writer only takes data files out: rows have no key to be changed by."""

    def __init__(self, seed: int, bug: Bug | None = None) -> None:
        super().__init__(seed, bug)
        self.setting = replace(self.setting, keyless=True, soft=False)
        self.story = [repr(self.setting)]
        self.journal = Inserts()
        self.judge = KeylessJudge(self.io, self.setting, self.journal)

    def _write_by_others(self) -> str | None:
        table = self.mirror
        head = table.current_snapshot() if table else None
        if table is None or head is None:
            return None
        before, contents = self.judge.before(head), self.judge.reader.read(head)
        if not contents.data or not isinstance(before, BagState):
            return None
        path = self.dice.choice(sorted(contents.data))
        lost: Bag = Counter(row for (file, _), row in contents.rows.items() if file == path)
        gone = {delete_key(one) for one in contents.deletes} | {delete_key(contents.data[path])}
        snapshot_id = next(self._ids)
        self.judge.by_others[snapshot_id] = replace(before, bag=before.bag - lost)
        snapshots.commit(table, "delete", gone=gone, first_id=snapshot_id)
        return f"another writer takes out {path.rsplit('/', 1)[-1]}"
