"""What is relied on of PyIceberg's inside, by name: an upgrade that changes it fails here, not in production."""

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
from pyiceberg.table.metadata import TableMetadataV2, TableMetadataV3
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import AddSnapshotUpdate, update_table_metadata
from pyiceberg.transforms import Transform
from pyiceberg.typedef import Record
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from icemirror.errors import Invalid
from spark_job.iceberg.parquet_writer import ParquetFiles
from spark_job.iceberg.seams import (
    NewList,
    NewManifest,
    allow_v3_metadata,
    list_manifests,
    next_row_id,
    read_entries,
    refused_updates,
    write_added,
    write_list,
    write_merged,
)
from spark_job.iceberg.v3_fields import (
    content_span,
    delete_key,
    first_row_id,
    manifest_first_row_id,
    referenced_data_file,
)
from tests.mirrors import upgrade_like_java
from tests.unit.iceberg.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    data_files,
    make_delta,
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


def test_the_version_is_the_one_that_was_tried() -> None:
    assert version("pyiceberg").startswith("0.12.")


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_private_piece_takes_what_it_is_given(name: str) -> None:
    piece, parameters = SIGNATURES[name]
    assert list(inspect.signature(piece).parameters) == parameters


def test_the_writer_of_manifests_can_be_made_to_write_deletes() -> None:
    assert isinstance(inspect.getattr_static(ManifestWriterV2, "_meta"), property)
    assert not isinstance(inspect.getattr_static(ManifestWriterV2, "content"), property)


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


@pytest.mark.parametrize("content", ManifestContent)
def test_a_manifest_of_either_content_reads_back(table: Table, content: ManifestContent) -> None:
    (file,) = data_files(table, 1, 2)
    written = manifest_of(table, 7, [file], content)
    path = f"{table.location()}/metadata/list.avro"
    write_list(NewList(table.io.new_output(path), 7, None, 3, "deflate"), [written])
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
def test_manifests_are_written_with_the_codec_that_the_table_names(
    table: Table, codec: Any, written: str
) -> None:
    """Iceberg's property says gzip and zstd; an Avro file must say deflate and zstandard."""
    output = table.io.new_output(f"{table.location()}/metadata/m.avro")
    metadata = table.metadata
    new = NewManifest(ManifestContent.DATA, metadata.spec(), metadata.schema(), output, 7, codec)
    (entry,) = write_added(new, data_files(table, 1)).fetch_manifest_entry(table.io)
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
    merged = write_merged(new, table.io, list_manifests(table.io, head.manifest_list))
    entries = merged.fetch_manifest_entry(table.io)
    after = {
        entry.data_file.file_path: (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
        for entry in entries
    }
    assert after == before
    assert set(after) == set(paths)
    assert {entry.status for entry in entries} == {ManifestEntryStatus.EXISTING}


def test_a_data_file_takes_its_statistics_from_the_writer(table: Table) -> None:
    output = table.io.new_output(f"{table.location()}/data/x.parquet")
    rows = pa.table({"id": [3, 4], "name": ["a", None]}).cast(schema_to_pyarrow(SCHEMA))
    files = ParquetFiles.of(SCHEMA, {})
    statistics = files.write(output, rows, files.sizes())
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


def test_a_data_file_can_be_sent_to_another_process(table: Table) -> None:
    (file,) = data_files(table, 1)
    sent = pickle.loads(pickle.dumps(file))  # noqa: S301
    assert (sent.file_path, sent.record_count, sent.partition) == (file.file_path, 1, file.partition)
    assert (sent.lower_bounds, sent.column_sizes) == (file.lower_bounds, file.column_sizes)


def test_columns_of_parquet_are_found_by_path() -> None:
    assert parquet_path_to_id_mapping(SCHEMA) == {"id": 1, "name": 2}


def test_entries_are_made_by_name() -> None:
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=5, data_file=None)
    assert (entry.status, entry.snapshot_id, entry.sequence_number) == (ManifestEntryStatus.ADDED, 5, None)


def test_a_summary_counts_on_from_the_one_before() -> None:
    previous = {"total-records": "5", "total-data-files": "1"}
    summary = Summary(Operation.APPEND, **{"added-records": "2", "added-data-files": "1", "mine": "x"})
    after = update_snapshot_summaries(summary, previous)
    assert (after["total-records"], after["total-data-files"], after["mine"]) == ("7", "2", "x")


def test_fresh_ids_follow_the_order_of_the_schema() -> None:
    assert [field.field_id for field in assign_fresh_schema_ids(SCHEMA).fields] == [1, 2]


def test_arrow_schemas_carry_field_ids_where_they_are_looked_for() -> None:
    assert [field.metadata[b"PARQUET:field_id"] for field in schema_to_pyarrow(SCHEMA)] == [b"1", b"2"]


@pytest.fixture
def v3_table(catalog: UnsteadyCatalog) -> Table:
    allow_v3_metadata()
    return catalog.create_table("ns.v3", SCHEMA, properties={"format-version": "3"})


def test_a_new_v3_table_begins_with_row_zero(v3_table: Table) -> None:
    assert v3_table.metadata.format_version == 3
    assert next_row_id(v3_table.metadata) == 0


def test_tables_below_v3_number_no_rows(table: Table) -> None:
    assert next_row_id(table.metadata) is None


