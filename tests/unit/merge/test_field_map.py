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

from spark_job.columns.field_map import dump_map, load_map, mirror_schema, schema_changes
from spark_job.schema_changes.mirror_changes import mirror_changes

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


def test_every_field_however_deep_is_mapped_to_the_one_of_its_name() -> None:
    mirror, ids = mirror_schema(NESTED, (5, 12, 13, 14), (5,))
    there, here = names_by_id(NESTED), names_by_id(mirror)
    assert {there[source]: here[target] for source, target in ids.items()} == {
        name: name for name in there.values() if name != "op"
    }
    assert sorted(ids.values()) == list(range(1, len(ids) + 1))


def test_cdc_columns_do_not_reach_the_mirror() -> None:
    mirror, ids = mirror_schema(NESTED, (5, 14), (5,))
    assert [field.name for field in mirror.fields] == ["id", "name"]
    assert set(ids) == {5, 14}


def test_the_key_becomes_required_and_the_identifier() -> None:
    mirror, ids = mirror_schema(NESTED, (5, 14), (5, 14))
    assert [field.required for field in mirror.fields] == [True, True]
    assert sorted(mirror.identifier_field_ids) == sorted([ids[5], ids[14]])


def test_other_columns_keep_whether_they_are_required() -> None:
    source = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "n", StringType(), required=True)
    )
    mirror, _ = mirror_schema(source, (1, 2), (1,))
    assert [field.required for field in mirror.fields] == [True, True]


def test_a_map_reads_back_as_it_was_written() -> None:
    _, ids = mirror_schema(NESTED, (5, 12, 13, 14), (5,))
    assert load_map(dump_map(ids)) == ids


def changed(**columns: tuple[int, IcebergType]) -> tuple[str, ...]:
    """The changes of a changelog that had id (5) and name (14) when its mirror was made."""
    before = Schema(NestedField(5, "id", LongType()), NestedField(14, "name", StringType()))
    mirror, ids = mirror_schema(before, (5, 14), (5,))
    after = Schema(*(NestedField(field_id, name, kind) for name, (field_id, kind) in columns.items()))
    return schema_changes(after, tuple(field.field_id for field in after.fields), mirror, ids)


ID = (5, LongType())
NAME = (14, StringType())


def test_an_unchanged_schema_has_no_changes() -> None:
    assert changed(id=ID, name=NAME) == ()
    assert changed(name=NAME, id=ID) == ()


def test_a_new_column_is_told() -> None:
    assert changed(id=ID, name=NAME, more=(20, IntegerType())) == ("new column more (int)",)


def test_a_renamed_column_is_told() -> None:
    assert changed(id=ID, title=NAME) == ("column name renamed to title",)


def test_a_column_of_another_type_is_told() -> None:
    assert changed(id=ID, name=(14, LongType())) == ("column name changed from string to long",)


def test_a_dropped_column_is_told() -> None:
    assert changed(id=ID) == ("column name dropped",)


def test_a_column_that_was_dropped_and_made_anew_is_another_column() -> None:
    assert changed(id=ID, name=(21, StringType())) == ("new column name (string)", "column name dropped")


def test_two_columns_that_changed_names_are_told() -> None:
    assert len(changed(id=(14, StringType()), name=(5, LongType()))) == 2


def test_changes_inside_of_a_struct_are_told() -> None:
    def struct(*names: str) -> StructType:
        return StructType(*(NestedField(50 + at, name, LongType()) for at, name in enumerate(names)))

    before = Schema(NestedField(5, "id", LongType()), NestedField(6, "s", struct("a")))
    mirror, ids = mirror_schema(before, (5, 6), (5,))
    for after in (struct("a", "b"), struct("b"), StructType(NestedField(50, "a", StringType()))):
        now = Schema(NestedField(5, "id", LongType()), NestedField(6, "s", after))
        assert len(schema_changes(now, (5, 6), mirror, ids)) == 1
    same = Schema(NestedField(5, "id", LongType()), NestedField(6, "s", struct("a")))
    assert schema_changes(same, (5, 6), mirror, ids) == ()


def test_a_column_that_may_now_be_null_is_told() -> None:
    """The mirror would refuse the NULL when it is written, which looks like a damaged file."""
    before = Schema(NestedField(5, "id", LongType()), NestedField(6, "n", StringType(), required=True))
    mirror, ids = mirror_schema(before, (5, 6), (5,))
    after = Schema(NestedField(5, "id", LongType()), NestedField(6, "n", StringType(), required=False))
    assert len(schema_changes(after, (5, 6), mirror, ids)) == 1


def test_columns_that_others_dropped_from_the_mirror_or_added_to_it_are_told_as_the_mirror_s() -> None:
    mirror, ids = mirror_schema(NESTED, (5, 12, 14), (5,))
    row_ids = (5, 12, 14)
    assert mirror_changes(NESTED, mirror, ids) == ()
    key = mirror.identifier_field_ids
    less = Schema(*(field for field in mirror.fields if field.name != "name"), identifier_field_ids=key)
    assert mirror_changes(NESTED, less, ids) == ("column name dropped",)
    assert schema_changes(NESTED, row_ids, less, ids) == ()
    more = Schema(*mirror.fields, NestedField(90, "note", StringType()), identifier_field_ids=key)
    assert mirror_changes(NESTED, more, ids) == ("column note added",)
    assert schema_changes(NESTED, row_ids, more, ids) == ()
