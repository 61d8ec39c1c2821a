"""The watch's process and the Spark jobs that it launched, found by what is noted of them in the folder."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from icemirror.local_process import identify, is_alive

_LOOK_SECONDS = 0.1
_WATCH_NOTE = "watch.pid"


def running_jobs(folder: Path) -> list[str]:
    """The identities (`pid@start`) of jobs that run; `folder` is where the trigger's state is."""
    noted = (note.read_text() for note in sorted((folder / "runs").glob("*.run")))
    return [identity for identity in noted if is_alive(identity)]


def newest_job_log(folder: Path) -> Path | None:
    """What the latest job wrote, if there was one."""
    logs = sorted((folder / "logs").glob("*.log"), key=lambda log: log.stat().st_mtime)
    return logs[-1] if logs else None


def note_watch(folder: Path, pid: int) -> None:
    """Notes the watch's process, for a demo that has to end what an earlier one could not."""
    (folder / _WATCH_NOTE).write_text(identify(pid) or "")


def end_leftovers(folder: Path, patience_seconds: float) -> None:
    """Ends what a demo left running that was killed."""
    note = folder / _WATCH_NOTE
    if note.exists() and is_alive(identity := note.read_text()):
        with suppress(ProcessLookupError):
            os.kill(_pid(identity), signal.SIGTERM)
        until = time.monotonic() + patience_seconds
        while is_alive(identity) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
    end_jobs(folder, patience_seconds)


def end_jobs(folder: Path, patience_seconds: float) -> None:
    """Asks every job to end, which it does after the slice at hand; kills what is left after a while."""
    # A job leads a process group of its own, with Spark's JVM in it.
    jobs = [(identity, _pid(identity)) for identity in running_jobs(folder)]
    for _, pid in jobs:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + patience_seconds
    for identity, pid in jobs:
        while (is_alive(identity) or _has_members(pid)) and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _pid(identity: str) -> int:
    return int(identity.partition("@")[0])


def _has_members(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
