"""A program that creates a changelog with two rows inside an image, and the configuration that mirrors it."""

from __future__ import annotations

MAKE = """
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
catalog = load_catalog("icemirror", type="sql", uri="sqlite:///{lake}/catalog.db", warehouse="file://{lake}")
catalog.create_namespace("shop")
names = ("id", LongType()), ("cdc_operation", StringType()), ("sequence_number", LongType())
fields = [NestedField(field_id, name, kind, required=True) for field_id, (name, kind) in enumerate(names, 1)]
schema = Schema(*fields, identifier_field_ids=[1])
rows = pa.table(dict(id=[1, 2], cdc_operation=["INSERT"] * 2, sequence_number=[1, 2]), schema=schema.as_arrow())
catalog.create_table("shop.orders_changelog", schema).append(rows)
"""
CONFIG = """
iceberg: {{catalog: {{type: sql, uri: "sqlite:///{lake}/catalog.db", warehouse: "file://{lake}"}}}}
tables: [{{namespace: shop, changelog_table: orders_changelog, mirror_table: orders}}]
"""


def make(lake: str) -> str:
    """Return the program that creates the changelog."""
    return MAKE.format(lake=lake)


def config(lake: str) -> str:
    """Return the configuration."""
    return CONFIG.format(lake=lake)
