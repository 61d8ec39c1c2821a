"""A table with a region, partitioned by it or not."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "region", LongType()))


def make_table(folder: Path, partitioned: bool = False) -> Table:
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("ns")
    spec = (
        PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
        if partitioned
        else PartitionSpec()
    )
    return catalog.create_table("ns.t", SCHEMA, partition_spec=spec)
