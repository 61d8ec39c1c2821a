"""Differences in words: file and row of a few of them, the columns that differ, and keys if they were asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from spark_job.changelog.change_file import ChangeFile
from spark_job.changelog.marker import Marker
from spark_job.changelog.source_rows import read_rows
from spark_job.columns.absent import Absent
from spark_job.columns.field_map import FieldMap
from spark_job.columns.json_values import value_as_json
from spark_job.columns.parquet_columns import open_parquet, read_at
from spark_job.verify.compare_rows import Compared, Spot
from spark_job.verify.deep import DeepWork
from spark_job.verify.findings import Finding, Kind
from spark_job.verify.row_digest import differing_columns


def describe(work: DeepWork, compared: Compared, *, show_keys: bool) -> list[Finding]:
    """One finding for each kind of difference."""
    return [
        Finding(
            kind=kind,
            count=count,
            places=tuple(_place(work, kind, spot) for spot in compared.spots[kind]),
            keys=tuple(_key(work, spot) for spot in compared.spots[kind]) if show_keys else None,
        )
        for kind, count in compared.counts.items()
    ]


def _place(work: DeepWork, kind: Kind, spot: Spot) -> str:
    words: list[str] = []
    if spot.file is not None:
        words.append(f"row {spot.row} of {work.mirrored[spot.file].path}")
    if spot.event_file is not None:
        words.append(
            f"{'from ' if words else ''}row {spot.event_row} of {work.history[spot.event_file].path}"
        )
    if spot.segment is not None:
        words.append(f"{'by ' if words else 'in '}{work.segments[spot.segment].path}")
    if kind is Kind.DIFFERENT_ROW:
        words.append(f"in {', '.join(_differing(work, spot))}")
    return " ".join(words)


def _differing(work: DeepWork, spot: Spot) -> list[str]:
    """The columns in which a row differs from the one that its event tells of."""
    if spot.file is None or spot.row is None or spot.event_file is None or spot.event_row is None:
        return []
    same = {target: target for target in work.field_map.values()}
    mirrored = work.mirrored[spot.file]
    listed = ChangeFile(mirrored.path, 0, mirrored.rows, 0, 0, tuple(mirrored.absent.items()))
    here = _row(work, work.io, listed, spot.row, same)
    there = _row(
        work,
        work.changelog_io,
        work.history[spot.event_file],
        spot.event_row,
        work.field_map,
        work.shape.defaults,
    )
    return _but_unchanged(work.shape.marker, differing_columns(here, there), there)


def _but_unchanged(marker: Marker | None, columns: list[str], told: pa.Table) -> list[str]:
    """Without those that the event leaves as they were, unless nothing else differs: then an earlier one tells them."""
    if marker is None:
        return columns
    left = [name for name in told.column_names if marker.marks(told[name]) is not None]
    return [name for name in columns if name not in left] or left


def _row(
    work: DeepWork, io: FileIO, file: ChangeFile, row: int, ids: FieldMap, defaults: Absent | None = None
) -> pa.Table:
    first = np.zeros(1, dtype=np.uint32)
    return read_rows(io, [file], first, np.array([row], dtype=np.uint32), ids, work.schema, defaults)


def _key(work: DeepWork, spot: Spot) -> str:
    if spot.file is not None and spot.row is not None:
        return read_key(work.io, work.mirrored[spot.file].path, work.key_ids, spot.row)
    if spot.event_file is not None and spot.event_row is not None:
        path = work.history[spot.event_file].path
        return read_key(work.changelog_io, path, work.shape.key_ids, spot.event_row)
    return "?"


def read_key(io: FileIO, path: str, key_ids: Sequence[int], row: int) -> str:
    """The key of one row, as text."""
    with open_parquet(io, path) as parquet:
        columns = read_at(parquet, path, key_ids, np.array([row], dtype=np.int64))
    return ", ".join(str(value_as_json(column[0])) for column in columns)
