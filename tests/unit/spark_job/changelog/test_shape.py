from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IcebergType, LongType, NestedField, StringType, StructType

from icemirror.config_file.load import load_settings
from icemirror.errors import Invalid
from icemirror.settings import TableSettings
from spark_job.changelog.resolve_shape import resolve_shape
from spark_job.changelog.shape import ChangelogShape, Operation
from spark_job.index.key_codec import Encoding
from tests.lab.mirrored_world import write_config


def schema(*columns: str, keys: tuple[str, ...] = ("id",)) -> Schema:
    """Return text columns with ids from 1; `id` and `version` are long, `ratio` is double."""

    def kind(name: str) -> IcebergType:
        return LongType() if name in ("id", "version") else DoubleType() if name == "ratio" else StringType()

    fields = [
        NestedField(field_id, name, kind(name), required=name in keys)
        for field_id, name in enumerate(columns, 1)
    ]
    return Schema(*fields, identifier_field_ids=[field.field_id for field in fields if field.name in keys])


def table(folder: Path, options: str = "") -> TableSettings:
    return load_settings(write_config(folder, options), os.environ).tables[0]


def shape(folder: Path, changelog: Schema, options: str = "") -> ChangelogShape:
    return resolve_shape(table(folder, options), changelog)


def test_supabase_columns_are_found_by_name(tmp_path: Path) -> None:
    found = shape(tmp_path, schema("id", "name", "cdc_operation", "sequence_number"))
    assert (found.key_ids, found.operation_id, found.sequence.field_ids) == ((1,), 3, (4,))
    assert found.row_ids == (1, 2)
    assert found.event_column_ids == (1, 3, 4)
    assert found.operations == {
        "INSERT": Operation.UPSERT,
        "UPDATE": Operation.UPSERT,
        "DELETE": Operation.DELETE,
    }


@pytest.mark.parametrize(
    ("columns", "operation", "sequence", "rows"),
    [
        (("id", "cdc_operation", "cdc_operation_1", "sequence_number"), 3, 4, (1, 2)),
        (("id", "sequence_number", "cdc_operation", "sequence_number_1"), 3, 4, (1, 2)),
        (("id", "cdc_operation", "cdc_operation_1", "cdc_operation_2", "sequence_number"), 4, 5, (1, 2, 3)),
        (
            ("id", "cdc_operation", "sequence_number", "cdc_operation_1", "sequence_number_1"),
            4,
            5,
            (1, 2, 3),
        ),
        (("id", "sequence_number_12", "cdc_operation_11", "sequence_number_13"), 3, 4, (1, 2)),
    ],
)
def test_cdc_columns_renamed_on_a_clash_are_the_last_two(
    tmp_path: Path, columns: tuple[str, ...], operation: int, sequence: int, rows: tuple[int, ...]
) -> None:
    found = shape(tmp_path, schema(*columns))
    assert (found.operation_id, found.sequence.field_ids, found.row_ids) == (operation, (sequence,), rows)


@pytest.mark.parametrize(
    ("columns", "added", "operation", "sequence"),
    [
        (("id", "cdc_operation", "sequence_number"), ("extra",), 2, 3),
        (("id", "cdc_operation", "sequence_number"), ("cdc_operation_1",), 2, 3),
        (("id", "cdc_operation", "sequence_number"), ("sequence_number_1",), 2, 3),
        (("id", "cdc_operation", "sequence_number"), ("cdc_operation_1", "sequence_number_1"), 2, 3),
        (("id", "cdc_operation", "cdc_operation_1", "sequence_number"), ("extra",), 3, 4),
        (("id", "cdc_operation", "cdc_operation_1", "sequence_number"), ("extra", "cdc_operation_2"), 3, 4),
        (
            ("id", "cdc_operation", "sequence_number", "cdc_operation_1", "sequence_number_1"),
            ("extra", "cdc_operation_2", "more"),
            4,
            5,
        ),
    ],
)
def test_columns_added_later_by_the_source_are_never_cdc_columns(
    tmp_path: Path, columns: tuple[str, ...], added: tuple[str, ...], operation: int, sequence: int
) -> None:
    created = schema(*columns, keys=columns)
    first = len(columns) + 1
    later = [NestedField(field_id, name, StringType()) for field_id, name in enumerate(added, first)]
    for fields in ((*created.fields, *later), (created.fields[0], *later, *created.fields[1:])):
        found = shape(tmp_path, Schema(*fields, identifier_field_ids=[1]))
        assert (found.operation_id, found.sequence.field_ids) == (operation, (sequence,))
        assert {field.field_id for field in later} < {*found.row_ids}


