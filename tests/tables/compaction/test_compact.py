"""Small data files become one, in a commit that changes no row."""

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
from spark_job.iceberg.mirror import CURSOR, EPOCH, LIVE_ROWS, read_mirror
from spark_job.inspect.verify.verify_table import VerifyOptions, verify_table
from spark_job.maintenance.choose_files import FAN_IN
from spark_job.maintenance.compact import Compacted, find_files_to_compact
from spark_job.maintenance.skipped_files import SkippedFiles
from spark_job.merge.locate import look_up_keys
from spark_job.storage.immutable_cache import clear_file_caches
from spark_job.write.vectors import deleted_positions
from tests.lab import foreign
from tests.lab.lab import Lab, changelog_schema, local_path, rows_table, sequence_text

OFF = "compact: false"
V3 = "format_version: 3"
TEXT_KEY = changelog_schema(("id", StringType()), ("name", StringType()))


def grow(lab: Lab, merges: int = FAN_IN, first: int = 1) -> dict[int, str]:
    """As many merges, each of three new rows, an update and a delete of earlier ones; the rows after it."""
    rows: dict[int, str] = {}
    for at in range(first, first + merges):
        words = [f"I{10 * at + step}@{at}" for step in range(3)]
        if at > 1:
            words += [f"U{10 * (at - 1)}@{at}", f"D{10 * (at - 1) + 1}@{at}"]
        lab.commit_events(" ".join(words))
        lab.merge()
        for word in words:
            rows[int(word[1:].split("@")[0])] = word
    return {key: word for key, word in rows.items() if word[0] != "D"}


def compacted(lab: Lab) -> Compacted | None:
    return lab.pipeline.compact(lab.pipeline.planner.require_plan(lab.table))


def data_files(lab: Lab) -> int:
    return len(live_files(lab.mirror.io, lab.mirror.current_snapshot()))


def assert_sound(lab: Lab) -> None:
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings


def lineage(lab: Lab) -> dict[Any, tuple[int, int]]:
    """Key → row id and number of the last change, by the rules of the specification."""
    found: dict[Any, tuple[int, int]] = {}
    live = live_files(lab.mirror.io, lab.mirror.current_snapshot())
    gone = deleted_positions(lab.mirror.io, live)
    for path, file in live.items():
        for at, row in enumerate(pq.read_table(local_path(path)).to_pylist()):
            if at not in gone[path]:
                row_id, number = row.get("_row_id"), row.get("_last_updated_sequence_number")
                assert file.first_row_id is not None
                found[row["id"]] = (
                    file.first_row_id + at if row_id is None else row_id,
                    file.data_sequence_number if number is None else number,
                )
    return found


@pytest.mark.parametrize("options", ["", V3, 'partition_by: ["bucket[2](id)"]'])
def test_many_merges_leave_few_data_files(tmp_path: Path, options: str) -> None:
    lab = Lab.make(tmp_path, options=options)
    rows = grow(lab, 3 * FAN_IN)
    assert lab.rows() == rows
    assert data_files(lab) < 2 * FAN_IN
    assert_sound(lab)


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab, 2 * FAN_IN)
    assert data_files(lab) > FAN_IN
    assert all(
        one.summary.operation is not Operation.REPLACE for one in lab.mirror.snapshots() if one.summary
    )


def test_check_without_due_files_reads_no_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    lab = lab.reconfigure()

    def refuse(*_asked: object) -> None:
        raise AssertionError("read all files")

    monkeypatch.setattr("spark_job.maintenance.compact.live_files", refuse)
    assert lab.merge().outcome == "up-to-date"


def test_the_snapshot_says_that_no_row_changed(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    rows = grow(lab)
    before, head = lab.mirror.snapshots()[-2:]
    assert before.summary is not None
    assert head.summary is not None
    assert head.summary.operation is Operation.REPLACE
    assert head.summary[CURSOR] == before.summary[CURSOR]
    assert head.summary[LIVE_ROWS] == before.summary[LIVE_ROWS] == str(len(rows))
    assert int(str(head.summary[EPOCH])) == int(str(before.summary[EPOCH])) + 1
    assert head.summary["total-data-files"] == "1"
    assert head.summary["total-records"] == str(len(rows))
    assert head.summary["total-position-deletes"] == "0"
    assert head.summary["total-delete-files"] == "0"


def test_a_row_keeps_its_lineage(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=f"{V3}\n{OFF}")
    grow(lab, FAN_IN + 1)
    before = lineage(lab)
    assert compacted(lab) is not None
    assert lineage(lab) == before
    grow(lab.reconfigure(V3), 2 * FAN_IN, first=50)
    after = lineage(lab)
    assert {key: after[key] for key in before} == before
    assert len({row_id for row_id, _ in after.values()}) == len(after)


def test_keys_without_an_order_are_found_again(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, TEXT_KEY)
    expected: dict[str, str] = {}
    for at in range(2 * FAN_IN):
        told = [
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
                        "cdc_operation": what,
                        "sequence_number": sequence_text(at),
                    }
                    for key, what in told
                ],
            )
        )
        lab.merge()
        expected |= {key: f"{key} {at}" for key, _ in told}
        expected.pop(f"x{at - 2}", None)
    assert lab.rows() == expected
    assert data_files(lab) < FAN_IN
    assert_sound(lab)


