"""A merged mirror, and its rebuild step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from icemirror.protocol.replay import Replay, ReplayStep
from spark_job.engine.engine import InProcessEngine
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab

FULL = Replay("full-1", 0.0, full=True)


def run_rebuild(
    lab: Lab, between: Callable[[], object] = lambda: None, request: Replay = FULL
) -> list[ReplayStep]:
    """Run all steps of a rebuild; call `between` after each."""
    steps: list[ReplayStep] = []
    while not steps or not steps[-1].done:
        steps.append(replay_step(lab.pipeline, lab.table, request))
        request = replace(request, progress=steps[-1].progress)
        between()
        assert len(steps) < 50
    return steps


def make(folder: Path, options: str = "", batch: int = 3) -> Lab:
    lab = Lab.make(folder, options=options, extra_config=f"batch_size: {batch}\n", engine=InProcessEngine(2))
    lab.commit_events("I1@1 I2@1 I3@1", "I4@1 I5@1")
    lab.commit_events("U1@2=b D2@2")
    lab.commit_events("U3@3=c U1@3=c", "D4@3 I6@3")
    lab.merge()
    return lab


ROWS = {1: "c", 3: "c", 5: "I5@1", 6: "I6@3"}
