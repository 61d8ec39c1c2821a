"""Compaction rewrites small data files into one, in a commit that changes no rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

from icemirror.errors import CommitUnknown, Conflict, Corrupt
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.mirror import read_mirror
from spark_job.iceberg.property_names import PROPERTY_CURSOR, PROPERTY_EPOCH, PROPERTY_LIVE_ROWS
from spark_job.maintenance.choose_files import FAN_IN
from spark_job.maintenance.compact import SkippedFiles, find_files_to_compact
from spark_job.merge.locate import read_key_entries
from spark_job.storage.file_cache import clear_file_caches
from spark_job.write.read_deletes import read_deleted_positions
from tests.lab import foreign
from tests.lab.compaction import OFF, assert_sound, data_files, grow, run_compaction
from tests.lab.lab import Lab, changelog_schema, local_path, rows_table, sequence_text

V3 = "format_version: 3"
TEXT_KEY = changelog_schema(("id", StringType()), ("name", StringType()))


def lineage(lab: Lab) -> dict[Any, tuple[int, int]]:
    """Return row id and last updated sequence number by key, by the rules of the specification."""
    by_key: dict[Any, tuple[int, int]] = {}
    live = live_files(lab.mirror.io, lab.mirror.current_snapshot())
    deleted = read_deleted_positions(lab.mirror.io, live)
    for path, file in live.items():
        for at, row in enumerate(pq.read_table(local_path(path)).to_pylist()):
            if at not in deleted[path]:
                row_id, number = row.get("_row_id"), row.get("_last_updated_sequence_number")
                assert file.first_row_id is not None
                by_key[row["id"]] = (
                    file.first_row_id + at if row_id is None else row_id,
                    file.data_sequence_number if number is None else number,
                )
    return by_key


@pytest.mark.parametrize("options", ["", V3, 'partition_by: ["bucket[2](id)"]'])
def test_many_merges_leave_few_data_files(tmp_path: Path, options: str) -> None:
    lab = Lab.make(tmp_path, options=options)
    rows = grow(lab, 3 * FAN_IN)
    assert lab.rows() == rows
    assert data_files(lab) < 2 * FAN_IN
    assert_sound(lab)


def test_compaction_can_be_disabled(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab, 2 * FAN_IN)
    assert data_files(lab) > FAN_IN
    assert all(
        snapshot.summary.operation is not Operation.REPLACE
        for snapshot in lab.mirror.snapshots()
        if snapshot.summary
    )


def test_check_without_due_files_reads_no_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    lab = lab.reconfigure()

    def refuse(*_arguments: object) -> None:
        raise AssertionError("read all files")

    monkeypatch.setattr("spark_job.maintenance.compact.live_files", refuse)
    assert lab.merge().outcome == "up-to-date"


def test_compaction_commits_a_replace_snapshot_with_the_same_cursor(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    rows = grow(lab)
    before, head = lab.mirror.snapshots()[-2:]
    assert before.summary is not None
    assert head.summary is not None
    assert head.summary.operation is Operation.REPLACE
    assert head.summary[PROPERTY_CURSOR] == before.summary[PROPERTY_CURSOR]
    assert head.summary[PROPERTY_LIVE_ROWS] == before.summary[PROPERTY_LIVE_ROWS] == str(len(rows))
    assert int(str(head.summary[PROPERTY_EPOCH])) == int(str(before.summary[PROPERTY_EPOCH])) + 1
    assert head.summary["total-data-files"] == "1"
    assert head.summary["total-records"] == str(len(rows))
    assert head.summary["total-position-deletes"] == "0"
    assert head.summary["total-delete-files"] == "0"


def test_row_keeps_its_lineage(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=f"{V3}\n{OFF}")
    grow(lab, FAN_IN + 1)
    before = lineage(lab)
    assert run_compaction(lab) is not None
    assert lineage(lab) == before
    grow(lab.reconfigure(V3), 2 * FAN_IN, first=50)
    after = lineage(lab)
    assert {key: after[key] for key in before} == before
    assert len({row_id for row_id, _ in after.values()}) == len(after)


def test_mirror_with_hashed_keys_is_compacted(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, TEXT_KEY)
    expected: dict[str, str] = {}
    for at in range(2 * FAN_IN):
        events = [
            (f"k{at}", "INSERT"),
            (f"x{at}", "INSERT"),
            (f"k{at - 1}", "UPDATE"),
            (f"x{at - 2}", "DELETE"),
        ]
        lab.commit(
            rows_table(
                TEXT_KEY,
                [
                    {
                        "id": key,
                        "name": f"{key} {at}",
                        "cdc_operation": operation,
                        "sequence_number": sequence_text(at),
                    }
                    for key, operation in events
                ],
            )
        )
        lab.merge()
        expected |= {key: f"{key} {at}" for key, _ in events}
        expected.pop(f"x{at - 2}", None)
    assert lab.rows() == expected
    assert data_files(lab) < FAN_IN
    assert_sound(lab)


def test_late_event_is_stale_against_a_moved_row(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@100")
    lab.merge()
    rows = grow(lab, 2 * FAN_IN, first=20)
    lab.commit_events("U1@50 D1@60 D1@99")
    lab.merge()
    assert lab.rows() == {1: "I1@100", **rows}


def test_foreign_files_are_compacted_after_the_next_merge(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    foreign.append(lab.mirror, [(5000, "theirs")])
    assert run_compaction(lab) is None
    lab.commit_events("I6000@90")
    lab.merge()
    assert run_compaction(lab) is not None
    assert lab.rows()[5000] == "theirs"
    rows = lab.rows()
    lab.commit_events("U5000@95")
    lab.merge()
    assert lab.rows() == {**rows, 5000: "U5000@95"}


def test_conflicting_compaction_leaves_no_files_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)
    lab = lab.reconfigure()
    commit = RowDelta.commit

    def append_before_commit(delta: RowDelta) -> object:
        if delta.only_moves_rows:
            foreign.append(lab.mirror, [(7000 + len(lab.mirror.snapshots()) - FAN_IN, "quicker")])
        return commit(delta)

    before = lab.files_on_disk()
    monkeypatch.setattr(RowDelta, "commit", append_before_commit)
    with pytest.raises(Conflict):
        run_compaction(lab)
    assert not {path for path in lab.files_on_disk() - before if "_icemirror_index" in path}
    assert lab.rows() == {**rows, 7000: "quicker"}
    lab.commit_events("U7000@99")
    assert lab.merge().outcome == "merged", "the conflict does not fail merges"
    assert lab.rows()[7000] == "U7000@99"


def test_lost_response_of_a_compaction_commit_is_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)
    lab = lab.reconfigure()
    commit = RowDelta.commit

    def commit_without_response(delta: RowDelta) -> object:
        response = commit(delta)
        if delta.only_moves_rows:
            raise CommitUnknown("connection lost")
        return response

    with monkeypatch.context() as patched:
        patched.setattr(RowDelta, "commit", commit_without_response)
        lab.commit_events("U80@98")
        assert lab.merge().outcome == "merged"
    assert lab.rows() == {**rows, 80: "U80@98"}
    assert data_files(lab) == 1
    lab.commit_events("U80@99")
    lab.merge()
    assert lab.rows() == {**rows, 80: "U80@99"}
    assert_sound(lab)


def test_wrong_location_in_the_index_stops_the_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    from spark_job.maintenance import move_rows

    original = read_key_entries

    def with_wrong_position(*arguments: Any) -> Any:
        locations = original(*arguments)
        locations.pos[3] += 1
        return locations

    before = lab.files_on_disk()
    monkeypatch.setattr(move_rows, "read_key_entries", with_wrong_position)
    with pytest.raises(Corrupt, match="points elsewhere than at row"):
        run_compaction(lab)
    assert lab.files_on_disk() == before


def test_rows_above_the_memory_limit_are_not_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)
    before = lab.files_on_disk()
    monkeypatch.setattr("spark_job.maintenance.move_rows.MAX_BYTES", 10)
    assert run_compaction(lab) is None
    assert lab.files_on_disk() == before
    assert lab.rows() == rows


def test_damaged_file_does_not_fail_the_merge(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    damaged = local_path(
        find_files_to_compact(read_mirror(lab.mirror, "lab.world"), SkippedFiles())[0][0].path
    )
    damaged.write_bytes(damaged.read_bytes()[:-20])
    lab = lab.reconfigure()
    lab.commit_events("I4000@99")
    result = lab.merge()
    assert result.outcome == "merged"
    assert data_files(lab) == FAN_IN + 1


def test_moved_foreign_row_is_not_overwritten_after_an_index_rebuild(tmp_path: Path) -> None:
    """The late event was stale, so it does not become the order of the row in the rebuilt index."""
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    foreign.append(lab.mirror, [(5000, "theirs")])
    lab.commit_events("I6000@90")
    lab.merge()
    assert run_compaction(lab) is not None
    lab.commit_events(
        "U5000@5 I6001@95"
    )  # late: a foreign row is as new as the newest event merged before it
    lab.merge()
    assert lab.rows()[5000] == "theirs"
    for path in (tmp_path / "warehouse").rglob("*.segment.puffin"):
        path.unlink()
    clear_file_caches()
    lab.commit_events("U5000@7")
    lab.merge()
    assert lab.rows()[5000] == "theirs"
