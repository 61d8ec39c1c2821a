"""Fills the metadata columns of the mirror: `synced_at`, `source_sequence`, `created_at` and the deleted flag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.io import FileIO
from pyiceberg.table import Table

from icemirror.errors import Corrupt
from icemirror.tables.cursor import Truncation
from icemirror.telemetry.logs import get_log
from spark_job.changelog.changes import Changes
from spark_job.changelog.event_columns import read_sequence_columns
from spark_job.changelog.shape import Operation
from spark_job.changelog.truncations import is_new_truncation
from spark_job.columns.added_columns import CREATED_AT, DELETED, SOURCE_SEQUENCE, SYNCED_AT
from spark_job.columns.parquet_columns import column_names, open_parquet, read_rows_at
from spark_job.columns.projection import field_id_of
from spark_job.iceberg.mirror import Mirror
from spark_job.index.keys import Indices, Keys, Mask
from spark_job.index.orders import exceeds
from spark_job.merge.key_check import KeySources
from spark_job.merge.locate import SearchableIndex, locate_keys, look_up_keys
from spark_job.plan.schema_evolution import known_metadata_columns
from spark_job.storage.parallel import map_parallel

log = get_log(__name__)

_TIME = pa.timestamp("us", tz="UTC")
_SEQUENCE_SEPARATOR = ","  # between the columns of a sequence


@dataclass(frozen=True)
class ReplacedMirror:
    """The mirror that a rebuild replaces: its index, its data files by ordinal, its `created_at` column."""

    index: SearchableIndex
    paths: tuple[str, ...]
    created_id: int
    new_truncation: Truncation | None = None

    @classmethod
    def from_mirror(
        cls, mirror: Mirror | None, changelog: Table, truncated: Truncation | None
    ) -> ReplacedMirror | None:
        """Return the replaced mirror, or None if it does not exist or has no `created_at`.

        `truncated`: the truncation that the rebuild applies.
        """
        created_id = known_metadata_columns(mirror.table.metadata).get(CREATED_AT) if mirror else None
        if mirror is None or mirror.root is None or created_id is None:
            return None
        root = mirror.root
        index = SearchableIndex(mirror.table.io, root.segments, root.removed_ordinals)
        same_changelog = mirror.cursor is not None and mirror.cursor.source.uuid == str(
            changelog.metadata.table_uuid
        )
        paths = tuple(file.path for file in root.files)
        # If the mirror applied the truncation before, no row is lost now.
        is_new = mirror.cursor is not None and is_new_truncation(truncated, mirror.cursor.source.truncated)
        return cls(index, paths, created_id, truncated if same_changelog and is_new else None)


@dataclass(frozen=True)
class MetadataValues:
    """The values of the metadata columns. `ids`: role of a column → its field id in the mirror.

    `merged_at_us`: microseconds since 1970. `replaced`: the mirror that a rebuild replaces.
    """

    ids: Mapping[str, int]
    merged_at_us: int
    replaced: ReplacedMirror | None = None


def fill_metadata_columns(
    metadata: MetadataValues, rows: pa.Table, winners: Changes, sources: KeySources, index: SearchableIndex
) -> pa.Table:
    """Return the rows of these events, sorted by (file, row), with the metadata columns filled."""
    column_of_id = {field_id_of(field, ""): at for at, field in enumerate(rows.schema)}
    for role, field_id in metadata.ids.items():
        at = column_of_id[field_id]
        values = _column_values(metadata, role, winners, sources, index)
        field = rows.schema.field(at)
        rows = rows.set_column(at, field, values.cast(field.type))
    return rows


def _column_values(
    metadata: MetadataValues, role: str, winners: Changes, sources: KeySources, index: SearchableIndex
) -> pa.Array:
    match role:
        case _ if role == SOURCE_SEQUENCE:
            return _sequences(winners, sources)
        case _ if role == CREATED_AT:
            return _as_times(*_created_times(metadata, winners, sources, index))
        case _ if role == SYNCED_AT:
            return _as_times(
                np.full(len(winners), metadata.merged_at_us), np.ones(len(winners), dtype=np.bool_)
            )
        case _ if role == DELETED:
            return pa.array(winners.operation == Operation.DELETE)
        case _:
            raise ValueError(role)


def _created_times(
    metadata: MetadataValues, winners: Changes, sources: KeySources, index: SearchableIndex
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return when the key of each row was first merged, and whether that is known. A new key gets `merged_at_us`."""
    file, pos = _replaced_locations(winners, sources, index)
    found, known = _read_times(sources.mirror_io, sources.mirror_paths, metadata.ids[CREATED_AT], file, pos)
    new = np.flatnonzero(file < 0)
    found[new], known[new] = metadata.merged_at_us, True
    if metadata.replaced is not None and len(new):
        _read_replaced_times(metadata.replaced, winners, new, sources, found)
    return found, known


