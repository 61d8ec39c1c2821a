"""Replays of a range, and merges that skip files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from icemirror.protocol.replay import Replay, ReplayStep
from spark_job.plan import backlog
from spark_job.plan.slices import Slice, plan_slices
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab


def replay(lab: Lab, request: Replay, max_steps: int = 100) -> list[ReplayStep]:
    """Run all steps of a replay, as a worker does."""
    steps: list[ReplayStep] = []
    while not steps or not steps[-1].done:
        steps.append(replay_step(lab.pipeline, lab.table, request))
        request = replace(request, progress=steps[-1].progress)
        assert len(steps) <= max_steps
    return steps


def since(snapshot_id: int, to: int | None = None) -> Replay:
    return Replay("r1", 0.0, from_snapshot=snapshot_id, to_snapshot=to)


@contextmanager
def skip_files(monkeypatch: pytest.MonkeyPatch, *positions: int) -> Iterator[None]:
    """Let merges skip the files at these positions without an error."""
    plan = plan_slices

    def plan_without(*arguments: object) -> list[Slice]:
        slices = plan(*arguments)  # type: ignore[arg-type]
        return [
            replace(
                slice_,
                files=tuple(file for position, file in enumerate(slice_.files) if position not in positions),
            )
            for slice_ in slices
        ]

    with monkeypatch.context() as patch:
        patch.setattr(backlog, "plan_slices", plan_without)
        yield
