from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from icemirror.errors import Kind
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text

TWO_KEYS = changelog_schema(("a", StringType()), ("b", StringType()), ("name", StringType()), keys=("a", "b"))
TWO_ORDERS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "op", StringType()),
    NestedField(4, "one", LongType()),
    NestedField(5, "two", LongType()),
    identifier_field_ids=[1],
)
_GENERIC = "profile: generic\noperation_column: op\nsequence_column: "


def pair(a: str, b: str, name: str, sequence: int) -> dict[str, str]:
    cdc = {"cdc_operation": "UPDATE", "sequence_number": sequence_text(sequence)}
    return {"a": a, "b": b, "name": name, **cdc}


def pairs(lab: Lab) -> list[tuple[str, str, str]]:
    rows = lab.mirror.scan().to_arrow().select(["a", "b", "name"]).to_pylist()
    return sorted((row["a"], row["b"], row["name"]) for row in rows)


@pytest.mark.parametrize("keys", ["[a]", "[a, b, name]", "[name]"])
def test_changed_key_is_refused_with_advice(tmp_path: Path, keys: str) -> None:
    lab = Lab.make(tmp_path, TWO_KEYS)
    lab.commit(rows_table(TWO_KEYS, [pair("x", "y", "old", 1)]))
    lab.merge()
    lab.commit(rows_table(TWO_KEYS, [pair("x", "y", "new", 2)]))
    result = lab.reconfigure(f"primary_keys: {keys}").try_merge()
    assert result.error is not None
    assert result.error.kind is Kind.INVALID
    assert "its key is a, b, but the settings name" in result.error.message
    assert "Set primary_keys back, or drop the mirror" in result.error.message
    assert pairs(lab) == [("x", "y", "old")]


def test_reordered_key_finds_its_rows_or_is_refused(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, TWO_KEYS, options="primary_keys: [a, b]")
    lab.commit(rows_table(TWO_KEYS, [pair("x", "y", "old", 1)]))
    lab.merge()
    lab.commit(rows_table(TWO_KEYS, [pair("x", "y", "new", 2)]))
    result = lab.reconfigure("primary_keys: [b, a]").try_merge()
    assert pairs(lab) == [("x", "y", "new" if result.error is None else "old")]


def test_moved_key_column_finds_its_rows(tmp_path: Path) -> None:
    """Iceberg's ALTER TABLE … FIRST changes only the position of the column."""
    lab = Lab.make(tmp_path, TWO_KEYS)
    lab.commit(rows_table(TWO_KEYS, [pair("x", "y", "old", 1)]))
    lab.merge()
    with lab.changelog.update_schema() as update:
        update.move_first("b")
    lab.changelog.refresh()
    lab.commit(rows_table(lab.changelog.schema(), [pair("x", "y", "new", 2)]))
    lab.merge()
    assert pairs(lab) == [("x", "y", "new")]


def test_primary_keys_equal_to_the_identifier_fields_are_the_same_key(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, TWO_KEYS)
    lab.commit(rows_table(TWO_KEYS, [pair("x", "y", "old", 1)]))
    lab.merge()
    lab.commit(rows_table(TWO_KEYS, [pair("x", "y", "new", 2)]))
    lab.reconfigure("primary_keys: [a, b]").merge()
    assert pairs(lab) == [("x", "y", "new")]


def order_row(name: str, one: int, two: int) -> dict[str, object]:
    return {"id": 1, "name": name, "op": "UPDATE", "one": one, "two": two}


def test_changed_number_of_sequence_columns_is_refused(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, TWO_ORDERS, options=f"{_GENERIC}[one, two]")
    lab.commit(rows_table(TWO_ORDERS, [order_row("old", 1, 1)]))
    lab.merge()
    result = lab.reconfigure(f"{_GENERIC}[one]").try_merge()
    assert result.error is not None
    assert "sequence_column changed since it was built" in result.error.message


def test_reordered_sequence_columns_do_not_revert_rows(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, TWO_ORDERS, options=f"{_GENERIC}[one, two]")
    lab.commit(rows_table(TWO_ORDERS, [order_row("newest", 5, 100)]))
    lab.merge()
    lab.commit(rows_table(TWO_ORDERS, [order_row("older", 4, 101)]))
    result = lab.reconfigure(f"{_GENERIC}[two, one]").try_merge()
    assert lab.rows() == {1: "newest"}
    assert result.error is not None
    assert result.error.kind is Kind.INVALID


def test_promoted_int_key_finds_its_rows(tmp_path: Path) -> None:
    schema = changelog_schema(("id", IntegerType()), ("name", StringType()))
    lab = Lab.make(tmp_path, schema)
    cdc = {"cdc_operation": "UPDATE"}
    lab.commit(rows_table(schema, [{"id": -1, "name": "old", "sequence_number": sequence_text(1), **cdc}]))
    with lab.changelog.update_schema() as update:
        update.update_column("id", LongType())
    lab.changelog.refresh()
    wide = lab.changelog.schema()
    lab.commit(rows_table(wide, [{"id": -1, "name": "new", "sequence_number": sequence_text(2), **cdc}]))
    lab.merge()
    lab.commit(rows_table(wide, [{"id": -1, "name": "newer", "sequence_number": sequence_text(3), **cdc}]))
    lab.merge()
    assert lab.rows() == {-1: "newer"}
