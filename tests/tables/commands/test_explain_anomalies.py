"""Explain reports foreign writes, index damage and changes of the changelog's history as what they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from icemirror.protocol.replay import Replay
from spark_job.commands.adopt.adopt_table import adopt_table
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.iceberg import mirror as mirror_module
from spark_job.iceberg.live_files import live_files
from spark_job.index import blocks
from spark_job.index.segment import TOMBSTONE, Entries
from spark_job.plan import backlog
from spark_job.plan.slices import plan_slices
from spark_job.rebuild.replay import replay_step
from spark_job.storage.file_cache import FileCache
from tests.lab import foreign
from tests.lab.damage import rewrite_segment, root_of
from tests.lab.explain import explain, fates, has_note, kinds
from tests.lab.lab import Lab, local_path, rows_table, sequence_text
from tests.lab.samples import commit_snapshot, expire_like_java, manifest_of
from tests.lab.tables import make_table


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start with empty file caches, like a new process."""
    monkeypatch.setattr(blocks, "_directories", FileCache(0))
    monkeypatch.setattr(mirror_module, "_roots", FileCache(0))


@pytest.mark.parametrize("version", [2, 3])
def test_row_that_another_writer_deleted_is_missing(tmp_path: Path, version: int) -> None:
    lab = Lab.make(tmp_path, options=f"format_version: {version}")
    lab.commit_events("I1@10=a I2@20")
    lab.merge()
    foreign.delete_rows(lab.mirror, [1])
    report = explain(lab, 1)
    assert kinds(report) == ["missing-row"]
    assert report.state == "missing"
    assert report.index is not None
    assert report.index.check == "deleted"
    assert has_note(report, "another writer has committed")
    lab.commit_events("I3@30")
    lab.merge()
    report = explain(lab, 1)
    assert (kinds(report), report.state) == (["missing-row"], "deleted")
    assert "another writer deleted it" in report.findings[0].what
    assert explain(lab, 2).equal


def test_foreign_row_is_noted(lab: Lab) -> None:
    lab.commit_events("I1@10 I2@20")
    lab.merge()
    foreign.append(lab.mirror, [(7, "theirs")])
    for _ in range(2):
        report = explain(lab, 7)
        assert (report.state, report.events, report.equal) == ("present", (), True)
        assert report.row is not None
        assert ((report.row.values or {})["name"], report.row.written_by) == ("theirs", "another-writer")
        assert has_note(report, "has no event of this key")
        lab.commit_events("I3@30")
        lab.merge()
    lab.commit_events("U7@15=old")
    lab.merge()
    report = explain(lab, 7)
    assert (fates(report), report.events[0].by) == (["late"], None)
    assert "the current row, whose event is not in the changelog" in report.events[0].words
    assert has_note(report, "has a newer order for this key than every event")
    assert kinds(report) == ["different-row"]


def test_row_that_another_writer_changed_differs_in_the_named_columns(lab: Lab) -> None:
    lab.commit_events("I1@10=a I2@20")
    lab.merge()
    foreign.delete_rows(lab.mirror, [1])
    foreign.append(lab.mirror, [(1, "changed")])
    report = explain(lab, 1)
    assert kinds(report) == ["different-row"]
    assert "in name" in report.findings[0].what
    assert has_note(report, "the row differs from its last event")


def test_row_that_another_writer_moved_is_no_difference(lab: Lab) -> None:
    lab.commit_events("I1@10=a I2@20")
    lab.merge()
    foreign.compact(lab.mirror)
    report = explain(lab, 1)
    assert (report.equal, report.state) == (True, "present")
    assert report.index is not None
    assert report.index.check == "no-file"
    assert has_note(report, "the row equals its last event")


def test_duplicate_row_of_another_writer_is_found(lab: Lab) -> None:
    lab.commit_events("I1@10=a")
    lab.merge()
    foreign.append(lab.mirror, [(1, "a")])
    assert kinds(explain(lab, 1)) == ["doubled-key"]


