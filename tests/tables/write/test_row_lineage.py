from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.types import LongType, StringType

from icemirror.errors import Kind
from spark_job.engine.engine import InProcessEngine
from spark_job.iceberg.lineage_columns import LINEAGE_IDS, ROW_ID
from spark_job.iceberg.live_files import live_files
from spark_job.pyiceberg_private.manifest_files import next_row_id
from spark_job.write.read_deletes import read_deleted_positions
from spark_job.write.row_lineage import read_row_ids
from tests.lab.lab import Lab, changelog_schema, local_path, rows_table, sequence_text
from tests.lab.mirrored_world import upgrade_like_java

V3 = "format_version: 3"
TEXT_KEY = changelog_schema(("id", StringType()), ("name", StringType()))


def save(folder: Path, name: str, row_ids: list[int | None] | None, rows: int = 4) -> str:
    """Write a data file with two rows per row group, optionally with a row id column."""
    fields = [pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})]
    columns: list[Any] = [list(range(rows))]
    if row_ids is not None:
        fields.append(pa.field("_row_id", pa.int64(), metadata={"PARQUET:field_id": str(ROW_ID)}))
        columns.append(row_ids)
    arrays = [pa.array(column, pa.int64()) for column in columns]
    path = folder / name
    pq.write_table(pa.table(arrays, schema=pa.schema(fields)), path, row_group_size=2)
    return str(path)


def test_row_ids_come_from_the_column_or_from_the_first_row_id(tmp_path: Path) -> None:
    paths = [
        save(tmp_path, "a", None),
        save(tmp_path, "b", [None, 7, None, 9]),
        save(tmp_path, "c", None),
        save(tmp_path, "d", [None, 5, 6, None]),
    ]
    file = np.array([1, 0, -1, 1, 3, 2, 1, -2, 3], np.int32)
    pos = np.array([3, 2, 0, 0, 1, 1, 1, 0, 3], np.int64)
    row_ids = read_row_ids(PyArrowFileIO(), paths, (100, 200, None, None), file, pos)
    assert row_ids.to_pylist() == [9, 102, None, 200, 5, None, 7, None, None]


def lineage_of(lab: Lab) -> dict[Any, int | None]:
    """Return the row id of each live row by key, by the rules of the specification."""
    row_ids: dict[Any, int | None] = {}
    live = live_files(lab.mirror.io, lab.mirror.current_snapshot())
    deleted = read_deleted_positions(lab.mirror.io, live)
    for path, file in live.items():
        rows = pq.read_table(local_path(path)).to_pylist()
        for at, row in enumerate(rows):
            if at in deleted[path]:
                continue
            inherited = None if file.first_row_id is None else file.first_row_id + at
            written = row.get("_row_id")
            assert row["id"] not in row_ids
            row_ids[row["id"]] = inherited if written is None else written
    return row_ids


@pytest.mark.parametrize("shards", [1, 3])
def test_updated_row_keeps_its_id(tmp_path: Path, shards: int) -> None:
    lab = Lab.make(tmp_path, options=V3, engine=InProcessEngine(shards))
    lab.commit_events("I3@1 I1@1 I2@1")
    lab.merge()
    first = lineage_of(lab)
    assert sorted(first) == [1, 2, 3]
    assert sorted(first.values()) == [0, 1, 2]  # type: ignore[type-var]
    lab.commit_events("U2@5 I9@5 D1@5")
    lab.merge()
    second = lineage_of(lab)
    assert (second[2], second[3]) == (first[2], first[3])
    assert second[9] is not None
    assert second[9] > 2
    lab.commit_events("U2@6 U9@6 I1@6")
    lab.merge()
    third = lineage_of(lab)
    assert {key: third[key] for key in (2, 3, 9)} == second
    assert third[1] not in first.values(), "a row that is inserted again gets a new id"
    assert (next_row_id(lab.mirror.metadata) or 0) > max(filter(None, third.values()))
    assert lab.rows() == {1: "I1@6", 2: "U2@6", 3: "I3@1", 9: "U9@6"}


