"""The way from the worker to the steps of a merge is short, and it is the one that the source map describes."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from spark_job import pipeline
from spark_job.merge.collapse import collapse_changes
from spark_job.worker.tables import WorkerTables
from tests.lab.lab import Lab
from tests.unit.spark_job.worker.worker_bench import Bench

MAX_FRAMES = 12
PAGE = Path(__file__).parents[3] / "docs" / "development" / "source-map.md"


def test_at_most_12_frames_lie_between_the_worker_and_collapse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, bench = Lab.make(tmp_path), Bench(tmp_path)
    lab.commit_events("I1@1 I2@2")
    walks = list[list[str]]()

    def recorded(events: Any) -> Any:
        names = [frame.name for frame in traceback.extract_stack()]
        walks.append(names[names.index("run_worker") : -1])
        return collapse_changes(events)

    monkeypatch.setattr(pipeline, "collapse_changes", recorded)
    monkeypatch.setattr(bench, "advance", WorkerTables(lab.settings, "run-1").advance)
    bench.notice("lab.world")
    bench.run()
    (walk,) = walks
    assert len(walk) + 1 <= MAX_FRAMES, walk
    assert lab.rows() == {1: "I1@1", 2: "I2@2"}


def test_the_source_map_names_files_and_functions_that_exist() -> None:
    root = Path(__file__).parents[3]
    steps = re.findall(r"`((?:spark_job|trigger|icemirror)/[\w/]+\.py): ([\w.]+)`", PAGE.read_text())
    assert len(steps) > 12
    for path, name in steps:
        source = (root / path).read_text()
        assert re.search(rf"(?:def|class) {name.rpartition('.')[2]}\b", source), f"{path} has no {name}"
