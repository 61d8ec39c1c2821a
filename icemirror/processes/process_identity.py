"""Identity of a process on this machine. Process ids are reused, so the start time is part of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PROC = Path("/proc")
_DEAD = ("Z", "X")


def identify(pid: int) -> str | None:
    """Return `pid@start time`, constant while the process lives; None if it does not exist or is a zombie."""
    state_and_start = _read_proc(pid) if (_PROC / "self" / "stat").exists() else _run_ps(pid)
    if state_and_start is None or state_and_start[0].startswith(_DEAD):
        return None
    return f"{pid}@{state_and_start[1]}"


def is_alive(identity: str) -> bool:
    """Return whether exactly this process still lives."""
    pid, _, _ = identity.partition("@")
    return pid.isdecimal() and identify(int(pid)) == identity


def _read_proc(pid: int) -> tuple[str, str] | None:
    """Read state and start time on Linux: fields 3 and 22 of `stat`, after the name, which may contain anything."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


def _run_ps(pid: int) -> tuple[str, str] | None:
    """Read state and start time on macOS."""
    result = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
    )
    state, _, started = result.stdout.strip().partition(" ")
    return (state, "-".join(started.split())) if started else None
