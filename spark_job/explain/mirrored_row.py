"""Where the row of a key is: by the key index, and by the data files themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.table.snapshots import Operation, Snapshot

from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.shape import ChangelogShape
from spark_job.changelog.source_rows import read_rows
from spark_job.columns.absent import AbsentIn
from spark_job.columns.own_columns import DELETED
from spark_job.columns.parquet_columns import column_names, open_parquet, read_at
from spark_job.explain.asked_key import AskedKey
from spark_job.explain.key_events import rows_of_key
from spark_job.iceberg.mirror import CURSOR, Mirror
from spark_job.iceberg.view import LiveFile
from spark_job.index_upkeep.catch_up import compare
from spark_job.key_index.root import Root
from spark_job.locate import ABSENT, Index, look_up
from spark_job.schema_changes.evolution import known_own
from spark_job.write.vectors import deleted_positions


@dataclass(frozen=True, slots=True)
class Place:
    """A row of a data file."""

    path: str
    position: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What the index says of the key: a row at a place, a tombstone (no place), or nothing (no order either)."""

    place: Place | None = None
    order: tuple[int, ...] | None = None


class Check(StrEnum):
    """What there is at a place of the index."""

    THERE = "there"
    NO_FILE = "no-file"
    DELETED = "deleted"
    OTHER_KEY = "other-key"


class Writer(StrEnum):
    """Who put a data file into the mirror."""

    MERGE = "merge"
    COMPACTION = "compaction"
    OTHER = "another-writer"
    UNKNOWN = "unknown"


def ask_index(mirror: Mirror, root: Root, shape: ChangelogShape, key: AskedKey) -> Entry:
    """Asks the segments for the key; raises `DamagedSegment` where one cannot answer."""
    index = Index(mirror.table.io, root.segments, root.gone)
    lowest = (0,) * (shape.sequence.parts + 1)
    known = look_up(index, shape.codec.encode(key.arrays), lowest)
    file = int(known.file[0])
    if file == ABSENT:
        return Entry()
    place = Place(root.files[file].path, int(known.pos[0])) if file >= 0 else None
    return Entry(place, tuple(int(part) for part in known.orders[0]))


@dataclass(frozen=True)
class DataFiles:
    """The live data files of a mirror's head."""

    mirror: Mirror
    live: Mapping[str, LiveFile]
    key_ids: tuple[int, ...]

    def check(self, place: Place, key: AskedKey) -> Check:
        """Whether the row at a place is there, alive, and of this key."""
        io, file = self.mirror.table.io, self.live.get(place.path)
        if file is None:
            return Check.NO_FILE
        if place.position >= file.rows:
            return Check.OTHER_KEY
        if place.position in self._deleted(file):
            return Check.DELETED
        with open_parquet(io, file.path, file.rows) as parquet:
            columns = read_at(parquet, file.path, self.key_ids, np.array([place.position], dtype=np.int64))
        return Check.THERE if key.rows(columns)[0] else Check.OTHER_KEY

    def search(self, path: str, key: AskedKey) -> list[Place]:
        """The live rows of the key in a data file."""
        file = self.live[path]
        with open_parquet(self.mirror.table.io, path, file.rows) as parquet:
            rows = rows_of_key(parquet, path, self.key_ids, key)
        if len(rows):
            rows = np.setdiff1d(rows, self._deleted(file))
        return [Place(path, int(row)) for row in rows]

    def read(self, place: Place) -> pa.Table:
        """The row at a place, in all columns."""
        file = self.live[place.path]
        same = {target: target for target in self.mirror.field_map.values()}
        metadata = self.mirror.table.metadata
        absent = AbsentIn(metadata.schema(), metadata.specs()).of(file.spec_id, file.partition)
        listed = ChangeFile(file.path, file.bytes, file.rows, 0, 0, tuple(absent.items()))
        first, row = np.zeros(1, dtype=np.uint32), np.array([place.position], dtype=np.uint32)
        return read_rows(self.mirror.table.io, [listed], first, row, same, self.mirror.row_schema)

    def is_flagged(self, place: Place) -> bool:
        """Whether the row at a place is flagged as deleted."""
        flag_id = known_own(self.mirror.table.metadata).get(DELETED)
        with open_parquet(self.mirror.table.io, place.path) as parquet:
            if flag_id is None or flag_id not in column_names(parquet, place.path):
                return False
            (flag,) = read_at(parquet, place.path, (flag_id,), np.array([place.position], dtype=np.int64))
        return flag[0].as_py() is True

    def came_since(self, root: Root) -> list[str]:
        """Data files that others added since the index was made."""
        return [file.path for file in compare(root, self.live).came] if self.mirror.foreign else []

    def _deleted(self, file: LiveFile) -> NDArray[np.int64]:
        found: NDArray[np.int64] = deleted_positions(self.mirror.table.io, {file.path: file})[file.path]
        return found


def writer_of(snapshots: Iterable[Snapshot], added_by: int | None) -> tuple[Writer, Snapshot | None]:
    """Who added a data file, by the snapshot that did, which may have expired. Pure."""
    found = next((one for one in snapshots if one.snapshot_id == added_by), None)
    if found is None or found.summary is None:
        return Writer.UNKNOWN, found
    if CURSOR not in found.summary.additional_properties:
        return Writer.OTHER, found
    moved = found.summary.operation is Operation.REPLACE
    return (Writer.COMPACTION if moved else Writer.MERGE), found
