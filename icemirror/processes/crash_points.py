"""Named crash points: a test can have a process kill itself at one, to show that a rerun recovers.

`ICEMIRROR_CRASH_AT=name` kills the process (SIGKILL: no handler, no clean-up) when it reaches that point, and
`ICEMIRROR_CRASH_AT=name:3` when it reaches it the third time. Without the variable `crash_point` does nothing.
"""

from __future__ import annotations

import os
import signal

CRASH_VARIABLE = "ICEMIRROR_CRASH_AT"

_name, _, _count = os.environ.get(CRASH_VARIABLE, "").partition(":")
_remaining = int(_count or "1")


def crash_point(point: str) -> None:
    """Mark a point, before or after an effect, where a test can kill the process."""
    if _name and point == _name:
        _count_down()


def _count_down() -> None:
    global _remaining
    _remaining -= 1
    if _remaining == 0:
        os.kill(os.getpid(), signal.SIGKILL)
