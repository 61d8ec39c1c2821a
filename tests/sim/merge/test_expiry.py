"""Many small merges: the mirror stays right, its metadata and its files stay as few as at the beginning."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from spark_job.engine import InProcess
from spark_job.maintenance.orphans import clean_orphans
from spark_job.maintenance.retention import lineage, main_head
from spark_job.merge import merge_table
from tests.mirrors import MirroredWorld
from tests.oracle.schedules import Schedule
from tests.referenced import referenced_files, stored_files

MERGES = 150
KEPT = 20
OPTIONS = f"""table_properties:
  icemirror.max-snapshots: "{KEPT}"
  history.expire.min-snapshots-to-keep: "5"
"""


@pytest.mark.timeout(1200)
def test_the_last_of_many_merges_costs_what_an_early_one_does(tmp_path: Path) -> None:
    schedule = Schedule(21, "int", columns=("double",), largest_commit=6)
    lab = MirroredWorld.make(tmp_path, schedule, InProcess(), options=OPTIONS, ask_files=False)
    seconds: list[float] = []
    metadata_bytes: list[int] = []
    tagged: int | None = None
    while len(seconds) < MERGES:
        lab.world.commit_next()
        result = merge_table(lab.pipeline, lab.table)
        assert result.error is None, result.error
        steps = [part.seconds_by_step for part in result.slices]
        seconds += [step["deletes"] + step["commit"] + step["expire"] for step in steps]
        metadata_bytes.append(len(Path(lab.mirror.metadata_location.removeprefix("file://")).read_bytes()))
        if len(seconds) == 40:
            head = lab.mirror.current_snapshot()
            assert head is not None
            tagged = head.snapshot_id
            lab.mirror.manage_snapshots().create_tag(tagged, "audit").commit()
    assert stored_files(tmp_path / "warehouse") == referenced_files(lab.mirror)
    assert tagged is not None
    assert lab.world.verdict(lab.mirror, tagged).equal, "what a tag keeps can still be read"
    oldest = list(lineage(lab.mirror.metadata, main_head(lab.mirror.metadata)))[-1]
    assert lab.world.verdict(lab.mirror, oldest.snapshot_id).equal
    assert lab.world.verdict(lab.mirror).equal
    assert len(lab.mirror.metadata.snapshots) <= KEPT + KEPT // 10 + 2
    head = lab.mirror.current_snapshot()
    assert head is not None
    assert len(head.manifests(lab.mirror.io)) <= 62
    full = metadata_bytes[KEPT + 10 : KEPT + 50]
    assert max(metadata_bytes[-40:]) <= 1.1 * max(full)
    # Medians, and a ratio far below what growth would give: the machine may be busy.
    early, late = seconds[KEPT + 10 : KEPT + 50], seconds[-40:]
    assert statistics.median(late) <= 3 * statistics.median(early), json.dumps([early, late])
    left = clean_orphans(lambda: lab.mirror, "lab.world", older_than_seconds=-60, dry_run=True)
    assert left.files == 0
