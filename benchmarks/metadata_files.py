"""Measures the hand-written readers and writers of metadata against PyIceberg's, in one process and one run.

    python -m benchmarks.metadata_files

The decision records 0021 (Avro containers) and 0022 (lean table metadata) quote its output.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV2
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import IcebergBaseModel, Record
from pyiceberg.types import LongType, NestedField, StringType

from benchmarks.machine import describe_machine
from spark_job.pyiceberg_private import lean_metadata
from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    NewManifestList,
    decode_manifest_list,
    read_manifest_entries,
    write_added_manifest,
)
from spark_job.pyiceberg_private.manifest_files import write_manifest_list as write_our_list

_RUNS = 7
_FILES = 1_000
_MANIFESTS = 1_000
_SNAPSHOTS = 1_000
_SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))


def main() -> None:
    """Print one line per operation: PyIceberg's time, ours, and the ratio."""
    machine = describe_machine({})
    packages = ", ".join(f"{name} {machine.versions[name]}" for name in ("Python", "pyiceberg"))
    print(f"{machine.cpu}, {machine.cores} cores, {packages}; median of {_RUNS} runs")
    with TemporaryDirectory() as folder:
        _measure_manifests(Path(folder))
        _measure_lists(Path(folder))
    _measure_metadata()


def _compare(
    name: str, theirs: Callable[[], Any], ours: Callable[[], Any]
) -> None:  # Any: the result is not used
    times: dict[str, list[float]] = {"theirs": [], "ours": []}
    for _ in range(_RUNS):  # alternating, so that noise hits both
        for key, call in (("theirs", theirs), ("ours", ours)):
            started = time.perf_counter()
            call()
            times[key].append(time.perf_counter() - started)
    slow, fast = median(times["theirs"]) * 1000, median(times["ours"]) * 1000
    print(f"{name:<58} PyIceberg {slow:8.1f} ms   ours {fast:8.1f} ms   ratio {slow / fast:5.1f}")


def _data_file(number: int) -> DataFile:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"s3://bucket/warehouse/shop/orders/data/{number:08}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=10_000 + number,
        file_size_in_bytes=1_000_000 + number,
        column_sizes={1: 40_000, 2: 90_000},
        value_counts={1: 10_000, 2: 10_000},
        null_value_counts={1: 0, 2: 3},
        nan_value_counts={},
        lower_bounds={1: number.to_bytes(8, "little"), 2: b"aaaa"},
        upper_bounds={1: (number + 9_999).to_bytes(8, "little"), 2: b"zzzz"},
        split_offsets=[4],
    )
    file.spec_id = 0
    return file


def _measure_manifests(folder: Path) -> None:
    io, files = PyArrowFileIO(), [_data_file(number) for number in range(_FILES)]

    def write_theirs() -> ManifestFile:
        output = io.new_output(str(folder / "theirs.avro"))
        with write_manifest(2, UNPARTITIONED_PARTITION_SPEC, _SCHEMA, output, 1, "deflate") as writer:
            for file in files:
                added = ManifestEntryStatus.ADDED
                writer.add_entry(ManifestEntry.from_args(status=added, snapshot_id=1, data_file=file))
        return writer.to_manifest_file()

    def write_ours() -> ManifestFile:
        output = io.new_output(str(folder / "ours.avro"))
        spec = UNPARTITIONED_PARTITION_SPEC
        return write_added_manifest(
            NewManifest(ManifestContent.DATA, spec, _SCHEMA, output, 1, "deflate"), files
        )

    theirs, ours = write_theirs(), write_ours()
    _compare(f"write a manifest of {_FILES:,} files", write_theirs, write_ours)
    _compare(
        f"read a manifest of {_FILES:,} files",
        lambda: theirs.fetch_manifest_entry(io),
        lambda: read_manifest_entries(io, ours),
    )
    sizes = [(folder / name).stat().st_size for name in ("theirs.avro", "ours.avro")]
    print(f"{'size of that manifest':<58} PyIceberg {sizes[0]:8,} B    ours {sizes[1]:8,} B")


