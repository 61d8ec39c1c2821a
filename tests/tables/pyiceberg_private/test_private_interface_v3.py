"""Parts of format v3 that PyIceberg does not write: row ids, and the fields of deletion vectors."""

from __future__ import annotations

import pytest
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntryStatus,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.typedef import Record

from icemirror.errors import Invalid
from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    enable_v3_metadata,
    next_row_id,
    read_manifest_entries,
    write_merged_manifest,
)
from spark_job.pyiceberg_private.v3_fields import (
    content_span,
    delete_key,
    first_row_id,
    manifest_first_row_id,
    referenced_data_file,
)
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    data_files,
    make_delta,
)
from tests.manifests import list_manifests
from tests.mirrors import upgrade_like_java


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


@pytest.fixture
def v3_table(catalog: UnsteadyCatalog) -> Table:
    enable_v3_metadata()
    return catalog.create_table("ns.v3", SCHEMA, properties={"format-version": "3"})


def test_a_new_v3_table_begins_with_row_zero(v3_table: Table) -> None:
    assert v3_table.metadata.format_version == 3
    assert next_row_id(v3_table.metadata) == 0


def test_tables_below_v3_number_no_rows(table: Table) -> None:
    assert next_row_id(table.metadata) is None


def test_a_v3_table_with_snapshots_gets_no_new_next_row_id(v3_table: Table) -> None:
    """Otherwise rows would get ids of other rows."""
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
        for entry in read_manifest_entries(table.io, manifest)
    }


def test_data_files_of_a_manifest_are_numbered_one_after_the_other(v3_table: Table) -> None:
    files = [*data_files(v3_table, 1, 2, 3), *data_files(v3_table, 4), *data_files(v3_table, 5, 6)]
    make_delta(v3_table, files).commit()
    assert list(row_ids(v3_table).values()) == [0, 3, 4]


def test_merged_manifests_keep_the_numbers_of_their_files(catalog: UnsteadyCatalog) -> None:
    enable_v3_metadata()
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


def test_fields_of_v3_survive_a_rewritten_manifest(v3_table: Table) -> None:
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
    (entry,) = read_manifest_entries(v3_table.io, write_merged_manifest(new, v3_table.io, [deletes]))
    file = entry.data_file
    assert (referenced_data_file(file), content_span(file)) == ("d.parquet", (4, 40))
    assert delete_key(file) == ("p.puffin", 4)
    (old,) = deletes.fetch_manifest_entry(v3_table.io)
    assert content_span(old.data_file) is None, "as PyIceberg reads it"


def test_removed_entries_are_marked_as_deleted(v3_table: Table) -> None:
    paths = [commit_ids(v3_table, number) for number in range(3)]
    head = v3_table.current_snapshot()
    assert head is not None
    output = v3_table.io.new_output(f"{v3_table.location()}/metadata/again.avro")
    metadata = v3_table.metadata
    new = NewManifest(ManifestContent.DATA, metadata.spec(), metadata.schema(), output, 99, "deflate", 3)
    manifests = list_manifests(v3_table.io, head.manifest_list)
    merged = write_merged_manifest(new, v3_table.io, manifests, {(paths[1], None)})
    assert (merged.existing_files_count, merged.deleted_files_count) == (2, 1)
    (gone,) = [
        entry
        for entry in merged.fetch_manifest_entry(v3_table.io, discard_deleted=False)
        if entry.status is ManifestEntryStatus.DELETED
    ]
    assert (gone.data_file.file_path, gone.snapshot_id, gone.sequence_number) == (paths[1], 99, 2)
