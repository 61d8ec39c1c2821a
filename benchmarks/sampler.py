"""Peak memory of a process group, sampled from /proc; shared pages are divided among their processes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

_PROC = Path("/proc")
_EVERY_SECONDS = 0.25


def can_sample() -> bool:
    """Return whether the system reports the memory of processes (Linux does)."""
    return (_PROC / "self" / "smaps_rollup").exists()


class MemorySampler:
    """Samples a process group periodically while a `with` block runs."""

    def __init__(self, group: int) -> None:
        self._group = group
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak_bytes = 0
        self.peak_by_process: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            sizes = self._sample()
            if sum(sizes.values()) > self.peak_bytes:
                self.peak_bytes, self.peak_by_process = sum(sizes.values()), sizes
            self._ended.wait(_EVERY_SECONDS)

    def _sample(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for folder in _PROC.iterdir():
            if not folder.name.isdigit():
                continue
            try:
                # pid (comm) state ppid pgrp session …; the name may contain spaces and brackets
                fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                if self._group not in (int(fields[2]), int(fields[3])):
                    continue
                kind = self._kind(int(folder.name), (folder / "comm").read_text(encoding="utf-8").strip())
                rollup = (folder / "smaps_rollup").read_text(encoding="utf-8")
            except OSError:  # the process has ended
                continue
            pss = next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
            sizes[kind] = sizes.get(kind, 0) + int(pss) * 1024
        return sizes

    def _kind(self, pid: int, command: str) -> str:
        if pid == self._group:
            return "driver"
        return "Java" if command == "java" else "Python workers"
