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
    """This machine's, moved by some seconds."""

    def __init__(self) -> None:
        self.ahead, self._now = 0.0, time.time

    def __call__(self) -> float:
        return self._now() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


def assert_java_would_read(lab: Lab) -> None:
    """What Iceberg Java asks of a table's times, without the minute that it forgives."""
    metadata = lab.mirror.metadata
    for log in (metadata.snapshot_log, metadata.metadata_log):
        times = [*(entry.timestamp_ms for entry in log), metadata.last_updated_ms]
        assert all(before <= after for before, after in pairwise(times)), times


@pytest.mark.parametrize("version", [2, 3])
def test_a_job_whose_clock_is_behind_leaves_a_table_that_java_reads(
    tmp_path: Path, clock: Clock, version: int
) -> None:
    lab = Lab.make(tmp_path, options=f"format_version: {version}\n{SMALL}")
    for number, ahead in enumerate([AHEAD, 0, 0, -AHEAD, AHEAD, 0, 0, 0, 0], 1):
        clock.ahead = ahead
        lab.commit_events(f"U1@{number} I{number + 1}@{number}")
        lab.merge()
        assert_java_would_read(lab)
    assert len(lab.mirror.metadata.snapshots) <= 6, "those that seem to be of the future go by number"
    assert lab.rows()[1] == "U1@9"


def test_a_snapshot_of_another_writer_from_the_future_is_followed(lab: Lab, clock: Clock) -> None:
    lab.commit_events("I1@1")
    lab.merge()
    clock.ahead = AHEAD
    append(lab.mirror, [(9, "foreign")])
    clock.ahead = 0
    lab.commit_events("I2@2")
    lab.merge()
    assert_java_would_read(lab)


def test_a_clock_that_is_right_is_gone_by(lab: Lab) -> None:
    lab.commit_events("I1@1")
    before = int(time.time() * 1000)
    lab.merge()
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert before <= head.timestamp_ms <= time.time() * 1000 + 1


def test_expire_on_a_machine_whose_clock_is_behind_removes_nothing(lab: Lab, clock: Clock) -> None:
    lab.commit_events("I1@1")
    clock.ahead = AHEAD
    lab.merge()
    clock.ahead = 0
    before = lab.mirror.metadata_location
    with pytest.raises(Invalid, match=r"last update is 1[78]\d seconds ahead of this machine.s clock"):
        expire(lab.mirror, "lab.world")
    assert lab.mirror.metadata_location == before
    assert expire(lab.mirror, "lab.world", dry_run=True).snapshots == 0
