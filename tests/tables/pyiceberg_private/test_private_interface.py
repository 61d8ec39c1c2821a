"""The private interfaces of PyIceberg that the job uses; an upgrade that changes one fails here."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.resolver import ReadSchemaResolver, construct_writer
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io.pyarrow import (
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestListWriter,
    ManifestListWriterV2,
    ManifestWriter,
    ManifestWriterV2,
    _inherit_from_manifest,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import assign_fresh_schema_ids, visit_with_partner
from pyiceberg.table import Table
from pyiceberg.table.locations import LocationProvider, load_location_provider
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import AddSnapshotUpdate, update_table_metadata
from pyiceberg.transforms import Transform
from pyiceberg.typedef import Record
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    NewManifestList,
    write_added_manifest,
    write_manifest_list,
    write_merged_manifest,
)
from spark_job.pyiceberg_private.refused_updates import is_refused_update
from spark_job.write.parquet_writer import ParquetFileWriter
from tests.lab.manifests import list_manifests
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    data_files,
    manifest_of,
)

SIGNATURES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "ManifestWriterV2": (
        ManifestWriterV2.__init__,
        ["self", "spec", "schema", "output_file", "snapshot_id", "avro_compression"],
    ),
    "ManifestWriterV2.content": (ManifestWriterV2.content, ["self"]),
    "ManifestWriter.add": (ManifestWriter.add, ["self", "entry"]),
    "ManifestWriter.existing": (ManifestWriter.existing, ["self", "entry"]),
    "ManifestWriter.to_manifest_file": (ManifestWriter.to_manifest_file, ["self"]),
    "ManifestWriter.delete": (ManifestWriter.delete, ["self", "entry"]),
    "ManifestWriter.new_writer": (ManifestWriter.new_writer, ["self"]),
    "ManifestWriter._with_partition": (ManifestWriter._with_partition, ["self", "format_version"]),
    "ManifestWriterV2.prepare_entry": (ManifestWriterV2.prepare_entry, ["self", "entry"]),
    "ManifestListWriterV2": (
        ManifestListWriterV2.__init__,
        ["self", "output_file", "snapshot_id", "parent_snapshot_id", "sequence_number", "compression"],
    ),
    "ManifestListWriterV2.prepare_manifest": (
        ManifestListWriterV2.prepare_manifest,
        ["self", "manifest_file"],
    ),
    "ManifestListWriter.add_manifests": (ManifestListWriter.add_manifests, ["self", "manifest_files"]),
    "_inherit_from_manifest": (_inherit_from_manifest, ["entry", "manifest"]),
    "ReadSchemaResolver": (ReadSchemaResolver, ["read_types", "read_enums"]),
    "visit_with_partner": (visit_with_partner, ["schema_or_type", "partner", "visitor", "accessor"]),
    "construct_writer": (construct_writer, ["file_schema"]),
    "new_decoder": (new_decoder, ["b"]),
    "AvroSchemaConversion.avro_to_iceberg": (AvroSchemaConversion.avro_to_iceberg, ["self", "avro_schema"]),
    "AvroSchemaConversion.iceberg_to_avro": (
        AvroSchemaConversion.iceberg_to_avro,
        ["self", "schema", "schema_name"],
    ),
    "data_file_with_partition": (data_file_with_partition, ["partition_type", "format_version"]),
    "manifest_entry_schema_with_data_file": (
        manifest_entry_schema_with_data_file,
        ["format_version", "data_file"],
    ),
    "parquet_path_to_id_mapping": (parquet_path_to_id_mapping, ["schema"]),
    "PartitionSpec.partition_to_path": (PartitionSpec.partition_to_path, ["self", "data", "schema"]),
    "update_snapshot_summaries": (update_snapshot_summaries, ["summary", "previous_summary"]),
    "SnapshotSummaryCollector.add_file": (
        SnapshotSummaryCollector.add_file,
        ["self", "data_file", "schema", "partition_spec"],
    ),
    "Catalog.commit_table": (Catalog.commit_table, ["self", "table", "requirements", "updates"]),
    "Catalog._load_file_io": (Catalog._load_file_io, ["self", "properties", "location"]),
    "MetastoreCatalog._update_and_stage_table": (
        MetastoreCatalog._update_and_stage_table,
        ["self", "current_table", "table_identifier", "requirements", "updates"],
    ),
    "RestCatalog._response_to_table": (
        RestCatalog._response_to_table,
        ["self", "identifier_tuple", "table_response"],
    ),
    "load_location_provider": (load_location_provider, ["table_location", "table_properties"]),
    "LocationProvider.new_data_location": (
        LocationProvider.new_data_location,
        ["self", "data_file_name", "partition_key"],
    ),
    "LocationProvider.new_metadata_location": (
        LocationProvider.new_metadata_location,
        ["self", "metadata_file_name"],
    ),
    "Transform.pyarrow_transform": (Transform.pyarrow_transform, ["self", "source"]),
    "TableMetadataV2.next_sequence_number": (TableMetadataV2.next_sequence_number, ["self"]),
    "TableMetadataV2.new_snapshot_id": (TableMetadataV2.new_snapshot_id, ["self"]),
}


def test_pyiceberg_has_the_tested_version() -> None:
    assert version("pyiceberg").startswith("0.12.")


@pytest.mark.parametrize("name", SIGNATURES)
def test_private_function_has_the_expected_parameters(name: str) -> None:
    function, parameters = SIGNATURES[name]
    assert list(inspect.signature(function).parameters) == parameters


def test_manifest_writer_can_be_extended_to_write_deletes() -> None:
    assert isinstance(inspect.getattr_static(ManifestWriterV2, "_meta"), property)
    assert not isinstance(inspect.getattr_static(ManifestWriterV2, "content"), property)


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


@pytest.mark.parametrize("content", ManifestContent)
def test_written_manifest_is_read_back(table: Table, content: ManifestContent) -> None:
    (file,) = data_files(table, 1, 2)
    written = manifest_of(table, 7, [file], content)
    path = f"{table.location()}/metadata/list.avro"
    write_manifest_list(NewManifestList(table.io.new_output(path), 7, None, 3, "deflate"), [written])
    (manifest,) = list_manifests(table.io, path)
    assert manifest.content is content
    assert (manifest.sequence_number, manifest.min_sequence_number, manifest.added_snapshot_id) == (3, 3, 7)
    assert (manifest.added_files_count, manifest.added_rows_count) == (1, 2)
    (entry,) = manifest.fetch_manifest_entry(table.io)
    assert (entry.status, entry.snapshot_id, entry.sequence_number) == (ManifestEntryStatus.ADDED, 7, 3)
    assert entry.data_file.file_path == file.file_path


@pytest.mark.parametrize(
    ("codec", "written"),
    [("gzip", "deflate"), ("zstd", "zstandard"), ("zstandard", "zstandard"), ("deflate", "deflate")],
)
def test_manifests_are_written_with_the_codec_of_the_table(table: Table, codec: Any, written: str) -> None:
    """The names gzip and zstd of Iceberg's property are deflate and zstandard in an Avro file."""
    output = table.io.new_output(f"{table.location()}/metadata/m.avro")
    metadata = table.metadata
    new = NewManifest(ManifestContent.DATA, metadata.spec(), metadata.schema(), output, 7, codec)
    (entry,) = write_added_manifest(new, data_files(table, 1)).fetch_manifest_entry(table.io)
    assert entry.data_file.record_count == 1
    header = Path(output.location.removeprefix("file://")).read_bytes()
    assert b"avro.codec" + bytes([2 * len(written)]) + written.encode() in header


