"""Evolution of a mirror's columns, decided without a table."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from spark_job.columns.field_map import FieldMap, field_ids, mirror_schema
from spark_job.plan.evolve_columns import EvolutionRules, EvolvedColumns, evolve_columns

KEY = frozenset({5})
ID = NestedField(5, "id", LongType(), required=True)
NAME = NestedField(14, "name", StringType())


def create_mirror(*fields: NestedField) -> tuple[Schema, FieldMap]:
    schema = Schema(*fields)
    return mirror_schema(schema, tuple(field.field_id for field in schema.fields), (5,))


def evolve(before: tuple[NestedField, ...], now: tuple[NestedField, ...], **rules: Any) -> EvolvedColumns:
    mirror, ids = create_mirror(*before)
    return evolve_columns(
        Schema(*now), mirror, ids, mirror.highest_field_id, EvolutionRules(key_ids=KEY, **rules)
    )


def columns_of(evolved: EvolvedColumns) -> list[tuple[int, str, str, bool]]:
    return [(field.field_id, field.name, str(field.field_type), field.required) for field in evolved.fields]


def test_unchanged_schema_gives_the_same_columns() -> None:
    mirror, ids = create_mirror(ID, NAME)
    evolved = evolve_columns(Schema(ID, NAME), mirror, ids, 2, EvolutionRules(key_ids=KEY))
    assert evolved == EvolvedColumns(mirror.fields, ids, (), (), (), ())
    assert all(new is old for new, old in zip(evolved.fields, mirror.fields, strict=True))


def test_new_column_gets_an_unused_id_and_is_optional() -> None:
    evolved = evolve((ID, NAME), (ID, NestedField(20, "n", IntegerType(), required=True), NAME))
    assert columns_of(evolved) == [
        (1, "id", "long", True),
        (3, "n", "int", False),
        (2, "name", "string", False),
    ]
    assert evolved.field_map == {5: 1, 14: 2, 20: 3}
    assert evolved.changes == ("new column n (int)",)


def test_renamed_column_keeps_its_id() -> None:
    evolved = evolve((ID, NAME), (ID, NestedField(14, "title", StringType())))
    assert columns_of(evolved)[1] == (2, "title", "string", False)
    assert evolved.changes == ("column name renamed to title",)


def test_columns_that_swap_names_keep_their_ids() -> None:
    other = NestedField(15, "other", StringType())
    evolved = evolve(
        (ID, NAME, other), (ID, NestedField(14, "other", StringType()), NestedField(15, "name", StringType()))
    )
    assert [(field.field_id, field.name) for field in evolved.fields] == [
        (1, "id"),
        (2, "other"),
        (3, "name"),
    ]


def test_dropped_column_is_kept_as_optional_and_stays_mapped() -> None:
    name = NestedField(14, "name", StringType(), required=True)
    evolved = evolve((ID, name), (ID,))
    assert columns_of(evolved)[1] == (2, "name", "string", False)
    assert evolved.field_map == {5: 1, 14: 2}
    assert (evolved.dropped, evolved.changes) == ((14,), ("column name dropped",))


def test_column_known_as_dropped_is_not_a_change() -> None:
    assert evolve((ID, NAME), (ID,), known_dropped=frozenset({14})).changes == ()


def test_reused_name_renames_the_dropped_column() -> None:
    evolved = evolve((ID, NAME), (ID, NestedField(21, "name", LongType())))
    assert columns_of(evolved)[1:] == [(3, "name", "long", False), (2, "name_dropped_2", "string", False)]
    assert evolved.field_map == {5: 1, 14: 2, 21: 3}


def test_dropped_column_is_removed_if_configured_unless_it_is_a_partition_column() -> None:
    evolved = evolve((ID, NAME), (ID,), drops_columns=True)
    assert (columns_of(evolved), evolved.field_map) == ([(1, "id", "long", True)], {5: 1})
    assert len(evolve((ID, NAME), (ID,), drops_columns=True, pinned=frozenset({2})).fields) == 2


def test_excluded_column_is_removed_from_mirror_and_field_map() -> None:
    evolved = evolve((ID, NAME), (ID,), excluded=frozenset({14}))
    assert (len(evolved.fields), evolved.field_map, evolved.changes) == (1, {5: 1}, ())


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (IntegerType(), LongType()),
        (FloatType(), DoubleType()),
        (DecimalType(9, 2), DecimalType(20, 2)),
    ],
)
def test_type_promotions_are_followed_and_narrowing_is_refused(before: IcebergType, now: IcebergType) -> None:
    wider = evolve((ID, NestedField(6, "n", before)), (ID, NestedField(6, "n", now)))
    assert (wider.fields[1].field_type, wider.refused) == (now, ())
    assert wider.changes == (f"column n changed from {before} to {now}",)
    narrower = evolve((ID, NestedField(6, "n", now)), (ID, NestedField(6, "n", before)))
    assert narrower.refused == (f"column n changed from {now} to {before}, which is narrower",)
    assert narrower.fields[1].field_type == now


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (StringType(), LongType()),
        (DecimalType(9, 2), DecimalType(20, 3)),
        (LongType(), DoubleType()),
        (StringType(), ListType(60, StringType())),
        (ListType(60, StringType()), StringType()),
    ],
)
def test_other_types_are_refused(before: IcebergType, now: IcebergType) -> None:
    evolved = evolve((ID, NestedField(6, "n", before)), (ID, NestedField(6, "n", now)))
    assert len(evolved.refused) == 1
    assert "which Iceberg cannot promote" in evolved.refused[0]


def test_promoted_key_stays_required() -> None:
    evolved = evolve(
        (NestedField(5, "id", IntegerType(), required=True),), (NestedField(5, "id", LongType()),)
    )
    assert columns_of(evolved) == [(1, "id", "long", True)]


def test_column_that_became_optional_stays_optional() -> None:
    required, optional = NestedField(6, "n", LongType(), required=True), NestedField(6, "n", LongType())
    evolved = evolve((ID, required), (ID, optional))
    assert (evolved.fields[1].required, evolved.changes) == (False, ("column n may now be NULL",))
    assert evolve((ID, optional), (ID, required)).changes == ()


def test_new_column_order_is_followed() -> None:
    evolved = evolve((ID, NAME), (NAME, ID), followed={5: ID, 14: NAME})
    assert [field.name for field in evolved.fields] == ["name", "id"]
    assert evolved.changes == ("columns in another order",)


def test_empty_mirror_gets_the_current_column_order() -> None:
    """The process that created it died before its first commit, which would have recorded the schema."""
    assert [field.name for field in evolve((ID, NAME), (NAME, ID), has_rows=False).fields] == ["name", "id"]


def test_column_order_of_the_mirror_is_kept_and_new_columns_follow_their_predecessors() -> None:
    more = NestedField(20, "n", LongType())
    evolved = evolve((NAME, ID), (ID, more, NAME), followed={5: ID, 14: NAME})
    assert [field.name for field in evolved.fields] == ["name", "id", "n"]
    assert evolved.changes == ("new column n (long)",)
    assert [field.name for field in evolve((NAME, ID), (more, ID, NAME)).fields] == ["n", "name", "id"]


def test_changed_comments_are_followed() -> None:
    now = NestedField(14, "name", StringType(), doc="as in the passport")
    evolved = evolve((ID, NAME), (ID, now), followed={5: ID, 14: NAME})
    assert evolved.fields[1].doc == "as in the passport"
    assert (evolved.changes, evolved.remarks) == ((), ("comment of column name changed",))
    foreign = NestedField(14, "name", StringType(), doc="written by hand")
    kept = evolve((ID, foreign), (ID, now), followed={5: ID, 14: now})
    assert (kept.fields[1].doc, kept.remarks) == ("written by hand", ())


def test_default_is_kept_in_version_3_and_refused_in_version_2_with_rows() -> None:
    new = NestedField(20, "n", IntegerType(), initial_default=7, write_default=9)
    kept = evolve((ID,), (ID, new), keeps_defaults=True)
    assert (kept.fields[1].initial_default, kept.refused) == (7, ())
    assert "has a default" in evolve((ID,), (ID, new)).refused[0]
    empty = evolve((ID,), (ID, new), has_rows=False)
    assert (empty.fields[1].initial_default, empty.refused) == (None, ())


ZIP = NestedField(51, "zip", IntegerType(), required=True)
CITY = NestedField(52, "city", StringType())


def struct(*fields: NestedField) -> NestedField:
    return NestedField(6, "a", StructType(*fields))


def test_struct_fields_evolve_like_columns() -> None:
    before = (ID, struct(ZIP, CITY))
    now = struct(
        NestedField(52, "town", StringType()),
        NestedField(51, "zip", LongType()),
        NestedField(53, "street", ListType(54, StringType())),
    )
    evolved = evolve(before, (ID, now), followed={51: ZIP, 52: CITY})
    assert str(evolved.fields[1].field_type) == (
        "struct<4: town: optional string, 3: zip: optional long, 5: street: optional list<string>>"
    )
    assert evolved.field_map == {5: 1, 6: 2, 51: 3, 52: 4, 53: 5, 54: 6}
    assert set(evolved.changes) == {
        "column a.city renamed to town",
        "column a.zip changed from int to long",
        "column a.zip may now be NULL",
        "new column a.street (list<string>)",
        "fields of a in another order",
    }


def test_dropped_struct_field_is_kept_and_renamed() -> None:
    evolved = evolve((ID, struct(ZIP, CITY)), (ID, struct(NestedField(60, "zip", StringType()), CITY)))
    assert str(evolved.fields[1].field_type) == (
        "struct<5: zip: optional string, 4: city: optional string, 3: zip_dropped_3: optional int>"
    )


def test_list_elements_and_map_values_evolve() -> None:
    def kinds(number: IcebergType, *more: NestedField) -> tuple[NestedField, ...]:
        element = StructType(NestedField(71, "n", number), *more)
        return (
            NestedField(7, "l", ListType(70, element, element_required=not more)),
            NestedField(8, "m", MapType(80, StringType(), 81, number, value_required=not more)),
        )

    evolved = evolve((ID, *kinds(IntegerType())), (ID, *kinds(LongType(), NestedField(72, "x", LongType()))))
    assert set(evolved.changes) == {
        "column l.element.n changed from int to long",
        "new column l.element.x (long)",
        "column l.element may now be NULL",
        "column m.value changed from int to long",
        "column m.value may now be NULL",
    }
    assert set(evolved.field_map) == {5, 7, 8, 70, 71, 72, 80, 81}
    assert len(set(evolved.field_map.values())) == 8
    assert set(field_ids(StructType(*evolved.fields))) == set(evolved.field_map.values())


def test_changed_map_keys_are_refused() -> None:
    def map_of(key: IcebergType) -> NestedField:
        return NestedField(8, "m", MapType(80, key, 81, LongType()))

    evolved = evolve((ID, map_of(IntegerType())), (ID, map_of(LongType())))
    assert evolved.refused == ("the keys of the map m changed from int to long",)


def test_metadata_columns_of_the_mirror_stay_at_the_end() -> None:
    mirror, ids = create_mirror(ID, NAME)
    more = Schema(*mirror.fields, NestedField(9, "synced", LongType()), identifier_field_ids=[1])
    evolved = evolve_columns(
        Schema(ID, NestedField(20, "n", LongType()), NAME), more, ids, 9, EvolutionRules(key_ids=KEY)
    )
    assert [(field.field_id, field.name) for field in evolved.fields] == [
        (1, "id"),
        (10, "n"),
        (2, "name"),
        (9, "synced"),
    ]
    assert evolved.changes == ("new column n (long)",)
