"""Explain reports the effect of each event and the state of each row as the merge decides them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, StringType, TimestamptzType

from icemirror.errors import Invalid
from spark_job.columns.json_values import row_as_json
from spark_job.commands.explain import explain_key as explain_module
from spark_job.commands.explain import key_events
from spark_job.commands.explain.find_row import find_row
from spark_job.commands.explain.requested_key import BadKey
from spark_job.iceberg import mirror as mirror_module
from spark_job.index import blocks, tiers
from spark_job.storage.file_cache import FileCache
from tests.lab.explain import event, explain, fates, has_note
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text
from tests.oracle.key_pools import KEY_KINDS, make_key_pool


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start with empty file caches, like a new process."""
    monkeypatch.setattr(blocks, "_directories", FileCache(0))
    monkeypatch.setattr(mirror_module, "_roots", FileCache(0))


def test_row_is_reported_with_its_location_and_values(lab: Lab) -> None:
    lab.commit_events("I1@10=a I2@20=b")
    lab.merge()
    lab.commit_events("U2@30=c")
    lab.merge()
    report = explain(lab, {"id": 2})
    assert (report.state, report.equal, report.key) == ("present", True, {"id": 2})
    assert report.row is not None
    assert report.index is not None
    assert report.row.values == {"id": 2, "name": "c"}
    assert (report.row.file, report.row.position) == (report.index.file, report.index.position)
    assert (report.index.says, report.index.check, report.index.commit) == ("row", "there", 2)
    assert report.index.sequence == {"sequence_number": sequence_text(30)}
    assert report.row.written_by == "merge"
    assert report.row.snapshot_id == report.snapshot_id
    assert (report.unreadable, report.findings, report.notes) == ((), (), ())


def test_events_are_reported_with_their_origin(lab: Lab) -> None:
    first = lab.commit_events("I9@1 I1@10=a")
    lab.merge()
    (insert,) = explain(lab, 1).events
    snapshot = lab.changelog.refresh().snapshot_by_id(first)
    assert snapshot is not None
    assert (insert.operation, insert.does, insert.sequence) == (
        "INSERT", "upsert", {"sequence_number": sequence_text(10)}
    )  # fmt: skip
    assert (insert.snapshot_id, insert.commit, insert.position, insert.merged) == (first, 1, 1, True)
    assert insert.file.endswith(".parquet")
    assert insert.committed_at is not None
    assert insert.values == {"id": 1, "name": "a"}
    assert insert.words == "wrote the row"


def test_event_is_overtaken_by_a_greater_sequence(lab: Lab) -> None:
    lab.commit_events("I1@10=a")
    lab.merge()
    lab.commit_events("U1@20=b")
    lab.merge()
    report = explain(lab, 1)
    assert fates(report) == ["overtaken", "made-row"]
    assert event(report, "a").by == 2
    assert event(report, "a").words == f"replaced by event 2 with sequence {sequence_text(20)}"


def test_late_event_is_reported_as_older_than_the_row(lab: Lab) -> None:
    lab.commit_events("I1@20=a")
    lab.merge()
    lab.commit_events("U1@10=late")
    assert lab.merge().slices[0].stale == 1
    report = explain(lab, 1)
    assert fates(report) == ["late", "made-row"]
    assert event(report, "late").words == f"late: older than event 2 with sequence {sequence_text(20)}"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["I1@5=a"], "further down in the same file"),
        (["I1@5=a", "U1@5=b"], "from a later file of the same commit"),
        (None, "from a later commit"),
    ],
)
def test_equal_sequences_are_ordered_by_commit_file_and_row(
    lab: Lab, files: list[str] | None, reason: str
) -> None:
    if files is None:
        lab.commit_events("I1@5=a")
        lab.commit_events("U1@5=b")
    elif len(files) == 1:
        lab.commit_events("I1@5=a U1@5=b")
    else:
        lab.commit_events(*files)
    lab.merge()
    assert lab.rows() == {1: "b"}
    report = explain(lab, 1)
    assert event(report, "b").fate == "made-row"
    assert event(report, "a").words == f"replaced by event 2 of the same sequence, {reason}"
    assert event(report, "b").repeat_of is None


def test_duplicate_event_names_the_first_one(lab: Lab) -> None:
    lab.commit_events("I1@5=a")
    lab.merge()
    lab.commit_events("U1@9=b")
    lab.merge()
    lab.commit_events("I1@5=a U1@9=b U1@9=other")
    lab.merge()
    report = explain(lab, 1)
    assert fates(report) == ["overtaken", "late", "overtaken", "overtaken", "made-row"]
    assert [item.repeat_of for item in report.events] == [None, 1, None, 3, None]
    assert "it is a repeat of event 1, with the same values" in report.events[1].words
    lab.commit_events("D1@20 D1@20")
    lab.merge()
    assert explain(lab, 1).events[-1].words == "deleted the row; it is a repeat of event 6"