def test_merged_manifests_keep_snapshots_and_sequence_numbers(table: Table) -> None:
    paths = [commit_ids(table, number) for number in range(3)]
    head = table.current_snapshot()
    assert head is not None
    before = {
        entry.data_file.file_path: (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
        for manifest in list_manifests(table.io, head.manifest_list)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    output = table.io.new_output(f"{table.location()}/metadata/merged.avro")
    metadata = table.metadata
    new = NewManifest(ManifestContent.DATA, metadata.spec(), metadata.schema(), output, 99, "deflate")
    merged = write_merged_manifest(new, table.io, list_manifests(table.io, head.manifest_list))
    entries = merged.fetch_manifest_entry(table.io)
    after = {
        entry.data_file.file_path: (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
        for entry in entries
    }
    assert after == before
    assert set(after) == set(paths)
    assert {entry.status for entry in entries} == {ManifestEntryStatus.EXISTING}


def test_data_file_is_created_from_the_writers_statistics(table: Table) -> None:
    output = table.io.new_output(f"{table.location()}/data/x.parquet")
    rows = pa.table({"id": [3, 4], "name": ["a", None]}).cast(schema_to_pyarrow(SCHEMA))
    files = ParquetFileWriter(SCHEMA, {})
    statistics = files.write(output, rows, files.new_sizer())
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=output.location,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        **statistics,
    )
    assert (file.record_count, file.file_size_in_bytes) == (2, len(output))
    assert file.lower_bounds[1] == (3).to_bytes(8, "little")
    assert file.null_value_counts == {1: 0, 2: 1}


def test_data_file_can_be_sent_to_another_process(table: Table) -> None:
    (file,) = data_files(table, 1)
    sent = pickle.loads(pickle.dumps(file))  # noqa: S301
    assert (sent.file_path, sent.record_count, sent.partition) == (file.file_path, 1, file.partition)
    assert (sent.lower_bounds, sent.column_sizes) == (file.lower_bounds, file.column_sizes)


def test_parquet_columns_are_mapped_by_path() -> None:
    assert parquet_path_to_id_mapping(SCHEMA) == {"id": 1, "name": 2}


def test_entries_are_created_from_named_arguments() -> None:
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=5, data_file=None)
    assert (entry.status, entry.snapshot_id, entry.sequence_number) == (ManifestEntryStatus.ADDED, 5, None)


def test_summary_totals_add_to_the_previous_summary() -> None:
    previous = {"total-records": "5", "total-data-files": "1"}
    summary = Summary(Operation.APPEND, **{"added-records": "2", "added-data-files": "1", "mine": "x"})
    after = update_snapshot_summaries(summary, previous)
    assert (after["total-records"], after["total-data-files"], after["mine"]) == ("7", "2", "x")


def test_fresh_ids_follow_the_order_of_the_schema() -> None:
    assert [field.field_id for field in assign_fresh_schema_ids(SCHEMA).fields] == [1, 2]


def test_arrow_schemas_have_field_ids_in_their_metadata() -> None:
    assert [field.metadata[b"PARQUET:field_id"] for field in schema_to_pyarrow(SCHEMA)] == [b"1", b"2"]


def test_updates_that_pyiceberg_rejects_are_distinguished_from_other_errors(table: Table) -> None:
    commit_ids(table, 1)
    head = table.current_snapshot()
    assert head is not None
    with pytest.raises(ValueError, match="already exists") as refused:
        update_table_metadata(table.metadata, (AddSnapshotUpdate(snapshot=head),))
    assert is_refused_update(refused.value)
    with pytest.raises(ValueError, match="invalid literal") as unrelated:
        int("x")
    assert not is_refused_update(unrelated.value)
