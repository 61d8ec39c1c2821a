"""Commits inserts, updates and deletes to a changelog in the local cloud, and waits for the matching mirror."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

CHANGELOG, MIRROR = ("raw", "orders_changelog"), ("shop", "orders")
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "status", StringType(), required=False),
    NestedField(3, "cdc_operation", StringType(), required=True),
    NestedField(4, "sequence_number", LongType(), required=True),
    identifier_field_ids=[1],
)
COMMITS = (
    [(key, "placed", "INSERT", key) for key in range(1, 1001)],
    [(key, "paid", "UPDATE", 1000 + key) for key in range(1, 501)],
    [(key, None, "DELETE", 2000 + key) for key in range(1, 101)],
)
EXPECTED = {key: "paid" if key <= 500 else "placed" for key in range(101, 1001)}


def open_catalog(environ: Mapping[str, str]) -> Catalog:
    """Open the catalog of the local cloud."""
    return load_catalog(
        "lake",
        **{
            "type": "rest",
            "uri": environ["CATALOG_URI"],
            "s3.endpoint": environ["AWS_ENDPOINT"],
            "s3.access-key-id": environ["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": environ["AWS_SECRET_ACCESS_KEY"],
            "s3.region": environ["AWS_REGION"],
        },
    )


def commit_changes(catalog: Catalog) -> None:
    """Commit inserts, updates and deletes, one commit each."""
    for namespace in ("raw", "shop"):
        with suppress(NamespaceAlreadyExistsError):
            catalog.create_namespace(namespace)
    table = catalog.create_table(CHANGELOG, SCHEMA)
    for rows in COMMITS:
        columns = zip(*rows, strict=True)
        arrow = SCHEMA.as_arrow()
        table.append(
            pa.table(
                [pa.array(list(values), field.type) for values, field in zip(columns, arrow, strict=True)],
                schema=arrow,
            )
        )


def read_mirror(catalog: Catalog) -> dict[int, str]:
    """Return the status of each row of the mirror; empty if there is no mirror yet."""
    try:
        rows = catalog.load_table(MIRROR).scan().to_arrow()
    except NoSuchTableError:
        return {}
    return dict(zip(rows["id"].to_pylist(), rows["status"].to_pylist(), strict=True))


def main(environ: Mapping[str, str], timeout_seconds: float = 300.0) -> int:
    """Return 0 if the mirror has the expected rows before the timeout."""
    catalog = open_catalog(environ)
    commit_changes(catalog)
    end = time.monotonic() + timeout_seconds
    while (found := read_mirror(catalog)) != EXPECTED:
        if time.monotonic() > end:
            print(f"the mirror has {len(found)} rows, expected {len(EXPECTED)}")
            return 1
        time.sleep(1)
    print(f"mirror = changelog: {len(found)} rows of shop.orders")
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
