"""Files that store key, operation or sequence in another physical type than the table: imports, old writers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from tests.lab.column_changes import assert_sound
from tests.lab.explain import explain
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text

BY_TIME = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "op", StringType()),
    NestedField(4, "at", TimestampType()),
    identifier_field_ids=[1],
)
GENERIC = "profile: generic\noperation_column: op\nsequence_column: at\nkeep_columns: [at]"
EARLY, SOON, LATE = (
    dt.datetime.fromisoformat(text) for text in ("1600-01-01", "2024-01-01", "2024-01-02 03:04:05")
)
UNITS = pytest.mark.parametrize("unit", ["s", "ms", "int96"])


def commit_in_unit(
    lab: Lab, table: pa.Table, column: str, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commit one file with one column in another unit."""
    if unit == "int96":
        write_int96 = partial(pq.write_table, use_deprecated_int96_timestamps=True, store_schema=False)
        with monkeypatch.context() as patch:
            patch.setattr(pq, "write_table", write_int96)
            lab.commit(table)
        return
    index = table.column_names.index(column)
    old = table.schema.field(index)
    kind = pa.time32(unit) if pa.types.is_time(old.type) else pa.timestamp(unit, old.type.tz)
    lab.commit(table.set_column(index, old.with_type(kind), table[column].cast(kind)))


def event(key: int, name: str, at: dt.datetime) -> dict[str, Any]:
    return {"id": key, "name": name, "op": "UPDATE", "at": at}


@UNITS
@pytest.mark.parametrize("early", [EARLY, SOON])
def test_events_with_times_in_another_unit_are_ordered_correctly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, early: dt.datetime
) -> None:
    lab = Lab.make(tmp_path, BY_TIME, options=GENERIC)
    lab.commit(rows_table(BY_TIME, [event(1, "new", LATE), event(2, "old", early)]))
    lab.merge()
    later = rows_table(BY_TIME, [event(1, "old", early), event(2, "new", LATE)])
    commit_in_unit(lab, later, "at", unit, monkeypatch)
    lab.merge()
    rows = lab.mirror.scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["name"], row["at"]) for row in rows) == [(1, "new", LATE), (2, "new", LATE)]
    assert_sound(lab)


@pytest.mark.parametrize("single", [True, False], ids=["single column", "composite"])
@pytest.mark.parametrize(
    ("kind", "value", "unit"),
    [
        (TimestampType(), LATE, "ms"),
        (TimestampType(), EARLY, "int96"),
        (TimestamptzType(), LATE.replace(tzinfo=dt.UTC), "ms"),
        (TimestamptzType(), LATE.replace(tzinfo=dt.UTC), "int96"),
        (TimeType(), dt.time(1, 2, 3), "ms"),
    ],
    ids=str,
)
def test_equal_times_in_another_unit_are_one_key(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: IcebergType,
    value: object,
    unit: str,
    single: bool,
) -> None:
    keys = ("at",) if single else ("at", "id")
    schema = changelog_schema(("at", kind), ("id", LongType()), ("name", StringType()), keys=keys)
    lab = Lab.make(tmp_path, schema)

    def event_file(operation: str, sequence: int) -> pa.Table:
        cdc = {"cdc_operation": operation, "sequence_number": sequence_text(sequence)}
        return rows_table(lab.changelog.schema(), [{"at": value, "id": 1, "name": f"{sequence}", **cdc}])

    lab.commit(event_file("INSERT", 1))
    lab.merge()
    lab.commit(event_file("UPDATE", 2))
    commit_in_unit(lab, event_file("UPDATE", 3), "at", unit, monkeypatch)
    lab.merge()
    (row,) = lab.mirror.scan().to_arrow().to_pylist()
    assert (row["at"], row["name"]) == (value, "3")
    assert_sound(lab)


def test_one_instant_in_different_time_zones_is_one_key(tmp_path: Path) -> None:
    schema = changelog_schema(
        ("at", TimestamptzType()), ("id", LongType()), ("name", StringType()), keys=("at", "id")
    )
    lab = Lab.make(tmp_path, schema)
    files = []
    for sequence, zone in enumerate(["UTC", "+00:00", "America/New_York"], 1):
        cdc = {"cdc_operation": "UPDATE", "sequence_number": sequence_text(sequence)}
        row = {"at": LATE.replace(tzinfo=dt.UTC), "id": 1, "name": zone, **cdc}
        table = rows_table(lab.changelog.schema(), [row])
        kind = pa.timestamp("us", zone)
        field = table.schema.field("at").with_type(kind)
        files.append(table.set_column(table.column_names.index("at"), field, table["at"].cast(kind)))
    lab.commit(files[0])
    lab.merge()
    lab.commit(*files[1:])
    lab.merge()
    assert [row["name"] for row in lab.mirror.scan().to_arrow().to_pylist()] == ["America/New_York"]
    assert_sound(lab)