def test_a_v3_table_with_snapshots_is_not_numbered_anew(v3_table: Table) -> None:
    """Rows would get ids that others have."""
    commit_ids(v3_table, 1)
    assert isinstance(v3_table.metadata, TableMetadataV3)
    lost = v3_table.metadata.model_copy(update={"next_row_id": None})
    with pytest.raises(Invalid, match="lacks next-row-id"):
        lost.model_dump_json()
    with pytest.raises(Invalid, match="lacks next-row-id"):
        next_row_id(lost)


def test_v3_metadata_reads_back_as_it_was_written(v3_table: Table) -> None:
    commit_ids(v3_table, 1, 2)
    commit_ids(v3_table, 3)
    head = v3_table.current_snapshot()
    assert head is not None
    assert (head.first_row_id, head.added_rows) == (2, 1)
    assert next_row_id(v3_table.metadata) == 3
    assert TableMetadataV3.model_validate_json(v3_table.metadata.model_dump_json()) == v3_table.metadata


def row_ids(table: Table) -> dict[str, int | None]:
    """Path → first row id of each data file of the head."""
    head = table.refresh().current_snapshot()
    assert head is not None
    return {
        entry.data_file.file_path: first_row_id(entry.data_file)
        for manifest in list_manifests(table.io, head.manifest_list)
        for entry in read_entries(table.io, manifest)
    }


def test_data_files_of_a_manifest_are_numbered_one_after_the_other(v3_table: Table) -> None:
    files = [*data_files(v3_table, 1, 2, 3), *data_files(v3_table, 4), *data_files(v3_table, 5, 6)]
    make_delta(v3_table, files).commit()
    assert list(row_ids(v3_table).values()) == [0, 3, 4]


def test_merged_manifests_keep_the_numbers_of_their_files(catalog: UnsteadyCatalog) -> None:
    allow_v3_metadata()
    properties = {"format-version": "3", "commit.manifest.min-count-to-merge": "3"}
    table = catalog.create_table("ns.v3", SCHEMA, properties=properties)
    expected: dict[str, int | None] = {}
    for number in range(8):
        first = next_row_id(table.refresh().metadata)
        expected[commit_ids(table, number, number + 100)] = first
        assert row_ids(table) == expected
    numbers = [one for one in expected.values() if one is not None]
    assert len({number + row for number in numbers for row in (0, 1)}) == 16


def test_files_of_an_upgraded_table_are_numbered_by_its_next_snapshot(table: Table) -> None:
    one, two = commit_ids(table, 1, 2), commit_ids(table, 3)
    assert row_ids(table) == {one: None, two: None}
    upgrade_like_java(table)
    three = commit_ids(table, 4)
    found = row_ids(table)
    assert found == {three: 0, two: 1, one: 2}
    assert next_row_id(table.metadata) == 4
    commit_ids(table, 5)
    assert {path: row_ids(table)[path] for path in found} == found


def test_fields_of_v3_survive_a_manifest_that_is_written_anew(v3_table: Table) -> None:
    vector = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path="p.puffin",
        file_format=FileFormat.PUFFIN,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=99,
        referenced_data_file="d.parquet",
        content_offset=4,
        content_size_in_bytes=40,
    )
    vector.spec_id = 0
    make_delta(v3_table, data_files(v3_table, 1), [vector]).commit()
    head = v3_table.refresh().current_snapshot()
    assert head is not None
    manifests = list_manifests(v3_table.io, head.manifest_list)
    (deletes,) = [manifest for manifest in manifests if manifest.content is ManifestContent.DELETES]
    assert manifest_first_row_id(deletes) is None
    output = v3_table.io.new_output(f"{v3_table.location()}/metadata/again.avro")
    metadata = v3_table.metadata
    new = NewManifest(deletes.content, metadata.spec(), metadata.schema(), output, 99, "deflate", 3)
    (entry,) = read_entries(v3_table.io, write_merged(new, v3_table.io, [deletes]))
    file = entry.data_file
    assert (referenced_data_file(file), content_span(file)) == ("d.parquet", (4, 40))
    assert delete_key(file) == ("p.puffin", 4)
    (old,) = deletes.fetch_manifest_entry(v3_table.io)
    assert content_span(old.data_file) is None, "as PyIceberg reads it"


def test_entries_that_go_are_named_as_deleted(v3_table: Table) -> None:
    paths = [commit_ids(v3_table, number) for number in range(3)]
    head = v3_table.current_snapshot()
    assert head is not None
    output = v3_table.io.new_output(f"{v3_table.location()}/metadata/again.avro")
    metadata = v3_table.metadata
    new = NewManifest(ManifestContent.DATA, metadata.spec(), metadata.schema(), output, 99, "deflate", 3)
    manifests = list_manifests(v3_table.io, head.manifest_list)
    merged = write_merged(new, v3_table.io, manifests, {(paths[1], None)})
    assert (merged.existing_files_count, merged.deleted_files_count) == (2, 1)
    (gone,) = [
        entry
        for entry in merged.fetch_manifest_entry(v3_table.io, discard_deleted=False)
        if entry.status is ManifestEntryStatus.DELETED
    ]
    assert (gone.data_file.file_path, gone.snapshot_id, gone.sequence_number) == (paths[1], 99, 2)


def test_updates_that_pyiceberg_does_not_take_are_told_from_other_errors(table: Table) -> None:
    commit_ids(table, 1)
    head = table.current_snapshot()
    assert head is not None
    with pytest.raises(ValueError, match="already exists") as refused:
        update_table_metadata(table.metadata, (AddSnapshotUpdate(snapshot=head),))
    assert refused_updates(refused.value)
    with pytest.raises(ValueError, match="invalid literal") as other:
        int("x")
    assert not refused_updates(other.value)
