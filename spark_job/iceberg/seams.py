"""Every part of PyIceberg that is not its public interface, in one place.

They changed in 0.10, 0.11 and 0.12, so the version is pinned; `tests/unit/iceberg/test_seams.py` names what
is relied on, so that an upgrade fails loudly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    _get_parquet_writer_kwargs,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    read_manifest_list,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Properties

from icemirror.errors import Invalid


@dataclass(frozen=True)
class NewManifest:
    """A manifest to write."""

    content: ManifestContent
    spec: PartitionSpec
    schema: Schema
    output: OutputFile
    snapshot_id: int
    codec: AvroCompressionCodec


class _Writer(ManifestWriterV2):
    """Writes a v2 manifest of either content; PyIceberg itself writes data manifests only."""

    def __init__(self, new: NewManifest) -> None:
        super().__init__(new.spec, new.schema, new.output, new.snapshot_id, new.codec)
        self._content = new.content

    def content(self) -> ManifestContent:
        """Data or deletes."""
        return self._content

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes" if self._content is ManifestContent.DELETES else "data"}


def write_added(new: NewManifest, files: list[DataFile]) -> ManifestFile:
    """A manifest of files that this snapshot adds."""
    with _Writer(new) as writer:
        for file in files:
            added = ManifestEntryStatus.ADDED
            writer.add(ManifestEntry.from_args(status=added, snapshot_id=new.snapshot_id, data_file=file))
    return writer.to_manifest_file()


def write_merged(new: NewManifest, io: FileIO, manifests: list[ManifestFile]) -> ManifestFile:
    """One manifest with the live entries of several, which keep their snapshots and sequence numbers."""
    with _Writer(new) as writer:
        for manifest in manifests:
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
                writer.existing(entry)
    return writer.to_manifest_file()


def list_manifests(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    """The manifests of a snapshot."""
    return list(read_manifest_list(io.new_input(manifest_list)))


def write_list(
    output: OutputFile,
    snapshot_id: int,
    parent_id: int | None,
    sequence_number: int,
    codec: AvroCompressionCodec,
    manifests: list[ManifestFile],
) -> None:
    """The manifest list of a v2 snapshot."""
    with write_manifest_list(2, output, snapshot_id, parent_id, sequence_number, codec) as writer:
        writer.add_manifests(manifests)


@dataclass
class FileStatistics:
    """What a manifest says of a data file's columns, by field id."""

    rows: int
    split_offsets: list[int]
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]

    def arguments(self) -> dict[str, Any]:
        """As `DataFile.from_args` takes them."""
        return {
            "record_count": self.rows,
            "split_offsets": self.split_offsets,
            "column_sizes": self.column_sizes,
            "value_counts": self.value_counts,
            "null_value_counts": self.null_value_counts,
            "nan_value_counts": self.nan_value_counts,
            "lower_bounds": self.lower_bounds,
            "upper_bounds": self.upper_bounds,
        }


def file_statistics(
    footer: pq.FileMetaData, schema: Schema, properties: Properties, without: set[int]
) -> FileStatistics:
    """The statistics of a file that was written, as the table's metrics modes ask for; none of some columns."""
    plan = compute_statistics_plan(schema, properties)
    for field_id in without:
        plan[field_id] = replace(plan[field_id], mode=MetricsMode(MetricModeTypes.NONE))
    found = data_file_statistics_from_parquet_metadata(footer, plan, parquet_path_to_id_mapping(schema))
    aggregates = found.column_aggregates.items()
    return FileStatistics(
        rows=found.record_count,
        split_offsets=found.split_offsets,
        column_sizes=found.column_sizes,
        value_counts=found.value_counts,
        null_value_counts=found.null_value_counts,
        nan_value_counts=found.nan_value_counts,
        lower_bounds=_bounds((field_id, aggregate.min_as_bytes) for field_id, aggregate in aggregates),
        upper_bounds=_bounds((field_id, aggregate.max_as_bytes) for field_id, aggregate in aggregates),
    )


def _bounds(found: Iterable[tuple[int, Callable[[], bytes | None]]]) -> dict[int, bytes]:
    bounds: dict[int, bytes] = {}
    for field_id, compute in found:
        # The upper bound of a truncated text counts its last character up, into what UTF-8 cannot say after U+D7FF.
        with suppress(UnicodeEncodeError):
            bound = compute()
            if bound is not None:
                bounds[field_id] = bound
    return bounds


def parquet_column_ids(schema: Schema) -> dict[str, int]:
    """Path of a Parquet column → field id."""
    return dict(parquet_path_to_id_mapping(schema))


def parquet_options(properties: Properties) -> dict[str, Any]:
    """The table's `write.parquet.*` properties as PyArrow's arguments."""
    try:
        return dict(_get_parquet_writer_kwargs(properties))
    except ValueError as error:
        raise Invalid(f"{error}. Correct it in the table's properties.") from error