def _measure_lists(folder: Path) -> None:
    """Measure the manifest list of the next commit: one new manifest before the existing ones."""
    io = PyArrowFileIO()
    manifests = [
        ManifestFile.from_args(
            manifest_path=f"s3://bucket/warehouse/shop/orders/metadata/{number:08}-m0.avro",
            manifest_length=7_000 + number,
            partition_spec_id=0,
            content=ManifestContent.DATA,
            sequence_number=number,
            min_sequence_number=number,
            added_snapshot_id=number,
            added_files_count=1,
            existing_files_count=0,
            deleted_files_count=0,
            added_rows_count=1_000,
            existing_rows_count=0,
            deleted_rows_count=0,
            partitions=[],
        )
        for number in range(_MANIFESTS, 0, -1)
    ]

    def write_theirs() -> None:
        output = io.new_output(str(folder / "theirs-list.avro"))
        with write_manifest_list(2, output, _MANIFESTS + 1, _MANIFESTS, _MANIFESTS + 1, "deflate") as writer:
            writer.add_manifests(manifests)

    def write_ours(name: str = "ours-list.avro", skip: int = 0) -> None:
        output = io.new_output(str(folder / name))
        new = NewManifestList(output, _MANIFESTS + 1, _MANIFESTS, _MANIFESTS + 1, "deflate")
        write_our_list(new, manifests[skip:])

    write_theirs()
    write_ours()
    write_ours("before-list.avro", 1)
    before = decode_manifest_list(io, str(folder / "before-list.avro"))
    _compare(f"write a manifest list of {_MANIFESTS:,} manifests", write_theirs, write_ours)
    _compare(
        f"read a manifest list of {_MANIFESTS:,} manifests, 1 of them new",
        lambda: list(read_manifest_list(io.new_input(str(folder / "theirs-list.avro")))),
        lambda: decode_manifest_list(io, str(folder / "ours-list.avro"), before),
    )


def _snapshot(number: int) -> Snapshot:
    return Snapshot.model_validate(
        {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 or None,
            "sequence-number": number,
            "timestamp-ms": 1_700_000_000_000 + number,
            "manifest-list": f"s3://bucket/warehouse/shop/orders/metadata/snap-{number}.avro",
            "summary": {
                "operation": "append",
                **{f"property-{index}": str(number * index) for index in range(15)},
            },
            "schema-id": 0,
        }
    )


def _log_entry(snapshot: Snapshot) -> SnapshotLogEntry:
    return SnapshotLogEntry.model_validate(
        {"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.timestamp_ms}
    )


def _measure_metadata() -> None:
    """Measure one of many commits: load the table, copy it with one more snapshot, and serialize it."""
    snapshots = [_snapshot(number) for number in range(1, _SNAPSHOTS + 1)]
    metadata = TableMetadataV2.model_validate(
        {
            "location": "s3://bucket/warehouse/shop/orders",
            "table-uuid": "0196f2b8-1c7e-7d0e-9a3b-5c2d1e0f4a5b",
            "last-column-id": 2,
            "schemas": [_SCHEMA],
            "partition-specs": [UNPARTITIONED_PARTITION_SPEC],
            "sort-orders": [UNSORTED_SORT_ORDER],
            "snapshots": snapshots,
            "snapshot-log": [_log_entry(snapshot) for snapshot in snapshots],
            "current-snapshot-id": _SNAPSHOTS,
            "last-sequence-number": _SNAPSHOTS,
        }
    )
    parse_theirs, copy_theirs = TableMetadataUtil.parse_raw, TableMetadataV2.__deepcopy__
    next_id = iter(range(_SNAPSHOTS + 1, 10**9))

    def add_snapshot() -> str:
        number = next(next_id)
        snapshot = _snapshot(number)
        metadata.snapshots.append(snapshot)
        metadata.snapshot_log.append(_log_entry(snapshot))
        return IcebergBaseModel.model_dump_json(metadata)

    texts = [add_snapshot() for _ in range(_RUNS + 1)]
    lean_metadata.install()
    TableMetadataUtil.parse_raw(texts[0])
    unread = iter(texts[1:]), iter(texts[1:])
    _compare(
        f"load metadata of {_SNAPSHOTS:,} snapshots, 1 of them new",
        lambda: parse_theirs(next(unread[0])),
        lambda: TableMetadataUtil.parse_raw(next(unread[1])),
    )
    _compare(
        "copy that metadata",
        lambda: copy_theirs(metadata, {}),
        lambda: copy.deepcopy(metadata),
    )
    lean_metadata.dump_json(metadata)

    def dump_ours() -> None:
        metadata.snapshots.append(_snapshot(next(next_id)))
        lean_metadata.dump_json(metadata)

    _compare("serialize that metadata", lambda: IcebergBaseModel.model_dump_json(metadata), dump_ours)


if __name__ == "__main__":
    main()
