"""Files that only expired snapshots reference, in histories with branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate, SetSnapshotRefUpdate

from spark_job.commit.expire.owned_locations import OwnedLocations
from spark_job.commit.expire.unreferenced_files import UnreferencedFiles, find_unreferenced
from spark_job.index.root import Root, write_root
from spark_job.pyiceberg_private.manifest_files import (
    NewManifest,
    NewManifestList,
    _Writer,
    write_manifest_list,
)
from tests.lab.manifests import list_manifests
from tests.lab.samples import SCHEMA, UnsteadyCatalog, data_files, manifest_of
from tests.unit.spark_job.index.samples import ORDERED_64, row_entries, store

INDEX = "file:///index"
VICTIM = "file:///warehouse/payroll/data/ledger.parquet"


@pytest.fixture
def table(catalog: UnsteadyCatalog) -> Table:
    return catalog.create_table("ns.t", SCHEMA, properties={"format-version": "2"})


def add_snapshot(
    table: Table,
    snapshot_id: int,
    parent: int | None,
    manifests: Sequence[ManifestFile],
    ref: str = "main",
    summary: Mapping[str, str] | None = None,
) -> Snapshot:
    """Add a snapshot with exactly these manifests at the tip of a branch; "" adds it to none."""
    table.refresh()
    number = table.metadata.next_sequence_number()
    path = f"{table.location()}/metadata/snap-{snapshot_id}.avro"
    write_manifest_list(
        NewManifestList(table.io.new_output(path), snapshot_id, parent, number, "deflate"), list(manifests)
    )
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent,
            "sequence-number": number,
            "manifest-list": path,
            "summary": {"operation": "overwrite", **(summary or {})},
            "schema-id": 0,
        }
    )
    tip = {"ref-name": ref, "snapshot-id": snapshot_id, "type": "branch"}
    moves = (SetSnapshotRefUpdate.model_validate(tip),) if ref else ()
    table.catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot), *moves))
    table.refresh()
    return snapshot


def inherit(table: Table, snapshot_id: int) -> list[ManifestFile]:
    """Return the manifests of a snapshot, for its child."""
    snapshot = table.refresh().snapshot_by_id(snapshot_id)
    assert snapshot is not None
    return list_manifests(table.io, snapshot.manifest_list)


def manifest_with_removals(
    table: Table, snapshot_id: int, removed: Sequence[DataFile], kept: Sequence[DataFile] = ()
) -> ManifestFile:
    """Write a manifest that lists some files as deleted, and others that stay."""
    metadata = table.metadata
    output = table.io.new_output(f"{table.location()}/metadata/{uuid4()}.avro")
    new = NewManifest(
        ManifestContent.DATA, metadata.spec(), metadata.schema(), output, snapshot_id, "deflate"
    )
    with _Writer(new) as writer:
        for files, status in (
            (removed, ManifestEntryStatus.DELETED),
            (kept, ManifestEntryStatus.EXISTING),
        ):
            for file in files:
                entry = ManifestEntry.from_args(
                    status=status,
                    snapshot_id=snapshot_id,
                    sequence_number=1,
                    file_sequence_number=1,
                    data_file=file,
                )
                writer.delete(entry) if status is ManifestEntryStatus.DELETED else writer.existing(entry)
    return writer.to_manifest_file()


def expire(table: Table, *snapshot_ids: int, index: str = INDEX) -> UnreferencedFiles:
    """Remove snapshots from the metadata; return what became unreferenced."""
    before = table.refresh().metadata
    expired = [snapshot for snapshot in before.snapshots if snapshot.snapshot_id in snapshot_ids]
    update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(snapshot_ids)})
    after = table.catalog.commit_table(table, (), (update,)).metadata
    return find_unreferenced(table.io, before, after, expired, OwnedLocations.from_metadata(before, index))


def test_replaced_file_is_deleted_with_its_last_snapshot(table: Table) -> None:
    old, new = data_files(table, 1), data_files(table, 2)
    add_snapshot(table, 1, None, [first := manifest_of(table, 1, old)])
    add_snapshot(table, 2, 1, [manifest_with_removals(table, 2, old), manifest_of(table, 2, new)])
    add_snapshot(table, 3, 2, [manifest_of(table, 3, data_files(table, 3))])
    free = expire(table, 1)
    assert free.content == {old[0].file_path}
    assert first.manifest_path in free.metadata
    assert len(free.metadata) == 2, "its list and its manifest"


def test_merged_manifests_are_deleted_and_their_files_stay(table: Table) -> None:
    old = data_files(table, 1)
    add_snapshot(table, 1, None, [first := manifest_of(table, 1, old)])
    add_snapshot(table, 2, 1, [manifest_with_removals(table, 2, (), kept=old)])
    free = expire(table, 1)
    assert free.content == frozenset()
    assert first.manifest_path in free.metadata


def test_manifest_shared_with_an_abandoned_snapshot_stays(table: Table) -> None:
    """The abandoned snapshot is no ancestor of the oldest one on main, which therefore cannot represent the others."""
    add_snapshot(table, 1, None, [manifest_of(table, 1, data_files(table, 1))])
    shared = manifest_of(table, 2, data_files(table, 2))
    add_snapshot(table, 2, 1, [*inherit(table, 1), shared])
    own = manifest_of(table, 9, data_files(table, 9))
    add_snapshot(table, 9, 2, [*inherit(table, 2), own], ref="")
    add_snapshot(table, 3, 2, inherit(table, 2))
    free = expire(table, 9)
    assert own.manifest_path in free.metadata
    assert shared.manifest_path not in free.metadata


def test_file_removed_only_on_a_branch_stays(table: Table) -> None:
    """Main got it after the oldest checked snapshot."""
    add_snapshot(table, 1, None, [manifest_of(table, 1, data_files(table, 1))])
    add_snapshot(table, 2, 1, inherit(table, 1))
    late = data_files(table, 3)
    add_snapshot(table, 3, 2, [*inherit(table, 2), manifest_of(table, 3, late)])
    add_snapshot(table, 4, 3, [manifest_with_removals(table, 4, late)], ref="try")
    assert late[0].file_path not in expire(table, 1).content


def test_files_of_a_tag_stay(table: Table) -> None:
    old = data_files(table, 1)
    add_snapshot(table, 1, None, [manifest_of(table, 1, data_files(table, 7))])
    add_snapshot(table, 2, 1, [manifest := manifest_of(table, 2, old)])
    add_snapshot(table, 3, 2, [manifest_with_removals(table, 3, old)])
    add_snapshot(table, 4, 3, [])
    table.refresh().manage_snapshots().create_tag(2, "audit").commit()
    free = expire(table, 1, 3)
    assert old[0].file_path not in free.content
    assert manifest.manifest_path not in free.metadata


def test_file_with_several_vectors_stays_while_one_is_live(table: Table) -> None:
    """Entries with the same path, one removed and one not."""
    shared = data_files(table, 1)
    add_snapshot(table, 1, None, [manifest_of(table, 1, shared)])
    add_snapshot(table, 2, 1, [manifest_with_removals(table, 2, shared, kept=shared)])
    assert expire(table, 1).content == frozenset()


def test_nothing_is_unreferenced_if_nothing_expired(table: Table) -> None:
    add_snapshot(table, 1, None, [manifest_of(table, 1, data_files(table, 1))])
    own = OwnedLocations.from_metadata(table.metadata, INDEX)
    assert (
        len(find_unreferenced(table.io, table.metadata, table.metadata, table.metadata.snapshots, own)) == 0
    )


def test_data_file_outside_of_owned_locations_stays(table: Table) -> None:
    """Like `add_files`, or like an attacker who wants it to be deleted."""
    (file,) = data_files(table, 1)
    foreign = DataFile(*file._data)
    foreign[1] = VICTIM
    assert foreign.file_path == VICTIM
    add_snapshot(table, 1, None, [manifest_of(table, 1, [file, foreign])])
    add_snapshot(table, 2, 1, [manifest_with_removals(table, 2, [file, foreign])])
    assert expire(table, 1).content == {file.file_path}


def test_metadata_files_outside_of_owned_locations_stay(table: Table) -> None:
    add_snapshot(table, 1, None, [])
    add_snapshot(table, 2, 1, [])
    before = table.metadata
    elsewhere = before.model_copy(update={"location": "file:///elsewhere"})
    after = before.model_copy(update={"snapshots": before.snapshots[1:]})
    expired = before.snapshots[:1]
    (free,) = find_unreferenced(
        table.io, before, after, expired, OwnedLocations.from_metadata(before, INDEX)
    ).metadata
    assert free == before.snapshots[0].manifest_list
    assert (
        len(
            find_unreferenced(
                table.io, before, after, expired, OwnedLocations.from_metadata(elsewhere, INDEX)
            )
        )
        == 0
    )


@pytest.mark.parametrize("cursor", [{}, {"icemirror.cursor": "{}"}], ids=["no cursor", "a cursor"])
def test_index_root_outside_of_owned_locations_is_not_read(table: Table, cursor: dict[str, str]) -> None:
    add_snapshot(table, 1, None, [], summary={"icemirror.index-root": VICTIM, **cursor})
    add_snapshot(table, 2, 1, [])
    assert expire(table, 1).index == frozenset()


def test_only_segments_in_the_tables_index_are_deleted(table: Table, tmp_path: Path) -> None:
    index = f"file://{tmp_path}/index"
    kept = store(PyArrowFileIO(), tmp_path, row_entries([1], [0], [0]), ORDERED_64)
    paths = (f"{index}/a.segment.puffin", f"{index}/../payroll/ledger.parquet", VICTIM)
    segments = tuple(kept.model_copy(update={"path": path}) for path in paths)
    root = f"{index}/1.root.puffin"
    write_root(table.io, root, Root(snapshot_id=1, epoch=1, segments=segments, files=()))
    add_snapshot(table, 1, None, [], summary={"icemirror.index-root": root, "icemirror.cursor": "{}"})
    add_snapshot(table, 2, 1, [])
    assert expire(table, 1, index=index).index == {root, paths[0]}