def test_deleted_row_has_a_tombstone_with_its_order(lab: Lab) -> None:
    lab.commit_events("I1@10=a I2@1")
    lab.merge()
    lab.commit_events("D1@20")
    lab.merge()
    lab.commit_events("U1@15=late")
    lab.merge()
    report = explain(lab, 1)
    assert (report.state, report.row) == ("deleted", None)
    assert report.index is not None
    assert (report.index.says, report.index.sequence) == (
        "tombstone", {"sequence_number": sequence_text(20)}
    )  # fmt: skip
    assert fates(report) == ["overtaken", "late", "deleted-row"]
    assert report.events[2].words == "deleted the row"
    assert report.events[2].values is None


def test_expired_tombstone_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "FAN_IN", 2)
    lab = Lab.make(tmp_path, options="tombstone_retention: 0s")
    for words in ("I1@10 I2@20", "D1@40", "U2@50", "U2@51", "U2@52", "U2@53"):
        lab.commit_events(words)
        lab.merge()
    report = explain(lab, 1)
    assert (report.state, report.equal) == ("deleted", True)
    assert report.index is not None
    assert report.index.says == "nothing"
    assert has_note(report, "tombstone of the key has expired")


def test_key_without_events_was_never_seen(lab: Lab) -> None:
    lab.commit_events("I1@10")
    lab.merge()
    report = explain(lab, 7)
    assert (report.state, report.events, report.row, report.equal) == ("never-seen", (), None, True)


def test_waiting_events_predict_their_effect(lab: Lab) -> None:
    lab.commit_events("I1@10=a I3@1")
    lab.merge()
    lab.commit_events("U1@5=old U1@20=b", "U1@30=c D3@9 I2@1=new")
    report = explain(lab, 1)
    assert report.row is not None
    assert (report.row.values or {})["name"] == "a"
    assert event(report, "a").fate == "made-row"
    for name, will, words in (
        ("old", "late", "will be late, older than event 2"),
        ("b", "overtaken", "will be replaced by event 4"),
        ("c", "made-row", "will write the row"),
    ):
        waiting = event(report, name)
        assert (waiting.fate, waiting.will, waiting.merged) == ("waiting", will, False)
        assert waiting.words.startswith("not merged yet (waits after the cursor)")
        assert words in waiting.words
    assert has_note(report, "3 of its events wait")
    assert explain(lab, 3).events[-1].will == "deleted-row"
    assert explain(lab, 2).state == "never-seen"
    lab.merge()
    assert fates(explain(lab, 1)) == ["late", "overtaken", "overtaken", "made-row"]


def test_partly_merged_snapshot_has_merged_and_waiting_events(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, extra_config="batch_size: 1\n")
    lab.commit_events("I1@1=a", "U1@2=b", "U1@3=c")
    lab.pipeline.advance(lab.table)
    lab.pipeline.advance(lab.table)
    report = explain(lab, 1)
    assert [item.merged for item in report.events] == [True, True, False]
    assert event(report, "b").fate == "made-row"


def test_without_a_mirror_all_events_wait(lab: Lab) -> None:
    lab.commit_events("I1@10=a")
    report = explain(lab, 1)
    assert (report.state, report.index, report.row, report.cursor) == ("no-mirror", None, None, None)
    assert fates(report) == ["made-row"]
    assert report.equal
    assert has_note(report, "there is no mirror yet")


def test_empty_changelog_has_no_events(lab: Lab) -> None:
    assert explain(lab, 1).events == ()


def test_only_files_that_may_hold_the_key_are_opened(lab: Lab) -> None:
    for start in range(0, 50, 10):
        lab.changelog.refresh().append(
            rows_table(
                lab.changelog.schema(),
                [
                    {
                        "id": key,
                        "name": f"n{key}",
                        "cdc_operation": "INSERT",
                        "sequence_number": sequence_text(key),
                    }
                    for key in range(start, start + 10)
                ],
            )
        )
    lab.merge()
    report = explain(lab, 23)
    assert (report.read.changelog_files, report.read.of_changelog_files) == (1, 5)
    assert report.row is not None
    assert report.row.values == {"id": 23, "name": "n23"}