@pytest.mark.parametrize(("kind", "unit"), [(TimestampType(), "ns"), (TimestampNanoType(), "us")], ids=str)
def test_ambiguous_time_unit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: IcebergType, unit: str
) -> None:
    schema = Schema(*BY_TIME.fields[:3], NestedField(4, "at", kind), identifier_field_ids=[1])
    lab = Lab.make(tmp_path, schema, options=f"{GENERIC}\nformat_version: 3", changelog_version=3)
    ambiguous = rows_table(schema, [{"id": 1, "name": "a", "op": "INSERT", "at": 1000}])
    commit_in_unit(lab, ambiguous, "at", unit, monkeypatch)
    error = lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert f"column at holds timestamp[{unit}]" in error.message


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("id", pa.string()),
        ("id", pa.float64()),
        ("id", pa.bool_()),
        ("op", pa.int64()),
        ("number", pa.decimal128(20, 4)),
        ("number", pa.int64()),
        ("number", pa.string()),
    ],
    ids=str,
)
def test_values_of_another_type_are_refused(tmp_path: Path, column: str, kind: pa.DataType) -> None:
    """Compared as another type, the older of two events could win, or one key could have two rows."""
    number = NestedField(4, "number", DecimalType(20, 2))
    schema = Schema(*BY_TIME.fields[:3], number, identifier_field_ids=[1])
    options = (
        "profile: generic\noperation_column: op\nsequence_column: number\noperation_values: {insert: ['1']}"
    )
    lab = Lab.make(tmp_path, schema, options=options)
    table = rows_table(schema, [{"id": 1, "name": "a", "op": "1", "number": Decimal(9)}])
    lab.commit(table)
    lab.merge()
    index = table.column_names.index(column)
    lab.commit(table.set_column(index, table.schema.field(index).with_type(kind), table[column].cast(kind)))
    error = lab.try_merge().error
    assert error is not None
    assert error.kind == "invalid"
    assert f"column {column} holds " in error.message


TEXTS = changelog_schema(("id", StringType()), ("name", StringType()))


def text_event(operation: str, sequence: int, key: str = "k") -> pa.Table:
    cdc = {"cdc_operation": operation, "sequence_number": sequence_text(sequence)}
    return rows_table(TEXTS, [{"id": key, "name": f"{sequence}", **cdc}])


def without_string_type(table: pa.Table, column: str) -> pa.Table:
    """Store a column as Impala and old Hive and Presto store texts: binary, without the string logical type."""
    index = table.column_names.index(column)
    return table.set_column(
        index, table.schema.field(index).with_type(pa.binary()), table[column].cast(pa.binary())
    )


@pytest.mark.parametrize("column", ["id", "name", "cdc_operation", "sequence_number"])
def test_texts_without_the_string_logical_type_are_merged(tmp_path: Path, column: str) -> None:
    lab = Lab.make(tmp_path, TEXTS)
    lab.commit(text_event("INSERT", 1))
    lab.merge()
    lab.commit(
        without_string_type(text_event("UPDATE", 2), column),
        text_event("INSERT", 2, "other"),
        text_event("UPDATE", 3),
    )
    lab.merge()
    lab.commit(
        without_string_type(text_event("UPDATE", 4), column),
        without_string_type(text_event("DELETE", 4, "other"), column),
    )
    lab.merge()
    assert lab.rows() == {"k": "4"}
    assert len(explain(lab, "k").events) == 4
    assert_sound(lab)


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_delete_time_may_be_in_another_unit(tmp_path: Path, unit: str) -> None:
    deleted_at, version = NestedField(3, "gone", TimestampType()), NestedField(4, "version", LongType())
    schema = Schema(*BY_TIME.fields[:2], deleted_at, version, identifier_field_ids=[1])
    options = "profile: generic\nupsert_only: true\nsequence_column: version\ndelete_column: gone"
    lab = Lab.make(tmp_path, schema, options=options)
    rows = [
        {"id": 1, "name": "a", "version": 1, "gone": None},
        {"id": 2, "name": "b", "version": 1, "gone": SOON},
    ]
    table, kind = rows_table(schema, rows), pa.timestamp(unit)
    lab.commit(table.set_column(2, table.schema.field("gone").with_type(kind), table["gone"].cast(kind)))
    lab.merge()
    assert lab.rows() == {1: "a"}
