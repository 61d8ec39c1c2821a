"""Records Ctrl-C, because code may turn it into another error, as pydantic does while it builds a class."""

from __future__ import annotations

import signal
from types import FrameType

_interrupt_count = 0


def record_interrupts() -> None:
    """Count interruptions and raise KeyboardInterrupt as before. Does nothing if SIGINT is ignored or has a handler."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _count_interrupt)


def command_interrupted() -> bool:
    """Return whether Ctrl-C was pressed since `record_interrupts`."""
    return _interrupt_count > 0


def _count_interrupt(signal_number: int, frame: FrameType | None) -> None:
    global _interrupt_count
    _interrupt_count += 1
    signal.default_int_handler(signal_number, frame)
