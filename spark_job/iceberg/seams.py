"""What the manifests need of PyIceberg that is not its public interface; the other files that do: docs/architecture.md.

Such parts changed in 0.10, 0.11 and 0.12, so the version is pinned; `tests/unit/iceberg/test_seams.py` names what
is relied on, so that an upgrade fails loudly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import TracebackType
from typing import Any

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.io.pyarrow import parquet_path_to_id_mapping
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
from pyiceberg.table import update as updates
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.typedef import TableVersion
from pyiceberg.types import DoubleType, FloatType, StructType, UUIDType

from icemirror.errors import Corrupt, Invalid
from spark_job.iceberg.avro import NOTHING, Decoded, RecordFile, RecordFormat, RecordReader
from spark_job.iceberg.lean_metadata import dump_json
from spark_job.iceberg.v3_fields import (
    NEWEST,
    DeleteKey,
    delete_key,
    first_row_id,
    forget_partitions,
    manifest_first_row_id,
    pad,
    set_first_row_id,
    set_manifest_first_row_id,
)

_ENTRIES = RecordReader(
    MANIFEST_ENTRY_SCHEMAS[NEWEST],
    types={-1: ManifestEntry, 2: DataFile},
    enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
)
_WITHOUT_BOUNDS = (UUIDType, FloatType, DoubleType)
_MANIFESTS = RecordReader(
    MANIFEST_LIST_FILE_SCHEMAS[NEWEST],
    types={-1: ManifestFile, 508: PartitionFieldSummary},
    enums={517: ManifestContent},
)


def allow_v3_metadata() -> None:
    """Lets PyIceberg write the metadata of v3 tables, all of which it knows but for `next-row-id` of a new one."""
    TableMetadataV3.model_dump_json = _dump_v3  # type: ignore[method-assign, assignment]


def _dump_v3(metadata: TableMetadataV3, **options: Any) -> str:  # noqa: ANN401 (pydantic's own)
    if metadata.next_row_id is None and not metadata.snapshots:
        metadata = metadata.model_copy(update={"next_row_id": 0})
    next_row_id(metadata)
    return dump_json(metadata, **options)


def next_row_id(metadata: TableMetadata) -> int | None:
    """What the first new row of the next snapshot is numbered; None below v3."""
    if not isinstance(metadata, TableMetadataV3):
        return None
    if metadata.next_row_id is None:
        raise Invalid(
            f"{metadata.location}: the metadata of this v3 table lacks next-row-id, so new rows cannot be numbered. "
            "Restore it from an earlier metadata file of the table."
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
    """Writes a manifest of either content, also of v3; PyIceberg itself writes data manifests of v2 only."""

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

    def new_writer(self) -> RecordFile:  # type: ignore[override]
        """One block for all entries; PyIceberg's own takes records for those of v2, and compresses each by itself."""
        entries = _entry_format(self._version, self._spec.partition_type(self._schema))
        return RecordFile(self._output_file, entries, self._meta)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """PyIceberg's own would say that the manifest is empty, instead of why."""
        if kind is None:
            super().__exit__(kind, error, trace)

    def to_manifest_file(self) -> ManifestFile:
        """The manifest; without bounds of its partitions where those of PyIceberg would hide some from Iceberg Java.

        Java has another order of uuids (apache/iceberg#14216), and for Python −0.0 is not less than 0.0. One bound that
        is left out would mean that there are no values, so there is none of any partition field.
        """
        manifest = super().to_manifest_file()
        partition = self._spec.partition_type(self._schema)
        if any(isinstance(one.field_type, _WITHOUT_BOUNDS) for one in partition.fields):
            forget_partitions(manifest)
        return manifest

    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        """The entry with as many fields as the version has."""
        pad(entry.data_file, len(DATA_FILE_TYPE[self._version].fields))
        return super().prepare_entry(entry)


@lru_cache(256)
def _entry_format(version: TableVersion, partition: StructType) -> RecordFormat:
    file = data_file_with_partition(partition_type=partition, format_version=version)
    schema = manifest_entry_schema_with_data_file(format_version=version, data_file=file)
    return RecordFormat.of(schema, "manifest_entry")


def write_added(new: NewManifest, files: list[DataFile]) -> ManifestFile:
    """A manifest of files that this snapshot adds."""
    with _Writer(new) as writer:
        _add(writer, new.snapshot_id, files)
    return writer.to_manifest_file()


def _add(writer: ManifestWriter, snapshot_id: int, files: Sequence[DataFile]) -> None:
    for file in files:
        added = ManifestEntryStatus.ADDED
        writer.add(ManifestEntry.from_args(status=added, snapshot_id=snapshot_id, data_file=file))


