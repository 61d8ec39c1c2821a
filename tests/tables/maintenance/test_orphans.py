"""Orphan cleaning: the files that it deletes, the files that stay, and the cases that stop it."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path

import pytest
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from icemirror.errors import Invalid, Transient
from icemirror.result import OrphansResult
from spark_job.index.root import read_root
from spark_job.maintenance import orphans
from spark_job.maintenance.list_files import StoredFile, list_files
from spark_job.maintenance.orphans import choose_orphans, clean_orphans, file_name, table_locations
from spark_job.storage.file_cache import clear_file_caches
from tests.lab.lab import Lab, append_files, local_path, rows_table
from tests.lab.referenced_files import referenced_files, stored_files

DAY = 86_400.0


def age(path: Path, seconds: float) -> None:
    """Set the modification time of a file back."""
    os.utime(path, (time.time() - seconds,) * 2)


def plant_orphans(lab: Lab) -> list[Path]:
    """Write the files of a crashed attempt, two days old: data, deletes, manifests, root and half a segment."""
    location = local_path(lab.mirror.location())
    index = next((lab.folder / "warehouse").rglob("*.segment.puffin")).parent
    planted = [
        location / "data" / "left.parquet",
        location / "data" / "id=7" / "left-too.parquet",
        location / "data" / "left-deletes.parquet",
        location / "metadata" / "left.avro",
        location / "metadata" / "snap-1-0-left.avro",
        location / "metadata" / "00099-left.metadata.json",
        index / "0000000009-1.root.puffin",
        index / "left.segment.puffin",
    ]
    for path in planted:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
        age(path, 2 * DAY)
    return planted


def clean(lab: Lab, *, seconds: float = DAY, dry_run: bool = False) -> OrphansResult:
    return clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=seconds, dry_run=dry_run)


@pytest.fixture
def merged(lab: Lab) -> Lab:
    """A mirror after a few merges; all of its files are old."""
    for number in range(1, 4):
        lab.commit_events(f"U1@{number} I{number + 1}@{number}")
        lab.merge()
    for path in stored_files(lab.folder / "warehouse"):
        age(path, 3 * DAY)
    return lab


def test_only_unreferenced_files_are_deleted(merged: Lab) -> None:
    planted = plant_orphans(merged)
    result = clean(merged)
    assert (result.files, result.bytes, result.left) == (len(planted), 4 * len(planted), 0)
    assert stored_files(merged.folder / "warehouse") == referenced_files(merged.mirror)
    assert len(merged.rows()) == 4


def test_dry_run_lists_orphans_and_deletes_nothing(merged: Lab) -> None:
    planted = plant_orphans(merged)
    result = clean(merged, dry_run=True)
    assert {local_path(path) for path in result.paths} == set(planted)
    assert result.files == len(planted)
    assert all(path.exists() for path in planted)


def test_young_files_stay(merged: Lab) -> None:
    planted = plant_orphans(merged)
    age(planted[0], 60)
    result = clean(merged)
    assert (result.files, result.young) == (len(planted) - 1, 1)
    assert planted[0].exists()


def test_young_files_stay_if_the_local_clock_is_ahead(merged: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    young = local_path(merged.mirror.location()) / "data" / "young.parquet"
    young.write_bytes(b"x")
    before = merged.files_on_disk()
    ahead = time.time() + 30 * DAY
    monkeypatch.setattr("spark_job.maintenance.orphans.time.time", lambda: ahead)
    assert clean(merged).files == 0
    assert merged.files_on_disk() == before


def test_files_of_other_kinds_stay(merged: Lab) -> None:
    """These are notes, version hints and checksums of other tools."""
    for name in ("metadata/version-hint.text", "data/README.md", "metadata/.left.avro.crc"):
        path = local_path(merged.mirror.location()) / name
        path.write_bytes(b"x")
        age(path, 9 * DAY)
    assert clean(merged).files == 0


def test_refused_deletes_are_counted(merged: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant_orphans(merged)

    def refuse(io: PyArrowFileIO, location: object) -> None:
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    result = clean(merged)
    assert (result.files, result.left) == (0, len(planted))


def test_files_committed_during_the_listing_stay(merged: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def merge_first(io: PyArrowFileIO, location: str) -> object:
        if location.endswith("/data"):
            merged.commit_events("I50@50")
            merged.merge()
        return list_files(io, location)

    monkeypatch.setattr(orphans, "list_files", merge_first)
    assert clean(merged, seconds=-60).files == 0
    assert len(merged.rows()) == 5
    assert stored_files(merged.folder / "warehouse") == referenced_files(merged.mirror)


def test_unreadable_index_root_keeps_the_whole_index(merged: Lab) -> None:
    planted = plant_orphans(merged)
    summary = merged.mirror.metadata.snapshots[0].summary
    assert summary is not None
    root = local_path(summary.additional_properties["icemirror.index-root"])
    root.write_bytes(b"broken")
    clear_file_caches()
    result = clean(merged)
    assert [local_path(location) for location in result.unlisted] == [root.parent]
    assert [path for path in planted if path.exists()] == [
        path for path in planted if path.parent == root.parent
    ]


def test_index_stays_when_another_engine_expires_its_snapshot(merged: Lab) -> None:
    """Then only a property of the table references its root."""
    append_files(merged.mirror, rows_table(merged.mirror.schema(), [{"id": 90, "name": "foreign"}]))
    head = merged.mirror.current_snapshot()
    assert head is not None
    expired = [old.snapshot_id for old in merged.mirror.snapshots() if old.snapshot_id != head.snapshot_id]
    merged.mirror.maintenance.expire_snapshots().by_ids(expired).commit()
    index = next((merged.folder / "warehouse").rglob("*.segment.puffin")).parent
    root = read_root(merged.mirror.io, merged.mirror.metadata.properties["icemirror.index-root"])
    clean(merged)
    remaining = {path.name for path in index.iterdir()}
    assert {file_name(segment.path) for segment in root.segments} < remaining
    assert len(remaining) == len(root.segments) + 1
    merged.commit_events("U1@60")
    merged.merge()
    assert merged.rows()[1] == "U1@60"


def test_table_recreated_during_the_cleaning_stops_it(merged: Lab) -> None:
    tables = [merged.mirror, merged.changelog]
    with pytest.raises(Transient, match="recreated"):
        clean_orphans(lambda: tables.pop(0), "lab.world", older_than_seconds=DAY)


def test_renamed_mirror_at_the_same_location_keeps_its_files(merged: Lab) -> None:
    """The next merge creates a new mirror; most catalogs choose the same location for it."""
    merged.catalog.rename_table("lab.world", "lab.world_kept")
    merged.merge()
    renamed = merged.catalog.load_table("lab.world_kept")
    assert renamed.location() == merged.mirror.location()
    files = stored_files(merged.folder / "warehouse")
    for path in files:
        age(path, 3 * DAY)
    for dry_run in (False, True):
        with pytest.raises(
            Invalid, match=rf"another table \({renamed.metadata.table_uuid}\).*Nothing was deleted"
        ):
            clean(merged, dry_run=dry_run)
    assert stored_files(merged.folder / "warehouse") == files
    assert renamed.scan().to_arrow().num_rows == 4


def test_metadata_of_a_conflicting_table_creation_stays(merged: Lab) -> None:
    """It has another uuid, like an empty table, and references no files."""
    other_metadata = json.loads(local_path(merged.changelog.metadata_location).read_text()) | {
        "snapshots": []
    }
    path = local_path(merged.mirror.location()) / "metadata" / "00000-a.metadata.json"
    path.write_text(json.dumps(other_metadata))
    age(path, 3 * DAY)
    planted = plant_orphans(merged)
    assert clean(merged).files == len(planted)
    assert path.exists()


def test_compressed_metadata_of_another_table_is_recognized(merged: Lab) -> None:
    content = local_path(merged.changelog.metadata_location).read_bytes()
    folder = local_path(merged.mirror.location()) / "metadata"
    (folder / "00001-a.gz.metadata.json").write_bytes(gzip.compress(content))
    with pytest.raises(Invalid, match=r"another table .* \(1, such as"):
        clean(merged)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\x1f\x8bnot packed", b"[" * 100_000])
def test_invalid_metadata_file_belongs_to_no_table(merged: Lab, content: bytes) -> None:
    path = local_path(merged.mirror.location()) / "metadata" / "00001-a.metadata.json"
    path.write_bytes(content)
    age(path, 3 * DAY)
    assert clean(merged).files == 1


@pytest.mark.parametrize("same_location", [True, False])
def test_metadata_of_another_table_at_the_same_location_is_found_in_a_separate_folder(
    merged: Lab, same_location: bool
) -> None:
    """With a separate metadata location, a renamed mirror has its metadata there and its data files here."""
    shared = merged.folder / "shared"
    shared.mkdir()
    with merged.mirror.transaction() as transaction:
        transaction.set_properties({"write.metadata.path": f"file://{shared}"})
    other_metadata = json.loads(local_path(merged.changelog.metadata_location).read_text())
    other_metadata["location"] = merged.mirror.location() if same_location else merged.changelog.location()
    (shared / "00001-a.metadata.json").write_text(json.dumps(other_metadata))
    planted = plant_orphans(merged)
    if same_location:
        with pytest.raises(Invalid, match="another table"):
            clean(merged)
    else:
        assert clean(merged).files == len(planted)


def test_table_that_is_no_mirror_is_refused(merged: Lab) -> None:
    with pytest.raises(Invalid, match="is not a mirror"):
        clean_orphans(lambda: merged.changelog, "lab.world", older_than_seconds=DAY)


def test_locations_that_may_be_shared_are_not_listed(merged: Lab) -> None:
    location = merged.mirror.location()
    metadata = merged.mirror.metadata.model_copy(
        update={
            "properties": {
                "write.data.path": "s3://lake/shared",
                "write.metadata.path": f"{location}/elsewhere/",
                "write.object-storage.path": f"{location}/data/objects",
            }
        }
    )
    listed, unlisted = table_locations(metadata)
    assert listed == [f"{location}/data", f"{location}/metadata", f"{location}/elsewhere"]
    assert unlisted == ("s3://lake/shared",)


def test_path_that_leaves_the_location_of_the_table_is_not_listed(merged: Lab) -> None:
    outside = f"{merged.mirror.location()}/data/../../payroll"
    metadata = merged.mirror.metadata.model_copy(update={"properties": {"write.data.path": outside}})
    assert table_locations(metadata)[1] == (outside,)


@pytest.mark.parametrize(
    ("stored", "referenced"),
    [
        ("s3://lake/t/data/a.parquet", "s3a://lake/t/data/a.parquet"),
        ("/lake/t/data/a.parquet", "file:/lake/t/data/a.parquet"),
        ("file:///lake/t/data/a.parquet", "file:/lake/t//data/a.parquet"),
        ("abfss://c@a.dfs.core.windows.net/t/a.parquet", "abfs://c@a.blob.core.windows.net/t/a.parquet"),
        ("s3://lake/t/data/d=1 2/a b.parquet", "s3://lake/t/data/d=1%202/a%20b.parquet"),
    ],
)
def test_different_spellings_of_a_path_are_the_same_file(stored: str, referenced: str) -> None:
    chosen = choose_orphans([StoredFile(stored, 1, 0.0)], {file_name(referenced)}, time.time())
    assert chosen == ([], 0)


def test_file_without_a_modification_time_is_young() -> None:
    assert choose_orphans([StoredFile("s3://lake/a.parquet", 1, None)], set(), time.time()) == ([], 1)


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
@pytest.mark.parametrize("kind", [PyArrowFileIO, FsspecFileIO])
def test_listed_paths_can_be_deleted_by_the_same_io(
    tmp_path: Path, prefix: str, kind: type[PyArrowFileIO | FsspecFileIO]
) -> None:
    file = tmp_path / "deep" / "er" / "a.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"abc")
    io = kind({})
    (listed,) = list_files(io, f"{prefix}{tmp_path}/deep/")
    assert (listed.path, listed.bytes) == (f"{prefix}{tmp_path}/deep/er/a.parquet", 3)
    assert listed.modified_at is not None
    assert abs(listed.modified_at - time.time()) < 60
    io.delete(listed.path)
    assert not file.exists()


@pytest.mark.parametrize("kind", [PyArrowFileIO, FsspecFileIO])
def test_missing_location_has_no_files(tmp_path: Path, kind: type[PyArrowFileIO | FsspecFileIO]) -> None:
    assert list(list_files(kind({}), f"file://{tmp_path}/absent")) == []
