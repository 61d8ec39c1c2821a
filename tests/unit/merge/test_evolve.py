"""How a mirror's columns follow: decided without a table."""

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
from spark_job.schema_changes.evolve import Evolved, Rules, evolve

KEY = frozenset({5})
ID = NestedField(5, "id", LongType(), required=True)
NAME = NestedField(14, "name", StringType())


def made(*fields: NestedField) -> tuple[Schema, FieldMap]:
    schema = Schema(*fields)
    return mirror_schema(schema, tuple(one.field_id for one in schema.fields), (5,))


def follow(before: tuple[NestedField, ...], now: tuple[NestedField, ...], **rules: Any) -> Evolved:
    mirror, ids = made(*before)
    return evolve(Schema(*now), mirror, ids, mirror.highest_field_id, Rules(key_ids=KEY, **rules))


def shown(evolved: Evolved) -> list[tuple[int, str, str, bool]]:
    return [(one.field_id, one.name, str(one.field_type), one.required) for one in evolved.fields]


def test_without_a_change_nothing_is_made_anew() -> None:
    mirror, ids = made(ID, NAME)
    evolved = evolve(Schema(ID, NAME), mirror, ids, 2, Rules(key_ids=KEY))
    assert evolved == Evolved(mirror.fields, ids, (), (), (), ())
    assert all(one is other for one, other in zip(evolved.fields, mirror.fields, strict=True))


def test_a_new_column_gets_an_id_that_the_mirror_never_gave_and_is_optional() -> None:
    evolved = follow((ID, NAME), (ID, NestedField(20, "n", IntegerType(), required=True), NAME))
    assert shown(evolved) == [(1, "id", "long", True), (3, "n", "int", False), (2, "name", "string", False)]
    assert evolved.field_map == {5: 1, 14: 2, 20: 3}
    assert evolved.changes == ("new column n (int)",)


def test_a_renamed_column_keeps_its_id() -> None:
    evolved = follow((ID, NAME), (ID, NestedField(14, "title", StringType())))
    assert shown(evolved)[1] == (2, "title", "string", False)
    assert evolved.changes == ("column name renamed to title",)


def test_columns_that_swap_their_names_keep_their_ids() -> None:
    other = NestedField(15, "other", StringType())
    evolved = follow(
        (ID, NAME, other), (ID, NestedField(14, "other", StringType()), NestedField(15, "name", StringType()))
    )
    assert [(one.field_id, one.name) for one in evolved.fields] == [(1, "id"), (2, "other"), (3, "name")]


def test_a_dropped_column_is_kept_and_may_be_null_and_keeps_its_place_in_the_map() -> None:
    name = NestedField(14, "name", StringType(), required=True)
    evolved = follow((ID, name), (ID,))
    assert shown(evolved)[1] == (2, "name", "string", False)
    assert evolved.field_map == {5: 1, 14: 2}
    assert (evolved.dropped, evolved.changes) == ((14,), ("column name dropped",))


def test_a_column_that_is_known_to_be_dropped_is_no_change() -> None:
    assert follow((ID, NAME), (ID,), known_dropped=frozenset({14})).changes == ()


def test_a_name_that_comes_back_with_another_id_moves_the_old_column_aside() -> None:
    evolved = follow((ID, NAME), (ID, NestedField(21, "name", LongType())))
    assert shown(evolved)[1:] == [(3, "name", "long", False), (2, "name_dropped_2", "string", False)]
    assert evolved.field_map == {5: 1, 14: 2, 21: 3}


def test_a_dropped_column_goes_where_that_is_wanted_unless_the_mirror_is_partitioned_by_it() -> None:
    evolved = follow((ID, NAME), (ID,), drop=True)
    assert (shown(evolved), evolved.field_map) == ([(1, "id", "long", True)], {5: 1})
    assert len(follow((ID, NAME), (ID,), drop=True, pinned=frozenset({2})).fields) == 2


def test_a_column_that_is_left_out_goes_with_its_place_in_the_map() -> None:
    evolved = follow((ID, NAME), (ID,), left_out=frozenset({14}))
    assert (len(evolved.fields), evolved.field_map, evolved.changes) == (1, {5: 1}, ())


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (IntegerType(), LongType()),
        (FloatType(), DoubleType()),
        (DecimalType(9, 2), DecimalType(20, 2)),
    ],
)
def test_wider_types_are_followed_and_narrower_ones_refused(before: IcebergType, now: IcebergType) -> None:
    wider = follow((ID, NestedField(6, "n", before)), (ID, NestedField(6, "n", now)))
    assert (wider.fields[1].field_type, wider.refused) == (now, ())
    assert wider.changes == (f"column n changed from {before} to {now}",)
    narrower = follow((ID, NestedField(6, "n", now)), (ID, NestedField(6, "n", before)))
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
    evolved = follow((ID, NestedField(6, "n", before)), (ID, NestedField(6, "n", now)))
    assert len(evolved.refused) == 1
    assert "no wider type" in evolved.refused[0]


def test_a_wider_key_is_followed_and_stays_required() -> None:
    evolved = follow(
        (NestedField(5, "id", IntegerType(), required=True),), (NestedField(5, "id", LongType()),)
    )
    assert shown(evolved) == [(1, "id", "long", True)]


