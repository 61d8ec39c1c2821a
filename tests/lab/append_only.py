"""A changelog without a key, and the rows of its mirror."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, StringType

from spark_job.engine.engine import InProcessEngine
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text

SCHEMA = changelog_schema(("name", StringType()), ("amount", LongType()), keys=())


APPEND_ONLY = "append_only: true"


def event_file(
    *rows: tuple[str | None, int | None], operation: str = "INSERT", schema: Schema = SCHEMA
) -> pa.Table:
    """Return a changelog file with one event per row."""
    cdc = {"cdc_operation": operation, "sequence_number": sequence_text(1)}
    return rows_table(schema, [{"name": name, "amount": amount, **cdc} for name, amount in rows])


def make(folder: Path, options: str = APPEND_ONLY, *, batch: int = 3, shards: int = 1) -> Lab:
    return Lab.make(
        folder, SCHEMA, options=options, extra_config=f"batch_size: {batch}\n", engine=InProcessEngine(shards)
    )


def rows(lab: Lab) -> Counter[tuple[str | None, int | None]]:
    read = lab.mirror.scan().to_arrow()
    return Counter(zip(read["name"].to_pylist(), read["amount"].to_pylist(), strict=True))


def append_as_another_writer(lab: Lab) -> None:
    lab.mirror.append(pa.table({"name": ["x"], "amount": [9]}).cast(lab.mirror.schema().as_arrow()))
