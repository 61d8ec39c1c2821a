from __future__ import annotations

import pytest

from spark_job.changelog.added_files import ChangelogFile
from spark_job.engine.size_policy import (
    INSPECTION,
    MERGES,
    InProcess,
    OneTask,
    Placement,
    Sharded,
    SizePolicy,
    WorkSize,
    estimate_events,
)

MB = 1 << 20
LIMITED = SizePolicy(spark_from_events=20_000)


def size(events: int, size_bytes: int = 0) -> WorkSize:
    return WorkSize(events, size_bytes, events, size_bytes)


@pytest.mark.parametrize(
    ("policy", "work", "placement"),
    [
        pytest.param(LIMITED, size(19_999, 8 * MB), InProcess(), id="few events of few bytes"),
        pytest.param(LIMITED, size(20_000), OneTask(), id="spark_from_events reached"),
        pytest.param(LIMITED, size(1, 8 * MB + 1), OneTask(), id="few events of many bytes"),
        pytest.param(LIMITED, WorkSize(1, 1, 20_000, 1), OneTask(), id="long history"),
        pytest.param(MERGES, size(0), OneTask(), id="spark_from_events 0 never runs in process"),
        pytest.param(MERGES, size(1_000_000, 64 * MB), OneTask(), id="largest single task"),
        pytest.param(MERGES, size(1_000_001), Sharded(1), id="one event more"),
        pytest.param(MERGES, size(1, 64 * MB + 1), Sharded(1), id="one byte more"),
        pytest.param(MERGES, size(4_000_001), Sharded(3), id="shards by events"),
        pytest.param(MERGES, size(1, 96 * 5 * MB), Sharded(5), id="shards by bytes"),
        pytest.param(INSPECTION, size(2_000_000, 256 * MB), InProcess(), id="largest inspection in process"),
        pytest.param(INSPECTION, size(2_000_001), Sharded(2), id="large inspection"),
    ],
)
def test_size_decides_where_work_runs(policy: SizePolicy, work: WorkSize, placement: Placement) -> None:
    assert policy.where_to_run(work) == placement


def test_unknown_event_counts_are_estimated_from_bytes() -> None:
    assert estimate_events(ChangelogFile("", 1600, 0, 0, 0)) == 100
    assert estimate_events(ChangelogFile("", 1600, 7, 0, 0)) == 7
