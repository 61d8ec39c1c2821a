"""Helpers that list the files of a changelog's history."""

from __future__ import annotations

from pyiceberg.table import Table

from icemirror.errors import Invalid
from icemirror.tables.cursor import CursorSource
from spark_job.changelog.added_files import added_files
from spark_job.changelog.history import CursorExpired, history_since, whole_history


def added(table: Table, source: CursorSource | None = None) -> dict[int, list[str]]:
    """Snapshot → paths of the files that it added."""
    changelog = table.refresh()
    history = (
        history_since(changelog, "raw.orders", source) if source else whole_history(changelog, "raw.orders")
    )
    if isinstance(history, CursorExpired):
        raise Invalid(history.message)
    files = added_files(table.io, "raw.orders", history)
    return {snapshot_id: [file.path for file in listed] for snapshot_id, listed in files.items()}


def head_id(table: Table) -> int:
    head = table.refresh().current_snapshot()
    assert head is not None
    return head.snapshot_id


def in_order(table: Table) -> list[str]:
    """All files of the history in the order of events."""
    history = whole_history(table.refresh(), "raw.orders")
    files = added_files(table.io, "raw.orders", history)
    return [file.path for snapshot in history.snapshots for file in files.get(snapshot.snapshot_id, [])]
