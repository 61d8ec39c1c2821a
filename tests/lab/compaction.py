"""A mirror that grows until it is compacted."""

from __future__ import annotations

from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.iceberg.live_files import live_files
from spark_job.maintenance.choose_files import FAN_IN
from spark_job.maintenance.compact import Compaction
from tests.lab.lab import Lab

OFF = "compact: false"


def grow(lab: Lab, merges: int = FAN_IN, first: int = 1) -> dict[int, str]:
    """Merge several times: each time three new rows, an update and a delete. Return the expected rows."""
    rows: dict[int, str] = {}
    for at in range(first, first + merges):
        words = [f"I{10 * at + step}@{at}" for step in range(3)]
        if at > 1:
            words += [f"U{10 * (at - 1)}@{at}", f"D{10 * (at - 1) + 1}@{at}"]
        lab.commit_events(" ".join(words))
        lab.merge()
        for word in words:
            rows[int(word[1:].split("@")[0])] = word
    return {key: word for key, word in rows.items() if word[0] != "D"}


def run_compaction(lab: Lab) -> Compaction | None:
    return lab.pipeline.compact(lab.pipeline.planner.require_plan(lab.table))


def data_files(lab: Lab) -> int:
    return len(live_files(lab.mirror.io, lab.mirror.current_snapshot()))


def assert_sound(lab: Lab) -> None:
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings
