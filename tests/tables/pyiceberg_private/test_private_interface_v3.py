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
from tests.lab.manifests import list_manifests
from tests.lab.mirrored_world import upgrade_like_java
from tests.lab.samples import (
    SCHEMA,
    UnsteadyCatalog,
    commit_ids,
    data_files,
    make_delta,
)


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA)


@pytest.fixture
def v3_table(catalog: UnsteadyCatalog) -> Table:
    enable_v3_metadata()
    return catalog.create_table("ns.v3", SCHEMA, properties={"format-version": "3"})


def test_new_v3_table_starts_at_row_id_zero(v3_table: Table) -> None:
    assert v3_table.metadata.format_version == 3
    assert next_row_id(v3_table.metadata) == 0


def test_tables_below_v3_have_no_row_ids(table: Table) -> None:
    assert next_row_id(table.metadata) is None


def test_missing_next_row_id_of_a_v3_table_with_snapshots_is_refused(v3_table: Table) -> None:
    """A new counter would assign ids of other rows."""
    commit_ids(v3_table, 1)
    assert isinstance(v3_table.metadata, TableMetadataV3)
    without_next_row_id = v3_table.metadata.model_copy(update={"next_row_id": None})
    with pytest.raises(Invalid, match="lacks next-row-id"):
        without_next_row_id.model_dump_json()
    with pytest.raises(Invalid, match="lacks next-row-id"):
        next_row_id(without_next_row_id)


def test_written_v3_metadata_is_read_back(v3_table: Table) -> None:
    commit_ids(v3_table, 1, 2)
    commit_ids(v3_table, 3)
    head = v3_table.current_snapshot()
    assert head is not None
    assert (head.first_row_id, head.added_rows) == (2, 1)
    assert next_row_id(v3_table.metadata) == 3
    assert TableMetadataV3.model_validate_json(v3_table.metadata.model_dump_json()) == v3_table.metadata


def row_ids(table: Table) -> dict[str, int | None]:
    """Return the first row id of each data file of the head by path."""
    head = table.refresh().current_snapshot()
    assert head is not None
    return {
        entry.data_file.file_path: first_row_id(entry.data_file)
        for manifest in list_manifests(table.io, head.manifest_list)
        for entry in read_manifest_entries(table.io, manifest)
    }


def test_data_files_of_a_manifest_get_consecutive_row_ids(v3_table: Table) -> None:
    files = [*data_files(v3_table, 1, 2, 3), *data_files(v3_table, 4), *data_files(v3_table, 5, 6)]
    make_delta(v3_table, files).commit()
    assert list(row_ids(v3_table).values()) == [0, 3, 4]


def test_merged_manifests_keep_the_row_ids_of_their_files(catalog: UnsteadyCatalog) -> None:
    enable_v3_metadata()
    properties = {"format-version": "3", "commit.manifest.min-count-to-merge": "3"}
    table = catalog.create_table("ns.v3", SCHEMA, properties=properties)
    expected: dict[str, int | None] = {}
    for number in range(8):
        first = next_row_id(table.refresh().metadata)
        expected[commit_ids(table, number, number + 100)] = first
        assert row_ids(table) == expected
    first_ids = [first_id for first_id in expected.values() if first_id is not None]
    assert len({first_id + row for first_id in first_ids for row in (0, 1)}) == 16


def test_next_snapshot_assigns_row_ids_to_files_of_an_upgraded_table(table: Table) -> None:
    first, second = commit_ids(table, 1, 2), commit_ids(table, 3)
    assert row_ids(table) == {first: None, second: None}
    upgrade_like_java(table)
    third = commit_ids(table, 4)
    assigned = row_ids(table)
    assert assigned == {third: 0, second: 1, first: 2}
    assert next_row_id(table.metadata) == 4
    commit_ids(table, 5)
    assert {path: row_ids(table)[path] for path in assigned} == assigned


def test_v3_fields_are_kept_in_a_rewritten_manifest(v3_table: Table) -> None:
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
    assert content_span(old.data_file) is None, "PyIceberg does not read it"


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
    (deleted,) = [
        entry
        for entry in merged.fetch_manifest_entry(v3_table.io, discard_deleted=False)
        if entry.status is ManifestEntryStatus.DELETED
    ]
    assert (deleted.data_file.file_path, deleted.snapshot_id, deleted.sequence_number) == (paths[1], 99, 2)
