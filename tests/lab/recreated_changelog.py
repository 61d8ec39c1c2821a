"""A mirror whose changelog is then made anew, or loses its history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyiceberg.schema import Schema

from icemirror.result import Rebuilt, Staged
from spark_job.engine.engine import InProcessEngine
from tests.lab.lab import ID_AND_NAME, Lab

OLD = {1: "c", 3: "c", 5: "I5@1", 6: "I6@3"}


def make(folder: Path, options: str = "", batch: int = 3) -> Lab:
    """A merged mirror with the rows `OLD`."""
    lab = Lab.make(folder, options=options, tail=f"batch_size: {batch}\n", engine=InProcessEngine(2))
    lab.commit_events("I1@1 I2@1 I3@1", "I4@1 I5@1")
    lab.commit_events("U1@2=b D2@2")
    lab.commit_events("U3@3=c U1@3=c", "D4@3 I6@3")
    lab.merge()
    return lab


def recreate_changelog(lab: Lab, schema: Schema = ID_AND_NAME) -> Lab:
    """The changelog was dropped and created again: TRUNCATE, or a re-sync."""
    lab.catalog.drop_table("lab.world_changelog")
    return replace(lab, changelog=lab.catalog.create_table("lab.world_changelog", schema))


def lose_history(lab: Lab) -> None:
    """Everything but the changelog's head expires."""
    lab.changelog.refresh()
    head = lab.changelog.metadata.current_snapshot_id
    with lab.changelog.maintenance.expire_snapshots() as expiry:
        expiry.by_ids([one.snapshot_id for one in lab.changelog.snapshots() if one.snapshot_id != head])


def steps(lab: Lab, between: Callable[[], object] = lambda: None) -> list[Staged | Rebuilt]:
    """Until the mirror is rebuilt; `between` happens after each step."""
    done: list[Staged | Rebuilt] = []
    while not done or not isinstance(done[-1], Rebuilt):
        step = lab.pipeline.advance(lab.table)
        assert isinstance(step, Staged | Rebuilt), step
        done.append(step)
        between()
        assert len(done) < 50
    return done
