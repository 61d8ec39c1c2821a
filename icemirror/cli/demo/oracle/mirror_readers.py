"""Reads a mirror's rows with PyIceberg and with DuckDB."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from icemirror.cli.demo.oracle.duckdb_oracle import connect_duckdb, quote
from icemirror.cli.demo.oracle.source_table import SourceTable
from icemirror.tables.cursor import Cursor

CURSOR_PROPERTY = "icemirror.cursor"  # repeated as a literal: the oracle is independent of the product

# Mirror, subject, snapshot id (None: the head) → all rows.
MirrorReader = Callable[[Table, SourceTable, int | None], pa.Table]


def read_by_pyiceberg(mirror: Table, subject: SourceTable, snapshot_id: int | None = None) -> pa.Table:
    """Read all rows of a snapshot; default: the current one."""
    check_columns(mirror, subject)
    return mirror.scan(selected_fields=tuple(subject.columns.names), snapshot_id=snapshot_id).to_arrow()


def read_by_duckdb(mirror: Table, subject: SourceTable, snapshot_id: int | None = None) -> pa.Table:
    """Read the same rows with DuckDB. A mirror without a snapshot is empty."""
    check_columns(mirror, subject)
    if snapshot_id is None and mirror.current_snapshot() is None:
        return subject.columns.empty_table()
    names = ", ".join(quote(name) for name in subject.columns.names)
    snapshot_argument = "" if snapshot_id is None else f", snapshot_from_id = {int(snapshot_id)}"
    with connect_duckdb(iceberg=True) as connection:
        return connection.execute(
            f"SELECT {names} FROM iceberg_scan($location{snapshot_argument})",  # noqa: S608
            {"location": mirror.metadata_location},
        ).to_arrow_table()


def read_cursor(mirror: Table, snapshot_id: int | None = None) -> Cursor | None:
    """Return the cursor in the summary of a mirror snapshot."""
    snapshot = mirror.current_snapshot() if snapshot_id is None else mirror.snapshot_by_id(snapshot_id)
    if snapshot is None or snapshot.summary is None:
        return None
    text = snapshot.summary.additional_properties.get(CURSOR_PROPERTY)
    return None if text is None else Cursor.model_validate_json(text)


def check_columns(mirror: Table, subject: SourceTable) -> None:
    """Raise if the mirror lacks a column of the source table, or has another type for it."""
    mirror_schema = schema_to_pyarrow(mirror.schema(), include_field_ids=False)
    for field in subject.columns:
        if field.name not in mirror_schema.names:
            raise LookupError(f"{subject.name}: the mirror has no column {field.name}")
        if mirror_schema.field(field.name).type != field.type:
            mirror_type = mirror_schema.field(field.name).type
            raise TypeError(f"{subject.name}: column {field.name} is {mirror_type}, expected {field.type}")
