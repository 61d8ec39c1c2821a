"""A table without a key: every insert becomes exactly one row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from icemirror.errors import CommitUnknown, Invalid
from icemirror.protocol.replay import Replay
from spark_job.commands.compact_table import compact_table
from spark_job.commands.maintain_index import maintain_index
from spark_job.commands.verify.verify_report import FindingKind
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.commit.row_delta import RowDelta
from spark_job.iceberg.property_names import PROPERTY_INDEX_ROOT
from spark_job.index.root import read_root
from spark_job.maintenance import choose_files
from spark_job.rebuild.replay import plan_replay, replay_step
from spark_job.storage.file_cache import clear_file_caches
from tests.lab.append_only import APPEND_ONLY, SCHEMA, append_as_another_writer, event_file, make, rows
from tests.lab.lab import Lab, changelog_schema, local_path, rows_table


def assert_verified(lab: Lab) -> None:
    for deep in (False, True):
        report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=deep))
        assert report.equal, report
        assert not report.findings


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("partition", ["", "partition_by: [name]"])
def test_every_insert_becomes_a_row_including_duplicates(
    tmp_path: Path, version: int, shards: int, partition: str
) -> None:
    lab = make(tmp_path, f"{APPEND_ONLY}\nformat_version: {version}\n{partition}", shards=shards)
    lab.commit(event_file(("a", 1), ("a", 1), ("b", None)), event_file((None, 2), ("c", 3)))
    lab.commit(event_file(("a", 1)), event_file(*(("d", n) for n in range(20))))
    result = lab.merge()
    expected = Counter({("a", 1): 3, ("b", None): 1, (None, 2): 1, ("c", 3): 1})
    expected += Counter(("d", n) for n in range(20))
    assert rows(lab) == expected
    assert len(result.slices) > 1
    assert sum(slice_.inserted for slice_ in result.slices) == sum(expected.values()) == result.live_rows
    assert lab.merge().outcome == "up-to-date"
    assert_verified(lab)
    assert lab.mirror.schema().identifier_field_ids == []


def test_rows_keep_the_order_of_the_changelog(tmp_path: Path) -> None:
    lab = make(tmp_path, batch=1000)
    lab.commit(event_file(("z", 3), ("a", 1)), event_file(("m", 2)))
    lab.merge()
    assert lab.mirror.scan().to_arrow()["name"].to_pylist() == ["z", "a", "m"]


def test_index_counts_rows_and_has_no_segments(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(event_file(("a", 1), ("b", 2)))
    lab.merge()
    root = read_root(lab.mirror.io, lab.mirror.properties[PROPERTY_INDEX_ROOT])
    assert (root.segments, root.live_rows) == ((), 2)
    assert {path for path in lab.files_on_disk() if "segment" in path} == set()


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "UPSERT"])
def test_event_other_than_an_insert_is_refused(tmp_path: Path, operation: str) -> None:
    lab = make(tmp_path)
    lab.commit(event_file(("a", 1)))
    lab.merge()
    before = lab.mirror.metadata_location
    lab.commit(event_file(("b", 2)), event_file(("a", 2), operation=operation))
    error = lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert f"the operation in row 0 is '{operation}'" in error.message
    assert "primary_keys" in error.message
    assert "operation_values.insert" in error.message
    assert lab.mirror.metadata_location == before


@pytest.mark.parametrize(
    "options", [APPEND_ONLY, "primary_keys: [name]"], ids=["without a key", "with a key"]
)
def test_error_message_shortens_a_long_operation(tmp_path: Path, options: str) -> None:
    lab = make(tmp_path, options)
    lab.commit(event_file(("a", 1), operation="x" * 500_000))
    error = lab.try_merge().error
    assert error is not None
    assert f"'{'x' * 40}…'" in error.message
    assert len(error.message) < 2000


def test_updates_become_rows_if_operation_values_list_them_as_inserts(tmp_path: Path) -> None:
    lab = make(
        tmp_path,
        f"{APPEND_ONLY}\noperation_values: {{insert: [INSERT, UPDATE], update: [], delete: [DELETE]}}",
    )
    lab.commit(event_file(("a", 1)))
    lab.commit(event_file(("a", 2), operation="UPDATE"))
    lab.merge()
    assert rows(lab) == Counter({("a", 1): 1, ("a", 2): 1})


@pytest.mark.parametrize(
    "has_operation", [True, False], ids=["with the column", "before the column was added"]
)
def test_rows_of_a_dms_full_load_need_no_operation(tmp_path: Path, has_operation: bool) -> None:
    columns = [NestedField(1, "name", StringType()), NestedField(2, "amount", LongType())]
    with_operation = Schema(*columns, NestedField(3, "Op", StringType()))
    lab = Lab.make(tmp_path, with_operation, options=f"{APPEND_ONLY}\nprofile: dms")
    lab.commit(
        rows_table(with_operation if has_operation else Schema(*columns), [{"name": "a", "amount": 1}])
    )
    lab.commit(rows_table(with_operation, [{"name": "b", "amount": 2, "Op": "I"}]))
    lab.merge()
    assert rows(lab) == Counter({("a", 1): 1, ("b", 2): 1})
    assert_verified(lab)


def test_metadata_columns_hold_the_insert_time(tmp_path: Path) -> None:
    lab = make(tmp_path, f"{APPEND_ONLY}\nmetadata_columns: {{synced_at: s, created_at: c}}")
    lab.commit(event_file(("a", 1), ("a", 1)))
    lab.merge()
    read = lab.mirror.scan().to_arrow()
    assert read["s"].null_count == 0
    assert read["s"] == read["c"]
    assert_verified(lab)


def test_error_for_a_changelog_without_a_key_names_the_settings(tmp_path: Path) -> None:
    lab = make(tmp_path, "")
    lab.commit(event_file(("a", 1)))
    error = lab.try_merge().error
    assert error is not None
    assert "primary_keys" in error.message
    assert "append_only: true" in error.message


def test_rows_of_a_table_without_cdc_columns_are_inserts(tmp_path: Path) -> None:
    plain = Schema(NestedField(1, "name", StringType()), NestedField(2, "amount", LongType()))
    lab = Lab.make(tmp_path, plain, options=f"{APPEND_ONLY}\nprofile: generic")
    lab.commit(rows_table(plain, [{"name": "a", "amount": 1}, {"name": "a", "amount": 1}]))
    lab.merge()
    assert rows(lab) == Counter({("a", 1): 2})
    assert_verified(lab)


def delete_as_another_writer(lab: Lab) -> None:
    lab.mirror.delete("name = 'a'")


def compact_as_another_writer(lab: Lab) -> None:
    lab.mirror.overwrite(lab.mirror.scan().to_arrow(), AlwaysTrue())


@pytest.mark.parametrize(
    ("change", "findings"),
    [
        (append_as_another_writer, {FindingKind.SURPLUS_ROW: 1}),
        (delete_as_another_writer, {FindingKind.MISSING_ROW: 2}),
        (compact_as_another_writer, {}),
    ],
)
def test_foreign_writes_are_allowed_and_verify_reports_them(
    tmp_path: Path, change: Callable[[Lab], None], findings: dict[FindingKind, int]
) -> None:
    lab = make(tmp_path)
    lab.commit(event_file(("a", 1), ("a", 1)), event_file(("b", 2)))
    lab.merge()
    change(lab)
    before = rows(lab)
    lab.commit(event_file(("c", 3)))
    result = lab.merge()
    assert rows(lab) == before + Counter([("c", 3)])
    assert result.live_rows == sum(rows(lab).values())
    for deep in (False, True):
        report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=deep))
        assert {finding.kind: finding.count for finding in report.findings} == findings
        assert report.equal is not bool(findings)


def test_deep_verify_finds_a_replaced_row(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(event_file(("a", 1), ("b", 2)))
    lab.merge()
    lab.mirror.delete("name = 'a'")
    append_as_another_writer(lab)
    assert verify_table(lab.pipeline, lab.table, VerifyOptions()).equal
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert {finding.kind: finding.count for finding in report.findings} == {
        FindingKind.MISSING_ROW: 1,
        FindingKind.SURPLUS_ROW: 1,
    }
    assert all("row " in place for finding in report.findings for place in finding.places)


def test_missing_root_is_rebuilt_by_counting_rows(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(event_file(("a", 1), ("b", 2)))
    lab.merge()
    local_path(lab.mirror.properties[PROPERTY_INDEX_ROOT]).unlink()
    clear_file_caches()
    restarted = lab.reconfigure(APPEND_ONLY)
    assert maintain_index(restarted.pipeline, restarted.table, dry_run=False).commits == 1
    lab.commit(event_file(("c", 3)))
    assert restarted.merge().live_rows == 3
    assert_verified(restarted)


def test_commit_with_lost_response_does_not_duplicate_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make(tmp_path)
    commit = RowDelta.commit

    def commit_without_response(self: RowDelta) -> object:
        commit(self)
        raise CommitUnknown("no answer")

    lab.commit(event_file(("a", 1)))
    with monkeypatch.context() as patch:
        patch.setattr(RowDelta, "commit", commit_without_response)
        assert lab.try_merge().error is not None
    lab.merge()
    assert rows(lab) == Counter([("a", 1)])


def test_rebuild_writes_every_row_once(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(event_file(("a", 1), ("a", 1)), event_file(("b", 2)))
    lab.commit(event_file(("c", 3)))
    lab.merge()
    append_as_another_writer(lab)
    request = Replay("full-1", 0.0, full=True)
    while not (step := replay_step(lab.pipeline, lab.table, request)).done:
        request = replace(request, progress=step.progress)
    assert rows(lab) == Counter({("a", 1): 2, ("b", 2): 1, ("c", 3): 1})
    lab.commit(event_file(("d", 4)))
    lab.merge()
    assert_verified(lab)


def test_recreated_changelog_is_followed(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(event_file(("a", 1), ("b", 2)), event_file(("c", 3), ("d", 4)))
    lab.merge()
    lab.catalog.drop_table("lab.world_changelog")
    lab = replace(lab, changelog=lab.catalog.create_table("lab.world_changelog", SCHEMA))
    assert (lab.merge().outcome, rows(lab)) == ("rebuilt", Counter())
    lab.commit(event_file(("e", 5)))
    lab.merge()
    assert rows(lab) == Counter([("e", 5)])
    assert_verified(lab)


def test_replay_of_a_range_is_refused_because_it_would_duplicate_rows(tmp_path: Path) -> None:
    lab = make(tmp_path)
    first = lab.commit(event_file(("a", 1)))
    lab.merge()
    request = Replay("range-1", 0.0, from_snapshot=first)
    for call in (replay_step, plan_replay):
        with pytest.raises(Invalid, match="would duplicate its rows"):
            call(lab.pipeline, lab.table, request)


@pytest.mark.parametrize("version", [2, 3])
def test_compaction_of_small_files_changes_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    lab = make(tmp_path, f"{APPEND_ONLY}\nformat_version: {version}\ncompact: false")
    for number in range(6):
        lab.commit(event_file(("a", number % 2), ("b", None)))
        lab.merge()
    before, files = rows(lab), len(list(lab.mirror.scan().plan_files()))
    monkeypatch.setattr(choose_files, "FAN_IN", 2)
    assert compact_table(lab.pipeline, lab.table, dry_run=False).files_before >= 6
    assert (rows(lab), files) == (before, 6)
    assert len(list(lab.mirror.scan().plan_files())) < files
    lab.commit(event_file(("c", 3)))
    lab.merge()
    assert rows(lab) == before + Counter([("c", 3)])
    assert_verified(lab)


def test_mirror_with_a_key_cannot_become_append_only(tmp_path: Path) -> None:
    keyed = changelog_schema(("name", StringType()), ("amount", LongType()), keys=("name",))
    lab = Lab.make(tmp_path, keyed)
    lab.commit(event_file(("a", 1), schema=keyed))
    lab.merge()
    error = lab.reconfigure(APPEND_ONLY).try_merge().error
    assert error is not None
    assert "its key is name, but the settings name nothing" in error.message
