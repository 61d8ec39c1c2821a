"""Detects when a mirror contains a commit: the catalog points to a snapshot whose cursor includes it."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Self

from benchmarks.embedded.lake import Commit, Lake

_POLL_SECONDS = 0.02
_BUSY_SECONDS = 5.0
_CURSOR = "icemirror.cursor"


class CommitPoller:
    """Polls the catalog in a thread while a `with` block runs."""

    def __init__(self, lake: Lake) -> None:
        self._file = lake.catalog_file
        self._mirrors = {writer.name for writer in lake.writers}
        self._pointers: dict[str, str] = {}
        self._seen: dict[str, list[tuple[float, int]]] = {name: [] for name in self._mirrors}
        self._changed = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def reached_at(self, commit: Commit) -> float | None:
        """Return when the mirror first contained the commit, or None."""
        seen = self._seen[commit.table]
        return next((time_seen for time_seen, merged in seen if merged >= commit.sequence_number), None)

    def wait_for(self, commit: Commit, timeout_seconds: float) -> float | None:
        """Wait for the commit; return when the mirror first contained it."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._error is not None or self.reached_at(commit) is not None, timeout_seconds
            )
        if self._error is not None:
            raise self._error
        return self.reached_at(commit)

    def _run(self) -> None:
        try:
            uri = f"file:{self._file}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)) as connection:
                while not self._ended.wait(_POLL_SECONDS):
                    self._poll(connection)
        except Exception as error:  # raised in the waiting thread
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _poll(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("SELECT table_name, metadata_location FROM iceberg_tables").fetchall()
        now = time.time()
        for name, pointer in found:
            if name in self._mirrors and self._pointers.get(name) != pointer:
                self._pointers[name] = pointer
                merged = _merged_sequence(Path(pointer.removeprefix("file://")))
                if merged is not None:
                    with self._changed:
                        self._seen[name].append((now, merged))
                        self._changed.notify_all()


def _merged_sequence(metadata: Path) -> int | None:
    """Return the changelog sequence number that the table's current snapshot has merged."""
    content = json.loads(metadata.read_text(encoding="utf-8"))
    for snapshot in reversed(content.get("snapshots", [])):
        if snapshot["snapshot-id"] == content["current-snapshot-id"] and _CURSOR in snapshot["summary"]:
            (source,) = json.loads(snapshot["summary"][_CURSOR])["sources"]
            return int(source["sequence_number"])
    return None
