"""A small changelog of flattened PostgreSQL events, as Debezium writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from spark_job.engine.engine import Engine
from tests.lab.lab import Lab, rows_table

UNCHANGED = "__debezium_unavailable_value"
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "body", StringType()),
    NestedField(4, "__before_id", LongType()),
    NestedField(5, "__op", StringType()),
    NestedField(6, "__source_lsn", LongType()),
    identifier_field_ids=[1],
)
TEXT_KEY = Schema(
    *(
        NestedField(field.field_id, field.name, StringType(), required=field.required)
        if field.name in ("id", "__before_id")
        else field
        for field in SCHEMA.fields
    ),
    identifier_field_ids=[1],
)


class Source:
    """A Debezium changelog and its mirror. Keys are numbers; a text schema stores them as text."""

    def __init__(
        self,
        folder: Path,
        options: str = "",
        schema: Schema = SCHEMA,
        engine: Engine | None = None,
        extra_config: str = "",
    ) -> None:
        self.text = isinstance(schema.find_type("id"), StringType)
        self.schema = schema
        all_options = f"profile: debezium\nconnector: postgres\n{options}"
        self.lab = Lab.make(folder, schema, options=all_options, engine=engine, extra_config=extra_config)

    def row(
        self,
        key: int | None,
        lsn: int | None,
        name: str | None = "n",
        body: str | None = UNCHANGED,
        *,
        op: str | None = "u",
        before: int | None = None,
    ) -> dict[str, Any]:
        """Return an event as a row of the changelog."""
        return {
            "id": self._key(key),
            "name": name,
            "body": body,
            "__before_id": self._key(before),
            "__op": op,
            "__source_lsn": lsn,
        }

    def _key(self, key: int | None) -> object:
        return str(key) if self.text and key is not None else key

    def file(self, *rows: dict[str, Any]) -> pa.Table:
        """Return a file of events."""
        return rows_table(self.schema, rows)

    def commit(self, *rows: dict[str, Any]) -> int:
        """Commit one file."""
        return self.lab.commit(self.file(*rows))

    def rows(self) -> dict[int, tuple[str | None, str | None]]:
        """Return name and body by key."""
        scanned = self.lab.mirror.scan().to_arrow().to_pylist()
        rows = {int(row["id"]): (row["name"], row["body"]) for row in scanned}
        assert len(rows) == len(scanned), "a key has two rows"
        return rows