def write_merged(
    new: NewManifest,
    io: FileIO,
    manifests: Sequence[ManifestFile],
    gone: Collection[DeleteKey] = (),
    added: Sequence[DataFile] = (),
) -> ManifestFile:
    """One manifest of files that this snapshot adds, with the live entries of others, which stay what they are.

    Entries of `gone` are named once more, as deleted by this snapshot.
    """
    with _Writer(new) as writer:
        _add(writer, new.snapshot_id, added)
        for manifest in manifests:
            for entry in read_entries(io, manifest):
                if delete_key(entry.data_file) in gone:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
    return writer.to_manifest_file()


def write_removed(new: NewManifest, io: FileIO, manifest: ManifestFile) -> ManifestFile:
    """A manifest that names all live files of another one as deleted by this snapshot."""
    with _Writer(new) as writer:
        for entry in read_entries(io, manifest):
            writer.delete(entry)
    return writer.to_manifest_file()


def list_manifests_after(io: FileIO, manifest_list: str, before: Decoded = NOTHING) -> Decoded:
    """The manifests of a snapshot, with the fields of v3.

    What another list, most likely that of the snapshot before, ends with is taken over.
    """
    return _MANIFESTS.read_after(io.new_input(manifest_list), before)


def read_entries(io: FileIO, manifest: ManifestFile, *, deleted: bool = False) -> list[ManifestEntry]:
    """The live entries of a manifest, with the fields of v3 (PyIceberg drops them) and what they inherit.

    `deleted`: those as well that it names as taken away.
    """
    every: list[ManifestEntry] = _ENTRIES.read(io.new_input(manifest.manifest_path))
    _check_counts(manifest, every)
    entries = [
        _inherit_from_manifest(entry, manifest)
        for entry in every
        if deleted or entry.status is not ManifestEntryStatus.DELETED
    ]
    number = manifest_first_row_id(manifest) if manifest.content is ManifestContent.DATA else None
    if number is not None:
        for entry in entries:  # the spec, "First Row ID Inheritance"
            if entry.status is not ManifestEntryStatus.DELETED and first_row_id(entry.data_file) is None:
                set_first_row_id(entry.data_file, number)
                number += entry.data_file.record_count
    return entries


def _check_counts(manifest: ManifestFile, entries: list[ManifestEntry]) -> None:
    """As many live files as the manifest list says; tables of format v1 need not say."""
    added, existing = manifest.added_files_count, manifest.existing_files_count
    live = sum(entry.status is not ManifestEntryStatus.DELETED for entry in entries)
    if added is not None and existing is not None and live != added + existing:
        raise Corrupt(
            f"{manifest.manifest_path}: names {live} files, although the manifest list says {added + existing}"
        )


@dataclass(frozen=True)
class NewList:
    """A manifest list to write. `first_row_id` is the table's `next-row-id`; None below v3."""

    output: OutputFile
    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    codec: AvroCompressionCodec
    first_row_id: int | None = None


@cache
def _list_format(version: TableVersion) -> RecordFormat:
    return RecordFormat.of(MANIFEST_LIST_FILE_SCHEMAS[version], "manifest_file")


class _ListWriter(ManifestListWriterV2):
    """Writes a list of v2, or of v3 with data manifests numbered on from the first row id."""

    def __init__(self, new: NewList) -> None:
        super().__init__(new.output, new.snapshot_id, new.parent_id, new.sequence_number, new.codec)
        self.next_row_id = new.first_row_id
        if new.first_row_id is not None:
            self._format_version = NEWEST
            self._meta |= {"format-version": str(NEWEST), "first-row-id": str(new.first_row_id)}

    def __enter__(self) -> _ListWriter:
        """PyIceberg's own takes records for those of v2."""
        manifests = _list_format(self._format_version)
        self._writer = RecordFile(self._output_file, manifests, self._meta)  # type: ignore[assignment]
        return self

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        """The manifest with its numbers; the spec, "First Row ID Assignment"."""
        manifest = super().prepare_manifest(
            ManifestFile(*manifest_file._data)
        )  # others may hold the one given
        if self.next_row_id is None:
            return manifest
        pad(manifest, len(MANIFEST_LIST_FILE_SCHEMAS[NEWEST].fields))
        if manifest.content is ManifestContent.DATA and manifest_first_row_id(manifest) is None:
            set_manifest_first_row_id(manifest, self.next_row_id)
            self.next_row_id += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        return manifest


def write_list(new: NewList, manifests: list[ManifestFile]) -> int | None:
    """The manifest list of a snapshot; the table's `next-row-id` after it, None below v3."""
    with _ListWriter(new) as writer:
        writer.add_manifests(manifests)
    return writer.next_row_id


def refused_updates(error: BaseException) -> bool:
    """Whether PyIceberg did not take the updates of a commit, which it applies before it sends anything."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = trace.tb_frame.f_globals.get("__name__") if trace is not None else None
    return isinstance(error, ValueError) and where == updates.__name__


def parquet_column_ids(schema: Schema) -> dict[str, int]:
    """Path of a Parquet column → field id."""
    return dict(parquet_path_to_id_mapping(schema))
