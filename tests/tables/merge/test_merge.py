"""Whole merges, compared with the oracle."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import StringType

from icemirror.result import SliceResult
from spark_job.changelog import resolve_shape
from spark_job.commands.merge_table import merge_table
from spark_job.engine.engine import InProcessEngine
from spark_job.index.key_codec import choose_codec
from spark_job.index.root import read_root
from spark_job.index.scan import read_segment_entries
from tests.lab.lab import Lab, changelog_schema, rows_table, sequence_text
from tests.lab.mirrored_world import MirroredWorld
from tests.oracle.schedules import Schedule

TEXT_KEY = changelog_schema(("id", StringType()), ("name", StringType()))


@pytest.mark.parametrize(
    ("key", "partition_by"),
    [
        ("int", "bucket[3](id)"),
        ("uuid", "bucket[3](id)"),
        ("string", "truncate[1](id)"),
        ("composite", "order_id"),
    ],
)
def test_partitioned_mirror_equals_the_oracle_after_every_snapshot(
    tmp_path: Path, key: str, partition_by: str
) -> None:
    """`revision` changes with every event, so rows move from partition to partition."""
    options = f'partition_by: ["{partition_by}", "bucket[2](revision)"]'
    schedule = Schedule(3, key, columns=("double", "words"))
    world = MirroredWorld.make(tmp_path, schedule, InProcessEngine(), options=options, use_duckdb=False)
    for commits in (2, 3):
        world.oracle.commit_many(commits)
        assert merge_table(world.pipeline, world.table).error is None
    verdicts = world.oracle.verdicts_of_history(world.mirror)
    assert verdicts
    for snapshot_id, verdict in verdicts.items():
        assert verdict.equal, f"snapshot {snapshot_id}: {verdict}"


@pytest.mark.parametrize("key", ["int", "string"])
def test_mirror_with_a_sort_order_equals_the_oracle_after_every_snapshot(tmp_path: Path, key: str) -> None:
    schedule = Schedule(5, key, columns=("double", "text"))
    world = MirroredWorld.make(tmp_path, schedule, InProcessEngine(), use_duckdb=False)
    world.oracle.commit_many(2)
    assert merge_table(world.pipeline, world.table).error is None
    with world.mirror.update_sort_order() as order:
        order.desc("double", IdentityTransform(), NullOrder.NULLS_FIRST).asc("text", TruncateTransform(1))
    for _ in range(2):
        world.oracle.commit_many(2)
        assert merge_table(world.pipeline, world.table).error is None
    ordered = world.mirror.metadata.default_sort_order_id
    assert {None, ordered} == {task.file.sort_order_id for task in world.mirror.scan().plan_files()}
    verdicts = world.oracle.verdicts_of_history(world.mirror)
    assert len(verdicts) > 2
    for snapshot_id, verdict in verdicts.items():
        assert verdict.equal, f"snapshot {snapshot_id}: {verdict}"


def test_index_locates_exactly_the_live_rows(tmp_path: Path) -> None:
    schedule = Schedule(8, "int", columns=("double",), distinct_keys=40)
    world = MirroredWorld.make(tmp_path, schedule, InProcessEngine(2), use_duckdb=False)
    for _ in range(4):
        world.oracle.commit_many(2)
        assert merge_table(world.pipeline, world.table).error is None
    root = read_root(world.mirror.io, world.mirror.metadata.properties["icemirror.index-root"])
    locations: dict[int, tuple[str, int]] = {}
    seen: set[int] = set()
    for segment in root.segments:
        entries = read_segment_entries(world.mirror.io, segment)
        for position in range(len(entries)):
            key = entries.keys.at(position) - 2**63
            if key not in seen and entries.file[position] >= 0:
                file = root.files[segment.files[entries.file[position]]]
                locations[key] = (file.path, int(entries.pos[position]))
            seen.add(key)
    live = world.mirror.scan().to_arrow()["id"].to_pylist()
    assert sorted(locations) == sorted(live)
    assert root.live_rows == len(live)
    assert len(set(locations.values())) == len(locations)


def test_slice_result_reports_counts(lab: Lab) -> None:
    lab.commit_events("I1@1 I2@1 I3@1")
    lab.merge()
    lab.commit_events("U1@2 D2@2 I4@2 D9@2 U3@0")
    reported: list[SliceResult] = []
    result = merge_table(lab.pipeline, lab.table, reported.append)
    (slice_,) = result.slices
    counts = (slice_.events, slice_.inserted, slice_.updated, slice_.deleted, slice_.stale, slice_.unchanged)
    assert counts == (5, 1, 1, 1, 1, 1)
    assert (slice_.data_files, slice_.delete_files) == (1, 1)
    assert reported == [slice_]
    assert result.live_rows == 3


def test_merge_without_new_events_is_up_to_date_and_commits_nothing(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    location = lab.mirror.metadata_location
    result = lab.merge()
    assert (result.outcome, result.slices, result.live_rows) == ("up-to-date", (), 1)
    assert lab.mirror.metadata_location == location


def test_changelog_without_snapshots_is_up_to_date_and_creates_no_mirror(lab: Lab) -> None:
    result = lab.merge()
    assert (result.outcome, result.cursor) == ("up-to-date", None)
    assert not lab.catalog.table_exists("lab.world")


def test_tombstone_blocks_older_inserts_across_slices(lab: Lab) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    lab.commit_events("D1@5")
    lab.merge()
    lab.commit_events("I1@4=late")
    assert lab.merge().slices[0].stale == 1
    assert lab.rows() == {}
    lab.commit_events("I1@6=new")
    lab.merge()
    assert lab.rows() == {1: "new"}


def test_delete_of_an_unknown_key_blocks_older_inserts(lab: Lab) -> None:
    lab.commit_events("D1@5")
    lab.merge()
    lab.commit_events("I1@4=late")
    lab.merge()
    assert lab.rows() == {}


def test_duplicate_batch_changes_nothing(lab: Lab) -> None:
    batch = "I1@1 U2@2=x D3@3"
    lab.commit_events("I2@1 I3@1")
    lab.commit_events(batch)
    lab.merge()
    before = lab.rows()
    lab.commit_events(batch)
    lab.merge()
    assert lab.rows() == before == {1: "I1@1", 2: "x"}


def text_rows(keys: list[str], name: str, sequence: int, operation: str = "UPDATE") -> pa.Table:
    cdc = {"cdc_operation": operation, "sequence_number": sequence_text(sequence)}
    return rows_table(TEXT_KEY, [{"id": key, "name": name, **cdc} for key in keys])


@pytest.fixture
def four_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use hashes of 4 bits, which collide."""
    monkeypatch.setattr(resolve_shape, "choose_codec", partial(choose_codec, hash_bits=4))