def test_operation_is_found_next_to_a_renamed_sequence(tmp_path: Path) -> None:
    columns = schema("id", "cdc_operation", "cdc_operation_1", "cdc_sequence_number", "extra")
    found = shape(tmp_path, columns, "sequence_column: cdc_sequence_number")
    assert (found.operation_id, found.row_ids) == (3, (1, 2, 5))


def test_column_that_resembles_a_renamed_one_is_part_of_the_row(tmp_path: Path) -> None:
    columns = ("id", "cdc_operation_name", "sequence_number_x", "cdc_operation", "sequence_number")
    assert shape(tmp_path, schema(*columns)).row_ids == (1, 2, 3)


def test_configured_column_name_is_used_unchanged(tmp_path: Path) -> None:
    columns = schema("id", "op", "cdc_sequence_number", "cdc_operation", "sequence_number")
    options = "operation_column: op\nsequence_column: cdc_sequence_number"
    found = shape(tmp_path, columns, options)
    assert (found.operation_id, found.sequence.field_ids, found.row_ids) == (2, (3,), (1, 4, 5))


def test_other_profiles_do_not_rename_columns(tmp_path: Path) -> None:
    options = "profile: generic\noperation_column: cdc_operation\nsequence_column: version"
    found = shape(tmp_path, schema("id", "cdc_operation", "cdc_operation_1", "version"), options)
    assert found.operation_id == 2


def test_configured_operation_values_are_used(tmp_path: Path) -> None:
    options = "operation_values: {insert: [c, r], update: [u], delete: [d]}"
    found = shape(tmp_path, schema("id", "cdc_operation", "sequence_number"), options)
    assert found.operations == {
        "c": Operation.UPSERT,
        "r": Operation.UPSERT,
        "u": Operation.UPSERT,
        "d": Operation.DELETE,
    }


def test_several_sequence_columns_keep_their_order(tmp_path: Path) -> None:
    options = "sequence_column: [version, sequence_number]"
    found = shape(tmp_path, schema("id", "sequence_number", "version", "cdc_operation"), options)
    assert found.sequence.field_ids == (3, 2)
    assert found.sequence.parts == 3


def test_key_defaults_to_the_identifier_fields(tmp_path: Path) -> None:
    columns = schema("id", "name", "cdc_operation", "sequence_number")
    assert shape(tmp_path, columns).key_ids == (1,)
    assert shape(tmp_path, columns, "primary_keys: [name]").key_ids == (2,)
    assert shape(tmp_path, columns).key_codec.encoding is Encoding.ORDERED_64
    assert shape(tmp_path, columns, "primary_keys: [id, name]").key_codec.encoding is Encoding.HASHED


def test_order_of_primary_keys_does_not_change_the_key(tmp_path: Path) -> None:
    """The index concatenates the columns: another order would change every encoded key."""
    columns = schema("id", "name", "cdc_operation", "sequence_number", keys=("id", "name"))
    key_ids = shape(tmp_path, columns, "primary_keys: [id, name]").key_ids
    assert key_ids == shape(tmp_path, columns, "primary_keys: [name, id]").key_ids
    assert key_ids == shape(tmp_path, columns).key_ids


def test_order_of_columns_does_not_change_the_key(tmp_path: Path) -> None:
    """Iceberg allows columns to be reordered; their ids stay."""
    columns = schema("id", "name", "cdc_operation", "sequence_number", keys=("id", "name"))
    id_, name, *rest = columns.fields
    moved = Schema(name, id_, *rest, identifier_field_ids=columns.identifier_field_ids)
    assert shape(tmp_path, moved).key_ids == shape(tmp_path, columns).key_ids


def test_changelog_without_a_key_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"lab\.world_changelog: has no identifier fields.*primary_keys"):
        shape(tmp_path, schema("a", "cdc_operation", "sequence_number", keys=()))


@pytest.mark.parametrize(
    ("options", "setting", "suggestion"),
    [
        ("primary_keys: [nmae]", "primary_keys", "did you mean name?"),
        ("primary_keys: [zzz]", "primary_keys", "its columns are id, name, cdc_operation, sequence_number"),
        ("operation_column: cdc_operatoin", "operation_column", "did you mean cdc_operation?"),
        ("sequence_column: [sequence_nr]", "sequence_column", "did you mean sequence_number?"),
    ],
)
def test_error_for_a_missing_column_suggests_a_similar_one(
    tmp_path: Path, options: str, setting: str, suggestion: str
) -> None:
    with pytest.raises(Invalid) as caught:
        shape(tmp_path, schema("id", "name", "cdc_operation", "sequence_number"), options)
    assert str(caught.value).startswith(f"lab.world: {setting} names ")
    assert f"; {suggestion}" in str(caught.value)


def test_changelog_without_the_columns_of_the_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="has no column cdc_operation"):
        shape(tmp_path, schema("id", "name"))
    with pytest.raises(Invalid, match="has no column sequence_number"):
        shape(tmp_path, schema("id", "name", "cdc_operation"))


