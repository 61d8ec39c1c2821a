"""A small changelog as Debezium flattens PostgreSQL's events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from spark_job.engine.engine import Engine
from tests.lab.lab import Lab, rows_table

SAME = "__debezium_unavailable_value"
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
        NestedField(one.field_id, one.name, StringType(), required=one.required)
        if one.name in ("id", "__before_id")
        else one
        for one in SCHEMA.fields
    ),
    identifier_field_ids=[1],
)


class Source:
    """The changelog and its mirror. Keys are numbers; with a text schema they are written as text."""

    def __init__(
        self,
        folder: Path,
        options: str = "",
        schema: Schema = SCHEMA,
        engine: Engine | None = None,
        tail: str = "",
    ) -> None:
        self.text = isinstance(schema.find_type("id"), StringType)
        self.schema = schema
        all_options = f"profile: debezium\nconnector: postgres\n{options}"
        self.lab = Lab.make(folder, schema, options=all_options, engine=engine, tail=tail)

    def row(
        self,
        key: int | None,
        lsn: int | None,
        name: str | None = "n",
        body: str | None = SAME,
        *,
        op: str | None = "u",
        before: int | None = None,
    ) -> dict[str, Any]:
        """Return one event."""
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
        """Write a file of events."""
        return rows_table(self.schema, rows)

    def commit(self, *rows: dict[str, Any]) -> int:
        """Commit one file."""
        return self.lab.commit(self.file(*rows))

    def rows(self) -> dict[int, tuple[str | None, str | None]]:
        """Return key → name and body."""
        found = self.lab.mirror.scan().to_arrow().to_pylist()
        rows = {int(row["id"]): (row["name"], row["body"]) for row in found}
        assert len(rows) == len(found), "a key has two rows"
        return rows
