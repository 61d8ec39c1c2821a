"""Finds the row of a key: where the index says, and by search only where that is not enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from icemirror.errors import Corrupt, fill_in
from spark_job.changelog.shape import ChangelogShape
from spark_job.explain.asked_key import AskedKey
from spark_job.explain.key_events import Looked
from spark_job.explain.mirrored_row import Check, DataFiles, Entry, Place, ask_index
from spark_job.iceberg.key_files import Wanted, may_hold
from spark_job.iceberg.mirror import Mirror
from spark_job.iceberg.view import live_files
from spark_job.index_upkeep.inspect_index import Unreadable
from spark_job.key_index.damage import DamagedSegment


@dataclass(frozen=True)
class RowFound:
    """The live rows of the key, one if all is well; `entry` is None where the index cannot be read.

    `values`: the first of them, in all columns, if it can be read; `flagged`: it is flagged as deleted. `sure`: every
    file that may hold it was read.
    """

    files: DataFiles
    entry: Entry | None
    check: Check | None = None
    rows: tuple[Place, ...] = ()
    values: pa.Table | None = None
    sure: bool = True
    searched: int = 0
    unreadable: tuple[Unreadable, ...] = field(default_factory=tuple)
    flagged: bool = False


def find_row(
    mirror: Mirror,
    shape: ChangelogShape,
    key: AskedKey,
    key_ids: tuple[int, ...],
    looked: Looked,
    *,
    expected: bool,
) -> RowFound:
    """Asks the index, looks at its place, and searches what others added since.

    All files are searched where the index cannot be read, or no row is there although it, or the changelog
    (`expected`), says so.
    """
    name = ".".join(mirror.table.name())
    files = DataFiles(mirror, live_files(mirror.table.io, mirror.head), key_ids)
    unreadable: list[Unreadable] = []
    entry = _ask(mirror, shape, key, unreadable)
    check: Check | None = None
    rows: list[Place] = []
    opened = set[str]()
    if entry is not None and entry.place is not None:
        opened.add(entry.place.path)
        try:
            check = files.check(entry.place, key)
        except Corrupt as error:
            unreadable.append(_told(entry.place.path, error, name))
        rows += [entry.place] if check is Check.THERE else []
    came = files.came_since(mirror.root) if mirror.root else []
    everywhere = not rows and (expected or entry is None or entry.place is not None)
    candidates = _candidates(files, list(files.live) if everywhere else came, key)
    failed = {one.path for one in unreadable}
    for path in candidates:
        try:
            if path not in failed:
                rows += [place for place in files.search(path, key) if place not in rows]
        except Corrupt as error:
            unreadable.append(_told(path, error, name))
        looked(1)
    sure = bool(rows) or not any(one.path in files.live for one in unreadable)
    values: pa.Table | None = None
    flagged = False
    if rows:
        try:
            values = files.read(rows[0])
            flagged = shape.keeps_deleted and files.is_flagged(rows[0])
        except Corrupt as error:
            unreadable.append(_told(rows[0].path, error, name))
    searched = len(files.live.keys() & opened.union(candidates))
    return RowFound(files, entry, check, tuple(rows), values, sure, searched, tuple(unreadable), flagged)


def _ask(mirror: Mirror, shape: ChangelogShape, key: AskedKey, unreadable: list[Unreadable]) -> Entry | None:
    if mirror.lost:
        what = "the root of the index is gone or fails its checksum"
        unreadable.append(Unreadable(path=mirror.root_path or "", what=what))
        return None
    if mirror.root is None:
        return Entry()
    try:
        return ask_index(mirror, mirror.root, shape, key)
    except DamagedSegment as error:
        unreadable.append(_told(error.path, error, ".".join(mirror.table.name())))
        return None


def _candidates(files: DataFiles, paths: Sequence[str], key: AskedKey) -> list[str]:
    """The files that may hold the key."""
    if not paths or files.mirror.head is None:
        return []
    wanted = wanted_columns(key, files.key_ids)
    answers = may_hold(files.mirror.table, [files.mirror.head.snapshot_id], wanted)
    return [path for path in paths if answers.get(path, True)]


def wanted_columns(key: AskedKey, key_ids: Sequence[int]) -> list[Wanted]:
    """What a file must hold, by the field ids of its table."""
    return [
        Wanted(field_id, column.field.field_type, column.value)
        for field_id, column in zip(key_ids, key.columns, strict=True)
    ]


def _told(path: str, error: Corrupt, table: str) -> Unreadable:
    fill_in(error, table)
    return Unreadable(path=path, what=str(error).removeprefix(f"{path}: "))