def test_column_cannot_be_key_and_cdc_column(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="column cdc_operation cannot be key and CDC column"):
        shape(tmp_path, schema("id", "cdc_operation", "sequence_number"), "primary_keys: [id, cdc_operation]")


def test_unsupported_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be part of the key"):
        shape(tmp_path, schema("ratio", "cdc_operation", "sequence_number", keys=()), "primary_keys: [ratio]")


def test_key_inside_a_struct_is_refused(tmp_path: Path) -> None:
    inner = StructType(NestedField(10, "k", LongType(), required=True))
    nested = Schema(
        NestedField(1, "s", inner, required=True),
        NestedField(2, "cdc_operation", StringType()),
        NestedField(3, "sequence_number", StringType()),
        identifier_field_ids=[10],
    )
    with pytest.raises(Invalid, match="inside a struct is not supported"):
        shape(tmp_path, nested)


def test_error_for_an_unsupported_key_type_names_table_and_column(tmp_path: Path) -> None:
    columns = schema("id", "ratio", "cdc_operation", "sequence_number")
    with pytest.raises(
        Invalid, match=r"lab\.world_changelog: column ratio cannot be part of the key: .*double"
    ):
        shape(tmp_path, columns, "primary_keys: [id, ratio]")


def test_operation_column_of_another_type_is_refused(tmp_path: Path) -> None:
    columns = schema("id", "ratio", "sequence_number")
    with pytest.raises(Invalid, match=r"column ratio of type double cannot hold the operation.*type string"):
        shape(tmp_path, columns, "operation_column: ratio")


def test_sequence_column_of_another_type_is_refused_with_table_and_setting(tmp_path: Path) -> None:
    columns = schema("id", "ratio", "cdc_operation")
    with pytest.raises(Invalid, match=r"lab\.world_changelog: column ratio .*16 hex digits.*sequence_column"):
        shape(tmp_path, columns, "sequence_column: ratio")


def nested() -> Schema:
    inner = StructType(NestedField(10, "op", StringType()), NestedField(11, "offset", LongType()))
    deep = StructType(NestedField(12, "inner", inner))
    return Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "meta", deep),
        NestedField(3, "a.b", StringType()),
        NestedField(4, "seq", LongType()),
        identifier_field_ids=[1],
    )


def test_fields_of_structs_are_found_by_dotted_names(tmp_path: Path) -> None:
    options = "profile: generic\noperation_column: meta.inner.op\nsequence_column: [seq, meta.inner.offset]"
    found = shape(tmp_path, nested(), options)
    assert (found.operation_id, found.sequence.field_ids, found.row_ids) == (10, (4, 11), (1, 3))
    assert [column.name for column in found.sequence.columns] == ["seq", "meta.inner.offset"]


def test_column_with_a_dot_in_its_name_is_found(tmp_path: Path) -> None:
    options = "profile: generic\noperation_column: a.b\nsequence_column: seq"
    assert shape(tmp_path, nested(), options).operation_id == 3


@pytest.mark.parametrize("name", ["meta.op", "meta.inner", "meta.inner.op.x", "met.inner.op"])
def test_unknown_dotted_name_is_refused(tmp_path: Path, name: str) -> None:
    options = f"profile: generic\noperation_column: {name}\nsequence_column: seq"
    with pytest.raises(Invalid, match=r"operation_column"):
        shape(tmp_path, nested(), options)


@pytest.mark.parametrize(
    ("connector", "columns", "ids"),
    [
        ("postgres", ("__source_lsn",), (2,)),
        ("postgres", ("__lsn", "__transaction_total_order"), (2, 3)),
        ("mysql", ("__source_file", "__source_pos", "__source_row"), (2, 3, 4)),
        ("sqlserver", ("__commit_lsn", "__change_lsn", "__event_serial_no"), (2, 3, 4)),
        ("oracle", ("__source_scn", "__source_ssn"), (2, 3)),
    ],
)
def test_connector_defines_the_sequence_columns(
    tmp_path: Path, connector: str, columns: tuple[str, ...], ids: tuple[int, ...]
) -> None:
    found = shape(
        tmp_path, schema("id", *columns, "__op", "__other"), f"profile: debezium\nconnector: {connector}"
    )
    assert found.sequence.field_ids == ids
    assert found.row_ids == (1,)


def test_missing_connector_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="has no column __source_lsn"):
        shape(tmp_path, schema("id", "__op"), "profile: debezium\nconnector: postgres")


def test_keep_columns_keeps_columns_of_the_writer(tmp_path: Path) -> None:
    options = "profile: debezium\nconnector: postgres\nkeep_columns: [__lsn]"
    assert shape(tmp_path, schema("id", "__lsn", "__op"), options).row_ids == (1, 2)
