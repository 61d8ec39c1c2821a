"""Every part of PyIceberg that is not its public interface, in one place.

They changed in 0.10, 0.11 and 0.12, so the version is pinned; `tests/unit/iceberg/test_seams.py` names what
is relied on, so that an upgrade fails loudly.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from pyiceberg.avro.codecs import AvroCompressionCodec
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import SYNC_SIZE, AvroFile, AvroOutputFile, Block
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
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
    ManifestWriterV2,
    PartitionFieldSummary,
    _inherit_from_manifest,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import update as updates
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.typedef import IcebergBaseModel, TableVersion

from icemirror.errors import Corrupt, Invalid, Transient
from spark_job.iceberg.v3_fields import (
    NEWEST,
    DeleteKey,
    delete_key,
    first_row_id,
    manifest_first_row_id,
    pad,
    set_first_row_id,
    set_manifest_first_row_id,
)


def allow_v3_metadata() -> None:
    """Lets PyIceberg write the metadata of v3 tables, all of which it knows but for `next-row-id` of a new one."""
    TableMetadataV3.model_dump_json = _dump_v3  # type: ignore[method-assign, assignment]


def _dump_v3(metadata: TableMetadataV3, **options: Any) -> str:  # noqa: ANN401 (pydantic's own)
    if metadata.next_row_id is None and not metadata.snapshots:
        metadata = metadata.model_copy(update={"next_row_id": 0})
    next_row_id(metadata)
    return IcebergBaseModel.model_dump_json(metadata, **options)


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

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """PyIceberg's own takes records for those of v2."""
        schema = self._with_partition(self._version)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )

    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        """The entry with as many fields as the version has."""
        pad(entry.data_file, len(DATA_FILE_TYPE[self._version].fields))
        return super().prepare_entry(entry)


def write_added(new: NewManifest, files: list[DataFile]) -> ManifestFile:
    """A manifest of files that this snapshot adds."""
    with _Writer(new) as writer:
        for file in files:
            added = ManifestEntryStatus.ADDED
            writer.add(ManifestEntry.from_args(status=added, snapshot_id=new.snapshot_id, data_file=file))
    return writer.to_manifest_file()


def write_merged(
    new: NewManifest, io: FileIO, manifests: list[ManifestFile], gone: Collection[DeleteKey] = ()
) -> ManifestFile:
    """One manifest with the live entries of several, which keep their snapshots and sequence numbers.

    Entries of `gone` are named once more, as deleted by this snapshot.
    """
    with _Writer(new) as writer:
        for manifest in manifests:
            for entry in read_entries(io, manifest):
                if delete_key(entry.data_file) in gone:
                    writer.delete(entry)
                else:
                    writer.existing(entry)
    return writer.to_manifest_file()


def list_manifests(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    """The manifests of a snapshot, with the fields of v3."""
    manifests: list[ManifestFile] = _read_avro(
        io,
        manifest_list,
        MANIFEST_LIST_FILE_SCHEMAS[NEWEST],
        {-1: ManifestFile, 508: PartitionFieldSummary},
        {517: ManifestContent},
    )
    return manifests


def read_entries(io: FileIO, manifest: ManifestFile, *, deleted: bool = False) -> list[ManifestEntry]:
    """The live entries of a manifest, with the fields of v3 (PyIceberg drops them) and what they inherit.

    `deleted`: those too that it names as deleted.
    """
    every: list[ManifestEntry] = _read_avro(
        io,
        manifest.manifest_path,
        MANIFEST_ENTRY_SCHEMAS[NEWEST],
        {-1: ManifestEntry, 2: DataFile},
        {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    )
    _check_counts(manifest, every)
    entries = [
        _inherit_from_manifest(entry, manifest)
        for entry in every
        if deleted or entry.status != ManifestEntryStatus.DELETED
    ]
    number = manifest_first_row_id(manifest) if manifest.content is ManifestContent.DATA else None
    if number is not None:
        for entry in entries:  # the spec, "First Row ID Inheritance"
            if entry.status != ManifestEntryStatus.DELETED and first_row_id(entry.data_file) is None:
                set_first_row_id(entry.data_file, number)
                number += entry.data_file.record_count
    return entries


def _check_counts(manifest: ManifestFile, entries: list[ManifestEntry]) -> None:
    """As many live files as the manifest list says; tables of format v1 need not say."""
    added, existing = manifest.added_files_count, manifest.existing_files_count
    live = sum(entry.status != ManifestEntryStatus.DELETED for entry in entries)
    if added is not None and existing is not None and live != added + existing:
        raise Corrupt(
            f"{manifest.manifest_path}: names {live} files, although the manifest list says {added + existing}"
        )


def _read_avro(
    io: FileIO, path: str, schema: Schema, types: dict[int, Any], enums: dict[int, Any]
) -> list[Any]:
    """The records of an Avro file. It has no checksums, but must at least be whole."""
    source = io.new_input(path)
    with source.open() as stream:
        content = stream.read()
    try:
        with _WholeFile(_Content(path, content), schema, types, enums) as reader:
            return list(reader)
    except Exception as error:  # storage has done its part: whatever the decoder stumbles over is damage
        if len(content) < len(source):
            raise Transient(f"{path}: storage gave {len(content)} bytes of {len(source)}") from error
        raise Corrupt(f"{path}: the Avro file is damaged ({type(error).__name__})") from error


class _Content(InputFile):
    """What was read of a file."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self.content = content

    def __len__(self) -> int:
        return len(self.content)

    def exists(self) -> bool:
        """It was there."""
        return True

    def open(self, seekable: bool = True) -> InputStream:
        """From the beginning."""
        return BytesIO(self.content)


class _WholeFile(AvroFile[Any]):
    """An Avro file that is read to its very end: for PyIceberg one that was cut is one with fewer records."""

    input_file: _Content
    block_bytes = 0

    def __next__(self) -> Any:  # noqa: ANN401 (of the type that was asked for)
        """The next record."""
        while self.block is None or not self.block.has_next():
            self._next_block()
        return next(self.block)

    def _next_block(self) -> None:
        if self.block is not None and (
            self.block.block_decoder.tell() != self.block_bytes
            or self.decoder.read(SYNC_SIZE) != self.header.sync
        ):
            raise ValueError("a block does not end where it should")
        if self.decoder.tell() == len(self.input_file):
            raise StopIteration
        records, content = self.decoder.read_int(), self.decoder.read_bytes()
        codec = self.header.compression_codec()
        content = codec.decompress(content) if codec else content
        if records < 0:
            raise ValueError("a block has less than no records")
        self.block, self.block_bytes = Block(self.reader, records, new_decoder(content)), len(content)


@dataclass(frozen=True)
class NewList:
    """A manifest list to write. `first_row_id` is the table's `next-row-id`; None below v3."""

    output: OutputFile
    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    codec: AvroCompressionCodec
    first_row_id: int | None = None


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
        schema = MANIFEST_LIST_FILE_SCHEMAS[self._format_version]
        self._writer = AvroOutputFile[ManifestFile](
            output_file=self._output_file,
            record_schema=schema,
            file_schema=schema,
            schema_name="manifest_file",
            metadata=self._meta,
        )
        self._writer.__enter__()
        return self

    def prepare_manifest(self, manifest_file: ManifestFile) -> ManifestFile:
        """The manifest with its numbers; the spec, "First Row ID Assignment"."""
        manifest = super().prepare_manifest(manifest_file)
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