def test_what_may_be_null_now_is_optional_and_never_required_again() -> None:
    required, optional = NestedField(6, "n", LongType(), required=True), NestedField(6, "n", LongType())
    evolved = follow((ID, required), (ID, optional))
    assert (evolved.fields[1].required, evolved.changes) == (False, ("column n may now be NULL",))
    assert follow((ID, optional), (ID, required)).changes == ()


def test_another_order_is_followed() -> None:
    evolved = follow((ID, NAME), (NAME, ID), followed={5: ID, 14: NAME})
    assert [one.name for one in evolved.fields] == ["name", "id"]
    assert evolved.changes == ("columns in another order",)


def test_a_mirror_that_never_had_a_row_takes_the_order_of_today() -> None:
    """Whoever made it died before its first commit, which would have noted what it followed."""
    assert [one.name for one in follow((ID, NAME), (NAME, ID), has_rows=False).fields] == ["name", "id"]


def test_an_order_that_is_the_mirrors_own_stays_and_new_columns_come_after_their_neighbours() -> None:
    more = NestedField(20, "n", LongType())
    evolved = follow((NAME, ID), (ID, more, NAME), followed={5: ID, 14: NAME})
    assert [one.name for one in evolved.fields] == ["name", "id", "n"]
    assert evolved.changes == ("new column n (long)",)
    assert [one.name for one in follow((NAME, ID), (more, ID, NAME)).fields] == ["n", "name", "id"]


def test_comments_are_followed_where_the_changelogs_changed() -> None:
    now = NestedField(14, "name", StringType(), doc="as in the passport")
    evolved = follow((ID, NAME), (ID, now), followed={5: ID, 14: NAME})
    assert evolved.fields[1].doc == "as in the passport"
    assert (evolved.changes, evolved.remarks) == ((), ("comment of column name changed",))
    theirs = NestedField(14, "name", StringType(), doc="written by hand")
    kept = follow((ID, theirs), (ID, now), followed={5: ID, 14: now})
    assert (kept.fields[1].doc, kept.remarks) == ("written by hand", ())


def test_a_default_is_kept_from_version_3_on_and_refused_before_where_there_are_rows() -> None:
    new = NestedField(20, "n", IntegerType(), initial_default=7, write_default=9)
    kept = follow((ID,), (ID, new), keeps_defaults=True)
    assert (kept.fields[1].initial_default, kept.refused) == (7, ())
    assert "has a default" in follow((ID,), (ID, new)).refused[0]
    empty = follow((ID,), (ID, new), has_rows=False)
    assert (empty.fields[1].initial_default, empty.refused) == (None, ())


ZIP = NestedField(51, "zip", IntegerType(), required=True)
CITY = NestedField(52, "city", StringType())


def struct(*fields: NestedField) -> NestedField:
    return NestedField(6, "a", StructType(*fields))


def test_fields_of_structs_follow_as_columns_do() -> None:
    before = (ID, struct(ZIP, CITY))
    now = struct(
        NestedField(52, "town", StringType()),
        NestedField(51, "zip", LongType()),
        NestedField(53, "street", ListType(54, StringType())),
    )
    evolved = follow(before, (ID, now), followed={51: ZIP, 52: CITY})
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


def test_a_dropped_field_of_a_struct_is_kept_and_moved_aside() -> None:
    evolved = follow((ID, struct(ZIP, CITY)), (ID, struct(NestedField(60, "zip", StringType()), CITY)))
    assert str(evolved.fields[1].field_type) == (
        "struct<5: zip: optional string, 4: city: optional string, 3: zip_dropped_3: optional int>"
    )


def test_what_is_in_lists_and_maps_follows() -> None:
    def kinds(number: IcebergType, *more: NestedField) -> tuple[NestedField, ...]:
        inside = StructType(NestedField(71, "n", number), *more)
        return (
            NestedField(7, "l", ListType(70, inside, element_required=not more)),
            NestedField(8, "m", MapType(80, StringType(), 81, number, value_required=not more)),
        )

    evolved = follow((ID, *kinds(IntegerType())), (ID, *kinds(LongType(), NestedField(72, "x", LongType()))))
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


def test_keys_of_maps_stay_what_they_are() -> None:
    def map_of(key: IcebergType) -> NestedField:
        return NestedField(8, "m", MapType(80, key, 81, LongType()))

    evolved = follow((ID, map_of(IntegerType())), (ID, map_of(LongType())))
    assert evolved.refused == ("the keys of the map m changed from int to long",)


def test_columns_of_the_mirrors_own_stay_at_the_end() -> None:
    mirror, ids = made(ID, NAME)
    more = Schema(*mirror.fields, NestedField(9, "synced", LongType()), identifier_field_ids=[1])
    evolved = evolve(Schema(ID, NestedField(20, "n", LongType()), NAME), more, ids, 9, Rules(key_ids=KEY))
    assert [(one.field_id, one.name) for one in evolved.fields] == [
        (1, "id"),
        (10, "n"),
        (2, "name"),
        (9, "synced"),
    ]
    assert evolved.changes == ("new column n (long)",)