@pytest.mark.parametrize("up_to", ["none", "head"])
def test_adopted_row_is_reported_as_another_writers(lab: Lab, up_to: str) -> None:
    lab.commit_events("I1@10=a I2@20")
    make_table(lab, [(1, "a"), (9, "theirs")])
    adopt_table(lab.pipeline, lab.table, up_to, dry_run=False)
    report = explain(lab, 1)
    assert (report.state, report.equal) == ("present", True)
    assert report.row is not None
    assert report.row.written_by == "another-writer"
    assert fates(report) == ["made-row"]
    assert report.events[0].merged is (up_to == "head")
    assert has_note(explain(lab, 9), "table before it was adopted")


def _shift_positions(offset: int) -> Callable[[Entries], Entries]:
    return lambda entries: Entries(entries.keys, entries.file, entries.pos[::-1] + offset, entries.orders)


def test_index_entry_with_a_wrong_location_is_found(lab: Lab) -> None:
    lab.commit_events("I1@10 I3@20")
    lab.merge()
    rewrite_segment(lab, 0, _shift_positions(0))
    report = explain(lab, 1)
    assert kinds(report) == ["wrong-place"]
    assert "that row has another key" in report.findings[0].what
    assert report.row is not None
    assert (report.row.values or {})["name"] == "I1@10"
    rewrite_segment(lab, 0, _shift_positions(100))
    assert kinds(explain(lab, 1)) == ["wrong-place"]


def test_live_row_with_a_tombstone_is_found(lab: Lab) -> None:
    lab.commit_events("I1@10 I3@20")
    lab.merge()

    def to_tombstones(entries: Entries) -> Entries:
        return Entries(entries.keys, np.full_like(entries.file, TOMBSTONE), entries.pos, entries.orders)

    rewrite_segment(lab, 0, to_tombstones)
    assert kinds(explain(lab, 1)) == ["not-indexed"]


