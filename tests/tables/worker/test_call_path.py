"""The call path from the worker to the steps of a merge is short, and the source map describes it."""

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


def test_call_path_from_worker_to_collapse_has_at_most_12_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, bench = Lab.make(tmp_path), Bench(tmp_path)
    lab.commit_events("I1@1 I2@2")
    paths = list[list[str]]()

    def record_path(events: Any) -> Any:
        names = [frame.name for frame in traceback.extract_stack()]
        paths.append(names[names.index("run_worker") : -1])
        return collapse_changes(events)

    monkeypatch.setattr(pipeline, "collapse_changes", record_path)
    bench.served = WorkerTables(lab.settings, "run-1")
    bench.notice("lab.world")
    bench.run()
    (path,) = paths
    assert len(path) + 1 <= MAX_FRAMES, path
    assert lab.rows() == {1: "I1@1", 2: "I2@2"}


def test_source_map_names_files_and_functions_that_exist() -> None:
    root = Path(__file__).parents[3]
    steps = re.findall(r"`((?:spark_job|trigger|icemirror)/[\w/]+\.py): ([\w.]+)`", PAGE.read_text())
    assert len(steps) > 12
    for path, name in steps:
        source = (root / path).read_text()
        assert re.search(rf"(?:def|class) {name.rpartition('.')[2]}\b", source), f"{path} has no {name}"