def test_a_late_event_still_loses_against_a_row_that_moved(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@100")
    lab.merge()
    rows = grow(lab, 2 * FAN_IN, first=20)
    lab.commit_events("U1@50 D1@60 D1@99")
    lab.merge()
    assert lab.rows() == {1: "I1@100", **rows}


def test_foreign_files_wait_for_the_next_merge(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    foreign.append(lab.mirror, [(5000, "theirs")])
    assert compacted(lab) is None
    lab.commit_events("I6000@90")
    lab.merge()
    assert compacted(lab) is not None
    assert lab.rows()[5000] == "theirs"
    assert_rows = lab.rows()
    lab.commit_events("U5000@95")
    lab.merge()
    assert lab.rows() == {**assert_rows, 5000: "U5000@95"}


def test_conflicting_compaction_leaves_no_files_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)
    lab = lab.reconfigure()
    commit = RowDelta.commit

    def overtaken(delta: RowDelta) -> object:
        if delta.only_moves_rows:
            foreign.append(lab.mirror, [(7000 + len(lab.mirror.snapshots()) - FAN_IN, "quicker")])
        return commit(delta)

    before = lab.files_on_disk()
    monkeypatch.setattr(RowDelta, "commit", overtaken)
    with pytest.raises(Conflict):
        compacted(lab)
    assert not {path for path in lab.files_on_disk() - before if "_icemirror_index" in path}
    assert lab.rows() == {**rows, 7000: "quicker"}
    lab.commit_events("U7000@99")
    assert lab.merge().outcome == "merged", "nothing fails by it"
    assert lab.rows()[7000] == "U7000@99"


def test_an_answer_that_was_lost_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)
    lab = lab.reconfigure()
    commit = RowDelta.commit

    def unanswered(delta: RowDelta) -> object:
        after = commit(delta)
        if delta.only_moves_rows:
            raise CommitUnknown("the line went dead")
        return after

    with monkeypatch.context() as patched:
        patched.setattr(RowDelta, "commit", unanswered)
        lab.commit_events("U80@98")
        assert lab.merge().outcome == "merged"
    assert lab.rows() == {**rows, 80: "U80@98"}
    assert data_files(lab) == 1
    lab.commit_events("U80@99")
    lab.merge()
    assert lab.rows() == {**rows, 80: "U80@99"}
    assert_sound(lab)


def test_a_row_that_the_index_has_elsewhere_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    from spark_job.maintenance import move_rows

    right = look_up_keys

    def wrong(*asked: Any) -> Any:
        known = right(*asked)
        known.pos[3] += 1
        return known

    before = lab.files_on_disk()
    monkeypatch.setattr(move_rows, "look_up_keys", wrong)
    with pytest.raises(Corrupt, match="has no entry for row"):
        compacted(lab)
    assert lab.files_on_disk() == before


def test_rows_that_take_too_much_memory_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    rows = grow(lab)
    before = lab.files_on_disk()
    monkeypatch.setattr("spark_job.maintenance.move_rows.MAX_BYTES", 10)
    assert compacted(lab) is None
    assert lab.files_on_disk() == before
    assert lab.rows() == rows


def test_a_damaged_file_fails_no_merge(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    victim = local_path(
        find_files_to_compact(read_mirror(lab.mirror, "lab.world"), SkippedFiles())[0][0].path
    )
    victim.write_bytes(victim.read_bytes()[:-20])
    lab = lab.reconfigure()
    lab.commit_events("I4000@99")
    result = lab.merge()
    assert result.outcome == "merged"
    assert data_files(lab) == FAN_IN + 1


def test_moved_foreign_row_is_not_overwritten_after_an_index_rebuild(tmp_path: Path) -> None:
    """The late event was stale, and does not determine the order of the row once that is lost."""
    lab = Lab.make(tmp_path, options=OFF)
    grow(lab)
    foreign.append(lab.mirror, [(5000, "theirs")])
    lab.commit_events("I6000@90")
    lab.merge()
    assert compacted(lab) is not None
    lab.commit_events("U5000@5 I6001@95")  # late: their row counts as the newest change merged before it
    lab.merge()
    assert lab.rows()[5000] == "theirs"
    for path in (tmp_path / "warehouse").rglob("*.segment.puffin"):
        path.unlink()
    clear_file_caches()
    lab.commit_events("U5000@7")
    lab.merge()
    assert lab.rows()[5000] == "theirs"
