"""Named crash points: a test may ask a process to kill itself at one, to show that running again is enough.

`ICEMIRROR_CRASH_AT=name` kills the process (SIGKILL: no handler, no clean-up) when it reaches that point,
`ICEMIRROR_CRASH_AT=name:3` at the third time. Without the variable `reach` does nothing.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "ICEMIRROR_CRASH_AT"

_name, _, _count = os.environ.get(VARIABLE, "").partition(":")
_left = int(_count or "1")


def reach(point: str) -> None:
    """Marks a place, before or after an effect, where the process may die."""
    if _name and point == _name:
        _die_at_the_last()


def _die_at_the_last() -> None:
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
