"""Structured logs on stderr: one JSON object per line, or short lines for terminals.

    log = get_log(__name__)
    with bind(table="shop.orders", run="r-1"):
        log.info("slice committed", events=2000)

Every line has `table`, `run` and `batch`, null if not bound. Bound values are in a context variable: a new thread
starts with none. Never log row or key values.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Literal

from icemirror.telemetry.log_format import JsonFormatter, TextFormatter

LogFormat = Literal["json", "text", "console"]

NOISY_LIBRARIES = (  # their INFO messages are not logged
    "py4j",
    "pyiceberg",
    "urllib3",
    "botocore",
    "boto3",
    "s3transfer",
    "aiokafka",
    "kafka",
    "httpx2",  # lightkube's
    "httpcore2",
    "asyncio",
)

_bound: ContextVar[Mapping[str, str]] = ContextVar("bound", default=MappingProxyType({}))


class _Stderr(logging.Handler):
    """Writes to the current `sys.stderr`, so that a later redirection is followed."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write each record at once, so that lines of several processes do not mix."""
        line = self.format(record) + "\n"
        with suppress(AttributeError, OSError, ValueError):  # stderr is closed: no reason to fail
            sys.stderr.write(line)
            sys.stderr.flush()


class Log:
    """Logs events: a constant short text, and fields for the variable parts."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, /, **fields: object) -> None:
        """Log a detail for debugging."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        """Log that something was done."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        """Log a problem that does not stop the work."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        """Log a failure without an exception."""
        self._write(logging.ERROR, event, fields)

    def failure(self, event: str, error: BaseException, /, **fields: object) -> None:
        """Log a failure with its exception: kind, message and traceback."""
        self._write(logging.ERROR, event, fields, error)

    def _write(
        self, level: int, event: str, fields: Mapping[str, object], error: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", event, extra={"fields": fields}, exc_info=error)


def get_log(name: str) -> Log:
    """Return the log of a module: `log = get_log(__name__)`."""
    return Log(name)


@contextmanager
def bind(*, table: str | None = None, run: str | None = None, batch: str | None = None) -> Iterator[None]:
    """Add these fields to every line logged inside; inner values win."""
    fields = {"table": table, "run": run, "batch": batch}
    token = _bound.set(
        {**_bound.get(), **{name: value for name, value in fields.items() if value is not None}}
    )
    try:
        yield
    finally:
        _bound.reset(token)


def bound_fields() -> Mapping[str, str]:
    """Return the bound fields, to pass on to another thread or an error report."""
    return _bound.get()


def configure_logs(
    *,
    log_format: LogFormat = "json",
    log_level: str = "info",
    project_ref: str,
    environment: str,
    debug: bool = False,
) -> None:
    """Send all logs of the process, including those of libraries, to stderr in this format.

    With `debug`, or the level debug, JSON includes tracebacks of icemirror's errors.
    """
    labels = {"project_ref": project_ref, "environment": environment}
    handler = _Stderr()
    handler.setFormatter(
        JsonFormatter(labels, bound_fields, debug=debug or log_level == "debug")
        if log_format == "json"
        else TextFormatter(bound_fields, _colours)
    )
    root = logging.getLogger()
    for old_handler in [old_handler for old_handler in root.handlers if isinstance(old_handler, _Stderr)]:
        root.removeHandler(old_handler)
    root.addHandler(handler)
    root.setLevel(log_level.upper())
    for name in NOISY_LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)


def _colours() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
