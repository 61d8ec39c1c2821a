"""Changelog rows that are not plain changes: null records, truncations, ignored and unknown rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IntegerType, LongType, NestedField, StringType, StructType

from spark_job.commands.explain.explain_key import explain_key
from tests.lab.bad_rows import rejected
from tests.lab.column_changes import assert_sound, change_columns, rebuild, rows
from tests.lab.lab import Lab, rows_table
from tests.tables.profiles.debezium import SCHEMA, Source


def merge_error(lab: Lab) -> str:
    error = lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    return error.message


def nullable(source: Source, *rows: dict[str, object]) -> pa.Table:
    """Return rows whose key may be NULL, despite the schema."""
    schema = Schema(*(field.model_copy(update={"required": False}) for field in SCHEMA.fields))
    return rows_table(schema, rows)


def test_truncation_is_applied(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, 1, body="b", op="c"))
    source.lab.merge()
    rows = [source.row(2, 2, body="b", op="c"), source.row(None, 3, None, None, op="t")]
    source.lab.commit(nullable(source, *rows, source.row(3, 4, body="b", op="c")))
    assert source.lab.merge().outcome == "rebuilt"
    assert source.rows() == {3: ("n", "b")}


def test_truncation_blocks_the_table_before_any_write(tmp_path: Path) -> None:
    source = Source(tmp_path, "on_truncate: stop")
    source.commit(source.row(1, 1, body="b", op="c"))
    source.lab.merge()
    before = source.lab.mirror.metadata_location, source.lab.files_on_disk()
    source.lab.commit(
        nullable(source, source.row(2, 2, body="b", op="c"), source.row(None, 3, None, None, op="t"))
    )
    message = merge_error(source.lab)
    assert "row 1 reports a truncation of the source ('t')" in message
    assert "skipped.operations" in message
    assert (source.lab.mirror.metadata_location, source.lab.files_on_disk()) == before


def test_truncation_is_ignored_if_configured(tmp_path: Path) -> None:
    source = Source(tmp_path, "operation_values: {insert: [c, r], update: [u], delete: [d], ignore: [t]}")
    source.lab.commit(nullable(source, source.row(None, 3, None, None, op="t"), source.row(1, 4, body="b")))
    source.lab.merge()
    assert source.rows() == {1: ("n", "b")}


def test_null_record_without_a_key_is_ignored(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.lab.commit(
        nullable(source, source.row(1, 4, body="b"), source.row(None, None, None, None, op=None))
    )
    source.lab.merge()
    assert source.rows() == {1: ("n", "b")}


def test_row_with_a_sequence_but_no_operation_is_not_a_null_record(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, 4, body="b"), source.row(1, 5, op=None))
    assert "unknown operation NULL in row 1" in merge_error(source.lab)


def test_null_records_are_ignored_and_other_rows_without_operation_rejected(tmp_path: Path) -> None:
    source = Source(tmp_path, "on_bad_row: quarantine")
    source.commit(
        source.row(1, 4, body="b"),
        source.row(2, None, None, None, op=None),
        source.row(3, 5, "bad", op=None),
        source.row(4, None, None, None, op=None),
    )
    source.lab.merge()
    assert source.rows() == {1: ("n", "b")}
    assert rejected(source.lab) == [("null-operation", "bad")]


@pytest.mark.parametrize("kind", [StringType(), BooleanType()], ids=str)
def test_without_operations_a_null_record_has_neither_sequence_nor_flag(
    tmp_path: Path, kind: StringType | BooleanType
) -> None:
    schema = Schema(*SCHEMA.fields[:4], NestedField(5, "__deleted", kind), SCHEMA.fields[5])
    false, true = ("false", "true") if isinstance(kind, StringType) else (False, True)
    source = Source(tmp_path, "primary_keys: [id]", schema)

    def row(key: int, lsn: int | None, deleted: object) -> dict[str, object]:
        return {"id": key, "name": "n", "body": "b", "__source_lsn": lsn, "__deleted": deleted}

    source.commit(row(1, 1, false), row(2, 1, false), row(1, 2, true), row(1, None, None), row(2, None, None))
    source.lab.merge()
    assert source.rows() == {2: ("n", "b")}
    source.commit(row(2, None, false))
    assert "__source_lsn is NULL in row 0" in merge_error(source.lab)


def test_row_with_null_flag_and_null_sequence_is_not_a_null_record(tmp_path: Path) -> None:
    schema = Schema(*SCHEMA.fields[:4], NestedField(5, "gone", BooleanType()), SCHEMA.fields[5])
    source = Source(tmp_path, "primary_keys: [id]\nupsert_only: true\ndelete_column: gone", schema)
    source.commit({"id": 1, "name": "n", "body": "b", "__source_lsn": None, "gone": None})
    assert "__source_lsn is NULL in row 0" in merge_error(source.lab)


def test_rows_after_an_ignored_row_keep_their_positions(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, None, op=None), source.row(1, 4, "one", "b"), source.row(2, 5, "two", "b"))
    source.lab.merge()
    assert source.rows() == {1: ("one", "b"), 2: ("two", "b")}
    source.commit(source.row(1, None, op=None), source.row(1, 6), source.row(1, None))
    assert "__source_lsn is NULL in row 2" in merge_error(source.lab)


def test_only_snapshot_rows_may_lack_a_sequence_column(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.commit(source.row(1, None, body="b", op="r"))
    source.lab.merge()
    source.commit(source.row(1, None, body="b", op="c"))
    assert "__source_lsn is NULL in row 0" in merge_error(source.lab)


def make_dms(folder: Path, *rows: dict[str, object]) -> Lab:
    schema = Schema(
        NestedField(1, "Op", StringType()),
        NestedField(2, "ts", StringType()),
        NestedField(3, "id", LongType(), required=True),
        NestedField(4, "name", StringType()),
        identifier_field_ids=[3],
    )
    lab = Lab.make(folder, schema, options="profile: dms\nsequence_column: ts")
    lab.commit(rows_table(schema, list(rows)))
    return lab


@pytest.mark.parametrize(
    "more", ["", "operation_values: {insert: [I], update: [U], delete: [D], truncate: [T]}"]
)
def test_dms_full_load_files_may_lack_cdc_columns(tmp_path: Path, more: str) -> None:
    options = f"profile: dms\nsequence_column: ts\nmetadata_columns: {{source_sequence: s}}\n{more}"
    loaded = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        identifier_field_ids=[1],
    )
    lab = Lab.make(tmp_path, loaded, options=options)
    lab.commit(rows_table(loaded, [{"id": 1, "name": "loaded"}, {"id": 2, "name": "loaded"}]))
    change_columns(
        lab, lambda to: to.add_column("Op", StringType()), lambda to: to.add_column("ts", StringType())
    )
    schema = lab.changelog.schema()
    changed = {"id": 1, "name": "changed", "Op": "U", "ts": "2026-03-01 10:00:00"}
    lab.commit(rows_table(schema, [changed]))
    lab.merge()
    assert {row["id"]: (row["name"], row["s"]) for row in rows(lab)} == {
        1: ("changed", "2026-03-01 10:00:00"),
        2: ("loaded", None),
    }
    assert_sound(lab)
    assert explain_key(lab.pipeline, lab.table, "2").equal
    rebuild(lab)
    assert lab.rows() == {1: "changed", 2: "loaded"}
    lab.commit(rows_table(Schema(*schema.fields[:2], schema.fields[2]), [{"id": 2, "name": "x", "Op": "U"}]))
    assert "ts is NULL in row 0" in merge_error(lab)


@pytest.mark.parametrize("operation", ["U", "D"])
def test_dms_changes_require_a_sequence(tmp_path: Path, operation: str) -> None:
    lab = make_dms(tmp_path, {"Op": operation, "ts": None, "id": 1, "name": "x"})
    assert "ts is NULL in row 0" in merge_error(lab)


def test_dms_timestamps_are_decoded(tmp_path: Path) -> None:
    lab = make_dms(tmp_path, {"Op": "I", "ts": "yesterday", "id": 1, "name": "x"})
    assert "column ts does not hold a sequence in row 0; expected a timestamp such as" in merge_error(lab)


def test_rows_of_a_second_full_load_are_older_than_every_change(tmp_path: Path) -> None:
    """The behaviour that docs/reference/profiles.md describes for reloads of DMS."""
    loaded: dict[str, object] = {"Op": None, "ts": None, "id": 1, "name": "loaded"}
    lab = make_dms(tmp_path, {"Op": "U", "ts": "2026-03-01 10:00:00", "id": 1, "name": "changed"}, loaded)
    lab.merge()
    assert lab.rows() == {1: "changed"}


def make_flagged(folder: Path, kind: BooleanType | IntegerType | StringType, *values: object) -> Lab:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        NestedField(3, "version", LongType(), required=True),
        NestedField(4, "gone", kind),
        identifier_field_ids=[1],
    )
    options = "profile: generic\nupsert_only: true\nsequence_column: version\ndelete_column: gone"
    lab = Lab.make(folder, schema, options=options)
    for version, value in enumerate(values):
        lab.commit(rows_table(schema, [{"id": 1, "name": str(version), "version": version, "gone": value}]))
    return lab


@pytest.mark.parametrize(
    ("kind", "live", "deleted"),
    [(BooleanType(), False, True), (IntegerType(), 0, 1), (StringType(), "false", "true")],
    ids=str,
)
def test_delete_flag_deletes_the_row(tmp_path: Path, kind: StringType, live: object, deleted: object) -> None:
    lab = make_flagged(tmp_path, kind, None, deleted)
    lab.merge()
    assert lab.rows() == {}
    assert [field.name for field in lab.mirror.schema().fields] == ["id", "name"]
    lab.commit(rows_table(lab.changelog.schema(), [{"id": 1, "name": "2", "version": 2, "gone": live}]))
    lab.merge()
    assert lab.rows() == {1: "2"}


def test_text_flag_other_than_true_or_false_is_refused(tmp_path: Path) -> None:
    assert "text other than true and false in row 0" in merge_error(
        make_flagged(tmp_path, StringType(), "yes")
    )


def test_flag_and_an_operation_both_delete(tmp_path: Path) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        NestedField(3, "op", StringType(), required=True),
        NestedField(4, "version", LongType(), required=True),
        NestedField(5, "gone", BooleanType()),
        identifier_field_ids=[1],
    )
    options = "profile: generic\noperation_column: op\nsequence_column: version\ndelete_column: gone"
    lab = Lab.make(tmp_path, schema, options=options)
    rows = [("INSERT", 1, False), ("UPDATE", 2, True), ("DELETE", 3, False), ("INSERT", 4, None)]
    lab.commit(
        rows_table(
            schema,
            [{"id": key, "name": op, "op": op, "version": 1, "gone": deleted} for op, key, deleted in rows],
        )
    )
    lab.merge()
    assert lab.rows() == {1: "INSERT", 4: "INSERT"}


def test_null_struct_has_no_operation(tmp_path: Path) -> None:
    inner = StructType(NestedField(4, "op", StringType()), NestedField(5, "offset", LongType()))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        NestedField(3, "_cdc", inner),
        identifier_field_ids=[1],
    )
    lab = Lab.make(tmp_path, schema, options="profile: kafka-connect\nsequence_column: _cdc.offset")
    lab.commit(rows_table(schema, [{"id": 1, "name": "x", "_cdc": None}]))
    assert "unknown operation NULL in row 0" in merge_error(lab)
