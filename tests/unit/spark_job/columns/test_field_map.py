from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from spark_job.columns.field_map import dump_field_map, load_field_map, mirror_schema
from spark_job.commands.adopt.schema_differences import describe_schema_differences
from spark_job.plan.foreign_columns import describe_foreign_changes

NESTED = Schema(
    NestedField(5, "id", LongType(), required=False),
    NestedField(9, "op", StringType(), required=True),
    NestedField(
        12,
        "places",
        ListType(
            30,
            StructType(
                NestedField(31, "floor", IntegerType(), required=False),
                NestedField(40, "tags", ListType(41, StringType(), element_required=False), required=False),
            ),
            element_required=False,
        ),
        required=False,
    ),
    NestedField(
        13,
        "counts",
        MapType(
            50,
            StringType(),
            51,
            StructType(NestedField(52, "n", LongType(), required=False)),
            value_required=False,
        ),
        required=False,
    ),
    NestedField(14, "name", StringType(), required=False),
)


def names_by_id(schema: Schema) -> dict[int, str]:
    return {field_id: schema.find_column_name(field_id) or "" for field_id in schema._lazy_id_to_name}


def test_nested_fields_are_mapped_by_name() -> None:
    mirror, ids = mirror_schema(NESTED, (5, 12, 13, 14), (5,))
    source_names, mirror_names = names_by_id(NESTED), names_by_id(mirror)
    assert {source_names[source]: mirror_names[target] for source, target in ids.items()} == {
        name: name for name in source_names.values() if name != "op"
    }
    assert sorted(ids.values()) == list(range(1, len(ids) + 1))


def test_mirror_has_no_cdc_columns() -> None:
    mirror, ids = mirror_schema(NESTED, (5, 14), (5,))
    assert [field.name for field in mirror.fields] == ["id", "name"]
    assert set(ids) == {5, 14}


def test_key_columns_become_required_identifier_fields() -> None:
    mirror, ids = mirror_schema(NESTED, (5, 14), (5, 14))
    assert [field.required for field in mirror.fields] == [True, True]
    assert sorted(mirror.identifier_field_ids) == sorted([ids[5], ids[14]])


def test_other_columns_keep_their_nullability() -> None:
    source = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "n", StringType(), required=True)
    )
    mirror, _ = mirror_schema(source, (1, 2), (1,))
    assert [field.required for field in mirror.fields] == [True, True]


def test_field_map_round_trips() -> None:
    _, ids = mirror_schema(NESTED, (5, 12, 13, 14), (5,))
    assert load_field_map(dump_field_map(ids)) == ids


def changed(**columns: tuple[int, IcebergType]) -> tuple[str, ...]:
    """Return the changes of a changelog that had id (5) and name (14) when its mirror was created."""
    before = Schema(NestedField(5, "id", LongType()), NestedField(14, "name", StringType()))
    mirror, ids = mirror_schema(before, (5, 14), (5,))
    after = Schema(*(NestedField(field_id, name, kind) for name, (field_id, kind) in columns.items()))
    return describe_schema_differences(after, tuple(field.field_id for field in after.fields), mirror, ids)


ID = (5, LongType())
NAME = (14, StringType())


def test_unchanged_schema_has_no_changes() -> None:
    assert changed(id=ID, name=NAME) == ()
    assert changed(name=NAME, id=ID) == ()


def test_new_column_is_reported() -> None:
    assert changed(id=ID, name=NAME, more=(20, IntegerType())) == ("new column more (int)",)


def test_renamed_column_is_reported() -> None:
    assert changed(id=ID, title=NAME) == ("column name renamed to title",)


def test_changed_type_is_reported() -> None:
    assert changed(id=ID, name=(14, LongType())) == ("column name changed from string to long",)


def test_dropped_column_is_reported() -> None:
    assert changed(id=ID) == ("column name dropped",)


def test_recreated_column_is_reported_as_another_column() -> None:
    assert changed(id=ID, name=(21, StringType())) == ("new column name (string)", "column name dropped")


def test_swapped_names_are_reported() -> None:
    assert len(changed(id=(14, StringType()), name=(5, LongType()))) == 2


def test_changes_inside_a_struct_are_reported() -> None:
    def struct(*names: str) -> StructType:
        return StructType(
            *(NestedField(50 + position, name, LongType()) for position, name in enumerate(names))
        )

    before = Schema(NestedField(5, "id", LongType()), NestedField(6, "s", struct("a")))
    mirror, ids = mirror_schema(before, (5, 6), (5,))
    for after in (struct("a", "b"), struct("b"), StructType(NestedField(50, "a", StringType()))):
        now = Schema(NestedField(5, "id", LongType()), NestedField(6, "s", after))
        assert len(describe_schema_differences(now, (5, 6), mirror, ids)) == 1
    same = Schema(NestedField(5, "id", LongType()), NestedField(6, "s", struct("a")))
    assert describe_schema_differences(same, (5, 6), mirror, ids) == ()


def test_column_that_became_optional_is_reported() -> None:
    """Otherwise the write would fail on the NULL, which resembles a damaged file."""
    before = Schema(NestedField(5, "id", LongType()), NestedField(6, "n", StringType(), required=True))
    mirror, ids = mirror_schema(before, (5, 6), (5,))
    after = Schema(NestedField(5, "id", LongType()), NestedField(6, "n", StringType(), required=False))
    assert len(describe_schema_differences(after, (5, 6), mirror, ids)) == 1


def test_columns_dropped_or_added_by_other_writers_are_reported() -> None:
    mirror, ids = mirror_schema(NESTED, (5, 12, 14), (5,))
    row_ids = (5, 12, 14)
    assert describe_foreign_changes(NESTED, mirror, ids) == ()
    key = mirror.identifier_field_ids
    less = Schema(*(field for field in mirror.fields if field.name != "name"), identifier_field_ids=key)
    assert describe_foreign_changes(NESTED, less, ids) == ("column name dropped",)
    assert describe_schema_differences(NESTED, row_ids, less, ids) == ()
    more = Schema(*mirror.fields, NestedField(90, "note", StringType()), identifier_field_ids=key)
    assert describe_foreign_changes(NESTED, more, ids) == ("column note added",)
    assert describe_schema_differences(NESTED, row_ids, more, ids) == ()
