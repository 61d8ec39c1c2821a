"""The backlog between a mirror and the noticed head, if the changelog's metadata is a file on this machine.

Otherwise the trigger reads no metadata, and knows only what jobs report.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from icemirror.protocol.rows import TableRow
from icemirror.step_results import Backlog

_MAX_BYTES = 32 << 20


class _Commit(NamedTuple):
    snapshot_id: int
    events: int | None  # None: not an operation of a changelog
    committed_at: float


@dataclass(frozen=True, slots=True)
class _ChangelogHistory:
    uuid: str
    commits: tuple[_Commit, ...]  # oldest first, as far back as the metadata goes


class LocalBacklogs:
    """Measures backlogs from local metadata, read once per noticed head. Safe for several threads."""

    def __init__(self) -> None:
        self._histories: dict[str, tuple[str, _ChangelogHistory | None]] = {}  # by table, with its head

    def measure(self, row: TableRow) -> Backlog | None:
        """Return what the mirror has not merged of the noticed head after the last job; None if unknown."""
        head, cursor = row.noticed_head, row.position.cursor if row.position else None
        if head is None or cursor is None or not cursor.sources or cursor.source.files_done is not None:
            return None
        history = self._load_history(row.name, head)
        if history is None or history.uuid != cursor.source.uuid:
            return None
        snapshot_ids = [commit.snapshot_id for commit in history.commits]
        if cursor.source.snapshot_id not in snapshot_ids:
            return None
        unmerged = history.commits[snapshot_ids.index(cursor.source.snapshot_id) + 1 :]
        events = [commit.events for commit in unmerged if commit.events is not None]
        if len(events) < len(unmerged):
            return None
        since = unmerged[0].committed_at if unmerged else None
        return Backlog(snapshots=len(unmerged), events=sum(events), since=since)

    def _load_history(self, table: str, head: str) -> _ChangelogHistory | None:
        cached_head, history = self._histories.get(table, (None, None))
        if cached_head != head:
            history = _read_history(head)
            self._histories[table] = (head, history)
        return history


def _read_history(head: str) -> _ChangelogHistory | None:
    path = Path(head.removeprefix("file://"))
    if not path.is_absolute():
        return None
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        with gzip.open(path) if path.name.endswith(".gz.metadata.json") else path.open("rb") as file:
            return _parse_history(json.loads(file.read(_MAX_BYTES)))
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        return None  # the file is missing or malformed: the job that merges it reports the error


def _parse_history(metadata: Mapping[str, Any]) -> _ChangelogHistory:
    """Return the commits from the head backwards, as far as the parents are known."""
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}
    commits: list[_Commit] = []
    snapshot_id = metadata.get("current-snapshot-id")
    while (snapshot := snapshots.pop(snapshot_id, None)) is not None:
        events = _count_events(snapshot["summary"])
        commits.append(_Commit(snapshot["snapshot-id"], events, snapshot["timestamp-ms"] / 1000))
        snapshot_id = snapshot.get("parent-snapshot-id")
    return _ChangelogHistory(str(metadata["table-uuid"]), tuple(reversed(commits)))


def _count_events(summary: Mapping[str, str]) -> int | None:
    match summary["operation"]:
        case "append":
            return int(summary.get("added-records", 0))
        case "replace":  # rewritten files, same rows
            return 0
        case _:
            return None
