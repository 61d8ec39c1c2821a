"""The world of one seed: a changelog, a mirror, merges, faults and foreign writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetSnapshotRefUpdate

from icemirror.errors import CommitUnknown, Invalid, Transient
from icemirror.step_results import NothingToMerge
from spark_job.engine.engine import InProcessEngine, LazyEngine
from tests.sim.crash_points import COMPACTION_POINTS
from tests.sim.engine import snapshots
from tests.sim.engine.damage import damage
from tests.sim.engine.foreign_writer import ForeignWriter
from tests.sim.engine.journal import Journal
from tests.sim.engine.judge import CURSOR, Commit, Judge
from tests.sim.engine.memory_catalog import Fault, MemoryCatalog, OneCatalog
from tests.sim.engine.memory_io import Died, MemoryIO
from tests.sim.engine.outcome import Outcome
from tests.sim.engine.planted import PlantedDefect
from tests.sim.engine.process import MERGE_POINTS, CrashPoints, patched_product, restart
from tests.sim.engine.reader import Divergence
from tests.sim.engine.setting import Setting
from tests.sim.engine.strict import RecordedSkips, StrictPipeline

CHANGELOG, MIRROR = ("lab", "world_changelog"), ("lab", "world")
STEPS = 60


class World:
    """`run` executes all steps, or raises the violated invariant."""

    def __init__(self, seed: int, defect: PlantedDefect | None = None) -> None:
        self.seed = seed
        self.defect = defect or PlantedDefect(())
        self.dice = random.Random(seed)
        self.setting = Setting.of_seed(seed, self.dice)
        self.trace = [repr(self.setting)]
        self.points = CrashPoints()
        self.io = MemoryIO()
        self.catalog = MemoryCatalog(self.io, self._observe)
        self.journal = Journal()
        self.judge = Judge(self.io, self.setting, self.journal)
        self._ids = count(1_000_000)
        self._unjudged: list[Commit] = []
        self._deaths: list[str] = []
        self._depth = 0
        self._leaky = False  # after a crash or an unknown outcome, files may stay unreferenced
        self._forgetful = False  # snapshots expired during a merge: it may not learn its outcome

    def run(self, steps: int = STEPS) -> Outcome:
        """Run up to `steps` steps, then merge without faults."""
        snapshots.clear_caches()
        with patched_product(self.setting, self.points, self.seed), self.defect.planted():
            settings = self.setting.settings
            catalogs = OneCatalog(settings)
            catalogs._open[None] = self.catalog
            engine = LazyEngine(lambda: InProcessEngine(self.setting.shards))
            self.pipeline = StrictPipeline(
                settings, catalogs, engine, skipped_files=RecordedSkips(), damaged=self.judge.damaged
            )
            self._create_changelog()
            for _ in range(self.dice.choice([steps // 3, steps, steps])):
                self.step()
            self._end()
        return Outcome(self.judge.checked, self.trace, self._deaths)

    def _create_changelog(self) -> None:
        table = self.catalog.create_table(CHANGELOG, self.setting.schema, properties={"format-version": "2"})
        self.judge.follow(str(table.metadata.table_uuid), self.journal)

    def step(self) -> None:
        """Execute one random action."""
        self._judge()
        actions: list[tuple[Callable[[], str | None], int]] = [
            (self._append, 30),
            (self._merge, 26),
            (self._disturbed_merge, 16),
            (self._write_foreign, 10),
            (self._damage, 4),
            (self._expire_mirror, 3),
            (self._expire_changelog, 3),
            (self._compact_changelog, 2),
            (self._roll_back, 2),
            (self._continue_elsewhere, 1),
            (self._restart, 3),
            (self._apply_delayed, 2),
            (self._upgrade, 1),
        ]
        action = self.dice.choices([choice for choice, _ in actions], [weight for _, weight in actions])[0]
        index = len(self.trace)
        self.trace.append(action.__name__)
        entry = action()
        self.trace[index] = f"{'  ' * self._depth}{entry or action.__name__ + ': nothing to do'}"
        self._judge()

    @property
    def changelog(self) -> Table:
        return self.catalog.load_table(CHANGELOG)

    @property
    def mirror(self) -> Table | None:
        return self.catalog.load_table(MIRROR) if MIRROR in self.catalog.tables else None

    def _observe(self, before: TableMetadata, after: TableMetadata) -> None:
        if after.location.endswith("/world"):
            rebuilt = "segments-rebuilt" in self.points.passed
            self._unjudged.append(Commit(before, after, rebuilt, self.catalog.applying_delayed))

    def _judge(self) -> None:
        while self._unjudged:
            self.judge.judge(self._unjudged.pop(0))

    def _append(self) -> str:
        return self.journal.append(self.changelog, self.setting, self.dice)

    def _merge(self) -> str:
        appended = self._ensure_waiting_events()
        self.points.expect_nothing()
        return self._advance(f"{appended}merge")

    def _ensure_waiting_events(self) -> str:
        """Commit to the changelog, usually, if there is nothing to merge."""
        table = self.mirror
        ours = snapshots.merge_snapshots(table.metadata)[:1] if table else []
        behind = self.judge.is_behind(self.judge.states[ours[0]]) if ours else bool(self.journal.files)
        return "" if behind or self.dice.random() < 0.1 else f"{self._append()}; "

    def _advance(self, what: str) -> str:
        slices, faulty = 0, self.catalog.fault is not None
        self._forgetful = self._forgetful and self._depth > 0
        try:
            for _ in range(self.dice.choice([1, 2, 50])):
                if self._is_up_to_date():
                    break
                slices += 1
                self.points.passed = []
        except Died:
            self.io.dead = False
            self._leaky = True
            restart()
            return f"{what}: {slices} slices, then died at {self.points.passed[-1]}"
        except (CommitUnknown, Transient) as error:
            outcome_unknown = isinstance(error, CommitUnknown) and self._forgetful and not self._depth
            if not faulty and not outcome_unknown:
                raise
            self._leaky = True
            return f"{what}: {slices} slices, then {error}"
        # A compaction with an unknown outcome raises nothing.
        self._leaky |= bool(self.setting.data_fan_in) and (faulty or self._forgetful)
        return f"{what}: {slices} slices"

    def _is_up_to_date(self) -> bool:
        """Do one step of a merge; return whether nothing is left. A stale read knows fewer files."""
        if not self._depth:
            self.judge.known = 0 if self.catalog.fault is Fault.STALE else len(self.journal.files)
        self.last = self.pipeline.advance(self.pipeline.settings.tables[0])
        self._judge()
        return isinstance(self.last, NothingToMerge)

    @property
    def crash_points(self) -> tuple[str, ...]:
        """The crash points at which a merge may be stopped."""
        return (*MERGE_POINTS, *COMPACTION_POINTS) if self.setting.data_fan_in else MERGE_POINTS

    def _disturbed_merge(self) -> str | None:
        kind = "interlude" if self.setting.calm else self.dice.choice(["die", "fault", "interlude"])
        appended = self._ensure_waiting_events()
        point, occurrence = self.dice.choice(self.crash_points), self.dice.choice([1, 1, 2])
        match kind:
            case "die":
                self.points.expect(point, occurrence, self._die)
                return self._advance(f"{appended}merge to die at {point} {occurrence}")
            case "fault":
                self.points.expect_nothing()
                fault = self.dice.choice(list(Fault))
                self.catalog.fault = fault
                entry = self._advance(f"{appended}merge whose commit is {fault}")
                self.catalog.fault = None
                return entry
            case _:
                if self._depth:
                    return None
                self.points.expect(point, occurrence, self._interlude)
                return self._advance(f"{appended}merge with an interlude at {point} {occurrence}")

    def _die(self, name: str) -> None:
        self._deaths.append(name)
        self.io.dead = True
        raise Died(name)

    def _interlude(self, name: str) -> None:
        """Execute other steps while this merge is paused."""
        passed, fault = self.points.passed, self.catalog.fault
        self.trace.append(f"  at {name}:")
        began = len(self.trace)
        self._depth += 1
        for _ in range(self.dice.randint(1, 4)):
            self.step()
        self._depth -= 1
        text = "\n".join(self.trace[began:])
        # With a shortened log of the main branch, a merge cannot know which commit was first.
        self._leaky |= "expire" in text and "roll the mirror back" in text
        self.points.expect_nothing()
        self.points.passed, self.catalog.fault = passed, fault

    def _write_foreign(self) -> str | None:
        table = self.mirror
        head = table.current_snapshot() if table else None
        if table is None or head is None:
            return None
        writer = ForeignWriter(table, self.judge.reader.read(head), self.setting, self.dice)
        entry, snapshot_id = writer.write(), next(self._ids)
        self.judge.foreign[snapshot_id] = self.judge.before(head).after_foreign_write(writer.rows)
        writer.commit(snapshot_id)
        return entry

    def _damage(self) -> str | None:
        table = self.mirror
        head = table.current_snapshot() if table else None
        # After an index rebuild orders may differ, so unchanged values cannot be predicted.
        if head is None or self.setting.calm or self.setting.partial:
            return None
        undamaged = self.io.files.keys() - self.judge.damaged
        files = sorted(path for path in undamaged if path.endswith((".segment.puffin", ".root.puffin")))
        if not files:
            return None
        self._leaky = True
        now = [path for path in files if path in self.judge.index]
        path = self.dice.choice(now if now and self.dice.random() < 0.8 else files)
        how = damage(self.io, path, self.dice)
        self.judge.damaged.add(path)
        if self.dice.random() < 0.7:
            restart()
        return f"{path.rsplit('/', 1)[-1]} is {how}"

    def _expire_mirror(self) -> str | None:
        table = self.mirror
        head = table.current_snapshot() if table else None
        if table is None or head is None:
            return None
        ours = snapshots.merge_snapshots(table.metadata)
        anchored = str(ours[0]) in table.metadata.properties[CURSOR] if ours else False
        order = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
        until = ours[0] if ours and (anchored or self._depth) else head.snapshot_id
        last = order.index(until) + (1 if anchored else 0) if ours else 0
        read = self.judge.reader.read
        referenced = {snapshot.snapshot_id: read(snapshot).paths for snapshot in table.metadata.snapshots}
        expired = [snapshot_id for snapshot_id in order[:last] if snapshot_id != head.snapshot_id]
        entry = self._expire(table, expired, "mirror")
        if entry and not anchored and not snapshots.merge_snapshots(self.catalog.load_table(MIRROR).metadata):
            return self._merge_without_cursor(table.metadata, entry)
        self._forgetful |= entry is not None
        if entry is None or self._depth or self.catalog.delayed or self.dice.random() < 0.4:
            return entry
        left = {snapshot.snapshot_id for snapshot in self.catalog.load_table(MIRROR).metadata.snapshots}
        kept = set().union(*(paths for snapshot_id, paths in referenced.items() if snapshot_id in left))
        all_expired = (paths for snapshot_id, paths in referenced.items() if snapshot_id not in left)
        unreferenced = set().union(*all_expired) - kept
        for path in unreferenced:
            del self.io.files[path]
        return f"{entry}, and {len(unreferenced)} files"

    def _merge_without_cursor(self, before: TableMetadata, entry: str) -> str:
        """Merge a history without a cursor: it is refused, unless its rows are those of the last merge."""
        self.points.expect_nothing()
        try:
            return self._advance(f"{entry}, merge")
        except Invalid as error:
            if "none of its ancestors is" not in str(error):
                raise
            self.catalog.put(MIRROR, before)
            return f"{entry}: refused, and restored"

    def _expire_changelog(self) -> str | None:
        """Expire snapshots up to the cursor, or any before the first merge."""
        table = self.changelog
        head = table.current_snapshot()
        if head is None or self._depth:
            return None
        order = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
        if self.mirror is None or self.mirror.current_snapshot() is None:
            if self.journal.rewritten or self.catalog.delayed:
                return None
            return self._expire(table, order[:-1], "changelog")
        cursors = list(snapshots.cursors(self.mirror).values())
        if not cursors or any(source.snapshot_id not in order for source in cursors):
            return None
        oldest = min(order.index(source.snapshot_id) for source in cursors)
        whole = all(source.files_done is None for source in cursors if source.snapshot_id == order[oldest])
        appended = {self.journal.snapshot_ids[file.commit] for file in self.journal.files}
        if whole and order[oldest] in appended and order[oldest] != head.snapshot_id:
            oldest += 1  # its events are merged
        return self._expire(table, order[:oldest], "changelog")

    def _expire(self, table: Table, ids: list[int], what: str) -> str | None:
        ids = ids[: self.dice.randint(0, len(ids))]
        if not ids:
            return None
        if what == "changelog":
            self.journal.rewritten = True
        if self.dice.random() < 0.5:
            self._remove(table, ids)
            return f"expire {len(ids)} snapshots of the {what} like PyIceberg"
        self.catalog.put(table.name(), snapshots.without(table.metadata, ids))
        return f"expire {len(ids)} snapshots of the {what} like Java"

    def _remove(self, table: Table, ids: list[int]) -> None:
        self.catalog.commit_table(table, (), (RemoveSnapshotsUpdate(snapshot_ids=ids),))  # type: ignore[call-arg]

    def _compact_changelog(self) -> str | None:
        idle = self.changelog.current_snapshot() is None or self._depth > 0
        return None if idle else self.journal.compact(self.changelog, self.setting)

    def _roll_back(self) -> str | None:
        table = self.mirror
        if table is None or table.current_snapshot() is None:
            return None
        known, cursors = self._can_be_rolled_back_to(), snapshots.cursors(table)
        ours = [
            snapshot_id
            for snapshot_id, source in cursors.items()
            if known is None or source.snapshot_id in known
        ]
        if not ours:
            return None
        chosen = self.dice.choice(ours[-4:])
        to_main = {"ref-name": "main", "snapshot-id": chosen, "type": "branch"}
        self.catalog.commit_table(table, (), (SetSnapshotRefUpdate.model_validate(to_main),))
        return f"roll the mirror back to {chosen}"

    def _can_be_rolled_back_to(self) -> set[int] | None:
        """Return the changelog snapshots that a cursor to roll back to may have; None: any."""
        return {snapshot.snapshot_id for snapshot in self.changelog.metadata.snapshots}

    def _continue_elsewhere(self) -> str | None:
        """Roll the mirror back, write to it as another engine, and expire all before."""
        rolled = None if self._depth or self.catalog.delayed else self._roll_back()
        entry = self._write_foreign() if rolled else None
        table = self.mirror
        if (
            entry is None
            or table is None
            or str(snapshots.merge_snapshots(table.metadata)[0]) in table.metadata.properties[CURSOR]
        ):
            return rolled
        self._remove(table, [snapshot.snapshot_id for snapshot in table.metadata.snapshots[:-1]])
        return self._merge_without_cursor(table.metadata, f"{rolled}, {entry}, expire all before")

    def _restart(self) -> str:
        restart()
        return "restart"

    def _apply_delayed(self) -> str | None:
        return f"{self.catalog.apply_delayed()} delayed commits are applied" if self.catalog.delayed else None

    def _upgrade(self) -> str | None:
        table = self.mirror
        if table is None or table.metadata.format_version != 2 or table.current_snapshot() is None:
            return None
        self.catalog.put(MIRROR, snapshots.upgraded(table.metadata))
        self._leaky |= self._depth > 0  # the merge that fails sees no competing commit
        return "the mirror is upgraded to version 3"

    def _end(self) -> None:
        """Apply delayed commits, then merge the rest without faults."""
        self.trace.append("the end")
        with suppress(CommitFailedException):
            self.catalog.apply_delayed()
        self._judge()
        if self.dice.random() < 0.5:
            restart()
        self.points.expect_nothing()
        for _ in range(1000):
            if self._is_up_to_date():
                break
            self.points.passed = []
        table = self.mirror
        if table is None or table.current_snapshot() is None:
            if self.journal.files:
                raise Divergence("there is no mirror at the end")
            return
        merges = snapshots.merge_snapshots(table.metadata)
        if merges and self.judge.is_behind(last := self.judge.states[merges[0]]):
            raise Divergence(f"{last.merged} of {len(self.journal.files)} files are merged at the end")
        for snapshot in table.metadata.snapshots:
            self.judge.reader.read(snapshot)
        self._check_no_files_left()

    def _check_no_files_left(self) -> None:
        left = {path for path in self.io.files if "/world_changelog/" not in path} - self.judge.referenced
        if left and not self._leaky:
            raise Divergence(f"unreferenced files: {sorted(left)}")
