"""The tools of the parts: systems in separate processes, a scratch folder, and progress output."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Self

from benchmarks.messages import Start
from benchmarks.process import Process
from benchmarks.progress import Progress
from benchmarks.systems.catalogue import SYSTEMS

_ABANDONED_SECONDS = 24 * 3600


@dataclass(frozen=True)
class Limits:
    """Settings that all systems share."""

    cores: int
    driver_memory: str
    timeout_seconds: float


class Bench:
    """Opens systems. With `keep`, one process serves all parts: faster, but warmed up by earlier parts."""

    def __init__(self, limits: Limits, scratch: Path, progress: Progress, *, keep: bool) -> None:
        self.limits = limits
        self.progress = progress
        self._scratch = scratch
        self._keep = keep
        self._kept: dict[str, Process] = {}
        self._stack = ExitStack()
        self.versions: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._scratch.mkdir(parents=True, exist_ok=True)
        for leftover in self._scratch.glob("bench-*"):  # a run that was killed could not clean up
            if time.time() - leftover.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(leftover, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield an empty folder, deleted afterwards."""
        folder = Path(mkdtemp(prefix="bench-", dir=self._scratch))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def open(self, system: str, driver_memory: str | None = None) -> Iterator[Process]:
        """Yield a started system; its tables are deleted at the end of the block, unless systems are kept."""
        if self._keep:
            if system not in self._kept:
                self._kept[system] = self._start(self._stack, system, driver_memory)
            yield self._kept[system]
            return
        with ExitStack() as stack:
            yield self._start(stack, system, driver_memory)

    def _start(self, stack: ExitStack, system: str, driver_memory: str | None) -> Process:
        self.progress.step(f"{system}: start")
        folder = stack.enter_context(self.folder())
        workspace = folder / "workspace"
        workspace.mkdir()
        path = SYSTEMS[system].python_path()
        process = stack.enter_context(
            Process(system, folder / "log", self.limits.timeout_seconds, python_path=path)
        )
        memory = driver_memory or self.limits.driver_memory
        request = Start(workspace=workspace, cores=self.limits.cores, driver_memory=memory)
        self.versions |= process.start(request).versions
        return process