@pytest.mark.parametrize("transform", [IdentityTransform(), BucketTransform(4)])
def test_other_partitions_are_not_opened(tmp_path: Path, transform: Any) -> None:
    lab = Lab.make(tmp_path)
    schema = lab.changelog.schema()
    lab.catalog.drop_table("lab.world_changelog")
    spec = PartitionSpec(PartitionField(1, 1000, transform, "part"))
    properties = {"write.metadata.metrics.default": "none"}
    lab.changelog = lab.catalog.create_table(
        "lab.world_changelog", schema, partition_spec=spec, properties=properties
    )
    rows = [
        {"id": key, "name": "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(key)}
        for key in range(12)
    ]
    lab.changelog.append(rows_table(lab.changelog.schema(), rows))
    lab.merge()
    for key in range(12):
        report = explain(lab, key)
        assert report.read.changelog_files == 1
        assert fates(report) == ["made-row"]


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_every_kind_of_key_is_found(tmp_path: Path, kind: str) -> None:
    key_columns = KEY_KINDS[kind].columns
    names = [name for name, _ in key_columns]
    lab = Lab.make(tmp_path, changelog_schema(*key_columns, ("name", StringType()), keys=names))
    pool = make_key_pool(kind, 12, np.random.default_rng(3))
    keys = [row_as_json(pool.slice(at, 1)) for at in range(pool.num_rows)]
    schema = schema_to_pyarrow(lab.changelog.schema())
    count = pool.num_rows
    columns = {
        **{name: pool[name].to_pylist() for name in names},
        "name": [f"n{at}" for at in range(count)],
        "cdc_operation": ["INSERT"] * count,
        "sequence_number": [sequence_text(at) for at in range(count)],
    }
    rows = pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)
    for at in range(count):
        lab.changelog.append(rows.slice(at, 1))  # each file with separate bounds
    lab.merge()
    for at, key in enumerate(keys):
        report = explain(lab, key)
        assert (report.state, report.equal, report.key) == ("present", True, key)
        assert report.row is not None
        assert report.row.values == {**key, "name": f"n{at}"}
        assert [item.words for item in report.events] == ["wrote the row"]
        assert report.read.changelog_files < count or kind in ("uuid", "boolean")


def test_number_and_timestamp_sequences_keep_their_types(tmp_path: Path) -> None:
    schema = changelog_schema(
        ("id", LongType()), ("name", StringType()), ("at", TimestamptzType()), ("n", LongType())
    )
    lab = Lab.make(tmp_path, schema, options="sequence_column: [at, n]\n")
    row = {"id": 1, "name": "a", "at": 1_000_000, "n": -5, "cdc_operation": "INSERT", "sequence_number": ""}
    arrow = schema_to_pyarrow(schema)
    lab.commit(pa.table([pa.array([row[f.name]], f.type) for f in arrow], schema=arrow))
    lab.merge()
    report = explain(lab, 1)
    expected = {"at": "1970-01-01T00:00:01.000000+00:00", "n": -5}
    assert report.events[0].sequence == expected
    assert report.index is not None
    assert report.index.sequence == expected


def test_explaining_writes_nothing(lab: Lab) -> None:
    lab.commit_events("I1@10")
    lab.merge()
    lab.commit_events("U1@20")
    before, head = lab.files_on_disk(), lab.mirror.metadata_location
    explain(lab, 1)
    assert (lab.files_on_disk(), lab.mirror.metadata_location) == (before, head)


def test_concurrent_merge_does_not_change_the_report(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.commit_events("I1@10=a")
    lab.merge()
    lab.commit_events("U1@20=b")
    find = find_row

    def merge_first(*arguments: Any, **options: Any) -> Any:
        lab.merge()
        return find(*arguments, **options)

    monkeypatch.setattr(explain_module, "find_row", merge_first)
    report = explain(lab, 1)
    assert report.row is not None
    assert ((report.row.values or {})["name"], report.equal) == ("a", True)


def test_bad_key_is_refused_before_any_file_is_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.commit_events("I1@10")
    monkeypatch.setattr(explain_module, "find_events", None)
    with pytest.raises(BadKey):
        explain(lab, "x")


def test_missing_changelog_is_a_specific_error(lab: Lab) -> None:
    lab.catalog.drop_table("lab.world_changelog")
    with pytest.raises(Invalid, match="there is no changelog"):
        explain(lab, 1)


def test_values_beyond_the_size_limit_are_omitted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_events, "_MAX_VALUE_BYTES", 30)
    lab.commit_events("I1@1=a U1@2=b U1@3=c")
    lab.merge()
    report = explain(lab, 1)
    assert [item.values is None for item in report.events] == [False, True, True]
    assert has_note(report, "are omitted")
