"""Jobs on machines whose clocks differ."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from icemirror.errors import Invalid
from spark_job.maintenance.expire import expire
from tests.lab.foreign import append
from tests.lab.lab import Lab
from tests.tables.maintenance.conftest import SMALL

AHEAD = 180


class Clock:
    """This machine's clock, `ahead` seconds ahead."""

    def __init__(self) -> None:
        self.ahead, self._now = 0.0, time.time

    def __call__(self) -> float:
        return self._now() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


def assert_readable_by_java(lab: Lab) -> None:
    """Check the order of times that Iceberg Java requires, without its tolerance of one minute."""
    metadata = lab.mirror.metadata
    for log in (metadata.snapshot_log, metadata.metadata_log):
        times = [*(entry.timestamp_ms for entry in log), metadata.last_updated_ms]
        assert all(before <= after for before, after in pairwise(times)), times


@pytest.mark.parametrize("version", [2, 3])
def test_table_stays_readable_by_java_after_a_job_whose_clock_is_behind(
    tmp_path: Path, clock: Clock, version: int
) -> None:
    lab = Lab.make(tmp_path, options=f"format_version: {version}\n{SMALL}")
    for number, ahead in enumerate([AHEAD, 0, 0, -AHEAD, AHEAD, 0, 0, 0, 0], 1):
        clock.ahead = ahead
        lab.commit_events(f"U1@{number} I{number + 1}@{number}")
        lab.merge()
        assert_readable_by_java(lab)
    assert len(lab.mirror.metadata.snapshots) <= 6, "snapshots with a future time expire by number"
    assert lab.rows()[1] == "U1@9"


def test_foreign_snapshot_with_a_future_time_is_followed(lab: Lab, clock: Clock) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    clock.ahead = AHEAD
    append(lab.mirror, [(9, "foreign")])
    clock.ahead = 0
    lab.commit_events("I2@2")
    lab.merge()
    assert_readable_by_java(lab)


def test_snapshot_time_is_that_of_a_correct_clock(lab: Lab) -> None:
    lab.commit_events("I1@1")
    before = int(time.time() * 1000)
    lab.merge()
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert before <= head.timestamp_ms <= time.time() * 1000 + 1


def test_expire_with_a_clock_that_is_behind_removes_nothing(lab: Lab, clock: Clock) -> None:
    lab.commit_events("I1@1")
    clock.ahead = AHEAD
    lab.merge()
    clock.ahead = 0
    before = lab.mirror.metadata_location
    with pytest.raises(Invalid, match=r"last update is 1[78]\d seconds ahead of this machine.s clock"):
        expire(lab.mirror, "lab.world")
    assert lab.mirror.metadata_location == before
    assert expire(lab.mirror, "lab.world", dry_run=True).snapshots == 0
