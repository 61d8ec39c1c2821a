"""A small shop: three source tables with different kinds of keys, and their changelogs' schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from icemirror.cli.demo import column_values as make
from icemirror.cli.demo.change_generator import Ints, ShopTable, scramble
from icemirror.cli.demo.oracle.source_table import OPERATION_COLUMN, SEQUENCE_COLUMN, SourceTable

ITEMS_PER_ORDER = 4
_EPOCH_MICROS = 1_735_689_600_000_000  # 2025-01-01
_DAY_MICROS = 86_400_000_000
_UTC_MICROS = pa.timestamp("us", tz="UTC")
_FIRST_NAMES = ("Ada", "Björn", "Chloé", "Đorđe", "Emre", "Fátima", "Gauri", "花子", "İpek", "José")
_LAST_NAMES = ("Nkemelu", "O’Neill", "Østergård", "Peña", "Quirke", "Romanova", "Şahin", "田中", "Zhao", "")


def changelog_schema(columns: Sequence[tuple[str, IcebergType]], key: Sequence[str]) -> Schema:
    """Return the source columns and the two change columns, with the source's key as identifier fields."""
    all_columns = [*columns, (OPERATION_COLUMN, StringType()), (SEQUENCE_COLUMN, StringType())]
    required = {*key, OPERATION_COLUMN, SEQUENCE_COLUMN}
    fields = [
        NestedField(field_id, name, type_, required=name in required)
        for field_id, (name, type_) in enumerate(all_columns, start=1)
    ]
    schema = Schema(*fields, identifier_field_ids=[field.field_id for field in fields if field.name in key])
    # The ids that the catalog will assign: files are written with them.
    return assign_fresh_schema_ids(schema)


def _shop_table(
    name: str,
    columns: Sequence[tuple[str, IcebergType]],
    key: Sequence[str],
    rows: Callable[[Ints, Ints], Mapping[str, Any]],
) -> ShopTable:
    schema = changelog_schema(columns, key)
    return ShopTable(SourceTable.of(name, schema), schema, rows)


def customer_rows(key: Ints, revision: Ints) -> Mapping[str, Any]:
    """Return customers: an integer key."""
    bits = [scramble(key, revision, column) for column in range(7)]
    born = scramble(key)
    return {
        "id": pa.array(key),
        "name": pc.binary_join_element_wise(
            make.choices(_FIRST_NAMES, born), make.choices(_LAST_NAMES, born >> np.uint64(9)), " "
        ),
        "email": pc.binary_join_element_wise(make.labels("customer", key), "@shop.example", ""),
        "country": make.choices(("DE", "FR", "IN", "JP", "MX", "NG", "NO", "TR", None), bits[0]),
        "credit": make.decimals(make.uniform_ints(bits[1], 2_000_000) - 500_000, 12, 2),
        "active": make.choices((True, True, True, False, None), bits[2]),
        "visits": make.ints(make.uniform_ints(bits[3], 5_000), pa.int32()),
        "note": make.choices(("", "VIP", "calls twice 📞", "“quoted”, with a comma", None, None), bits[4]),
        "created_at": make.ints(_EPOCH_MICROS + make.uniform_ints(born, 300 * _DAY_MICROS), _UTC_MICROS),
        "updated_at": make.ints(
            _EPOCH_MICROS + make.uniform_ints(bits[5], 300 * _DAY_MICROS),
            pa.timestamp("us"),
            make.random_mask(bits[6], 9),
        ),
    }


