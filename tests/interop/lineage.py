"""Row lineage of v3 mirrors, as Spark reads it."""

from __future__ import annotations

from typing import Any

from spark_job.pyiceberg_private.manifest_files import next_row_id
from tests.interop.cases import Case
from tests.interop.spark_sql import SparkSql
from tests.lab.mirrored_world import MirroredWorld

COLUMNS = ("flag", "double", "amount", "day", "instant", "text", "words", "place", "counts")


LINEAGE = "_row_id, _last_updated_sequence_number"


INT = Case("int", "int", COLUMNS, seed=71, batch_size=60, format_version=3)


STRING = Case("string", "string", COLUMNS, ("bucket[3](id)",), 72, 2, format_version=3)


# Key → revision, row id, sequence number of the last change.
Lineage = dict[Any, tuple[int, int, int]]


def lineage_at(spark: SparkSql, snapshot_id: int) -> Lineage:
    rows = spark.query(f"SELECT id, revision, {LINEAGE} FROM {spark.mirror} VERSION AS OF {snapshot_id}")
    found = {row["id"]: tuple(row.values())[1:] for row in rows.to_pylist()}
    assert len(found) == rows.num_rows
    return found


def check_lineage(world: MirroredWorld, spark: SparkSql, ids: list[int]) -> None:
    before: Lineage = {}
    assigned: set[int] = set()
    updated = 0
    for snapshot_id in ids:
        snapshot = world.mirror.snapshot_by_id(snapshot_id)
        assert snapshot is not None
        current = lineage_at(spark, snapshot_id)
        row_ids = [row_id for _, row_id, _ in current.values()]
        assert None not in row_ids
        assert len(set(row_ids)) == len(row_ids)
        for key, (revision, row_id, changed_at) in current.items():
            if key not in before:
                assert row_id not in assigned, f"{key}: the row id of a deleted row"
                assert changed_at == snapshot.sequence_number or not before
                continue
            old_revision, old_id, old_changed_at = before[key]
            assert row_id == old_id, f"{key}: changed its id"
            assert changed_at in (old_changed_at, snapshot.sequence_number)
            if revision != old_revision:
                updated += 1
                assert changed_at == snapshot.sequence_number
        assigned.update(row_ids)
        before = current
    assert updated > 5
    assert max(assigned) < (next_row_id(world.mirror.metadata) or 0)
