"""Files that nothing names: which go, which stay, and what stops it all."""

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
from spark_job.storage.immutable_cache import clear_file_caches
from tests.lab.lab import Lab, append_files, local_path, rows_table
from tests.referenced import referenced_files, stored_files

DAY = 86_400.0


def age(path: Path, seconds: float) -> None:
    """Set the modification time of a file back."""
    os.utime(path, (time.time() - seconds,) * 2)


def plant(lab: Lab) -> list[Path]:
    """What a crashed attempt leaves: data, deletes, manifest, list, root and half a segment, two days old."""
    location = local_path(lab.mirror.location())
    index = next((lab.folder / "warehouse").rglob("*.segment.puffin")).parent
    left = [
        location / "data" / "left.parquet",
        location / "data" / "id=7" / "left-too.parquet",
        location / "data" / "left-deletes.parquet",
        location / "metadata" / "left.avro",
        location / "metadata" / "snap-1-0-left.avro",
        location / "metadata" / "00099-left.metadata.json",
        index / "0000000009-1.root.puffin",
        index / "left.segment.puffin",
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left")
        age(path, 2 * DAY)
    return left


def clean(lab: Lab, *, seconds: float = DAY, dry_run: bool = False) -> OrphansResult:
    return clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=seconds, dry_run=dry_run)


@pytest.fixture
def merged(lab: Lab) -> Lab:
    """A mirror of a few merges, all of whose files are old."""
    for number in range(1, 4):
        lab.commit_events(f"U1@{number} I{number + 1}@{number}")
        lab.merge()
    for path in stored_files(lab.folder / "warehouse"):
        age(path, 3 * DAY)
    return lab


def test_only_unreferenced_files_are_deleted(merged: Lab) -> None:
    left = plant(merged)
    result = clean(merged)
    assert (result.files, result.bytes, result.left) == (len(left), 4 * len(left), 0)
    assert stored_files(merged.folder / "warehouse") == referenced_files(merged.mirror)
    assert len(merged.rows()) == 4


def test_a_dry_run_names_them_and_deletes_nothing(merged: Lab) -> None:
    left = plant(merged)
    result = clean(merged, dry_run=True)
    assert {local_path(path) for path in result.paths} == set(left)
    assert result.files == len(left)
    assert all(path.exists() for path in left)


def test_young_files_stay(merged: Lab) -> None:
    left = plant(merged)
    age(left[0], 60)
    result = clean(merged)
    assert (result.files, result.young) == (len(left) - 1, 1)
    assert left[0].exists()


