"""What lies between a mirror and the head that was looked at, where the changelog's metadata is a file of this machine.

Elsewhere the trigger reads no metadata: it knows what jobs tell.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from icemirror.result import Left
from icemirror.state.rows import TableRow

_LARGEST_BYTES = 32 << 20


class _Commit(NamedTuple):
    snapshot_id: int
    events: int | None  # None: it is none that a changelog should have
    made_at: float


@dataclass(frozen=True, slots=True)
class _Lineage:
    uuid: str
    commits: tuple[_Commit, ...]  # the oldest first, as far back as they are known


class Lineages:
    """Reads a changelog's metadata once for each head that was noticed. Several threads may use it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, _Lineage | None]] = {}

    def left(self, row: TableRow) -> Left | None:
        """What of the noticed head the mirror, as the last job left it, has not merged; None if that is not known."""
        head, cursor = row.noticed_head, row.position.cursor if row.position else None
        if head is None or cursor is None or not cursor.sources or cursor.source.files_done is not None:
            return None
        found = self._of(row.name, head)
        if found is None or found.uuid != cursor.source.uuid:
            return None
        ids = [commit.snapshot_id for commit in found.commits]
        if cursor.source.snapshot_id not in ids:
            return None
        after = found.commits[ids.index(cursor.source.snapshot_id) + 1 :]
        events = [commit.events for commit in after if commit.events is not None]
        if len(events) < len(after):
            return None
        since = after[0].made_at if after else None
        return Left(snapshots=len(after), events=sum(events), since=since)

    def _of(self, table: str, head: str) -> _Lineage | None:
        known = self._known.get(table)
        if known is None or known[0] != head:
            known = self._known[table] = (head, _read(head))
        return known[1]


def _read(head: str) -> _Lineage | None:
    path = Path(head.removeprefix("file://"))
    if not path.is_absolute():
        return None
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        with gzip.open(path) if path.name.endswith(".gz.metadata.json") else path.open("rb") as file:
            return _parse(json.loads(file.read(_LARGEST_BYTES)))
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        return None  # the file went, or is not what it should be: whoever merges it says so


def _parse(metadata: Mapping[str, Any]) -> _Lineage:
    """From the head back."""
    snapshots = {one["snapshot-id"]: one for one in metadata.get("snapshots", ())}
    commits: list[_Commit] = []
    at = metadata.get("current-snapshot-id")
    while (snapshot := snapshots.pop(at, None)) is not None:
        events = _events(snapshot["summary"])
        commits.append(_Commit(snapshot["snapshot-id"], events, snapshot["timestamp-ms"] / 1000))
        at = snapshot.get("parent-snapshot-id")
    return _Lineage(str(metadata["table-uuid"]), tuple(reversed(commits)))


def _events(summary: Mapping[str, str]) -> int | None:
    match summary["operation"]:
        case "append":
            return int(summary.get("added-records", 0))
        case "replace":  # the same rows in other files
            return 0
        case _:
            return None
