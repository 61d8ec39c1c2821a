"""A merge expires snapshots in its commit, and then deletes their files."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from spark_job.commit.expire import unreferenced_files
from spark_job.commit.expire.expiry import choose_expired
from spark_job.index.root import read_root, write_root
from tests.lab.lab import Lab, append_files, local_path, rows_table
from tests.lab.referenced_files import referenced_files, stored_files
from tests.tables.maintenance.conftest import SMALL


def merge_often(lab: Lab, times: int, first: int = 1) -> None:
    """Merge this many times, each with an update of key 1 and a new key."""
    for number in range(first, first + times):
        lab.commit_events(f"U1@{number} I{number + 1}@{number}")
        lab.merge()


def assert_no_orphans(lab: Lab) -> None:
    """Check that exactly the files that the mirror references are on disk."""
    assert stored_files(lab.folder / "warehouse") == referenced_files(lab.mirror)


@pytest.mark.parametrize("version", [2, 3])
def test_snapshots_and_files_stay_few_over_many_merges(tmp_path: Path, version: int) -> None:
    lab = Lab.make(tmp_path, options=f"format_version: {version}\n{SMALL}")
    merge_often(lab, 16)
    metadata = lab.mirror.metadata
    assert len(metadata.snapshots) <= 6
    assert len(metadata.metadata_log) <= 3
    assert_no_orphans(lab)
    assert len(lab.rows()) == 17
    assert lab.rows()[1] == "U1@16"


def test_retained_snapshots_are_still_readable(lab: Lab) -> None:
    merge_often(lab, 12)
    for snapshot in lab.mirror.metadata.snapshots:
        rows = lab.mirror.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        summary = snapshot.summary
        assert summary is not None
        assert rows.num_rows == int(summary.additional_properties["icemirror.live-rows"])


def test_reader_of_a_retained_snapshot_is_not_affected_by_expiry(lab: Lab) -> None:
    merge_often(lab, 6)
    scan = lab.mirror.scan()
    expected = scan.to_arrow().num_rows
    merge_often(lab, 3, first=7)
    assert scan.snapshot() is not None
    assert scan.to_arrow().num_rows == expected


def test_tags_and_branches_keep_their_snapshots_files_and_index(lab: Lab) -> None:
    merge_often(lab, 2)
    tagged = lab.mirror.current_snapshot()
    assert tagged is not None
    lab.mirror.manage_snapshots().create_tag(tagged.snapshot_id, "audit").create_branch(
        tagged.snapshot_id, "try"
    ).commit()
    merge_often(lab, 9, first=3)
    assert set(lab.mirror.metadata.refs) == {"main", "audit", "try"}
    rows = lab.mirror.scan(snapshot_id=tagged.snapshot_id).to_arrow().to_pydict()
    assert dict(zip(rows["id"], rows["name"], strict=True)) == {1: "U1@2", 2: "I2@1", 3: "I3@2"}
    assert_no_orphans(lab)


def test_index_stays_if_the_oldest_snapshot_is_foreign(lab: Lab) -> None:
    """The oldest retained snapshot has no root; later snapshots have one."""
    merge_often(lab, 2)
    append_files(lab.mirror, rows_table(lab.mirror.schema(), [{"id": 90, "name": "foreign"}]))
    foreign = lab.mirror.current_snapshot()
    assert foreign is not None
    first = 3
    while lab.mirror.metadata.snapshots[0].snapshot_id != foreign.snapshot_id:
        merge_often(lab, 1, first=first)
        assert_no_orphans(lab)
        first += 1
        assert first < 12
    merge_often(lab, 1, first=first)
    assert lab.rows()[90] == "foreign"


def test_root_in_a_foreign_snapshot_is_ignored(lab: Lab) -> None:
    """Otherwise another writer could make the job delete any file."""
    merge_often(lab, 1)
    ledger = lab.folder / "payroll" / "ledger.parquet"
    ledger.parent.mkdir()
    ledger.write_text("of another table")
    mirror = lab.mirror
    root = read_root(mirror.io, mirror.metadata.properties["icemirror.index-root"])
    forged = f"{mirror.location()}/data/forged.root.puffin"
    segment = root.segments[0].model_copy(update={"path": f"file://{ledger}"})
    write_root(mirror.io, forged, root.model_copy(update={"segments": (segment,)}))
    mirror.append(mirror.scan().to_arrow().slice(0, 0), snapshot_properties={"icemirror.index-root": forged})
    merge_often(lab, 8, first=2)
    assert all("icemirror.cursor" in (snapshot.summary or {}) for snapshot in lab.mirror.metadata.snapshots)
    assert ledger.exists()
    assert local_path(forged).exists()


def test_index_at_a_configured_location_is_cleaned_up(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=SMALL, extra_config=f"index_location: file://{tmp_path}/indexes\n")
    merge_often(lab, 8)
    stored = set((tmp_path / "indexes").rglob("*.puffin"))
    assert stored
    assert stored == {path for path in referenced_files(lab.mirror) if path.suffix == ".puffin"}


def test_files_added_from_another_location_stay(lab: Lab) -> None:
    """They may belong to another table."""
    merge_often(lab, 1)
    outside = lab.folder / "elsewhere" / "a.parquet"
    outside.parent.mkdir()
    pq.write_table(rows_table(lab.mirror.schema(), [{"id": 90, "name": "foreign"}]), outside)
    lab.mirror.add_files([f"file://{outside}"])
    merge_often(lab, 1, first=2)
    lab.commit_events("D90@50 I91@50")
    lab.merge()
    merge_often(lab, 9, first=3)
    assert 90 not in lab.rows()
    assert f"file://{outside}" not in {task.file.file_path for task in lab.mirror.scan().plan_files()}
    assert outside.exists()


def test_file_that_was_removed_and_added_again_stays(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    (file,) = (task.file for task in lab.mirror.scan().plan_files())
    lab.commit_events("I2@2")
    lab.merge()
    lab.mirror.delete("id = 1")
    lab.commit_events("I3@3")
    lab.merge()
    table = lab.mirror
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)
    for order in range(4, 12):
        lab.commit_events(f"U3@{order}")
        lab.merge()
    assert lab.rows().keys() == {1, 2, 3}


def test_tag_created_during_the_merge_is_respected(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    merge_often(lab, 5)
    oldest = lab.mirror.metadata.snapshots[0].snapshot_id
    from spark_job.commit import commit_snapshot

    choose = choose_expired

    def tag_first(table: Table) -> object:
        lab.mirror.manage_snapshots().create_tag(oldest, "late").commit()
        return choose(table)

    monkeypatch.setattr(commit_snapshot, "choose_expired", tag_first)
    lab.commit_events("U1@6")
    lab.merge()
    assert lab.mirror.metadata.snapshot_by_id(oldest) is not None
    assert "late" in lab.mirror.metadata.refs


def test_branch_settings_of_the_user_survive_a_merge(lab: Lab) -> None:
    merge_often(lab, 1)
    path = Path(lab.mirror.metadata_location.removeprefix("file://"))
    written = json.loads(path.read_text())
    written["refs"]["main"]["min-snapshots-to-keep"] = 9
    path.write_text(json.dumps(written))
    merge_often(lab, 12, first=2)
    assert lab.mirror.metadata.refs["main"].min_snapshots_to_keep == 9
    assert len(lab.mirror.metadata.snapshots) == 9


def test_merge_succeeds_without_permission_to_delete(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[object] = []

    def refuse(io: PyArrowFileIO, location: object) -> None:
        attempts.append(location)
        raise PermissionError("AccessDenied")

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    merge_often(lab, 5)
    attempts.clear()
    caplog.clear()
    with caplog.at_level(logging.INFO):
        merge_often(lab, 1, first=6)
    lines = [record for record in caplog.records if record.message == "snapshots expired"]
    assert len(lines) == 1
    assert lines[0].levelno == logging.INFO
    assert len(lab.rows()) == 7
    assert 0 < len(attempts) <= 20, "it stops after a few refusals"
    assert referenced_files(lab.mirror) < stored_files(lab.folder / "warehouse")


def test_failed_expiry_does_not_fail_the_merge(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise OSError("no route to storage")

    monkeypatch.setattr("spark_job.commit.expire.expiry.find_unreferenced", fail)
    merge_often(lab, 8)
    assert len(lab.mirror.metadata.snapshots) <= 6


def test_invalid_property_stops_expiry_but_not_merges(lab: Lab) -> None:
    merge_often(lab, 1)
    with lab.mirror.transaction() as transaction:
        transaction.set_properties({"icemirror.max-snapshots": "many"})
    merge_often(lab, 6, first=2)
    assert len(lab.mirror.metadata.snapshots) == 7


def test_files_stay_if_gc_is_disabled(lab: Lab) -> None:
    merge_often(lab, 1)
    with lab.mirror.transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    merge_often(lab, 6, first=2)
    assert len(lab.mirror.metadata.snapshots) == 7


@pytest.mark.parametrize("landed", [False, True])
def test_unknown_commit_outcome_deletes_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, landed: bool
) -> None:
    merge_often(lab, 5)
    before = lab.files_on_disk()
    commit = SqlCatalog.commit_table
    load = SqlCatalog.load_table

    def lose_response(catalog: SqlCatalog, table: Table, requirements: object, updates: object) -> object:
        if landed:
            commit(catalog, table, requirements, updates)  # type: ignore[arg-type]
        monkeypatch.setattr(SqlCatalog, "load_table", unreachable)
        raise TimeoutError("no answer")

    def unreachable(catalog: SqlCatalog, identifier: object) -> Table:
        raise TimeoutError("no answer")

    lab.commit_events("U1@6")
    monkeypatch.setattr(SqlCatalog, "commit_table", lose_response)
    result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind == "commit-unknown"
    assert before <= lab.files_on_disk()
    monkeypatch.setattr(SqlCatalog, "commit_table", commit)
    monkeypatch.setattr(SqlCatalog, "load_table", load)
    merge_often(lab, 1, first=7)
    assert lab.rows()[1] == "U1@7"


def test_refused_commit_expires_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    merge_often(lab, 5)
    before, snapshots = lab.files_on_disk(), len(lab.mirror.metadata.snapshots)

    def refuse(*_: object) -> object:
        raise CommitFailedException("the head moved")

    lab.commit_events("U1@6")
    monkeypatch.setattr(SqlCatalog, "commit_table", refuse)
    assert lab.try_merge().error is not None
    assert lab.files_on_disk() >= before
    assert len(lab.mirror.metadata.snapshots) == snapshots


def test_detects_a_deleted_segment_of_a_retained_root(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: segments of expired roots are deleted without checking the retained ones."""
    monkeypatch.setattr(unreferenced_files, "_retained_index", lambda *_: set())
    merge_often(lab, 6)
    missing = referenced_files(lab.mirror) - stored_files(lab.folder / "warehouse")
    assert any(path.name.endswith(".segment.puffin") for path in missing)
    with pytest.raises(AssertionError):
        assert_no_orphans(lab)
