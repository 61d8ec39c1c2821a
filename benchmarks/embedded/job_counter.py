"""Counts jobs that run at the same time, and the Spark sessions among them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from icemirror.processes.process_identity import identify, is_alive

_PROC = Path("/proc")
_POLL_SECONDS = 0.2
_LAUNCHER = b"org.apache.spark.launcher.Main"  # only builds the command line of Spark's Java process


def can_count() -> bool:
    """Return whether the system lists processes (Linux does)."""
    return (_PROC / "self" / "stat").exists()


class JobCounter:
    """Counts periodically in a thread while a `with` block runs. A job is a session; its Spark is a Java process."""

    def __init__(self, jobs: Callable[[], list[str]]) -> None:
        self._jobs = jobs
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._sparks: set[str] = set()
        self.most_jobs = self.most_sparks = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def sparks(self) -> int:
        """Return the number of Spark sessions seen so far."""
        return len(self._sparks)

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            alive = {int(run.partition("@")[0]) for run in self._jobs() if is_alive(run)}
            sparks = {identity for pid in _java_processes(alive) if (identity := identify(pid)) is not None}
            self._sparks |= sparks
            self.most_jobs = max(self.most_jobs, len(alive))
            self.most_sparks = max(self.most_sparks, len(sparks))


def _java_processes(sessions: set[int]) -> list[int]:
    found: list[int] = []
    for folder in _PROC.iterdir() if sessions and can_count() else ():
        if not folder.name.isdigit():
            continue
        try:
            if (folder / "comm").read_text(encoding="utf-8").strip() != "java":
                continue
            if _LAUNCHER in (folder / "cmdline").read_bytes():
                continue
            # pid (comm) state ppid pgrp session …
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        if int(fields[3]) in sessions:
            found.append(int(folder.name))
    return found