def test_young_files_stay_though_this_machines_clock_is_ahead(
    merged: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    young = local_path(merged.mirror.location()) / "data" / "young.parquet"
    young.write_bytes(b"x")
    before = merged.files_on_disk()
    ahead = time.time() + 30 * DAY
    monkeypatch.setattr("spark_job.maintenance.orphans.time.time", lambda: ahead)
    assert clean(merged).files == 0
    assert merged.files_on_disk() == before


def test_files_of_other_kinds_stay(merged: Lab) -> None:
    """Notes, version hints and checksums of other tools."""
    for name in ("metadata/version-hint.text", "data/README.md", "metadata/.left.avro.crc"):
        path = local_path(merged.mirror.location()) / name
        path.write_bytes(b"x")
        age(path, 9 * DAY)
    assert clean(merged).files == 0


def test_refused_deletes_are_counted(merged: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    left = plant(merged)

    def refuse(io: PyArrowFileIO, location: object) -> None:
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    result = clean(merged)
    assert (result.files, result.left) == (0, len(left))


def test_files_that_are_committed_while_files_are_listed_stay(
    merged: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    left = plant(merged)
    summary = merged.mirror.metadata.snapshots[0].summary
    assert summary is not None
    root = local_path(summary.additional_properties["icemirror.index-root"])
    root.write_bytes(b"broken")
    clear_file_caches()
    result = clean(merged)
    assert [local_path(place) for place in result.unlisted] == [root.parent]
    assert [path for path in left if path.exists()] == [path for path in left if path.parent == root.parent]


def test_index_stays_when_another_engine_expires_its_snapshot(merged: Lab) -> None:
    """Then only the table's property names its root."""
    append_files(merged.mirror, rows_table(merged.mirror.schema(), [{"id": 90, "name": "foreign"}]))
    head = merged.mirror.current_snapshot()
    assert head is not None
    others = [one.snapshot_id for one in merged.mirror.snapshots() if one.snapshot_id != head.snapshot_id]
    merged.mirror.maintenance.expire_snapshots().by_ids(others).commit()
    index = next((merged.folder / "warehouse").rglob("*.segment.puffin")).parent
    root = read_root(merged.mirror.io, merged.mirror.metadata.properties["icemirror.index-root"])
    clean(merged)
    kept = {path.name for path in index.iterdir()}
    assert {file_name(segment.path) for segment in root.segments} < kept
    assert len(kept) == len(root.segments) + 1
    merged.commit_events("U1@60")
    merged.merge()
    assert merged.rows()[1] == "U1@60"


def test_table_recreated_meanwhile_stops_the_cleaning(merged: Lab) -> None:
    tables = [merged.mirror, merged.changelog]
    with pytest.raises(Transient, match="recreated"):
        clean_orphans(lambda: tables.pop(0), "lab.world", older_than_seconds=DAY)


def test_a_mirror_that_was_renamed_to_keep_it_keeps_its_files(merged: Lab) -> None:
    """The next merge makes a new one, and most catalogs put that at the same location."""
    merged.catalog.rename_table("lab.world", "lab.world_kept")
    merged.merge()
    kept = merged.catalog.load_table("lab.world_kept")
    assert kept.location() == merged.mirror.location()
    files = stored_files(merged.folder / "warehouse")
    for path in files:
        age(path, 3 * DAY)
    for dry_run in (False, True):
        with pytest.raises(
            Invalid, match=rf"another table \({kept.metadata.table_uuid}\).*Nothing was deleted"
        ):
            clean(merged, dry_run=dry_run)
    assert stored_files(merged.folder / "warehouse") == files
    assert kept.scan().to_arrow().num_rows == 4


def test_metadata_of_an_attempt_that_was_not_the_first_to_create_the_mirror_stays(merged: Lab) -> None:
    """It has another uuid, like an empty table, and references no other file."""
    other = json.loads(local_path(merged.changelog.metadata_location).read_text()) | {"snapshots": []}
    path = local_path(merged.mirror.location()) / "metadata" / "00000-a.metadata.json"
    path.write_text(json.dumps(other))
    age(path, 3 * DAY)
    left = plant(merged)
    assert clean(merged).files == len(left)
    assert path.exists()


def test_packed_metadata_of_another_table_is_known_as_well(merged: Lab) -> None:
    content = local_path(merged.changelog.metadata_location).read_bytes()
    place = local_path(merged.mirror.location()) / "metadata"
    (place / "00001-a.gz.metadata.json").write_bytes(gzip.compress(content))
    with pytest.raises(Invalid, match=r"another table .* \(1, such as"):
        clean(merged)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\x1f\x8bnot packed", b"[" * 100_000])
def test_invalid_metadata_file_belongs_to_no_table(merged: Lab, content: bytes) -> None:
    path = local_path(merged.mirror.location()) / "metadata" / "00001-a.metadata.json"
    path.write_bytes(content)
    age(path, 3 * DAY)
    assert clean(merged).files == 1


@pytest.mark.parametrize("same_place", [True, False])
def test_metadata_elsewhere_may_be_of_another_table_in_the_same_place(merged: Lab, same_place: bool) -> None:
    """With a separate metadata location, the metadata of a renamed mirror is there, and its data files are here."""
    shared = merged.folder / "shared"
    shared.mkdir()
    with merged.mirror.transaction() as transaction:
        transaction.set_properties({"write.metadata.path": f"file://{shared}"})
    other = json.loads(local_path(merged.changelog.metadata_location).read_text())
    other["location"] = merged.mirror.location() if same_place else merged.changelog.location()
    (shared / "00001-a.metadata.json").write_text(json.dumps(other))
    left = plant(merged)
    if same_place:
        with pytest.raises(Invalid, match="another table"):
            clean(merged)
    else:
        assert clean(merged).files == len(left)


def test_table_that_is_no_mirror_is_refused(merged: Lab) -> None:
    with pytest.raises(Invalid, match="is not a mirror"):
        clean_orphans(lambda: merged.changelog, "lab.world", older_than_seconds=DAY)


def test_places_that_other_tables_may_share_are_not_listed(merged: Lab) -> None:
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
    own, unlisted = table_locations(metadata)
    assert own == [f"{location}/data", f"{location}/metadata", f"{location}/elsewhere"]
    assert unlisted == ("s3://lake/shared",)


def test_a_place_that_leads_out_of_the_tables_location_is_not_listed(merged: Lab) -> None:
    out = f"{merged.mirror.location()}/data/../../payroll"
    metadata = merged.mirror.metadata.model_copy(update={"properties": {"write.data.path": out}})
    assert table_locations(metadata)[1] == (out,)


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ("s3://lake/t/data/a.parquet", "s3a://lake/t/data/a.parquet"),
        ("/lake/t/data/a.parquet", "file:/lake/t/data/a.parquet"),
        ("file:///lake/t/data/a.parquet", "file:/lake/t//data/a.parquet"),
        ("abfss://c@a.dfs.core.windows.net/t/a.parquet", "abfs://c@a.blob.core.windows.net/t/a.parquet"),
        ("s3://lake/t/data/d=1 2/a b.parquet", "s3://lake/t/data/d=1%202/a%20b.parquet"),
    ],
)
def test_a_path_that_is_written_otherwise_is_the_same_file(stored: str, named: str) -> None:
    found = choose_orphans([StoredFile(stored, 1, 0.0)], {file_name(named)}, time.time())
    assert found == ([], 0)


def test_a_file_without_a_date_is_young() -> None:
    assert choose_orphans([StoredFile("s3://lake/a.parquet", 1, None)], set(), time.time()) == ([], 1)


@pytest.mark.parametrize("lead", ["", "file:", "file://"])
@pytest.mark.parametrize("kind", [PyArrowFileIO, FsspecFileIO])
def test_listed_paths_can_be_deleted_by_the_same_io(
    tmp_path: Path, lead: str, kind: type[PyArrowFileIO | FsspecFileIO]
) -> None:
    file = tmp_path / "deep" / "er" / "a.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"abc")
    io = kind({})
    (found,) = list_files(io, f"{lead}{tmp_path}/deep/")
    assert (found.path, found.bytes) == (f"{lead}{tmp_path}/deep/er/a.parquet", 3)
    assert found.modified_at is not None
    assert abs(found.modified_at - time.time()) < 60
    io.delete(found.path)
    assert not file.exists()


@pytest.mark.parametrize("kind", [PyArrowFileIO, FsspecFileIO])
def test_missing_location_has_no_files(tmp_path: Path, kind: type[PyArrowFileIO | FsspecFileIO]) -> None:
    assert list(list_files(kind({}), f"file://{tmp_path}/absent")) == []
