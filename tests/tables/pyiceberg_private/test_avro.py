"""Manifests and manifest lists are read and written like PyIceberg does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    read_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import (
    LongType,
    NestedField,
)

from spark_job.pyiceberg_private.manifest_files import (
    NewManifestList,
    read_manifest_entries,
    write_added_manifest,
    write_manifest_list,
)
from tests.lab.manifests import list_manifests
from tests.unit.spark_job.pyiceberg_private.manifest_samples import data_file, fields_of, new_manifest


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", Schema(NestedField(1, "id", LongType())))
    for number in range(3):
        table.append(table.scan().to_arrow().from_pylist([{"id": number}], table.schema().as_arrow()))
    return table


def test_manifests_of_pyiceberg_are_read_with_the_same_values(table: Table) -> None:
    """PyIceberg writes one block per entry; the job writes one block for all entries."""
    head = table.current_snapshot()
    assert head is not None
    by_pyiceberg = list(read_manifest_list(table.io.new_input(head.manifest_list)))
    manifests = list_manifests(table.io, head.manifest_list)
    assert [manifest._data[:15] for manifest in manifests] == [manifest._data for manifest in by_pyiceberg]
    for manifest in manifests:
        entries = manifest.fetch_manifest_entry(table.io)
        assert [fields_of(entry.data_file)[:16] for entry in read_manifest_entries(table.io, manifest)] == [
            fields_of(entry.data_file) for entry in entries
        ]


@pytest.mark.parametrize("version", [2, 3])
def test_writing_a_manifest_list_does_not_change_its_manifests(
    tmp_path: Path, table: Table, version: int
) -> None:
    """Other readers share the cached objects; ids of a failed commit must not appear in them."""
    head = table.current_snapshot()
    assert head is not None
    manifests = list_manifests(table.io, head.manifest_list)
    added = write_added_manifest(
        new_manifest(tmp_path, "null", spec=PartitionSpec()), [data_file(1, Record())]
    )
    before = [list(manifest._data) for manifest in (*manifests, added)]
    path = f"{table.location()}/metadata/again.avro"
    first_row_id = 10 if version == 3 else None
    write_manifest_list(
        NewManifestList(table.io.new_output(path), 7, None, 9, "deflate", first_row_id), [*manifests, added]
    )
    assert [manifest._data for manifest in (*manifests, added)] == before
    assert [manifest.sequence_number for manifest in list_manifests(table.io, path)] == [3, 2, 1, 9]


def test_empty_manifest_list_is_valid(table: Table) -> None:
    path = f"{table.location()}/metadata/empty.avro"
    write_manifest_list(NewManifestList(table.io.new_output(path), 7, None, 9, "deflate"), [])
    assert list_manifests(table.io, path) == []
    assert list(read_manifest_list(table.io.new_input(path))) == []
