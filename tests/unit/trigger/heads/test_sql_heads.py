"""Heads from SQL catalogs, compared with PyIceberg's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from sqlalchemy import create_engine, make_url

from icemirror.errors import BadConfig, Invalid, Transient
from icemirror.tables.table_id import TableId
from trigger.heads.head_source import open_head_source
from trigger.heads.sql import AlchemyDatabase, SqlHeads, connect_arguments

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
ORDERS, MISSING = TableId.parse("raw.shop.orders_changelog"), TableId.parse("raw.shop.nothing")


def properties(folder: Path, **more: str) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/wh"} | more


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = load_catalog("icemirror", **properties(tmp_path))
    assert isinstance(catalog, SqlCatalog)
    for namespace in ("raw", "raw.shop", "other"):
        catalog.create_namespace(namespace)
    for name in ("raw.shop.orders_changelog", "raw.shop.items_changelog", "other.orders_changelog"):
        catalog.create_table(name, SCHEMA)
    yield catalog
    catalog.close()


def test_head_equals_pyicebergs_and_follows_commits(catalog: SqlCatalog, tmp_path: Path) -> None:
    heads = open_head_source(properties(tmp_path))
    table = catalog.load_table(ORDERS.parts)
    before = table.metadata_location
    assert heads.load_heads([ORDERS]) == {ORDERS: before}
    with table.transaction() as transaction:
        transaction.set_properties(a="b")
    moved = catalog.load_table(ORDERS.parts).metadata_location
    assert moved != before
    assert heads.load_heads([ORDERS]) == {ORDERS: moved}


def test_many_tables_need_one_query_and_a_missing_one_does_not_hide_others(
    catalog: SqlCatalog, tmp_path: Path
) -> None:
    other = TableId.parse("other.orders_changelog")
    heads = open_head_source(properties(tmp_path)).load_heads([ORDERS, MISSING, other])
    assert heads[ORDERS] == catalog.load_table(ORDERS.parts).metadata_location
    assert heads[other] == catalog.load_table(other.parts).metadata_location
    assert isinstance(heads[MISSING], Invalid)
    assert "no changelog raw.shop.nothing" in str(heads[MISSING])


def test_only_tables_directly_in_the_namespace_are_listed(catalog: SqlCatalog, tmp_path: Path) -> None:
    heads = open_head_source(properties(tmp_path))
    assert heads.list_tables("raw.shop") == ("items_changelog", "orders_changelog")
    assert heads.list_tables("raw") == ()
    assert heads.list_tables("nowhere") == ()


def test_views_are_not_listed(catalog: SqlCatalog, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as connection:
        connection.execute("UPDATE iceberg_tables SET iceberg_type = 'VIEW' WHERE table_name LIKE 'items%'")
        connection.commit()
    assert open_head_source(properties(tmp_path)).list_tables("raw.shop") == ("orders_changelog",)


def test_name_property_is_the_catalog_name_in_the_database(tmp_path: Path) -> None:
    with closing(load_catalog("theirs", **properties(tmp_path))) as catalog:
        catalog.create_namespace("raw")
        location = catalog.create_table("raw.t", SCHEMA).metadata_location
    table = TableId.parse("raw.t")
    assert isinstance(open_head_source(properties(tmp_path)).load_heads([table])[table], Invalid)
    assert open_head_source(properties(tmp_path, name="theirs")).load_heads([table]) == {table: location}
    assert open_head_source(properties(tmp_path), "theirs").load_heads([table]) == {table: location}


def test_sqlalchemy_returns_the_same_heads(catalog: SqlCatalog, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/catalog.db")
    with closing(SqlHeads(AlchemyDatabase(engine), "icemirror")) as heads:
        assert heads.load_heads([ORDERS]) == {ORDERS: catalog.load_table(ORDERS.parts).metadata_location}
        assert heads.list_tables("raw.shop") == ("items_changelog", "orders_changelog")


def test_unreachable_database_is_transient(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/nowhere/catalog.db")
    with closing(SqlHeads(AlchemyDatabase(engine), "icemirror")) as heads, pytest.raises(Transient):
        heads.load_heads([ORDERS])


def test_missing_catalog_file_is_transient_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="SQLite file does not exist"):
        open_head_source(properties(tmp_path)).load_heads([ORDERS])
    assert list(tmp_path.iterdir()) == []


def test_catalog_without_tables_has_no_changelogs(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").touch()
    heads = open_head_source(properties(tmp_path))
    assert isinstance(heads.load_heads([ORDERS])[ORDERS], Invalid)
    assert heads.list_tables("raw") == ()


def test_locked_catalog_is_transient(
    catalog: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trigger.heads.sql._BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Transient, match="locked"):
            open_head_source(properties(tmp_path)).load_heads([ORDERS])


def test_file_that_is_not_a_catalog_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database at all, but long enough" * 100)
    with pytest.raises(Invalid, match="damaged or not a SQLite file"):
        open_head_source(properties(tmp_path)).load_heads([ORDERS])


@pytest.mark.parametrize(
    ("catalog_properties", "message"),
    [
        ({"type": "sql", "uri": "sqlite://"}, "in memory"),
        ({"type": "sql", "uri": "sqlite:///:memory:"}, "in memory"),
        ({"type": "sql", "uri": "nonsense+driver://host/db"}, "not a database address"),
        ({"type": "dynamodb"}, "only rest, sql, glue and hive"),
        ({"type": "rest", "uri": "http://host", "rest.sigv4-enabled": "true"}, "type: glue"),
    ],
)
def test_unsupported_sql_address_is_refused_when_opened(
    catalog_properties: dict[str, str], message: str
) -> None:
    with pytest.raises(BadConfig, match=message):
        open_head_source(catalog_properties)


def test_type_is_derived_from_the_address(catalog: SqlCatalog, tmp_path: Path) -> None:
    without_type = properties(tmp_path)
    del without_type["type"]
    assert open_head_source(without_type).list_tables("raw.shop")


@pytest.mark.parametrize(
    ("uri", "arguments"),
    [
        ("postgresql+psycopg2://u:p@h/c", {"connect_timeout": 5}),
        ("postgresql+psycopg://u:p@h/c", {"connect_timeout": 5}),
        ("mysql+pymysql://u:p@h/c", {"connect_timeout": 5}),
        ("postgresql+pg8000://u:p@h/c", {"timeout": 5}),
        ("postgresql://u:p@h/c?connect_timeout=30", {}),
        ("oracle+oracledb://u:p@h/c", {}),
    ],
)
def test_connect_timeout_is_short_unless_the_address_sets_it(uri: str, arguments: dict[str, int]) -> None:
    assert connect_arguments(make_url(uri)) == arguments
