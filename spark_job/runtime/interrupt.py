"""Ctrl-C while Spark works: noted when it comes, since what Spark makes of it may be any error.

PySpark's own handler tells Java to cancel its jobs on the very connection that waits for their end. That can hang, or
fail and hide the interruption; and Java ends with this process anyway.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_received = threading.Event()


def was_interrupted() -> bool:
    """Whether Ctrl-C came since Spark was first started: then whatever fails on Spark is the interruption."""
    return _received.is_set()


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Around the start of Spark: Ctrl-C means what it meant before, during the start and after it, and is noted."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    meant = before

    def note(number: int, frame: FrameType | None) -> None:
        _received.set()
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_not_of_py4j)  # it logs by the root logger, with a traceback
        meant(number, frame)

    ours = before if getattr(before, "notes_interrupts", False) else note
    note.notes_interrupts = True  # type: ignore[attr-defined]  # a second start does not wrap it once more
    signal.signal(signal.SIGINT, ours)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, ours)  # PySpark has put its own there


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
