"""Compares every snapshot of the mirror with the oracle, and the key index with the mirror."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyiceberg.manifest import DataFileContent
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from icemirror.tables.cursor import Cursor
from spark_job.changelog.resolve_shape import resolve_shape
from spark_job.iceberg.ancestry import walk_ancestors
from spark_job.index.root import Root, read_root
from spark_job.index.scan import read_segment_entries
from spark_job.index.segment import SegmentInfo
from spark_job.pyiceberg_private.v3_fields import delete_key
from tests.sim.engine import snapshots
from tests.sim.engine.effects import effects
from tests.sim.engine.journal import Journal, Order
from tests.sim.engine.memory_io import MemoryIO
from tests.sim.engine.oracle import NOTHING, State
from tests.sim.engine.reader import Contents, Divergence, Reader, RowLocation
from tests.sim.engine.setting import Key, Setting
from tests.sim.engine.truncation_floor import floor_after_merge, floor_after_rebuild, truncation_of

CURSOR, EPOCH, LIVE_ROWS, ROOT, REPLAY = (
    f"icemirror.{name}" for name in ("cursor", "epoch", "live-rows", "index-root", "replay")
)
FULL = "full-"  # prefix of requested rebuilds
RESYNC_PREFIX = "resync-"  # prefix of rebuilds by policy


@dataclass(frozen=True)
class Commit:
    """A change of the mirror's metadata. `rebuilt_index`: by a merge that rebuilt segments."""

    before: TableMetadata
    after: TableMetadata
    rebuilt_index: bool
    delayed: bool = False


