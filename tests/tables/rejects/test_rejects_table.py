"""The rejects table: types, schema changes, maintenance, and changes by users."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_job.maintenance.orphans import clean_orphans
from tests.lab.bad_rows import bad_events, make, rejected, rejects
from tests.lab.column_changes import change_columns
from tests.lab.lab import ID_AND_NAME, Lab, changelog_schema, local_path, rows_table, sequence_text

WIDE = changelog_schema(
    ("id", LongType()),
    ("t", TimeType()),
    ("u", UUIDType()),
    ("f", FixedType(3)),
    ("b", BinaryType()),
    ("d", DecimalType(20, 4)),
    ("z", TimestamptzType()),
    (
        "s",
        StructType(
            NestedField(50, "i", IntegerType(), required=True),
            NestedField(51, "l", ListType(52, StringType(), element_required=True), required=False),
        ),
    ),
    ("m", MapType(53, StringType(), 54, LongType(), value_required=False)),
)
VALUES = {
    "t": dt.time(23, 59, 59, 999999),
    "u": UUID(int=7).bytes,
    "f": b"abc",
    "b": b"\x00\xff",
    "d": Decimal("-1234567890123456.7891"),
    "z": dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC),
    "s": {"i": 7, "l": ["x", ""]},
    "m": [("k", 1), ("l", None)],
}


def test_rejected_values_of_every_type_are_kept(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, WIDE, options="on_bad_row: quarantine")
    none = dict.fromkeys(VALUES)
    rows = [
        {"id": at, **values, "cdc_operation": operation, "sequence_number": sequence_text(at)}
        for at, (values, operation) in enumerate(
            [(VALUES, "INSERT"), (VALUES, "UPSERT"), (none, "INSERT"), (none, "UPSERT")]
        )
    ]
    lab.commit(rows_table(lab.changelog.schema(), rows))
    lab.merge()
    merged = lab.mirror.scan().to_arrow().sort_by("id").select(list(VALUES)).to_pylist()
    recorded = rejects(lab).scan().to_arrow().sort_by("id").select(list(VALUES)).to_pylist()
    assert recorded == merged
    assert recorded[0]["s"] == VALUES["s"]


NANOS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "op", StringType()),
    NestedField(3, "at", TimestamptzNanoType()),
    identifier_field_ids=[1],
)


def test_sequence_of_a_v3_type_is_recorded(tmp_path: Path) -> None:
    options = "profile: generic\noperation_column: op\nsequence_column: at\non_bad_row: quarantine"
    lab = Lab.make(tmp_path, NANOS, options=options, changelog_version=3)
    lab.commit(rows_table(NANOS, [{"id": 1, "op": "INSERT", "at": 5}, {"id": 2, "op": "?", "at": 7}]))
    lab.merge()
    assert (lab.mirror.metadata.format_version, rejects(lab).metadata.format_version) == (2, 3)
    assert rejects(lab).scan().to_arrow()["at"].cast(pa.int64()).to_pylist() == [7]


def test_older_format_version_without_a_needed_type_is_refused(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options="on_bad_row: quarantine", changelog_version=3)
    lab.commit(bad_events("X1@1"))
    lab.merge()
    change_columns(lab, lambda to: to.add_column("cdc_at", TimestamptzNanoType()))
    reconfigured = lab.reconfigure("on_bad_row: quarantine\ndelete_column: cdc_at")
    lab.commit(bad_events("X2@2"))
    error = reconfigured.try_merge().error
    assert error is not None
    assert "lab.world_rejects: has format version 2" in error.message
    assert "need version 3" in error.message


def test_added_column_is_recorded(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events("I1@1 X2@1=a"))
    lab.merge()
    with lab.changelog.refresh().update_schema() as update:
        update.add_column("amount", LongType())
    lab.catalog.drop_table("lab.world")
    field = pa.field("amount", pa.int64(), metadata={"PARQUET:field_id": "5"})
    rows = bad_events("I3@2 X4@2=b")
    lab.commit(rows.append_column(field, pa.array([7, 8], pa.int64())))
    lab.merge()
    recorded = rejects(lab).scan().to_arrow().to_pylist()
    assert sorted((row["name"], row["amount"]) for row in recorded) == [("a", None), ("b", 8)]


def test_recreated_changelog_continues_with_the_same_columns(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events("I1@1 X2@1=a"))
    lab.merge()
    names = rejects(lab).schema().column_names
    for name in ("lab.world", "lab.world_changelog"):
        lab.catalog.drop_table(name)
    lab.changelog = lab.catalog.create_table("lab.world_changelog", ID_AND_NAME)
    lab.commit(bad_events("I1@1 X2@1=b"))
    lab.merge()
    assert rejects(lab).schema().column_names == names
    assert rejected(lab) == [("unknown-operation", "a"), ("unknown-operation", "b")]


def test_old_snapshots_expire_with_new_ones(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events("I1@1 X1@1"))
    lab.merge()
    with rejects(lab).transaction() as transaction:
        transaction.set_properties(
            {"history.expire.min-snapshots-to-keep": "1", "history.expire.max-snapshot-age-ms": "1"}
        )
    for number in range(2, 6):
        lab.commit(bad_events(f"I{number}@1 X{number}@1"))
        lab.merge()
    assert len(rejects(lab).metadata.snapshots) <= 2
    assert len(rejected(lab)) == 5
    assert len(list(local_path(rejects(lab).location()).rglob("snap-*.avro"))) <= 2


def test_columns_made_required_become_optional_again(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events("X1@1=a"))
    lab.merge()
    with rejects(lab).update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", required=True)
        update.add_column("settled", BooleanType(), required=True, default_value=False)
        update.update_column("icemirror_file", required=True)
        update.set_identifier_fields("icemirror_file")
    lab.commit(bad_events("I?@2=b"))
    lab.merge()
    assert rejected(lab) == [("null-key", "b"), ("unknown-operation", "a")]
    schema = rejects(lab).schema()
    assert [field.name for field in schema.fields if field.required] == ["icemirror_file"]
    assert schema.identifier_field_names() == {"icemirror_file"}


def test_settled_rejects_may_be_deleted(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events("I1@1 X1@1=a X2@2=b"))
    lab.merge()
    rejects(lab).delete("id = 1")
    lab.commit(bad_events("I2@1 X3@1=c"))
    lab.merge()
    assert rejected(lab) == [("unknown-operation", "b"), ("unknown-operation", "c")]


def test_orphan_cleaning_of_the_mirror_does_not_touch_the_rejects_table(tmp_path: Path) -> None:
    lab = make(tmp_path)
    lab.commit(bad_events("I1@1 X1@1=a"))
    lab.merge()
    clean_orphans(lambda: lab.mirror, lab.table.name, older_than_seconds=-60)
    assert rejected(lab) == [("unknown-operation", "a")]
