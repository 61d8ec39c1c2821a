"""Reads and writes manifests and manifest lists, in formats v2 and v3.

PyIceberg 0.12 writes only data manifests of v2, and drops the fields of v3 when it reads. In apache/iceberg-python:
#1078 (merge-on-read deletes), #1551 (v3 writes), #3619 (v3 metadata), #3620 (v3 manifests), #3690 (v3 reads).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import TracebackType
from typing import Any

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriter,
    ManifestWriterV2,
    PartitionFieldSummary,
    _inherit_from_manifest,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.typedef import TableVersion
from pyiceberg.types import DoubleType, FloatType, StructType, UUIDType

from icemirror.errors import Corrupt, Invalid
from spark_job.pyiceberg_private.avro import (
    NO_RECORDS,
    AvroRecordFile,
    AvroRecordReader,
    AvroRecords,
    AvroRecordSchema,
)
from spark_job.pyiceberg_private.lean_metadata import dump_json
from spark_job.pyiceberg_private.v3_fields import (
    NEWEST_VERSION,
    DeleteKey,
    clear_partition_summaries,
    delete_key,
    first_row_id,
    manifest_first_row_id,
    pad_record,
    set_first_row_id,
    set_manifest_first_row_id,
)

_ENTRY_READER = AvroRecordReader(
    MANIFEST_ENTRY_SCHEMAS[NEWEST_VERSION],
    types={-1: ManifestEntry, 2: DataFile},
    enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
)
_WITHOUT_BOUNDS = (UUIDType, FloatType, DoubleType)
_MANIFEST_READER = AvroRecordReader(
    MANIFEST_LIST_FILE_SCHEMAS[NEWEST_VERSION],
    types={-1: ManifestFile, 508: PartitionFieldSummary},
    enums={517: ManifestContent},
)


def enable_v3_metadata() -> None:
    """Patch PyIceberg to write metadata of v3 tables (#3619). It knows all fields; a new table lacks `next-row-id`."""
    TableMetadataV3.model_dump_json = _dump_v3  # type: ignore[method-assign, assignment]


def _dump_v3(metadata: TableMetadataV3, **options: Any) -> str:  # noqa: ANN401 (pydantic's own)
    if metadata.next_row_id is None and not metadata.snapshots:
        metadata = metadata.model_copy(update={"next_row_id": 0})
    next_row_id(metadata)
    return dump_json(metadata, **options)


def next_row_id(metadata: TableMetadata) -> int | None:
    """Return the `_row_id` of the next snapshot's first row; None below v3."""
    if not isinstance(metadata, TableMetadataV3):
        return None
    if metadata.next_row_id is None:
        raise Invalid(
            "the metadata of the v3 table lacks next-row-id, so new rows get no row id. Restore it from an earlier "
            f"metadata file of the table: {metadata.location}"
        )
    return metadata.next_row_id


@dataclass(frozen=True)
class NewManifest:
    """A manifest to write."""

    content: ManifestContent
    spec: PartitionSpec
    schema: Schema
    output: OutputFile
    snapshot_id: int
    codec: AvroCompressionCodec
    format_version: TableVersion = 2


class _Writer(ManifestWriterV2):
    """Writes a manifest of data or deletes, of v2 or v3. PyIceberg writes data manifests of v2 only (#3620)."""

    def __init__(self, new: NewManifest) -> None:
        super().__init__(new.spec, new.schema, new.output, new.snapshot_id, new.codec)
        self._content = new.content
        self._version = new.format_version

    def content(self) -> ManifestContent:
        """Data or deletes."""
        return self._content

    @property
    def version(self) -> TableVersion:
        """The format version."""
        return self._version

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes" if self._content is ManifestContent.DELETES else "data"}

    def new_writer(self) -> AvroRecordFile:  # type: ignore[override]
        """Write one block for all entries. PyIceberg assumes records of v2, and compresses each one separately."""
        entries = _entry_format(self._version, self._spec.partition_type(self._schema))
        return AvroRecordFile(self._output_file, entries, self._meta)

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let an error pass: PyIceberg would replace it by the error that the manifest is empty."""
        if error_type is None:
            super().__exit__(error_type, error, trace)

    def to_manifest_file(self) -> ManifestFile:
        """Return the manifest, without partition summaries where PyIceberg's bounds would hide files from Iceberg Java.

        Java orders uuids differently (apache/iceberg#14216), and Python does not order −0.0 before 0.0. A single
        missing bound would mean that a field has no values, so the summaries of all fields are removed.
        """
        manifest = super().to_manifest_file()
        partition = self._spec.partition_type(self._schema)
        if any(isinstance(field.field_type, _WITHOUT_BOUNDS) for field in partition.fields):
            clear_partition_summaries(manifest)
        return manifest

    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        """Return the entry with as many fields as the format version has."""
        pad_record(entry.data_file, len(DATA_FILE_TYPE[self._version].fields))
        return super().prepare_entry(entry)


@lru_cache(256)
def _entry_format(version: TableVersion, partition: StructType) -> AvroRecordSchema:
    file = data_file_with_partition(partition_type=partition, format_version=version)
    schema = manifest_entry_schema_with_data_file(format_version=version, data_file=file)
    return AvroRecordSchema.from_schema(schema, "manifest_entry")


def write_added_manifest(new: NewManifest, files: list[DataFile]) -> ManifestFile:
    """Write a manifest of files that this snapshot adds; return it."""
    with _Writer(new) as writer:
        _add_files(writer, new.snapshot_id, files)
    return writer.to_manifest_file()


def _add_files(writer: ManifestWriter, snapshot_id: int, files: Sequence[DataFile]) -> None:
    for file in files:
        added = ManifestEntryStatus.ADDED
        writer.add(ManifestEntry.from_args(status=added, snapshot_id=snapshot_id, data_file=file))


def write_merged_manifest(
    new: NewManifest,
    io: FileIO,
    manifests: Sequence[ManifestFile],
    removed: Collection[DeleteKey] = (),
    added: Sequence[DataFile] = (),
) -> ManifestFile:
    """Write one manifest of files that this snapshot adds and of live entries of existing manifests; return it.

    Entries in `removed` are marked as deleted by this snapshot.
    """
    with _Writer(new) as writer:
        _add_files(writer, new.snapshot_id, added)
        for manifest in manifests:
            for entry in read_manifest_entries(io, manifest):
                if delete_key(entry.data_file) in removed:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
    return writer.to_manifest_file()


def write_removed_manifest(new: NewManifest, io: FileIO, manifest: ManifestFile) -> ManifestFile:
    """Write a manifest that marks all live files of another manifest as deleted by this snapshot; return it."""
    with _Writer(new) as writer:
        for entry in read_manifest_entries(io, manifest):
            writer.delete(entry)
    return writer.to_manifest_file()


def decode_manifest_list(io: FileIO, manifest_list: str, previous: AvroRecords = NO_RECORDS) -> AvroRecords:
    """Return the manifests of a snapshot, with the fields of v3.

    Records that `previous`, usually the list of the previous snapshot, ends with are reused.
    """
    return _MANIFEST_READER.read_after(io.new_input(manifest_list), previous)


def read_manifest_entries(
    io: FileIO, manifest: ManifestFile, *, deleted: bool = False
) -> list[ManifestEntry]:
    """Return the live entries of a manifest, with the fields of v3 and the values that they inherit.

    `deleted`: also return entries that are marked as deleted.
    """
    all_entries: list[ManifestEntry] = _ENTRY_READER.read(io.new_input(manifest.manifest_path))
    _check_counts(manifest, all_entries)
    entries = [
        _inherit_from_manifest(entry, manifest)
        for entry in all_entries
        if deleted or entry.status is not ManifestEntryStatus.DELETED
    ]
    next_id = manifest_first_row_id(manifest) if manifest.content is ManifestContent.DATA else None
    if next_id is not None:
        for entry in entries:  # the spec, "First Row ID Inheritance"
            if entry.status is not ManifestEntryStatus.DELETED and first_row_id(entry.data_file) is None:
                set_first_row_id(entry.data_file, next_id)
                next_id += entry.data_file.record_count
    return entries


def _check_counts(manifest: ManifestFile, entries: list[ManifestEntry]) -> None:
    """Raise `Corrupt` if the manifest list states another number of live files. In format v1 counts are optional."""
    added, existing = manifest.added_files_count, manifest.existing_files_count
    live = sum(entry.status is not ManifestEntryStatus.DELETED for entry in entries)
    if added is not None and existing is not None and live != added + existing:
        raise Corrupt(
            f"the manifest has {live} live files, but the manifest list states {added + existing}: "
            f"{manifest.manifest_path}"
        )


@dataclass(frozen=True)
class NewManifestList:
    """A manifest list to write. `first_row_id` is the table's `next-row-id`; None below v3."""

    output: OutputFile
    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    codec: AvroCompressionCodec
    first_row_id: int | None = None


@cache
def _list_format(version: TableVersion) -> AvroRecordSchema:
    return AvroRecordSchema.from_schema(MANIFEST_LIST_FILE_SCHEMAS[version], "manifest_file")


class _ListWriter(ManifestListWriterV2):
    """Writes a manifest list of v2, or of v3 with first row ids assigned to new data manifests."""

    def __init__(self, new: NewManifestList) -> None:
        super().__init__(new.output, new.snapshot_id, new.parent_id, new.sequence_number, new.codec)
        self.next_row_id = new.first_row_id
        if new.first_row_id is not None:
            self._format_version = NEWEST_VERSION
            self._meta |= {"format-version": str(NEWEST_VERSION), "first-row-id": str(new.first_row_id)}

    def __enter__(self) -> _ListWriter:
        """Open the file. PyIceberg assumes records of v2."""
        manifests = _list_format(self._format_version)
        self._writer = AvroRecordFile(self._output_file, manifests, self._meta)  # type: ignore[assignment]
        return self

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        """Return a copy of the manifest with its first row id; the spec, "First Row ID Assignment"."""
        manifest = super().prepare_manifest(ManifestFile(*manifest_file._data))  # the argument is shared
        if self.next_row_id is None:
            return manifest
        pad_record(manifest, len(MANIFEST_LIST_FILE_SCHEMAS[NEWEST_VERSION].fields))
        if manifest.content is ManifestContent.DATA and manifest_first_row_id(manifest) is None:
            set_manifest_first_row_id(manifest, self.next_row_id)
            self.next_row_id += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        return manifest


def write_manifest_list(new: NewManifestList, manifests: list[ManifestFile]) -> int | None:
    """Write the manifest list of a snapshot. Return the table's `next-row-id` after it; None below v3."""
    with _ListWriter(new) as writer:
        writer.add_manifests(manifests)
    return writer.next_row_id
