"""An existing table becomes the mirror, or is refused; then merging continues as for any mirror."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from icemirror.errors import Conflict, Invalid
from spark_job.commands.adopt.adopt_table import Adopted, adopt_table
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.mirror import read_mirror
from tests.lab.lab import Lab
from tests.lab.mirrored_world import upgrade_like_java
from tests.lab.tables import PLAIN, add_rows, delete_positions, delete_rows, list_file, make_table

ROWS = [(1, "I1@10"), (2, "U2@25"), (4, "I4@40"), (5, "I5@50")]


def adopt(lab: Lab, merged_up_to: str = "none", *, dry_run: bool = False) -> Adopted:
    return adopt_table(lab.pipeline, lab.table, merged_up_to, dry_run=dry_run)


def fill_changelog(lab: Lab) -> int:
    """Commit events whose result is ROWS. Return the snapshot id of the head."""
    lab.commit_events("I1@10 I2@20 I3@30 I4@40")
    return lab.commit_events("U2@25 D3@35 I5@50")


def test_adoption_without_a_cursor_applies_every_event_again(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab, [(1, "stale"), (2, "stale")], [(3, "stale"), (9, "theirs")])
    adopt(lab)
    result = lab.merge()
    assert lab.rows() == {**dict(ROWS), 9: "theirs"}
    assert result.slices[0].stale == 0


@pytest.mark.parametrize("shards", [1, 3])
def test_adopted_table_is_merged_from_its_cursor(tmp_path: Path, shards: int) -> None:
    lab = Lab.make(tmp_path, engine=InProcessEngine(shards))
    fill_changelog(lab)
    make_table(lab, ROWS[:2], [*ROWS[2:], (3, "gone"), (9, "theirs")])
    delete_rows(lab, [3])
    adopt(lab, "head")
    assert lab.merge().outcome == "up-to-date"
    lab.commit_events("U1@9=old U2@24=old I3@34=old U4@41 D5@51 U9@45=old I6@1 U9@60")
    (slice_result,) = lab.merge().slices
    assert lab.rows() == {1: "I1@10", 2: "U2@25", 4: "U4@41", 6: "I6@1", 9: "U9@60"}
    assert slice_result.stale == 3


def test_row_without_events_is_newer_than_all_merged_events(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab, [*ROWS, (9, "theirs")])
    adopt(lab, "head")
    lab.commit_events("U9@45=old")
    lab.merge()
    assert lab.rows()[9] == "theirs"
    lab.commit_events("U9@51=new")
    lab.merge()
    assert lab.rows()[9] == "new"


def test_adoption_at_an_earlier_snapshot_continues_from_there(lab: Lab) -> None:
    first = lab.commit_events("I1@10 I2@20 I3@30 I4@40")
    lab.commit_events("U2@25 D3@35 I5@50")
    make_table(lab, [(1, "I1@10"), (2, "I2@20"), (3, "I3@30"), (4, "I4@40")])
    adopt(lab, str(first))
    (slice_result,) = lab.merge().slices
    assert slice_result.events == 3
    assert lab.rows() == dict(ROWS)


def test_table_of_format_version_3_is_adopted(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab, ROWS[:2], [*ROWS[2:], (3, "gone")])
    delete_rows(lab, [3])
    upgrade_like_java(lab.mirror)
    adopt(lab, "head")
    lab.commit_events("U1@60 D2@61")
    lab.merge()
    assert lab.rows() == {1: "U1@60", 4: "I4@40", 5: "I5@50"}


def test_table_without_rows_is_adopted(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab)
    adopt(lab)
    lab.merge()
    assert lab.rows() == dict(ROWS)


def test_key_becomes_the_identifier_in_the_adoption_commit(lab: Lab) -> None:
    fill_changelog(lab)
    before = make_table(lab, ROWS).metadata
    adopted = adopt(lab, "head")
    after = lab.mirror.metadata
    assert len(after.snapshots) == len(before.snapshots) + 1
    schema = lab.mirror.schema()
    assert schema.identifier_field_ids == [schema.find_field("id").field_id]
    assert schema.find_field("id").required
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert (head.snapshot_id, head.schema_id) == (adopted.snapshot_id, after.current_schema_id)
    mirror = read_mirror(lab.mirror, "lab.world")
    assert not mirror.has_foreign_writes
    assert mirror.live_rows == len(ROWS)


def test_table_with_the_identifier_keeps_its_schema(lab: Lab) -> None:
    fill_changelog(lab)
    id_column = NestedField(1, "id", LongType(), required=True)
    schema = Schema(id_column, NestedField(2, "name", StringType()), identifier_field_ids=[1])
    make_table(lab, ROWS, schema=schema)
    assert adopt(lab, "head").candidate.schema is None
    assert len(lab.mirror.metadata.schemas) == 1


def test_dry_run_writes_nothing(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab, ROWS)
    files = lab.files_on_disk()
    assert adopt(lab, dry_run=True).snapshot_id is None
    assert lab.files_on_disk() == files


REFUSED: dict[str, tuple[list[Any], Schema, str]] = {
    "repeated key": ([[*ROWS, (1, "x")], [(2, "y")]], PLAIN, r"2 rows have the key of another row, such as row \d+ of"),
    "NULL key": ([[*ROWS, (None, "x")]], PLAIN, "has rows without a key"),
    "missing column": ([], Schema(NestedField(1, "id", LongType())), "it lacks name"),
    "additional column": (
        [], Schema(*PLAIN.fields, NestedField(3, "more", LongType())), "it has more, which the changelog does not"
    ),
    "other type": (
        [], Schema(NestedField(1, "id", IntegerType()), NestedField(2, "name", StringType())),
        "column id changed from int to long",
    ),
    "other identifier": (
        [],
        Schema(
            NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType(), required=True),
            identifier_field_ids=[2],
        ),
        "its identifier fields are name, but the key is id",
    ),
    "required column": (
        [], Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType(), required=True)),
        "column name may now be NULL",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_unsuitable_table_is_refused_and_unchanged(lab: Lab, case: str) -> None:
    files, schema, message = REFUSED[case]
    fill_changelog(lab)
    table = make_table(lab, *files, schema=schema)
    on_disk = lab.files_on_disk()
    with pytest.raises(Invalid, match=message):
        adopt(lab)
    assert lab.mirror.metadata == table.refresh().metadata
    assert lab.files_on_disk() == on_disk


def test_deleted_duplicate_row_is_not_a_duplicate(lab: Lab) -> None:
    fill_changelog(lab)
    table = make_table(lab, ROWS)
    delete_rows(lab, [2])
    add_rows(table.refresh(), [(2, "U2@25")])
    adopt(lab, "head")
    lab.commit_events("U2@60")
    lab.merge()
    assert lab.rows() == {**dict(ROWS), 2: "U2@60"}


def test_equality_deletes_are_refused(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab, ROWS)
    list_file(lab, content=DataFileContent.EQUALITY_DELETES, equality_ids=[1])
    with pytest.raises(Invalid, match="equality deletes"):
        adopt(lab)


def test_row_deleted_twice_counts_once(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab, ROWS)
    delete_positions(lab, [0, 1])
    delete_positions(lab, [1])
    adopt(lab, "head")
    remaining = dict(ROWS[2:])
    assert lab.rows() == remaining
    lab.commit_events("U4@60")
    lab.merge()
    assert lab.rows() == {**remaining, 4: "U4@60"}


def test_data_files_other_than_parquet_are_refused(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab, ROWS)
    list_file(lab, file_format=FileFormat.ORC)
    with pytest.raises(Invalid, match="has the format ORC"):
        adopt(lab)


def test_table_of_format_version_1_is_refused(lab: Lab) -> None:
    fill_changelog(lab)
    lab.catalog.create_table("lab.world", PLAIN, properties={"format-version": "1"})
    with pytest.raises(Invalid, match="format version 1"):
        adopt(lab)


def test_mirror_is_not_adopted_again(lab: Lab) -> None:
    fill_changelog(lab)
    lab.merge()
    with pytest.raises(Invalid, match=r"is already the mirror of lab\.world_changelog"):
        adopt(lab)


def test_missing_table_is_refused(lab: Lab) -> None:
    fill_changelog(lab)
    with pytest.raises(Invalid, match="the table does not exist"):
        adopt(lab)


@pytest.mark.parametrize("up_to", ["123", "head"])
def test_snapshot_missing_in_the_changelog_is_refused(lab: Lab, up_to: str) -> None:
    make_table(lab, ROWS)
    if up_to == "head":  # an empty changelog has no head, so the mirror gets no cursor
        adopt(lab, up_to)
        assert read_mirror(lab.mirror, "lab.world").cursor is None
        return
    with pytest.raises(Invalid, match="has no snapshot 123"):
        adopt(lab, up_to)


def test_foreign_write_during_adoption_is_a_conflict(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_changelog(lab)
    make_table(lab, ROWS)

    def append_before_commit(point: str) -> None:
        if point == "adopt-commit":
            add_rows(lab.mirror, [(8, "theirs")])

    monkeypatch.setattr("spark_job.commit.commit_snapshot.crash_point", append_before_commit)
    with pytest.raises(Conflict):
        adopt(lab)
    assert "icemirror.source" not in lab.mirror.metadata.properties
    assert not [name for name in lab.files_on_disk() if name.endswith(".puffin")]
    monkeypatch.undo()
    adopt(lab, "head")
    assert read_mirror(lab.mirror, "lab.world").live_rows == len(ROWS) + 1


def test_merge_error_suggests_adopt(lab: Lab) -> None:
    fill_changelog(lab)
    make_table(lab, ROWS)
    error = lab.try_merge().error
    assert error is not None
    assert re.search("icemirror adopt", error.message)


def test_million_rows_are_adopted_in_seconds(lab: Lab) -> None:
    lab.commit_events("I1@10")
    table = make_table(lab)
    schema = schema_to_pyarrow(table.schema())
    ids = np.random.default_rng(1).permutation(1_000_000)
    for chunk in np.split(ids, 4):
        table.append(pa.table({"name": chunk.astype(str), "id": chunk}).select(["name", "id"]).cast(schema))
    began = time.monotonic()
    adopt(lab, "head")
    assert time.monotonic() - began < 30
    assert read_mirror(lab.mirror, "lab.world").live_rows == 1_000_000
