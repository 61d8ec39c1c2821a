"""Every part of PyIceberg that is not its public interface, in one place.

They changed in 0.10, 0.11 and 0.12, so the version is pinned; `tests/unit/iceberg/test_seams.py` names what
is relied on, so that an upgrade fails loudly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.io.pyarrow import ParquetFormatModel
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


def write_parquet(
    output: OutputFile, schema: Schema, properties: Properties, table: pa.Table
) -> dict[str, Any]:
    """Writes a data file by the table's own properties; its statistics as `DataFile.from_args` takes them."""
    with ParquetFormatModel().create_writer(output, schema, properties) as writer:
        writer.write(table)
    return dict(writer.result().to_serialized_dict())