def test_updated_row_keeps_its_id_with_hashed_keys(tmp_path: Path) -> None:
    """With hashed keys, rows are written in the order of the changelog, not of the keys."""
    lab = Lab.make(tmp_path, TEXT_KEY, options=f'{V3}\npartition_by: ["bucket[2](id)"]')

    def merge_updates(sequence: int, *keys: str) -> None:
        lab.commit(
            rows_table(
                TEXT_KEY,
                [
                    {
                        "id": key,
                        "name": f"{key}{sequence}",
                        "cdc_operation": "UPDATE",
                        "sequence_number": sequence_text(sequence),
                    }
                    for key in keys
                ],
            )
        )
        lab.merge()

    merge_updates(1, *"fedcba")
    before = lineage_of(lab)
    merge_updates(2, *"xbyeza")
    merge_updates(3, *"axe")
    after = lineage_of(lab)
    assert {key: after[key] for key in before} == before
    assert len(set(after.values())) == 9


def test_lineage_columns_are_written_only_for_updated_rows(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options=V3)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    lab.commit_events("U2@2 I3@2")
    lab.merge()
    tables = [
        pq.read_table(local_path(path)) for path in live_files(lab.mirror.io, lab.mirror.current_snapshot())
    ]
    (plain,) = [table for table in tables if "_row_id" not in table.column_names]
    (updated,) = [table for table in tables if "_row_id" in table.column_names]
    assert plain.column_names == ["id", "name"]
    assert updated["_row_id"].to_pylist() == [1, None]
    assert updated["_last_updated_sequence_number"].to_pylist() == [None, None]
    field_ids = {int(field.metadata[b"PARQUET:field_id"]) for field in updated.schema}
    assert field_ids == {1, 2, *LINEAGE_IDS}


def test_row_ids_have_no_bounds(tmp_path: Path) -> None:
    """A NULL row id is assigned later, so bounds would not cover it."""
    lab = Lab.make(tmp_path, options=V3)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    lab.commit_events("U2@2 I3@2")
    lab.merge()
    for task in lab.mirror.scan().plan_files():
        footer = pq.read_metadata(local_path(task.file.file_path))
        assert not LINEAGE_IDS.intersection(task.file.lower_bounds)
        assert not LINEAGE_IDS.intersection(task.file.upper_bounds)
        for number in range(2, footer.num_columns):
            assert footer.row_group(0).column(number).statistics is None


def test_mirror_of_version_2_has_no_lineage(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    lab.commit_events("U2@2")
    lab.merge()
    for path, file in live_files(lab.mirror.io, lab.mirror.current_snapshot()).items():
        assert pq.read_table(local_path(path)).column_names == ["id", "name"]
        assert file.first_row_id is None


def test_next_merge_assigns_row_ids_of_an_upgraded_table(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path)
    lab.commit_events("I1@1 I2@1")
    lab.merge()
    lab.commit_events("U2@2")
    lab.merge()
    upgrade_like_java(lab.mirror)
    lab.commit_events("U1@3")
    lab.merge()
    first = lineage_of(lab)
    assert None not in first.values()
    assert len(set(first.values())) == 2
    lab.commit_events("U1@4 U2@4")
    lab.merge()
    assert lineage_of(lab) == first


@pytest.mark.parametrize("name", ["_row_id", "_last_updated_sequence_number"])
def test_column_with_a_lineage_name_is_refused(tmp_path: Path, name: str) -> None:
    schema = changelog_schema(("id", LongType()), (name, StringType()))
    row = {"id": 1, name: "x", "cdc_operation": "INSERT", "sequence_number": sequence_text(1)}
    lab = Lab.make(tmp_path, schema, options=V3)
    lab.commit(rows_table(schema, [row]))
    result = lab.try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.INVALID
    assert f"cannot have a column {name}" in result.error.message
    v2 = lab.reconfigure("format_version: 2")
    v2.merge()
    upgrade_like_java(v2.mirror)
    v2.commit(rows_table(schema, [row | {"sequence_number": sequence_text(2)}]))
    result = v2.try_merge()
    assert result.error is not None
    assert f"cannot have a column {name}" in result.error.message
