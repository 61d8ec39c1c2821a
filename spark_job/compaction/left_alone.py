"""Data files that could not be put together. They are not read again and again: a process tries them once."""

from __future__ import annotations

from collections.abc import Iterable

from icemirror.telemetry.logs import get_log
from spark_job.iceberg.view import LiveFile

log = get_log(__name__)


class LeftAlone:
    """They are known by their paths, which no other file ever has."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def __contains__(self, file: LiveFile) -> bool:
        return file.path in self._paths

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, files: Iterable[LiveFile], reason: str) -> None:
        """Until this process ends."""
        paths = [file.path for file in files]
        self._paths.update(paths)
        log.warning("small data files left as they are", files=len(paths), first=paths[0], reason=reason)