@pytest.mark.usefixtures("four_bits")
def test_hash_collision_with_an_existing_row_is_detected_before_the_commit(tmp_path: Path) -> None:
    lab = Lab.make(tmp_path, TEXT_KEY)
    lab.commit(text_rows(["a"], "first", 1))
    lab.merge()
    for number in range(200):
        before = lab.mirror.metadata_location
        lab.commit(text_rows([f"k{number}"], "x", 2))
        result = lab.try_merge()
        if result.error is not None:
            assert "does not have the key that the index states" in result.error.message
            assert lab.mirror.metadata_location == before
            assert lab.rows()["a"] == "first"
            return
        assert len(lab.rows()) == number + 2
    pytest.fail("200 keys have 16 codes, but no collision was detected")


@pytest.mark.usefixtures("four_bits")
@pytest.mark.parametrize("files", [1, 2, 17])
def test_hash_collision_within_one_slice_is_detected_before_the_commit(tmp_path: Path, files: int) -> None:
    """Seventeen keys share sixteen codes: one event would be dropped as another key's older event."""
    lab = Lab.make(tmp_path, TEXT_KEY)
    keys = [f"k{number}" for number in range(17)]
    lab.commit(*(text_rows(keys[offset::files], "x", 1) for offset in range(files)))
    result = lab.try_merge()
    assert result.error is not None or len(lab.rows()) == 17
