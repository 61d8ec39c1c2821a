"""Keys that another writer put into the mirror a second time are found by the quick verification as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_job.runtime.engine import InProcess
from spark_job.verify.check import Options, verify_table
from spark_job.verify.findings import Kind, VerifyReport
from spark_job.verify.foreign import ForeignLook, check_foreign
from spark_job.verify.subject import open_subject
from tests.unit.merge import foreign
from tests.unit.merge.lab import Lab, changelog_schema, rows_table, sequence_text


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    lab = Lab.make(tmp_path, engine=InProcess(2))
    lab.tell(" ".join(f"I{key}@{key}" for key in range(1, 40)))
    lab.merge()
    lab.tell("U2@70 D3@80")
    lab.merge()
    return lab


def fast(lab: Lab, sample: int = 1000, *, show_keys: bool = False) -> VerifyReport:
    return verify_table(lab.pipeline, lab.table, Options(sample=sample, show_keys=show_keys))


def look(lab: Lab, most_rows: int = 1000) -> ForeignLook:
    return check_foreign(open_subject(lab.pipeline, lab.table), most_rows)


def test_a_key_that_others_added_once_more_is_found(lab: Lab) -> None:
    foreign.append(lab.mirror, [(500, "theirs"), (2, "theirs"), (22, "theirs")])
    report = fast(lab, show_keys=True)
    (found,) = report.findings
    assert (found.kind, found.count) == (Kind.DOUBLED_KEY, 2)
    assert found.keys == ("2", "22")
    assert not report.equal
    assert any("3 of 3 rows that others wrote" in note for note in report.notes)
    assert any("the next merge stops at a key that is twice there" in note for note in report.notes)
    lab.tell("U1@90")
    assert lab.try_merge().outcome == "failed"


def test_a_key_that_others_added_twice_is_found(lab: Lab) -> None:
    foreign.append(lab.mirror, [(500, "theirs")])
    foreign.append(lab.mirror, [(501, "theirs"), (500, "theirs")])
    (found,) = fast(lab).findings
    assert (found.kind, found.count) == (Kind.DOUBLED_KEY, 1)


def test_rows_that_others_replaced_deleted_or_added_are_not_twice_there(lab: Lab) -> None:
    foreign.delete_rows(lab.mirror, [20, 21])
    foreign.append(lab.mirror, [(20, "theirs"), (3, "deleted before"), (500, "new")])
    report = fast(lab)
    assert report.equal
    assert any("whether the changelog tells of them, only --deep does" in note for note in report.notes)


def test_a_row_of_others_that_is_deleted_again_does_not_count(lab: Lab) -> None:
    foreign.append(lab.mirror, [(22, "theirs")])
    assert not fast(lab).equal
    foreign.delete_rows(lab.mirror, [22])
    assert fast(lab).equal


def test_rows_that_only_moved_are_not_twice_there(lab: Lab) -> None:
    foreign.compact(lab.mirror)
    assert fast(lab).equal
    assert not look(lab).doubled


def test_keys_of_several_columns_are_compared_as_well(tmp_path: Path) -> None:
    from pyiceberg.types import LongType, StringType

    schema = changelog_schema(("id", LongType()), ("name", StringType()), keys=("id", "name"))
    lab = Lab.make(tmp_path, schema)
    row = {"id": 1, "name": "a", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab.commit(rows_table(schema, [row]))
    lab.merge()
    foreign.append(lab.mirror, [(1, "b")])
    assert fast(lab).equal
    foreign.append(lab.mirror, [(1, "a")])
    assert [one.kind for one in fast(lab).findings] == [Kind.DOUBLED_KEY]


def test_no_more_than_so_many_rows_are_read_and_it_is_said(lab: Lab) -> None:
    foreign.append(lab.mirror, [(22, "theirs")])
    foreign.append(lab.mirror, [(key, "theirs") for key in range(23, 28)])
    assert (look(lab).rows, look(lab).of_rows, len(look(lab).doubled)) == (6, 6, 6)
    some = look(lab, most_rows=3)
    assert (some.rows, some.of_rows, len(some.doubled)) == (1, 6, 1)
    assert some.notes[0].startswith("1 of 6 rows")
    assert look(lab, most_rows=0) == ForeignLook(of_rows=6)


def test_nothing_is_looked_at_where_nobody_else_has_written_or_no_sample_is_wanted(lab: Lab) -> None:
    assert look(lab) == ForeignLook()
    assert not fast(lab).notes
    foreign.append(lab.mirror, [(22, "theirs")])
    assert fast(lab, sample=0).equal
