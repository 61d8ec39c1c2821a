"""Where to read on after a job has died."""

from __future__ import annotations


def see(log: str) -> str:
    """The end of a message: where the job's output is, if anybody knows."""
    return f"; see {log}" if log else "; its log says more"
