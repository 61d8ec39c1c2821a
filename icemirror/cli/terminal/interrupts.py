"""Records Ctrl-C, because code may turn it into another error, as pydantic does while it builds a class."""

from __future__ import annotations

import signal
from types import FrameType

_times = 0


def remember_interrupts() -> None:
    """Count interruptions and raise KeyboardInterrupt as before. Does nothing if SIGINT is ignored or has a handler."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _count)


def command_interrupted() -> bool:
    """Return whether Ctrl-C was pressed since `remember_interrupts`."""
    return _times > 0


def _count(number: int, frame: FrameType | None) -> None:
    global _times
    _times += 1
    signal.default_int_handler(number, frame)
