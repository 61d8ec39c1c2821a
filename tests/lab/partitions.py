"""A mirror with many partitions, and rows that are spread over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pyiceberg.types import IntegerType, LongType, StringType

from spark_job.iceberg.live_files import live_files
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text

SCHEMA = changelog_schema(("id", LongType()), ("name", StringType()), ("part", IntegerType()))


def make(folder: Path, version: int = 2) -> Lab:
    """Create a lab whose empty mirror is partitioned by a number."""
    options = f"partition_by: [part]\nformat_version: {version}\ncompact: false"
    lab = Lab.make(folder, SCHEMA, options=options)
    lab.commit()
    lab.merge()
    return lab


def commit(lab: Lab, partitions: list[int], sequence: int = 1) -> None:
    """Commit one row per partition number; its key is its index."""
    cdc = {"cdc_operation": "INSERT", "sequence_number": sequence_text(sequence)}
    rows = [
        {"id": key, "name": "x" * 50, "part": partition, **cdc} for key, partition in enumerate(partitions)
    ]
    lab.commit(rows_table(SCHEMA, rows))


def count_files(lab: Lab) -> int:
    return len(live_files(lab.mirror.io, lab.mirror.current_snapshot()))


def partitions_by_key(lab: Lab) -> dict[int, int]:
    rows = lab.mirror.scan(selected_fields=("id", "part")).to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["part"].to_pylist(), strict=True))


def scattered(rows: int, partitions: int) -> list[int]:
    """Return partitions that do not depend on the key."""
    return np.random.default_rng(1).integers(0, partitions, rows).tolist()  # type: ignore[no-any-return]


def in_order(rows: int, partitions: int) -> list[int]:
    """Return partitions that ascend with the key, like days with ascending ids."""
    return [key * partitions // rows for key in range(rows)]
