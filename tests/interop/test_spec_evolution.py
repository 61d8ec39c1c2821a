"""Iceberg Java changes a mirror's partition spec: new files use it, old files stay, deletes apply to both."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_job.iceberg.live_files import LiveFile, live_files
from spark_job.maintenance import choose_files as choose
from tests.interop.cases import Case, commit_and_merge, make_world
from tests.interop.iceberg_java import IcebergJava
from tests.interop.spark_sql import SparkSql
from tests.lab.mirrored_world import MirroredWorld

COLUMNS = ("flag", "small", "instant", "text", "amount", "words", "place")
CHANGES = (
    "REPLACE PARTITION FIELD id_bucket WITH day(instant)",
    "ADD PARTITION FIELD truncate(1, text) AS first_letter",
    "DROP PARTITION FIELD instant_day",
)


def files(world: MirroredWorld) -> dict[str, LiveFile]:
    return dict(live_files(world.mirror.io, world.mirror.current_snapshot()))


def assert_equals_oracle(world: MirroredWorld, java: IcebergJava) -> None:
    for verdict in (
        world.oracle.verdict(world.mirror),
        world.oracle.verdict_of_rows(java.rewrite(world.mirror).rows),
    ):
        assert verdict.equal, verdict


@pytest.mark.parametrize("version", [2, 3])
def test_new_files_use_a_spec_that_iceberg_java_changed(
    tmp_path: Path, java: IcebergJava, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("evolved", "int", COLUMNS, ("bucket[3](id)",), 81, 2, format_version=version)
    world = make_world(tmp_path, case, merges=2)
    spark = SparkSql.on(java, world)
    for change in CHANGES:
        before = files(world)
        spark.session.sql(f"ALTER TABLE {spark.mirror} {change}")
        for _ in range(2):
            commit_and_merge(world)
        after = files(world)
        spec_id = world.mirror.metadata.default_spec_id
        assert {file.spec_id for path, file in after.items() if path not in before} == {spec_id}
        assert all(before[path].spec_id == file.spec_id for path, file in after.items() if path in before)
        assert_equals_oracle(world, java)
    assert len({file.spec_id for file in files(world).values()}) > 1
    assert any(
        file.deleted_rows
        for file in files(world).values()
        if file.spec_id < world.mirror.metadata.default_spec_id
    )

    before = files(world)
    monkeypatch.setattr(choose, "FAN_IN", 2)
    assert world.pipeline.compact(world.pipeline.planner.require_plan(world.table)) is not None
    after, spec_id = files(world), world.mirror.metadata.default_spec_id
    assert {path for path, file in before.items() if file.spec_id != spec_id} <= after.keys()
    assert {file.spec_id for path, file in after.items() if path not in before} == {spec_id}
    assert_equals_oracle(world, java)
    commit_and_merge(world)
    assert_equals_oracle(world, java)
