"""Changelogs with the shapes of real writers: a schema, commits of rows, and the expected mirror."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from spark_job.engine.engine import Engine
from tests.lab.lab import Lab

_FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.stem for path in _FOLDER.glob("*.json"))

Row = dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """One recorded changelog."""

    options: str
    schema: Schema
    commits: list[list[Row]]
    mirror: list[Row]

    @classmethod
    def load(cls, name: str) -> Recording:
        document = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        schema = Schema.model_validate(document["schema"])
        return cls(document["options"], schema, document["commits"], document["mirror"])

    @property
    def keys(self) -> list[str]:
        """Return the key columns: the identifier fields, or `id`."""
        return [self.schema.find_field(field_id).name for field_id in self.schema.identifier_field_ids] or [
            "id"
        ]

    def file(self, rows: list[Row]) -> pa.Table:
        """Return a changelog file with these rows."""
        schema = schema_to_pyarrow(self.schema)
        return pa.table(
            [pa.array([typed(row[field.name], field.type) for row in rows], field.type) for field in schema],
            schema=schema,
        )

    def lab(
        self, folder: Path, *, options: str = "", extra_config: str = "", engine: Engine | None = None
    ) -> Lab:
        """Create an empty changelog of this shape, and the pipeline."""
        return Lab.make(
            folder,
            self.schema,
            options=f"{self.options}\n{options}",
            extra_config=extra_config,
            engine=engine,
        )

    def expected(self, lab: Lab) -> list[Row]:
        """Return the expected rows of the mirror, with Arrow values."""
        kinds = {field.name: field.type for field in schema_to_pyarrow(lab.mirror.schema())}
        return [{name: typed(value, kinds[name]) for name, value in row.items()} for row in self.mirror]


def typed(value: Any, kind: pa.DataType) -> Any:
    """Convert a JSON value to Arrow: binary from hexadecimal digits, times from ISO 8601, numbers from text."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return dt.datetime.fromisoformat(value)
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind):
        return bytes.fromhex(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_struct(kind):
        return {field.name: typed(value[field.name], field.type) for field in kind}
    return value


def mirror_rows(lab: Lab, keys: list[str]) -> list[Row]:
    """Return the rows of the mirror by key, as PyIceberg reads them."""
    rows: list[Row] = lab.mirror.scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: tuple(row[key] for key in keys))
