"""The world of one seed: a changelog, a mirror, the merge, and everything that may happen to them."""

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
from icemirror.result import NothingToMerge
from spark_job.engine.engine import InProcessEngine, LazyEngine
from tests.sim.engine import snapshots
from tests.sim.engine.damage import damage
from tests.sim.engine.journal import Journal
from tests.sim.engine.judge import CURSOR, Commit, Judge
from tests.sim.engine.memory_catalog import Fault, MemoryCatalog, OneCatalog
from tests.sim.engine.memory_io import Died, MemoryIO
from tests.sim.engine.others import Other
from tests.sim.engine.outcome import Outcome
from tests.sim.engine.planted import PlantedMistake
from tests.sim.engine.process import COMPACTION_NAMES, NAMES, Points, restart, stage
from tests.sim.engine.reader import Divergence
from tests.sim.engine.setting import Setting
from tests.sim.engine.strict import RecordedSkips, Strict

CHANGELOG, MIRROR = ("lab", "world_changelog"), ("lab", "world")
STEPS = 60


class World:
    """`run` plays the whole story, or raises the invariant that is violated."""

    def __init__(self, seed: int, mistake: PlantedMistake | None = None) -> None:
        self.seed = seed
        self.mistake = mistake or PlantedMistake(())
        self.dice = random.Random(seed)
        self.setting = Setting.of_seed(seed, self.dice)
        self.story = [repr(self.setting)]
        self.points = Points()
        self.io = MemoryIO()
        self.catalog = MemoryCatalog(self.io, self._observe)
        self.journal = Journal()
        self.judge = Judge(self.io, self.setting, self.journal)
        self._ids = count(1_000_000)
        self._unjudged: list[Commit] = []
        self._deaths: list[str] = []
        self._depth = 0
        self._leaky = False  # after a crash or an unknown outcome files may be left behind
        self._forgetful = False  # snapshots expired during a merge: it may not learn its outcome

    def run(self, steps: int = STEPS) -> Outcome:
        """Run up to `steps` steps, then merge without faults."""
        snapshots.forget()
        with stage(self.setting, self.points, self.seed), self.mistake.planted():
            settings = self.setting.settings
            catalogs = OneCatalog(settings)
            catalogs._open[None] = self.catalog
            engine = LazyEngine(lambda: InProcessEngine(self.setting.shards))
            self.pipeline = Strict(
                settings, catalogs, engine, skipped_files=RecordedSkips(), damaged=self.judge.damaged
            )
            self._create_changelog()
            for _ in range(self.dice.choice([steps // 3, steps, steps])):
                self.step()
            self._end()
        return Outcome(self.judge.checked, self.story, self._deaths)

    def _create_changelog(self) -> None:
        made = self.catalog.create_table(CHANGELOG, self.setting.schema, properties={"format-version": "2"})
        self.judge.follow(str(made.metadata.table_uuid), self.journal)

    def step(self) -> None:
        """Do one random thing."""
        self._judge()
        doings: list[tuple[Callable[[], str | None], int]] = [
            (self._append, 30),
            (self._merge, 26),
            (self._merge_with_trouble, 16),
            (self._write_by_others, 10),
            (self._damage, 4),
            (self._expire_mirror, 3),
            (self._expire_changelog, 3),
            (self._compact_changelog, 2),
            (self._roll_back, 2),
            (self._continue_elsewhere, 1),
            (self._restart, 3),
            (self._land, 2),
            (self._upgrade, 1),
        ]
        doing = self.dice.choices([one for one, _ in doings], [weight for _, weight in doings])[0]
        place = len(self.story)
        self.story.append(doing.__name__)
        said = doing()
        self.story[place] = f"{'  ' * self._depth}{said or doing.__name__ + ': nothing to do'}"
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
            self._unjudged.append(Commit(before, after, rebuilt, self.catalog.landing))

    def _judge(self) -> None:
        waiting, self._unjudged = self._unjudged, []
        for commit in waiting:
            self.judge.judge(commit)

    def _append(self) -> str:
        return self.journal.append(self.changelog, self.setting, self.dice)

    def _merge(self) -> str:
        appended = self._something_to_merge()
        self.points.expect_nothing()
        return self._advance(f"{appended}merge")

    def _something_to_merge(self) -> str:
        """Commit to the changelog, usually, if there is nothing to merge."""
        table = self.mirror
        ours = snapshots.own_snapshots(table.metadata)[:1] if table else []
        behind = self.judge.waits(self.judge.states[ours[0]]) if ours else bool(self.journal.files)
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
            unlearned = isinstance(error, CommitUnknown) and self._forgetful and not self._depth
            if not faulty and not unlearned:
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
    def names(self) -> tuple[str, ...]:
        """The crash points at which a merge may be stopped."""
        return (*NAMES, *COMPACTION_NAMES) if self.setting.data_fan_in else NAMES

    def _merge_with_trouble(self) -> str | None:
        kind = "interlude" if self.setting.calm else self.dice.choice(["die", "fault", "interlude"])
        appended = self._something_to_merge()
        point, time = self.dice.choice(self.names), self.dice.choice([1, 1, 2])
        match kind:
            case "die":
                self.points.expect(point, time, self._die)
                return self._advance(f"{appended}merge to die at {point} {time}")
            case "fault":
                self.points.expect_nothing()
                fault = self.dice.choice(list(Fault))
                self.catalog.fault = fault
                said = self._advance(f"{appended}merge whose commit is {fault}")
                self.catalog.fault = None
                return said
            case _:
                if self._depth:
                    return None
                self.points.expect(point, time, self._interlude)
                return self._advance(f"{appended}merge with an interlude at {point} {time}")

    def _die(self, name: str) -> None:
        self._deaths.append(name)
        self.io.dead = True
        raise Died(name)

    def _interlude(self, name: str) -> None:
        """Let other things happen while this merge is paused."""
        passed, fault = self.points.passed, self.catalog.fault
        self.story.append(f"  at {name}:")
        began = len(self.story)
        self._depth += 1
        for _ in range(self.dice.randint(1, 4)):
            self.step()
        self._depth -= 1
        text = "\n".join(self.story[began:])
        # With a shortened log of the main branch, a merge cannot know which commit was first.
        self._leaky |= "expire" in text and "roll the mirror back" in text
        self.points.expect_nothing()
        self.points.passed, self.catalog.fault = passed, fault

    def _write_by_others(self) -> str | None:
        table = self.mirror
        head = table.current_snapshot() if table else None
        if table is None or head is None:
            return None
        other = Other(table, self.judge.reader.read(head), self.setting, self.dice)
        said, snapshot_id = other.write(), next(self._ids)
        self.judge.by_others[snapshot_id] = self.judge.before(head).after_others(other.rows)
        other.commit(snapshot_id)
        return said

    def _damage(self) -> str | None:
        table = self.mirror
        head = table.current_snapshot() if table else None
        # After an index rebuild orders may differ, so unchanged values cannot be predicted.
        if head is None or self.setting.calm or self.setting.partial:
            return None
        files = sorted(
            path
            for path in self.io.files
            if path.endswith((".segment.puffin", ".root.puffin")) and path not in self.judge.damaged
        )
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
        ours = snapshots.own_snapshots(table.metadata)
        anchored = str(ours[0]) in table.metadata.properties[CURSOR] if ours else False
        order = [one.snapshot_id for one in table.metadata.snapshots]
        until = ours[0] if ours and (anchored or self._depth) else head.snapshot_id
        last = order.index(until) + (1 if anchored else 0) if ours else 0
        held = {one.snapshot_id: self.judge.reader.read(one).paths for one in table.metadata.snapshots}
        said = self._expire(table, [one for one in order[:last] if one != head.snapshot_id], "mirror")
        if said and not anchored and not snapshots.own_snapshots(self.catalog.load_table(MIRROR).metadata):
            return self._merge_cut_off(table.metadata, said)
        self._forgetful |= said is not None
        if said is None or self._depth or self.catalog.late or self.dice.random() < 0.4:
            return said
        left = {one.snapshot_id for one in self.catalog.load_table(MIRROR).metadata.snapshots}
        kept = set().union(*(paths for one, paths in held.items() if one in left))
        gone = set().union(*(paths for one, paths in held.items() if one not in left)) - kept
        for path in gone:
            del self.io.files[path]
        return f"{said}, and {len(gone)} files"

    def _merge_cut_off(self, before: TableMetadata, said: str) -> str:
        """Merge a history without a cursor: it is refused, unless its rows are those of the last merge."""
        self.points.expect_nothing()
        try:
            return self._advance(f"{said}, merge")
        except Invalid as error:
            if "none of its ancestors is" not in str(error):
                raise
            self.catalog.put(MIRROR, before)
            return f"{said}: refused, and restored"

    def _expire_changelog(self) -> str | None:
        """Expire snapshots up to the cursor, or any before the first merge."""
        table = self.changelog
        head = table.current_snapshot()
        if head is None or self._depth:
            return None
        order = [one.snapshot_id for one in table.metadata.snapshots]
        if self.mirror is None or self.mirror.current_snapshot() is None:
            if self.journal.rewritten or self.catalog.late:
                return None
            return self._expire(table, order[:-1], "changelog")
        cursors = list(snapshots.cursors(self.mirror).values())
        if not cursors or any(one.snapshot_id not in order for one in cursors):
            return None
        oldest = min(order.index(one.snapshot_id) for one in cursors)
        whole = all(one.files_done is None for one in cursors if one.snapshot_id == order[oldest])
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
        ours = [one for one, source in cursors.items() if known is None or source.snapshot_id in known]
        if not ours:
            return None
        chosen = self.dice.choice(ours[-4:])
        to_main = {"ref-name": "main", "snapshot-id": chosen, "type": "branch"}
        self.catalog.commit_table(table, (), (SetSnapshotRefUpdate.model_validate(to_main),))
        return f"roll the mirror back to {chosen}"

    def _can_be_rolled_back_to(self) -> set[int] | None:
        """Return the changelog snapshots that a cursor to roll back to may have; None: any."""
        return {one.snapshot_id for one in self.changelog.metadata.snapshots}

    def _continue_elsewhere(self) -> str | None:
        """Let another writer continue from an earlier snapshot, and expire all before."""
        rolled = None if self._depth or self.catalog.late else self._roll_back()
        said = self._write_by_others() if rolled else None
        table = self.mirror
        if (
            said is None
            or table is None
            or str(snapshots.own_snapshots(table.metadata)[0]) in table.metadata.properties[CURSOR]
        ):
            return rolled
        before, others = table.metadata, table.metadata.snapshots[:-1]
        self._remove(table, [one.snapshot_id for one in others])
        return self._merge_cut_off(before, f"{rolled}, {said}, expire all before")

    def _restart(self) -> str:
        restart()
        return "restart"

    def _land(self) -> str | None:
        return f"{self.catalog.land_late()} late commits land" if self.catalog.late else None

    def _upgrade(self) -> str | None:
        table = self.mirror
        if table is None or table.metadata.format_version != 2 or table.current_snapshot() is None:
            return None
        self.catalog.put(MIRROR, snapshots.upgraded(table.metadata))
        self._leaky |= self._depth > 0  # the merge that fails sees no competing commit
        return "the mirror is upgraded to version 3"

    def _end(self) -> None:
        """Apply delayed commits, then merge the rest without faults."""
        self.story.append("the end")
        with suppress(CommitFailedException):
            self.catalog.land_late()
        self._judge()
        if self.dice.random() < 0.5:
            restart()
        self.points.expect_nothing()
        for _ in range(1000):
            if self._is_up_to_date():
                break
            self.points.passed = []
        table = self.mirror
        if (table is None or table.current_snapshot() is None) and self.journal.files:
            raise Divergence("there is no mirror at the end")
        if table is None:
            return
        ours = [self.judge.states[one] for one in snapshots.own_snapshots(table.metadata)[:1]]
        if ours and self.judge.waits(ours[0]):
            raise Divergence(f"{ours[0].merged} of {len(self.journal.files)} files are merged at the end")
        for snapshot in table.metadata.snapshots:
            self.judge.reader.read(snapshot)
        self._nothing_left_behind()

    def _nothing_left_behind(self) -> None:
        left = {path for path in self.io.files if "/world_changelog/" not in path} - self.judge.referenced
        if left and not self._leaky:
            raise Divergence(f"unreferenced files: {sorted(left)}")
