"""A step reads only the rows of `rows_to_read`, so a store loads no others."""

from __future__ import annotations

import random
from dataclasses import replace

from icemirror.protocol import events as e
from icemirror.protocol.replay import Replay, ReplayProgress
from icemirror.protocol.row_selection import rows_to_read
from icemirror.protocol.rows import Owner, Rows, SlotId, SlotRow, SlotState, TableRow
from icemirror.protocol.step import step
from tests.unit.icemirror.protocol.samples import INVALID, OPTIONS, POLICY, TRANSIENT

SLOTS = [SlotId("default", 0), SlotId("default", 1), SlotId("heavy", 0)]
NAMES = ["a", "b", "c"]


def _random_rows(rng: random.Random) -> Rows:
    tables = {
        name: TableRow(
            name,
            group=rng.choice(["default", "heavy"]),
            dirty=rng.randrange(3),
            owner=rng.choice([None, Owner(rng.choice(SLOTS), rng.randrange(3))]),
            quarantined=rng.random() < 0.2,
            error=rng.choice([None, TRANSIENT, INVALID]),
            paused=rng.random() < 0.1,
            merged_head=rng.choice([None, "h1", "h2"]),
            noticed_head=rng.choice([None, "h1", "h2"]),
            replay=rng.choice([None, Replay("1", 0.0)]),
        )
        for name in NAMES
        if rng.random() < 0.8
    }
    slots = {
        slot: SlotRow(
            slot,
            rng.choice(list(SlotState)),
            gen=rng.randrange(3),
            run_id=rng.choice([None, "r0", "r1"]),
            lease_until=rng.choice([0.0, 100.0]),
            launched_at=rng.choice([0.0, 40.0]),
            wanted=tuple(rng.sample(NAMES, rng.randrange(3))),
        )
        for slot in SLOTS
        if rng.random() < 0.8
    }
    return Rows(tables, slots)


def _random_event(rng: random.Random) -> e.Event:
    now, name, slot = rng.choice([0.0, 50.0]), rng.choice(NAMES), rng.choice(SLOTS)
    gen, run = rng.randrange(3), rng.choice(["r0", "r1"])
    me = e.WorkerId(slot, gen, run)
    events: list[e.Event] = [
        e.Noticed(now, name, OPTIONS, "h2"),
        e.HeadRead(now, name, OPTIONS, "h2"),
        e.HeadReadFailed(now, name, OPTIONS, INVALID),
        e.RecoverTable(now, name, 0.5),
        e.PauseRequested(now, name),
        e.ResumeRequested(now, name),
        e.Dispatch(now, slot.group),
        e.RunRecorded(now, slot, gen, run),
        e.RecoverSlot(now, slot, gen, rng.choice([None, run]), rng.choice(list(e.RunState)), 0.5),
        e.SlotResumeRequested(now, slot),
        e.Started(now, me),
        e.Heartbeat(now, me, rng.random() < 0.5),
        e.Pick(now, me),
        e.Pick(now, me, frozenset(rng.sample(NAMES, 2))),
        e.LingerPoll(now, me, frozenset(rng.sample(NAMES, 1))),
        e.Progressed(now, me, name),
        e.TurnEnded(now, me, name),
        e.ReplayRequested(now, name, OPTIONS, Replay(rng.choice("12"), now)),
        e.ReplayCancelled(now, name, rng.choice("12")),
        e.Progressed(now, me, name, None, rng.choice("12"), ReplayProgress(1)),
        e.Replayed(now, me, name, rng.choice("12")),
        e.Failed(now, me, name, INVALID, 0.5, None, rng.choice("12")),
        e.Completed(now, me, name, 1, 0.0, "h2"),
        e.Failed(now, me, name, TRANSIENT, 0.5),
        e.Declined(now, me, name, 0.5, rng.choice([None, TRANSIENT])),
        e.LingerPoll(now, me),
        e.Leave(now, me),
        e.Rescan(now, me),
    ]
    return rng.choice(events)


def test_step_decides_the_same_with_only_the_rows_it_reads() -> None:
    rng = random.Random()
    seed = rng.randrange(1 << 32)
    rng.seed(seed)
    for _ in range(4000):
        rows, event = _random_rows(rng), _random_event(rng)
        reads = rows_to_read(event)
        partial = Rows(
            {k: v for k, v in rows.tables.items() if reads.tables is None or k in reads.tables},
            {k: v for k, v in rows.slots.items() if reads.slots is None or k in reads.slots},
        )
        assert step(partial, event, POLICY) == step(rows, event, POLICY), (seed, event)


def test_no_step_changes_the_revision_or_the_name_of_a_row() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        rows = _random_rows(rng)
        marked = Rows(
            {k: replace(v, revision="7") for k, v in rows.tables.items()},
            {k: replace(v, revision="7") for k, v in rows.slots.items()},
        )
        changed = step(marked, _random_event(rng), POLICY).row
        if isinstance(changed, TableRow):
            assert changed.revision == ("7" if changed.name in marked.tables else "")
        elif isinstance(changed, SlotRow):
            assert changed.revision == ("7" if changed.id in marked.slots else "")
