"""The columns of a rejects table follow the schema of the changelog."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_job.columns.field_map import field_ids, with_assigned_ids
from spark_job.plan.row_columns import row_shape
from spark_job.rejects.rejects_schema import RejectsColumn, RejectsSchema, evolve_rejects_schema
from spark_job.rejects.rejects_table import recorded_fields
from tests.lab.bad_rows import rejects
from tests.lab.column_changes import change_columns, commit_events
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text

METADATA_COLUMNS = len(RejectsColumn)
BAD = {"id": 9, "cdc_operation": "UPSERT", "sequence_number": sequence_text(9)}


def field(number: int, name: str, kind: IcebergType, *, required: bool = True) -> NestedField:
    return NestedField(number, name, kind, required=required)


def evolve(before: RejectsSchema, *fields: NestedField, by_name: bool = False) -> RejectsSchema:
    return evolve_rejects_schema(fields, before, before.schema.highest_field_id, by_name=by_name)


def changelog_columns(columns: RejectsSchema) -> dict[str, str]:
    return {column.name: str(column.field_type) for column in columns.schema.fields[METADATA_COLUMNS:]}


def test_all_columns_are_optional_at_any_depth_and_have_new_ids() -> None:
    inner = StructType(field(8, "x", IntegerType()), field(9, "y", StringType()))
    columns = evolve_rejects_schema(
        [
            field(3, "id", LongType()),
            field(4, "many", ListType(5, inner, element_required=True)),
            field(10, "map", MapType(11, StringType(), 12, UUIDType(), value_required=True)),
        ]
    )
    ids = list(field_ids(columns.schema.as_struct()))
    assert ids == list(columns.field_map.values())
    assert len(set(ids)) == len(ids)
    assert not [column for column in columns.schema.fields if column.required]
    many = columns.schema.find_type("many")
    assert isinstance(many, ListType)
    assert not many.element_required
    assert isinstance(many.element_type, StructType)
    assert not [column for column in many.element_type.fields if column.required]
    assert with_assigned_ids(columns.field_map, columns.schema) == columns.field_map


def test_unchanged_schema_is_kept() -> None:
    fields = (field(1, "id", LongType()), field(2, "when", StructType(field(3, "at", DateType()))))
    first = evolve_rejects_schema(fields)
    again = evolve(first, *fields)
    assert again.schema.as_struct() == first.schema.as_struct()
    assert again.field_map == first.field_map


def test_new_columns_are_added_and_dropped_columns_stay() -> None:
    first = evolve_rejects_schema([field(1, "id", LongType()), field(2, "gone", StringType())])
    evolved = evolve(first, field(1, "id", LongType()), field(3, "new", TimeType()))
    assert changelog_columns(evolved) == {"id": "long", "gone": "string", "new": "time"}
    assert evolved.field_map[3] == METADATA_COLUMNS + 3
    assert evolved.field_map[2] == first.field_map[2]


def test_wider_types_widen_the_column_and_narrower_types_keep_it() -> None:
    narrow = (
        field(1, "i", IntegerType()),
        field(2, "f", FloatType()),
        field(3, "d", DecimalType(9, 2)),
        field(4, "s", StructType(field(5, "i", IntegerType()))),
    )
    wide = (
        field(1, "i", LongType()),
        field(2, "f", DoubleType()),
        field(3, "d", DecimalType(12, 2)),
        field(4, "s", StructType(field(5, "i", LongType()), field(6, "more", StringType()))),
    )
    first = evolve_rejects_schema(narrow)
    evolved = evolve(first, *wide)
    assert {name: changelog_columns(evolved)[name] for name in "ifd"} == {
        "i": "long",
        "f": "double",
        "d": "decimal(12, 2)",
    }
    inner = evolved.schema.find_type("s")
    assert isinstance(inner, StructType)
    assert [(column.name, str(column.field_type)) for column in inner.fields] == [
        ("i", "long"),
        ("more", "string"),
    ]
    assert evolve(evolved, *narrow).schema.as_struct() == evolved.schema.as_struct()


def test_incompatible_type_gets_a_second_column() -> None:
    first = evolve_rejects_schema([field(1, "id", LongType()), field(2, "v", StringType())])
    evolved = evolve(first, field(1, "id", LongType()), field(2, "v", LongType()))
    assert changelog_columns(evolved) == {"id": "long", "v": "string", "v_2": "long"}
    assert evolved.field_map[2] != first.field_map[2]


def test_taken_name_gets_the_field_id_appended() -> None:
    columns = evolve_rejects_schema([field(1, "icemirror_reason", StringType()), field(2, "a", LongType())])
    assert changelog_columns(columns) == {"icemirror_reason_1": "string", "a": "long"}
    renamed = evolve(columns, field(2, "b", LongType()), field(3, "A", LongType()))
    assert changelog_columns(renamed) == {"icemirror_reason_1": "string", "a": "long", "A_3": "long"}


def test_recreated_changelog_is_matched_by_names_and_types() -> None:
    first = evolve_rejects_schema(
        [field(1, "id", LongType()), field(2, "a", StringType()), field(3, "b", FixedType(3))]
    )
    evolved = evolve(
        first,
        field(1, "a", StringType()),
        field(2, "id", IntegerType()),
        field(3, "b", TimestamptzType()),
        by_name=True,
    )
    assert changelog_columns(evolved) == {"id": "long", "a": "string", "b": "fixed[3]", "b_3": "timestamptz"}
    assert (evolved.field_map[1], evolved.field_map[2]) == (first.field_map[2], first.field_map[1])


def test_dropped_metadata_column_is_added_again() -> None:
    first = evolve_rejects_schema([field(1, "id", LongType())])
    without_reason = RejectsSchema(Schema(*first.schema.fields[1:]), first.field_map)
    evolved = evolve_rejects_schema(
        [field(1, "id", LongType())], without_reason, first.schema.highest_field_id
    )
    assert evolved.schema.find_column_name(evolved.field_map[RejectsColumn.REASON]) == "icemirror_reason"


def test_excluded_columns_are_omitted_unless_they_may_cause_the_rejection(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options="columns: {include: [id]}")
    shape = row_shape(lab.table, lab.changelog, None)
    recorded = [column.name for column in recorded_fields(lab.changelog.schema(), shape)]
    assert recorded == ["id", "cdc_operation", "sequence_number"]


def test_excluded_column_stays_excluded_after_a_rename(tmp_path: Path) -> None:
    schema = changelog_schema(("id", LongType()), ("name", StringType()), ("ssn", StringType()))
    lab = Lab.make(tmp_path, schema, options="on_bad_row: quarantine\ncolumns: {exclude: [ssn]}")
    commit_events(lab, "I1@1", name="a", ssn="secret")
    lab.merge()
    change_columns(lab, lambda to: to.rename_column("ssn", "social"))
    lab.commit(rows_table(lab.changelog.schema(), [{**BAD, "name": "b", "social": "secret"}]))
    lab.merge()
    (rejected,) = rejects(lab).scan().to_arrow().to_pylist()
    assert rejected["name"] == "b"
    assert "secret" not in str(rejected)


def test_included_column_stays_included_after_a_rename(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, options="on_bad_row: quarantine\ncolumns: {include: [name]}")
    commit_events(lab, "I1@1", name="a")
    lab.merge()
    change_columns(
        lab, lambda to: to.rename_column("name", "title"), lambda to: to.add_column("more", StringType())
    )
    lab.commit(rows_table(lab.changelog.schema(), [{**BAD, "title": "b", "more": "c"}]))
    lab.merge()
    (rejected,) = rejects(lab).scan().to_arrow().to_pylist()
    assert rejected["title"] == "b"
    assert "more" not in rejected


def test_before_image_does_not_contain_excluded_values(tmp_path: Path) -> None:
    image = StructType(NestedField(10, "id", LongType()), NestedField(11, "ssn", StringType()))
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "ssn", StringType()),
        NestedField(3, "before", image),
        NestedField(4, "__op", StringType()),
        NestedField(5, "__source_lsn", LongType()),
        NestedField(6, "__before_ssn", StringType()),
        identifier_field_ids=[1],
    )
    options = "profile: debezium\nconnector: postgres\non_bad_row: quarantine"
    bad = {"id": 1, "ssn": "secret", "before": {"id": 2, "ssn": "secret"}, "__before_ssn": "secret"}
    for at, more in enumerate(["", "columns: {exclude: [ssn]}", "columns: {include: [id]}"]):
        (tmp_path / str(at)).mkdir()
        lab = Lab.make(tmp_path / str(at), schema, options=f"{options}\n{more}")
        lab.commit(rows_table(lab.changelog.schema(), [{**bad, "__op": "z", "__source_lsn": 7}]))
        lab.merge()
        (rejected,) = rejects(lab).scan().to_arrow().to_pylist()
        assert (rejected["before"]["id"], rejected["__op"], rejected["__source_lsn"]) == (2, "z", 7)
        assert ("secret" in str(rejected)) == (more == "")