@dataclass
class Judge:
    """The oracle's state at each snapshot, and what must hold over all of them."""

    io: MemoryIO
    setting: Setting
    journal: Journal
    states: dict[int, State] = field(default_factory=dict)
    foreign: dict[int, State] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    referenced: set[str] = field(default_factory=set)
    index: set[str] = field(default_factory=set)
    epoch: int = 0
    checked: int = 0
    known: int = 0  # changelog files when the merge started
    _journals: dict[str, Journal] = field(default_factory=dict)  # by the uuid of the changelog
    _parents: dict[int, int | None] = field(default_factory=dict)
    _added: set[tuple[str, int | None]] = field(default_factory=set)
    _codes: dict[int, Key] = field(default_factory=dict)
    _entries: dict[tuple[str, int, int], list[tuple[int, int, int, Order]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader = Reader(self.io, self.setting.key_names)

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
        if head.snapshot_id in self.foreign:
            state = self.foreign[head.snapshot_id]
            _compare_rows(state, contents)
        else:
            state = self._judge_merge(commit, head, contents)
        self.states[head.snapshot_id] = state
        self._parents[head.snapshot_id] = head.parent_snapshot_id
        self.checked += 1

    def follow(self, uuid: str, journal: Journal) -> None:
        """Follow a new changelog."""
        self.journal = self._journals[uuid] = journal
        self.known = 0

    def _age(self, uuid: str) -> int:
        return list(self._journals).index(uuid)

    def is_behind(self, state: State) -> bool:
        """Return whether the mirror lacks files of the current changelog, or was merged from another."""
        if not state.uuid:
            return bool(self.journal.files)
        return self._journals[state.uuid] is not self.journal or state.merged != len(self.journal.files)

    def before(self, head: Snapshot | None) -> State:
        """Return the state that a commit on this head builds on."""
        return self.states[head.snapshot_id] if head else State(soft=self.setting.soft)

    def _judge_merge(self, commit: Commit, head: Snapshot, contents: Contents) -> State:
        if head.summary is None or CURSOR not in head.summary.additional_properties:
            raise Divergence(f"snapshot {head.snapshot_id} is not a merge")
        summary = head.summary.additional_properties
        replayed, moved = summary.get(REPLAY, ""), head.summary.operation is Operation.REPLACE
        parent = self._built_on(commit.before)
        rebuilt_index = commit.rebuilt_index or parent.unseen
        uuid, position, merged = self._position(summary[CURSOR], strict=not moved and not commit.delayed)
        journal, truncation = self._journals.get(uuid, Journal()), truncation_of(summary[CURSOR])
        unmoved = position == parent.position if replayed or moved else position <= parent.position
        if replayed.startswith((FULL, RESYNC_PREFIX)):
            if merged < parent.merged and uuid == parent.uuid:
                raise Divergence(f"rebuilt up to {merged} files, although {parent.merged} were merged")
            if uuid and parent.uuid and self._age(uuid) < self._age(parent.uuid):
                raise Divergence(f"rebuilt from {uuid}, which was dropped before {parent.uuid} was created")
            floor = floor_after_rebuild(parent, truncation, journal.files[:merged], same=uuid == parent.uuid)
            state = replace(self.before(None), floor=floor, followed=truncation)
            state = state.after_merge(journal.files[:merged], merged, position)
            rebuilt_index |= journal.rewritten
        elif parent.uuid not in ("", uuid):
            raise Divergence(f"merged from {uuid} on a mirror of {parent.uuid}")
        elif parent.merged > merged or (
            (parent.orders or parent.merged) and unmoved != bool(replayed or moved)
        ):
            raise Divergence(f"the cursor moved from {parent.position} to {position}")
        else:
            floor = floor_after_merge(parent, truncation, journal, merged)
            parent = replace(parent, floor=floor, followed=truncation)
            files = journal.files[parent.merged : merged]
            history = journal.files[: parent.merged]
            state = parent.after_merge(files, merged, position, history)
            if rebuilt_index and (uncertain := _uncertain_keys(parent, state, contents)):
                state = parent.with_newest(uncertain).after_merge(files, merged, position, history)
        state = replace(state, uuid=uuid)
        _compare_rows(state, contents)
        if int(summary[LIVE_ROWS]) != len(contents.rows):
            raise Divergence(
                f"{summary[LIVE_ROWS]} live rows in the summary, {len(contents.rows)} in the table"
            )
        # The last slice of a stage may only delete, and a compaction rewrites few files.
        if not replayed.startswith((FULL, RESYNC_PREFIX)) and not moved:
            _require_no_empty_files(summary, contents)
        # A delayed commit still succeeds if the commit that replaced it was rolled back.
        epoch, last = (
            int(summary[EPOCH]),
            max(_epochs(commit.before), default=0) if commit.delayed else self.epoch,
        )
        if epoch <= last:
            raise Divergence(f"epoch {epoch} after {last}")
        self.epoch = max(self.epoch, epoch)
        root = read_root(self.io, summary[ROOT])
        self.index = {summary[ROOT], *(segment.path for segment in root.segments)}
        self.referenced |= self.index
        if root.snapshot_id != head.snapshot_id:
            raise Divergence("the root belongs to another snapshot")
        missing = {
            segment.path for segment in root.segments if segment.path not in self.io.files
        } - self.damaged
        if missing:
            raise Divergence(f"the root references {missing}, which are missing")
        if not self.damaged.isdisjoint(segment.path for segment in root.segments):
            return replace(state, unseen=True)
        return self._judge_index(commit.after, root, contents, state, rebuilt_index)

    def _position(self, cursor_json: str, *, strict: bool) -> tuple[str, tuple[int, float], int]:
        """Return the uuid of the changelog, the position in it, and how many files are merged."""
        cursor = Cursor.model_validate_json(cursor_json)
        if not cursor.sources:
            if self.known and strict:
                raise Divergence(f"the mirror was emptied, although the changelog has {self.known} files")
            return "", State().position, 0
        source = cursor.source
        done = float("inf") if source.files_done is None else source.files_done
        return source.uuid, (source.sequence_number, done), self._journals[source.uuid].merged(source)

    def _built_on(self, metadata: TableMetadata) -> State:
        """Return the state that a merge builds on: that of the head.

        If no merge is left in the history of the head, the head counts as after the last merge if that changed no
        row: the rollback came after it.
        """
        head = metadata.current_snapshot()
        state = self.before(head)
        if head is None or CURSOR not in metadata.properties or snapshots.merge_snapshots(metadata):
            return state
        last = self.states[json.loads(metadata.properties[CURSOR])["snapshot_id"]]
        at: int | None = head.snapshot_id
        while at in self.foreign:
            at = self._parents[at]
        same = at is not None and self.states[at].rows == last.rows
        return last.after_foreign_write(state.rows) if same else state

    def _judge_index(
        self, metadata: TableMetadata, root: Root, contents: Contents, state: State, rebuilt_index: bool
    ) -> State:
        """Check that the index has every live key with its exact location and order, and nothing else."""
        codes = self._key_of_codes(metadata, root)
        if codes is None:
            return state
        index = self._read_index(codes, root)
        live = {key: location for key, (location, _) in index.items() if location is not None}
        locations = contents.locations()
        if live != locations:
            wrong = {key: (live.get(key), locations.get(key)) for key in live.keys() | locations.keys()}
            wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
            raise Divergence(f"key → (index, mirror): {wrong}")
        counted = {file.path: (file.rows, file.live_rows) for file in root.files if not file.removed}
        expected = {
            path: (file.record_count, file.record_count - len(contents.deleted.get(path, ())))
            for path, file in contents.data.items()
        }
        if counted != expected:
            raise Divergence(f"the root counts {counted}, the table has {expected}")
        orders = {key: order for key, (_, order) in index.items()}
        state = self._expire_tombstones(state, orders, root.newest_expired_tombstone_order)
        if rebuilt_index:
            self._judge_rebuilt(state, orders)
            return replace(state, orders=orders, unseen=False)
        if orders != state.orders:
            raise Divergence(f"key → order (index, oracle): {_differences(orders, state.orders)}")
        return state

    def _expire_tombstones(
        self, state: State, orders: dict[Key, Order], newest: tuple[int, ...] | None
    ) -> State:
        """Move expired tombstones, none newer than the root records: the changelog has their orders."""
        removed = {
            key
            for key, order in state.orders.items()
            if key not in orders and key not in state.rows and newest is not None and order <= newest
        }
        if not removed:
            return state
        history = self._history(state)
        expired = {key: history[key] for key in removed if key in history}
        kept = {key: order for key, order in state.orders.items() if key not in removed}
        return replace(state, orders=kept, expired={**state.expired, **expired})

    def _history(self, state: State) -> dict[Key, Order]:
        """Return the greatest merged order of each key."""
        history: dict[Key, Order] = {}
        files = self._journals[state.uuid].files[: state.merged] if state.uuid else []
        for effect in effects(files, state.floor):
            history[effect.key] = max(history.get(effect.key, NOTHING), effect.order)
        return history

    def _judge_rebuilt(self, state: State, orders: dict[Key, Order]) -> None:
        """Check rebuilt orders: equal if the changelog has the event, else between that event and the newest."""
        history = self._history(state)
        for key in orders.keys() | state.orders.keys():
            found, expected = orders.get(key), state.orders.get(key)
            restored = expected is None and found == state.expired.get(key)  # an expired tombstone
            if found == expected or restored:
                continue
            loose = key in state.touched or self._journals.get(state.uuid, self.journal).rewritten
            known = history.get(key)
            least = min(expected or NOTHING, known) if known else expected
            if loose and found is None and known is None and key not in state.rows:
                continue
            most = max(state.greatest[:2], (state.floor or NOTHING)[:2])
            if loose and found is not None and (least or NOTHING)[:2] <= found[:2] <= most:
                continue
            raise Divergence(
                f"after a rebuild, {key} has the order {found}, not {expected} ({known} in the changelog)"
            )

    def _read_index(self, codes: dict[int, Key], root: Root) -> dict[Key, tuple[RowLocation | None, Order]]:
        """Read the newest entry of each key from all segments."""
        index: dict[Key, tuple[RowLocation | None, Order]] = {}
        for segment in root.segments:
            for code, ordinal, pos, order in self._entries_of(segment):
                if ordinal >= 0 and segment.files[ordinal] >= len(root.files):
                    raise Divergence(
                        f"{segment.path} references data file {segment.files[ordinal]} of {len(root.files)}"
                    )
                file = root.files[segment.files[ordinal]] if ordinal >= 0 else None
                location = None if file is None or file.removed else (file.path, pos)
                index.setdefault(codes[code], (location, order))
        return index

    def _entries_of(self, segment: SegmentInfo) -> list[tuple[int, int, int, Order]]:
        key = segment.path, segment.first_key, segment.last_key
        if key not in self._entries:
            entries = read_segment_entries(self.io, segment)
            orders: list[list[int]] = entries.orders.tolist()
            self._entries[key] = [
                (entries.keys.at(at), int(entries.file[at]), int(entries.pos[at]), (first, second, commit))
                for at, (first, second, commit) in enumerate(orders)
            ]
        return self._entries[key]

    def _key_of_codes(self, metadata: TableMetadata, root: Root) -> dict[int, Key] | None:
        """Return the key of each code; None if two keys share a code, because the hash was shortened."""
        if not self._codes:
            shape = resolve_shape(self.setting.settings.tables[0], self.setting.schema)
            codec = shape.with_mirror_salt(metadata.table_uuid).key_codec
            if root.segments:
                codec = replace(codec, hash_bits=root.segments[0].hash_bits)
            keys = list(self.setting.pool)
            codes = codec.encode(self.setting.key_arrays(keys))
            self._codes = {codes.at(at): key for at, key in enumerate(keys)}
        return self._codes if len(self._codes) == len(self.setting.pool) else None

    def _require_new_paths(self, head: Snapshot) -> None:
        for manifest in snapshots.manifests_of(self.io, head):
            if manifest.added_snapshot_id != head.snapshot_id:
                continue
            for entry in snapshots.entries_of(self.io, manifest):
                if entry.snapshot_id != head.snapshot_id:
                    continue
                key = delete_key(entry.data_file)
                if key in self._added:
                    raise Divergence(f"{key} was added twice")
                self._added.add(key)
                if entry.data_file.content is DataFileContent.DATA:
                    self._added.add((entry.data_file.file_path, None))


def _uncertain_keys(parent: State, state: State, contents: Contents) -> set[Key]:
    """Return keys of foreign writes: once their order is lost, they may count as the newest."""
    rows = contents.by_key()
    kept = {key for key in parent.touched if rows.get(key) == parent.rows.get(key)}
    return {key for key in kept if rows.get(key) != state.rows.get(key)}


def _epochs(metadata: TableMetadata) -> list[int]:
    """Return the epochs of icemirror's snapshots on main."""
    line = walk_ancestors(metadata.snapshots, metadata.current_snapshot_id)
    summaries = (snapshot.summary.additional_properties for snapshot in line if snapshot.summary)
    return [int(summary[EPOCH]) for summary in summaries if EPOCH in summary]


def _compare_rows(state: State, contents: Contents) -> None:
    rows = contents.by_key()
    if rows != state.rows:
        raise Divergence(f"key → row (mirror, oracle): {_differences(rows, state.rows)}")


def _differences(found: object, expected: object) -> dict[object, tuple[object, object]]:
    left, right = dict(found), dict(expected)  # type: ignore[call-overload]
    return {
        key: (left.get(key), right.get(key))
        for key in left.keys() | right.keys()
        if left.get(key) != right.get(key)
    }


def _require_no_empty_files(summary: Mapping[str, str], contents: Contents) -> None:
    """Check that a commit which adds rows removed all empty files."""
    empty = [
        path
        for path, file in contents.data.items()
        if file.record_count == len(contents.deleted.get(path, ()))
    ]
    if empty and "added-data-files" in summary:
        raise Divergence(f"empty data files were kept: {empty}")
