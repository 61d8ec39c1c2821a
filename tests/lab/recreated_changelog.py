"""A mirror whose changelog is recreated, or loses its history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyiceberg.schema import Schema

from icemirror.step_results import Rebuilt, Staged
from spark_job.engine.engine import InProcessEngine
from tests.lab.lab import ID_AND_NAME, Lab

OLD = {1: "c", 3: "c", 5: "I5@1", 6: "I6@3"}


def make(folder: Path, options: str = "", batch: int = 3) -> Lab:
    """Create a lab whose mirror has the rows `OLD`."""
    lab = Lab.make(folder, options=options, extra_config=f"batch_size: {batch}\n", engine=InProcessEngine(2))
    lab.commit_events("I1@1 I2@1 I3@1", "I4@1 I5@1")
    lab.commit_events("U1@2=b D2@2")
    lab.commit_events("U3@3=c U1@3=c", "D4@3 I6@3")
    lab.merge()
    return lab


def recreate_changelog(lab: Lab, schema: Schema = ID_AND_NAME) -> Lab:
    """Drop and recreate the changelog, like a TRUNCATE or a resync."""
    lab.catalog.drop_table("lab.world_changelog")
    return replace(lab, changelog=lab.catalog.create_table("lab.world_changelog", schema))


def lose_history(lab: Lab) -> None:
    """Expire all snapshots of the changelog except its head."""
    lab.changelog.refresh()
    head = lab.changelog.metadata.current_snapshot_id
    with lab.changelog.maintenance.expire_snapshots() as expiry:
        expiry.by_ids([old.snapshot_id for old in lab.changelog.snapshots() if old.snapshot_id != head])


def steps(lab: Lab, between: Callable[[], object] = lambda: None) -> list[Staged | Rebuilt]:
    """Advance until the mirror is rebuilt. Call `between` after each step."""
    done: list[Staged | Rebuilt] = []
    while not done or not isinstance(done[-1], Rebuilt):
        step = lab.pipeline.advance(lab.table)
        assert isinstance(step, Staged | Rebuilt), step
        done.append(step)
        between()
        assert len(done) < 50
    return done
