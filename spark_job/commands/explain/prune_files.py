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
    iceberg_type: IcebergType
    value: Any  # of that type


def find_candidate_files(
    iceberg_table: Table, snapshot_ids: Iterable[int | None], key: Sequence[KeyColumnValue]
) -> dict[str, bool]:
    """Return for each data file of these snapshots whether it may hold the key; False only if that is certain."""
    snapshots_by_id = {snapshot.snapshot_id: snapshot for snapshot in iceberg_table.metadata.snapshots}
    snapshots = [
        snapshots_by_id[snapshot_id] for snapshot_id in snapshot_ids if snapshot_id in snapshots_by_id
    ]
    manifests: dict[str, ManifestFile] = {}
    for snapshot_manifests in map_parallel(
        lambda snapshot: load_manifests(iceberg_table.io, snapshot), snapshots, iceberg_table.location()
    ):
        manifests |= {
            manifest.manifest_path: manifest
            for manifest in snapshot_manifests
            if manifest.content is ManifestContent.DATA
        }
    specs = iceberg_table.specs()
    candidates: dict[str, bool] = {}
    for manifest_candidates in map_parallel(
        lambda manifest: _prune_manifest(iceberg_table.io, manifest, specs, key),
        list(manifests.values()),
        iceberg_table.location(),
    ):
        candidates |= manifest_candidates
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
        low, high = _read_bound(key_value, lower), _read_bound(key_value, upper)
        if (low is not None and low > key_value.value) or (high is not None and high < key_value.value):
            return False
    return True


def _read_bound(key_value: KeyColumnValue, bounds: Mapping[int, bytes]) -> Any:  # noqa: ANN401 (of the column's type)
    stored_bound, iceberg_type = bounds.get(key_value.field_id), key_value.iceberg_type
    if stored_bound is None or not isinstance(iceberg_type, PrimitiveType) or not has_bounds(iceberg_type):
        return None
    try:
        bound: Any = from_bytes(iceberg_type, stored_bound)
    except Exception:  # an invalid bound proves nothing
        return None
    return bound if isinstance(bound, type(key_value.value)) else None


def _in_partition(file: DataFile, spec: PartitionSpec, key: Sequence[KeyColumnValue]) -> bool:
    values_by_id = {key_value.field_id: key_value for key_value in key}
    for position, field in enumerate(spec.fields):
        key_value = values_by_id.get(field.source_id)
        if key_value is None or position >= len(file.partition):
            continue
        expected, partition_value = _partition_value(field, key_value), file.partition[position]
        if expected is not None and type(partition_value) is type(expected) and partition_value != expected:
            return False
    return True


def _partition_value(field: PartitionField, key_value: KeyColumnValue) -> Any:  # noqa: ANN401 (of the transform's type)
    try:
        return field.transform.transform(key_value.iceberg_type)(key_value.value)
    except Exception:  # for example an unknown transform: proves nothing
        return None
