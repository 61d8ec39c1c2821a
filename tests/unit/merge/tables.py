"""Tables that PyIceberg wrote and icemirror did not make."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

from tests.unit.merge import foreign
from tests.unit.merge.lab import Lab

PLAIN = Schema(
    NestedField(7, "name", StringType(), required=False), NestedField(9, "id", LongType(), required=False)
)


def make_table(lab: Lab, *files: Iterable[tuple[int | None, str]], schema: Schema = PLAIN) -> Table:
    """`lab.world` with these rows, a file for each group; the columns are in another order than the changelog's."""
    table = lab.catalog.create_table("lab.world", schema)
    for rows in files:
        add_rows(table, rows)
    return table


def add_rows(table: Table, rows: Iterable[tuple[int | None, str]]) -> None:
    """One more file."""
    told = [{"id": key, "name": name} for key, name in rows]
    table.append(pa.Table.from_pylist(told, schema=schema_to_pyarrow(table.schema())))


def delete_rows(lab: Lab, ids: Iterable[int]) -> None:
    """Position deletes."""
    foreign.delete_rows(lab.mirror, ids)