def order_item_rows(key: Ints, revision: Ints) -> Mapping[str, Any]:
    """Return order items: a key of two columns, order and article."""
    bits = [scramble(key, revision, column) for column in range(6)]
    return {
        "order_id": pa.array(key // ITEMS_PER_ORDER),
        "sku": make.labels("SKU-", (key % ITEMS_PER_ORDER) * 1_000 + make.uniform_ints(scramble(key), 1_000)),
        "quantity": make.ints(1 + make.uniform_ints(bits[0], 20), pa.int32()),
        "unit_price": make.decimals(make.uniform_ints(bits[1], 100_000), 12, 2),
        "discount": make.doubles(bits[2]),
        "gift": make.choices((True, False, None), bits[3]),
        "ordered_on": make.ints(
            20_089 + make.uniform_ints(scramble(key // ITEMS_PER_ORDER), 300), pa.date32()
        ),
        "packed_at": make.ints(
            make.uniform_ints(bits[4], _DAY_MICROS), pa.time64("us"), nulls=make.random_mask(bits[5], 7)
        ),
    }


def product_rows(key: Ints, revision: Ints) -> Mapping[str, Any]:
    """Return products: a uuid key and a column of every type."""
    bits = [scramble(key, revision, column) for column in range(18)]
    words = pa.array(["new", "sale", "größe-l", "", None, "eco", "🎁", "b-ware"])
    return {
        "product_id": make.uuids(scramble(key, -1), scramble(key, -2)),
        "title": make.labels("Product № ", key),
        "category": make.choices(("books", "games", "garden", "kitchen", "music", "tools"), bits[0]),
        "price": make.decimals(make.uniform_ints(bits[1], 10_000_000) - 1_000, 18, 4),
        "stock": pa.array(make.uniform_ints(bits[2], 1_000_000) - 10),
        "rating": make.doubles(bits[3]),
        "weight": make.doubles(bits[4]).cast(pa.float32(), safe=False),
        "tags": make.lists(bits[5], words, 4),
        "dimensions": make.lists(bits[6], pa.array([*make.EDGE_DOUBLES, None, 1.5, 20.25]), 3),
        "related": make.lists(bits[7], pa.array([1, None, 2**62, -5, 0]), 3),
        "attributes": pc.binary_join_element_wise(
            '{"colour": "',
            make.choices(("red", "grün", "青"), bits[8]),
            '", "n": ',
            make.ints(make.uniform_ints(bits[9], 100), pa.int64()).cast(pa.string()),
            "}",
            "",
        ),
        "thumbnail": make.binaries(bits[10], 24),
        "supplier": make.uuids(bits[11], bits[12], nulls=make.random_mask(bits[13], 6)),
        "released_on": make.ints(18_000 + make.uniform_ints(bits[14], 2_500), pa.date32()),
        "opens_at": make.ints(make.uniform_ints(bits[15], _DAY_MICROS), pa.time64("us")),
        "changed_at": make.ints(_EPOCH_MICROS + make.uniform_ints(bits[16], 300 * _DAY_MICROS), _UTC_MICROS),
        "seen_at": make.ints(make.uniform_ints(bits[17], 40_000 * _DAY_MICROS), pa.timestamp("us")),
        "visible": make.choices((True, False, None), bits[0] >> np.uint64(20)),
    }


CUSTOMERS = _shop_table(
    "customers",
    [
        ("id", LongType()),
        ("name", StringType()),
        ("email", StringType()),
        ("country", StringType()),
        ("credit", DecimalType(12, 2)),
        ("active", BooleanType()),
        ("visits", IntegerType()),
        ("note", StringType()),
        ("created_at", TimestamptzType()),
        ("updated_at", TimestampType()),
    ],
    ["id"],
    customer_rows,
)
ORDER_ITEMS = _shop_table(
    "order_items",
    [
        ("order_id", LongType()),
        ("sku", StringType()),
        ("quantity", IntegerType()),
        ("unit_price", DecimalType(12, 2)),
        ("discount", DoubleType()),
        ("gift", BooleanType()),
        ("ordered_on", DateType()),
        ("packed_at", TimeType()),
    ],
    ["order_id", "sku"],
    order_item_rows,
)
PRODUCTS = _shop_table(
    "products",
    [
        ("product_id", UUIDType()),
        ("title", StringType()),
        ("category", StringType()),
        ("price", DecimalType(18, 4)),
        ("stock", LongType()),
        ("rating", DoubleType()),
        ("weight", FloatType()),
        ("tags", ListType(101, StringType(), element_required=False)),
        ("dimensions", ListType(102, DoubleType(), element_required=False)),
        ("related", ListType(103, LongType(), element_required=False)),
        ("attributes", StringType()),
        ("thumbnail", BinaryType()),
        ("supplier", UUIDType()),
        ("released_on", DateType()),
        ("opens_at", TimeType()),
        ("changed_at", TimestamptzType()),
        ("seen_at", TimestampType()),
        ("visible", BooleanType()),
    ],
    ["product_id"],
    product_rows,
)
SHOP = (CUSTOMERS, ORDER_ITEMS, PRODUCTS)
