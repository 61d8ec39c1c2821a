"""The fast verification also finds keys that another writer duplicated."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_job.commands.verify.sample import ForeignRowsCheck, check_foreign_rows
from spark_job.commands.verify.subject import open_subject
from spark_job.commands.verify.verify_report import FindingKind, VerifyReport
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.engine.engine import InProcessEngine
from tests.lab import foreign
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab.make(tmp_path, engine=InProcessEngine(2))
    lab.commit_events(" ".join(f"I{key}@{key}" for key in range(1, 40)))
    lab.merge()
    lab.commit_events("U2@70 D3@80")
    lab.merge()
    return lab


def fast(lab: Lab, sample: int = 1000, *, show_keys: bool = False) -> VerifyReport:
    return verify_table(lab.pipeline, lab.table, VerifyOptions(sample=sample, show_keys=show_keys))


def check(lab: Lab, max_rows: int = 1000) -> ForeignRowsCheck:
    return check_foreign_rows(open_subject(lab.pipeline, lab.table), max_rows)


def test_key_duplicated_by_another_writer_is_found(lab: Lab) -> None:
    foreign.append(lab.mirror, [(500, "theirs"), (2, "theirs"), (22, "theirs")])
    report = fast(lab, show_keys=True)
    (found,) = report.findings
    assert (found.kind, found.count) == (FindingKind.DUPLICATE_KEY, 2)
    assert found.keys == ("2", "22")
    assert not report.equal
    assert any("3 of 3 rows written since then" in note for note in report.notes)
    assert any("the next merge stops at a duplicate key" in note for note in report.notes)
    lab.commit_events("U1@90")
    assert lab.try_merge().outcome == "failed"


def test_key_added_twice_by_another_writer_is_found(lab: Lab) -> None:
    foreign.append(lab.mirror, [(500, "theirs")])
    foreign.append(lab.mirror, [(501, "theirs"), (500, "theirs")])
    (found,) = fast(lab).findings
    assert (found.kind, found.count) == (FindingKind.DUPLICATE_KEY, 1)


def test_foreign_updates_deletes_and_inserts_are_no_duplicates(lab: Lab) -> None:
    foreign.delete_rows(lab.mirror, [20, 21])
    foreign.append(lab.mirror, [(20, "theirs"), (3, "deleted before"), (500, "new")])
    report = fast(lab)
    assert report.equal
    assert any("--deep also compares them with the changelog" in note for note in report.notes)


def test_deleted_foreign_row_is_no_duplicate(lab: Lab) -> None:
    foreign.append(lab.mirror, [(22, "theirs")])
    assert not fast(lab).equal
    foreign.delete_rows(lab.mirror, [22])
    assert fast(lab).equal


def test_moved_rows_are_no_duplicates(lab: Lab) -> None:
    foreign.compact(lab.mirror)
    assert fast(lab).equal
    assert not check(lab).duplicates


def test_composite_keys_are_compared(tmp_path: Path) -> None:
    from pyiceberg.types import LongType, StringType

    schema = changelog_schema(("id", LongType()), ("name", StringType()), keys=("id", "name"))
    lab = Lab.make(tmp_path, schema)
    row = {"id": 1, "name": "a", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab.commit(rows_table(schema, [row]))
    lab.merge()
    foreign.append(lab.mirror, [(1, "b")])
    assert fast(lab).equal
    foreign.append(lab.mirror, [(1, "a")])
    assert [finding.kind for finding in fast(lab).findings] == [FindingKind.DUPLICATE_KEY]


def test_number_of_compared_rows_is_limited_and_noted(lab: Lab) -> None:
    foreign.append(lab.mirror, [(22, "theirs")])
    foreign.append(lab.mirror, [(key, "theirs") for key in range(23, 28)])
    assert (check(lab).rows, check(lab).total_rows, len(check(lab).duplicates)) == (6, 6, 6)
    limited = check(lab, max_rows=3)
    assert (limited.rows, limited.total_rows, len(limited.duplicates)) == (1, 6, 1)
    assert limited.notes[0].startswith("1 of 6 rows")
    assert check(lab, max_rows=0) == ForeignRowsCheck(total_rows=6)


def test_no_rows_are_read_without_foreign_writes_or_without_a_sample(lab: Lab) -> None:
    assert check(lab) == ForeignRowsCheck()
    assert not fast(lab).notes
    foreign.append(lab.mirror, [(22, "theirs")])
    assert fast(lab, sample=0).equal
