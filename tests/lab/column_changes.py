"""A changelog whose columns change, and the rows that its mirror should have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.table.update.schema import UpdateSchema

from icemirror.protocol.replay import Replay, ReplayStep
from spark_job.inspect.verify.verify_table import VerifyOptions, verify_table
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab, rows_table, sequence_text

_OPERATION = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}


def change_columns(lab: Lab, *steps: Callable[[UpdateSchema], object]) -> None:
    """Changes the changelog's columns, in one commit."""
    lab.changelog.refresh()
    with lab.changelog.update_schema(allow_incompatible_changes=True) as update:
        for step in steps:
            step(update)


def commit_events(lab: Lab, *words: str, **values: Any) -> int:
    """A commit of one file on the changelog as it is now: `U5@7` updates key 5 with sequence 7, to these values."""
    lab.changelog.refresh()
    rows = []
    for word in words:
        operation, (key, sequence) = word[0], word[1:].split("@")
        rows.append(
            {
                "id": int(key),
                "cdc_operation": _OPERATION[operation],
                "sequence_number": sequence_text(int(sequence)),
                **values,
            }
        )
    return lab.commit(rows_table(lab.changelog.schema(), rows))


def rows(lab: Lab) -> list[dict[str, Any]]:
    """All columns of all rows by key, as PyIceberg reads them."""
    found: list[dict[str, Any]] = lab.mirror.scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


def assert_sound(lab: Lab) -> None:
    """Every row is what its event tells, in all columns, and the index knows it."""
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings


def rebuild(lab: Lab, request: str = "full-1") -> list[ReplayStep]:
    """Step by step until it is done."""
    steps: list[ReplayStep] = []
    progress = None
    while not steps or not steps[-1].done:
        steps.append(replay_step(lab.pipeline, lab.table, Replay(request, 0.0, full=True, progress=progress)))
        progress = steps[-1].progress
        assert len(steps) < 50
    return steps
