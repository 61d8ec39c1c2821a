"""The Spark jobs that a watch launched on this machine, found by what the local launcher notes of them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from icemirror.local_process import is_alive

_LOOK_SECONDS = 0.1


def running_jobs(folder: Path) -> list[str]:
    """The identities (`pid@start`) of jobs that run; `folder` is where the trigger's state is."""
    noted = (note.read_text() for note in sorted((folder / "runs").glob("*.run")))
    return [identity for identity in noted if is_alive(identity)]


def newest_job_log(folder: Path) -> Path | None:
    """What the latest job wrote, if there was one."""
    logs = sorted((folder / "logs").glob("*.log"), key=lambda log: log.stat().st_mtime)
    return logs[-1] if logs else None


def end_jobs(folder: Path, patience_seconds: float) -> None:
    """Asks every job to end, which it does after the slice at hand; kills what is left after a while."""
    # A job leads a process group of its own, with Spark's JVM in it.
    jobs = [(identity, int(identity.partition("@")[0])) for identity in running_jobs(folder)]
    for _, pid in jobs:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + patience_seconds
    for identity, pid in jobs:
        while (is_alive(identity) or _has_members(pid)) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
