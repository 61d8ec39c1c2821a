"""The identity of a process on this machine. Ids are used again, so the time at which it began belongs to it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PROC = Path("/proc")
_DEAD = ("Z", "X")


def identify(pid: int) -> str | None:
    """`pid@start time`, equal for as long as that process lives; None where there is none (or a dead child)."""
    found = _ask_proc(pid) if (_PROC / "self" / "stat").exists() else _ask_ps(pid)
    if found is None or found[0].startswith(_DEAD):
        return None
    return f"{pid}@{found[1]}"


def is_alive(identity: str) -> bool:
    """Does that very process still live?"""
    pid, _, _ = identity.partition("@")
    return pid.isdecimal() and identify(int(pid)) == identity


def _ask_proc(pid: int) -> tuple[str, str] | None:
    """State and start time on Linux: fields 3 and 22 of `stat`, after the name, which may hold anything."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], fields[19]


def _ask_ps(pid: int) -> tuple[str, str] | None:
    """State and start time on macOS."""
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
    )
    state, _, began = answer.stdout.strip().partition(" ")
    return (state, "-".join(began.split())) if began else None
