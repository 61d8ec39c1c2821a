"""`delete_mode: soft`: a deleted row keeps its values and is flagged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import BooleanType, LongType, StringType

from spark_job.commands.explain.report import KeyState
from spark_job.commands.verify.verify_report import FindingKind
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.iceberg.live_files import live_files
from spark_job.iceberg.mirror import read_mirror
from spark_job.write.read_deletes import read_deleted_positions
from spark_job.write.row_lineage import read_row_ids
from tests.lab import foreign, recreated_changelog
from tests.lab.column_changes import assert_sound, change_columns, commit_events, rebuild
from tests.lab.explain import explain, kinds
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text
from tests.lab.replays import replay, since, skip_files
from tests.lab.soft_deletes import FLAG, SOFT, flagged_rows, make

V2_AND_V3 = pytest.mark.parametrize("version", [2, 3])


@V2_AND_V3
@pytest.mark.parametrize("shards", [1, 3])
def test_deleted_row_keeps_its_values_and_is_flagged(tmp_path: Path, version: int, shards: int) -> None:
    lab = make(tmp_path, f"format_version: {version}", shards=shards)
    commit_events(lab, "I1@1", "I2@1", "I3@1", name="a")
    lab.merge()
    assert flagged_rows(lab) == {1: ("a", False), 2: ("a", False), 3: ("a", False)}
    commit_events(lab, "D1@2", "D3@2", name=None)
    result = lab.merge()
    assert flagged_rows(lab) == {1: ("a", True), 2: ("a", False), 3: ("a", True)}
    (slice_,) = result.slices
    assert (slice_.inserted, slice_.updated, slice_.deleted, slice_.unchanged) == (0, 0, 2, 0)
    assert result.live_rows == 3
    assert_sound(lab)
    assert lab.mirror.schema().find_field(FLAG).field_type == BooleanType()


def test_delete_of_a_missing_key_writes_the_values_of_the_event(tmp_path: Path) -> None:
    lab = make(tmp_path)
    commit_events(lab, "D1@1", name="carried")
    commit_events(lab, "D2@1", name=None)
    result = lab.merge()
    assert flagged_rows(lab) == {1: ("carried", True), 2: (None, True)}
    assert sum(slice_.deleted for slice_ in result.slices) == 2
    commit_events(lab, "D1@2", name="other")
    lab.merge()
    assert flagged_rows(lab)[1] == ("carried", True), "the row existed already"
    assert_sound(lab)


def test_first_of_several_deletes_in_a_slice_determines_the_row(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("D1@1=first D1@2=second D1@3=third")
    lab.merge()
    assert flagged_rows(lab) == {1: ("first", True)}
    assert_sound(lab)


def test_reinserted_key_is_no_longer_flagged(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1=a I2@1=a")
    lab.commit_events("D1@2= D2@2=")
    lab.merge()
    lab.commit_events("I1@3=b")
    result = lab.merge()
    assert flagged_rows(lab) == {1: ("b", False), 2: ("a", True)}
    assert result.slices[0].updated == 1
    lab.commit_events("D1@4=", "I1@5=c", "D2@4=", "U2@6=d D2@7=")
    lab.merge()
    assert flagged_rows(lab) == {1: ("c", False), 2: ("d", True)}
    assert_sound(lab)


def test_update_and_delete_in_one_slice_keep_the_values_of_the_update(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1=a I2@1=a")
    lab.merge()
    lab.commit_events("D1@9= U1@8=late-in-the-file", "U1@7=seven I3@1=c D3@2= D2@5=")
    lab.merge()
    assert flagged_rows(lab) == {1: ("late-in-the-file", True), 2: ("a", True), 3: ("c", True)}
    assert_sound(lab)


def test_event_older_than_the_delete_is_late(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1=a")
    lab.commit_events("D1@5=")
    lab.merge()
    lab.commit_events("U1@3=late")
    result = lab.merge()
    assert result.slices[0].stale == 1
    assert flagged_rows(lab) == {1: ("a", True)}
    lab.commit_events("D1@4=", "U1@2=later", "D1@6=")
    lab.merge()
    assert flagged_rows(lab) == {1: ("a", True)}
    assert kinds(explain(lab, 1)) == ["different-row"], "as the documentation states; a rebuild repairs it"
    rebuild(lab)
    assert flagged_rows(lab) == {1: ("late", True)}
    assert_sound(lab)


@V2_AND_V3
def test_flagged_row_keeps_its_row_id(tmp_path: Path, version: int) -> None:
    lab = make(tmp_path, f"format_version: {version}")
    lab.commit_events("I1@1 I2@1 I3@1")
    lab.merge()
    before = row_ids(lab)
    lab.commit_events("D2@2")
    lab.merge()
    lab.commit_events("I2@3=back")
    lab.merge()
    assert row_ids(lab) == before
    assert (before == {}) == (version == 2)


def row_ids(lab: Lab) -> dict[int, int]:
    if lab.mirror.metadata.format_version < 3:
        return {}
    ids_by_key: dict[int, int] = {}
    io = lab.mirror.io
    for path, file in live_files(io, lab.mirror.current_snapshot()).items():
        with io.new_input(path).open() as stream:
            keys = pa.parquet.read_table(stream, columns=["id"])["id"].to_pylist()
        deleted = set(read_deleted_positions(io, {path: file})[path].tolist())
        positions = [position for position in range(len(keys)) if position not in deleted]
        import numpy as np

        ids = read_row_ids(
            io,
            [path],
            [file.first_row_id],
            np.zeros(len(positions), np.int32),
            np.array(positions, dtype=np.int64),
        )
        ids_by_key |= {
            keys[position]: row_id for position, row_id in zip(positions, ids.to_pylist(), strict=True)
        }
    return ids_by_key


@V2_AND_V3
def test_rebuild_and_replay_flag_the_same_rows(tmp_path: Path, version: int) -> None:
    lab = make(tmp_path, f"format_version: {version}", extra_config="batch_size: 3\n", shards=2)
    first = lab.commit_events("I1@1 I2@1 I3@1", "I4@1 D9@1=carried")
    lab.commit_events("D1@2= U2@2=b", "D3@2=")
    lab.commit_events("I3@3=again D2@3=", "D4@3= D1@4=")
    lab.merge()
    expected = flagged_rows(lab)
    assert expected == {
        1: ("I1@1", True), 2: ("b", True), 3: ("again", False), 4: ("I4@1", True), 9: ("carried", True)
    }  # fmt: skip
    replay(lab, since(first))
    assert flagged_rows(lab) == expected
    rebuild(lab)
    assert flagged_rows(lab) == expected
    assert_sound(lab)


def test_replay_applies_a_skipped_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make(tmp_path)
    first = lab.commit_events("I1@1=a I2@1=a")
    lab.merge()
    lab.commit_events("U1@2=b", "D1@3= D5@3=carried")
    with skip_files(monkeypatch, 0, 1):
        lab.merge()
    assert flagged_rows(lab) == {1: ("a", False), 2: ("a", False)}
    replay(lab, since(first))
    assert flagged_rows(lab) == {1: ("b", True), 2: ("a", False), 5: ("carried", True)}
    assert_sound(lab)


def test_recreated_changelog_flags_its_deletes(tmp_path: Path) -> None:
    lab = make(tmp_path, "metadata_columns: {synced_at: at}")
    lab.commit_events("I1@1 I2@1")
    lab.commit_events("D1@2=")
    lab.merge()
    lab = recreated_changelog.recreate_changelog(lab)
    lab.commit_events("I3@1=new I4@1=new")
    lab.commit_events("D3@2=")
    recreated_changelog.steps(lab)
    assert flagged_rows(lab) == {3: ("new", True), 4: ("new", False)}
    assert_sound(lab)


def test_flagged_row_keeps_the_values_of_dropped_columns(tmp_path: Path) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()), ("gone", LongType()))
    lab = Lab.make(tmp_path, schema, options=SOFT)
    commit_events(lab, "I1@1", name="a", gone=7)
    lab.merge()
    change_columns(lab, lambda to: to.delete_column("gone"), lambda to: to.add_column("more", LongType()))
    commit_events(lab, "D1@2", name=None, more=None)
    lab.merge()
    (row,) = lab.mirror.scan().to_arrow().to_pylist()
    assert row == {"id": 1, "name": "a", "gone": 7, "more": None, FLAG: True}


def test_metadata_columns_reflect_the_delete(tmp_path: Path) -> None:
    lab = make(tmp_path, "metadata_columns: {synced_at: at, source_sequence: seq, created_at: since}")
    lab.commit_events("I1@1=a")
    lab.merge()
    (before,) = lab.mirror.scan().to_arrow().to_pylist()
    lab.commit_events("D1@2=")
    lab.merge()
    (after,) = lab.mirror.scan().to_arrow().to_pylist()
    assert after["since"] == before["since"] < after["at"]
    assert after["seq"].startswith("0000000000000002")
    assert list(after) == ["id", "name", "at", "seq", "since", FLAG]


def test_flagged_row_stays_in_its_partition(tmp_path: Path) -> None:
    lab = make(tmp_path, 'partition_by: ["name"]')
    commit_events(lab, "I1@1", name="p")
    lab.merge()
    commit_events(lab, "D1@2", name=None)
    lab.merge()
    assert flagged_rows(lab) == {1: ("p", True)}
    (file,) = lab.mirror.scan().plan_files()
    assert file.file.partition[0] == "p"


def test_explain_key_and_verify_report_flagged_rows(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit_events("I1@1=a I2@1=b")
    lab.commit_events("D1@2=")
    lab.merge()
    report = explain(lab, 1)
    assert (report.state, report.equal) == (KeyState.FLAGGED, True)
    assert report.row is not None
    assert report.row.flagged is True
    assert report.events[-1].words == "flagged the row as deleted"
    lab.commit_events("D2@3=")
    assert explain(lab, 2).events[-1].words.endswith("will flag the row as deleted")
    lab.merge()
    overwrite_row(lab, 1, "a", False)
    assert kinds(explain(lab, 1)) == ["deleted-row"]
    assert [finding.kind for finding in deep_findings(lab)] == [FindingKind.DELETED_ROW]
    overwrite_row(lab, 1, None, True)
    assert kinds(explain(lab, 1)) == ["different-row"]
    (finding,) = deep_findings(lab)
    assert (finding.kind, finding.count) == (FindingKind.DIFFERENT_ROW, 1)
    assert finding.places[0].endswith("in name")
    lab.commit_events("I1@9=live")
    lab.merge()
    overwrite_row(lab, 1, "live", True)
    assert kinds(explain(lab, 1)) == ["different-row"]
    assert [finding.kind for finding in deep_findings(lab)] == [FindingKind.DIFFERENT_ROW]


def deep_findings(lab: Lab) -> tuple[Any, ...]:
    return verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True)).findings


def overwrite_row(lab: Lab, key: int, name: str | None, flag: bool) -> None:
    """Update a row as another writer."""
    foreign.delete_rows(lab.mirror, [key])
    row = pa.Table.from_pylist([{"id": key, "name": name, FLAG: flag}], lab.mirror.schema().as_arrow())
    lab.mirror.append(row)
    lab.pipeline.execute_repair(lab.table, frozenset())


def test_flagged_rows_removed_by_another_writer_stay_removed(tmp_path: Path) -> None:
    lab = make(tmp_path)
    first = lab.commit_events("I1@1=a I2@1=b")
    lab.commit_events("D1@2=")
    lab.merge()
    foreign.delete_rows(lab.mirror, [1])
    lab.commit_events("U2@3=c")
    lab.merge()
    replay(lab, since(first))
    assert flagged_rows(lab) == {2: ("c", False)}
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal
    assert explain(lab, 1).state is KeyState.DELETED
    lab.commit_events("I1@4=back")
    lab.merge()
    assert flagged_rows(lab) == {1: ("back", False), 2: ("c", False)}


def test_flagged_row_needs_no_tombstone(tmp_path: Path) -> None:
    lab = make(tmp_path, "tombstone_retention: 0s")
    lab.commit_events("I1@1=a")
    lab.commit_events("D1@9=")
    lab.merge()
    for number in range(10, 30):
        lab.commit_events(f"I{number}@{number}")
        lab.merge()
    root = read_mirror(lab.mirror, lab.table.name).root
    assert root is not None
    assert sum(segment.tombstones for segment in root.segments) == 0
    lab.commit_events("U1@5=late")
    assert lab.merge().slices[0].stale == 1
    assert flagged_rows(lab)[1] == ("a", True)


def test_bad_rows_are_rejected_next_to_flagged_ones(tmp_path: Path) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()))
    schema = type(schema)(*(field.model_copy(update={"required": False}) for field in schema.fields))
    lab = Lab.make(tmp_path, schema, options=f"{SOFT}\non_bad_row: quarantine\nprimary_keys: [id]")

    good = {"id": 1, "name": "a", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    delete = {"id": 1, "name": None, "cdc_operation": "DELETE", "sequence_number": sequence_text(2)}
    bad = {"id": None, "name": "x", "cdc_operation": "DELETE", "sequence_number": sequence_text(1)}
    lab.commit(rows_table(schema, [bad, good, bad, delete]))
    assert lab.merge().slices[0].rejected == 2
    assert flagged_rows(lab) == {1: ("a", True)}
    assert_sound(lab)
