"""Schema changes of a changelog, and the rows of its mirror."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.table.update.schema import UpdateSchema

from icemirror.protocol.replay import Replay, ReplayStep
from spark_job.commands.verify.verify_table import VerifyOptions, verify_table
from spark_job.rebuild.replay import replay_step
from tests.lab.lab import Lab, rows_table, sequence_text

_OPERATION = {"I": "INSERT", "U": "UPDATE", "D": "DELETE"}


def change_columns(lab: Lab, *steps: Callable[[UpdateSchema], object]) -> None:
    """Change the columns of the changelog, in one commit."""
    lab.changelog.refresh()
    with lab.changelog.update_schema(allow_incompatible_changes=True) as update:
        for step in steps:
            step(update)


def commit_events(lab: Lab, *words: str, **values: Any) -> int:
    """Commit one file with the changelog's current columns: `U5@7` updates key 5 with sequence 7 to `values`."""
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
    """Return all rows, sorted by key, as PyIceberg reads them."""
    unsorted: list[dict[str, Any]] = lab.mirror.scan().to_arrow().to_pylist()
    return sorted(unsorted, key=lambda row: str(row["id"]))


def assert_sound(lab: Lab) -> None:
    """Check that every row equals its newest event in all columns, and that the index agrees."""
    report = verify_table(lab.pipeline, lab.table, VerifyOptions(deep=True))
    assert report.equal, report.findings


def rebuild(lab: Lab, request: str = "full-1") -> list[ReplayStep]:
    """Run a full rebuild to its end. Return its steps."""
    steps: list[ReplayStep] = []
    progress = None
    while not steps or not steps[-1].done:
        steps.append(replay_step(lab.pipeline, lab.table, Replay(request, 0.0, full=True, progress=progress)))
        progress = steps[-1].progress
        assert len(steps) < 50
    return steps
