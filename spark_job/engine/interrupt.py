"""Records Ctrl-C while Spark works, because Spark may turn it into any error.

PySpark's handler asks Java to cancel its jobs over the connection that waits for their end. That can hang, or fail and
hide the interruption. Java ends with this process anyway.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_received = threading.Event()


def was_interrupted() -> bool:
    """Return whether Ctrl-C was pressed since Spark first started; any later error is then the interruption."""
    return _received.is_set()


class _InterruptRecorder:
    """A SIGINT handler that records the interruption and then calls the original handler."""

    def __init__(self, original: Callable[[int, FrameType | None], object]) -> None:
        self._original = original

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        _received.set()
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        logging.getLogger().addFilter(_is_not_from_py4j)  # it logs a traceback to the root logger
        self._original(signal_number, frame)


@contextmanager
def keep_interrupt_handler() -> Iterator[None]:
    """Keep the current SIGINT handler while Spark starts and afterwards, and record each interruption."""
    current = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(current):
        yield
        return
    # A second start of Spark must not wrap the recorder again.
    recorder = current if isinstance(current, _InterruptRecorder) else _InterruptRecorder(current)
    signal.signal(signal.SIGINT, recorder)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, recorder)  # PySpark has installed its own


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
