"""Data files that could not be compacted: a process tries each of them once."""

from __future__ import annotations

from collections.abc import Iterable

from icemirror.telemetry.logs import get_log
from spark_job.iceberg.live_files import LiveFile

log = get_log(__name__)


class SkippedFiles:
    """Files by their paths, which Iceberg never reuses."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def __contains__(self, file: LiveFile) -> bool:
        return file.path in self._paths

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, files: Iterable[LiveFile], reason: str) -> None:
        """Skip these files until the process ends."""
        paths = [file.path for file in files]
        self._paths.update(paths)
        log.warning("small data files skipped", files=len(paths), first=paths[0], reason=reason)
