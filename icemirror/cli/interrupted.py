"""Ctrl-C, remembered: what it meets may make another error of it, as pydantic does while it makes a class."""

from __future__ import annotations

import signal
from types import FrameType

_times = 0


def remember_interrupts() -> None:
    """Counts each one, and raises KeyboardInterrupt as before; not where they are ignored, or somebody's already."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _count)


def was_interrupted() -> bool:
    """Whether there was one since then."""
    return _times > 0


def _count(number: int, frame: FrameType | None) -> None:
    global _times
    _times += 1
    signal.default_int_handler(number, frame)
