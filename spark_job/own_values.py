"""What a merge writes into the mirror's own columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from icemirror.cursor import Truncation
from icemirror.errors import Corrupt
from icemirror.telemetry.logs import get_log
from spark_job.changelog.changes import Changes
from spark_job.changelog.narrow import read_sequence
from spark_job.changelog.shape import Operation
from spark_job.changelog.truncations import is_news
from spark_job.columns.own_columns import CREATED_AT, DELETED, SOURCE_SEQUENCE, SYNCED_AT
from spark_job.columns.parquet_columns import column_names, open_parquet, read_at
from spark_job.columns.projection import field_id_of
from spark_job.files.round_trips import for_each
from spark_job.iceberg.mirror import Mirror
from spark_job.key_check import KeySides
from spark_job.key_index.keys import Indices, Keys, Mask
from spark_job.key_index.orders import exceeds
from spark_job.locate import Index, locate_keys, look_up
from spark_job.schema_changes.evolution import known_own

log = get_log(__name__)

_TIME = pa.timestamp("us", tz="UTC")
_BETWEEN = ","  # the columns of a sequence


@dataclass(frozen=True)
class Before:
    """The mirror that a rebuild replaces: its index, its data files by the ordinals there, its column `created_at`."""

    index: Index
    paths: tuple[str, ...]
    created_id: int
    truncated: Truncation | None = None

    @classmethod
    def of(cls, mirror: Mirror | None, changelog: Table, truncated: Truncation | None) -> Before | None:
        """None where there is none, or it does not tell. `truncated`: the truncation that a rebuild follows."""
        created_id = known_own(mirror.table.metadata).get(CREATED_AT) if mirror else None
        if mirror is None or mirror.root is None or created_id is None:
            return None
        root = mirror.root
        index = Index(mirror.table.io, root.segments, root.gone)
        followed = mirror.cursor is not None and mirror.cursor.source.uuid == str(
            changelog.metadata.table_uuid
        )
        paths = tuple(file.path for file in root.files)
        # What stands in a mirror that has followed it was not taken away by it.
        news = mirror.cursor is not None and is_news(truncated, mirror.cursor.source.truncated)
        return cls(index, paths, created_id, truncated if followed and news else None)

    def are_truncated(self, keys: Keys) -> Mask:
        """Which of these keys had a row that a truncation took away: they come in anew. Keys must be ascending."""
        if self.truncated is None:
            return np.zeros(len(keys), dtype=np.bool_)
        last = (*self.truncated.sequence, self.truncated.commit)
        known = look_up(self.index, keys, last)
        gone: Mask = ~exceeds(known.orders, last)
        return gone


@dataclass(frozen=True)
class OwnValues:
    """`ids`: what the columns are → their field ids in the mirror. `merged_at`: in microseconds since 1970.

    `before`: the mirror that is rebuilt.
    """

    ids: Mapping[str, int]
    merged_at: int
    before: Before | None = None

    def fill(self, rows: pa.Table, winners: Changes, sides: KeySides, index: Index) -> pa.Table:
        """The rows of these events, which must stand in the order (file, row), with the mirror's own columns."""
        places = {field_id_of(field, ""): at for at, field in enumerate(rows.schema)}
        for role, field_id in self.ids.items():
            at = places[field_id]
            values = self._values(role, winners, sides, index)
            field = rows.schema.field(at)
            rows = rows.set_column(at, field, values.cast(field.type))
        return rows

    def _values(self, role: str, winners: Changes, sides: KeySides, index: Index) -> pa.Array:
        match role:
            case _ if role == SOURCE_SEQUENCE:
                return _sequences(winners, sides)
            case _ if role == CREATED_AT:
                return _as_times(*self._created(winners, sides, index))
            case _ if role == SYNCED_AT:
                return _as_times(np.full(len(winners), self.merged_at), np.ones(len(winners), dtype=np.bool_))
            case _ if role == DELETED:
                return pa.array(winners.operation == Operation.DELETE)
            case _:
                raise ValueError(role)

    def _created(
        self, winners: Changes, sides: KeySides, index: Index
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """When the key of each row came in, and whether that is known: of a new one it is now."""
        file, pos = _places(winners, sides, index)
        found, known = _read_times(sides.mirror_io, sides.mirror_paths, self.ids[CREATED_AT], file, pos)
        new = np.flatnonzero(file < 0)
        found[new], known[new] = self.merged_at, True
        if self.before is not None and len(new):
            self._look_before(self.before, winners, new, sides, found)
        return found, known

    def _look_before(
        self, before: Before, winners: Changes, new: Indices, sides: KeySides, times: NDArray[np.int64]
    ) -> None:
        """What is new to a rebuild may have been in the mirror for long; nothing stops if that cannot be read."""
        if any(len(one.greatest) != sides.shape.sequence.parts + 1 for one in before.index.segments):
            return
        try:
            file, pos = _places(winners.take(new), sides, before.index)
            found, known = _read_times(sides.mirror_io, before.paths, before.created_id, file, pos)
            order = winners.keys.take(new).argsort()
            known[order] &= ~before.are_truncated(winners.keys.take(new[order]))
        except Corrupt as error:
            log.warning("the rebuilt mirror does not know when its keys came in", reason=str(error))
            return
        times[new[known]] = found[known]


def _read_times(
    io: FileIO,
    paths: Sequence[str],
    field_id: int,
    file: NDArray[np.int32],
    pos: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The times at (file, pos), in any order, and whether there is one."""
    times, known = np.zeros(len(file), dtype=np.int64), np.zeros(len(file), dtype=np.bool_)
    order = np.lexsort((pos, file))
    order = order[file[order] >= 0]
    ordinals, starts = np.unique(file[order], return_index=True)
    pieces = list(zip(ordinals.tolist(), np.split(order, starts[1:]), strict=True)) if len(ordinals) else []

    def read(piece: tuple[int, Indices]) -> None:
        path, at = paths[piece[0]], piece[1]
        with open_parquet(io, path) as parquet:
            if field_id not in column_names(parquet, path):
                return
            (values,) = read_at(parquet, path, (field_id,), pos[at])
        there = values.is_valid().to_numpy(zero_copy_only=False)
        times[at[there]] = values.drop_null().cast(pa.int64()).to_numpy()
        known[at[there]] = True

    for_each(read, pieces, paths[pieces[0][0]] if pieces else "")
    return times, known


def _places(winners: Changes, sides: KeySides, index: Index) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Where the row is that each of these replaces; a negative file: nowhere."""
    order = winners.keys.argsort()
    newest = np.full((len(order), sides.shape.sequence.parts + 1), np.iinfo(np.uint64).max, dtype=np.uint64)
    located = locate_keys(index, winners.keys.take(order), newest)
    file, pos = np.empty_like(located.file), np.empty_like(located.pos)
    file[order], pos[order] = located.file, located.pos
    return file, pos


def _as_times(times: NDArray[np.int64], known: NDArray[np.bool_]) -> pa.Array:
    return pa.array(times, mask=~known).cast(_TIME)


def _sequences(winners: Changes, sides: KeySides) -> pa.Array:
    """The sequence of each event as text."""
    parts: list[pa.Array] = []
    for ordinal in np.unique(winners.file):
        path = sides.changelog_files[int(ordinal)].path
        rows = winners.row[winners.file == ordinal].astype(np.int64)
        with open_parquet(sides.changelog_io, path) as parquet:
            columns = read_sequence(parquet, path, sides.shape, rows)
        texts = [column.cast(pa.large_string()) for column in columns]
        between = pa.scalar(_BETWEEN, pa.large_string())
        parts.append(texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, between))
    return pa.concat_arrays(parts)