def _read_replaced_times(
    replaced: ReplacedMirror,
    winners: Changes,
    new: Indices,
    sources: KeySources,
    times: NDArray[np.int64],
) -> None:
    """Take the times of keys that the replaced mirror contains. If it is unreadable, the current time stays."""
    if any(
        len(segment.greatest_order) != sources.shape.sequence.parts + 1 for segment in replaced.index.segments
    ):
        return
    try:
        file, pos = _replaced_locations(winners.take(new), sources, replaced.index)
        found, known = _read_times(sources.mirror_io, replaced.paths, replaced.created_id, file, pos)
        order = winners.keys.take(new).argsort()
        known[order] &= ~_are_truncated(replaced, winners.keys.take(new[order]))
    except Corrupt as error:
        log.warning("created_at of the replaced mirror unreadable, set to now", reason=str(error))
        return
    times[new[known]] = found[known]


def _are_truncated(replaced: ReplacedMirror, keys: Keys) -> Mask:
    """Return which of these keys had a row that the truncation deleted. Keys must be ascending."""
    if replaced.new_truncation is None:
        return np.zeros(len(keys), dtype=np.bool_)
    last = (*replaced.new_truncation.sequence, replaced.new_truncation.commit)
    known = look_up_keys(replaced.index, keys, last)
    deleted: Mask = ~exceeds(known.orders, last)
    return deleted


def _read_times(
    io: FileIO,
    paths: Sequence[str],
    field_id: int,
    file: NDArray[np.int32],
    pos: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Read the times at (file, pos), in any order; return them and whether each exists."""
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
            (values,) = read_rows_at(parquet, path, (field_id,), pos[at])
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        times[at[valid]] = values.drop_null().cast(pa.int64()).to_numpy()
        known[at[valid]] = True

    map_parallel(read, pieces, paths[pieces[0][0]] if pieces else "")
    return times, known


def _replaced_locations(
    winners: Changes, sources: KeySources, index: SearchableIndex
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the location of the row that each event replaces; a negative file means that there is none."""
    order = winners.keys.argsort()
    newest = np.full((len(order), sources.shape.sequence.parts + 1), np.iinfo(np.uint64).max, dtype=np.uint64)
    located = locate_keys(index, winners.keys.take(order), newest)
    file, pos = np.empty_like(located.file), np.empty_like(located.pos)
    file[order], pos[order] = located.file, located.pos
    return file, pos


def _as_times(times: NDArray[np.int64], known: NDArray[np.bool_]) -> pa.Array:
    return pa.array(times, mask=~known).cast(_TIME)


def _sequences(winners: Changes, sources: KeySources) -> pa.Array:
    """Return the sequence of each event as text."""
    parts: list[pa.Array] = []
    for ordinal in np.unique(winners.file):
        path = sources.changelog_files[int(ordinal)].path
        rows = winners.row[winners.file == ordinal].astype(np.int64)
        with open_parquet(sources.changelog_io, path) as parquet:
            columns = read_sequence_columns(parquet, path, sources.shape, rows)
        texts = [column.cast(pa.large_string()) for column in columns]
        separator = pa.scalar(_SEQUENCE_SEPARATOR, pa.large_string())
        parts.append(texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, separator))
    return pa.concat_arrays(parts)
