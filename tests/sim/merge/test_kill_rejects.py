"""`kill -9` before and after each effect of recording rejects: after the next run each bad row is rejected once."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.lab.bad_rows import MIXED, REJECTED, bad_events, make, rejected, rejects
from tests.lab.lab import Lab
from tests.sim.crash_points import REJECT_POINTS
from tests.sim.merge.forked_job import Work, merge, rebuild, run_forked

ROOT = Path(__file__).parents[3]
MERGE_POINTS = ("segment-written", "write-deletes", "root-written", "commit", "committed")
_FIRST_TIME_ONLY = ("create-rejects", "rejects-created")


def _run(lab: Lab, work: Work, crash_at: str | None = None) -> int:
    return run_forked(work, lab.settings.source_path, 2, crash_at)


def test_every_crash_point_of_rejects_is_tested() -> None:
    sources = (ROOT / "spark_job" / "rejects").glob("*.py")
    points = [name for path in sources for name in re.findall(r'crash_point\("([^"]+)"\)', path.read_text())]
    assert sorted(points) == sorted(REJECT_POINTS)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("point", [*REJECT_POINTS, *MERGE_POINTS])
def test_killed_merge_rejects_bad_rows_once(tmp_path: Path, point: str, version: int) -> None:
    lab = make(tmp_path, f"format_version: {version}")
    expected = list(REJECTED)
    if point not in _FIRST_TIME_ONLY:
        lab.commit(bad_events("I9@1 X9@1=first"))
        assert _run(lab, merge) == 0
        expected.append(("unknown-operation", "first"))
    merged = lab.catalog.table_exists("lab.world") and lab.mirror.metadata.current_snapshot_id
    lab.commit(bad_events(MIXED))
    assert _run(lab, merge, point) == -signal.SIGKILL, f"{point} was not reached"
    if lab.mirror.metadata.current_snapshot_id != (merged or None):
        assert rejected(lab) == expected, "the mirror moved before the bad rows were rejected"
    assert _run(lab, merge) == 0
    assert rejected(lab) == expected
    assert {key: name for key, name in lab.rows().items() if key != 9} == {1: "b", 3: "I3@5"}


@pytest.mark.parametrize("point", [*REJECT_POINTS, "stage-merged", "stage-kept", "swap", "swapped"])
def test_killed_rebuild_rejects_bad_rows_once(tmp_path: Path, point: str) -> None:
    """The rejects table was dropped, so the rebuild creates it."""
    lab = make(tmp_path)
    lab.commit(bad_events(MIXED))
    assert _run(lab, merge) == 0
    rows = lab.rows()
    lab.catalog.drop_table("lab.world_rejects")
    assert _run(lab, rebuild, point) == -signal.SIGKILL, f"{point} was not reached"
    assert _run(lab, rebuild) == 0
    assert (lab.rows(), rejected(lab)) == (rows, REJECTED)
    assert len(rejects(lab).metadata.snapshots) == 1
