"""Prunes data files that cannot hold a row of one key, by the bounds and partitions in the manifests."""

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

from spark_job.iceberg.manifests import load_manifests
from spark_job.pyiceberg_private.manifest_files import read_manifest_entries
from spark_job.storage.parallel import map_parallel
from spark_job.write.file_statistics import has_bounds


@dataclass(frozen=True, slots=True)
class KeyColumnValue:
    """The value of one key column, by field id, as Iceberg stores it."""

    field_id: int
    kind: IcebergType
    value: Any  # of that type


def find_candidate_files(
    table: Table, snapshot_ids: Iterable[int | None], key: Sequence[KeyColumnValue]
) -> dict[str, bool]:
    """Return for each data file of these snapshots whether it may hold the key; False only if that is certain."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshots = [by_id[snapshot_id] for snapshot_id in snapshot_ids if snapshot_id in by_id]
    manifests: dict[str, ManifestFile] = {}
    for listed in map_parallel(
        lambda snapshot: load_manifests(table.io, snapshot), snapshots, table.location()
    ):
        manifests |= {
            manifest.manifest_path: manifest
            for manifest in listed
            if manifest.content is ManifestContent.DATA
        }
    specs = table.specs()
    candidates: dict[str, bool] = {}
    for part in map_parallel(
        lambda manifest: _prune_manifest(table.io, manifest, specs, key),
        list(manifests.values()),
        table.location(),
    ):
        candidates |= part
    return candidates


def _prune_manifest(
    io: FileIO, manifest: ManifestFile, specs: Mapping[int, PartitionSpec], key: Sequence[KeyColumnValue]
) -> dict[str, bool]:
    spec = specs.get(manifest.partition_spec_id)
    return {
        entry.data_file.file_path: _within_bounds(entry.data_file, key)
        and (spec is None or _in_partition(entry.data_file, spec, key))
        for entry in read_manifest_entries(io, manifest)
    }


def _within_bounds(file: DataFile, key: Sequence[KeyColumnValue]) -> bool:
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    for key_value in key:
        low, high = _bound(key_value, lower), _bound(key_value, upper)
        if (low is not None and low > key_value.value) or (high is not None and high < key_value.value):
            return False
    return True


def _bound(key_value: KeyColumnValue, bounds: Mapping[int, bytes]) -> Any:  # noqa: ANN401 (of the column's type)
    stored = bounds.get(key_value.field_id)
    if stored is None or not isinstance(key_value.kind, PrimitiveType) or not has_bounds(key_value.kind):
        return None
    try:
        found: Any = from_bytes(key_value.kind, stored)
    except Exception:  # an invalid bound proves nothing
        return None
    return found if isinstance(found, type(key_value.value)) else None


def _in_partition(file: DataFile, spec: PartitionSpec, key: Sequence[KeyColumnValue]) -> bool:
    values = {key_value.field_id: key_value for key_value in key}
    for at, field in enumerate(spec.fields):
        key_value = values.get(field.source_id)
        if key_value is None or at >= len(file.partition):
            continue
        expected, found = _transformed(field, key_value), file.partition[at]
        if expected is not None and type(found) is type(expected) and found != expected:
            return False
    return True


def _transformed(field: PartitionField, key_value: KeyColumnValue) -> Any:  # noqa: ANN401 (of the transform's type)
    try:
        return field.transform.transform(key_value.kind)(key_value.value)
    except Exception:  # for example an unknown transform: proves nothing
        return None
