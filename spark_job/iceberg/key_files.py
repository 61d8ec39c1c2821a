"""Which data files of a table may hold a row of one key, by what manifests say of their columns and partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, PrimitiveType

from spark_job.files.round_trips import for_each
from spark_job.iceberg.column_bounds import has_bounds
from spark_job.iceberg.manifests import known_manifests
from spark_job.iceberg.seams import read_entries


@dataclass(frozen=True, slots=True)
class Wanted:
    """A column, by field id, and the value that it must have, as Iceberg stores it."""

    field_id: int
    kind: IcebergType
    value: Any  # of that type


def may_hold(table: Table, snapshot_ids: Iterable[int | None], key: Sequence[Wanted]) -> dict[str, bool]:
    """For each data file that these snapshots list: whether it may hold the key. Only what is certain is excluded."""
    by_id = {one.snapshot_id: one for one in table.metadata.snapshots}
    snapshots = [by_id[one] for one in snapshot_ids if one in by_id]
    manifests: dict[str, ManifestFile] = {}
    for listed in for_each(lambda one: known_manifests(table.io, one), snapshots, table.location()):
        manifests |= {one.manifest_path: one for one in listed if one.content is ManifestContent.DATA}
    specs = table.specs()
    answers: dict[str, bool] = {}
    for part in for_each(
        lambda one: _judge(table.io, one, specs, key), list(manifests.values()), table.location()
    ):
        answers |= part
    return answers


def _judge(
    io: FileIO, manifest: ManifestFile, specs: Mapping[int, PartitionSpec], key: Sequence[Wanted]
) -> dict[str, bool]:
    spec = specs.get(manifest.partition_spec_id)
    return {
        entry.data_file.file_path: _within_bounds(entry.data_file, key)
        and (spec is None or _in_partition(entry.data_file, spec, key))
        for entry in read_entries(io, manifest)
    }


def _within_bounds(file: DataFile, key: Sequence[Wanted]) -> bool:
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    for one in key:
        least, most = _bound(one, lower), _bound(one, upper)
        if (least is not None and least > one.value) or (most is not None and most < one.value):
            return False
    return True


def _bound(one: Wanted, bounds: Mapping[int, bytes]) -> Any:  # noqa: ANN401 (of the column's type)
    stored = bounds.get(one.field_id)
    if stored is None or not isinstance(one.kind, PrimitiveType) or not has_bounds(one.kind):
        return None
    try:
        found: Any = from_bytes(one.kind, stored)
    except Exception:  # whatever a writer put there: then it proves nothing
        return None
    return found if isinstance(found, type(one.value)) else None


def _in_partition(file: DataFile, spec: PartitionSpec, key: Sequence[Wanted]) -> bool:
    values = {one.field_id: one for one in key}
    for place, field in enumerate(spec.fields):
        one = values.get(field.source_id)
        if one is None or place >= len(file.partition):
            continue
        expected, found = _transformed(field, one), file.partition[place]
        if expected is not None and type(found) is type(expected) and found != expected:
            return False
    return True


def _transformed(field: PartitionField, one: Wanted) -> Any:  # noqa: ANN401 (of the transform's type)
    try:
        return field.transform.transform(one.kind)(one.value)
    except Exception:  # a transform that is not known, say: then it proves nothing
        return None