def test_event_skipped_by_a_merge_is_found(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.commit_events("I2@5")
    lab.merge()
    with monkeypatch.context() as patch:
        plan = plan_slices
        patch.setattr(backlog, "plan_slices", lambda *a: [type(p)((), p.cursor) for p in plan(*a)])
        lab.commit_events("I1@10=a")
        lab.merge()
    report = explain(lab, 1)
    assert (report.state, kinds(report)) == ("missing", ["missing-row"])


@pytest.mark.parametrize("part", ["segment", "root"])
def test_row_is_found_without_its_index(lab: Lab, part: str) -> None:
    lab.commit_events("I1@10=a")
    lab.merge()
    segment = local_path(root_of(lab).segments[0].path)
    path = segment if part == "segment" else next(segment.parent.glob("*.root.puffin"))
    path.unlink()
    report = explain(lab, 1)
    assert (report.state, report.index, report.equal) == ("present", None, True)
    assert [Path(problem.path).name for problem in report.unreadable] == [path.name]
    assert explain(lab, 2).state == "never-seen"


def test_missing_changelog_file_is_reported_with_the_remaining_events(lab: Lab) -> None:
    lab.commit_events("I1@10=a", "U1@20=b")
    lab.merge()
    path = explain(lab, 1).events[1].file
    local_path(path).unlink()
    report = explain(lab, 1)
    assert [problem.path for problem in report.unreadable] == [path]
    assert (len(report.events), report.equal, report.state) == (1, True, "present")


def test_event_that_cannot_be_merged_is_reported_with_its_row(lab: Lab) -> None:
    lab.commit_events("I1@10=a")
    lab.merge()
    row = {"id": 1, "name": "x", "cdc_operation": "UPSERT?", "sequence_number": sequence_text(11)}
    lab.commit(rows_table(lab.changelog.schema(), [row]))
    report = explain(lab, 1)
    assert (
        "the first in row 0, with an operation or sequence that cannot be merged" in report.unreadable[0].what
    )
    assert report.state == "present"


def test_expired_history_is_noted(lab: Lab) -> None:
    expired = [lab.commit_events("I1@1=a"), lab.commit_events("U1@2=b")]
    lab.commit_events("U1@3=c")
    lab.merge()
    expire_like_java(lab.changelog, *expired)
    report = explain(lab, 1)
    assert fates(report) == ["overtaken", "overtaken", "made-row"]
    assert [event.committed_at is None for event in report.events] == [True, True, False]
    assert has_note(report, "have expired")
    assert report.equal


def test_compacted_changelog_has_the_same_events(lab: Lab) -> None:
    lab.commit_events("I1@1=a")
    lab.commit_events("U1@2=b")
    files = [task.file for task in lab.changelog.refresh().scan().plan_files()]
    commit_snapshot(lab.changelog, "replace", [manifest_of(lab.changelog, 4711, files)], 4711)
    lab.merge()
    assert fates(explain(lab, 1)) == ["overtaken", "made-row"]


def test_recreated_changelog_is_noted(lab: Lab) -> None:
    lab.commit_events("I1@10=a")
    lab.merge()
    schema = lab.changelog.schema()
    lab.catalog.drop_table("lab.world_changelog")
    lab.changelog = lab.catalog.create_table("lab.world_changelog", schema)
    lab.commit_events("I1@5=other")
    report = explain(lab, 1)
    assert has_note(report, "was dropped and recreated")
    assert (report.state, report.equal) == ("present", True)
    assert [event.merged for event in report.events] == [False]


def test_changelog_with_deleted_rows_has_a_note_instead_of_events(lab: Lab) -> None:
    lab.commit_events("I1@10=a")
    lab.merge()
    lab.changelog.refresh().delete("id = 1")
    report = explain(lab, 1)
    assert (report.state, report.events) == ("present", ())
    assert has_note(report, "may only be appended")


def test_replay_does_not_change_the_report(lab: Lab) -> None:
    first = lab.commit_events("I1@10=a I2@1")
    lab.commit_events("U1@30=c")
    lab.merge()
    lab.commit_events("U1@20=late")
    lab.merge()
    before = explain(lab, 1)
    assert replay_step(lab.pipeline, lab.table, Replay("r1", 0.0, from_snapshot=first)).done
    after = explain(lab, 1)
    assert fates(after) == ["overtaken", "late", "made-row"]
    assert after.model_copy(update={"seconds": 0}) == before.model_copy(update={"seconds": 0})


def data_file(lab: Lab) -> Path:
    (path,) = live_files(lab.mirror.io, lab.mirror.current_snapshot())
    return local_path(path)


def test_missing_data_file_makes_the_state_unknown(lab: Lab) -> None:
    lab.commit_events("I1@10 I2@20")
    lab.merge()
    data_file(lab).unlink()
    report = explain(lab, 1)
    assert (report.state, report.findings, report.complete) == ("unknown", (), False)
    assert len(report.unreadable) == 1
    assert fates(report) == ["made-row"]


def test_row_with_unreadable_values_is_still_reported(lab: Lab) -> None:
    lab.commit_events("I1@10=aaaaaaaaaaaaaaaa")
    lab.merge()
    path = data_file(lab)
    parquet = pq.ParquetFile(path)
    chunk = parquet.metadata.row_group(0).column(parquet.schema_arrow.get_field_index("name"))
    start = min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
    at = start + chunk.total_compressed_size - 2
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)
    report = explain(lab, 1)
    assert report.state == "present"
    assert report.row is not None
    assert report.row.values is None
    assert (len(report.unreadable), report.complete, fates(report)) == (1, False, ["made-row"])


def test_column_missing_in_the_file_is_read_from_the_partition(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options='partition_by: ["name"]')
    lab.commit_events("I1@10=a I2@20=a")
    lab.merge()
    path = data_file(lab)
    pq.write_table(pq.read_table(path).drop_columns(["name"]), path)
    assert lab.rows() == {1: "a", 2: "a"}
    report = explain(lab, 1)
    assert report.equal, report.findings
    assert report.row is not None
    assert report.row.values == {"id": 1, "name": "a"}
    verified = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert verified.equal, verified.findings
