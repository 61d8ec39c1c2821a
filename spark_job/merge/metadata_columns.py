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
from spark_job.changelog.event_batch import EventBatch
from spark_job.changelog.event_columns import read_sequence_columns
from spark_job.changelog.truncations import is_new_truncation
from spark_job.columns.added_columns import CREATED_AT, DELETED_FLAG, SOURCE_SEQUENCE, SYNCED_AT
from spark_job.columns.arrays import Indices, Mask
from spark_job.columns.parquet_columns import column_names, open_parquet, read_rows_at
from spark_job.columns.projection import read_field_id
from spark_job.iceberg.merged_schema import known_metadata_columns
from spark_job.iceberg.mirror import Mirror
from spark_job.index.keys import Keys
from spark_job.index.orders import is_greater
from spark_job.merge.key_check import KeySources
from spark_job.merge.locate import SearchableIndex, locate_keys, read_key_entries
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


def find_replaced_mirror(
    mirror: Mirror | None, changelog: Table, truncation: Truncation | None
) -> ReplacedMirror | None:
    """Return the replaced mirror, or None if it does not exist or has no `created_at`.

    `truncation`: the one that the rebuild applies.
    """
    created_id = known_metadata_columns(mirror.table.metadata).get(CREATED_AT) if mirror else None
    if mirror is None or mirror.root is None or created_id is None:
        return None
    root, cursor = mirror.root, mirror.cursor
    index = SearchableIndex(mirror.table.io, root.segments, root.removed_ordinals)
    paths = tuple(file.path for file in root.files)
    same_changelog = cursor is not None and cursor.source.uuid == str(changelog.metadata.table_uuid)
    # If the mirror applied the truncation before, no row is lost now.
    is_new = cursor is not None and is_new_truncation(truncation, cursor.source.truncated)
    return ReplacedMirror(index, paths, created_id, truncation if same_changelog and is_new else None)


@dataclass(frozen=True)
class MetadataValues:
    """The values of the metadata columns. `ids`: role of a column → its field id in the mirror.

    `merged_at_us`: microseconds since 1970. `replaced`: the mirror that a rebuild replaces.
    """

    ids: Mapping[str, int]
    merged_at_us: int
    replaced: ReplacedMirror | None = None


def fill_metadata_columns(
    metadata: MetadataValues, rows: pa.Table, winners: EventBatch, sources: KeySources, index: SearchableIndex
) -> pa.Table:
    """Return the rows of these events, sorted by (file, row), with the metadata columns filled."""
    column_indices = {
        read_field_id(field, ""): column_index for column_index, field in enumerate(rows.schema)
    }
    for role, field_id in metadata.ids.items():
        column_index = column_indices[field_id]
        values = _column_values(metadata, role, winners, sources, index)
        field = rows.schema.field(column_index)
        rows = rows.set_column(column_index, field, values.cast(field.type))
    return rows


def _column_values(
    metadata: MetadataValues, role: str, winners: EventBatch, sources: KeySources, index: SearchableIndex
) -> pa.Array:
    if role == SOURCE_SEQUENCE:
        return _sequences(winners, sources)
    if role == CREATED_AT:
        return _as_times(*_created_times(metadata, winners, sources, index))
    if role == SYNCED_AT:
        return _as_times(np.full(len(winners), metadata.merged_at_us), np.ones(len(winners), dtype=np.bool_))
    if role == DELETED_FLAG:
        return pa.array(winners.is_delete)
    raise ValueError(role)


def _created_times(
    metadata: MetadataValues, winners: EventBatch, sources: KeySources, index: SearchableIndex
) -> tuple[NDArray[np.int64], Mask]:
    """Return when the key of each row was first merged, and whether that is known. A new key gets `merged_at_us`."""
    file, pos = _replaced_locations(winners, sources, index)
    times, is_known = _read_times(
        sources.mirror_io, sources.mirror_paths, metadata.ids[CREATED_AT], file, pos
    )
    new = np.flatnonzero(file < 0)
    times[new], is_known[new] = metadata.merged_at_us, True
    if metadata.replaced is not None and len(new):
        _fill_replaced_times(metadata.replaced, winners, new, sources, times)
    return times, is_known


