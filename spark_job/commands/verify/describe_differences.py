"""Describes differences: file and row of a few of them, the columns that differ, and keys on request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO

from spark_job.changelog.added_files import ChangelogFile
from spark_job.changelog.read_rows import read_rows
from spark_job.changelog.unchanged_placeholder import UnchangedPlaceholder
from spark_job.columns.field_map import FieldMap
from spark_job.columns.json_values import value_as_json
from spark_job.columns.missing_columns import MissingValues
from spark_job.columns.parquet_columns import open_parquet, read_rows_at
from spark_job.commands.verify.compare_rows import ComparedRange, DifferenceLocation
from spark_job.commands.verify.deep_check import DeepWork
from spark_job.commands.verify.row_digest import differing_columns
from spark_job.commands.verify.verify_report import FindingKind, VerifyFinding


def describe_differences(work: DeepWork, compared: ComparedRange, *, show_keys: bool) -> list[VerifyFinding]:
    """Return one finding for each kind of difference."""
    return [
        VerifyFinding(
            kind=kind,
            count=count,
            places=tuple(_describe_location(work, kind, location) for location in compared.locations[kind]),
            keys=tuple(_read_location_key(work, location) for location in compared.locations[kind])
            if show_keys
            else None,
        )
        for kind, count in compared.counts.items()
    ]


def _describe_location(work: DeepWork, kind: FindingKind, location: DifferenceLocation) -> str:
    phrases: list[str] = []
    if location.file is not None:
        phrases.append(f"row {location.row} of {work.mirror_files[location.file].path}")
    if location.event_file is not None:
        phrases.append(
            f"{'from ' if phrases else ''}row {location.event_row} of {work.history[location.event_file].path}"
        )
    if location.segment is not None:
        phrases.append(f"{'by ' if phrases else 'in '}{work.segments[location.segment].path}")
    if kind is FindingKind.DIFFERENT_ROW:
        phrases.append(f"in {', '.join(_find_differing_columns(work, location))}")
    return " ".join(phrases)


def _find_differing_columns(work: DeepWork, location: DifferenceLocation) -> list[str]:
    """Return the columns in which a row differs from its event."""
    if (
        location.file is None
        or location.row is None
        or location.event_file is None
        or location.event_row is None
    ):
        return []
    identity_map = {mirror_id: mirror_id for mirror_id in work.field_map.values()}
    mirror_file = work.mirror_files[location.file]
    listed_file = ChangelogFile(
        mirror_file.path, 0, mirror_file.rows, 0, 0, tuple(mirror_file.missing_values.items())
    )
    row = _read_row(work, work.io, listed_file, location.row, identity_map)
    event = _read_row(
        work,
        work.changelog_io,
        work.history[location.event_file],
        location.event_row,
        work.field_map,
        work.shape.defaults,
    )
    return _without_unchanged(work.shape.unchanged_placeholder, differing_columns(row, event), event)


def _without_unchanged(
    placeholder: UnchangedPlaceholder | None, columns: list[str], event: pa.Table
) -> list[str]:
    """Return the columns that the event does not mark as unchanged; if none is left, an earlier event has them."""
    if placeholder is None:
        return columns
    unchanged = [name for name in event.column_names if placeholder.find(event[name]) is not None]
    return [name for name in columns if name not in unchanged] or unchanged


def _read_row(
    work: DeepWork,
    io: FileIO,
    file: ChangelogFile,
    row: int,
    field_map: FieldMap,
    defaults: MissingValues | None = None,
) -> pa.Table:
    first_file = np.zeros(1, dtype=np.uint32)
    return read_rows(
        io, [file], first_file, np.array([row], dtype=np.uint32), field_map, work.schema, defaults
    )


def _read_location_key(work: DeepWork, location: DifferenceLocation) -> str:
    if location.file is not None and location.row is not None:
        return read_key(work.io, work.mirror_files[location.file].path, work.key_ids, location.row)
    if location.event_file is not None and location.event_row is not None:
        path = work.history[location.event_file].path
        return read_key(work.changelog_io, path, work.shape.key_ids, location.event_row)
    return "?"


def read_key(io: FileIO, path: str, key_ids: Sequence[int], row: int) -> str:
    """Return the key of one row as text."""
    with open_parquet(io, path) as parquet:
        columns = read_rows_at(parquet, path, key_ids, np.array([row], dtype=np.int64))
    return ", ".join(str(value_as_json(column[0])) for column in columns)
