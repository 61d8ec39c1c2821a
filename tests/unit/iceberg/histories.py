"""A changelog's history, as paths of files."""

from __future__ import annotations

from pyiceberg.table import Table

from icemirror.tables.cursor import CursorSource
from spark_job.changelog.history import added_files, history_since


def added(table: Table, source: CursorSource | None = None) -> dict[int, list[str]]:
    """Snapshot → paths of the files that it added."""
    history = history_since(table.refresh(), "raw.orders", source)
    files = added_files(table.io, "raw.orders", history)
    return {snapshot_id: [file.path for file in found] for snapshot_id, found in files.items()}


def head_id(table: Table) -> int:
    head = table.refresh().current_snapshot()
    assert head is not None
    return head.snapshot_id


def in_order(table: Table) -> list[str]:
    """All files of the history in the order of events."""
    history = history_since(table.refresh(), "raw.orders", None)
    files = added_files(table.io, "raw.orders", history)
    return [file.path for one in history.snapshots for file in files.get(one.snapshot_id, [])]