def _fill_replaced_times(
    replaced: ReplacedMirror,
    winners: EventBatch,
    new: Indices,
    sources: KeySources,
    times: NDArray[np.int64],
) -> None:
    """Set the times of keys that the replaced mirror contains. If it is unreadable, the current time stays."""
    if any(
        len(segment.greatest_order) != sources.shape.sequence.parts + 1 for segment in replaced.index.segments
    ):
        return
    try:
        file, pos = _replaced_locations(winners.take(new), sources, replaced.index)
        replaced_times, is_known = _read_times(
            sources.mirror_io, replaced.paths, replaced.created_id, file, pos
        )
        order = winners.keys.take(new).argsort()
        is_known[order] &= ~_are_truncated(replaced, winners.keys.take(new[order]))
    except Corrupt as error:
        # `created_at` is best effort: a rebuild must not depend on the mirror that it replaces.
        log.warning("created_at of the replaced mirror unreadable, set to now", reason=str(error))
        return
    times[new[is_known]] = replaced_times[is_known]


def _are_truncated(replaced: ReplacedMirror, keys: Keys) -> Mask:
    """Return which of these keys had a row that the truncation deleted. Keys must be ascending."""
    if replaced.new_truncation is None:
        return np.zeros(len(keys), dtype=np.bool_)
    truncation_order = (*replaced.new_truncation.sequence, replaced.new_truncation.commit)
    entries = read_key_entries(replaced.index, keys, truncation_order)
    is_truncated: Mask = ~is_greater(entries.orders, truncation_order)
    return is_truncated


def _read_times(
    io: FileIO,
    paths: Sequence[str],
    field_id: int,
    file: NDArray[np.int32],
    pos: NDArray[np.int64],
) -> tuple[NDArray[np.int64], Mask]:
    """Return the times at (file, pos), in any order, and whether each exists."""
    times, exists = np.zeros(len(file), dtype=np.int64), np.zeros(len(file), dtype=np.bool_)
    order = np.lexsort((pos, file))
    order = order[file[order] >= 0]
    ordinals, starts = np.unique(file[order], return_index=True)
    rows_by_file = (
        list(zip(ordinals.tolist(), np.split(order, starts[1:]), strict=True)) if len(ordinals) else []
    )

    def read(rows_of_file: tuple[int, Indices]) -> None:
        ordinal, indices = rows_of_file
        path = paths[ordinal]
        with open_parquet(io, path) as parquet:
            if field_id not in column_names(parquet, path):
                return
            (values,) = read_rows_at(parquet, path, (field_id,), pos[indices])
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        times[indices[valid]] = values.drop_null().cast(pa.int64()).to_numpy()
        exists[indices[valid]] = True

    map_parallel(read, rows_by_file, paths[rows_by_file[0][0]] if rows_by_file else "")
    return times, exists


def _replaced_locations(
    winners: EventBatch, sources: KeySources, index: SearchableIndex
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the location of the row that each event replaces; a negative file means that there is none."""
    order = winners.keys.argsort()
    # Orders above all others: then no order of an entry is read.
    greatest = np.iinfo(np.uint64).max
    orders = np.full((len(order), sources.shape.sequence.parts + 1), greatest, dtype=np.uint64)
    located = locate_keys(index, winners.keys.take(order), orders)
    file, pos = np.empty_like(located.file), np.empty_like(located.pos)
    file[order], pos[order] = located.file, located.pos
    return file, pos


def _as_times(times: NDArray[np.int64], is_known: Mask) -> pa.Array:
    return pa.array(times, mask=~is_known).cast(_TIME)


def _sequences(winners: EventBatch, sources: KeySources) -> pa.Array:
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
